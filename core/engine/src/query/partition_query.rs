//! The parameters of a query in one partition.

use crate::container::settings::Settings;
use crate::index::generations::Policies;
use crate::partition::Facts;
use crate::partition::size_limits::ApproximateSearch;
use crate::partition::visibility::Visibility;
use crate::throughput::Profile;
use orrery_model::Result;
use orrery_model::partition_key::{EpkRange, KeyAddress, PartitionKey};
use orrery_sql::Query;
use std::cell::Cell;

/// A query as one partition has to answer it.
#[derive(Clone, Copy)]
pub(crate) struct PartitionQuery<'a> {
    /// The query.
    pub query: &'a Query,
    /// The settings of the container.
    pub settings: &'a Settings,
    /// The policies that index entries may follow. Taken before the snapshots.
    pub policies: &'a Policies,
    /// The only logical partition that is read, if the request or the condition names one.
    pub key: Option<&'a KeyAddress>,
    /// The partition key that the request names.
    pub named_key: Option<&'a PartitionKey>,
    /// The EPK range that is read, if not the whole partition.
    pub within: Option<&'a EpkRange>,
    /// The items that the query may see.
    pub visible: &'a Visibility,
    /// The facts of the partition at the snapshot.
    pub facts: &'a Facts,
    /// Estimated number of rows that the page takes from the partition.
    pub rows_wanted: usize,
    /// True if the query may have more rows than the page takes.
    pub may_continue: bool,
    /// Values up to which DISTINCT reads the values of an index before its first row.
    pub distinct_values_max: usize,
    /// Bytes that the page may still hold of values which replace items.
    pub values_room: &'a Cell<usize>,
    /// True if values of an index may replace items. False if an earlier page stopped among items.
    pub may_scan_values: bool,
    /// The use of quantised vectors.
    pub approximate: &'a ApproximateSearch,
    /// The pricing model that decides between access paths.
    pub profile: Profile,
    /// Called between steps of long planning, so that other pages get their turns. Fails when the
    /// time of the request is over.
    pub check_point: &'a dyn Fn() -> Result<()>,
    /// As `check_point`, but the page keeps its turn: for work while something is locked which
    /// another page may need to end its turn, as the dictionary of paths is during planning.
    pub end_point: &'a dyn Fn() -> Result<()>,
    /// The order of the candidates, if an earlier page or another partition of the same merge fixed
    /// it.
    pub order: Option<FixedOrder>,
}

/// The way in which ORDER BY is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FixedOrder {
    /// The executor sorts all matches.
    Sort,
    /// Candidates come in the order of the index with this id.
    Index(u32),
}
