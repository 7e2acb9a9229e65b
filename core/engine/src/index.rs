//! The index of a physical partition: the paths that it covers, the encoding of values as keys, and
//! the terms of an item.
//!
//! The **terms** of an item are its distinct (path, value) pairs under the policy of the container.
//! All elements of an array share one path. One kind of entry serves equality, ranges and ORDER BY,
//! because the encodings of values sort in the order of the values.
//!
//! | module | holds |
//! |---|---|
//! | `policy` | indexing policies |
//! | `generations` | the policy of each item while a reindex runs |
//! | `paths` | the dictionary of paths |
//! | `new_paths` | the paths that a transaction brings, until its commit is accepted |
//! | `terms` | the terms of an item and their units |
//! | `value` | the encoding of values |
//! | `composite`, `cells` | values of composite and of spatial indexes |
//! | `approximate` | the rows of quantised vectors and of their graphs |
//! | `vectors`, `texts` | vector and full-text indexes, and the entries that an item has in them |

pub(crate) mod approximate;
pub(crate) mod cells;
pub(crate) mod composite;
pub(crate) mod generations;
pub(crate) mod index_kinds;
pub(crate) mod new_paths;
pub(crate) mod paths;
pub(crate) mod policy;
pub(crate) mod terms;
pub(crate) mod texts;
pub(crate) mod value;
pub(crate) mod vectors;
