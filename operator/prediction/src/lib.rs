//! Predictions: the cost of a container's requests under other settings, measured on a copy.
//!
//! ```text
//! container ── sample.rs ──▶ items ──▶ scratch.rs: two containers in memory, the settings as they
//!    │                                  are and as proposed, filled with the same items
//!    └── traffic ── workload.rs ──▶ the recorded requests, with values of items in place of those
//!                                   that are not kept
//!                                      │
//!                  replay.rs ◀─────────┘ runs them on both containers, by the real engine
//!                      │
//!                  prediction.rs ──▶ charges, partitions, sizes, 429 ── words.rs ──▶ sentences
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `limits` | the bounds of a prediction, and their check |
//! | `sample` | the items that a prediction works with |
//! | `scratch` | a container in memory with given settings |
//! | `workload` | requests to repeat, made from recorded traffic and given queries |
//! | `replay` | the requests on a scratch container, with the charge at each physical partition |
//! | `prediction` | the prediction of a container under proposed settings |
//! | `words` | the sentences of a prediction |
//! | `query_prediction` | one query, now and with another indexing policy |
//! | `why` | the reasons for the charge of a query |
//! | `candidates` | properties that could be a partition key |
//!
//! Promises: the container is read from snapshots and never written; nothing is charged to it,
//! counted in its traffic or taken from its budget. A prediction is bounded in items, bytes, memory
//! and time. Equal requests on equal data and traffic give the same prediction.
//!
//! Left out: transactional batches, stored procedures and feeds are not repeated, because their
//! operations are not recorded; their recorded charge is kept or scaled, and a sentence says so.

mod candidates;
mod limits;
mod prediction;
mod query_prediction;
mod replay;
mod sample;
mod scratch;
mod why;
mod words;
mod workload;

pub use candidates::{KeyCandidate, KeyCandidates, key_candidates};
pub use limits::{Failure, SAMPLE_ITEMS_DEFAULT, SAMPLE_ITEMS_MAX, TIME_MS};
pub use prediction::{
    Column, KeyProfile, LargestKey, Prediction, PredictionClass, PredictionSide, Proposal, predict,
};
pub use query_prediction::{
    MeasuredQuery, QueryPrediction, QueryToMeasure, explain, predict_query,
};
pub use sample::SampleSummary;
pub use why::{Reason, Remedy};
pub use workload::GivenQuery;
