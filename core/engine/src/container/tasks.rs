//! The kinds of background work that a container may have.

/// A kind of background work. Each runs beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackgroundTask {
    /// Removal of expired items, of old versions, and of the key spaces of deleted containers.
    Removal = 0,
    /// Removal of the items of deleted logical partitions.
    KeyDeletion = 1,
    /// Splits that throughput or size ask for, and raises of autoscale throughput.
    Splits = 2,
    /// Reindexing.
    Reindexing = 3,
    /// The first visit of each container after a start.
    Survey = 4,
    /// Counts of the sizes of logical partitions.
    KeySizes = 5,
    /// Quantisation of vectors, and the graphs of their neighbours.
    Linking = 6,
}

impl BackgroundTask {
    /// All tasks.
    pub const ALL: [BackgroundTask; 7] = [
        BackgroundTask::Removal,
        BackgroundTask::KeyDeletion,
        BackgroundTask::Splits,
        BackgroundTask::Reindexing,
        BackgroundTask::Survey,
        BackgroundTask::KeySizes,
        BackgroundTask::Linking,
    ];
}
