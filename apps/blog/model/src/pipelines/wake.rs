//! Wake-up of pipelines after a write of the same process, so that they need not wait for their
//! next poll.

use crate::meter::{Operation, RequestRecord};
use crate::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

/// A container link and the id of a range.
type RangeName = (String, String);

/// A handle with which a writer wakes the pipelines of the ranges that it has written. Clones ring
/// the same pipelines. A range that another process reads is not woken; its next poll sees the
/// change.
#[derive(Clone, Default)]
pub struct Wake(Arc<Mutex<HashMap<RangeName, Vec<Weak<Notify>>>>>);

impl Wake {
    /// Wakes the pipelines that read one range of a container. The id of the range is in the answer
    /// to the write, see [`RequestRecord::range`].
    pub fn ring(&self, container: &str, range: &str) {
        let place = (container.to_owned(), range.to_owned());
        if let Some(sleepers) = lock(&self.0).get(&place) {
            for sleeper in sleepers.iter().filter_map(Weak::upgrade) {
                sleeper.notify_one();
            }
        }
    }

    /// Wakes the pipelines of all ranges to which the requests have written.
    pub fn ring_after(&self, requests: &[RequestRecord]) {
        for request in requests {
            let is_write = matches!(
                request.operation,
                Operation::Create
                    | Operation::Upsert
                    | Operation::Replace
                    | Operation::Delete
                    | Operation::Execute
            );
            if is_write && request.status < 300 {
                self.ring(&request.container, &request.range);
            }
        }
    }

    /// Wakes all pipelines.
    pub fn ring_all(&self) {
        for sleepers in lock(&self.0).values() {
            for sleeper in sleepers.iter().filter_map(Weak::upgrade) {
                sleeper.notify_one();
            }
        }
    }

    /// Returns what is notified when a range is to be read. A notification between two waits is
    /// kept for the next.
    pub(super) fn sleeper(&self, container: &str, range: &str) -> Arc<Notify> {
        let sleeper = Arc::new(Notify::new());
        let place = (container.to_owned(), range.to_owned());
        let mut places = lock(&self.0);
        let sleepers = places.entry(place).or_default();
        sleepers.retain(|other| other.strong_count() > 0);
        sleepers.push(Arc::downgrade(&sleeper));
        sleeper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ring_before_the_wait_is_not_lost_and_wakes_its_range_only() {
        let wake = Wake::default();
        let (first, second) = (wake.sleeper("posts", "1"), wake.sleeper("posts", "2"));
        wake.ring("posts", "1");
        first.notified().await;
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, second.notified());
        assert!(waiting.await.is_err(), "the other range sleeps");
        drop(first);
        wake.ring("posts", "1");
        let _again = wake.sleeper("posts", "1");
        assert_eq!(lock(&wake.0).values().map(Vec::len).sum::<usize>(), 2);
    }
}
