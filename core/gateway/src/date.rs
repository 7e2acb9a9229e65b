//! Dates in headers, in the form of RFC 1123: `Thu, 27 Apr 2017 00:51:12 GMT`.

use jiff::Timestamp;
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};

/// Parses a date and returns it in seconds since 1970. A weekday that does not fit the date is
/// accepted, because some clients send such dates.
pub(crate) fn parse(text: &str) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
    PARSER
        .parse_timestamp(text.trim())
        .ok()
        .map(Timestamp::as_second)
}

/// Formats a date, given in seconds since 1970.
pub(crate) fn print(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .ok()
        .and_then(|t| DateTimePrinter::new().timestamp_to_rfc9110_string(&t).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_in_the_form_of_the_clients() {
        let text = "Thu, 27 Apr 2017 00:51:12 GMT";
        assert_eq!(parse(text), Some(1_493_254_272));
        assert_eq!(print(1_493_254_272), text);
    }

    #[test]
    fn a_lower_case_date_and_a_wrong_weekday_are_accepted() {
        assert_eq!(parse("thu, 27 apr 2017 00:51:12 gmt"), Some(1_493_254_272));
        assert_eq!(parse("Mon, 27 Apr 2017 00:51:12 GMT"), Some(1_493_254_272));
    }

    #[test]
    fn other_texts_are_not_dates() {
        for text in [
            "",
            "yesterday",
            "2017-04-27T00:51:12Z",
            "Thu, 99 Apr 2017 00:51:12 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
