//! The effects of a commit beside its rows: the time of the partition, and work for later.
//!
//! Promises: they take place when the commit is accepted, under the writer's lock, and not at all
//! if it is refused.

use super::{Partition, Writer};
use crate::container::tasks::BackgroundTask;
use crate::container::view::ContainerView;
use crate::index::vectors::VectorIndexKind;
use orrery_model::partition_key::Epk;

/// Milliseconds between a commit that changes vectors and the visit of the task that quantises
/// them, so that one visit serves many commits.
const LINKING_DELAY_MS: u64 = 200;

/// The effects of a commit.
pub(super) struct Effects<'a> {
    /// The container, whose agenda gets the work.
    pub(super) container: &'a dyn ContainerView,
    /// The partition of the commit.
    pub(super) partition: &'a Partition,
    /// Second of the commit.
    pub(super) ts: u64,
    /// The second in which something of the commit is to be removed.
    pub(super) removal: Option<u64>,
    /// The millisecond of the clock.
    pub(super) now_ms: u64,
}

impl Effects<'_> {
    /// Remembers the time of the commit, and enters the work that follows from it. `passed` has the
    /// logical partitions that have come near to the limit. The writer is locked.
    pub(super) fn take_place(&self, writer: &mut Writer, passed: &[(Epk, u64)]) {
        self.partition.note_commit_second(self.ts);
        if let Some(second) = self.removal {
            let at_ms = second.saturating_mul(1000);
            self.container.enter_work(BackgroundTask::Removal, at_ms);
        }
        let policies = self.container.policies();
        let mut vectors = policies.newest.1.stored_vectors().iter();
        if vectors.any(|index| index.kind != VectorIndexKind::Flat) {
            self.partition.expect_linking();
            let at_ms = self.now_ms + LINKING_DELAY_MS;
            self.container.enter_work(BackgroundTask::Linking, at_ms);
        }
        let version_bytes_max = self.container.settings().version_bytes_max;
        if version_bytes_max.is_some_and(|max| writer.asks_for_look_at_versions(max)) {
            self.container
                .enter_work(BackgroundTask::Removal, self.now_ms);
        }
        writer.report_key_sizes(self.container, passed, self.now_ms);
        if self.partition.asks_for_look_at_size(writer.counters.bytes) {
            self.container
                .enter_work(BackgroundTask::Splits, self.now_ms);
        }
    }
}
