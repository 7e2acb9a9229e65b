//! Approximate nearest neighbours: which vectors are near another one, without comparing all.
//!
//! A [`Quantiser`] turns a vector into a *code* of some bytes and tells the distance from a vector
//! to a code. It is of one of two kinds ([`QuantiserKind`]): a product quantiser learns centroids,
//! a spherical one rotates vectors at random and keeps a few bits of each component. [`Codes`] has
//! the codes of an index in memory and compares all of them. A graph finds near nodes by fewer
//! comparisons: each node has a list of neighbours, and a search goes from list to list towards
//! the vector, beginning at [`ENTRY`].
//!
//! ```text
//! vector ──▶ Quantiser ──▶ code ──▶ Codes ──▶ nearest: all codes
//!                                    │
//!                Lists (the store) ──┴──▶ GraphView::search: about 2,500 codes, 120 lists
//!                                    └──▶ GraphEdit ──▶ GraphChanges (the caller stores them)
//! ```
//!
//! The graphs are those of DiskANN (Vamana), by the crate `diskann`, and removals follow
//! IP-DiskANN; `bridge.rs` is the only module that implements traits of that crate.
//!
//! Promises:
//!
//! - The result of every call depends on its arguments alone, also on the machine: equal edits of
//!   equal graphs give equal graphs.
//! - Searches and edits change neither codes nor lists; the caller stores the changes, and other
//!   searches may run meanwhile.
//! - A search returns nodes that have a code and no others, each once.
//! - An error of the caller's lists or of a `check` is returned as it is.
//! - Nothing panics for vectors of a wrong length, infinite components, or damaged bytes.
//!
//! Left out: files and rows, threads, waiting, exact distances, filters, and when to use which way
//! to search.

mod bridge;
mod clusters;
mod codes;
mod edit;
mod graph;
mod metric;
mod product;
mod quantiser;
mod random;
mod rotation;
mod spherical;
mod stored;
mod tables;

pub use codes::Codes;
pub use edit::{GraphChanges, GraphEdit};
pub use graph::{Found, GraphView, Lists, Shape};
pub use metric::Metric;
pub use quantiser::{Quantiser, QuantiserKind};
pub use stored::{append_list, read_list};
pub use tables::Distances;

/// The node at which searches begin. It is no vector: its code, which the quantiser has, is that of
/// the mean of the sample, and only its list is stored.
pub const ENTRY: u64 = u64::MAX;
