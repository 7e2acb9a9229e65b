//! Deletion of all items of a logical partition.
//!
//! The request writes one small row: the items of this effective partition key, as far as they were last written up to
//! this commit, are deleted. From then on nobody sees them (see `visible.rs`), their ids and unique values are free, and
//! new items live beside what is left of the old ones. The rows go afterwards, some with each commit of
//! [`Engine::remove_some_deleted_by_key`]; the row remembers how far that is, so it goes on after a crash, and disappears with the last
//! of them. In the feed of all versions each deletion stands where its item's rows went.
//!
//! Left out: prefixes of hierarchical keys, which the service refuses too.

use crate::Engine;
use crate::catalog::Container;
use crate::partition::container_view::ContainerView;
use crate::partition::key_deletion::KeyDeletion;
use crate::partition::keys;
use crate::partition::row_reader::rows_of_epk_prefix;
use crate::partition::transaction::Transaction;
use crate::partition::{CommitChanges, Partition, SubmittedCommit, skip_if_moved, wait_durable};
use crate::partition_request::{Done, Found, PartitionRequest, PositionOfFailure};
use crate::pending::Pending;
use crate::request::AdmissionOptions;
use orrery_model::Result;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::Step;
use std::sync::Arc;

/// Items that one commit looks at.
const ITEMS_A_COMMIT: usize = 200;
/// Bytes of items after which a commit looks at no more.
const BYTES_A_COMMIT: usize = 4 << 20;

impl Engine {
    /// Deletes all items of a logical partition. Clients see none of them once this is answered; their
    /// rows are removed later, see [`Engine::remove_some_deleted_by_key`]. The charge is that of one
    /// small row, however many items there are.
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
        let epk = container.partition_key().epk(key);
        let request = PartitionRequest {
            container,
            admission,
            refusal,
            position_of_failure: PositionOfFailure::None,
        };
        self.at_partition(
            &request,
            || Ok(Found::by_key(container, &epk)),
            |attempt| {
                let commit = self.begin_delete_by_key(container, attempt.partition, &epk)?;
                attempt.steps.push(Step::Write { bytes: 0, terms: 0 });
                attempt.position = Some(attempt.partition.position(commit.lsn, None));
                Ok(Done {
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
        epk: &Epk,
    ) -> Result<SubmittedCommit> {
        let mut writer = partition.lock()?;
        let deletion = KeyDeletion {
            up_to: writer.lsn + 1,
            from: 0,
            until: container.item_number_bound(),
        };
        let changes = CommitChanges {
            puts: vec![(keys::key_deletion(epk), deletion.encode())],
            epk_prefixes: vec![keys::epk_prefix(epk)],
            counters: writer.counters,
            ..CommitChanges::default()
        };
        Ok(writer.submit(partition, changes, self.world().random()))
    }

    /// Removes items of logical partitions that are being deleted, some from each physical partition; whether there may
    /// be more to do.
    ///
    /// # Errors
    /// What the store reports; the rest is tried again next time.
    pub fn remove_some_deleted_by_key(&self) -> Result<bool> {
        let mut more = false;
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                more |= skip_if_moved(self.remove_some_deleted_by_key_of(&container, partition))?;
            }
        }
        Ok(more)
    }

    /// Removes all that is left of deleted logical partitions.
    ///
    /// # Errors
    /// What the store reports.
    pub fn finish_deletes_by_key(&self) -> Result<()> {
        while self.remove_some_deleted_by_key()? {}
        Ok(())
    }

    /// One commit: some items, and how far that is; whether there was anything to do.
    fn remove_some_deleted_by_key_of(
        &self,
        container: &Container,
        partition: &Arc<Partition>,
    ) -> Result<bool> {
        if KeyDeletion::first(partition.snapshot()?.as_ref())?.is_none() {
            return Ok(false);
        }
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        // Under the lock, so that no newer deletion of the same logical partition comes between.
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let Some((epk, deletion)) = KeyDeletion::first(snapshot.as_ref())? else {
            return Ok(true);
        };
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let (mut looked_at, mut bytes, mut reached) = (0, 0, None);
        for stored in rows_of_epk_prefix(snapshot.as_ref(), keys::epk_prefix(&epk), deletion.from) {
            let stored = stored?;
            if stored.number >= deletion.until {
                break;
            }
            if looked_at == ITEMS_A_COMMIT || bytes >= BYTES_A_COMMIT || transaction.is_large() {
                reached = Some(stored.number);
                break;
            }
            looked_at += 1;
            bytes += stored.row.body.len();
            if stored.row.epk == epk && stored.row.lsn <= deletion.up_to {
                transaction.erase(&stored)?;
            }
        }
        let left = reached.map(|from| KeyDeletion { from, ..deletion }.encode());
        transaction.add_row(keys::key_deletion(&epk), left);
        let ordered = transaction.commit(&mut writer, None)?;
        drop(writer);
        ordered
            .map_or(Ok(()), |ordered| wait_durable(partition, ordered))
            .map(|()| true)
    }
}
