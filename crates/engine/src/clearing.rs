//! Deletion of all items of a logical partition.
//!
//! The request writes one small row: the items of this effective partition key, as far as they were last written up to
//! this commit, are deleted. From then on nobody sees them (see `visible.rs`), their ids and unique values are free, and
//! new items live beside what is left of the old ones. The rows go afterwards, some with each commit of
//! [`Engine::clear_some`]; the row remembers how far that is, so it goes on after a crash, and disappears with the last
//! of them. In the feed of all versions each deletion stands where its item's rows went.
//!
//! Left out: prefixes of hierarchical keys, which the service refuses too.

use crate::Engine;
use crate::catalog::Container;
use crate::keys::{self, Number};
use crate::partition::{Changes, Partition, again, scan, settled, unless_gone};
use crate::pending::Pending;
use crate::request::{Manner, Outcome};
use crate::throughput::Spot;
use crate::transaction::{Base, Transaction, rows_of_place};
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Result};
use orrery_storage::{Direction, Snapshot};
use std::sync::Arc;

/// Items that one commit looks at.
const ITEMS_A_COMMIT: usize = 200;
/// Bytes of items after which a commit looks at no more.
const BYTES_A_COMMIT: usize = 4 << 20;

/// A logical partition that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clearing {
    /// Items last written up to this LSN are deleted.
    pub up_to: u64,
    /// Items below this number have been looked at.
    from: Number,
    /// Items from this number on are newer than the deletion.
    until: Number,
}

impl Clearing {
    /// The stored form: three numbers of eight bytes.
    fn encode(self) -> Vec<u8> {
        [self.up_to, self.from, self.until]
            .iter()
            .flat_map(|n| n.to_be_bytes())
            .collect()
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let at = |i: usize| keys::number(bytes.get(i * 8..i * 8 + 8)?);
        Some(Clearing {
            up_to: at(0)?,
            from: at(1)?,
            until: at(2)?,
        })
    }

    /// The error for a row that is none.
    pub fn damaged() -> Error {
        Error::internal("the row of a deletion is damaged")
    }

    /// One that is under way in a partition.
    fn first(snapshot: &dyn Snapshot) -> Result<Option<(Epk, Clearing)>> {
        let Some(entry) = scan(snapshot, &keys::clearings(), Direction::Forward).next() else {
            return Ok(None);
        };
        let (key, value) = entry?;
        keys::read_clearing(&key)
            .zip(Self::decode(&value))
            .map(Some)
            .ok_or_else(Self::damaged)
    }
}

impl Engine {
    /// Deletes all items of a logical partition. They are gone for everybody when this answers; their rows go by and
    /// by, see [`Engine::clear_some`]. It is charged as what it writes, one small row, however many items there are.
    ///
    /// # Errors
    /// 400/1001 for a key with too few or too many components, 429 if it is not admitted.
    pub fn delete_logical_partition(
        &self,
        container: &Container,
        key: &PartitionKey,
        manner: Manner,
    ) -> Outcome<()> {
        let mut work = Work::default();
        let begin = || {
            work.steps.clear();
            let epk = container.partition_key().epk(key);
            let partition = container.partition_of(&epk);
            let spot = Spot {
                container,
                partition: &partition,
                key: Some(&epk),
            };
            self.at(spot, manner, &mut work, |work| {
                work.steps.push(Step::Write { bytes: 0, terms: 0 });
                self.begin_clearing(container, &partition, &epk, work)
            })
        };
        let begun = container
            .partition_key()
            .check(key)
            .and_then(|()| again(begin));
        match begun {
            Ok(pending) => pending.wait(),
            Err(error) => {
                if work.steps.is_empty() {
                    work.steps.push(Step::Refused { bytes: 0, terms: 0 });
                }
                work.steps = work.steps.into_iter().map(Step::into_refused).collect();
                self.outcome(Err(error), work, None)
            }
        }
    }

    fn begin_clearing(
        &self,
        container: &Container,
        partition: &Arc<Partition>,
        epk: &Epk,
        work: &Work,
    ) -> Result<Pending<()>> {
        let mut writer = partition.lock()?;
        let clearing = Clearing {
            up_to: writer.lsn + 1,
            from: 0,
            until: container.numbers_used(),
        };
        let changes = Changes {
            puts: vec![(keys::clearing(epk), clearing.encode())],
            places: vec![keys::place(epk)],
            counters: writer.counters,
            ..Changes::default()
        };
        let ordered = writer.submit(partition, changes, self.world().random());
        drop(writer);
        let position = partition.position(ordered.lsn, None);
        Ok(Pending::new(
            Some(ordered),
            partition,
            self.outcome(Ok(()), work.clone(), Some(position)),
        ))
    }

    /// Removes items of logical partitions that are being deleted, some from each physical partition; whether there may
    /// be more to do.
    ///
    /// # Errors
    /// What the store reports; the rest is tried again next time.
    pub fn clear_some(&self) -> Result<bool> {
        let mut more = false;
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                more |= unless_gone(self.clear_some_of(&container, partition))?;
            }
        }
        Ok(more)
    }

    /// Removes all that is left of deleted logical partitions.
    ///
    /// # Errors
    /// What the store reports.
    pub fn finish_clearing(&self) -> Result<()> {
        while self.clear_some()? {}
        Ok(())
    }

    /// One commit: some items, and how far that is; whether there was anything to do.
    fn clear_some_of(&self, container: &Container, partition: &Arc<Partition>) -> Result<bool> {
        if Clearing::first(partition.snapshot()?.as_ref())?.is_none() {
            return Ok(false);
        }
        self.store.let_catch_up();
        let mut writer = partition.lock()?;
        // Under the lock, so that no newer deletion of the same logical partition comes between.
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let Some((epk, clearing)) = Clearing::first(snapshot.as_ref())? else {
            return Ok(true);
        };
        let mut transaction =
            Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let (mut looked_at, mut bytes, mut reached) = (0, 0, None);
        for stored in rows_of_place(snapshot.as_ref(), keys::place(&epk), clearing.from) {
            let stored = stored?;
            if stored.number >= clearing.until {
                break;
            }
            if looked_at == ITEMS_A_COMMIT || bytes >= BYTES_A_COMMIT || transaction.is_large() {
                reached = Some(stored.number);
                break;
            }
            looked_at += 1;
            bytes += stored.row.body.len();
            if stored.row.epk == epk && stored.row.lsn <= clearing.up_to {
                transaction.erase(&mut Base::Writer(&mut writer), &stored)?;
            }
        }
        let left = reached.map(|from| Clearing { from, ..clearing }.encode());
        transaction.carry(keys::clearing(&epk), left);
        let ordered = transaction.commit(&mut writer, None)?;
        drop(writer);
        ordered
            .map_or(Ok(()), |ordered| settled(partition, ordered))
            .map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_cut_ones_do_not() {
        let clearing = Clearing {
            up_to: 7,
            from: 0,
            until: u64::MAX,
        };
        let bytes = clearing.encode();
        assert_eq!(Clearing::decode(&bytes), Some(clearing));
        assert!((0..bytes.len()).all(|end| Clearing::decode(&bytes[..end]).is_none()));
    }
}
