//! Live samples: the requests of each second, for charts of the running server.
//!
//! A thread takes a [`Reading`] of counters that exist anyway about once in a second; a sample is
//! the difference of two readings. A request adds its latency to a short list.
//!
//! ```text
//! samples   the rings of samples, and their view
//! sampler   the thread, and the readings
//! ```
//!
//! Requests of the server's own console are left out, so that the charts show the clients.
//!
//! Promises: memory is bounded (about 11 MB after a day); samples lie in order and do not overlap.
//!
//! Left out: survival of a restart, and containers with less load than the busiest ones.

mod sampler;
mod samples;

pub(crate) use sampler::Sampler;
pub use samples::{ContainerName, ContainerSeries, LiveSample, LiveSelection, LiveView};
