//! The words of the protocol, without behaviour that touches a disk, a clock or a network.
//!
//! Every other crate speaks in these types: JSON values and their order ([`json`]), resource ids ([`rid`]), partition
//! keys and their place in the hash space ([`partition_key`]), partial updates ([`patch`]), the one table of failures
//! ([`error`]), limits ([`limits`]), counted work ([`work`]), and the seams for time and randomness ([`world`]).

pub mod error;
pub mod json;
pub mod limits;
pub mod metrics;
pub mod partition_key;
pub mod patch;
pub mod rid;
pub mod sync;
pub mod work;
pub mod world;

pub use error::{Error, Kind, Result};
pub use json::{Json, Object};
pub use rid::Rid;
