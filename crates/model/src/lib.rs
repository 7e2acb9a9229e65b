//! The words of the protocol, without behaviour that touches a disk, a clock or a network.
//!
//! Every other crate speaks in these types: JSON values and their order ([`json`]), limits ([`limits`]).

pub mod json;
pub mod limits;

pub use json::{Json, Object};
