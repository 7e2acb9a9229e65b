//! The rows of a partition that follow from no single item: counters, counts of index entries, the
//! log of commits, sizes and deletions of logical partitions.

use super::findings::{Check, PartitionFindings};
use crate::partition::key_deletion::KeyDeletion;
use crate::partition::key_sizes::{bound_of, large_of};
use crate::partition::keys::{self, ItemNumber, PathNumber, RowKind};
use crate::partition::row::Row;
use crate::partition::{CommitChanges, Counters, Partition, entry_counts};
use orrery_model::partition_key::Epk;
use orrery_storage::{Head, Snapshot};
use std::collections::{BTreeMap, HashMap};

/// Sums over the rows of a partition.
pub(super) struct OwnRows {
    /// The counters that follow from the items.
    expected: Counters,
    /// The counts of index entries that are there, by path.
    entries: HashMap<PathNumber, u64>,
    /// The highest number of an item.
    highest_number: Option<ItemNumber>,
    /// The sizes of large logical partitions, as their rows say, with those that are counted.
    large: BTreeMap<Epk, (u64, u64)>,
    /// The bound on the size of every other logical partition.
    bound: Option<u64>,
    /// The sizes of the logical partitions that are being read.
    sizes: HashMap<Epk, u64>,
    /// The EPK prefix of those.
    prefix: keys::EpkPrefix,
    /// The largest logical partition that has no row of its own.
    largest_other: Option<(u64, Epk)>,
    versions_floor: Option<u64>,
}

impl OwnRows {
    /// Reads the rows with which the items are compared while they are read.
    pub(super) fn new(snapshot: &dyn Snapshot, found: &mut PartitionFindings<'_>) -> OwnRows {
        let mut kept = |key: Vec<u8>, error| found.add_failure(&key, &error);
        let large = large_of(snapshot).unwrap_or_else(|error| {
            kept(keys::key_sizes().0, error);
            Vec::new()
        });
        let bound = bound_of(snapshot).unwrap_or_else(|error| {
            kept(keys::key_size_bound(), error);
            None
        });
        let floors = Partition::version_floors(snapshot).unwrap_or_else(|error| {
            kept(keys::versions_floor(), error);
            None
        });
        OwnRows {
            expected: Counters::default(),
            entries: HashMap::new(),
            highest_number: None,
            large: large
                .into_iter()
                .map(|(epk, size)| (epk, (size, 0)))
                .collect(),
            bound,
            sizes: HashMap::new(),
            prefix: keys::EpkPrefix::default(),
            largest_other: None,
            versions_floor: floors.map(|floors| floors.highest()),
        }
    }

    /// Returns the LSN after which every version is kept, if versions are kept.
    pub(super) fn versions_floor(&self) -> Option<u64> {
        self.versions_floor
    }

    /// Counts an item. Items come in the order of their EPK prefixes.
    pub(super) fn note_item(&mut self, number: ItemNumber, row: &Row) {
        self.highest_number = self.highest_number.max(Some(number));
        let prefix = keys::epk_prefix(&row.epk);
        if prefix != self.prefix {
            self.end_sizes();
            self.prefix = prefix;
        }
        *self.sizes.entry(row.epk.clone()).or_default() += row.size() as u64;
    }

    /// Ends the logical partitions that are being read.
    fn end_sizes(&mut self) {
        for (epk, size) in self.sizes.drain() {
            match self.large.get_mut(&epk) {
                Some((_, counted)) => *counted = size,
                None => {
                    let other = Some((size, epk));
                    self.largest_other = self.largest_other.take().max(other);
                }
            }
        }
    }

    /// Adds what the rows of an item add to the counters.
    pub(super) fn expect(&mut self, changes: &CommitChanges) {
        self.expected.items += changes.counters.items;
        self.expected.bytes += changes.counters.bytes;
        self.expected.index_bytes += changes.counters.index_bytes;
    }

    /// Counts a row that may be an index entry.
    pub(super) fn count_entry(&mut self, key: &[u8], value: &[u8]) {
        if let Some(keys::Kept::IndexEntry(path, ..)) = keys::kept(key) {
            let entries = keys::entries_counted(key, value);
            let count = self.entries.entry(path).or_default();
            *count = count.saturating_add_signed(entries);
        }
    }

    /// Checks a row by itself.
    pub(super) fn add(
        &mut self,
        kind: &RowKind,
        key: &[u8],
        value: &[u8],
        head: Head,
        partition: &Partition,
        found: &mut PartitionFindings<'_>,
    ) {
        if keys::kept(key).is_none() {
            let detail = format!("the key of a {} row cannot be decoded", kind.name);
            return found.add(Check::Unreadable, key, detail);
        }
        if let Some(fault) = log_fault(key, value, head) {
            found.add(Check::CommitLog, key, fault);
        }
        let Some(epk) = keys::read_key_deletion(key) else {
            return;
        };
        match KeyDeletion::decode(value) {
            None => found.add(Check::KeyDeletion, key, "the row cannot be decoded"),
            Some(_) if !partition.range.contains(&epk) => {
                let detail = format!("the hash {epk} is not in the range of the partition");
                found.add(Check::KeyDeletion, key, detail);
            }
            Some(deletions) => {
                if deletions.iter().any(|deletion| deletion.up_to > head.lsn) {
                    let detail = format!("a deletion follows the last commit {}", head.lsn);
                    found.add(Check::KeyDeletion, key, detail);
                }
            }
        }
    }

    /// Compares the sums with the rows that hold them.
    pub(super) fn compare(&mut self, snapshot: &dyn Snapshot, found: &mut PartitionFindings<'_>) {
        self.end_sizes();
        self.compare_counters(snapshot, found);
        self.compare_entries(snapshot, found);
        self.compare_sizes(found);
    }

    fn compare_counters(&self, snapshot: &dyn Snapshot, found: &mut PartitionFindings<'_>) {
        let key = keys::counters();
        let stored = match Partition::counters(snapshot) {
            Ok(stored) => stored,
            Err(error) => return found.add_failure(&key, &error),
        };
        for (name, stored, counted) in [
            ("items", stored.items, self.expected.items),
            ("bytes of items", stored.bytes, self.expected.bytes),
            (
                "bytes of index entries",
                stored.index_bytes,
                self.expected.index_bytes,
            ),
        ] {
            if stored != counted {
                let detail = format!("the counter of {name} is {stored}, the rows have {counted}");
                found.add(Check::Counters, &key, detail);
            }
        }
        if let Some(number) = self.highest_number
            && number >= stored.next_number
        {
            let detail = format!(
                "the next number of an item is {}, and an item has the number {number}",
                stored.next_number
            );
            found.add(Check::Counters, &key, detail);
        }
    }

    fn compare_entries(&self, snapshot: &dyn Snapshot, found: &mut PartitionFindings<'_>) {
        let stored = match entry_counts(snapshot) {
            Ok(stored) => stored,
            Err(error) => return found.add_failure(&keys::path_counts(0), &error),
        };
        let last = self
            .entries
            .keys()
            .max()
            .map_or(0, |path| *path as usize + 1);
        for path in 0..last.max(stored.len()) {
            let counted = self
                .entries
                .get(&(path as PathNumber))
                .copied()
                .unwrap_or(0);
            let stored = stored.get(path).copied().unwrap_or(0);
            if stored != counted {
                let detail = format!(
                    "the counter of the index entries of path number {path} is {stored}, and there \
                     are {counted}"
                );
                found.add(
                    Check::Counters,
                    &keys::path_counts(path as u32 / 64),
                    detail,
                );
            }
        }
    }

    fn compare_sizes(&self, found: &mut PartitionFindings<'_>) {
        for (epk, (stored, counted)) in &self.large {
            if stored != counted {
                let detail = format!(
                    "the size of the logical partition {epk} is {stored} bytes, and its items have \
                     {counted}"
                );
                found.add(Check::KeySizes, &keys::key_size(epk), detail);
            }
        }
        if let (Some(bound), Some((size, epk))) = (self.bound, &self.largest_other)
            && *size > bound
        {
            let detail = format!(
                "the logical partition {epk} has {size} bytes, and the bound of those without a \
                 row is {bound}"
            );
            found.add(Check::KeySizes, &keys::key_size_bound(), detail);
        }
    }
}

/// Returns the fault of a row of the commit log; `None` for a row without one and for other rows.
fn log_fault(key: &[u8], value: &[u8], head: Head) -> Option<String> {
    let lsn = value.get(..8).and_then(keys::number);
    if key != keys::log(lsn.unwrap_or(0)) {
        let is_log = key.first() == keys::log(0).first();
        return is_log.then(|| "the row is not that of its commit".to_owned());
    }
    let last = head.lsn;
    lsn.filter(|lsn| *lsn > last)
        .map(|lsn| format!("the row is of commit {lsn}, after the last one, {last}"))
}
