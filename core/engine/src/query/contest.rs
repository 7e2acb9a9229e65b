//! The choice between a walk in the order of ORDER BY and a sort of the matches, for a query whose
//! conditions hold for some entries of the walk only.
//!
//! The number of entries that a walk has to pass depends on where the matches lie in the order,
//! which no statistics show. So the walk begins, and postings that pass its checks are kept. Beside
//! it the entries of the lookups are counted. Then the cost of reading and sorting all matches is
//! known:
//!
//! ```text
//! walk   |---|-------|---------------|-----------| found all rows: the walk goes on
//! count     |-|    |---|    |-----|              |
//!                the cost S of a sort is known   the walk has cost S: sort
//! ```
//!
//! In both cases the page costs at most twice as much as the cheaper of both, apart from the first
//! entries and from the counting. Costs are prices of counted work, so the same data gives the same
//! choice. The work for the access path that lost is reported (`Compared`) and not charged, as
//! planning is not.
//!
//! A query with more rows than the page takes is another case: a sort is repeated for every page,
//! while a walk continues. In one partition a sort that seems much cheaper by the counts is taken
//! at once, and otherwise the walk may cost [`REPEATED_SORT_FACTOR`] times as much as the sort.
//!
//! Left out: a comparison on later pages, which keep the order of the first page, and of conditions
//! that the index does not answer. A contest over more than [`WALKED_ENTRIES_MAX`] entries ends in
//! favour of the walk, whose page may end at every entry.

use super::access::{AccessMethod, AccessPath, Counting};
use super::cursor::Cursor;
use super::merge::Merge;
use super::partition_query::FixedOrder;
use super::source::{Candidates, MergedPosting, Target};
use orrery_model::{Result, limits};

/// Entries that the walk passes before the first comparison, and in addition for each partition.
const FIRST_ENTRIES: u64 = 64;
const FIRST_ENTRIES_OF_PARTITION: u64 = 8;
/// Entries that are counted at the cost of an entry that is passed and checked by a look-up.
const COUNTED_PER_PASSED: u64 = 8;
/// Counted entries that cost as much as opening a list.
const ENTRIES_OF_OPENING: u64 = 16;
/// Lists that are counted up to the rows of a page before the walk begins.
const SHORT_LISTS: u64 = 3;
/// Entries after which the walk goes on without comparison.
const WALKED_ENTRIES_MAX: u64 = 1 << 18;
/// Factor by which a sort must be cheaper than a walk through all its entries, or than the walk
/// that the counts let expect if the query has further pages.
const SORT_FACTOR: u64 = 2;
/// Factor by which a walk may cost more than a sort that further pages would repeat.
const REPEATED_SORT_FACTOR: u64 = 4;
/// Entries of a walk in a narrow range that are counted.
const NARROW_ENTRIES: usize = 256;
/// Size of an item in a partition without items, in bytes.
const ITEM_BYTES: u64 = 1024;
/// Entries between two calls of the check point.
const CHECK_INTERVAL: u64 = 256;

/// The walk of a contest.
#[derive(Default)]
struct Walk {
    /// Entries passed.
    entries: u64,
    /// Items read for tests.
    items_read: u64,
    /// Matches found whose item was read.
    items_found: u64,
    /// Bytes of the items that are kept.
    bytes: usize,
}

/// The alternative to the walk, as far as it is planned: the partitions in order.
#[derive(Default)]
struct Sort<'a> {
    parts: Vec<SortPart<'a>>,
    /// The count in the partition behind `parts`.
    counting: Counting<'a>,
    /// Entries counted in `parts`, with those that opening the lists is worth.
    counted: u64,
    /// Entries that have to be passed, and items that have to be read. Checks may leave fewer
    /// items.
    entries_to_pass: u64,
    items_to_read: u64,
}

/// The sorted access path in one partition.
struct SortPart<'a> {
    path: Option<AccessPath>,
    /// Entries counted to choose the path.
    counted: u64,
    /// The cursor, if its postings were checked to learn their number.
    cursor: Option<Cursor<'a>>,
}

/// The prices by which the access paths are compared, in 1/10,000 RU.
struct Prices {
    entry: u64,
    item: u64,
    rows_wanted: u64,
}

impl Prices {
    /// Returns the least cost of a walk that continues, with that of counting beside it.
    fn of_walk(&self, walk: &Walk, counted: u64) -> u64 {
        let items_to_read = self.rows_wanted.saturating_sub(walk.items_found);
        let entries = walk.entries + counted / COUNTED_PER_PASSED;
        self.of(entries, walk.items_read.saturating_add(items_to_read))
    }

    fn of(&self, entries: u64, items: u64) -> u64 {
        let entries = entries.saturating_mul(self.entry);
        entries.saturating_add(items.saturating_mul(self.item))
    }
}

impl SortPart<'_> {
    /// Returns true if the entries have to be passed to learn how many of them match.
    fn has_checks(&self) -> bool {
        self.path
            .as_ref()
            .is_some_and(|path| !path.checks.is_empty())
    }
}

impl<'a> Candidates<'a> {
    /// Compares the walks, whose cursors are open, with a sort, and changes to the sort if it is
    /// cheaper.
    ///
    /// # Errors
    /// 500 if the store cannot be read, 410 if a partition is split or merged.
    pub(super) fn hold_contest(&mut self) -> Result<()> {
        let mut walk = Walk::default();
        let mut sort = Sort::default();
        let is_sort_cheaper = if self.query.rows_wanted == usize::MAX {
            self.is_cheaper_than_whole_walk(&mut sort)?
        } else if self.seems_cheaper_than_walk(&mut sort)? {
            true
        } else {
            sort = Sort::default();
            self.is_cheaper_than_walk(&mut walk, &mut sort)?
        };
        if is_sort_cheaper {
            return self.change_to(sort);
        }
        for (part, cursor) in sort.parts.iter().zip(&mut self.cursors) {
            if let Some(cursor) = cursor {
                cursor.compared.counted += part.counted;
                if let Some(sorted) = &part.cursor {
                    cursor.compared.passed += sorted.work.walked_entries;
                }
            }
        }
        Ok(())
    }

    /// Walks ahead until the rows of the page are found or the walk has cost as much as a sort.
    /// Returns true if a sort is cheaper than what is left of the walk.
    fn is_cheaper_than_walk(&mut self, walk: &mut Walk, sort: &mut Sort<'a>) -> Result<bool> {
        let mut limit = FIRST_ENTRIES + FIRST_ENTRIES_OF_PARTITION * self.targets.len() as u64;
        if self.has_few_matches(sort, limit)? {
            return Ok(true);
        }
        if self.walk_ahead(walk, |walk| walk.entries + walk.items_read >= limit)? {
            return Ok(false);
        }
        let prices = self.prices()?;
        while !self.plan_sort(sort, limit.saturating_mul(COUNTED_PER_PASSED))? {
            limit *= 2;
            let budget = prices.of(limit, prices.rows_wanted);
            let is_over = |walk: &Walk| prices.of_walk(walk, 0) >= budget;
            if limit > WALKED_ENTRIES_MAX || self.walk_ahead(walk, is_over)? {
                return Ok(false);
            }
        }

        // Passing all entries of the lookups to check them is worth it once the walk has cost more.
        for is_checked in [false, true] {
            if is_checked {
                self.check_matches(sort)?;
            }
            let is_bounded_below = !is_checked && sort.parts.iter().any(SortPart::has_checks);
            let items = if is_bounded_below {
                0
            } else {
                sort.items_to_read
            };
            let rows = items.saturating_mul(self.query.profile.cost_of_building());
            let cost = prices.of(sort.entries_to_pass, items).saturating_add(rows);
            let cost = match self.query.may_continue {
                true => cost.saturating_mul(REPEATED_SORT_FACTOR),
                false => cost,
            };
            // The checks cost as much as the walk so far, whichever of both is taken in the end.
            let counted = if is_bounded_below { 0 } else { sort.counted };
            let is_over = |walk: &Walk| prices.of_walk(walk, counted) >= cost;
            if cost > prices.of(WALKED_ENTRIES_MAX, 0) || self.walk_ahead(walk, is_over)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the query has further pages and a sort is much cheaper than a walk that
    /// finds its matches evenly distributed. The counts are those of a choice that is made once,
    /// which takes too long in several partitions.
    fn seems_cheaper_than_walk(&mut self, sort: &mut Sort<'a>) -> Result<bool> {
        if !self.query.may_continue || self.targets.len() > 1 {
            return Ok(false);
        }
        let (mut walk_entries, mut matches) = (0, 0);
        for (target, walk) in self.cursors.iter().enumerate() {
            let Target {
                snapshot, facts, ..
            } = &self.targets[target];
            let walk = walk.as_ref().and_then(|cursor| cursor.access().walk());
            let narrow = walk.and_then(|walk| walk.narrow_count(*snapshot, NARROW_ENTRIES));
            walk_entries += match narrow {
                Some(entries) => entries,
                None => facts.counters(*snapshot)?.items,
            };
            let mut counting = Counting::default();
            let path = self.choose_in(target, Some(FixedOrder::Sort), &mut counting)?;
            matches += match (&path.method, path.counted) {
                (AccessMethod::Empty, _) => 0,
                (_, Some(counted)) => counted,
                (_, None) => return Ok(false),
            };
            sort.parts.push(SortPart {
                path: Some(path),
                counted: counting.entries(),
                cursor: None,
            });
        }
        let profile = self.query.profile;
        let prices = Prices {
            entry: profile.cost_of_walking(1),
            item: profile.cost_of_loading(ITEM_BYTES),
            rows_wanted: 0,
        };
        let rows_wanted = (self.query.rows_wanted as u64)
            .min(matches)
            .min(walk_entries);
        let passed = rows_wanted.saturating_mul(walk_entries) / matches.max(1);
        let walk_cost = prices.of(passed.min(walk_entries), rows_wanted);
        let sort_cost = prices.of(matches, matches);
        Ok(sort_cost.saturating_mul(SORT_FACTOR) <= walk_cost)
    }

    /// Returns true if one partition has no more matches than the query takes rows, so that a walk
    /// would have to read the same items and pass all entries.
    fn has_few_matches(&self, sort: &mut Sort<'a>, limit: u64) -> Result<bool> {
        let profile = self.query.profile;
        let building_costs_more = profile.cost_of_building() > profile.cost_of_walking(1);
        if building_costs_more || self.query.may_continue {
            return Ok(false);
        }
        let rows_wanted = self.query.rows_wanted as u64;
        let counted_max = rows_wanted.saturating_mul(SHORT_LISTS) + ENTRIES_OF_OPENING;
        Ok(self.targets.len() == 1
            && self.plan_sort(sort, counted_max.min(limit * COUNTED_PER_PASSED))?
            && sort.items_to_read <= rows_wanted)
    }

    /// Returns true if a sort is cheaper than a walk that reads all its entries.
    fn is_cheaper_than_whole_walk(&mut self, sort: &mut Sort<'a>) -> Result<bool> {
        let mut items = 0;
        for target in self.targets {
            items += target.facts.counters(target.snapshot)?.items;
        }
        if !self.plan_sort(sort, items.min(WALKED_ENTRIES_MAX))? {
            return Ok(false);
        }
        let prices = self.prices()?;
        let sort_cost = prices.of(sort.entries_to_pass, sort.items_to_read);
        let walk_cost = prices.of(items, sort.items_to_read);
        Ok(sort_cost.saturating_mul(SORT_FACTOR) <= walk_cost)
    }

    /// Walks until `is_over` returns true. Returns true if the walk has found the rows of the page
    /// or has come to its end.
    fn walk_ahead(&mut self, walk: &mut Walk, is_over: impl Fn(&Walk) -> bool) -> Result<bool> {
        while self.found.len() < self.query.rows_wanted && walk.bytes < limits::PAGE_BYTES {
            if is_over(walk) {
                return Ok(false);
            }
            let Some((target, posting)) = self.merge.next(&mut self.cursors)? else {
                return Ok(true);
            };
            walk.entries += 1;
            if walk.entries.is_multiple_of(CHECK_INTERVAL) {
                (self.query.check_point)()?;
            }
            let Some(cursor) = &mut self.cursors[target] else {
                continue;
            };
            if !cursor.admits(&posting)? {
                continue;
            }
            if cursor.access().tests.is_empty() {
                self.found
                    .push_back((target, MergedPosting::Checked(posting)));
                continue;
            }
            // The tests need the item.
            walk.items_read += 1;
            if let Some(item) = cursor.load(posting)? {
                walk.items_found += 1;
                walk.bytes += item.text.as_ref().map_or(0, |text| text.len());
                self.found.push_back((target, MergedPosting::Item(item)));
            }
        }
        Ok(true)
    }

    /// Plans the sort in one partition after the other until so many entries are counted. Returns
    /// true if the sort is planned in all partitions.
    fn plan_sort(&self, sort: &mut Sort<'a>, counted_max: u64) -> Result<bool> {
        while sort.parts.len() < self.targets.len() {
            let left = counted_max.saturating_sub(sort.counted);
            if left < ENTRIES_OF_OPENING {
                return Ok(false);
            }
            (self.query.check_point)()?;
            let target = sort.parts.len();
            sort.counting.entries_max = Some(usize::try_from(left).unwrap_or(usize::MAX));
            let order = Some(FixedOrder::Sort);
            let path = self.choose_in(target, order, &mut sort.counting)?;
            let counted = sort.counting.entries();
            if !matches!(path.method, AccessMethod::Empty) {
                let Some(entries) = path.counted else {
                    return Ok(false);
                };
                sort.items_to_read += entries;
                if path.charges_walk {
                    sort.entries_to_pass += entries;
                }
            }
            sort.counting = Counting::default();
            sort.counted += counted + ENTRIES_OF_OPENING;
            sort.parts.push(SortPart {
                path: Some(path),
                counted,
                cursor: None,
            });
        }
        Ok(true)
    }

    /// Passes the entries of the lookups that have checks, to learn how many items are left.
    fn check_matches(&self, sort: &mut Sort<'a>) -> Result<()> {
        for (target, part) in sort.parts.iter_mut().enumerate() {
            if part.has_checks()
                && let Some(path) = part.path.take()
            {
                (self.query.check_point)()?;
                let entries = path.counted.unwrap_or(0);
                let mut cursor = self.open_cursor(target, path, None)?;
                sort.items_to_read -= entries;
                sort.items_to_read += cursor.read_ahead()?;
                part.cursor = Some(cursor);
            }
        }
        Ok(())
    }

    /// Replaces the walks by the sort.
    fn change_to(&mut self, sort: Sort<'a>) -> Result<()> {
        for (target, part) in sort.parts.into_iter().enumerate() {
            let mut cursor = match (part.cursor, part.path) {
                (Some(cursor), _) => cursor,
                (None, Some(path)) => self.open_cursor(target, path, None)?,
                (None, None) => continue,
            };
            cursor.compared.counted = part.counted;
            if let Some(walk) = &self.cursors[target] {
                cursor.compared.passed = walk.work.walked_entries;
                cursor.compared.items = walk.rows_read;
            }
            self.cursors[target] = Some(cursor);
        }
        self.found.clear();
        self.merge = Merge::of(0..self.targets.len(), self.descending);
        Ok(())
    }

    /// Returns the prices of an entry and of an item of average size.
    fn prices(&self) -> Result<Prices> {
        let (mut items, mut bytes) = (0, 0);
        for target in self.targets {
            let counters = target.facts.counters(target.snapshot)?;
            items += counters.items;
            bytes += counters.bytes;
        }
        let profile = self.query.profile;
        Ok(Prices {
            entry: profile.cost_of_walking(1),
            item: profile.cost_of_loading(bytes.checked_div(items).unwrap_or(ITEM_BYTES)),
            rows_wanted: self.query.rows_wanted as u64,
        })
    }
}
