//! Queries over all physical partitions, in the way of the .NET SDK: four steps.
//!
//! ```text
//! query plan → rewritten query → one request to each physical partition → merge in the client
//! ```
//! The plan describes the merge: ORDER BY, TOP or OFFSET/LIMIT, DISTINCT. The plan is requested
//! once for each query text and parameters and then kept. The next page of a partition is requested
//! only when the merge needs a row of that page.
//!
//! Left out, and refused by name if a plan requires them: aggregates and GROUP BY over several
//! partitions, and non-streaming ORDER BY.

use crate::client::Client;
use crate::error::ClientError;
use crate::merge::{Merge, MergeStep, Plan};
use crate::request::Header;
use crate::scope::{PartitionKeyRange, QueryText, Scope};
use crate::sync::lock;
use futures_util::future::try_join_all;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// The merges that the client supports, for the query plan request.
const FEATURES: &str = "Distinct, MultipleOrderBy, OffsetAndLimit, OrderBy, Top";
/// Restarts of a query whose partitions are split while it runs.
const RESTARTS_MAX: usize = 5;
/// Query plans that a client keeps.
const PLANS_MAX: usize = 256;

impl Client {
    /// Runs a query over all physical partitions of a container and returns the merged rows.
    /// `headers` are added to the request for each page.
    ///
    /// If a partition is split while the query runs, the query starts again on the new partitions.
    ///
    /// # Errors
    /// Those of [`Client::request`]; [`ClientError::Unexpected`] for a plan with a merge that the
    /// client does not support.
    pub async fn query_all(
        &self,
        container: &str,
        query: &QueryText,
        headers: &[Header],
    ) -> Result<Vec<Box<RawValue>>, ClientError> {
        let mut restarts = 0;
        loop {
            match self.query_partitions(container, query, headers).await {
                Err(e) if e.is_range_gone() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    self.forget(container);
                }
                result => return result,
            }
        }
    }

    async fn query_partitions(
        &self,
        container: &str,
        query: &QueryText,
        headers: &[Header],
    ) -> Result<Vec<Box<RawValue>>, ClientError> {
        let plan = self.merge_plan(container, query).await?;
        let ranges = self.ranges(container).await?;
        let ranges: Vec<&PartitionKeyRange> =
            ranges.iter().filter(|range| plan.includes(range)).collect();
        let page_size = page_size(plan.rows_max(), ranges.len());
        let rewritten = plan.rewritten(query);
        let fetch = |partition: usize, continuation: Option<String>| {
            let scope = Scope::Range(&ranges[partition].id);
            let (rewritten, headers) = (&rewritten, headers.to_vec());
            async move {
                let token = continuation.as_deref();
                self.query_page(container, rewritten, scope, page_size, token, headers)
                    .await
            }
        };
        let unmergeable = |reason: String| ClientError::unexpected(&query.text, reason);

        // The first pages are requested at the same time, since every merge needs all of them.
        let first_pages = try_join_all((0..ranges.len()).map(|index| fetch(index, None))).await?;
        let mut merge = Merge::new(&plan, ranges.len());
        for (partition, page) in first_pages.into_iter().enumerate() {
            merge
                .add_page(partition, page.rows, page.continuation)
                .map_err(unmergeable)?;
        }

        // Further pages are requested one by one, when the merge has used up a partition's page.
        let mut rows = Vec::new();
        loop {
            match merge.next_step() {
                MergeStep::Row(row) => rows.push(row),
                MergeStep::Fetch(partition, continuation) => {
                    let page = fetch(partition, Some(continuation)).await?;
                    merge
                        .add_page(partition, page.rows, page.continuation)
                        .map_err(unmergeable)?;
                }
                MergeStep::Done => return Ok(rows),
            }
        }
    }

    /// Returns the plan of a query over several physical partitions. It is requested once and kept
    /// until [`Client::forget`].
    ///
    /// # Errors
    /// Those of [`Client::query_all`].
    pub async fn merge_plan(
        &self,
        container: &str,
        query: &QueryText,
    ) -> Result<Arc<Plan>, ClientError> {
        // TOP and OFFSET may be parameters, and the plan contains their values: the key must
        // include the parameters.
        let key = format!("{container} {}", query.body());
        let known = lock(&self.shared.plans).get(&key).cloned();
        if let Some(plan) = known {
            return Ok(plan);
        }
        let plan: Value = self.query_plan(container, query, FEATURES).await?.json()?;
        let plan = Plan::from_json(&plan, &query.text)
            .map_err(|e| ClientError::unexpected(&format!("query plan of '{}'", query.text), e))?;
        let plan = Arc::new(plan);
        let mut plans = lock(&self.shared.plans);
        // The key contains the query's parameters, so the number of keys has no natural limit.
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(key, plan.clone());
        Ok(plan)
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
