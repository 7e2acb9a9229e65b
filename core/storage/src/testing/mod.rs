//! Engines for tests, of this crate and of others. Each wraps or holds another engine and is a
//! [`Store`](crate::Store) itself.
//!
//! - [`Failing`] fails at a chosen write, as a real engine would;
//! - [`Crashing`] loses every commit that is not durable at a chosen step, and can be opened again;
//! - [`Mirrored`] runs two engines and panics at the first difference.

mod crashing;
mod failing;
mod mirrored;

pub use crashing::Crashing;
pub use failing::{Failing, Fault};
pub use mirrored::Mirrored;
