//! Queries: in one logical partition, and over all physical partitions in the way of the .NET SDK.
//!
//! A query with a partition key takes one request for each page. For any other query the client
//! merges the rows of all physical partitions (`orrery_client::Client::query_all`). The charge of
//! its query plan is not counted, because compiling the query is work of the client.

use crate::BlogError;
use crate::client::Client;
use crate::meter::{Meter, Operation};
pub use orrery_client::QueryText as Query;
use orrery_client::request::Header;
use orrery_client::{PartitionKey, Scope};
use serde_json::Value;
use serde_json::value::RawValue;

impl Client {
    /// Runs a query in one logical partition and returns all rows.
    pub async fn query(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let client = self.metered(meter, container, Operation::Query, None, Some(key));
        let key = PartitionKey::text(key);
        let mut rows = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let (scope, token) = (Scope::Key(&key), continuation.as_deref());
            let page = client
                .query_page(container, query, scope, 0, token, metrics_headers(meter))
                .await?;
            rows.extend(parsed(&page.rows, &page.answer.operation)?);
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Runs a query over all physical partitions of a container and returns the merged rows.
    ///
    /// If a partition is split while the query runs, the query starts again on the new partitions.
    pub async fn query_all(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let client = self.metered(meter, container, Operation::Query, None, None);
        let rows = client
            .query_all(container, query, &metrics_headers(meter))
            .await?;
        parsed(&rows, &query.text)
    }
}

/// Returns the headers of a query whose requests are recorded.
pub(crate) fn metrics_headers(meter: &Meter) -> Vec<Header> {
    match meter.is_recording() {
        true => vec![("x-ms-documentdb-populatequerymetrics", "True".to_owned())],
        false => Vec::new(),
    }
}

/// Parses rows or items, which the client returns as text. `operation` is for messages.
pub(crate) fn parsed(rows: &[Box<RawValue>], operation: &str) -> Result<Vec<Value>, BlogError> {
    let values = rows.iter().map(|row| serde_json::from_str(row.get()));
    values
        .collect::<Result<_, _>>()
        .map_err(|e| BlogError::unexpected(operation, format!("no JSON: {e}")))
}
