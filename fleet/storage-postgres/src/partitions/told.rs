//! Heads that other processes have told, so that the next opening of this process finds the loss of
//! commits that it has never seen.

use orrery_storage::{KnownHead, PartitionId, Token};

use super::Partitions;
use crate::head::HeadRow;
use crate::history;

/// A durable head of another process, with the number of its opening.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) row: HeadRow,
    pub(crate) opener: Option<Token>,
}

impl Told {
    /// Returns what tells which of two heads of one history is the newer one.
    fn age(&self) -> (u64, u64, u64) {
        (self.row.incarnation, self.row.epoch, self.row.lsn)
    }
}

impl Partitions {
    /// Returns what this process knows of a partition that was ever opened.
    pub(crate) fn known_head(&self, id: PartitionId) -> Option<KnownHead> {
        let partition = self.partitions.get(&id)?;
        let own = Told {
            row: partition.durable,
            opener: self.opener(id),
        };
        // Told and not yet looked at by an opening.
        let told = partition.told.filter(|told| told.age() > own.age());
        let Told { row, opener } = told.unwrap_or(own);
        (row.epoch > 0).then(|| KnownHead {
            incarnation: row.incarnation,
            epoch: row.epoch,
            head: row.head(),
            opener,
        })
    }

    /// Keeps what another process knows of a partition for the next opening. If the last opening of
    /// this process cannot have found that head, the lease is over. Returns true if it was there.
    pub(crate) fn note_known_head(&mut self, id: PartitionId, known: &KnownHead) -> bool {
        let partition = self.partitions.entry(id).or_default();
        let row = HeadRow {
            incarnation: known.incarnation,
            epoch: known.epoch,
            lsn: known.head.lsn,
            token: known.head.token,
            state: 0,
        };
        let told = Told {
            row,
            opener: known.opener,
        };
        if partition.told.is_some_and(|last| last.age() > told.age()) {
            return false;
        }
        partition.told = Some(told);
        let own = Told {
            row: partition.durable,
            opener: None,
        };
        let has_lost = told.age() > own.age()
            || history::is_overtaken(&row, known.opener, &partition.openings);
        if !has_lost || partition.lease.is_none() {
            return false;
        }
        self.end_lease(id);
        true
    }

    /// Returns what another process has told of a partition since the last opening.
    pub(crate) fn told(&self, id: PartitionId) -> Option<Told> {
        self.partitions.get(&id)?.told
    }

    /// Forgets what an opening has looked at. Returns true if more was told meanwhile.
    pub(crate) fn end_told(&mut self, id: PartitionId, looked_at: Option<Told>) -> bool {
        let partition = self.partitions.entry(id).or_default();
        let is_told_more = partition.told != looked_at;
        if !is_told_more {
            partition.told = None;
        }
        is_told_more
    }
}
