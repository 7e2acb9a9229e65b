//! What a plan asks of the client, against what the client says that it can.

use crate::error::QueryError;

/// The features that a plan needs, by the names that clients list.
#[derive(Default)]
pub(super) struct Features(Vec<&'static str>);

impl Features {
    pub fn need(&mut self, feature: &'static str, needed: bool) {
        if needed && !self.0.contains(&feature) {
            self.0.push(feature);
        }
    }

    /// Refuses a plan that the client cannot run.
    pub fn check(&self, supported: &str) -> Result<(), QueryError> {
        let supported: Vec<&str> = supported
            .split(',')
            .map(str::trim)
            .filter(|f| !f.is_empty())
            .collect();
        if supported.is_empty() {
            return Ok(());
        }
        let missing = self
            .0
            .iter()
            .filter(|f| !supported.iter().any(|s| s.eq_ignore_ascii_case(f)));
        let sentences: Vec<String> = missing
            .map(|f| format!("Query contained {f}, which the calling client does not support."))
            .collect();
        if sentences.is_empty() {
            return Ok(());
        }
        let intro = "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support \
                     the requested features:";
        Err(QueryError::Plan(format!("{intro} {}", sentences.join(" "))))
    }
}
