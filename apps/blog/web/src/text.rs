//! Figures, dates and short texts as pages show them.

use jiff::Timestamp;
use orrery_blog::{Charge, excerpt};
use serde_json::Value;

/// Returns a charge with thousands separators, e.g. `2,063.54`.
pub(crate) fn charge(charge: Charge) -> String {
    format!("{}.{:02}", count(charge.0 / 100), charge.0 % 100)
}

/// Returns a charge with two decimals below 100, one below 1,000 and none above.
pub(crate) fn short_charge(charge: Charge) -> String {
    match charge.0 {
        0..10_000 => format!("{:.2}", charge.ru()),
        10_000..99_995 => format!("{:.1}", charge.ru()),
        _ => count((charge.0 + 50) / 100),
    }
}

/// Returns a count with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with the noun in the singular or the plural.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", count(number))
}

/// Returns a time with two digits, e.g. `4.1 ms`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 10_000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.0} s", ms / 1000.0)
    }
}

/// A date as a page shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct When {
    /// For machines: ISO 8601.
    pub(crate) iso: String,
    /// The exact time, shown on hover.
    pub(crate) exact: String,
    /// The time before now, e.g. `4 minutes ago`.
    pub(crate) relative: String,
}

impl When {
    /// Returns the date of an item. A text that is not a date is shown as it is.
    pub(crate) fn of(date: &str) -> Self {
        match date.parse::<Timestamp>() {
            Ok(time) => Self {
                iso: time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                exact: time.strftime("%-d %B %Y, %H:%M UTC").to_string(),
                relative: relative(Timestamp::now().as_second() - time.as_second()),
            },
            Err(_) => Self {
                iso: String::new(),
                exact: date.to_owned(),
                relative: date.to_owned(),
            },
        }
    }
}

fn relative(seconds: i64) -> String {
    let ago = |number: i64, unit: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {unit}{plural} ago")
    };
    match seconds {
        ..60 => "just now".into(),
        60..3_600 => ago(seconds / 60, "minute"),
        3_600..86_400 => ago(seconds / 3_600, "hour"),
        86_400..172_800 => "yesterday".into(),
        172_800..2_592_000 => ago(seconds / 86_400, "day"),
        2_592_000..31_536_000 => ago(seconds / 2_592_000, "month"),
        _ => ago(seconds / 31_536_000, "year"),
    }
}

/// Returns the excerpt of a post in a list. Pages of lists have it; for other items it is made.
pub(crate) fn excerpt_of(post: &Value) -> String {
    match post["excerpt"].as_str() {
        Some(excerpt) => excerpt.to_owned(),
        None => excerpt(post["content"].as_str().unwrap_or_default()),
    }
}

/// Returns true if `text` has the form of the ids of users, posts and comments.
pub(crate) fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    text.len() == 36 && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_have_separators_and_units() {
        assert_eq!(charge(Charge(206_354)), "2,063.54");
        assert_eq!(charge(Charge(7)), "0.07");
        assert_eq!(short_charge(Charge(283)), "2.83");
        assert_eq!(short_charge(Charge(61_941)), "619.4");
        assert_eq!(short_charge(Charge(206_354)), "2,064");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "request", "requests"), "1 request");
        assert_eq!(counted(0, "request", "requests"), "0 requests");
        assert_eq!(milliseconds(4.12), "4.1 ms");
        assert_eq!(milliseconds(41.2), "41 ms");
    }

    #[test]
    fn dates_are_relative_and_exact() {
        assert_eq!(relative(-5), "just now");
        assert_eq!(relative(61), "1 minute ago");
        assert_eq!(relative(7_200), "2 hours ago");
        assert_eq!(relative(100_000), "yesterday");
        let when = When::of("2019-04-30T12:00:00.1234560Z");
        assert_eq!(when.exact, "30 April 2019, 12:00 UTC");
        assert_eq!(when.iso, "2019-04-30T12:00:00Z");
        assert_eq!(When::of("soon").relative, "soon");
    }

    #[test]
    fn a_stored_excerpt_is_shown_as_it_is_and_a_whole_text_is_shortened() {
        let post = json!({"content": "**Bread** rises.", "excerpt": "2 * 3 * 4"});
        assert_eq!(excerpt_of(&post), "2 * 3 * 4");
        assert_eq!(
            excerpt_of(&json!({"content": "**Bread** rises."})),
            "Bread rises."
        );
        assert_eq!(excerpt_of(&json!({})), "");
    }

    #[test]
    fn only_texts_of_the_form_of_an_id_are_ids() {
        assert!(is_id("0b52c2d0-1111-4222-8333-0123456789ab"));
        for forged in ["", "p", "../../dbs", "0b52c2d0-1111-4222-8333-0123456789a/"] {
            assert!(!is_id(forged), "{forged}");
        }
    }
}
