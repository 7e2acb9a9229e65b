//! Several operations in one request: a transactional batch, which takes place whole or not at all, or bulk, where each
//! operation stands for itself.
//!
//! Whoever reads the wire (JSON or another form) makes [`BatchOperation`]s of it and writes [`BatchReply`]s back, one
//! for each operation, in order.

use super::{Outcome, ReadReply, WriteOperation, Written};
use bytes::Bytes;
use orrery_model::Json;
use orrery_model::partition_key::PartitionKey;

/// How the operations of one request hang together.
#[derive(Clone, Debug)]
pub enum BatchMode {
    /// A transactional batch: all of them or none, in the logical partition of this key.
    Atomic(PartitionKey),
    /// Bulk: each by itself.
    Each {
        /// The physical partition that is addressed; an operation of another one fails alone.
        range: Option<u32>,
        /// The key of operations that name none themselves.
        key: Option<PartitionKey>,
        /// Whether operations after a failed one are still carried out.
        continue_on_error: bool,
    },
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    /// What to do, and to which item.
    pub action: BatchAction,
    /// The item or the patch, where the action has one.
    pub body: Option<Body>,
    /// Its own partition key. In a transactional batch it must be the batch's.
    pub partition_key: Option<PartitionKey>,
    /// The etag that an item must have to be written.
    pub if_match: Option<String>,
    /// The etag that the reader of an item has.
    pub if_none_match: Option<String>,
    /// Keep the item out of the index.
    pub leave_out_of_index: bool,
    /// Leave the item out of the answer to a write.
    pub minimal: bool,
}

impl BatchOperation {
    /// An operation without conditions and options.
    pub fn new(action: BatchAction, body: Option<Body>) -> Self {
        BatchOperation {
            action,
            body,
            partition_key: None,
            if_match: None,
            if_none_match: None,
            leave_out_of_index: false,
            minimal: false,
        }
    }
}

/// What one operation of a batch does.
#[derive(Clone, Debug)]
pub enum BatchAction {
    /// Reads the item of this id.
    Read(String),
    /// Writes an item.
    Write(WriteOperation),
}

/// The body of an operation: JSON as text, or read already.
#[derive(Clone, Debug)]
pub enum Body {
    /// Text. If it is no JSON, its operation fails alone.
    Text(Bytes),
    /// A value.
    Json(Json),
}

/// What one operation of a batch answers.
#[derive(Clone, Debug)]
pub enum BatchReply {
    /// An item that was read.
    Read(ReadReply),
    /// A write; without its item if the operation wanted little.
    Written(Written),
}

/// The answer to a batch: one outcome for each operation, in order.
#[derive(Debug)]
pub struct BatchAnswer {
    /// In the order of the operations. In a transactional batch that failed, one has the reason and all others have
    /// [`FailedDependency`](orrery_model::Kind::FailedDependency).
    pub results: Vec<Outcome<BatchReply>>,
}
