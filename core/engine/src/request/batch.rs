//! Several operations in one request: a transactional batch, which is carried out whole or not at
//! all, or bulk, whose operations are independent.
//!
//! The reader of a wire format (JSON or HybridRow) makes one [`BatchOperation`] for each operation
//! and writes one [`BatchReply`] for each, in the same order.

use super::{IndexingDirective, Outcome, ReadReply, WriteOperation, Written};
use bytes::Bytes;
use orrery_model::Json;
use orrery_model::partition_key::PartitionKey;

/// The relation between the operations of one request.
#[derive(Clone, Debug)]
pub enum BatchMode {
    /// A transactional batch: all operations or none, in the logical partition of this key.
    Atomic(PartitionKey),
    /// Bulk: independent operations.
    Each {
        /// The range id of the addressed physical partition. An operation whose key belongs to
        /// another partition fails alone.
        range: Option<u32>,
        /// The partition key of operations without their own.
        key: Option<PartitionKey>,
        /// True if operations after a failed one are carried out,
        /// `x-ms-cosmos-batch-continue-on-error`.
        continue_on_error: bool,
    },
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub struct BatchOperation {
    /// The action and the item that it names.
    pub action: BatchAction,
    /// The item or the patch, for actions that need one.
    pub body: Option<Body>,
    /// The partition key of the operation. In a transactional batch it must equal that of the
    /// batch.
    pub partition_key: Option<PartitionKey>,
    /// The etag that the item must have to be written.
    pub if_match: Option<String>,
    /// The etag of a read that gives [`ReadReply::NotModified`].
    pub if_none_match: Option<String>,
    /// `indexingDirective` of the operation.
    pub indexing: IndexingDirective,
    /// True if the answer to a write has no item.
    pub minimal: bool,
}

impl BatchOperation {
    /// Creates an operation without conditions and options.
    pub fn new(action: BatchAction, body: Option<Body>) -> Self {
        BatchOperation {
            action,
            body,
            partition_key: None,
            if_match: None,
            if_none_match: None,
            indexing: IndexingDirective::Default,
            minimal: false,
        }
    }
}

/// The action of one operation of a batch.
#[derive(Clone, Debug)]
pub enum BatchAction {
    /// A read of the item of this id.
    Read(String),
    /// A write of an item.
    Write(WriteOperation),
}

/// The body of an operation.
#[derive(Clone, Debug)]
pub enum Body {
    /// JSON text. If it is invalid, only its operation fails.
    Text(Bytes),
    /// A parsed value.
    Json(Json),
}

/// The answer to one operation of a batch.
#[derive(Clone, Debug)]
pub enum BatchReply {
    /// The answer to a read.
    Read(ReadReply),
    /// The answer to a write, without the item if [`BatchOperation::minimal`] is set.
    Written(Written),
}

/// The answer to a batch.
#[derive(Debug)]
pub struct BatchAnswer {
    /// One outcome for each operation, in order. In a failed transactional batch one outcome has
    /// the reason, and all others have [`FailedDependency`](orrery_model::Kind::FailedDependency).
    pub results: Vec<Outcome<BatchReply>>,
}
