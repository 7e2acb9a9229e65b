//! The change feed of a container, one physical or logical partition at a time.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::queries::documents;
use crate::request::Request;
use crate::scope::Scope;
use http::Method;
use serde_json::value::RawValue;

/// One page of the change feed.
#[derive(Debug)]
pub struct ChangesPage {
    /// The current version of each changed item, in the order of the changes. Empty without new
    /// changes.
    pub items: Vec<Box<RawValue>>,
    /// The position after these changes.
    pub etag: String,
    /// The answer, with its charge and the number of the last commit.
    pub answer: Answer,
}

impl Client {
    /// Reads the next changes of one physical or logical partition after `etag`; without `etag`,
    /// from the creation of the container. `etag` `*` is the present end of the feed.
    ///
    /// # Errors
    /// Those of [`Client::request`]; [`ClientError::is_range_gone`] after a split: the ranges that
    /// follow name the old one as a parent and continue from its position.
    pub async fn changes_page(
        &self,
        container: &str,
        scope: Scope<'_>,
        etag: Option<&str>,
        page_size: usize,
    ) -> Result<ChangesPage, ClientError> {
        let mut request = Request::new(Method::GET, format!("{container}/docs"))
            .header("a-im", "Incremental Feed")
            .header("x-ms-max-item-count", page_size.max(1).to_string());
        if let Some(etag) = etag {
            request = request.header("if-none-match", etag);
        }
        let answer = self.request(&scope.add_to(request)).await?;
        let Some(etag) = answer.header("etag").map(str::to_owned) else {
            return Err(ClientError::unexpected(
                &answer.operation,
                "a page of the change feed without an etag",
            ));
        };
        // 304 says that there are no changes; its body is empty.
        let items = match answer.status {
            304 => Vec::new(),
            _ => documents(&answer)?,
        };
        Ok(ChangesPage {
            items,
            etag,
            answer,
        })
    }
}
