//! The indexing directive of a write: `x-ms-indexing-directive`, and `indexAction` of scripts.

/// A request about the index entries of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexingDirective {
    /// The item is indexed if the policy of the container is automatic.
    #[default]
    Default,
    /// The item is indexed.
    Include,
    /// The item is not indexed.
    Exclude,
}
