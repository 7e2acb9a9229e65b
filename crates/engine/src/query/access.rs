//! How one partition finds the items of a query: the choice among its index lookups, a logical partition, the order of
//! ORDER BY, the values of one path, and everything.
//!
//! The choice compares what the ways would be charged, as far as a look at the index can tell: lists are counted side by
//! side until the shortest ends, so planning costs no more than reading that one. The same data always gives the same
//! choice.

use super::condition::conjuncts;
use super::index_view::IndexView;
use super::lookup::{self, Lookup, Planned};
use super::values::{self, ValueScan};
use super::walk::{self, OrderWalk};
use crate::catalog::settings::Settings;
use crate::index::generations::Policies;
use crate::index::policy::Composite;
use crate::partition::keys::{self, EpkPrefix, PathNumber};
use crate::partition::visibility::Visibility;
use crate::partition::{Partition, scan};
use crate::throughput::Profile;
use orrery_model::Result;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_sql::{Condition, Demand, Query};
use orrery_storage::{Direction, Snapshot};

/// Entries of each list up to which the first and the last round of counting look. Each round doubles the one before and
/// takes place if all lists are longer, so counting reads at most twice as much of each as the shortest has.
const FIRST_ROUND: usize = 16;
const LAST_ROUND: usize = 16_384;

/// Entries of a walk that are counted to see whether it is short.
const SHORT_WALK: usize = 256;

/// A list this many times as long as the chosen one is not read to check candidates against it.
const LONG_CHECK: usize = 8;

/// A logical partition that is at most so many times as long as the best list is read through: its rows lie together.
const ROWS_TOGETHER: usize = 4;

/// What a query asks of one partition.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The query.
    pub query: &'a Query,
    /// The container's settings.
    pub settings: &'a Settings,
    /// The policies that its index entries may follow, taken before the snapshots.
    pub policies: &'a Policies,
    /// The logical partition it is confined to, if one.
    pub key: Option<&'a Epk>,
    /// The stretch of the hash space it is confined to, if not the whole partition.
    pub within: Option<&'a EpkRange>,
    /// What of the partition can be seen.
    pub visible: &'a Visibility,
    /// Rows wanted of this partition, about.
    pub rows_wanted: usize,
    /// Distinct values that the page certainly has room for; 0 if other partitions fill it too.
    pub page_rows: usize,
    /// Whether values may come in place of items: not where an earlier page stopped among items.
    pub may_scan_values: bool,
    /// Whose prices decide.
    pub profile: Profile,
    /// How ORDER BY is served, where that is settled: by an earlier page, or by another partition of the same merge.
    pub order: Option<Settled>,
}

/// How ORDER BY is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// By sorting all matches.
    Sort,
    /// Along the index of this name, see [`Access::along`].
    Along(u32),
}

/// Where candidates come from.
#[derive(Debug)]
pub enum Driver {
    /// All items, in natural order.
    Everything,
    /// A logical partition's rows, in natural order.
    Logical(EpkPrefix),
    /// Index entries, in natural order; read through instead if more than this many would have to be sorted first.
    Lookup(Lookup, usize),
    /// Nothing can match.
    Nothing,
    /// In the order of ORDER BY.
    Order(OrderWalk),
    /// Values of one path instead of items.
    Values(ValueScan),
}

/// What a candidate must have besides, asked before it is loaded.
#[derive(Debug)]
pub enum Required {
    /// An index term.
    Term(PathNumber, Vec<u8>),
    /// To be among the items of a lookup.
    Lookup(Lookup),
}

/// A chosen way.
#[derive(Debug)]
pub struct Access {
    /// Where candidates come from.
    pub driver: Driver,
    /// What they must have besides.
    pub required: Vec<Required>,
    /// Conditions that the index answers and nothing above decides: tested on the item before it counts as loaded.
    pub tests: Vec<Condition>,
    /// All conditions that the index answers.
    pub indexed: Vec<Condition>,
    /// Whether driver, requirements and tests together decide the query's condition.
    pub decides: bool,
    /// Seeks to charge.
    pub seeks: u64,
    /// Whether passing the driver's entries is charged as a walk.
    pub walks: bool,
    /// Whether passing them is charged as a scan of distinct values.
    pub scans: bool,
    /// Items are read through in place of index entries, which are charged as if they had been read.
    in_place: bool,
    /// The composite index that is used, if one is.
    pub composite: Option<Composite>,
    /// In one line, for EXPLAIN.
    pub explanation: String,
}

impl Access {
    /// Chooses.
    ///
    /// # Errors
    /// What the store reports.
    pub fn choose(ask: &Ask<'_>, partition: &Partition, snapshot: &dyn Snapshot) -> Result<Access> {
        let condition = ask.query.condition();
        if matches!(condition, Condition::Never) {
            return Ok(Access::simple(Driver::Nothing, "nothing".into()));
        }
        let Some(index) = IndexView::of(partition, snapshot, ask.policies)? else {
            return Ok(Access::without_index(ask));
        };
        Planner {
            ask,
            snapshot,
            conditions: conjuncts(condition),
            index: &index,
        }
        .choose()
    }

    /// Whether candidates come in the order of ORDER BY, if only because there are none.
    pub fn is_ordered(&self) -> bool {
        matches!(self.driver, Driver::Order(_) | Driver::Nothing)
    }

    /// The index along which candidates come, if they do.
    pub fn along(&self) -> Option<u32> {
        match &self.driver {
            Driver::Order(walk) => Some(walk.name()),
            Driver::Values(scan) => Some(scan.name()),
            _ => None,
        }
    }

    /// The walk along ORDER BY, if it is one.
    pub fn walk(&self) -> Option<&OrderWalk> {
        match &self.driver {
            Driver::Order(walk) => Some(walk),
            _ => None,
        }
    }

    /// Goes over all items after all, since sorting the entries into natural order would take longer.
    pub fn read_through(&mut self) {
        self.required.clear();
        self.tests.clone_from(&self.indexed);
        self.in_place = true;
        self.explanation.push_str(" (read through)");
    }

    /// Whether it does so.
    pub fn reads_through(&self) -> bool {
        self.in_place
    }

    fn simple(driver: Driver, explanation: String) -> Access {
        Access {
            driver,
            required: Vec::new(),
            tests: Vec::new(),
            indexed: Vec::new(),
            decides: false,
            seeks: 0,
            walks: false,
            scans: false,
            in_place: false,
            composite: None,
            explanation,
        }
    }

    /// While a new policy is not known everywhere yet.
    fn without_index(ask: &Ask<'_>) -> Access {
        match ask.key {
            Some(key) => Access::simple(
                Driver::Logical(keys::epk_prefix(key)),
                "logical partition".into(),
            ),
            None => Access::simple(Driver::Everything, "full scan".into()),
        }
    }
}

/// A list of entries that could drive the query.
struct Choice {
    planned: Planned,
    /// Which conditions it answers.
    covers: Vec<usize>,
    /// Its entries, as far as they were counted, and whether that is all of them.
    entries: usize,
    ended: bool,
}

struct Planner<'a> {
    ask: &'a Ask<'a>,
    snapshot: &'a dyn Snapshot,
    conditions: Vec<&'a Condition>,
    index: &'a IndexView<'a>,
}

impl Planner<'_> {
    fn choose(&self) -> Result<Access> {
        let planned: Vec<Option<Planned>> = self
            .conditions
            .iter()
            .map(|c| lookup::plan(self.index, c))
            .collect();
        let seeks =
            planned.iter().flatten().map(|p| p.seeks).sum::<u64>() + self.own_key_seek(&planned);
        let indexed = || {
            self.planned_conditions(&planned)
                .map(|(condition, _)| condition.clone())
                .collect()
        };
        if let Some(none) = planned
            .iter()
            .flatten()
            .find(|p| matches!(p.lookup, Lookup::Nothing))
        {
            let ordered = u64::from(!self.ask.query.order().is_empty());
            let access = Access::simple(Driver::Nothing, format!("index {}", none.text));
            return Ok(Access {
                seeks: seeks + ordered,
                ..access
            });
        }
        if let Some(values) = values::plan(
            self.ask,
            self.index,
            &self.conditions,
            &planned,
            self.snapshot,
        )? {
            let explanation = format!("values {values}");
            return Ok(Access {
                seeks,
                scans: true,
                ..Access::simple(Driver::Values(values), explanation)
            });
        }
        let mut choices = self.choices(&planned);
        let walks = self.walks();
        // Along an order of which everything matches, no more is read than is wanted.
        if let Some(walk) = walks.iter().find(|walk| self.settles(walk)) {
            return Ok(self.along(walk.clone(), &planned, &choices, seeks, indexed()));
        }
        let logical = if self.has_a_choice(&choices) {
            self.measure(&mut choices)?
        } else {
            None
        };
        if let Some(walk) = self.order_walk(walks, &choices, logical)? {
            return Ok(self.along(walk, &planned, &choices, seeks, indexed()));
        }
        let usable = |choice: &&Choice| choice.planned.selective || choice.ended;
        let rank = |c: &&Choice| (!c.ended, c.entries, c.planned.seeks == 0);
        let best = choices.iter().filter(usable).min_by_key(rank);
        if let (Some(key), Some((rows, _))) = (self.ask.key, logical)
            && best.is_none_or(|best| {
                best.covers
                    .iter()
                    .all(|i| self.is_on_key(self.conditions[*i]))
                    || rows <= best.entries.saturating_mul(ROWS_TOGETHER)
            })
        {
            let elsewhere = self
                .planned_conditions(&planned)
                .any(|(c, p)| p.seeks > 0 && !self.is_on_key(c));
            let access = Access::simple(
                Driver::Logical(keys::epk_prefix(key)),
                "logical partition".into(),
            );
            return Ok(Access {
                tests: indexed(),
                decides: self.is_exact(&planned),
                seeks,
                walks: elsewhere,
                ..access
            });
        }
        let Some(best) = best else {
            let access = Access::simple(Driver::Everything, "full scan".into());
            return Ok(Access {
                seeks,
                tests: indexed(),
                decides: self.is_exact(&planned),
                ..access
            });
        };
        let (required, tests, texts) = self.others(&planned, &best.covers, &choices, best.entries);
        let texts: Vec<&str> = std::iter::once(best.planned.text.as_str())
            .chain(texts)
            .collect();
        Ok(Access {
            driver: Driver::Lookup(best.planned.lookup.clone(), self.entries_to_sort()?),
            walks: !required.is_empty(),
            required,
            tests,
            indexed: indexed(),
            // A composite index keeps less of a string than that of its path.
            decides: self.is_exact(&planned) && best.planned.exact,
            seeks,
            scans: best.planned.seeks == 0,
            in_place: false,
            composite: best.planned.composite.clone(),
            explanation: format!("index {}", texts.join(" and ")),
        })
    }

    /// Whether the index says all that the condition asks.
    fn is_exact(&self, planned: &[Option<Planned>]) -> bool {
        planned.iter().all(|p| p.as_ref().is_some_and(|p| p.exact))
    }

    fn choices(&self, planned: &[Option<Planned>]) -> Vec<Choice> {
        let choice = |planned, covers| Choice {
            planned,
            covers,
            entries: 0,
            ended: false,
        };
        let single = planned
            .iter()
            .enumerate()
            .filter_map(|(i, p)| p.clone().map(|p| choice(p, vec![i])));
        let composite = self.index.composites().filter_map(|(composite, number)| {
            lookup::plan_composite(composite, number, &self.conditions)
                .map(|(p, covers)| choice(p, covers))
        });
        single.chain(composite).collect()
    }

    /// Counts the choices' entries side by side until one list ends; and the rows of the logical partition, if the query
    /// is confined to one.
    fn measure(&self, choices: &mut [Choice]) -> Result<Option<(usize, bool)>> {
        let mut lists: Vec<Box<dyn Iterator<Item = ()> + '_>> = choices
            .iter()
            .map(|choice| choice.planned.lookup.count(self.snapshot))
            .collect();
        if let Some(key) = self.ask.key {
            let range = keys::items_of(keys::epk_prefix(key), 0);
            lists.push(Box::new(
                scan(self.snapshot, &range, Direction::Forward).map(|_| ()),
            ));
        }
        let mut counts = vec![(0usize, false); lists.len()];
        // With nothing to compare, more than a first look is of no use.
        let last = if lists.len() > 1 {
            LAST_ROUND
        } else {
            SHORT_WALK
        };
        let rounds = std::iter::successors(Some(FIRST_ROUND), |most| Some(most * 2))
            .take_while(|most| *most <= last);
        for most in rounds {
            for (list, (count, ended)) in lists
                .iter_mut()
                .zip(&mut counts)
                .filter(|(_, (_, ended))| !ended)
            {
                let wanted = most - *count;
                let more = list.by_ref().take(wanted).count();
                *count += more;
                *ended = more < wanted;
            }
            if counts.iter().any(|(_, ended)| *ended) {
                break;
            }
        }
        drop(lists);
        for (choice, (entries, ended)) in choices.iter_mut().zip(&counts) {
            (choice.entries, choice.ended) = (*entries, *ended);
        }
        Ok(if self.ask.key.is_some() {
            counts.last().copied()
        } else {
            None
        })
    }

    /// What becomes of the conditions that the driver does not cover.
    fn others<'p>(
        &self,
        planned: &'p [Option<Planned>],
        covered: &[usize],
        choices: &[Choice],
        driver_entries: usize,
    ) -> (Vec<Required>, Vec<Condition>, Vec<&'p str>) {
        let (mut required, mut tests, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let counts = self.ask.query.demand() == Demand::Count && self.is_exact(planned);
        for (i, planned) in planned
            .iter()
            .enumerate()
            .filter(|(i, _)| !covered.contains(i))
        {
            let Some(planned) = planned else { continue };
            let short = choices.iter().any(|c| {
                c.covers == [i]
                    && c.ended
                    && c.entries <= driver_entries.saturating_mul(LONG_CHECK).saturating_add(64)
            });
            match &planned.term {
                Some((path, bytes)) => required.push(Required::Term(*path, bytes.clone())),
                None if (short || counts) && !planned.lookup.scans_strings() => {
                    required.push(Required::Lookup(planned.lookup.clone()))
                }
                None => {
                    tests.push(self.conditions[i].clone());
                    continue;
                }
            }
            texts.push(planned.text.as_str());
        }
        (required, tests, texts)
    }

    fn along(
        &self,
        walk: OrderWalk,
        planned: &[Option<Planned>],
        choices: &[Choice],
        seeks: u64,
        indexed: Vec<Condition>,
    ) -> Access {
        let (required, tests, _) = self.others(planned, walk.covers(), choices, SHORT_WALK);
        Access {
            explanation: walk.to_string(),
            composite: walk.composite().cloned(),
            driver: Driver::Order(walk),
            required,
            tests,
            indexed,
            decides: self.is_exact(planned),
            seeks: seeks + 1,
            walks: true,
            scans: false,
            in_place: false,
        }
    }

    /// The walks along ORDER BY that may be taken.
    fn walks(&self) -> Vec<OrderWalk> {
        let mut walks = match self.ask.order {
            Some(Settled::Sort) => Vec::new(),
            _ => walk::options(self.ask.query.order(), &self.conditions, self.index),
        };
        match self.ask.order {
            Some(Settled::Along(name)) => walks.retain(|walk| walk.name() == name),
            // DISTINCT along the order compares neighbours only.
            _ if self.ask.query.is_distinct() => {
                walks.retain(|walk| !walk.has_structures(self.snapshot))
            }
            _ => {}
        }
        walks
    }

    /// Whether a walk is taken whatever else there is.
    fn settles(&self, walk: &OrderWalk) -> bool {
        let everything = walk.covers().len() == self.conditions.len() && self.ask.key.is_none();
        everything || matches!(self.ask.order, Some(Settled::Along(_)))
    }

    /// Whether there is anything to compare: more than one list, an order, or a logical partition.
    fn has_a_choice(&self, choices: &[Choice]) -> bool {
        let only = matches!(choices, [one] if one.planned.selective);
        !only || self.ask.key.is_some() || !self.ask.query.order().is_empty()
    }

    /// The walk along ORDER BY, if it is cheaper than finding the matches and sorting them.
    fn order_walk(
        &self,
        walks: Vec<OrderWalk>,
        choices: &[Choice],
        logical: Option<(usize, bool)>,
    ) -> Result<Option<OrderWalk>> {
        let Some(walk) = walks.into_iter().max_by_key(|walk| walk.covers().len()) else {
            return Ok(None);
        };
        let items = Partition::counters(self.snapshot)?.items as usize;
        let total = match walk.count(self.snapshot, SHORT_WALK) {
            entries if walk.is_narrowed() && entries < SHORT_WALK => entries,
            _ => items,
        };
        let ended = choices.iter().filter(|c| c.ended).map(|c| c.entries);
        let ended = ended
            .chain(logical.filter(|(_, ended)| *ended).map(|(rows, _)| rows))
            .min();
        let matches = ended.unwrap_or(items).min(total);
        // A list that was counted to its end is read and sorted; else walk, if few entries lie between rows.
        let wanted = self.ask.rows_wanted.min(matches);
        let sorted = ended.is_some_and(|matches| {
            walk::SORT_PENALTY * walk::sort_cost(self.ask.profile, matches)
                <= walk::cost(self.ask.profile, total, matches, wanted)
        });
        Ok((!sorted).then_some(walk))
    }

    /// How many entries may be sorted into natural order before it is cheaper to read items in natural order and test
    /// them: reading all of them costs about a tenth as much each as looking at the items up to the page's end.
    fn entries_to_sort(&self) -> Result<usize> {
        const AT_LEAST: usize = 1_024;
        const ITEM_FOR_ENTRIES: usize = 10;
        if self.ask.rows_wanted == usize::MAX {
            return Ok(usize::MAX);
        }
        let items = Partition::counters(self.snapshot)?.items as usize;
        let product = items
            .saturating_mul(self.ask.rows_wanted)
            .saturating_mul(ITEM_FOR_ENTRIES);
        Ok(product.isqrt().max(AT_LEAST))
    }

    fn planned_conditions<'p>(
        &'p self,
        planned: &'p [Option<Planned>],
    ) -> impl Iterator<Item = (&'p Condition, &'p Planned)> {
        self.conditions
            .iter()
            .zip(planned)
            .filter_map(|(condition, p)| Some((*condition, p.as_ref()?)))
    }

    /// The filter on the partition key is looked up too, unless it stands in the query and is counted there.
    fn own_key_seek(&self, planned: &[Option<Planned>]) -> u64 {
        let stands = self
            .planned_conditions(planned)
            .any(|(condition, _)| self.is_on_key(condition));
        u64::from(self.ask.key.is_some() && !stands)
    }

    /// Whether a condition is on a path of the partition key.
    fn is_on_key(&self, condition: &Condition) -> bool {
        let Condition::Term { path, .. } = condition else {
            return false;
        };
        let is_path = |names: &Vec<String>| {
            let steps = path.0.iter().zip(names);
            path.0.len() == names.len()
                && steps
                    .into_iter()
                    .all(|(s, n)| matches!(s, orrery_sql::Step::Name(name) if name == n))
        };
        self.ask.settings.partition_key.paths().iter().any(is_path)
    }
}
