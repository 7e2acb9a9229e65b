//! Date and time functions.
//!
//! A date and time is a number of ticks of 100 ns since 1970 in UTC, from year 1 to 9999. The
//! functions read a date, or a date and time with `T` or a space between them, any number of
//! fraction digits, and an optional `Z`. They write `yyyy-MM-ddTHH:mm:ss.fffffffZ`.

use super::{Arguments, Function, Implementation, entry, strict};
use jiff::civil::{Date, DateTime};
use orrery_model::json::Json;

/// Ticks of a second, a minute, an hour and a day.
const SECOND: i64 = 10_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Ticks of a millisecond.
const MILLISECOND: i64 = SECOND / 1_000;

/// Makes the table entry of a function that reads the clock.
const fn clock(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(&mut crate::run::frame::Context<'_>, Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    entry(names, arity, doc, Implementation::Context(run))
}

pub(super) const TABLE: &[Function] = &[
    clock(
        &["GETCURRENTDATETIME"],
        (0, 0),
        "the current date and time as text",
        |cx, _| format_ticks(ticks_of_ms(cx.now_ms)),
    ),
    clock(
        &["GETCURRENTTIMESTAMP"],
        (0, 0),
        "milliseconds since 1970",
        |cx, _| Some(Json::from(cx.now_ms)),
    ),
    clock(
        &["GETCURRENTTICKS"],
        (0, 0),
        "ticks of 100 ns since 1970",
        |cx, _| Some(Json::from(ticks_of_ms(cx.now_ms))),
    ),
    clock(
        &["GETCURRENTDATETIMESTATIC"],
        (0, 0),
        "the time at which the query began, as text",
        |cx, _| format_ticks(ticks_of_ms(cx.started_ms)),
    ),
    clock(
        &["GETCURRENTTIMESTAMPSTATIC"],
        (0, 0),
        "the time at which the query began, in milliseconds since 1970",
        |cx, _| Some(Json::from(cx.started_ms)),
    ),
    clock(
        &["GETCURRENTTICKSSTATIC"],
        (0, 0),
        "the time at which the query began, in ticks since 1970",
        |cx, _| Some(Json::from(ticks_of_ms(cx.started_ms))),
    ),
    clock(
        &["NOW"],
        (0, 2),
        "the current date and time plus a number of parts",
        |cx, a| {
            let now = ticks_of_ms(cx.now_ms);
            if a.len() == 0 {
                return format_ticks(now);
            }
            format_ticks(add(part(a, 0)?, a.integer(1)?, now)?)
        },
    ),
    clock(
        &["AGO"],
        (2, 2),
        "the current date and time minus a number of parts",
        |cx, a| {
            let count = a.integer(1)?.checked_neg()?;
            format_ticks(add(part(a, 0)?, count, ticks_of_ms(cx.now_ms))?)
        },
    ),
    strict(
        &["DATETIMEADD"],
        (3, 3),
        "a date and time plus a number of parts",
        |a| format_ticks(add(part(a, 0)?, a.integer(1)?, ticks(a, 2)?)?),
    ),
    strict(
        &["DATETIMEDIFF"],
        (3, 3),
        "the number of boundaries of the part between two times",
        |a| {
            let (part, from, to) = (part(a, 0)?, ticks(a, 1)?, ticks(a, 2)?);
            let crossed = boundaries(part, to)?.checked_sub(boundaries(part, from)?)?;
            Some(Json::from(crossed))
        },
    ),
    strict(
        &["DATETIMEPART"],
        (2, 2),
        "a part of a date and time as a number",
        |a| part_value(part(a, 0)?, ticks(a, 1)?).map(Json::from),
    ),
    strict(
        &["DATETIMEBIN"],
        (2, 4),
        "the start of the bin that contains a date and time",
        bin,
    ),
    strict(
        &["DATETIMEFROMPARTS"],
        (3, 7),
        "the date and time of year, month, day, hour, minute, second and ticks",
        from_parts,
    ),
    strict(
        &["DATETIMETOTICKS"],
        (1, 1),
        "ticks of 100 ns since 1970",
        |a| Some(Json::from(ticks(a, 0)?)),
    ),
    strict(
        &["DATETIMETOTIMESTAMP"],
        (1, 1),
        "milliseconds since 1970",
        |a| Some(Json::from(ticks(a, 0)?.div_euclid(MILLISECOND))),
    ),
    strict(
        &["TICKSTODATETIME"],
        (1, 1),
        "the date and time of ticks of 100 ns since 1970",
        |a| format_ticks(a.integer(0)?),
    ),
    strict(
        &["TIMESTAMPTODATETIME"],
        (1, 1),
        "the date and time of milliseconds since 1970",
        |a| format_ticks(a.integer(0)?.checked_mul(MILLISECOND)?),
    ),
    strict(
        &["DATETIMEFORMAT"],
        (2, 2),
        "a date and time in a format of yyyy, MM, dd, HH, mm, ss, fff and FFF",
        |a| format(ticks(a, 0)?, a.text(1)?),
    ),
    strict(&["YEAR"], (1, 1), "the year of a date and time", |a| {
        part_value(Part::Year, ticks(a, 0)?).map(Json::from)
    }),
    strict(&["MONTH"], (1, 1), "the month of a date and time", |a| {
        part_value(Part::Month, ticks(a, 0)?).map(Json::from)
    }),
    strict(&["DAY"], (1, 1), "the day of a date and time", |a| {
        part_value(Part::Day, ticks(a, 0)?).map(Json::from)
    }),
];

/// A part of a date and time, as the first argument of many functions names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Weekday,
}

/// The names of each part, which are read in any case.
const PARTS: &[(Part, &[&str])] = &[
    (Part::Year, &["year", "yyyy", "yy"]),
    (Part::Month, &["month", "mm", "m"]),
    (Part::Day, &["day", "dd", "d"]),
    (Part::Hour, &["hour", "hh"]),
    (Part::Minute, &["minute", "mi", "n"]),
    (Part::Second, &["second", "ss", "s"]),
    (Part::Millisecond, &["millisecond", "ms"]),
    (Part::Microsecond, &["microsecond", "mcs"]),
    (Part::Nanosecond, &["nanosecond", "ns"]),
    (Part::Weekday, &["weekday", "dw", "w"]),
];

/// Reads an argument as the name of a part.
fn part(a: Arguments<'_, '_>, index: usize) -> Option<Part> {
    let name = a.text(index)?;
    PARTS
        .iter()
        .find(|(_, names)| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
        .map(|(part, _)| *part)
}

/// Returns the ticks of a part of fixed length. A nanosecond is shorter than a tick.
fn length(part: Part) -> Option<i64> {
    match part {
        Part::Day => Some(DAY),
        Part::Hour => Some(HOUR),
        Part::Minute => Some(MINUTE),
        Part::Second => Some(SECOND),
        Part::Millisecond => Some(MILLISECOND),
        Part::Microsecond => Some(SECOND / 1_000_000),
        Part::Year | Part::Month | Part::Nanosecond | Part::Weekday => None,
    }
}

/// Reads an argument as the text of a date and time.
fn ticks(a: Arguments<'_, '_>, index: usize) -> Option<i64> {
    parse_ticks(without_offset(a.text(index)?))
}

/// Returns a date and time without the offset from UTC behind it, such as `+01:30`. The date and
/// the time count as they are written.
fn without_offset(text: &str) -> &str {
    const SHORTEST: usize = "yyyy-MM-ddTHH:mm:ss+hh:mm".len();
    let Some(at) = text.len().checked_sub("+hh:mm".len()) else {
        return text;
    };
    let Some(offset) = text.as_bytes().get(at..) else {
        return text;
    };
    let is_offset = matches!(offset[0], b'+' | b'-')
        && offset[3] == b':'
        && digits(offset, 1, 2).is_some_and(|hours| hours <= 14)
        && digits(offset, 4, 2).is_some_and(|minutes| minutes < 60);
    match text.len() >= SHORTEST && is_offset {
        true => &text[..at],
        false => text,
    }
}

fn ticks_of_ms(ms: u64) -> i64 {
    i64::try_from(ms)
        .unwrap_or(i64::MAX)
        .saturating_mul(MILLISECOND)
}

/// Parses the text of a date, or of a date and time. Returns `None` for any other text.
pub(super) fn parse_ticks(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let bytes = text.as_bytes();
    let has_sign = |at: usize, signs: &[u8]| bytes.get(at).is_some_and(|b| signs.contains(b));

    // yyyy-MM-dd
    if !has_sign(4, b"-") || !has_sign(7, b"-") {
        return None;
    }
    let (year, month, day) = (
        digits(bytes, 0, 4)?,
        digits(bytes, 5, 2)?,
        digits(bytes, 8, 2)?,
    );
    let date = days_since_1970(year, month, day)?;
    if bytes.len() == 10 {
        return Some(date * DAY);
    }

    // THH:mm:ss, and a fraction of which seven digits count
    if !has_sign(10, b"T ") || !has_sign(13, b":") || !has_sign(16, b":") {
        return None;
    }
    let fraction = match bytes.get(19..) {
        Some([]) => 0,
        Some([b'.', rest @ ..]) if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            let padded = rest.iter().copied().chain(std::iter::repeat(b'0')).take(7);
            padded.fold(0i64, |n, b| n * 10 + i64::from(b - b'0'))
        }
        _ => return None,
    };
    let (hour, minute, second) = (
        digits(bytes, 11, 2)?,
        digits(bytes, 14, 2)?,
        digits(bytes, 17, 2)?,
    );
    Some(date * DAY + time_of_day(hour, minute, second)? + fraction)
}

/// Parses a number of digits.
fn digits(bytes: &[u8], from: usize, count: usize) -> Option<i64> {
    let mut n = 0i64;
    for byte in bytes.get(from..from + count)? {
        if !byte.is_ascii_digit() {
            return None;
        }
        n = n * 10 + i64::from(byte - b'0');
    }
    Some(n)
}

/// Returns the days since 1970 of a date in the years 1 to 9999.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year) {
        return None;
    }
    let year = i16::try_from(year).ok()?;
    let month = i8::try_from(month).ok()?;
    let day = i8::try_from(day).ok()?;
    let date = Date::new(year, month, day).ok()?;
    let span = date.since(Date::constant(1970, 1, 1)).ok()?;
    Some(i64::from(span.get_days()))
}

/// Returns the ticks since midnight.
fn time_of_day(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let is_valid =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    is_valid.then_some(hour * HOUR + minute * MINUTE + second * SECOND)
}

/// Returns the calendar date and time, and the ticks of the fraction of the second. Returns `None`
/// outside the years 1 to 9999.
fn calendar(ticks: i64) -> Option<(DateTime, i64)> {
    let days = i32::try_from(ticks.div_euclid(DAY)).ok()?;
    let span = jiff::Span::new().try_days(days).ok()?;
    let date = Date::constant(1970, 1, 1).checked_add(span).ok()?;
    if !(1..=9999).contains(&date.year()) {
        return None;
    }
    let rest = ticks.rem_euclid(DAY);
    let small = |n: i64| i8::try_from(n).unwrap_or_default();
    let hour = small(rest / HOUR);
    let minute = small(rest / MINUTE % 60);
    let second = small(rest / SECOND % 60);
    Some((date.at(hour, minute, second, 0), rest % SECOND))
}

/// Returns the text of a date and time, in full.
fn format_ticks(ticks: i64) -> Option<Json> {
    let (c, fraction) = calendar(ticks)?;
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{fraction:07}Z",
        c.year(),
        c.month(),
        c.day(),
        c.hour(),
        c.minute(),
        c.second()
    );
    Some(Json::String(text))
}

fn add(part: Part, count: i64, ticks: i64) -> Option<i64> {
    match part {
        Part::Year => add_months(count.checked_mul(12)?, ticks),
        Part::Month => add_months(count, ticks),
        Part::Nanosecond => ticks.checked_add(count / 100),
        Part::Weekday => None,
        _ => ticks.checked_add(count.checked_mul(length(part)?)?),
    }
}

/// Adds months. A day that the month does not have becomes the last day of the month.
fn add_months(count: i64, ticks: i64) -> Option<i64> {
    let (c, _) = calendar(ticks)?;
    let months = (i64::from(c.year()) * 12 + i64::from(c.month()) - 1).checked_add(count)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let date = (1..=i64::from(c.day()))
        .rev()
        .find_map(|day| days_since_1970(year, month, day))?;
    Some(date * DAY + ticks.rem_euclid(DAY))
}

/// Returns the number of boundaries of a part between a fixed time and this one. DATETIMEDIFF is
/// the difference of two such numbers.
fn boundaries(part: Part, ticks: i64) -> Option<i64> {
    match part {
        Part::Year => Some(i64::from(calendar(ticks)?.0.year())),
        Part::Month => {
            let (c, _) = calendar(ticks)?;
            Some(i64::from(c.year()) * 12 + i64::from(c.month()))
        }
        Part::Nanosecond => ticks.checked_mul(100),
        _ => Some(ticks.div_euclid(length(part)?)),
    }
}

/// Returns the value of a part. A weekday counts from 1 for Sunday.
fn part_value(part: Part, ticks: i64) -> Option<i64> {
    let (c, fraction) = calendar(ticks)?;
    Some(match part {
        Part::Year => c.year().into(),
        Part::Month => c.month().into(),
        Part::Day => c.day().into(),
        Part::Hour => c.hour().into(),
        Part::Minute => c.minute().into(),
        Part::Second => c.second().into(),
        Part::Millisecond => fraction / 10_000,
        Part::Microsecond => fraction / 10,
        Part::Nanosecond => fraction * 100,
        Part::Weekday => c.weekday().to_sunday_one_offset().into(),
    })
}

/// DATETIMEBIN: date and time, part, parts of a bin (1 by default), and the start of a bin (1970 by
/// default, 1601 at the earliest).
fn bin(a: Arguments<'_, '_>) -> Option<Json> {
    let (ticks_of_time, part, size) = (ticks(a, 0)?, part(a, 1)?, a.integer_or(2, 1)?);
    let origin = if a.len() > 3 { ticks(a, 3)? } else { 0 };
    if size <= 0 || origin < parse_ticks("1601-01-01")? {
        return None;
    }
    let bin_length = match part {
        Part::Year => return bin_of_months(ticks_of_time, size.checked_mul(12)?, origin),
        Part::Month => return bin_of_months(ticks_of_time, size, origin),
        // A bin of nanoseconds is at least a tick long.
        Part::Nanosecond => (size / 100).max(1),
        _ => length(part)?.checked_mul(size)?,
    };
    let bins = (ticks_of_time - origin).div_euclid(bin_length);
    format_ticks(origin.checked_add(bins.checked_mul(bin_length)?)?)
}

/// Returns the start of a bin of some months.
fn bin_of_months(ticks: i64, size: i64, origin: i64) -> Option<Json> {
    let months = boundaries(Part::Month, ticks)?.checked_sub(boundaries(Part::Month, origin)?)?;
    let bins = months.div_euclid(size);
    let mut start = add_months(bins * size, origin)?;
    // The bin may begin later within the month than the time.
    if start > ticks {
        start = add_months((bins - 1) * size, origin)?;
    }
    format_ticks(start)
}

fn from_parts(a: Arguments<'_, '_>) -> Option<Json> {
    let date = days_since_1970(a.integer(0)?, a.integer(1)?, a.integer(2)?)?;
    let time = time_of_day(
        a.integer_or(3, 0)?,
        a.integer_or(4, 0)?,
        a.integer_or(5, 0)?,
    )?;
    let fraction = a.integer_or(6, 0)?;
    if !(0..SECOND).contains(&fraction) {
        return None;
    }
    format_ticks(date * DAY + time + fraction)
}

/// DATETIMEFORMAT: a backslash takes the character after it literally, and characters that are no
/// part of a format are copied. `f` keeps trailing zeros of the fraction, `F` drops them.
fn format(ticks: i64, format: &str) -> Option<Json> {
    let (c, fraction) = calendar(ticks)?;
    let fraction = format!("{fraction:07}");
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        // The text for the next part of the format, and the bytes of that part.
        let run = rest.chars().take_while(|c| *c == first).count();
        let (text, taken) = match first {
            '\\' => {
                let literal = rest.chars().nth(1).map(String::from).unwrap_or_default();
                let taken = 1 + literal.len();
                (literal, taken)
            }
            'y' if run >= 4 => (format!("{:04}", c.year()), 4),
            'M' if run >= 2 => (format!("{:02}", c.month()), 2),
            'd' if run >= 2 => (format!("{:02}", c.day()), 2),
            'H' if run >= 2 => (format!("{:02}", c.hour()), 2),
            'm' if run >= 2 => (format!("{:02}", c.minute()), 2),
            's' if run >= 2 => (format!("{:02}", c.second()), 2),
            'f' | 'F' => {
                let taken = run.min(7);
                let digits = &fraction[..taken];
                let digits = if first == 'F' {
                    digits.trim_end_matches('0')
                } else {
                    digits
                };
                (digits.to_owned(), taken)
            }
            other => (other.to_string(), other.len_utf8()),
        };
        out.push_str(&text);
        rest = &rest[taken..];
    }
    Some(Json::String(out))
}
