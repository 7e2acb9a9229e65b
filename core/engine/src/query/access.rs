//! The access path of a query in one partition.
//!
//! [`AccessPath::choose`] plans an index lookup for each condition and then applies an ordered list
//! of rules. The first rule that applies returns the access path.
//!
//! | rule | access path |
//! |---|---|
//! | `empty_result` | nothing, if the index shows that no item can match |
//! | `value_scan` | values of a path in place of items |
//! | `required_walk` | a walk in the order of ORDER BY that needs no comparison |
//! | `contested_walk` | a walk in the order of ORDER BY that may pass entries of no match |
//! | `score_walk` | a walk by a score, unless a lookup has few matches |
//! | `ranked_items` | the best items by each score of ORDER BY RANK |
//! | `logical_partition` | the rows of the logical partition, if they are few |
//! | `index_lookup` | the shortest index lookup |
//! | `full_scan` | all items, if no rule applies |
//!
//! The first four rules need no estimates. The others compare what the access paths would be
//! charged: the planner counts the entries of all lookups side by side until the shortest one ends,
//! so planning reads at most twice as many entries of each as the shortest lookup has. The same
//! data always gives the same choice.
//!
//! A contested walk is compared with the access path of the last rules while it runs
//! (`query/contest.rs`), over all partitions together.

mod score_rules;

use super::condition::{conjuncts, is_path_of};
use super::index_view::IndexView;
use super::lookup::{self, Lookup, PlannedLookup};
use super::partition_query::{FixedOrder, PartitionQuery};
use super::ranked::RankedItems;
use super::score_walk::{ScoreWalk, ScoredEntries};
use super::values::{self, ValueScan};
use super::walk::{self, OrderWalk};
use crate::index::policy::Composite;
use crate::partition::Partition;
use crate::partition::keys::{self, EpkPrefix, PathNumber};
use orrery_model::Result;
use orrery_sql::{Condition, Demand};
use orrery_storage::Snapshot;

/// Entries of each list that the first round of counting reads. Each round reads twice as many as
/// the round before, until one list ends.
const FIRST_ROUND_ENTRIES: usize = 16;
/// Entries of each list that the last round of counting reads.
const LAST_ROUND_ENTRIES: usize = 16_384;
/// Entries of an only list that are counted.
const SHORT_LIST_ENTRIES: usize = 256;
/// Factor by which a list may be longer than the chosen one to be read for checks of candidates.
const CHECKED_LIST_FACTOR: usize = 8;
/// Entries that a list for checks of candidates may have in addition.
const CHECKED_LIST_ENTRIES: usize = 64;
/// Factor by which a logical partition may be longer than the shortest list and is still read in
/// its place: the rows of a logical partition are adjacent in the store.
const LOGICAL_PARTITION_FACTOR: usize = 4;
/// Entries that may always be sorted into natural order.
const SORTED_ENTRIES_MIN: usize = 1_024;
/// Entries that can be sorted at the cost of reading and testing one item.
const SORTED_ENTRIES_PER_ITEM: usize = 10;

/// The source of the candidates.
#[derive(Debug)]
pub(crate) enum AccessMethod {
    /// All items, in natural order.
    FullScan,
    /// The rows of a logical partition, in natural order.
    LogicalPartition(EpkPrefix),
    /// Items of an index lookup, in natural order.
    IndexLookup {
        /// The lookup.
        lookup: Lookup,
        /// Entries that may be sorted into natural order. A lookup with more becomes a full scan.
        entries_to_sort_max: usize,
    },
    /// No item can match.
    Empty,
    /// Items in the order of ORDER BY.
    OrderWalk(OrderWalk),
    /// Items in the order of a score.
    ScoreWalk(Box<ScoreWalk>),
    /// The items that decide ORDER BY RANK, in natural order.
    Ranked(RankedItems),
    /// Values of a path in place of items.
    ValueScan(ValueScan),
}

/// A condition that the index checks on each candidate before the item is loaded.
#[derive(Debug)]
pub(crate) enum IndexCheck {
    /// The item has an index term.
    Term(PathNumber, Vec<u8>),
    /// The item is among those of a lookup.
    Lookup(Lookup),
}

/// The access path of a query in one partition.
#[derive(Debug)]
pub(crate) struct AccessPath {
    /// The source of the candidates.
    pub method: AccessMethod,
    /// Checks by the index.
    pub checks: Vec<IndexCheck>,
    /// Conditions that the index answers but the method and the checks do not decide. They are
    /// tested on the item before the item counts as loaded.
    pub tests: Vec<Condition>,
    /// All conditions that the index answers.
    indexed: Vec<Condition>,
    /// True if method, checks and tests together decide the condition of the query.
    pub is_exact: bool,
    /// Index seeks to charge.
    pub seeks: u64,
    /// True if each entry that is passed is charged as an entry of a walk.
    pub charges_walk: bool,
    /// True if each entry that is passed is charged as a scanned value.
    pub charges_scan: bool,
    /// True if items are read in place of index entries. The entries of the items that match are
    /// charged.
    is_read_through: bool,
    /// Number of entries or rows that the method reads, if they were counted to the end.
    pub counted: Option<u64>,
    /// True for a walk that may pass entries of no match while a lookup could find the matches.
    pub is_contested: bool,
    /// The composite index of the access path, if it uses one.
    pub composite: Option<Composite>,
    /// One line for EXPLAIN.
    pub explanation: String,
}

impl AccessPath {
    /// Chooses the access path of a query in a partition. `counting` holds the counts of an earlier
    /// choice on the same snapshot, which are continued.
    ///
    /// # Errors
    /// 500 if the store cannot be read, 410 if the partition is split or merged.
    pub(crate) fn choose<'s>(
        query: &PartitionQuery<'_>,
        partition: &Partition,
        snapshot: &'s dyn Snapshot,
        counting: &mut Counting<'s>,
    ) -> Result<AccessPath> {
        let condition = query.query.condition();
        if matches!(condition, Condition::Never) {
            return Ok(AccessPath::new(AccessMethod::Empty, "nothing".into()));
        }
        // The index cannot be used until the partition knows the newest policy.
        let Some(index) = IndexView::of(partition, query.facts, snapshot, query.policies)? else {
            return Ok(match query.key {
                Some(key) => AccessPath::of_logical_partition(keys::epk_prefix(key.epk())),
                None => AccessPath::of_all_items(),
            });
        };
        Planner::new(query, snapshot, &index, conjuncts(condition)).choose(counting)
    }

    fn new(method: AccessMethod, explanation: String) -> AccessPath {
        AccessPath {
            method,
            checks: Vec::new(),
            tests: Vec::new(),
            indexed: Vec::new(),
            is_exact: false,
            seeks: 0,
            charges_walk: false,
            charges_scan: false,
            is_read_through: false,
            counted: None,
            is_contested: false,
            composite: None,
            explanation,
        }
    }

    fn of_logical_partition(epk_prefix: EpkPrefix) -> AccessPath {
        let method = AccessMethod::LogicalPartition(epk_prefix);
        AccessPath::new(method, "logical partition".into())
    }

    fn of_all_items() -> AccessPath {
        AccessPath::new(AccessMethod::FullScan, "full scan".into())
    }

    /// Returns true if candidates come in the order of ORDER BY, or if there are none.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(
            self.method,
            AccessMethod::OrderWalk(_) | AccessMethod::ScoreWalk(_) | AccessMethod::Empty
        )
    }

    /// Returns the id of the index in whose order candidates come, if they come in the order of an
    /// index.
    pub(crate) fn index_id(&self) -> Option<u32> {
        match &self.method {
            AccessMethod::OrderWalk(walk) => Some(walk.index_id()),
            AccessMethod::ScoreWalk(walk) => Some(walk.index_id()),
            AccessMethod::ValueScan(scan) => Some(scan.index_id()),
            _ => None,
        }
    }

    /// Returns the walk in the order of ORDER BY, if the access path is one.
    pub(crate) fn walk(&self) -> Option<&OrderWalk> {
        match &self.method {
            AccessMethod::OrderWalk(walk) => Some(walk),
            _ => None,
        }
    }

    /// Returns the entries of vector and full-text indexes that the access path has read so far.
    pub(crate) fn scored_entries(&self) -> ScoredEntries {
        match &self.method {
            AccessMethod::ScoreWalk(walk) => walk.entries(),
            AccessMethod::Ranked(ranked) => ranked.entries(),
            _ => ScoredEntries::default(),
        }
    }

    /// Returns the words of full-text indexes that lookups of fuzzy terms have compared so far.
    pub(crate) fn compared_words(&self) -> u64 {
        let of_method = match &self.method {
            // Only the access path that answers is charged.
            _ if self.is_read_through => 0,
            AccessMethod::IndexLookup { lookup, .. } => lookup.compared_words(),
            AccessMethod::Ranked(ranked) => {
                let filters = ranked.filters.iter();
                filters.map(Lookup::compared_words).sum()
            }
            _ => 0,
        };
        let of_checks = self.checks.iter().map(|check| match check {
            IndexCheck::Term(..) => 0,
            IndexCheck::Lookup(lookup) => lookup.compared_words(),
        });
        of_method + of_checks.sum::<u64>()
    }

    /// Changes an index lookup to a full scan, because its entries are too many to be sorted into
    /// natural order.
    pub(crate) fn read_through(&mut self) {
        self.checks.clear();
        self.tests.clone_from(&self.indexed);
        self.is_read_through = true;
        self.explanation.push_str(" (read through)");
    }

    /// Returns true if the access path reads items in place of index entries.
    pub(crate) fn is_read_through(&self) -> bool {
        self.is_read_through
    }
}

/// A rule that needs no estimates. Returns the access path if the rule applies.
type Rule<P> = fn(&P) -> Result<Option<AccessPath>>;

/// A rule that compares estimates. Returns the access path if the rule applies.
type CostRule<P> = fn(&P, &Estimates) -> Result<Option<AccessPath>>;

/// A number of entries or rows, as far as they were counted.
#[derive(Clone, Copy, Default)]
struct Count {
    entries: usize,
    /// True if the count is complete.
    is_complete: bool,
}

impl Count {
    /// Returns the number if the count is complete.
    fn total(self) -> Option<u64> {
        self.is_complete.then_some(self.entries as u64)
    }
}

/// The counts of lists of entries, which are read side by side.
#[derive(Default)]
pub(crate) struct Counting<'s> {
    /// Entries of all lists together that may be counted. `None` for the limits of a choice that is
    /// made once.
    pub entries_max: Option<usize>,
    /// The rest of each list with its count.
    lists: Vec<(Box<dyn Iterator<Item = ()> + 's>, Count)>,
}

impl<'s> Counting<'s> {
    /// Returns the entries counted so far.
    pub(crate) fn entries(&self) -> u64 {
        let entries = self.lists.iter().map(|(_, count)| count.entries as u64);
        entries.sum()
    }

    /// Counts the lists side by side until one list ends.
    fn count(&mut self) {
        // An only list is not compared with another one, so a short count is enough.
        let last_round = match self.entries_max {
            Some(entries_max) => entries_max / self.lists.len().max(1),
            None if self.lists.len() > 1 => LAST_ROUND_ENTRIES,
            None => SHORT_LIST_ENTRIES,
        };
        let mut round = FIRST_ROUND_ENTRIES.min(last_round);
        while self.lists.iter().all(|(_, count)| !count.is_complete) {
            for (list, count) in &mut self.lists {
                let wanted = round.saturating_sub(count.entries);
                let counted = list.by_ref().take(wanted).count();
                count.entries += counted;
                count.is_complete = counted < wanted;
            }
            if round == last_round {
                break;
            }
            round = (round * 2).min(last_round);
        }
    }
}

/// A lookup that could be the access method.
struct LookupOption {
    planned: PlannedLookup,
    /// Indexes of the conditions that the lookup answers.
    covers: Vec<usize>,
    count: Count,
}

/// The row estimates that the rules by cost compare.
struct Estimates {
    lookups: Vec<LookupOption>,
    /// Rows of the logical partition, if the query is confined to one and its rows were counted.
    logical_partition: Option<Count>,
}

impl Estimates {
    /// Returns the shortest of the lookups that are worth reading.
    fn shortest_lookup(&self) -> Option<&LookupOption> {
        let usable = self
            .lookups
            .iter()
            .filter(|option| option.planned.is_selective || option.count.is_complete);
        usable.min_by_key(|option| {
            let Count {
                entries,
                is_complete,
            } = option.count;
            (!is_complete, entries, option.planned.seeks == 0)
        })
    }
}

/// The conditions that an access method does not cover, by the way in which they are answered.
#[derive(Default)]
struct Remaining<'p> {
    checks: Vec<IndexCheck>,
    tests: Vec<Condition>,
    /// Texts of the checks for EXPLAIN.
    texts: Vec<&'p str>,
}

/// The choice of an access path, with everything that the rules have in common.
struct Planner<'a, 's> {
    query: &'a PartitionQuery<'a>,
    snapshot: &'s dyn Snapshot,
    index: &'a IndexView<'a>,
    /// The conditions that must all hold.
    conditions: Vec<&'a Condition>,
    /// The lookup of each condition, if the index answers the condition.
    planned: Vec<Option<PlannedLookup>>,
    /// Seeks of all lookups.
    seeks: u64,
    /// True if the lookups decide the condition of the query.
    is_exact: bool,
}

impl<'a, 's> Planner<'a, 's> {
    /// The first rules, in order.
    const RULES: [Rule<Self>; 4] = [
        Self::empty_result,
        Self::value_scan,
        Self::required_walk,
        Self::contested_walk,
    ];

    /// The rules after `RULES`, in order.
    const RULES_BY_COST: [CostRule<Self>; 4] = [
        Self::score_walk,
        Self::ranked_items,
        Self::logical_partition,
        Self::index_lookup,
    ];

    fn new(
        query: &'a PartitionQuery<'a>,
        snapshot: &'s dyn Snapshot,
        index: &'a IndexView<'a>,
        conditions: Vec<&'a Condition>,
    ) -> Self {
        let mut planned = Vec::with_capacity(conditions.len());
        let mut seeks = 0;
        let mut is_exact = true;
        let mut names_key = false;
        for condition in &conditions {
            let lookup = lookup::plan(index, condition);
            match &lookup {
                Some(lookup) => {
                    seeks += lookup.seeks;
                    is_exact &= lookup.is_exact;
                    names_key |= is_on_key(condition, query);
                }
                None => is_exact = false,
            }
            planned.push(lookup);
        }
        // The partition key of the request is looked up too, unless the condition names it and its
        // seek is counted already.
        if query.key.is_some() && !names_key {
            seeks += 1;
        }
        Planner {
            query,
            snapshot,
            index,
            conditions,
            planned,
            seeks,
            is_exact,
        }
    }

    /// Applies the rules in order. The first one that applies decides.
    fn choose(&self, counting: &mut Counting<'s>) -> Result<AccessPath> {
        for rule in Self::RULES {
            if let Some(path) = rule(self)? {
                return Ok(path);
            }
        }
        let estimates = self.estimate(counting);
        for rule in Self::RULES_BY_COST {
            if let Some(path) = rule(self, &estimates)? {
                return Ok(path);
            }
        }
        Ok(self.full_scan())
    }

    /// Rule: no item can match if the lookup of a condition has no entries.
    fn empty_result(&self) -> Result<Option<AccessPath>> {
        for lookup in self.planned.iter().flatten() {
            if matches!(lookup.lookup, Lookup::Nothing) {
                let order_seek = u64::from(!self.query.query.order().is_empty());
                let explanation = format!("index {}", lookup.text);
                return Ok(Some(AccessPath {
                    seeks: self.seeks + order_seek,
                    ..AccessPath::new(AccessMethod::Empty, explanation)
                }));
            }
        }
        Ok(None)
    }

    /// Rule: a query that reads a single path is answered with values of its index.
    fn value_scan(&self) -> Result<Option<AccessPath>> {
        let scan = values::plan(
            self.query,
            self.index,
            &self.conditions,
            &self.planned,
            self.snapshot,
        )?;
        let Some(scan) = scan else {
            return Ok(None);
        };
        let explanation = format!("values {scan}");
        Ok(Some(AccessPath {
            seeks: self.seeks,
            charges_scan: true,
            charges_walk: scan.counts_items(),
            ..AccessPath::new(AccessMethod::ValueScan(scan), explanation)
        }))
    }

    /// Rule: a walk is taken without comparison if all its entries match, since it reads no more
    /// than the page needs, or if an earlier page or another partition fixed its index.
    fn required_walk(&self) -> Result<Option<AccessPath>> {
        let is_fixed = matches!(self.query.order, Some(FixedOrder::Index(_)));
        for walk in self.walks() {
            let all_match =
                walk.covers().len() == self.conditions.len() && self.query.key.is_none();
            if all_match || is_fixed {
                return Ok(Some(self.path_of_walk(walk)));
            }
        }
        Ok(None)
    }

    /// Rule: the walk that covers most conditions begins. It is contested if a lookup or the
    /// partition key could find the matches among its entries.
    fn contested_walk(&self) -> Result<Option<AccessPath>> {
        let walks = self.walks().into_iter();
        let Some(walk) = walks.max_by_key(|walk| walk.covers().len()) else {
            return Ok(None);
        };
        let mut planned = self.planned.iter().enumerate();
        let has_lookup =
            planned.any(|(at, lookup)| lookup.is_some() && !walk.covers().contains(&at));
        Ok(Some(AccessPath {
            is_contested: has_lookup || self.query.key.is_some(),
            ..self.path_of_walk(walk)
        }))
    }

    /// Rule: the rows of the logical partition are read if no lookup is much shorter, or if the
    /// shortest lookup only repeats the partition key.
    fn logical_partition(&self, estimates: &Estimates) -> Result<Option<AccessPath>> {
        let (Some(key), Some(rows)) = (self.query.key, estimates.logical_partition) else {
            return Ok(None);
        };
        if let Some(shortest) = estimates.shortest_lookup() {
            let repeats_key = shortest
                .covers
                .iter()
                .all(|at| is_on_key(self.conditions[*at], self.query));
            let entries = shortest.count.entries;
            let rows_max = entries.saturating_mul(LOGICAL_PARTITION_FACTOR);
            if !repeats_key && rows.entries > rows_max {
                return Ok(None);
            }
        }
        // The charge is that of a walk if a lookup on another path takes part.
        let has_other_seek = self
            .planned_conditions()
            .any(|(condition, lookup)| lookup.seeks > 0 && !is_on_key(condition, self.query));
        Ok(Some(AccessPath {
            tests: self.indexed_conditions(),
            is_exact: self.is_exact,
            seeks: self.seeks,
            charges_walk: has_other_seek,
            counted: rows.total(),
            ..AccessPath::of_logical_partition(keys::epk_prefix(key.epk()))
        }))
    }

    /// Rule: the shortest lookup is read, and the other conditions are checked by the index or
    /// tested.
    fn index_lookup(&self, estimates: &Estimates) -> Result<Option<AccessPath>> {
        let Some(shortest) = estimates.shortest_lookup() else {
            return Ok(None);
        };
        let Remaining {
            checks,
            tests,
            mut texts,
        } = self.remaining(&shortest.covers, &estimates.lookups, shortest.count.entries);
        let planned = &shortest.planned;
        texts.insert(0, &planned.text);
        Ok(Some(AccessPath {
            method: AccessMethod::IndexLookup {
                lookup: planned.lookup.clone(),
                entries_to_sort_max: self.entries_to_sort_max()?,
            },
            charges_walk: !checks.is_empty(),
            checks,
            tests,
            indexed: self.indexed_conditions(),
            // A composite index keeps less of a string than the index of the path.
            is_exact: self.is_exact && planned.is_exact,
            seeks: self.seeks,
            charges_scan: planned.seeks == 0,
            is_read_through: false,
            counted: shortest.count.total(),
            is_contested: false,
            composite: planned.composite.clone(),
            explanation: format!("index {}", texts.join(" and ")),
        }))
    }

    /// Returns the access path if no rule applies: all items are read and tested.
    fn full_scan(&self) -> AccessPath {
        AccessPath {
            seeks: self.seeks,
            tests: self.indexed_conditions(),
            is_exact: self.is_exact,
            ..AccessPath::of_all_items()
        }
    }

    /// Returns the access path of a walk.
    fn path_of_walk(&self, walk: OrderWalk) -> AccessPath {
        let remaining = self.remaining(walk.covers(), &[], 0);
        AccessPath {
            explanation: walk.to_string(),
            composite: walk.composite().cloned(),
            method: AccessMethod::OrderWalk(walk),
            checks: remaining.checks,
            tests: remaining.tests,
            indexed: self.indexed_conditions(),
            is_exact: self.is_exact,
            seeks: self.seeks + 1,
            charges_walk: true,
            charges_scan: false,
            is_read_through: false,
            counted: None,
            is_contested: false,
        }
    }

    /// Returns the walks in the order of ORDER BY that may be taken.
    fn walks(&self) -> Vec<OrderWalk> {
        let query = self.query.query;
        let options = || walk::options(query.order(), &self.conditions, self.index);
        match self.query.order {
            Some(FixedOrder::Sort) => Vec::new(),
            Some(FixedOrder::Index(id)) => {
                let mut walks = options();
                walks.retain(|walk| walk.index_id() == id);
                walks
            }
            None => {
                let mut walks = options();
                // DISTINCT over ordered rows compares adjacent rows only.
                if query.is_distinct() {
                    walks.retain(|walk| !walk.has_structures(self.snapshot));
                }
                walks
            }
        }
    }

    /// Plans all lookups that could be the access method, and counts their entries and the rows of
    /// the logical partition, if there is anything to compare.
    fn estimate(&self, counting: &mut Counting<'s>) -> Estimates {
        let mut lookups = Vec::new();
        for (at, planned) in self.planned.iter().enumerate() {
            if let Some(planned) = planned {
                lookups.push(LookupOption {
                    planned: planned.clone(),
                    covers: vec![at],
                    count: Count::default(),
                });
            }
        }
        for (composite, number) in self.index.composites() {
            let planned = lookup::plan_composite(composite, number, &self.conditions);
            if let Some((planned, covers)) = planned {
                lookups.push(LookupOption {
                    planned,
                    covers,
                    count: Count::default(),
                });
            }
        }

        // Counting a selective lookup without an alternative could not change the choice.
        let is_only_choice = matches!(&lookups[..], [only] if only.planned.is_selective)
            && self.query.key.is_none()
            && self.query.query.order().is_empty()
            && self.query.query.order_score().is_none();
        let logical_partition = if is_only_choice {
            None
        } else {
            self.count_entries(&mut lookups, counting)
        };
        Estimates {
            lookups,
            logical_partition,
        }
    }

    /// Counts the entries of the lookups side by side until one list ends. Returns the number of
    /// rows of the logical partition, if the query is confined to one.
    fn count_entries(
        &self,
        lookups: &mut [LookupOption],
        counting: &mut Counting<'s>,
    ) -> Option<Count> {
        let list_count = lookups.len() + usize::from(self.query.key.is_some());
        if counting.lists.len() != list_count {
            counting.lists.clear();
            for option in lookups.iter() {
                let list = option.planned.lookup.count(self.snapshot);
                counting.lists.push((list, Count::default()));
            }
            if let Some(key) = self.query.key {
                let range = keys::items_of(keys::epk_prefix(key.epk()), 0);
                let list = Box::new(lookup::count_keys(self.snapshot, &range));
                counting.lists.push((list, Count::default()));
            }
        }
        if counting.entries_max.is_none() && self.query.query.order_score().is_some() {
            counting.entries_max = Some(score_rules::COUNTED_MAX * list_count.max(1));
        }
        counting.count();
        for (option, (_, count)) in lookups.iter_mut().zip(&counting.lists) {
            option.count = *count;
        }
        match self.query.key {
            Some(_) => counting.lists.last().map(|(_, count)| *count),
            None => None,
        }
    }

    /// Divides the conditions that an access method does not cover into checks and tests. `lookups`
    /// are the counted lookups, `entries` those of the method.
    fn remaining(
        &self,
        covered: &[usize],
        lookups: &[LookupOption],
        entries: usize,
    ) -> Remaining<'_> {
        let counts_only = self.query.query.demand() == Demand::Count && self.is_exact;
        let list_max = entries
            .saturating_mul(CHECKED_LIST_FACTOR)
            .saturating_add(CHECKED_LIST_ENTRIES);
        let mut remaining = Remaining::default();
        for (at, planned) in self.planned.iter().enumerate() {
            let Some(planned) = planned else { continue };
            if covered.contains(&at) {
                continue;
            }
            // A lookup is read for checks if its list is short, or if the query then loads no item
            // at all.
            let is_short = lookups.iter().any(|option| {
                option.covers == [at]
                    && option.count.is_complete
                    && option.count.entries <= list_max
            });
            let check = match &planned.term {
                Some((path, value)) => IndexCheck::Term(*path, value.clone()),
                None if (is_short || counts_only) && !planned.lookup.scans_strings() => {
                    IndexCheck::Lookup(planned.lookup.clone())
                }
                None => {
                    remaining.tests.push(self.conditions[at].clone());
                    continue;
                }
            };
            remaining.checks.push(check);
            remaining.texts.push(&planned.text);
        }
        remaining
    }

    /// Returns the number of entries that may be sorted into natural order. With more entries it is
    /// cheaper to read items in natural order and to test them up to the end of the page: sorting
    /// costs about a tenth as much for each entry as reading does for each item.
    fn entries_to_sort_max(&self) -> Result<usize> {
        // A sort by ORDER BY reads all matches.
        if self.query.rows_wanted == usize::MAX || !self.query.query.order().is_empty() {
            return Ok(usize::MAX);
        }
        let product = self
            .items_of_partition()?
            .saturating_mul(self.query.rows_wanted)
            .saturating_mul(SORTED_ENTRIES_PER_ITEM);
        Ok(product.isqrt().max(SORTED_ENTRIES_MIN))
    }

    fn items_of_partition(&self) -> Result<usize> {
        Ok(self.query.facts.counters(self.snapshot)?.items as usize)
    }

    /// Returns the conditions that the index answers, with their lookups.
    fn planned_conditions(&self) -> impl Iterator<Item = (&'a Condition, &PlannedLookup)> {
        let pairs = self.conditions.iter().zip(&self.planned);
        pairs.filter_map(|(condition, planned)| Some((*condition, planned.as_ref()?)))
    }

    /// Returns copies of the conditions that the index answers.
    fn indexed_conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        for (condition, _) in self.planned_conditions() {
            conditions.push(condition.clone());
        }
        conditions
    }
}

/// Returns true if a condition is on a path of the partition key.
fn is_on_key(condition: &Condition, query: &PartitionQuery<'_>) -> bool {
    let Condition::Term { path, .. } = condition else {
        return false;
    };
    let key_paths = query.settings.partition_key.paths();
    key_paths.iter().any(|names| is_path_of(path, names))
}
