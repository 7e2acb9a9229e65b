//! Vector and full-text indexes for the operator: their sizes, and the progress of the task that
//! quantises and links vectors. Nothing here is charged.
//!
//! Figures come from counters where the partition has them. What has no counter is counted key by
//! key up to [`COUNTED_MAX`], and estimated beyond: lists of neighbours and texts from a sample,
//! quantised vectors from the place that the task has reached.
//!
//! Left out: indexes that the newest policy does not have any more, and the share of the nearest
//! vectors that an index finds (`recall.rs`).

use crate::Engine;
use crate::catalog::Container;
use crate::errors::damaged;
use crate::index::approximate::{ApproximateState, Progress, VectorPlace};
use crate::index::generations::Policies;
use crate::index::policy::{Policy, path_text};
use crate::index::texts::{EVERY_TEXT, StemPlaces};
use crate::index::vectors::{VectorIndex, VectorIndexKind};
use crate::partition::keys::{self, PathNumber};
use crate::partition::{Partition, retry_if_moved, scan, scan_keys};
use crate::query::Cancel;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Direction, Snapshot};

/// Keys that are counted one by one for a figure of an index in a partition.
const COUNTED_MAX: u64 = 20_000;
/// Rows from which the size of all rows is estimated.
const SAMPLE_MAX: usize = 1_000;
/// Bytes of the key of a vector.
const VECTOR_KEY_BYTES: u64 = 21;

/// The state of a search index, from the one that needs no work to the one that needs most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchIndexState {
    /// All vectors are compared: the type is `flat`, or the vectors are few.
    Exact,
    /// The index has taken in all items, or all but those that have changed lately.
    Complete,
    /// Quantised vectors of an earlier type of the index are being removed.
    Removing,
    /// The task quantises vectors, and links them in a graph if the index has one.
    Building,
    /// The task is about to train the quantiser.
    Training,
    /// The items are being indexed after a change of the indexing policy.
    Indexing,
}

/// The kind of a search index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchIndexKind {
    /// A vector index.
    Vector {
        /// The type: `flat`, `quantizedFlat` or `diskANN`.
        type_name: &'static str,
        /// The data type of the components.
        data_type: &'static str,
        /// The number of components.
        dimensions: u64,
        /// The distance function.
        function: &'static str,
    },
    /// A full-text index.
    Text {
        /// The language.
        language: String,
    },
}

/// The figures of a search index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchIndexFigures {
    /// Vectors or texts in the index.
    pub entries: u64,
    /// Vectors whose code is that of the vector as it is now.
    pub quantised: u64,
    /// Vectors that the task has still to take in.
    pub waiting: u64,
    /// Words of all texts.
    pub words: u64,
    /// Bytes of the rows of whole vectors.
    pub vector_bytes: u64,
    /// Bytes of the rows of quantised vectors.
    pub code_bytes: u64,
    /// Bytes of the lists of neighbours.
    pub list_bytes: u64,
    /// True if a figure is an estimate.
    pub is_estimated: bool,
}

/// A search index in one physical partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchIndexPart {
    /// The partition key range id.
    pub partition: u32,
    /// The state.
    pub state: SearchIndexState,
    /// The part that is done, in percent; `None` if it is not known.
    pub percent: Option<u8>,
    /// The figures.
    pub figures: SearchIndexFigures,
}

/// A search index of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchIndexStatus {
    /// The path, as policies write it.
    pub path: String,
    /// The kind.
    pub kind: SearchIndexKind,
    /// The state of the partition that needs the most work.
    pub state: SearchIndexState,
    /// The part that is done in all partitions, in percent; `None` if it is not known.
    pub percent: Option<u8>,
    /// The sums of the figures of all partitions.
    pub figures: SearchIndexFigures,
    /// The index in each partition.
    pub partitions: Vec<SearchIndexPart>,
}

impl Engine {
    /// Returns the vector indexes and then the full-text indexes of a container's newest policy, in
    /// the partitions that this process may read.
    ///
    /// # Errors
    /// 408 if `cancel` is set meanwhile; 500 if the store cannot be read.
    pub fn search_indexes(
        &self,
        container: &Container,
        cancel: &Cancel,
    ) -> Result<Vec<SearchIndexStatus>> {
        retry_if_moved(|| {
            let policies = container.policies();
            let newest = &policies.newest.1;
            let mut statuses = Vec::new();
            for index in newest.stored_vectors() {
                statuses.push(SearchIndexStatus::of(vector_kind(index), &index.path));
            }
            for index in newest.stored_texts() {
                let language = index.language.clone();
                let kind = SearchIndexKind::Text { language };
                statuses.push(SearchIndexStatus::of(kind, &index.path));
            }
            let partitions = container.partitions();
            for partition in partitions.iter().filter(|one| one.is_readable()) {
                let parts = parts_in(container, partition, &policies, cancel);
                let parts = match parts {
                    // The operator needs the other partitions most when one cannot be read.
                    Err(error) if error.kind() == Kind::DataDamaged => continue,
                    read => read?,
                };
                for (status, part) in statuses.iter_mut().zip(parts) {
                    status.add(part);
                }
            }
            Ok(statuses)
        })
    }
}

impl SearchIndexStatus {
    fn of(kind: SearchIndexKind, path: &[crate::index::paths::Step]) -> Self {
        SearchIndexStatus {
            path: path_text(path),
            kind,
            state: SearchIndexState::Exact,
            percent: Some(100),
            figures: SearchIndexFigures::default(),
            partitions: Vec::new(),
        }
    }

    fn add(&mut self, part: SearchIndexPart) {
        let (sum, more) = (&mut self.figures, &part.figures);
        sum.entries += more.entries;
        sum.quantised += more.quantised;
        sum.waiting += more.waiting;
        sum.words += more.words;
        sum.vector_bytes += more.vector_bytes;
        sum.code_bytes += more.code_bytes;
        sum.list_bytes += more.list_bytes;
        sum.is_estimated |= more.is_estimated;
        self.partitions.push(part);

        let states = self.partitions.iter().map(|part| part.state);
        self.state = states.max().unwrap_or(SearchIndexState::Exact);
        // Large partitions have more to do than small ones.
        let (mut done, mut all) = (0, 0);
        for part in &self.partitions {
            let Some(percent) = part.percent else {
                self.percent = None;
                return;
            };
            let weight = part.figures.entries.max(1);
            done += weight * u64::from(percent);
            all += weight;
        }
        self.percent = Some(percent_of(done, all * 100, self.state));
    }
}

/// Returns the indexes of a container's newest policy in a partition: those of vectors, then those
/// of texts.
fn parts_in(
    container: &Container,
    partition: &Partition,
    policies: &Policies,
    cancel: &Cancel,
) -> Result<Vec<SearchIndexPart>> {
    let snapshot = partition.snapshot_while_completing()?;
    let snapshot = snapshot.as_ref();
    let newest = &policies.newest.1;
    let mut parts = Vec::new();
    for index in newest.stored_vectors() {
        check(cancel)?;
        let path = partition.paths(snapshot)?.find_derived(&index.text);
        let part = VectorPart {
            partition,
            snapshot,
            index,
            from: container.approximate().from,
        };
        let (state, figures) = match path {
            Some(path) => part.read(path)?,
            None => (SearchIndexState::Exact, SearchIndexFigures::default()),
        };
        let indexed = indexed_percent(snapshot, policies, |policy| {
            let mut stored = policy.stored_vectors().iter();
            stored.any(|other| other.text == index.text)
        })?;
        parts.push(part_of(partition.id, state, indexed, figures));
    }
    for index in newest.stored_texts() {
        check(cancel)?;
        let path = partition.paths(snapshot)?.find_derived(&index.text);
        let figures = match path {
            Some(path) => text_figures(snapshot, path)?,
            None => SearchIndexFigures::default(),
        };
        let indexed = indexed_percent(snapshot, policies, |policy| {
            let mut stored = policy.stored_texts().iter();
            stored.any(|other| other.text == index.text)
        })?;
        let state = SearchIndexState::Complete;
        parts.push(part_of(partition.id, state, indexed, figures));
    }
    Ok(parts)
}

/// Returns an index in a partition. `indexed` is the progress of a reindex that brings the index.
fn part_of(
    partition: u32,
    state: SearchIndexState,
    indexed: Option<u8>,
    figures: SearchIndexFigures,
) -> SearchIndexPart {
    let percent = match state {
        _ if indexed.is_some() => indexed,
        SearchIndexState::Removing => None,
        SearchIndexState::Building | SearchIndexState::Training => {
            Some(percent_of(figures.quantised, figures.entries, state))
        }
        _ => Some(100),
    };
    SearchIndexPart {
        partition,
        state: match indexed {
            Some(_) => SearchIndexState::Indexing,
            None => state,
        },
        percent,
        figures,
    }
}

/// Checks that the caller still waits.
///
/// # Errors
/// 408 if not.
fn check(cancel: &Cancel) -> Result<()> {
    match cancel.is_set() {
        true => {
            let message = "the caller no longer waits";
            Err(Error::new(Kind::RequestTimeout, message))
        }
        false => Ok(()),
    }
}

/// Returns the part of the items that a reindex has given the entries of an index, in percent, or
/// `None` if all items have them.
fn indexed_percent(
    snapshot: &dyn Snapshot,
    policies: &Policies,
    has_index: impl Fn(&Policy) -> bool,
) -> Result<Option<u8>> {
    let generations = Partition::generations(snapshot)?;
    let mut all = generations.generations().into_iter();
    if all.all(|one| policies.get(one).is_some_and(|policy| has_index(policy))) {
        return Ok(None);
    }
    let numbers = Partition::counters(snapshot)?.next_number.max(1);
    let frontier = generations.frontier(policies.newest.0).min(numbers);
    let percent = percent_of(frontier, numbers, SearchIndexState::Indexing);
    Ok(Some(percent))
}

/// Returns a part in percent. All is 100 only in a state that needs no more work.
fn percent_of(done: u64, all: u64, state: SearchIndexState) -> u8 {
    let most = match state {
        SearchIndexState::Exact | SearchIndexState::Complete => 100,
        _ => 99,
    };
    match (u128::from(done) * 100).checked_div(u128::from(all)) {
        Some(percent) => percent.min(most) as u8,
        None => most as u8,
    }
}

fn vector_kind(index: &VectorIndex) -> SearchIndexKind {
    SearchIndexKind::Vector {
        type_name: match index.kind {
            VectorIndexKind::Flat => "flat",
            VectorIndexKind::QuantizedFlat => "quantizedFlat",
            VectorIndexKind::DiskAnn => "diskANN",
        },
        data_type: index.data_type.name(),
        dimensions: index.dimensions as u64,
        function: index.function.name(),
    }
}

/// A vector index in a partition.
struct VectorPart<'a> {
    partition: &'a Partition,
    snapshot: &'a dyn Snapshot,
    index: &'a VectorIndex,
    /// Vectors from which on they are quantised.
    from: u64,
}

impl VectorPart<'_> {
    fn read(&self, path: PathNumber) -> Result<(SearchIndexState, SearchIndexFigures)> {
        let vectors = Partition::entries_of(self.snapshot, path)?;
        let mut figures = SearchIndexFigures {
            entries: vectors,
            vector_bytes: vectors * (VECTOR_KEY_BYTES + self.index.row_bytes() as u64),
            ..SearchIndexFigures::default()
        };
        let is_flat = self.index.kind == VectorIndexKind::Flat;
        let Some(state) = ApproximateState::read(self.snapshot, path)? else {
            if is_flat || vectors < self.from {
                return Ok((SearchIndexState::Exact, figures));
            }
            figures.waiting = vectors;
            return Ok((SearchIndexState::Training, figures));
        };
        // The index of this path had another type before.
        if is_flat || state.progress == Progress::Removing {
            let codes = self.count(&keys::codes(path), &mut figures)?;
            self.add_bytes(path, codes, &mut figures)?;
            return Ok((SearchIndexState::Removing, figures));
        }
        self.add_task(path, &state, &mut figures)?;
        // Few vectors are all compared, although they are quantised.
        let state = match state.progress {
            _ if vectors < self.from => SearchIndexState::Exact,
            Progress::From(_) => SearchIndexState::Building,
            Progress::Complete | Progress::Removing => SearchIndexState::Complete,
        };
        Ok((state, figures))
    }

    /// Adds what the task has done, and what is left.
    fn add_task(
        &self,
        path: PathNumber,
        state: &ApproximateState,
        figures: &mut SearchIndexFigures,
    ) -> Result<()> {
        let vectors = figures.entries;
        let marks = self.count(&keys::changed_vectors(path, state.marks_from), figures)?;
        let codes = match (self.partition.kept_codes(path, state), state.progress) {
            (Some(codes), _) => codes.read().len() as u64,
            (None, Progress::From(place)) => self.codes_before(place, path, figures)?,
            // Vectors that the task has not seen have marks, and so have those that are gone.
            (None, Progress::Complete | Progress::Removing) => vectors,
        };
        figures.waiting = match state.progress {
            Progress::From(_) => vectors.saturating_sub(codes).max(marks.min(vectors)),
            Progress::Complete | Progress::Removing => marks.min(vectors),
        };
        figures.quantised = vectors - figures.waiting;
        self.add_bytes(path, codes, figures)
    }

    /// Adds the bytes of codes and lists.
    fn add_bytes(
        &self,
        path: PathNumber,
        codes: u64,
        figures: &mut SearchIndexFigures,
    ) -> Result<()> {
        let (bytes, codes_read) = self.bytes_of(&keys::codes(path), 1)?;
        figures.code_bytes = bytes * codes / codes_read.max(1);
        let (bytes, lists) = self.bytes_of(&keys::all_neighbours(path), SAMPLE_MAX)?;
        let is_sample = lists == SAMPLE_MAX as u64;
        figures.is_estimated |= is_sample;
        figures.list_bytes = match is_sample {
            true => bytes * codes.max(lists) / lists,
            false => bytes,
        };
        Ok(())
    }

    /// Returns the number of vectors with codes that lie before a place.
    fn codes_before(
        &self,
        (epk_prefix, number): VectorPlace,
        path: PathNumber,
        figures: &mut SearchIndexFigures,
    ) -> Result<u64> {
        let (_, end) = keys::vectors(path, None);
        let unreached = (keys::vector(path, epk_prefix, number), end);
        let (left, is_all) = count_keys(self.snapshot, &unreached)?;
        if is_all {
            return Ok(figures.entries.saturating_sub(left));
        }
        // EPKs are hashes: vectors lie in them evenly.
        figures.is_estimated = true;
        let range = &self.partition.range;
        let (min, max) = (
            share_of(range.min.as_bytes()),
            share_of(range.max.as_bytes()),
        );
        let done = (share_of(&epk_prefix) - min) / (max - min).max(f64::EPSILON);
        let estimate = figures.entries as f64 * done.clamp(0.0, 1.0);
        Ok((estimate as u64).min(figures.entries.saturating_sub(left)))
    }

    /// Returns the number of keys of a range, which is `COUNTED_MAX` at most.
    fn count(&self, range: &(Vec<u8>, Vec<u8>), figures: &mut SearchIndexFigures) -> Result<u64> {
        let (count, is_all) = count_keys(self.snapshot, range)?;
        figures.is_estimated |= !is_all;
        Ok(count)
    }

    /// Returns the bytes of the first rows of a range, and their number.
    fn bytes_of(&self, range: &(Vec<u8>, Vec<u8>), most: usize) -> Result<(u64, u64)> {
        let (mut bytes, mut rows) = (0, 0);
        for row in scan(self.snapshot, range, Direction::Forward).take(most) {
            let (key, value) = row?;
            bytes += (key.len() + value.len()) as u64;
            rows += 1;
        }
        Ok((bytes, rows))
    }
}

/// Returns the place of an EPK in the space of hashes, from 0 to 1.
fn share_of(epk: &[u8]) -> f64 {
    let mut first = [0; 8];
    let kept = epk.len().min(8);
    first[..kept].copy_from_slice(&epk[..kept]);
    u64::from_be_bytes(first) as f64 / u64::MAX as f64
}

/// Returns the number of keys of a range, [`COUNTED_MAX`] at most, and true if these are all.
fn count_keys(snapshot: &dyn Snapshot, range: &(Vec<u8>, Vec<u8>)) -> Result<(u64, bool)> {
    let mut count = 0;
    for key in scan_keys(snapshot, range, Direction::Forward, |_| Ok(())) {
        key?;
        if count == COUNTED_MAX {
            return Ok((count, false));
        }
        count += 1;
    }
    Ok((count, true))
}

/// Returns the figures of a full-text index. Texts that are left out are not counted.
fn text_figures(snapshot: &dyn Snapshot, path: PathNumber) -> Result<SearchIndexFigures> {
    let words = Partition::entries_of(snapshot, path)?;
    let mut figures = SearchIndexFigures {
        words,
        ..SearchIndexFigures::default()
    };
    let mut words_seen = 0;
    let range = keys::words(path, EVERY_TEXT);
    for row in scan(snapshot, &range, Direction::Forward) {
        let (_, value) = row?;
        if figures.entries == COUNTED_MAX && words_seen > 0 {
            // The other texts are about as long as these.
            let texts = u128::from(words) * u128::from(COUNTED_MAX) / u128::from(words_seen);
            figures.entries = figures.entries.max(texts as u64);
            figures.is_estimated = true;
            break;
        }
        let length = StemPlaces::read_length(&mut &value[..]);
        words_seen += length.ok_or_else(|| damaged("an entry of a text"))?;
        figures.entries += 1;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_index_that_needs_no_work_is_at_100_percent() {
        assert_eq!(percent_of(1, 3, SearchIndexState::Building), 33);
        assert_eq!(percent_of(3, 3, SearchIndexState::Building), 99);
        assert_eq!(percent_of(3, 3, SearchIndexState::Complete), 100);
        assert_eq!(percent_of(0, 0, SearchIndexState::Complete), 100);
        assert_eq!(percent_of(u64::MAX, u64::MAX, SearchIndexState::Exact), 100);
    }

    #[test]
    fn the_share_of_an_epk_is_its_place_among_the_hashes() {
        assert_eq!(share_of(&[]), 0.0);
        assert!((share_of(&[0x80]) - 0.5).abs() < 1e-9);
        assert!(share_of(&[0xFF; 16]) > 0.999);
    }
}
