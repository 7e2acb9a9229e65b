//! Queries: pages of one logical partition, of one physical partition, or of the whole container,
//! and query plans. The merge of several physical partitions is in `fan_out`.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::request::{Header, Request};
use crate::scope::{QueryText, Scope};
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One page of rows. A row is the text that the server sent.
#[derive(Debug)]
pub struct QueryPage {
    /// The rows.
    pub rows: Vec<Box<RawValue>>,
    /// Position of the next page; `None` on the last page.
    pub continuation: Option<String>,
    /// The answer, with charge and metrics.
    pub answer: Answer,
}

impl Client {
    /// Requests one page of a query. `page_size` 0 leaves the size to the server; `headers` are
    /// added, for example `x-ms-documentdb-populatequerymetrics`.
    ///
    /// # Errors
    /// Those of [`Client::request`]; [`ClientError::Unexpected`] for an answer without rows.
    pub async fn query_page(
        &self,
        container: &str,
        query: &QueryText,
        scope: Scope<'_>,
        page_size: usize,
        continuation: Option<&str>,
        headers: Vec<Header>,
    ) -> Result<QueryPage, ClientError> {
        let page_size = match page_size {
            0 => "-1".to_owned(),
            size => size.to_string(),
        };
        let mut request = Request::new(Method::POST, format!("{container}/docs"))
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-max-item-count", page_size)
            .body(query.body())
            .repeatable();
        if !matches!(scope, Scope::Key(_)) {
            request = request.header("x-ms-documentdb-query-enablecrosspartition", "True");
        }
        if let Some(token) = continuation {
            request = request.header("x-ms-continuation", token);
        }
        request.headers.extend(headers);
        let answer = self.request(&scope.add_to(request)).await?;
        Ok(QueryPage {
            rows: documents(&answer)?,
            continuation: answer.continuation().map(str::to_owned),
            answer,
        })
    }

    /// Requests the query plan: the rewritten query, and the merge that a client has to do.
    /// `features` are the merges that the client supports, for example `OrderBy, Top`.
    ///
    /// # Errors
    /// Those of [`Client::request`].
    pub async fn query_plan(
        &self,
        container: &str,
        query: &QueryText,
        features: &str,
    ) -> Result<Answer, ClientError> {
        let request = Request::new(Method::POST, format!("{container}/docs"))
            .header("content-type", "application/query+json")
            .header("x-ms-cosmos-is-query-plan-request", "True")
            .header("x-ms-cosmos-supported-query-features", features)
            .header("x-ms-cosmos-query-version", "1.0")
            .header("x-ms-documentdb-query-enablecrosspartition", "True")
            .body(query.body())
            .repeatable();
        self.without_observer().request(&request).await
    }
}

/// Returns the `Documents` of a feed or a query.
pub(crate) fn documents(answer: &Answer) -> Result<Vec<Box<RawValue>>, ClientError> {
    #[derive(Deserialize)]
    struct Feed {
        #[serde(rename = "Documents")]
        documents: Vec<Box<RawValue>>,
    }
    Ok(answer.json::<Feed>()?.documents)
}
