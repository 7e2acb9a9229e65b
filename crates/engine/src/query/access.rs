//! How one partition finds the items of a query: the choice among its index terms, a logical partition, the order of an
//! ORDER BY path, and everything.
//!
//! The choice compares what the ways would be charged, as far as a short look at the index can tell: the shortest list
//! of postings that the conjunction names (counted up to [`LOOK`]), the size of the logical partition, and for ORDER BY
//! the entries that a walk passes until the page is full. The same data always gives the same choice.

use super::condition::{self, KeyRanges, conjuncts, key_ranges};
use crate::catalog::IndexState;
use crate::catalog::settings::Settings;
use crate::keys::{self, PathNumber, Place};
use crate::partition::{Partition, scan};
use crate::throughput::Profile;
use orrery_model::Result;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_sql::{Condition, Query, Test};
use orrery_storage::{Direction, Snapshot};

/// Index entries that planning looks at, at most, for each term.
const LOOK: usize = 256;

/// A sort holds all matches and is done again for every page, a walk goes on where it stopped: a sort must be this many
/// times cheaper.
const SORT_PENALTY: u64 = 2;

/// What a query asks of one partition.
pub struct Ask<'a> {
    /// The query.
    pub query: &'a Query,
    /// The container's settings.
    pub settings: &'a Settings,
    /// Whether the index can be asked.
    pub index: IndexState,
    /// The logical partition it is confined to, if one.
    pub key: Option<&'a Epk>,
    /// The stretch of the hash space it is confined to, if not the whole partition.
    pub within: Option<&'a EpkRange>,
    /// Rows wanted of this partition, about.
    pub rows_wanted: usize,
    /// Whose prices decide.
    pub profile: Profile,
    /// Whether to walk along the ORDER BY path, where that is settled: an earlier page did or did not, or another
    /// partition of the same merge does.
    pub walk: Option<bool>,
}

/// Where candidates come from.
#[derive(Debug)]
pub enum Driver {
    /// All items, in natural order.
    Everything,
    /// A logical partition's rows, in natural order.
    Logical(Place),
    /// Index entries in these ranges, brought into natural order.
    Postings {
        /// From (inclusive) and to (exclusive); several, or one that is not of equal values, are sorted first.
        ranges: Vec<(Vec<u8>, Vec<u8>)>,
        /// All in one range have one value: they come in natural order.
        one_value: bool,
        /// A test on the string in the entry itself.
        strings: Option<Test>,
    },
    /// Nothing can match.
    Nothing,
    /// The entries of the ORDER BY path, in order.
    Order {
        /// The path; `None` if no item has it.
        path: Option<PathNumber>,
        /// From the end.
        descending: bool,
    },
}

/// A chosen way.
#[derive(Debug)]
pub struct Access {
    /// Where candidates come from.
    pub driver: Driver,
    /// Index terms (path, value) that a candidate must have as well; asked before it is loaded.
    pub checks: Vec<(PathNumber, Vec<u8>)>,
    /// Conditions to test on the item itself before it counts as loaded.
    pub test_items: bool,
    /// Whether driver and checks together decide the condition.
    pub decides: bool,
    /// Seeks to charge.
    pub seeks: u64,
    /// Whether passing the driver's entries is charged as a walk.
    pub walks: bool,
    /// Whether passing them is charged as a scan of distinct values.
    pub scans: bool,
    /// In one line, for the index metrics and tests.
    pub explanation: String,
}

/// An index term of the conjunction.
struct Candidate<'a> {
    condition: &'a Condition,
    path: Option<PathNumber>,
    keys: Option<KeyRanges>,
    test: &'a Test,
    text: String,
    /// Entries, counted up to [`LOOK`].
    entries: usize,
}

impl Access {
    /// Chooses.
    ///
    /// # Errors
    /// What the store reports.
    pub fn choose(ask: &Ask<'_>, partition: &Partition, snapshot: &dyn Snapshot) -> Result<Access> {
        let condition = ask.query.condition();
        if matches!(condition, Condition::Never) {
            return Ok(Access::plain(Driver::Nothing, "nothing".into()));
        }
        let usable = if ask.index == IndexState::Ready { candidates(ask, partition, snapshot)? } else { Vec::new() };
        let seeks = usable.iter().map(Candidate::seeks).sum::<u64>() + own_key_seek(ask, &usable);
        if let Some(walk) = ordered(ask, &usable, seeks, partition, snapshot)? {
            return Ok(walk);
        }
        let best = best_of(&usable);
        if let Some(key) = ask.key {
            let long = best.is_none_or(|b| b.entries >= LOOK);
            if long || best.is_none_or(|b| !b.is_equality() || is_key_path(ask, b)) {
                let mut access = Access::plain(Driver::Logical(keys::place(key)), "logical partition".into());
                access.test_items = !matches!(condition, Condition::All);
                access.seeks = seeks;
                access.walks = usable.iter().any(|c| c.is_equality() && !is_key_path(ask, c));
                return Ok(access);
            }
        }
        let Some(best) = best else {
            let mut access = Access::plain(Driver::Everything, "full scan".into());
            access.seeks = seeks;
            return Ok(access);
        };
        Ok(by_postings(ask, best, &usable, seeks))
    }

    /// Whether candidates come along the ORDER BY path.
    pub fn walks_in_order(&self) -> bool {
        matches!(self.driver, Driver::Order { .. })
    }

    /// Whether candidates come in the order of ORDER BY, if only because there are none.
    pub fn is_ordered(&self) -> bool {
        matches!(self.driver, Driver::Order { .. } | Driver::Nothing)
    }

    fn plain(driver: Driver, explanation: String) -> Access {
        Access {
            driver,
            checks: Vec::new(),
            test_items: false,
            decides: false,
            seeks: 0,
            walks: false,
            scans: false,
            explanation,
        }
    }
}

impl Candidate<'_> {
    fn is_equality(&self) -> bool {
        matches!(self.test, Test::Equals(_))
    }

    /// Equality values looked up, found or not.
    fn seeks(&self) -> u64 {
        match self.test {
            Test::Equals(_) => 1,
            Test::In(values) => values.len() as u64,
            _ => 0,
        }
    }

    fn is_exact(&self) -> bool {
        let bytes_decide = self.path.is_none() || self.keys.as_ref().is_some_and(|k| k.exact);
        bytes_decide && matches!(self.condition, Condition::Term { exact: true, .. })
    }
}

/// The terms of the conjunction that the index knows.
fn candidates<'a>(ask: &Ask<'a>, partition: &Partition, snapshot: &dyn Snapshot) -> Result<Vec<Candidate<'a>>> {
    let paths = partition.paths()?;
    let mut found = Vec::new();
    for condition in conjuncts(ask.query.condition()) {
        let Condition::Term { path, test, .. } = condition else { continue };
        if !condition::is_answerable(test) || !condition::is_indexed(&ask.settings.policy, path) {
            continue;
        }
        let number = condition::find(&paths, path);
        let keys = number.and_then(|number| key_ranges(number, test));
        let entries = match &keys {
            Some(keys) => keys.ranges.iter().map(|r| scan(snapshot, r, Direction::Forward).take(LOOK).count()).sum(),
            None => 0,
        };
        found.push(Candidate { condition, path: number, keys, test, text: format!("{path} {test}"), entries });
    }
    Ok(found)
}

/// The filter on the partition key is looked up too, unless it stands in the query and is counted there.
fn own_key_seek(ask: &Ask<'_>, usable: &[Candidate<'_>]) -> u64 {
    u64::from(ask.key.is_some() && !usable.iter().any(|c| is_key_path(ask, c)))
}

fn is_key_path(ask: &Ask<'_>, candidate: &Candidate<'_>) -> bool {
    let Condition::Term { path, .. } = candidate.condition else { return false };
    let names: Vec<String> =
        path.0.iter().filter_map(|s| if let orrery_sql::Step::Name(n) = s { Some(n.clone()) } else { None }).collect();
    ask.settings.partition_key.paths().contains(&names)
}

/// The shortest list; among equals a seek before a scan.
fn best_of<'a, 'b>(usable: &'b [Candidate<'a>]) -> Option<&'b Candidate<'a>> {
    let rank = |c: &Candidate<'_>| (c.entries >= LOOK && !c.is_equality(), c.entries, !c.is_equality());
    usable
        .iter()
        .filter(|c| condition::is_selective(c.test) || c.entries < LOOK || matches!(c.test, Test::ScanStrings(_)))
        .min_by_key(|c| rank(c))
}

fn by_postings(ask: &Ask<'_>, best: &Candidate<'_>, usable: &[Candidate<'_>], seeks: u64) -> Access {
    let Some(keys) = &best.keys else {
        // No item has the path.
        let mut access = Access::plain(Driver::Nothing, format!("index {} (no item has the path)", best.text));
        access.seeks = seeks;
        return access;
    };
    let others = || usable.iter().filter(|c| !std::ptr::eq(*c, best));
    let checks = others().filter(|c| c.is_equality()).map(term_of).collect::<Option<Vec<_>>>();
    let Some(checks) = checks else {
        let mut access = Access::plain(Driver::Nothing, "index (no item has one of the paths)".into());
        access.seeks = seeks;
        return access;
    };
    let strings = matches!(best.test, Test::ScanStrings(_)).then(|| best.test.clone());
    let covered = 1 + checks.len();
    let all = conjuncts(ask.query.condition()).len();
    let texts: Vec<&str> =
        std::iter::once(best).chain(others().filter(|c| c.is_equality())).map(|c| c.text.as_str()).collect();
    Access {
        decides: covered == all && best.is_exact() && others().all(Candidate::is_exact),
        driver: Driver::Postings { ranges: keys.ranges.clone(), one_value: best.is_equality(), strings },
        walks: !checks.is_empty(),
        scans: keys.seeks == 0,
        checks,
        test_items: false,
        seeks,
        explanation: format!("index {}", texts.join(" and ")),
    }
}

/// The exact index term of an equality; `None` if no item has its path.
fn term_of(candidate: &Candidate<'_>) -> Option<(PathNumber, Vec<u8>)> {
    let Test::Equals(value) = candidate.test else { return None };
    Some((candidate.path?, crate::index::value::encode(value).bytes))
}

/// The walk along the ORDER BY path, if it is cheaper than finding the matches and sorting them.
fn ordered(
    ask: &Ask<'_>,
    usable: &[Candidate<'_>],
    seeks: u64,
    partition: &Partition,
    snapshot: &dyn Snapshot,
) -> Result<Option<Access>> {
    let [key] = ask.query.order() else { return Ok(None) };
    let Some(path) = &key.path else { return Ok(None) };
    if ask.walk == Some(false) || ask.index != IndexState::Ready || !condition::is_indexed(&ask.settings.policy, path) {
        return Ok(None);
    }
    let items = Partition::counters(snapshot)?.items as usize;
    let matches = match ask.key {
        Some(key) => scan(snapshot, &keys::items_of(keys::place(key), 0), Direction::Forward).take(LOOK).count(),
        None => items,
    };
    let matches = usable.iter().map(|c| c.entries).filter(|entries| *entries < LOOK).fold(matches, usize::min);
    // A logical partition that was counted to its end is read and sorted; else walk, if few entries lie between rows.
    let (few, wanted) = (matches < LOOK, ask.rows_wanted.min(matches));
    let walk = walk_cost(ask.profile, items, matches, wanted);
    if ask.walk.is_none() && few && SORT_PENALTY * sort_cost(ask.profile, matches) <= walk {
        return Ok(None);
    }
    let checks = usable.iter().filter(|c| c.is_equality()).map(term_of).collect::<Option<Vec<_>>>();
    let Some(checks) = checks else {
        let mut access = Access::plain(Driver::Nothing, "index (no item has one of the paths)".into());
        access.seeks = seeks + 1;
        return Ok(Some(access));
    };
    let all = conjuncts(ask.query.condition()).len();
    let paths = partition.paths()?;
    let number = condition::find(&paths, path);
    let order = if key.descending { "descending" } else { "ascending" };
    Ok(Some(Access {
        decides: checks.len() == all && usable.iter().all(Candidate::is_exact),
        driver: Driver::Order { path: number, descending: key.descending },
        checks,
        test_items: false,
        seeks: seeks + 1,
        walks: true,
        scans: false,
        explanation: format!("order {path} {order}"),
    }))
}

/// Entries passed until the page is full, and the items on it, in 1/10,000 RU.
fn walk_cost(profile: Profile, items: usize, matches: usize, wanted: usize) -> u64 {
    let passed = wanted.saturating_mul(items) / matches.max(1);
    profile.cost_of_walking(passed.min(items) as u64) + profile.cost_of_loading(wanted as u64)
}

fn sort_cost(profile: Profile, matches: usize) -> u64 {
    profile.cost_of_walking(matches as u64) + profile.cost_of_loading(matches as u64)
}
