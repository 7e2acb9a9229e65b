//! The retention of versions and of a continuous backup on the command line: a whole number with a
//! unit of time; that of versions may be off.
//!
//! Promises: a retention of versions is at least a minute and at most 30 days, the longest of the
//! service; that of a backup is at least a minute and at most ten years.

use std::str::FromStr;

/// Units with their seconds.
const UNITS: &[(&str, u64)] = &[("m", 60), ("h", 3_600), ("d", 86_400)];
/// The form of a retention, for messages.
const FORM: &str = "write a number of minutes, hours or days such as 30m, 12h or 7d";
/// The longest retention of a continuous backup, in seconds.
const BACKUP_SECONDS_MAX: u64 = 3_650 * 86_400;
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
        match seconds_of(text) {
            None => Err(format!("{FORM}, or off")),
            Some(0) => Err("it must be at least 1m; off keeps no versions".to_owned()),
            Some(seconds) if seconds <= SECONDS_MAX => Ok(VersionRetention(Some(seconds))),
            Some(_) => Err("it must be at most 30d".to_owned()),
        }
    }
}

/// The seconds for which each moment of a continuous backup can be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackupRetention(pub(crate) u64);

impl FromStr for BackupRetention {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match seconds_of(text) {
            None => Err(FORM.to_owned()),
            Some(0) => Err("it must be at least 1m".to_owned()),
            Some(seconds) if seconds <= BACKUP_SECONDS_MAX => Ok(BackupRetention(seconds)),
            Some(_) => Err("it must be at most 3650d".to_owned()),
        }
    }
}

/// Returns the seconds of a number with a unit; `None` if the text has another form. A number that
/// is too large is `u64::MAX`.
fn seconds_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = &text[digits.len()..];
    let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().unwrap_or(u64::MAX))?;
    Some(number.saturating_mul(*seconds))
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

    #[test]
    fn a_retention_of_a_backup_may_be_longer_and_never_off() {
        assert_eq!("7d".parse(), Ok(BackupRetention(604_800)));
        assert_eq!("3650d".parse(), Ok(BackupRetention(315_360_000)));
        for text in ["off", "0m", "3651d", "99999999999999999999d", "7"] {
            assert!(text.parse::<BackupRetention>().is_err(), "{text}");
        }
    }
}
