//! The lesson: what each request costs in each model, what traffic costs, and a lab in which a
//! reader meets the limits.
//!
//! ```text
//! compare ── scratch      every action measured: reads on the live blog, writes in a database of
//!   │                     their own, pipelines counted apart
//!   ├── export            the figures as CSV and JSON
//!   ├── mix               RU/s for stated traffic, and where two models cost the same
//!   └── growth            years until a limit is reached
//! lab ── experiments      a hot key, a split, a badly chosen key, a full partition
//!   └── load              bounded load with a count for each second
//! ```
//!
//! Everything goes through the public protocol, so that the lesson works on any server.

mod action;
pub mod compare;
mod export;
pub mod growth;
pub mod lab;
pub mod mix;
mod scratch;

pub use action::Action;
pub use compare::{Comparing, Comparison};
pub use lab::Lab;
