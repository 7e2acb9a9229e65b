//! Two stores that must not differ: every call goes to both, and the first difference panics with
//! both answers.
//!
//! Each commit is made durable in both stores before `submit` returns, under one lock, so that the
//! two can be compared at any moment. Both must start in the same state, as two new stores do.

use std::sync::Mutex;

use orrery_model::sync;

use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, Head, Limits, PartitionId};
use crate::error::StoreError;
use crate::receipt::Receipt;
use crate::store::{Bytes, Capabilities, Direction, KeyRange, Keys, Lease, Rows, Snapshot, Store};

/// Two stores that run side by side. A capability that only one of them has is not offered.
pub struct Mirrored<A, B> {
    first: A,
    second: B,
    /// Held for each call, so that both stores see the calls in the same order.
    call: Mutex<()>,
}

impl<A: Store, B: Store> Mirrored<A, B> {
    /// Creates the pair. Both stores must be in the same state.
    pub fn new(first: A, second: B) -> Mirrored<A, B> {
        Mirrored {
            first,
            second,
            call: Mutex::new(()),
        }
    }

    /// Calls both stores and returns their common answer.
    fn call_both<T: PartialEq + std::fmt::Debug>(
        &self,
        call: &str,
        first: impl FnOnce(&A) -> T,
        second: impl FnOnce(&B) -> T,
    ) -> T {
        let _call = sync::lock(&self.call);
        assert_same(call, first(&self.first), second(&self.second))
    }
}

/// Returns the common answer of both stores.
///
/// # Panics
/// When the answers differ: to find such differences is the purpose of this engine.
fn assert_same<T: PartialEq + std::fmt::Debug>(call: &str, first: T, second: T) -> T {
    assert_eq!(first, second, "the two engines differ in {call}");
    first
}

/// Splits a result into parts that can be compared. Two errors count as equal, since their texts
/// name different files.
fn comparable<T>(result: Result<T, StoreError>) -> (Option<T>, Failure) {
    match result {
        Ok(value) => (Some(value), Failure(None)),
        Err(error) => (None, Failure(Some(error))),
    }
}

#[derive(Debug)]
struct Failure(Option<StoreError>);

impl PartialEq for Failure {
    fn eq(&self, other: &Failure) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

/// Puts the parts of a result together again.
fn restore<T>((value, failure): (Option<T>, Failure)) -> Result<T, StoreError> {
    match (value, failure.0) {
        (Some(value), _) => Ok(value),
        (None, Some(error)) => Err(error),
        (None, None) => Err(StoreError::Poisoned {
            detail: "neither a value nor an error".to_owned(),
        }),
    }
}

impl<A: Store, B: Store> Store for Mirrored<A, B> {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        restore(self.call_both(
            "open",
            |a| comparable(a.open(partition)),
            |b| comparable(b.open(partition)),
        ))
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let copy = commit.clone();
        Receipt::ready(self.call_both(
            "commit",
            |a| a.submit(lease, commit).wait(),
            |b| b.submit(lease, copy).wait(),
        ))
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let _call = sync::lock(&self.call);
        let (first, second) = (
            self.first.snapshot(partition),
            self.second.snapshot(partition),
        );
        let (Ok(first), Ok(second)) = (first, second) else {
            return Err(StoreError::Poisoned {
                detail: "one of the two engines gives no snapshot".to_owned(),
            });
        };
        assert_same("head", first.head(), second.head());
        Ok(Box::new(MirroredSnapshot { first, second }))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        restore(self.call_both(
            "destroy",
            |a| comparable(a.destroy(partition)),
            |b| comparable(b.destroy(partition)),
        ))
    }

    fn sync(&self) -> Result<(), StoreError> {
        restore(self.call_both("sync", |a| comparable(a.sync()), |b| comparable(b.sync())))
    }

    fn limits(&self) -> Limits {
        assert_same("limits", self.first.limits(), self.second.limits())
    }

    fn capabilities(&self) -> Capabilities {
        let (a, b) = (self.first.capabilities(), self.second.capabilities());
        Capabilities {
            durable: a.durable && b.durable,
            long_snapshots: a.long_snapshots && b.long_snapshots,
            followers: a.followers && b.followers,
            remote: false,
        }
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        self.first.partitions()
    }

    fn approximate_bytes(&self) -> u64 {
        self.first.approximate_bytes() + self.second.approximate_bytes()
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let _call = sync::lock(&self.call);
        match self.first.checkpoint()? {
            Some(checkpoint) => Ok(Some(checkpoint)),
            None => self.second.checkpoint(),
        }
    }
}

struct MirroredSnapshot {
    first: Box<dyn Snapshot>,
    second: Box<dyn Snapshot>,
}

impl Snapshot for MirroredSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        restore(assert_same(
            "get",
            comparable(self.first.get(key)),
            comparable(self.second.get(key)),
        ))
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        let mut first = self.first.scan(range, direction);
        let mut second = self.second.scan(range, direction);
        Box::new(std::iter::from_fn(move || {
            let next = assert_same(
                "scan",
                first.next().map(comparable),
                second.next().map(comparable),
            );
            next.map(restore)
        }))
    }

    fn scan_keys(&self, range: KeyRange<'_>, direction: Direction) -> Box<dyn Keys + '_> {
        Box::new(MirroredKeys {
            first: self.first.scan_keys(range, direction),
            second: self.second.scan_keys(range, direction),
        })
    }

    fn head(&self) -> Head {
        self.first.head()
    }
}

struct MirroredKeys<'a> {
    first: Box<dyn Keys + 'a>,
    second: Box<dyn Keys + 'a>,
}

impl Keys for MirroredKeys<'_> {
    fn next_key(&mut self) -> Option<Result<&[u8], StoreError>> {
        let next = assert_same(
            "scan of keys",
            self.first.next_key().map(comparable),
            self.second.next_key().map(comparable),
        );
        next.map(restore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    #[should_panic(expected = "the two engines differ in commit")]
    fn a_difference_between_the_stores_panics() {
        let (first, second) = (MemoryStore::new(), MemoryStore::new());
        let partition = PartitionId(1);
        second.open(partition).unwrap();
        let lease = first.open(partition).unwrap();
        second.open(partition).unwrap();
        let mirrored = Mirrored::new(first, second);
        mirrored
            .submit(
                &lease,
                Commit {
                    new_lsn: 1,
                    ..Commit::default()
                },
            )
            .wait();
    }
}
