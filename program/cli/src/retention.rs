//! The retention of versions on the command line: a whole number with a unit of time, or off.
//!
//! Promises: a retention is at least a minute and at most 30 days, the longest of the service.

use std::str::FromStr;

/// Units with their seconds.
const UNITS: &[(&str, u64)] = &[("m", 60), ("h", 3_600), ("d", 86_400)];
/// The longest retention, in seconds: that of the service's longest continuous backup.
const SECONDS_MAX: u64 = 30 * 86_400;

/// The seconds for which versions are kept; `None` for no versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRetention(pub(crate) Option<u64>);

impl VersionRetention {
    /// Seven days, the shorter continuous backup of the service.
    pub(crate) const STANDARD: VersionRetention = VersionRetention(Some(7 * 86_400));
}

impl FromStr for VersionRetention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" => return Ok(Self::STANDARD),
            "off" => return Ok(VersionRetention(None)),
            _ => {}
        }
        let form = "write a number of minutes, hours or days such as 30m, 12h or 7d, or off";
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = &text[digits.len()..];
        let Some((_, seconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(form.to_owned());
        };
        let number: u64 = digits.parse().map_err(|_| form.to_owned())?;
        match number.checked_mul(*seconds) {
            Some(0) => Err("it must be at least 1m; off keeps no versions".to_owned()),
            Some(seconds) if seconds <= SECONDS_MAX => Ok(VersionRetention(Some(seconds))),
            _ => Err("it must be at most 30d".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_is_a_number_with_a_unit_of_time() {
        for (text, seconds) in [
            ("1m", Some(60)),
            ("12h", Some(43_200)),
            ("7d", Some(604_800)),
            ("30d", Some(2_592_000)),
            ("on", Some(604_800)),
            ("off", None),
        ] {
            assert_eq!(text.parse(), Ok(VersionRetention(seconds)), "{text}");
        }
        for text in [
            "",
            "7",
            "0d",
            "-1d",
            "1.5h",
            "7 d",
            "31d",
            "721h",
            "7days",
            "99999999999999999999d",
        ] {
            assert!(text.parse::<VersionRetention>().is_err(), "{text}");
        }
    }
}
