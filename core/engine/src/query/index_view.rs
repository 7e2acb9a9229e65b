//! The paths, spatial, composite, vector and full-text indexes of a partition that a query can use
//! in a snapshot.

use super::condition::steps;
use crate::index::cells::SpatialGrid;
use crate::index::generations::Policies;
use crate::index::paths::{Step, is_indexable};
use crate::index::policy::{Composite, Policy};
use crate::index::texts::{LEFT_OUT, TextIndex};
use crate::index::vectors::VectorIndex;
use crate::partition::keys::{self, PathNumber};
use crate::partition::row::is_system;
use crate::partition::{Facts, Partition, PathsRef, scan};
use orrery_model::Result;
use orrery_sql::{IndexedScore, Nearest, Path};
use orrery_storage::{Direction, Snapshot};
use std::sync::Arc;

/// The index of a partition.
pub(crate) struct IndexView<'a> {
    /// The policies that the index entries follow: several while a reindex runs.
    policies: Vec<Arc<Policy>>,
    /// The partition.
    pub(super) partition: &'a Partition,
    paths: PathsRef<'a>,
    snapshot: &'a dyn Snapshot,
}

impl<'a> IndexView<'a> {
    /// Returns the index in a snapshot, or `None` if entries follow a policy that is not in
    /// `policies`, or one that does not index the items which the newest policy shows to queries.
    ///
    /// # Errors
    /// 500 if the store cannot be read, 410 if the partition is split or merged.
    pub(crate) fn of(
        partition: &'a Partition,
        facts: &Facts,
        snapshot: &'a dyn Snapshot,
        policies: &Policies,
    ) -> Result<Option<Self>> {
        let newest = Arc::clone(&policies.newest.1);
        let Some(policies) = policies.of(facts.generations(snapshot)?) else {
            return Ok(None);
        };
        for policy in &policies {
            if !has_entries_for(policy, &newest) {
                return Ok(None);
            }
            // The entries that a policy leaves out do not matter where no item lacks entries.
            if policy.leaves_out_excluded() && !partition.indexes_all_items(snapshot)? {
                return Ok(None);
            }
        }
        Ok(Some(IndexView {
            policies,
            partition,
            paths: partition.paths(snapshot)?,
            snapshot,
        }))
    }

    /// Returns true if every item that has a scalar at the path has an entry for it.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let path = steps(path);
        if path.is_empty() || is_unindexed(&path) {
            return false;
        }
        self.policies.iter().all(|policy| policy.covers(&path))
    }

    /// Returns the number of a path, if some item has the path.
    pub(crate) fn number(&self, path: &Path) -> Option<PathNumber> {
        self.paths.find(&steps(path))
    }

    /// Returns the grid and the path number of the spatial index of a path, if all policies have
    /// the index. The path number is `None` if no item has a geometry there.
    pub(crate) fn spatial(&self, path: &Path) -> Option<(SpatialGrid, Option<PathNumber>)> {
        let path = steps(path);
        let (first, others) = self.policies.split_first()?;
        let index = first.spatial_index(&path)?;
        for policy in others {
            if policy.spatial_index(&path)?.grid != index.grid {
                return None;
            }
        }
        Some((index.grid, self.paths.find_derived(&index.text)))
    }

    /// Returns the name and the path number of the index that has the entries for a score, if all
    /// policies have the index. The path number is `None` if no item has an entry.
    pub(crate) fn scores(&self, score: &IndexedScore) -> Option<(&str, Option<PathNumber>)> {
        match score {
            IndexedScore::Vector(nearest) => {
                let (index, number) = self.vectors(nearest)?;
                Some((&index.text, number))
            }
            IndexedScore::Text(score) => {
                let mut words = score.terms.iter().flatten();
                let is_fuzzy = words.any(|word| word.like.is_some());
                self.texts(&score.path, &score.language, is_fuzzy)
            }
        }
    }

    /// Returns the index that has the vectors of an order, with the number of its name, if all
    /// policies have the index. The number is `None` if no item has a vector.
    pub(crate) fn vectors(&self, nearest: &Nearest) -> Option<(&VectorIndex, Option<PathNumber>)> {
        let path = steps(&nearest.path);
        let (first, others) = self.policies.split_first()?;
        let mut indexes = first.stored_vectors().iter();
        let index = indexes.find(|index| {
            index.path == path
                && index.data_type == nearest.data_type
                && index.dimensions == nearest.dimensions()
        })?;
        for policy in others {
            let mut others = policy.stored_vectors().iter();
            others.find(|other| other.text == index.text)?;
        }
        Some((index, self.paths.find_derived(&index.text)))
    }

    /// Returns the name and the path number of the full-text index over the texts of a language at
    /// a path, if all policies have the index and it has all texts of the partition. `is_fuzzy`:
    /// the entries of words are needed as well.
    pub(crate) fn texts(
        &self,
        path: &Path,
        language: &str,
        is_fuzzy: bool,
    ) -> Option<(&str, Option<PathNumber>)> {
        let path = steps(path);
        let (first, others) = self.policies.split_first()?;
        let suffices = |index: &&TextIndex| index.has_words || !is_fuzzy;
        let mut indexes = first.stored_texts().iter().filter(suffices);
        let index = indexes.find(|index| index.path == path && index.language == language)?;
        for policy in others {
            let mut others = policy.stored_texts().iter().filter(suffices);
            others.find(|other| other.text == index.text)?;
        }
        let number = self.paths.find_derived(&index.text);
        if let Some(number) = number {
            let left_out = keys::words(number, LEFT_OUT);
            let mut left_out = scan(self.snapshot, &left_out, Direction::Forward);
            if left_out.next().is_some() {
                return None;
            }
        }
        Some((&index.text, number))
    }

    /// Returns the composite indexes that all policies have, with their path numbers. The number is
    /// `None` if no item is in the index.
    pub(crate) fn composites(&self) -> Vec<(&Composite, Option<PathNumber>)> {
        let Some((first, others)) = self.policies.split_first() else {
            return Vec::new();
        };
        let mut composites = Vec::new();
        for composite in first.composites() {
            let is_in_all = others
                .iter()
                .all(|policy| policy.composites().contains(composite));
            let is_indexed = !composite.paths.iter().any(|(path, _)| is_unindexed(path));
            if is_in_all && is_indexed {
                composites.push((composite, self.paths.find_derived(&composite.text)));
            }
        }
        composites
    }
}

/// Returns true if every item that `newest` shows to queries has entries under `policy` for the
/// paths that `policy` covers. A policy without an index covers nothing.
fn has_entries_for(policy: &Policy, newest: &Policy) -> bool {
    let shows_the_same = newest.is_consistent() && policy.is_automatic() == newest.is_automatic();
    !policy.is_consistent() || shows_the_same
}

/// Returns true if a path has no index entries whatever the policy says: a path with a name that is
/// too long for the index, and a system property. Of the system properties only `_ts` has entries.
fn is_unindexed(path: &[Step]) -> bool {
    let is_too_long = |step: &Step| matches!(step, Step::Name(name) if !is_indexable(name));
    if path.iter().any(is_too_long) {
        return true;
    }
    match path.first() {
        Some(Step::Name(name)) => name != "_ts" && is_system(name),
        _ => false,
    }
}
