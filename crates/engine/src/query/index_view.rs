//! What one partition's index can answer now: which paths it covers, and what they are called there.

use super::condition::steps;
use crate::index::cells::SpatialGrid;
use crate::index::generations::Policies;
use crate::index::paths::Step;
use crate::index::policy::{Composite, Policy};
use crate::partition::keys::PathNumber;
use crate::partition::row::is_system;
use crate::partition::{Partition, PathsRef};
use orrery_model::Result;
use orrery_sql::Path;
use orrery_storage::Snapshot;
use std::sync::Arc;

/// One partition's index.
pub struct IndexView<'a> {
    /// The policies that its entries follow; several while it follows a new one.
    policies: Vec<Arc<Policy>>,
    paths: PathsRef<'a>,
}

impl<'a> IndexView<'a> {
    /// The index in a snapshot; `None` if it cannot be asked now.
    ///
    /// # Errors
    /// What the store reports.
    pub fn of(
        partition: &'a Partition,
        snapshot: &dyn Snapshot,
        policies: &Policies,
    ) -> Result<Option<Self>> {
        let generations = Partition::generations(snapshot)?;
        let Some(policies) = policies.of(&generations) else {
            return Ok(None);
        };
        Ok(Some(IndexView {
            policies,
            paths: partition.paths()?,
        }))
    }

    /// Whether every item that has a scalar at the path has an entry for it.
    pub fn covers(&self, path: &Path) -> bool {
        let path = steps(path);
        !path.is_empty()
            && !is_hidden(&path)
            && self.policies.iter().all(|policy| policy.covers(&path))
    }

    /// The path's number, if some item has the path.
    pub fn number(&self, path: &Path) -> Option<PathNumber> {
        self.paths.find(&steps(path))
    }

    /// The spatial index of a path, if every item with a figure there is in it: the grid, and the path's number.
    pub fn spatial(&self, path: &Path) -> Option<(SpatialGrid, Option<PathNumber>)> {
        let path = steps(path);
        let (first, others) = self.policies.split_first()?;
        let index = first.spatial_index(&path)?;
        let everywhere = others.iter().all(|policy| {
            policy
                .spatial_index(&path)
                .is_some_and(|o| o.grid == index.grid)
        });
        everywhere.then(|| (index.grid, self.paths.find_derived(&index.text)))
    }

    /// The composite indexes that hold every item, and their numbers if some item is in them.
    pub fn composites(&self) -> impl Iterator<Item = (&Composite, Option<PathNumber>)> {
        let (first, others) = match &self.policies[..] {
            [] => (&[][..], &[][..]),
            [first, others @ ..] => (first.composites(), others),
        };
        let everywhere =
            |c: &&Composite| others.iter().all(|policy| policy.composites().contains(*c));
        let visible = |c: &&Composite| c.paths.iter().all(|(path, _)| !is_hidden(path));
        first
            .iter()
            .filter(everywhere)
            .filter(visible)
            .map(|c| (c, self.paths.find_derived(&c.text)))
    }
}

/// Whether a path is one of the server's own that items are not indexed by.
fn is_hidden(path: &[Step]) -> bool {
    matches!(path.first(), Some(Step::Name(name)) if name != "_ts" && is_system(name))
}
