//! The numbers of a container's items, from which their resource ids are made.
//!
//! A number is never used twice. The process that has the catalog hands numbers out to itself one
//! by one, and to owners of partitions in blocks.

use super::Container;
use crate::partition::Partition;
use orrery_model::Result;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Container {
    /// Reads the next item number from the partitions, unless the number is known. A container is
    /// opened without a read of its partitions, so that a start takes no longer for many
    /// containers.
    ///
    /// No number was given out before, so every stored number is durable and older.
    pub(super) fn find_next_number(&self) -> Result<()> {
        if self.next_number.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        // Each partition stores the next item number that it knew; the highest is above all items.
        let mut next_number = 1;
        for partition in self.partitions().iter() {
            let snapshot = partition.snapshot_in_any_phase()?;
            next_number = next_number.max(Partition::counters(snapshot.as_ref())?.next_number);
        }
        // Another thread may have found the number and given numbers out since. A split or merge
        // takes the number too before it replaces partitions, so a number that was read from
        // partitions that are gone is never used.
        let (ordering, unknown) = (Ordering::Relaxed, 0);
        let _ = (self.next_number).compare_exchange(unknown, next_number, ordering, ordering);
        Ok(())
    }

    /// Sets numbers aside for another process. All numbers that this process gives out later are
    /// above them.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn reserve_numbers(&self, count: u64) -> Result<Range<u64>> {
        self.find_next_number()?;
        let first = self.next_number.fetch_add(count, Ordering::Relaxed);
        Ok(first..first + count)
    }
}
