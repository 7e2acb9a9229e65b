//! Engines for tests, here and in other crates. Each wraps or holds another and is a [`Store`](crate::Store) itself.
//!
//! - [`Failing`] fails at a chosen write, the way a real engine would;
//! - [`Crashing`] loses what was not durable at a chosen step, and can be opened again;
//! - [`Mirrored`] runs two engines and panics at the first difference.

mod crashing;
mod failing;
mod mirrored;

pub use crashing::Crashing;
pub use failing::{Failing, Fault};
pub use mirrored::Mirrored;
