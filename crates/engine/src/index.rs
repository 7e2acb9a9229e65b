//! The index of one physical partition: which paths it covers, how values become keys, which terms an item has.
//!
//! An item's **terms** are its distinct (path, value) pairs under the container's policy; the elements of an array
//! share one path. One kind of entry serves equality, ranges and ORDER BY, since values are encoded in their order.

pub mod cells;
pub mod composite;
pub mod generations;
pub mod paths;
pub mod policy;
pub mod terms;
pub mod value;
