//! Date and time functions.
//!
//! A moment is a count of ticks of 100 ns since 1970, UTC, from year 1 to 9999. Texts are read leniently (a date, or
//! date and time with `T` or a blank, any number of fraction digits, `Z` or not) and always written in full.

use super::{Arguments, Function, Implementation, IndexUse, strict};
use jiff::civil::{Date, DateTime};
use orrery_model::json::Json;

const SECOND: i64 = 10_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// What a function needs of the clock.
const fn clock(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: fn(&mut crate::run::frame::Context<'_>, Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Context(run),
    }
}

pub(super) const TABLE: &[Function] = &[
    clock(
        &["GETCURRENTDATETIME"],
        (0, 0),
        "the present moment as text",
        |cx, _| written(from_ms(cx.now_ms)),
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
        |cx, _| Some(Json::from(from_ms(cx.now_ms))),
    ),
    clock(
        &["GETCURRENTDATETIMESTATIC"],
        (0, 0),
        "when the query began, as text",
        |cx, _| written(from_ms(cx.started_ms)),
    ),
    clock(
        &["GETCURRENTTIMESTAMPSTATIC"],
        (0, 0),
        "when the query began, in milliseconds since 1970",
        |cx, _| Some(Json::from(cx.started_ms)),
    ),
    clock(
        &["GETCURRENTTICKSSTATIC"],
        (0, 0),
        "when the query began, in ticks since 1970",
        |cx, _| Some(Json::from(from_ms(cx.started_ms))),
    ),
    clock(
        &["NOW"],
        (0, 2),
        "the present moment, plus so many parts",
        |cx, a| {
            let now = from_ms(cx.now_ms);
            if a.len() == 0 {
                written(now)
            } else {
                written(add(part(a, 0)?, a.whole(1)?, now)?)
            }
        },
    ),
    clock(
        &["AGO"],
        (2, 2),
        "the present moment, minus so many parts",
        |cx, a| {
            written(add(
                part(a, 0)?,
                a.whole(1)?.checked_neg()?,
                from_ms(cx.now_ms),
            )?)
        },
    ),
    strict(
        &["DATETIMEADD"],
        (3, 3),
        "a moment so many parts later",
        |a| written(add(part(a, 0)?, a.whole(1)?, moment(a, 2)?)?),
    ),
    strict(
        &["DATETIMEDIFF"],
        (3, 3),
        "how many boundaries of the part lie between two moments",
        |a| {
            let (part, from, to) = (part(a, 0)?, moment(a, 1)?, moment(a, 2)?);
            Some(Json::from(
                boundary(part, to)?.checked_sub(boundary(part, from)?)?,
            ))
        },
    ),
    strict(
        &["DATETIMEPART"],
        (2, 2),
        "a part of a moment as a number",
        |a| number_of(part(a, 0)?, moment(a, 1)?).map(Json::from),
    ),
    strict(
        &["DATETIMEBIN"],
        (2, 4),
        "the beginning of the bin that a moment is in",
        bin,
    ),
    strict(
        &["DATETIMEFROMPARTS"],
        (3, 7),
        "the moment of year, month, day, hour, minute, second, ticks",
        from_parts,
    ),
    strict(
        &["DATETIMETOTICKS"],
        (1, 1),
        "ticks of 100 ns since 1970",
        |a| Some(Json::from(moment(a, 0)?)),
    ),
    strict(
        &["DATETIMETOTIMESTAMP"],
        (1, 1),
        "milliseconds since 1970",
        |a| Some(Json::from(moment(a, 0)?.div_euclid(SECOND / 1000))),
    ),
    strict(
        &["TICKSTODATETIME"],
        (1, 1),
        "the moment so many ticks after 1970",
        |a| written(a.whole(0)?),
    ),
    strict(
        &["TIMESTAMPTODATETIME"],
        (1, 1),
        "the moment so many milliseconds after 1970",
        |a| written(a.whole(0)?.checked_mul(SECOND / 1000)?),
    ),
    strict(
        &["DATETIMEFORMAT"],
        (2, 2),
        "a moment as a format has it: yyyy MM dd HH mm ss fff FFF",
        |a| format(moment(a, 0)?, a.text(1)?),
    ),
    strict(&["YEAR"], (1, 1), "the year of a moment", |a| {
        number_of(Part::Year, moment(a, 0)?).map(Json::from)
    }),
    strict(&["MONTH"], (1, 1), "the month of a moment", |a| {
        number_of(Part::Month, moment(a, 0)?).map(Json::from)
    }),
    strict(&["DAY"], (1, 1), "the day of a moment", |a| {
        number_of(Part::Day, moment(a, 0)?).map(Json::from)
    }),
];

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

fn part(a: Arguments<'_, '_>, index: usize) -> Option<Part> {
    let name = a.text(index)?;
    PARTS
        .iter()
        .find(|(_, names)| names.iter().any(|n| n.eq_ignore_ascii_case(name)))
        .map(|(part, _)| *part)
}

/// Ticks in a part of fixed length; nanoseconds are shorter than a tick.
fn length(part: Part) -> Option<i64> {
    match part {
        Part::Day => Some(DAY),
        Part::Hour => Some(HOUR),
        Part::Minute => Some(MINUTE),
        Part::Second => Some(SECOND),
        Part::Millisecond => Some(SECOND / 1_000),
        Part::Microsecond => Some(SECOND / 1_000_000),
        Part::Year | Part::Month | Part::Nanosecond | Part::Weekday => None,
    }
}

fn moment(a: Arguments<'_, '_>, index: usize) -> Option<i64> {
    read(a.text(index)?)
}

fn from_ms(ms: u64) -> i64 {
    i64::try_from(ms)
        .unwrap_or(i64::MAX)
        .saturating_mul(SECOND / 1000)
}

/// The moment that a text is, if it is one.
pub(super) fn read(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let bytes = text.as_bytes();
    let digits = |from: usize, count: usize| -> Option<i64> {
        let piece = bytes.get(from..from + count)?;
        piece.iter().try_fold(0i64, |n, b| {
            b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
        })
    };
    let sign = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|b| wanted.contains(b));
    if !sign(4, b"-") || !sign(7, b"-") {
        return None;
    }
    let date = days(digits(0, 4)?, digits(5, 2)?, digits(8, 2)?)?;
    if bytes.len() == 10 {
        return Some(date * DAY);
    }
    if !sign(10, b"T ") || !sign(13, b":") || !sign(16, b":") {
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
    Some(date * DAY + time(digits(11, 2)?, digits(14, 2)?, digits(17, 2)?)? + fraction)
}

/// Days since 1970.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year) {
        return None;
    }
    let date = Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    )
    .ok()?;
    let span = date.since(Date::constant(1970, 1, 1)).ok()?;
    Some(i64::from(span.get_days()))
}

/// Ticks since midnight.
fn time(hour: i64, minute: i64, second: i64) -> Option<i64> {
    let fits = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    fits.then_some(hour * HOUR + minute * MINUTE + second * SECOND)
}

/// Calendar date and time of a moment; `None` outside the years 1 to 9999.
fn civil(ticks: i64) -> Option<(DateTime, i64)> {
    let days = i32::try_from(ticks.div_euclid(DAY)).ok()?;
    let date = Date::constant(1970, 1, 1)
        .checked_add(jiff::Span::new().try_days(days).ok()?)
        .ok()?;
    if !(1..=9999).contains(&date.year()) {
        return None;
    }
    let rest = ticks.rem_euclid(DAY);
    let small = |n: i64| i8::try_from(n).unwrap_or_default();
    let moment = date.at(
        small(rest / HOUR),
        small(rest / MINUTE % 60),
        small(rest / SECOND % 60),
        0,
    );
    Some((moment, rest % SECOND))
}

fn written(ticks: i64) -> Option<Json> {
    let (c, fraction) = civil(ticks)?;
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

/// The day is cut to the length of the month that is reached.
fn add_months(count: i64, ticks: i64) -> Option<i64> {
    let (c, _) = civil(ticks)?;
    let months = (i64::from(c.year()) * 12 + i64::from(c.month()) - 1).checked_add(count)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let date = (1..=i64::from(c.day()))
        .rev()
        .find_map(|day| days(year, month, day))?;
    Some(date * DAY + ticks.rem_euclid(DAY))
}

/// How many boundaries of the part lie between a fixed moment and this one.
fn boundary(part: Part, ticks: i64) -> Option<i64> {
    match part {
        Part::Year => Some(i64::from(civil(ticks)?.0.year())),
        Part::Month => {
            let (c, _) = civil(ticks)?;
            Some(i64::from(c.year()) * 12 + i64::from(c.month()))
        }
        Part::Nanosecond => ticks.checked_mul(100),
        _ => Some(ticks.div_euclid(length(part)?)),
    }
}

fn number_of(part: Part, ticks: i64) -> Option<i64> {
    let (c, fraction) = civil(ticks)?;
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

fn bin(a: Arguments<'_, '_>) -> Option<Json> {
    let (ticks, part, size) = (moment(a, 0)?, part(a, 1)?, a.whole_or(2, 1)?);
    let origin = if a.len() > 3 { moment(a, 3)? } else { 0 };
    if size <= 0 || origin < read("1601-01-01")? {
        return None;
    }
    let unit = match part {
        Part::Year | Part::Month => {
            let size = if part == Part::Year {
                size.checked_mul(12)?
            } else {
                size
            };
            let apart =
                boundary(Part::Month, ticks)?.checked_sub(boundary(Part::Month, origin)?)?;
            let mut start = add_months(apart.div_euclid(size) * size, origin)?;
            if start > ticks {
                start = add_months((apart.div_euclid(size) - 1) * size, origin)?;
            }
            return written(start);
        }
        // A bin of nanoseconds is at least a tick long.
        Part::Nanosecond => (size / 100).max(1),
        _ => length(part)?.checked_mul(size)?,
    };
    written(origin.checked_add((ticks - origin).div_euclid(unit).checked_mul(unit)?)?)
}

fn from_parts(a: Arguments<'_, '_>) -> Option<Json> {
    let date = days(a.whole(0)?, a.whole(1)?, a.whole(2)?)?;
    let time = time(a.whole_or(3, 0)?, a.whole_or(4, 0)?, a.whole_or(5, 0)?)?;
    let fraction = a.whole_or(6, 0)?;
    (0..SECOND)
        .contains(&fraction)
        .then(|| written(date * DAY + time + fraction))?
}

fn format(ticks: i64, format: &str) -> Option<Json> {
    let (c, fraction) = civil(ticks)?;
    let digits = format!("{fraction:07}");
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
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
            'f' => (digits[..run.min(7)].to_owned(), run.min(7)),
            'F' => (
                digits[..run.min(7)].trim_end_matches('0').to_owned(),
                run.min(7),
            ),
            other => (other.to_string(), other.len_utf8()),
        };
        out.push_str(&text);
        rest = &rest[taken..];
    }
    Some(Json::String(out))
}
