//! Figures as the lesson shows them: request units, sizes and spans of time.

/// Returns a charge or a rate with separators, two decimals below 1,000 and none above.
pub(crate) fn ru(ru: f64) -> String {
    if ru < 999.995 {
        format!("{ru:.2}")
    } else {
        grouped(ru)
    }
}

/// Returns a charge with two decimals and separators, as tables show it.
pub(crate) fn exact_ru(ru: f64) -> String {
    let hundredths = (ru * 100.0).round().max(0.0) as u64;
    format!(
        "{}.{:02}",
        grouped((hundredths / 100) as f64),
        hundredths % 100
    )
}

/// Returns a rounded number with separators.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number without needless decimals, e.g. `12.5` or `3`.
pub(crate) fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a time, e.g. `4.1 ms`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.1} ms")
    } else if ms < 10_000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.0} s", ms / 1000.0)
    }
}

/// Returns a size in binary units.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024.0 {
        return format!("{bytes:.0} bytes");
    }
    let mut value = bytes / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// Returns a span of years in the largest unit with a figure of at least one.
pub(crate) fn years(years: f64) -> String {
    let days = years * 365.25;
    if years >= 10_000.0 {
        "more than 10,000 years".to_owned()
    } else if years >= 10.0 {
        format!("{} years", grouped(years))
    } else if years >= 1.0 {
        format!("{} years", plain((years * 10.0).round() / 10.0))
    } else if days >= 60.0 {
        format!("{:.0} months", years * 12.0)
    } else if days >= 2.0 {
        format!("{days:.0} days")
    } else {
        format!("{:.0} hours", (days * 24.0).max(1.0))
    }
}

/// Returns the sentence of a server's message, which the service wraps in JSON and an activity id.
pub(crate) fn server_words(message: &str) -> &str {
    let begin = "{\"Errors\":[\"";
    let Some((_, rest)) = message.split_once(begin) else {
        return message;
    };
    rest.split_once("\"]")
        .map_or(message, |(sentence, _)| sentence)
}

/// Returns a part of 1 in percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Returns the width of a bar in percent of the longest: one decimal, at least 0.5.
pub(crate) fn bar(value: f64, longest: f64) -> String {
    if longest <= 0.0 || value <= 0.0 {
        return "0".to_owned();
    }
    format!("{:.1}", (value * 100.0 / longest).clamp(0.5, 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_separators_and_as_many_decimals_as_they_need() {
        assert_eq!((ru(9.9), ru(2063.54)), ("9.90".into(), "2,064".into()));
        assert_eq!(exact_ru(2063.54), "2,063.54");
        assert_eq!(exact_ru(0.38), "0.38");
        assert_eq!((plain(12.5), plain(3.0)), ("12.5".into(), "3".into()));
        assert_eq!(bytes(512.0), "512 bytes");
        assert_eq!(bytes(20.0 * 1024.0 * 1024.0 * 1024.0), "20 GiB");
        assert_eq!(percent(0.254), "25 %");
    }

    #[test]
    fn the_sentence_of_a_message_stands_without_its_wrapping() {
        let wrapped = "Message: {\"Errors\":[\"It is full\"]}\r\nActivityId: 1";
        assert_eq!(server_words(wrapped), "It is full");
        assert_eq!(server_words("It is full"), "It is full");
    }

    #[test]
    fn spans_are_in_the_largest_unit_that_fits() {
        for (span, text) in [
            (31.4, "31 years"),
            (2.55, "2.6 years"),
            (0.5, "6 months"),
            (0.01, "4 days"),
            (0.0004, "4 hours"),
            (1e6, "more than 10,000 years"),
        ] {
            assert_eq!(years(span), text);
        }
    }

    #[test]
    fn a_bar_is_never_invisible_unless_its_value_is_zero() {
        assert_eq!(bar(0.0, 10.0), "0");
        assert_eq!(bar(0.001, 10.0), "0.5");
        assert_eq!(bar(10.0, 10.0), "100.0");
        assert_eq!(bar(1.0, 0.0), "0");
    }
}
