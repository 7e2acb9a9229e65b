//! The progress of a migration for people.

use crate::Phase;
use serde_json::{Value, json};
use std::fmt;

/// The progress of a migration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MigrationStatus {
    /// The current step, in words.
    pub step: String,
    /// Number of changes copied.
    pub copied: u64,
    /// Number of items of the source. Items that change are copied again, so `copied` may exceed
    /// it.
    pub total: u64,
    /// Changes copied per second, lately.
    pub per_second: f64,
    /// Age of the change copied last in seconds; 0 if all changes are copied.
    pub lag_seconds: u64,
    /// Estimated time until the copy is complete, in seconds.
    pub seconds_left: Option<u64>,
    /// Number of items compared.
    pub compared: u64,
    /// Number of users and posts that have differed so far and are compared again.
    pub suspects: u64,
}

impl MigrationStatus {
    /// Returns the status of a step that copies nothing.
    pub(super) fn of(phase: Phase) -> Self {
        Self {
            step: phase.to_string(),
            ..Self::default()
        }
    }

    /// Returns the status as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "step": self.step,
            "copied": self.copied,
            "total": self.total,
            "perSecond": self.per_second,
            "lagSeconds": self.lag_seconds,
            "secondsLeft": self.seconds_left,
            "compared": self.compared,
            "suspects": self.suspects,
        })
    }

    /// Restores a status. Missing parts are 0.
    pub(super) fn from_json(item: &Value) -> Self {
        Self {
            step: item["step"].as_str().unwrap_or_default().to_owned(),
            copied: item["copied"].as_u64().unwrap_or(0),
            total: item["total"].as_u64().unwrap_or(0),
            per_second: item["perSecond"].as_f64().unwrap_or(0.0),
            lag_seconds: item["lagSeconds"].as_u64().unwrap_or(0),
            seconds_left: item["secondsLeft"].as_u64(),
            compared: item["compared"].as_u64().unwrap_or(0),
            suspects: item["suspects"].as_u64().unwrap_or(0),
        }
    }
}

impl fmt::Display for MigrationStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step)?;
        if self.total > 0 {
            write!(
                f,
                ": {} changes copied of {} items, {:.0} per second, {} s behind",
                self.copied, self.total, self.per_second, self.lag_seconds
            )?;
        }
        if self.compared > 0 {
            write!(
                f,
                ": {} items compared, {} users and posts to be compared again",
                self.compared, self.suspects
            )?;
        }
        if let Some(seconds) = self.seconds_left {
            write!(f, ", about {seconds} s left")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let status = MigrationStatus {
            step: Phase::Copying.to_string(),
            copied: 7,
            total: 10,
            per_second: 3.5,
            lag_seconds: 2,
            seconds_left: Some(1),
            ..MigrationStatus::default()
        };
        assert_eq!(MigrationStatus::from_json(&status.to_json()), status);
        assert_eq!(
            status.to_string(),
            "copying: 7 changes copied of 10 items, 4 per second, 2 s behind, about 1 s left"
        );
        let status = MigrationStatus {
            step: Phase::Checking.to_string(),
            compared: 20,
            suspects: 1,
            ..MigrationStatus::default()
        };
        assert_eq!(MigrationStatus::from_json(&status.to_json()), status);
        assert_eq!(
            status.to_string(),
            "comparing: 20 items compared, 1 users and posts to be compared again"
        );
    }
}
