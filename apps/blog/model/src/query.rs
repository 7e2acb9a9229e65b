//! Queries: in one logical partition, and over all physical partitions in the way of the .NET SDK.
//!
//! A query with a partition key takes one request for each page. Any other query takes four steps:
//! ```text
//! query plan → rewritten query → one request to each physical partition → merge in the client
//! ```
//! The plan describes the merge: ORDER BY, TOP or OFFSET/LIMIT, DISTINCT. The plan is requested
//! once for each query text and parameters and then cached. Its charge is not counted, because
//! compiling the query is work of the client. The next page of a partition is requested only when
//! the merge needs a row of that page.
//!
//! Left out, and refused by name if a plan requires them: aggregates and GROUP BY over several
//! partitions, and non-streaming ORDER BY. `page_size` gives the page size of the SDK.

use crate::BlogError;
use crate::client::{ApiRequest, ApiResponse, Client, Header, PartitionKeyRange};
use crate::merge::{Merge, MergeStep, Page, Plan};
use crate::meter::{Meter, Operation};
use futures_util::future::try_join_all;
use http::Method;
use orrery_client::signature::key_header;
use serde_json::{Value, json};
use std::sync::Arc;

/// The features that this client can merge, for the query plan request.
const SUPPORTED_FEATURES: &str = "Distinct, MultipleOrderBy, OffsetAndLimit, OrderBy, Top";

/// Restarts of a query whose partitions are split while it runs.
const RESTARTS_MAX: usize = 5;

/// A query text with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    text: String,
    parameters: Vec<(&'static str, Value)>,
}

impl Query {
    /// Creates a query without parameters.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            parameters: Vec::new(),
        }
    }

    /// Adds a parameter, whose name begins with `@`.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// Returns the text without parameters.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the request body for `text` with the parameters of this query.
    pub(crate) fn body(&self, text: &str) -> String {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        json!({"query": text, "parameters": parameters}).to_string()
    }
}

/// The part of a container on which a query page runs.
pub(crate) enum Scope<'a> {
    /// The logical partition of a partition key.
    Key(&'a str),
    /// The physical partition of a partition key range id.
    Range(&'a str),
}

impl Client {
    /// Runs a query in one logical partition and returns all rows.
    pub async fn query(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let body = query.body(&query.text);
        let mut rows = Vec::new();
        let mut continuation = None;
        loop {
            let scope = Scope::Key(key);
            let page = self
                .query_page(meter, container, scope, &body, "-1".into(), continuation)
                .await?;
            rows.extend(page.rows);
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
        let mut restarts = 0;
        loop {
            match self.query_partitions(meter, container, query).await {
                Err(e) if e.is_range_gone() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    self.clear_cached_metadata(container);
                }
                result => return result,
            }
        }
    }

    async fn query_partitions(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let plan = self.query_plan(container, query).await?;
        let plan = Plan::from_json(&plan, &query.text)
            .map_err(|e| BlogError::unexpected(format!("query plan of '{}'", query.text), e))?;
        let ranges = self.ranges(container).await?;
        let ranges: Vec<&PartitionKeyRange> =
            ranges.iter().filter(|range| plan.includes(range)).collect();
        let page_size = page_size(plan.rows_max(), ranges.len());
        let body = query.body(&plan.text);
        let fetch = |partition: usize, continuation: Option<String>| {
            let scope = Scope::Range(&ranges[partition].id);
            let page_size = page_size.to_string();
            self.query_page(meter, container, scope, &body, page_size, continuation)
        };

        // The first pages are requested at the same time, since every merge needs all of them.
        let first_pages = try_join_all((0..ranges.len()).map(|index| fetch(index, None))).await?;
        let mut merge = Merge::new(&plan, ranges.len());
        for (partition, page) in first_pages.into_iter().enumerate() {
            merge
                .add_page(partition, page)
                .map_err(|e| BlogError::unexpected(&query.text, e))?;
        }

        // Further pages are requested one by one, when the merge has used up a partition's page.
        let mut rows = Vec::new();
        loop {
            match merge.next_step() {
                MergeStep::Row(row) => rows.push(row),
                MergeStep::Fetch(partition, continuation) => {
                    let page = fetch(partition, Some(continuation)).await?;
                    merge
                        .add_page(partition, page)
                        .map_err(|e| BlogError::unexpected(&query.text, e))?;
                }
                MergeStep::Done => return Ok(rows),
            }
        }
    }

    /// Requests one page of a query.
    pub(crate) async fn query_page(
        &self,
        meter: &Meter,
        container: &str,
        scope: Scope<'_>,
        body: &str,
        page_size: String,
        continuation: Option<String>,
    ) -> Result<Page, BlogError> {
        let mut headers: Vec<Header> = vec![
            ("content-type", "application/query+json".into()),
            ("x-ms-documentdb-isquery", "True".into()),
            ("x-ms-max-item-count", page_size),
        ];
        if meter.is_recording() {
            headers.push(("x-ms-documentdb-populatequerymetrics", "True".into()));
        }
        let mut key_of_scope = None;
        match scope {
            Scope::Key(key) => {
                key_of_scope = Some(key);
                headers.push(key_header(key));
            }
            Scope::Range(id) => {
                headers.push(("x-ms-documentdb-partitionkeyrangeid", id.to_owned()));
                headers.push(("x-ms-documentdb-query-enablecrosspartition", "True".into()));
            }
        }
        if let Some(token) = continuation {
            headers.push(("x-ms-continuation", token));
        }
        let path = format!("{container}/docs");
        let request = ApiRequest::new(Method::POST, "docs", container, path)
            .with_headers(headers)
            .with_body(body)
            .described(Operation::Query, body, key_of_scope);
        let response = self.send(&request).await?.metered(meter, container)?;
        let continuation = response
            .header("x-ms-continuation")
            .filter(|token| !token.is_empty())
            .map(str::to_owned);
        Ok(Page {
            rows: documents(&response)?,
            continuation,
        })
    }

    /// Returns the query plan, from the cache if possible.
    pub(crate) async fn query_plan(
        &self,
        container: &str,
        query: &Query,
    ) -> Result<Arc<Value>, BlogError> {
        // TOP and OFFSET may be parameters, and the plan contains their values: the cache key must
        // include the parameters.
        let body = query.body(&query.text);
        let cache_key = format!("{container} {body}");
        if let Some(plan) = self.cached_plan(&cache_key) {
            return Ok(plan);
        }
        let headers = vec![
            ("content-type", "application/query+json".into()),
            ("x-ms-cosmos-is-query-plan-request", "True".into()),
            (
                "x-ms-cosmos-supported-query-features",
                SUPPORTED_FEATURES.into(),
            ),
            ("x-ms-cosmos-query-version", "1.0".into()),
            ("x-ms-documentdb-query-enablecrosspartition", "True".into()),
        ];
        let path = format!("{container}/docs");
        let request = ApiRequest::new(Method::POST, "docs", container, path)
            .with_headers(headers)
            .with_body(body);
        let plan = Arc::new(self.send(&request).await?.into_success()?.json()?);
        self.cache_plan(cache_key, plan.clone());
        Ok(plan)
    }
}

/// Returns the `Documents` of a feed or query response.
pub(crate) fn documents(response: &ApiResponse) -> Result<Vec<Value>, BlogError> {
    match response.json()?.get_mut("Documents").map(Value::take) {
        Some(Value::Array(rows)) => Ok(rows),
        _ => Err(BlogError::unexpected(
            &response.operation,
            "a response without Documents",
        )),
    }
}

/// Returns the rows to request of each partition for one page. `rows_max` is the number of rows
/// that the query needs in total: TOP, or OFFSET and LIMIT together.
///
/// The formula is that of the .NET SDK: min(n, 5 × ceil(n / P)) for n rows and P partitions, that
/// is, five times the even share. For TOP 100 over 67 partitions this is 10; requesting all 100
/// rows of each partition would load seven times as many items.
fn page_size(rows_max: Option<usize>, partitions: usize) -> usize {
    match rows_max {
        Some(rows) => rows.min(5 * rows.div_ceil(partitions.max(1))).max(1),
        None => i32::MAX as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_ten_of_the_hundred_newest_posts_on_67_partitions() {
        assert_eq!(page_size(Some(100), 67), 10);
        assert_eq!(page_size(Some(100), 1), 100);
        assert_eq!(page_size(Some(3), 67), 3);
        assert_eq!(page_size(None, 67), 2_147_483_647);
    }
}
