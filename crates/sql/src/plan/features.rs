//! The features that a client plan requires, compared with those that the client supports.

use crate::error::QueryError;

/// The features that a plan requires, by the names that clients send.
#[derive(Default)]
pub(super) struct RequiredFeatures(Vec<&'static str>);

impl RequiredFeatures {
    /// Adds a feature if `is_required` is true.
    pub(super) fn require_if(&mut self, is_required: bool, feature: &'static str) {
        if is_required && !self.0.contains(&feature) {
            self.0.push(feature);
        }
    }

    /// Checks that the client supports all required features. `supported` is a comma-separated
    /// list; an empty list supports everything.
    ///
    /// # Errors
    /// [`QueryError::Plan`] with the missing features.
    pub(super) fn check(&self, supported: &str) -> Result<(), QueryError> {
        let supported: Vec<&str> = supported
            .split(',')
            .map(str::trim)
            .filter(|feature| !feature.is_empty())
            .collect();
        if supported.is_empty() {
            return Ok(());
        }
        let mut sentences = Vec::new();
        for feature in &self.0 {
            if !supported.iter().any(|s| s.eq_ignore_ascii_case(feature)) {
                sentences.push(format!(
                    "Query contained {feature}, which the calling client does not support."
                ));
            }
        }
        if sentences.is_empty() {
            return Ok(());
        }
        let intro = "Query contains 1 or more unsupported features. Upgrade your SDK to a version \
                     that does support the requested features:";
        let message = format!("{intro} {}", sentences.join(" "));
        Err(QueryError::Plan(message))
    }
}
