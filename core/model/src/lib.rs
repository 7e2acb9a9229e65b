//! The types and rules of the protocol, without disk, clock or network.
//!
//! All other crates use these types: JSON values and their order ([`json`]), resource ids
//! ([`rid`]), partition keys and their position in the hash space ([`partition_key`]), partial
//! updates ([`patch`]), the table of errors ([`error`]), limits ([`limits`]), counted work
//! ([`work`]), hexadecimal digits ([`hex`]), counters for operators ([`metrics`]), budgets of
//! memory ([`memory`]), locks that survive a panic ([`sync`]), words for messages ([`words`]), and
//! the interface for time and randomness ([`world`]).

pub mod error;
pub mod hex;
pub mod json;
pub mod limits;
pub mod memory;
pub mod metrics;
pub mod partition_key;
pub mod patch;
pub mod rid;
pub mod sync;
pub mod words;
pub mod work;
pub mod world;

pub use error::{Error, Kind, Result};
pub use json::{Json, Object};
pub use rid::Rid;
