//! The comparison of one physical partition.

use super::findings::{Check, FindingPlace, Findings, PartitionFindings, Watch};
use super::fingerprints::{Buckets, Comparison, Difference, Fingerprints, Side, buckets_for};
use super::item_rows::{ExpectedRows, ItemRules};
use super::own_rows::OwnRows;
use super::{vectors, versions};
use crate::catalog::Container;
use crate::container::settings::Settings;
use crate::errors::storage_failure;
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::paths::Paths;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, RowKind};
use crate::partition::row::Row;
use crate::partition::row_reader::complete_row;
use crate::partition::{Partition, load_paths, scan};
use bytes::Bytes;
use orrery_model::{Error, Result};
use orrery_storage::{Direction, Snapshot};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that a comparison one by one holds in memory, about.
const COMPARED_ROWS: u64 = 500_000;
/// Differences of a partition that are named.
const NAMED_MAX: usize = 300;

/// Compares a partition as of one moment.
///
/// # Errors
/// 410 if the partition is gone, 503 if this process may not read it; 500 and 503 if the store
/// gives no snapshot.
pub(super) fn check(
    container: &Container,
    partition: &Partition,
    findings: &mut Findings,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let before = findings.count();
    // The policies come before the snapshot, so that none which an item follows is missing; one
    // that is newer than these is found by the second look.
    let (mut policies, mut snapshot) = (container.policies(), partition.snapshot()?);
    if Partition::generations(snapshot.as_ref()).is_ok_and(|all| policies.of(&all).is_none()) {
        (policies, snapshot) = (container.policies(), partition.snapshot()?);
    }
    let place = FindingPlace::of(container, partition);
    let mut found = PartitionFindings::new(place, findings);
    let snapshot = snapshot.as_ref();
    let settings = container.settings();
    let Some(generations) = generations(snapshot, &policies, &mut found) else {
        return Ok(());
    };
    let Some(paths) = dictionary(snapshot, &mut found) else {
        return Ok(());
    };
    let mut pass = Pass {
        partition,
        snapshot,
        settings,
        policies: &policies,
        generations: &generations,
        paths: &paths,
        sums: Fingerprints::new(),
        own: OwnRows::new(snapshot, &mut found),
        found,
        watch,
        findings_before: before,
        is_whole: true,
        lacks_paths: false,
        rows: 0,
    };
    pass.run();
    Ok(())
}

/// Reads the policies of the items, and finds policies that are not known.
fn generations(
    snapshot: &dyn Snapshot,
    policies: &Policies,
    found: &mut PartitionFindings<'_>,
) -> Option<PolicyGenerations> {
    let key = keys::policy_generations();
    match Partition::generations(snapshot) {
        Ok(generations) if policies.of(&generations).is_some() => Some(generations),
        Ok(generations) => {
            let detail = format!(
                "items follow an indexing policy that the container does not know: {:?}",
                generations.generations()
            );
            found.add(Check::Policies, &key, detail);
            None
        }
        Err(error) => {
            found.add_failure(&key, &error);
            None
        }
    }
}

/// Reads the dictionary, and finds gaps in its numbers.
fn dictionary(snapshot: &dyn Snapshot, found: &mut PartitionFindings<'_>) -> Option<Paths> {
    let paths = match load_paths(snapshot) {
        Ok(paths) => paths,
        Err(error) => {
            found.add_failure(&keys::path(0), &error);
            return None;
        }
    };
    let (count, last) = (paths.size().0, paths.last());
    if count != last as usize {
        let detail =
            format!("the dictionary has {count} paths, and the last has the number {last}");
        found.add(Check::Paths, &keys::path(last), detail);
    }
    Some(paths)
}

/// The comparison of a partition.
struct Pass<'a, 'w> {
    partition: &'a Partition,
    snapshot: &'a dyn Snapshot,
    settings: Arc<Settings>,
    policies: &'a Policies,
    generations: &'a PolicyGenerations,
    paths: &'a Paths,
    sums: Fingerprints,
    own: OwnRows,
    found: PartitionFindings<'a>,
    watch: &'a mut Watch<'w>,
    findings_before: u64,
    /// False once a row could not be read.
    is_whole: bool,
    /// True once an item was found whose path the dictionary lacks.
    lacks_paths: bool,
    rows: u64,
}

impl Pass<'_, '_> {
    fn run(&mut self) {
        // Every row in the order of the keys; the items come first.
        for (kind, range) in RowKind::all() {
            self.read_kind(kind, &range);
            if self.watch.is_ended() {
                return;
            }
        }
        for range in keys::unknown_ranges() {
            self.read_unknown(&range);
        }
        self.read_versions();
        // Sums of what could not be read differ for that reason alone.
        if !self.is_whole || self.watch.is_ended() {
            return;
        }
        self.own.compare(self.snapshot, &mut self.found);
        let (buckets, unnamed) = self.sums.different(buckets_for(self.rows, COMPARED_ROWS));
        if !buckets.is_empty() {
            self.name_differences(&buckets);
        }
        if unnamed > 0 {
            let detail = format!(
                "rows of {unnamed} further groups of items are missing, surplus or different"
            );
            self.found.add(Check::DifferentRow, &[], detail);
        }
        let vectors = vectors::check(self.snapshot, &mut self.found, self.watch);
        if let Err(error) = vectors {
            self.found
                .add_failure(&keys::approximate_states().0, &error);
        }
    }

    /// Reads the rows of a kind.
    fn read_kind(&mut self, kind: &RowKind, range: &(Vec<u8>, Vec<u8>)) {
        let mut previous: Option<Bytes> = None;
        for row in scan(self.snapshot, range, Direction::Forward) {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) => return self.fail(&range.0, &error),
            };
            if previous.as_ref().is_some_and(|previous| *previous >= key) {
                let detail = format!("a {} row comes before a lower key", kind.name);
                self.found.add(Check::Order, &key, detail);
            }
            if let Some(fault) = self.feed_fault(previous.as_deref(), &key) {
                self.found.add(Check::Feed, &key, fault);
            }
            self.read_row(kind, &key, &value);
            if !self.count(&key, &value) {
                return;
            }
            previous = Some(key);
        }
    }

    /// Returns the fault of a row of the change feed after `previous`: each place is that of one
    /// item, but in the order of merged histories.
    fn feed_fault(&self, previous: Option<&[u8]>, key: &[u8]) -> Option<String> {
        let (lsn, sequence) = keys::read_feed_place(key)?;
        let is_same = previous.and_then(keys::read_feed_place) == Some((lsn, sequence));
        let fault = || format!("two items have the place {lsn}, {sequence} of the change feed");
        (is_same && lsn > self.partition.mixed_until).then(fault)
    }

    fn read_row(&mut self, kind: &RowKind, key: &Bytes, value: &Bytes) {
        if !kind.follows_from_item() {
            let head = self.snapshot.head();
            return self
                .own
                .add(kind, key, value, head, self.partition, &mut self.found);
        }
        match kind.item(key, value) {
            Some(item) => self.sums.add(Side::Stored, item, key, value),
            None => {
                let detail = format!("a {} row names no item", kind.name);
                return self.found.add(Check::Unreadable, key, detail);
            }
        }
        self.own.count_entry(key, value);
        if let Some((epk_prefix, number)) = keys::read_item(key) {
            self.read_item(key, epk_prefix, number, value);
        }
    }

    /// Checks an item, and adds the rows that follow from it.
    fn read_item(&mut self, key: &Bytes, epk_prefix: EpkPrefix, number: ItemNumber, first: &Bytes) {
        self.watch.progress.items += 1;
        let row = match self.whole_row(number, first) {
            Ok(row) => row,
            Err(error) => return self.fail(key, &error),
        };
        self.own.note_item(number, &row);
        self.check_item(key, epk_prefix, number, &row);
        let expected = match self.rules().rows_of(number, row) {
            Ok(expected) => expected,
            Err(error) => return self.fail(key, &error),
        };
        // A missing path would be given a number anew, which may be the one that it had.
        if let Some((_, path)) = expected.changes.new_paths.rows.first()
            && !self.lacks_paths
        {
            self.lacks_paths = true;
            let name = String::from_utf8_lossy(path.get(4..).unwrap_or_default()).into_owned();
            let detail = format!("the dictionary lacks the path '{name}' of an item");
            let id = Some(expected.id.as_str());
            self.found
                .add_of_item(Check::Paths, &keys::path(0), id, detail);
        }
        for (key, value) in &expected.changes.puts {
            self.sums.add(Side::Expected, number, key, value);
        }
        self.own.expect(&expected.changes);
    }

    /// Checks what an item says of itself.
    fn check_item(&mut self, key: &[u8], epk_prefix: EpkPrefix, number: ItemNumber, row: &Row) {
        if let Some(fault) = self.rules().fault_of(epk_prefix, row) {
            self.found.add(Check::Item, key, fault);
        }
        if !self.partition.range.contains(&row.epk) {
            let detail = format!("the hash {} is not in the range of the partition", row.epk);
            self.found.add(Check::Item, key, detail);
        }
        let head = self.snapshot.head().lsn;
        if row.lsn > head {
            let detail = format!(
                "the item has the LSN {}, after the last commit {head}",
                row.lsn
            );
            self.found.add(Check::Feed, key, detail);
        }
        if self
            .own
            .versions_floor()
            .is_some_and(|floor| row.lsn > floor)
        {
            let (key, value) = versions::link(number, row.lsn);
            self.sums.add(Side::Expected, number, &key, &value);
        }
    }

    fn whole_row(&self, number: ItemNumber, first: &Bytes) -> Result<Row> {
        complete_row(first.clone(), number, |key| {
            self.snapshot.get(key).map_err(storage_failure)
        })
    }

    fn rules(&self) -> ItemRules<'_> {
        ItemRules {
            settings: &self.settings,
            policies: self.policies,
            generations: self.generations,
            paths: self.paths,
        }
    }

    fn read_unknown(&mut self, range: &(Vec<u8>, Vec<u8>)) {
        for row in scan(self.snapshot, range, Direction::Forward) {
            match row {
                Ok((key, value)) => {
                    let detail = "the key is of no kind of row that this program writes";
                    self.found.add(Check::UnknownRow, &key, detail);
                    if !self.count(&key, &value) {
                        return;
                    }
                }
                Err(error) => return self.fail(&range.0, &error),
            }
        }
    }

    /// Adds the chain of the versions of each item.
    fn read_versions(&mut self) {
        let floor = self.own.versions_floor();
        let Pass {
            snapshot,
            sums,
            found,
            ..
        } = self;
        let read = versions::read(*snapshot, floor, Some(found), |side, item, key, value| {
            sums.add(side, item, key, value);
        });
        if let Err(error) = read {
            self.fail(&keys::version(0, 0, 0, 0), &error);
        }
    }

    /// Compares the rows of some items one by one.
    fn name_differences(&mut self, buckets: &Buckets) {
        let mut rows = Comparison::default();
        let mut ids: HashMap<ItemNumber, String> = HashMap::new();
        if let Err(error) = self.compare(buckets, &mut rows, &mut ids) {
            return self.fail(&[], &error);
        }
        let differences = rows.differences();
        for (key, item, difference) in differences.iter().take(NAMED_MAX) {
            let id = ids.get(item).map(String::as_str);
            self.name_difference(key, *item, id, *difference);
        }
        self.found
            .omit(differences.len().saturating_sub(NAMED_MAX) as u64);
    }

    /// Reads the rows of some items and those that follow from them.
    fn compare(
        &mut self,
        buckets: &Buckets,
        rows: &mut Comparison,
        ids: &mut HashMap<ItemNumber, String>,
    ) -> Result<()> {
        let floor = self.own.versions_floor();
        for (kind, range) in RowKind::all().filter(|(kind, _)| kind.follows_from_item()) {
            for row in scan(self.snapshot, &range, Direction::Forward) {
                let (key, value) = row?;
                if !self.watch.read_again(&key, &value) {
                    return Ok(());
                }
                let Some(item) = kind.item(&key, &value).filter(|item| buckets.has(*item)) else {
                    continue;
                };
                rows.add(Side::Stored, item, &key, &value);
                let Some((_, number)) = keys::read_item(&key) else {
                    continue;
                };
                let row = self.whole_row(number, &value)?;
                if floor.is_some_and(|floor| row.lsn > floor) {
                    let (key, value) = versions::link(number, row.lsn);
                    rows.add(Side::Expected, number, &key, &value);
                }
                let ExpectedRows { id, changes } = self.rules().rows_of(number, row)?;
                for (key, value) in &changes.puts {
                    rows.add(Side::Expected, number, key, value);
                }
                ids.insert(number, id);
            }
        }
        versions::read(self.snapshot, floor, None, |side, item, key, value| {
            if buckets.has(item) {
                rows.add(side, item, key, value);
            }
        })
    }

    fn name_difference(
        &mut self,
        key: &[u8],
        item: ItemNumber,
        id: Option<&str>,
        difference: Difference,
    ) {
        if let Some(lsn) = versions::lsn_of_link(key) {
            let (check, detail) = versions::difference(item, lsn, difference);
            return self.found.add_of_item(check, &[], id, detail);
        }
        let kind = RowKind::of(key).map_or("", |kind| kind.name);
        let of_item = format!("the {kind} row of item number {item}");
        let is_there = matches!(self.snapshot.get(key), Ok(Some(_)));
        let (check, detail) = match difference {
            Difference::Missing if is_there => {
                (Check::DifferentRow, format!("{of_item} names another item"))
            }
            Difference::Missing => (Check::MissingRow, format!("{of_item} is missing")),
            Difference::Surplus => (
                Check::SurplusRow,
                format!("a {kind} row of item number {item} follows from no item"),
            ),
            Difference::Value => (
                Check::DifferentRow,
                format!("{of_item} has another value than the one that follows from the item"),
            ),
            Difference::Claimed => (
                Check::Item,
                format!("several items need the same {kind} row, and one of them has it"),
            ),
        };
        self.found.add_of_item(check, key, id, detail);
    }

    /// Adds a failure. The partition is not compared then.
    fn fail(&mut self, key: &[u8], error: &Error) {
        self.is_whole = false;
        self.found.add_failure(key, error);
    }

    /// Counts a row. Returns false once the observer has ended the verification.
    fn count(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.rows += 1;
        let bytes = (key.len() + value.len()) as u64;
        self.watch.read(1, bytes, self.findings_before)
    }
}
