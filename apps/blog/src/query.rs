//! Queries: within one logical partition, and over all physical partitions as the .NET SDK runs them.
//!
//! A query that names its partition key is one request (or one per page). Any other goes through four steps:
//! ```text
//! query plan  →  rewritten query  →  one request to each physical partition  →  merge here
//! ```
//! The plan says how to merge: by ORDER BY, with TOP or OFFSET/LIMIT, with DISTINCT. It is asked for once per text and
//! remembered; being compile work of the client, it is not counted as part of a request's cost. A partition is asked
//! for its next page only when the merge needs a row of it.
//!
//! Left out, and refused by name when a plan asks for them: aggregates and GROUP BY over several partitions, and
//! orders that do not stream. Pages are sized as the SDK does it, see `page_size`.

use crate::BlogError;
use crate::client::{Answer, Call, Client, Range};
use crate::merge::{Merge, Page, Plan, Step};
use crate::meter::Meter;
use crate::signature::key_header;
use futures_util::future::try_join_all;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;

/// What this client can merge, as the query plan is told.
const MERGES: &str = "Distinct, MultipleOrderBy, OffsetAndLimit, OrderBy, Top";

/// A query text with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    text: String,
    parameters: Vec<(&'static str, Value)>,
}

impl Query {
    /// A query without parameters.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            parameters: Vec::new(),
        }
    }

    /// The same query with one more parameter; its name begins with `@`.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    fn body(&self, text: &str) -> String {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|(n, v)| json!({"name": n, "value": v}))
            .collect();
        json!({"query": text, "parameters": parameters}).to_string()
    }
}

impl Client {
    /// Runs a query in one logical partition and answers all its rows.
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
            let page = self
                .page(
                    meter,
                    container,
                    key_header(key),
                    &body,
                    "-1".into(),
                    continuation,
                )
                .await?;
            rows.extend(page.rows);
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Runs a query over all physical partitions of a container and answers the merged rows.
    ///
    /// Where a partition turns out to have been split meanwhile, the query begins again on the new ones.
    pub async fn query_all(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let mut attempts = 0;
        loop {
            match self.fan_out(meter, container, query).await {
                Err(e) if e.is_range_gone() && attempts < 5 => {
                    attempts += 1;
                    self.forget(container);
                }
                done => return done,
            }
        }
    }

    async fn fan_out(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Vec<Value>, BlogError> {
        let plan = Plan::read(&*self.plan(container, query).await?, &query.text)
            .map_err(|e| BlogError::unexpected(format!("query plan of '{}'", query.text), e))?;
        let ranges = self.ranges(container).await?;
        let asked: Vec<&Range> = ranges.iter().filter(|range| plan.covers(range)).collect();
        let size = page_size(plan.needed(), asked.len());
        let body = query.body(&plan.text);
        let fetch = |lane: usize, continuation: Option<String>| {
            let range = (
                "x-ms-documentdb-partitionkeyrangeid",
                asked[lane].id.clone(),
            );
            self.page(
                meter,
                container,
                range,
                &body,
                size.to_string(),
                continuation,
            )
        };
        let first = try_join_all((0..asked.len()).map(|lane| fetch(lane, None))).await?;
        let mut merge = Merge::new(&plan, asked.len());
        for (lane, page) in first.into_iter().enumerate() {
            merge
                .fill(lane, page)
                .map_err(|e| BlogError::unexpected(&query.text, e))?;
        }
        let mut rows = Vec::new();
        loop {
            match merge.step() {
                Step::Row(row) => rows.push(row),
                Step::Fetch(lane, continuation) => {
                    let page = fetch(lane, Some(continuation)).await?;
                    merge
                        .fill(lane, page)
                        .map_err(|e| BlogError::unexpected(&query.text, e))?;
                }
                Step::Done => return Ok(rows),
            }
        }
    }

    async fn page(
        &self,
        meter: &Meter,
        container: &str,
        scope: (&'static str, String),
        body: &str,
        size: String,
        continuation: Option<String>,
    ) -> Result<Page, BlogError> {
        let mut headers = vec![
            scope,
            ("content-type", "application/query+json".into()),
            ("x-ms-documentdb-isquery", "True".into()),
            ("x-ms-max-item-count", size),
        ];
        if headers[0].0 == "x-ms-documentdb-partitionkeyrangeid" {
            headers.push(("x-ms-documentdb-query-enablecrosspartition", "True".into()));
        }
        headers.extend(continuation.map(|token| ("x-ms-continuation", token)));
        let path = format!("{container}/docs");
        let call = Call {
            method: Method::POST,
            kind: "docs",
            link: container,
            path,
            headers,
            body: body.to_owned(),
        };
        let answer = self.send(&call).await?.metered(meter, container)?;
        let continuation = answer
            .header("x-ms-continuation")
            .filter(|c| !c.is_empty())
            .map(str::to_owned);
        Ok(Page {
            rows: documents(&answer)?,
            continuation,
        })
    }

    async fn plan(&self, container: &str, query: &Query) -> Result<Arc<Value>, BlogError> {
        // TOP and OFFSET may be parameters, and the plan holds their values: so the values belong to its name.
        let body = query.body(&query.text);
        let name = format!("{container} {body}");
        if let Some(plan) = self.known_plan(&name) {
            return Ok(plan);
        }
        let headers = vec![
            ("content-type", "application/query+json".into()),
            ("x-ms-cosmos-is-query-plan-request", "True".into()),
            ("x-ms-cosmos-supported-query-features", MERGES.into()),
            ("x-ms-cosmos-query-version", "1.0".into()),
            ("x-ms-documentdb-query-enablecrosspartition", "True".into()),
        ];
        let path = format!("{container}/docs");
        let call = Call {
            method: Method::POST,
            kind: "docs",
            link: container,
            path,
            headers,
            body,
        };
        let plan = Arc::new(self.send(&call).await?.accepted()?.json()?);
        self.remember_plan(name, plan.clone());
        Ok(plan)
    }
}

/// The `Documents` of a feed or query answer.
pub(crate) fn documents(answer: &Answer) -> Result<Vec<Value>, BlogError> {
    match answer.json()?.get_mut("Documents").map(Value::take) {
        Some(Value::Array(rows)) => Ok(rows),
        _ => Err(BlogError::unexpected(
            &answer.doing,
            "an answer without Documents",
        )),
    }
}

/// Rows asked of each partition per page, where `needed` rows are wanted in all (TOP, or OFFSET and LIMIT together).
///
/// The .NET SDK asks each of P partitions for five times its even share, min(n, 5 × ceil(n / P)): 10 for TOP 100 over
/// 67 partitions. Asking each for all 100 would load seven times as many items.
fn page_size(needed: Option<usize>, partitions: usize) -> usize {
    match needed {
        Some(n) => n.min(5 * n.div_ceil(partitions.max(1))).max(1),
        None => i32::MAX as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_asked_for_ten_posts_of_the_hundred_newest() {
        assert_eq!(page_size(Some(100), 67), 10);
        assert_eq!(page_size(Some(100), 1), 100);
        assert_eq!(page_size(Some(3), 67), 3);
        assert_eq!(page_size(None, 67), 2_147_483_647);
    }
}
