//! The part of a container that its partitions use.
//!
//! A partition knows neither the catalog nor the container's other partitions. It reads settings
//! and policies, which can change at run time, and takes item numbers, which are unique in the
//! container.

use crate::container::settings::Settings;
use crate::container::tasks::BackgroundTask;
use crate::index::generations::Policies;
use crate::partition::key_limit::KeyLimit;
use crate::partition::keys::ItemNumber;
use orrery_model::partition_key::Epk;
use orrery_model::{Result, Rid};
use std::sync::Arc;

/// The container whose items a transaction changes.
pub(crate) trait ContainerView: Sync {
    /// Returns the resource id of the container.
    fn rid(&self) -> Rid;

    /// Returns the settings as they are now.
    fn settings(&self) -> Arc<Settings>;

    /// Returns the indexing policies that some item's entries still follow now.
    fn policies(&self) -> Arc<Policies>;

    /// Returns a number that no item of the container has had before.
    ///
    /// # Errors
    /// 500 if the store cannot be read, from which the first number follows.
    fn new_item_number(&self) -> Result<ItemNumber>;

    /// Returns a number above every number that [`ContainerView::new_item_number`] has returned.
    ///
    /// # Errors
    /// 500 if the store cannot be read, from which the first number follows.
    fn item_number_bound(&self) -> Result<ItemNumber>;

    /// Returns the limit on the size of a logical partition.
    fn key_limit(&self) -> &KeyLimit;

    /// Reports a logical partition that has come near to the limit.
    fn report_large_key(&self, epk: &Epk, bytes: u64);

    /// Enters background work that is to be done in the container at a millisecond. Called while
    /// the writer of the partition that has the work is locked.
    fn enter_work(&self, task: BackgroundTask, at_ms: u64);
}
