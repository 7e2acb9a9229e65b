//! A cluster, and the errors that name clusters.

use orrery_storage::{Store, StoreError};
use std::sync::Arc;

/// Milliseconds that a caller is told to wait after a fault of a moment.
pub(crate) const RETRY_MS: u64 = 1_000;

/// A store with its name.
pub struct NamedCluster {
    /// The name, as the ledger and messages have it. A cluster keeps its name for ever.
    pub name: String,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The cluster gets no further partitions.
    pub drained: bool,
}

/// Returns an error of a cluster that a person has to act on.
pub(crate) fn failed(cluster: &str, detail: impl Into<String>) -> StoreError {
    StoreError::Cluster {
        cluster: cluster.to_owned(),
        detail: detail.into(),
        retry_after_ms: None,
    }
}

/// Returns an error of a cluster that another attempt may pass.
pub(crate) fn for_now(cluster: &str, detail: impl Into<String>) -> StoreError {
    StoreError::Cluster {
        cluster: cluster.to_owned(),
        detail: detail.into(),
        retry_after_ms: Some(RETRY_MS),
    }
}

/// Returns the milliseconds after which another attempt may pass; `None` if none can.
pub(crate) fn retry_after(error: &StoreError) -> Option<u64> {
    match error {
        StoreError::Unavailable { retry_after_ms, .. } => Some(*retry_after_ms),
        StoreError::Cluster { retry_after_ms, .. } => *retry_after_ms,
        _ => None,
    }
}
