//! Deletion of all items of a logical partition.
//!
//! The request writes one small row: the items of this effective partition key that were last
//! written up to this commit are deleted. From then on no client sees them (see
//! `partition/visibility.rs`), their ids and unique values are free, and new items live beside what
//! is left of the old ones. The rows are removed afterwards in steps; the row says how far the
//! removal is, so the removal goes on after a crash, and the row disappears with the last item. In
//! the change feed with all versions each deletion stands where the rows of its item were removed.
//!
//! Left out: prefixes of hierarchical keys, which the service refuses too.

use super::BackgroundTask;
use crate::Engine;
use crate::catalog::Container;
use crate::container::view::ContainerView;
use crate::partition::key_deletion::KeyDeletion;
use crate::partition::keys::{self, ItemNumber};
use crate::partition::row_reader::rows_of_epk_prefix;
use crate::partition::transaction::Transaction;
use crate::partition::{CommitChanges, Partition, SubmittedCommit};
use crate::partition_request::{
    PartitionRequest, PositionOfFailure, RequestResult, TargetPartition,
};
use crate::pending::Pending;
use crate::request::{AdmissionOptions, OperationKind};
use orrery_model::Result;
use orrery_model::partition_key::{Definition, Epk, KeyAddress, PartitionKey};
use orrery_model::work::Step;
use orrery_storage::Snapshot;

/// Items that one commit visits.
const ITEMS_PER_COMMIT: usize = 200;
/// Bytes of items after which a commit visits no more.
const BYTES_PER_COMMIT: usize = 4 << 20;

impl Engine {
    /// Deletes all items of a logical partition. Clients see none of them once this is answered;
    /// their rows are removed later, see [`Engine::remove_some_deleted_by_key`]. The charge is that
    /// of one small row, however many items there are.
    ///
    /// The outcome has 400/1001 for a key with too few or too many components, 429 if the budget is
    /// spent.
    pub fn delete_logical_partition(
        &self,
        container: &Container,
        key: &PartitionKey,
        admission: AdmissionOptions,
    ) -> Pending<()> {
        let refusal = Step::Refused { bytes: 0, terms: 0 };
        if let Err(error) = container.partition_key().check(key) {
            return self.refuse(error, refusal);
        }
        let address = container.partition_key().address(key);
        let request = PartitionRequest {
            container,
            kind: OperationKind::Delete,
            admission,
            refusal,
            position_of_failure: PositionOfFailure::None,
        };
        self.at_partition(
            &request,
            || Ok(TargetPartition::by_key(container, address.epk())),
            |attempt| {
                let commit = self.begin_delete_by_key(container, attempt.partition, &address)?;
                attempt.steps.push(Step::Write { bytes: 0, terms: 0 });
                attempt.position = Some(attempt.partition.position(commit.attempt.lsn, None));
                Ok(RequestResult {
                    value: (),
                    commit: Some(commit),
                })
            },
        )
    }

    /// Submits the row that hides the items of a logical partition.
    fn begin_delete_by_key(
        &self,
        container: &Container,
        partition: &Partition,
        address: &KeyAddress,
    ) -> Result<SubmittedCommit> {
        // The lock comes before the snapshot, so that no commit falls between the two.
        let mut writer = partition.lock()?;
        let row_key = keys::key_deletion(address.epk());
        let present = match address.digest() {
            Some(_) => writer.get(partition.snapshot()?.as_ref(), &row_key)?,
            // The row is of this key alone, and the new deletion covers an older one.
            None => None,
        };
        let deletion = KeyDeletion {
            up_to: writer.lsn + 1,
            from: 0,
            until: partition.item_number_bound(container)?,
            digest: address.digest(),
        };
        let row = deletion.added_to(present.as_deref())?;
        let changes = CommitChanges {
            puts: vec![(row_key, row)],
            epk_prefixes: vec![keys::epk_prefix(address.epk())],
            counters: writer.counters,
            may_use_reserve: true,
            ..CommitChanges::default()
        };
        // The work is entered under the lock, see `agenda.rs`.
        container.enter_work(BackgroundTask::KeyDeletion, self.world().now_ms());
        Ok(writer.submit(partition, changes, self.world().random()))
    }

    /// Removes some items of deleted logical partitions from each physical partition. Returns true
    /// if there may be more to do.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the next call goes on.
    pub fn remove_some_deleted_by_key(&self) -> Result<bool> {
        let busy = self.for_each_partition(
            |_| true,
            |container, partition| {
                self.remove_some_deleted_by_key_of(container, partition)
                    .map(u32::from)
            },
        )?;
        Ok(busy > 0)
    }

    /// Removes every row that is left of deleted logical partitions.
    ///
    /// # Errors
    /// 500 and 503 as the store reports.
    pub fn finish_deletes_by_key(&self) -> Result<()> {
        while self.remove_some_deleted_by_key()? {}
        Ok(())
    }

    /// Removes some items of one deleted logical partition in one commit. Returns true if there was
    /// work.
    pub(super) fn remove_some_deleted_by_key_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<bool> {
        let snapshot = partition.snapshot_of_accepted()?;
        if KeyDeletion::first(snapshot.as_ref())?.is_none() {
            return Ok(false);
        }
        drop(snapshot);
        self.transaction_step(container, partition, |transaction, snapshot| {
            // Read again under the lock: a newer deletion of the same key may have replaced the
            // row.
            if let Some((epk, deletions)) = KeyDeletion::first(snapshot)?
                && let Some(deletion) = deletions.first()
            {
                let definition = container.partition_key();
                let next = erase_some(transaction, snapshot, definition, &epk, *deletion)?;
                // The row says where the next step begins, and goes with the last item.
                let row = KeyDeletion::after_step(deletions, next);
                transaction.add_row(keys::key_deletion(&epk), row);
            }
            Ok(true)
        })
    }
}

/// Removes items of a deleted logical partition, as many as one commit should. Returns the number
/// of the item at which the next step begins, or `None` if all are removed.
fn erase_some(
    transaction: &mut Transaction<'_>,
    snapshot: &dyn Snapshot,
    definition: &Definition,
    epk: &Epk,
    deletion: KeyDeletion,
) -> Result<Option<ItemNumber>> {
    let (mut visited, mut bytes) = (0, 0);
    for stored in rows_of_epk_prefix(snapshot, keys::epk_prefix(epk), deletion.from) {
        let stored = stored?;
        if stored.number >= deletion.until {
            break;
        }
        if visited == ITEMS_PER_COMMIT || bytes >= BYTES_PER_COMMIT || transaction.is_large() {
            return Ok(Some(stored.number));
        }
        visited += 1;
        bytes += stored.row.body.len();
        // Items written after the deletion live in the same logical partition and stay.
        if stored.row.epk == *epk && deletion.has(&stored.row, definition) {
            transaction.erase(&stored)?;
        }
    }
    Ok(None)
}
