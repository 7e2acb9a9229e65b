//! The features that a client plan requires, compared with those that the client supports.

use crate::error::QueryError;

/// The merges that a client can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeSupport<'a> {
    /// Those of a comma-separated list of features.
    Listed(&'a str),
    /// Those of the first clients, which name no features and take the plan from the refusal of a
    /// query. Such a plan has another form for MIN and MAX.
    FirstClients,
}

/// The merges of [`MergeSupport::FirstClients`].
const FIRST_FEATURES: &str = "Aggregate, MultipleOrderBy, OrderBy, Top";

impl MergeSupport<'_> {
    /// Returns true if the client supports a feature.
    pub(super) fn includes(self, feature: &str) -> bool {
        let list = match self {
            MergeSupport::Listed(list) => list,
            MergeSupport::FirstClients => FIRST_FEATURES,
        };
        list.split(',')
            .any(|listed| listed.trim().eq_ignore_ascii_case(feature))
    }
}

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

    /// Checks that the client supports all required features.
    ///
    /// # Errors
    /// [`QueryError::MissingFeatures`] with the others.
    pub(super) fn check(&self, support: MergeSupport<'_>) -> Result<(), QueryError> {
        let mut missing = Vec::new();
        for feature in &self.0 {
            if !support.includes(feature) {
                missing.push(*feature);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(QueryError::MissingFeatures(missing))
    }
}
