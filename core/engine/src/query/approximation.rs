//! Candidates that a vector index of the type `quantizedFlat` or `diskANN` proposes for the nearest
//! vectors, in place of all vectors of a partition.
//!
//! ```text
//! effort of round 0 ──▶ the nearest codes, or nodes of the graph ─┐
//!                       vectors that have changed since           ├─▶ whole vectors ──▶ scores
//!                       vectors that the task has not reached    ─┘
//! ```
//!
//! A query that takes more postings than a round has, because its condition excludes most of them,
//! asks for a round of four times the effort, until comparing all vectors is cheaper. A round
//! returns no vector beyond the worst one that the index has proposed, because nearer ones may be
//! missing there.
//!
//! Promises: scores are those of whole vectors in the query's snapshot, so a candidate that has
//! changed or gone does no harm. A vector that the background task has not taken in is compared.
//! Left out: an answer that is complete. An item whose code is far from the query may be missed, as
//! with the service, and so may one that was deleted or moved to another shard after the snapshot.

use super::condition::{conjuncts, steps};
use super::index_view::IndexView;
use super::lookup::PlannedLookup;
use super::partition_query::PartitionQuery;
use super::posting::damaged_row;
use super::score_walk::{ScoredEntries, Vectors};
use crate::background::StoredLists;
use crate::index::approximate::{ApproximateState, ChangeMark, Progress};
use crate::index::paths::steps_of;
use crate::index::vectors::{Shard, VectorIndex, VectorIndexKind};
use crate::partition::codes::{ShardedCodes, VectorCodes, prefix_in_record};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::{scan, scan_keys};
use orrery_ann::{Codes, GraphView};
use orrery_model::{Kind, Result};
use orrery_sql::{Condition, Nearest, SearchEffort, Test};
use orrery_storage::{Direction, Snapshot};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// The largest number of rows of a query for which an index proposes candidates.
const ROWS_MAX: u64 = 1_000;
/// The least number of rows from which the number of candidates follows.
const ROWS_MIN: u64 = 10;
/// Candidates of a round for each one of the round before.
const GROWTH: u64 = 4;
/// The best of the compared candidates that a round returns for each row, so that a query which
/// looks behind its last row needs no other round.
const RETURNED_PER_ROW: usize = 2;
/// The largest number of candidates of a search in a graph. For more all codes are compared.
const LIST_SIZE_MAX: usize = 4_096;
/// Vectors for each one that has changed, below which all vectors are compared.
const VECTORS_PER_MARK: u64 = 20;
/// Vectors between two calls of the check point.
const CHECK_INTERVAL: u64 = 4_096;

/// The candidates of a vector index for one order.
#[derive(Clone, Debug)]
pub(crate) struct Approximation {
    codes: Arc<VectorCodes>,
    state: ApproximateState,
    path: PathNumber,
    has_graph: bool,
    /// Rows that the query asks for.
    rows: u64,
    /// Vectors of the partition.
    vectors: u64,
    effort: SearchEffort,
    /// The round that is the first one.
    pub(super) first_round: u32,
    /// The shards that are searched, if these are not all.
    shards: Option<Vec<Shard>>,
    /// The items whose codes are compared one by one, if these are not all.
    among: Option<Among>,
}

/// Items whose codes are compared one by one.
#[derive(Clone, Debug)]
enum Among {
    /// Those of the logical partition of the query.
    Key,
    /// Those to which a lookup leads.
    Lookup(Box<PlannedLookup>),
}

/// The effort of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effort {
    /// Candidates of the search in the graph.
    list_size: usize,
    /// Candidates whose whole vectors are compared.
    compared: usize,
    /// The best of the compared candidates that the round returns. Others are left to the next
    /// round, which may find better ones.
    pub returned: usize,
}

/// The items whose codes are nearest.
#[derive(Default)]
struct NearestItems {
    items: Vec<(ItemNumber, EpkPrefix)>,
    /// True if a graph has been searched, and not all codes have been compared.
    is_of_graph: bool,
}

/// The candidates of a round that the index has proposed and that have been compared.
pub(super) struct Proposed {
    numbers: BTreeSet<ItemNumber>,
    /// True if the index knows no other vectors in the scope of the query.
    pub is_complete: bool,
}

impl Approximation {
    /// Returns the candidates of the index for an order, or `None` if all vectors are compared: for
    /// an index of the type `flat`, few vectors, many rows, or a query that asks for it.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged.
    pub(super) fn plan(
        query: &PartitionQuery<'_>,
        snapshot: &dyn Snapshot,
        view: &IndexView<'_>,
        nearest: &Nearest,
    ) -> Result<Option<Self>> {
        let Some((index, Some(path))) = view.vectors(nearest) else {
            return Ok(None);
        };
        let rows = match query.query.rows_needed() {
            Some(rows) if rows <= ROWS_MAX => rows.max(ROWS_MIN),
            _ => return Ok(None),
        };
        let is_approximate = index.kind != VectorIndexKind::Flat;
        if !is_approximate || nearest.effort.is_exact || nearest.function != index.function {
            return Ok(None);
        }
        // Another process changes the codes of a partition that it owns.
        if !view.partition.is_owned() {
            return Ok(None);
        }
        let vectors = query.facts.entries_of(snapshot, path)?;
        if vectors < query.approximate.from || has_few(snapshot, query, path)? {
            return Ok(None);
        }
        let state = match ApproximateState::read(snapshot, path)? {
            Some(state) if state.serves(index) => state,
            _ => return Ok(None),
        };
        // The vectors that the task has not taken in are looked up one by one.
        let marks_max = vectors / VECTORS_PER_MARK;
        let marks = keys::changed_vectors(path, state.marks_from);
        if has_keys(snapshot, &marks, marks_max.max(1))? {
            return Ok(None);
        }
        let (search, end_point) = (query.approximate, query.end_point);
        let partition = view.partition;
        let codes = match partition.codes_of(snapshot, path, &state, search, end_point) {
            Ok(Some(codes)) => codes,
            Ok(None) => return Ok(None),
            // The whole vectors are there.
            Err(error) if error.kind() == Kind::DataDamaged => return Ok(None),
            Err(error) => return Err(error),
        };
        let shards = shards_of(query, index);
        let among = match query.key {
            Some(_) if shards.is_none() => Some(Among::Key),
            _ => None,
        };
        let approximation = Approximation {
            codes,
            state,
            path,
            has_graph: index.kind == VectorIndexKind::DiskAnn,
            rows,
            vectors,
            effort: nearest.effort,
            first_round: 0,
            shards,
            among,
        };
        Ok(approximation.effort(0).is_some().then_some(approximation))
    }

    /// Returns the effort of a round, or `None` if comparing all vectors is cheaper.
    pub(super) fn effort(&self, round: u32) -> Option<Effort> {
        let growth = GROWTH.checked_pow(round)?;
        let list_size = self.rows * self.effort.search_list_size_multiplier * growth;
        let compared = self.rows * self.effort.quantized_vector_list_multiplier * growth;
        // With the priority 0 a 64th of the vectors may be candidates, with 1 a fourth.
        let part = match round {
            0 => 0.5,
            _ => (4.0 * self.effort.filter_priority - 6.0).exp2(),
        };
        let candidates = match self.has_graph && self.among.is_none() {
            true => list_size.max(compared),
            false => compared,
        };
        let is_cheap = candidates as f64 <= self.vectors as f64 * part;
        is_cheap.then_some(Effort {
            list_size: candidates as usize,
            compared: compared as usize,
            returned: (self.rows * growth) as usize * RETURNED_PER_ROW,
        })
    }

    /// Returns the number of vectors of the shards that are searched.
    pub(super) fn searched(&self) -> u64 {
        let Some(shards) = &self.shards else {
            return self.vectors;
        };
        let codes = self.codes.read();
        let of_shard = |shard: &Shard| codes.of_shard(*shard).len() as u64;
        shards.iter().map(of_shard).sum()
    }

    /// Compares the codes of the matches of a lookup, in place of all codes or a graph.
    pub(super) fn compare_matches_of(&mut self, lookup: PlannedLookup) {
        self.among = Some(Among::Lookup(Box::new(lookup)));
    }

    /// Begins with the round that returns enough candidates for a query whose condition holds for
    /// `matches` items.
    pub(super) fn expect_matches(&mut self, matches: u64) {
        let rows = self.rows.saturating_mul(self.searched()) / matches.max(1);
        while self
            .effort(self.first_round)
            .is_some_and(|effort| (effort.returned as u64) < rows)
            && self.effort(self.first_round + 1).is_some()
        {
            self.first_round += 1;
        }
    }

    /// Returns the lookup whose matches alone are compared, if there is one.
    pub(super) fn lookup(&self) -> Option<&PlannedLookup> {
        match &self.among {
            Some(Among::Lookup(planned)) => Some(planned),
            Some(Among::Key) | None => None,
        }
    }

    /// Compares the candidates that the index proposes for a round.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged; those of the query's check point.
    pub(super) fn compare_proposed(
        &self,
        effort: Effort,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
        mut vectors: Vectors<'_>,
        entries: &mut ScoredEntries,
    ) -> Result<Proposed> {
        let nearest = vectors.nearest();
        let found = match self.items_among(snapshot, query)? {
            Some(items) => self.nearest_among(items, effort, nearest, entries),
            None => self.nearest_codes(effort, snapshot, query, nearest, entries)?,
        };
        // A search in a graph may miss some, and newer codes may lack those of the snapshot.
        let is_confined = self.among.is_some() || self.shards.is_some();
        let has_all_codes = is_confined && !found.is_of_graph && !self.codes.is_newer(&self.state);
        let is_complete = has_all_codes && found.items.len() < effort.compared;
        let scope = query.key.map(|key| keys::epk_prefix(key.epk()));
        let mut numbers = BTreeSet::new();
        let mut candidates: Vec<(EpkPrefix, ItemNumber)> = Vec::with_capacity(found.items.len());
        for (number, epk_prefix) in found.items {
            // Two partition keys may have one shard.
            if scope.is_none_or(|scope| scope == epk_prefix) {
                numbers.insert(number);
                candidates.push((epk_prefix, number));
            }
        }
        vectors.read_some(snapshot, self.path, &candidates, query, entries)?;
        Ok(Proposed {
            numbers,
            is_complete,
        })
    }

    /// Compares the vectors of which the index does not know: those that have changed, and those
    /// that the task has not reached.
    ///
    /// # Errors
    /// As for [`Approximation::compare_proposed`].
    pub(super) fn compare_others(
        &self,
        proposed: Proposed,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
        mut vectors: Vectors<'_>,
        entries: &mut ScoredEntries,
    ) -> Result<()> {
        let mut numbers = proposed.numbers;
        let mut candidates: Vec<(EpkPrefix, ItemNumber)> = Vec::new();
        let scope = query.key.map(|key| keys::epk_prefix(key.epk()));
        for row in scan(
            snapshot,
            &keys::changed_vectors(self.path, self.state.marks_from),
            Direction::Forward,
        ) {
            let (key, value) = row?;
            let mark = ChangeMark::read(&key, &value)?;
            let is_in_scope = scope.is_none_or(|scope| scope == mark.epk_prefix);
            if is_in_scope && numbers.insert(mark.number) {
                candidates.push((mark.epk_prefix, mark.number));
            }
        }
        vectors.read_some(snapshot, self.path, &candidates, query, entries)?;
        self.compare_unreached(snapshot, query, scope, &numbers, vectors, entries)
    }

    /// Compares the vectors that the task has not reached.
    fn compare_unreached(
        &self,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
        scope: Option<EpkPrefix>,
        compared: &BTreeSet<ItemNumber>,
        mut vectors: Vectors<'_>,
        entries: &mut ScoredEntries,
    ) -> Result<()> {
        let Progress::From((epk_prefix, number)) = self.state.progress else {
            return Ok(());
        };
        let from = keys::vector(self.path, epk_prefix, number);
        let (first, end) = keys::vectors(self.path, scope);
        let range = (first.max(from), end);
        for row in scan(snapshot, &range, Direction::Forward) {
            let (key, vector) = row?;
            let (epk_prefix, number) = keys::read_vector(&key).ok_or_else(damaged_row)?;
            entries.vectors += 1;
            entries.vector_bytes += vector.len() as u64;
            if entries.vectors.is_multiple_of(CHECK_INTERVAL) {
                (query.check_point)()?;
            }
            if !compared.contains(&number) {
                vectors.add(number, epk_prefix, vector);
            }
        }
        vectors.finish();
        Ok(())
    }

    /// Returns the items whose codes are nearest to a vector.
    fn nearest_codes(
        &self,
        effort: Effort,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
        nearest: &Nearest,
        entries: &mut ScoredEntries,
    ) -> Result<NearestItems> {
        let vector = nearest.components();
        let quantiser = &self.codes.quantiser;
        let code_bytes = quantiser.code_bytes() as u64;
        let mut distances = None;
        let list_size = effort.list_size.max(effort.compared);
        let codes = self.codes.read();
        let shards: Vec<(Shard, &Codes)> = match &self.shards {
            None => codes.all().collect(),
            Some(shards) => {
                let of_shard = |shard: &Shard| (*shard, codes.of_shard(*shard));
                shards.iter().map(of_shard).collect()
            }
        };
        let mut found = NearestItems::default();
        let mut nodes: Vec<(f32, u64)> = Vec::new();
        for (shard, codes) in &shards {
            let is_graph_cheaper = codes.len() / query.approximate.codes_per_list >= list_size;
            if self.has_graph && is_graph_cheaper && list_size <= LIST_SIZE_MAX {
                let lists = StoredLists {
                    snapshot,
                    path: self.path,
                    shard: *shard,
                };
                let graph = GraphView {
                    quantiser,
                    codes,
                    lists: &lists,
                };
                let of_graph = graph.search(&vector, list_size)?;
                entries.vectors += of_graph.compared;
                entries.vector_bytes += of_graph.compared * code_bytes;
                nodes.extend(of_graph.nodes);
                found.is_of_graph = true;
            } else {
                entries.vectors += codes.len() as u64;
                entries.vector_bytes += codes.len() as u64 * code_bytes;
                // No check point while the codes are locked: another page would wait for the task
                // that changes them, and this one for the turn of that page.
                let distances = distances.get_or_insert_with(|| quantiser.distances(&vector));
                nodes.extend(codes.nearest(distances, effort.compared, &mut || Ok(()))?);
            }
            // The best ones of many small shards are kept.
            if nodes.len() > effort.compared * 2 {
                keep_nearest(&mut nodes, effort.compared);
            }
        }
        keep_nearest(&mut nodes, effort.compared);
        found.items = located(&codes, &nodes);
        Ok(found)
    }

    /// Returns the items whose codes are compared one by one, or `None` if these are all.
    fn items_among(
        &self,
        snapshot: &dyn Snapshot,
        query: &PartitionQuery<'_>,
    ) -> Result<Option<Vec<ItemNumber>>> {
        let scope = query.key.map(|key| keys::epk_prefix(key.epk()));
        let mut items = Vec::new();
        match &self.among {
            None => return Ok(None),
            Some(Among::Key) => {
                let range = keys::vectors(self.path, scope);
                let vectors = scan_keys(snapshot, &range, Direction::Forward, |key| {
                    keys::read_vector(key).ok_or_else(damaged_row)
                });
                for item in vectors {
                    if items.len().is_multiple_of(CHECK_INTERVAL as usize) {
                        (query.check_point)()?;
                    }
                    let (_, number) = item?;
                    items.push(number);
                }
            }
            Some(Among::Lookup(planned)) => {
                let (lookup, check_point) = (&planned.lookup, query.check_point);
                let Some(matches) = lookup.collect(snapshot, check_point, 0, usize::MAX)? else {
                    return Ok(None);
                };
                for found in matches {
                    if scope.is_none_or(|scope| scope == found.epk_prefix) {
                        items.push(found.number);
                    }
                }
            }
        }
        Ok(Some(items))
    }

    /// Returns those of some items whose codes are nearest to a vector.
    fn nearest_among(
        &self,
        items: Vec<ItemNumber>,
        effort: Effort,
        nearest: &Nearest,
        entries: &mut ScoredEntries,
    ) -> NearestItems {
        let distances = self.codes.quantiser.distances(&nearest.components());
        let codes = self.codes.read();
        let mut nodes: Vec<(f32, ItemNumber)> = Vec::with_capacity(items.len());
        for number in items {
            if let Some(code) = codes.get(number) {
                nodes.push((distances.to(code), number));
            }
        }
        entries.vectors += nodes.len() as u64;
        entries.vector_bytes += (nodes.len() * self.codes.quantiser.code_bytes()) as u64;
        keep_nearest(&mut nodes, effort.compared);
        NearestItems {
            items: located(&codes, &nodes),
            is_of_graph: false,
        }
    }
}

/// Returns the shards that have all matches of a query, or `None` if all shards may have some. A
/// query of one partition key names a shard only if the shard key is the path of that key.
fn shards_of(query: &PartitionQuery<'_>, index: &VectorIndex) -> Option<Vec<Shard>> {
    let shard_path = index.shard_path.as_ref()?;
    let is_of_key = match query.settings.partition_key.paths() {
        [names] => steps_of(names) == *shard_path,
        _ => false,
    };
    if query.key.is_some() && !is_of_key {
        return None;
    }
    for condition in conjuncts(query.query.condition()) {
        if let Condition::Term { path, test, .. } = condition
            && steps(path) == *shard_path
            && let Some(shards) = shards_with(test)
        {
            return Some(shards);
        }
    }
    let key = query.named_key.filter(|_| is_of_key)?;
    let [component] = key.components() else {
        return None;
    };
    Some(vec![Shard::of_value(Some(&component.value()?))])
}

/// Keeps the nearest ones, in no order.
fn keep_nearest(nodes: &mut Vec<(f32, ItemNumber)>, count: usize) {
    if nodes.len() > count {
        nodes.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        nodes.truncate(count);
    }
}

/// Returns the items of nodes with their EPK prefixes.
fn located(codes: &ShardedCodes, nodes: &[(f32, ItemNumber)]) -> Vec<(ItemNumber, EpkPrefix)> {
    let mut items = Vec::with_capacity(nodes.len());
    for (_, number) in nodes {
        if let Some(record) = codes.get(*number) {
            items.push((*number, prefix_in_record(record)));
        }
    }
    items
}

/// Returns the shards of the values that a test accepts, if these are few.
fn shards_with(test: &Test) -> Option<Vec<Shard>> {
    let mut shards: Vec<Shard> = match test {
        Test::Equals(value) => vec![Shard::of_value(Some(value))],
        Test::In(values) => values
            .iter()
            .map(|value| Shard::of_value(Some(value)))
            .collect(),
        _ => return None,
    };
    shards.sort_unstable();
    shards.dedup();
    Some(shards)
}

/// Returns true if a query of one logical partition has few vectors to compare.
fn has_few(snapshot: &dyn Snapshot, query: &PartitionQuery<'_>, path: PathNumber) -> Result<bool> {
    let Some(key) = query.key else {
        return Ok(false);
    };
    let range = keys::vectors(path, Some(keys::epk_prefix(key.epk())));
    Ok(!has_keys(snapshot, &range, query.approximate.from)?)
}

/// Returns true if a range has at least `count` keys.
fn has_keys(snapshot: &dyn Snapshot, range: &(Vec<u8>, Vec<u8>), count: u64) -> Result<bool> {
    let mut found = 0;
    for key in scan_keys(snapshot, range, Direction::Forward, |_| Ok(())) {
        key?;
        found += 1;
        if found >= count {
            return Ok(true);
        }
    }
    Ok(false)
}

impl fmt::Display for Approximation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.has_graph {
            true => "its graph",
            false => "quantised vectors",
        })?;
        match self.shards.as_ref().map(Vec::len) {
            None => Ok(()),
            Some(1) => f.write_str(" of one shard"),
            Some(shards) => write!(f, " of {shards} shards"),
        }
    }
}
