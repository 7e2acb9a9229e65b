//! Lists by pages: a query returns at most [`PAGE_ROWS`] rows and the position of the next page, as
//! text that can stand in a URL.
//!
//! ```text
//! one logical partition     [continuation token of the service]
//! all physical partitions   [range, its first key, token or null]
//! ```
//! The position is JSON in base64url. A position of any other form, and one that the server
//! refuses, is [`BlogError::InvalidPage`]. Positions are not signed: every list is public.
//!
//! A page over all partitions asks every partition that is left, as an official SDK does, and ends
//! at the last partition that fits completely. If a partition was split since the last page, its
//! successors are read from their beginning, and rows may come twice.
//!
//! Left out: queries with ORDER BY, TOP or DISTINCT over several partitions; the merge of such
//! pages has no position that can be stored.

use crate::BlogError;
use crate::client::{Client, PartitionKeyRange};
use crate::meter::{Meter, Operation};
use crate::query::{Query, metrics_headers, parsed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use futures_util::future::try_join_all;
use orrery_client::{ClientError, PartitionKey, Scope};
use serde_json::{Value, json};

/// Rows of one page. The largest list of the article's measurement fits one page.
pub const PAGE_ROWS: usize = 100;
/// Bytes of the text of a position.
const POSITION_BYTES_MAX: usize = 16 * 1024;
/// Restarts of a page whose partitions are split while the page is read.
const RESTARTS_MAX: usize = 5;

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListPage {
    /// The items of the page.
    pub items: Vec<Value>,
    /// Position of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A position in a query over all physical partitions.
struct RangePosition {
    /// Id of the partition key range.
    range: String,
    /// First effective partition key of the range.
    min: String,
    /// Continuation token inside the range; `None` at its beginning.
    token: Option<String>,
}

impl ListPage {
    /// Sorts the items by creation date, the newest first.
    pub(crate) fn newest_first(mut self) -> Self {
        self.items
            .sort_by(|a, b| creation_date(b).cmp(&creation_date(a)));
        self
    }

    /// Sorts the items by creation date, the oldest first.
    pub(crate) fn oldest_first(mut self) -> Self {
        self.items
            .sort_by(|a, b| creation_date(a).cmp(&creation_date(b)));
        self
    }
}

fn creation_date(item: &Value) -> Option<&str> {
    item["creationDate"].as_str()
}

impl Client {
    /// Returns one page of a query in one logical partition. `position` is the `next` of the page
    /// before.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn query_list(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        query: &Query,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let token = match position {
            Some(text) => Some(key_position(text).ok_or(BlogError::InvalidPage)?),
            None => None,
        };
        let client = self.metered(meter, container, Operation::Query, None, Some(key));
        let key = PartitionKey::text(key);
        let (scope, headers) = (Scope::Key(&key), metrics_headers(meter));
        let page = client
            .query_page(
                container,
                query,
                scope,
                PAGE_ROWS,
                token.as_deref(),
                headers,
            )
            .await
            .map_err(|e| refused_position(e, token.is_some()))?;
        let next = page.continuation.map(|token| encoded(&json!([token])));
        Ok(ListPage {
            items: parsed(&page.rows, &page.answer.operation)?,
            next,
        })
    }

    /// Returns one page of a query over all physical partitions. `position` is the `next` of the
    /// page before. The query has neither ORDER BY nor TOP nor DISTINCT.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn query_list_all(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let position = match position {
            Some(text) => Some(range_position(text).ok_or(BlogError::InvalidPage)?),
            None => None,
        };
        let mut restarts = 0;
        loop {
            let page = self
                .query_remaining(meter, container, query, position.as_ref())
                .await;
            match page {
                Err(e) if e.is_range_gone() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    self.clear_cached_metadata(container);
                }
                result => return result,
            }
        }
    }

    /// Asks every partition from `position` on for its next rows and returns those that fit a page.
    async fn query_remaining(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
        position: Option<&RangePosition>,
    ) -> Result<ListPage, BlogError> {
        let client = self.metered(meter, container, Operation::Query, None, None);
        let plan = client.merge_plan(container, query).await?;
        let rewritten = plan.rewritten(query);
        let ranges = self.ranges(container).await?;
        let remaining: Vec<&PartitionKeyRange> = ranges
            .iter()
            .filter(|range| plan.includes(range))
            .filter(|range| position.is_none_or(|at| is_left(range, at)))
            .collect();
        let fetches = remaining.iter().map(|range| {
            let (client, rewritten) = (&client, &rewritten);
            let token = position.and_then(|at| at.token_in(range));
            let (scope, headers) = (Scope::Range(&range.id), metrics_headers(meter));
            async move {
                let token = token.as_deref();
                client
                    .query_page(container, rewritten, scope, PAGE_ROWS, token, headers)
                    .await
                    .map_err(|e| refused_position(e, token.is_some()))
            }
        });
        let pages = try_join_all(fetches).await?;

        // The page ends before the first partition whose rows do not fit, or inside a partition
        // that has more rows than it returned.
        let mut items = Vec::new();
        for (range, page) in remaining.iter().zip(pages) {
            let fits = items.is_empty() || items.len() + page.rows.len() <= PAGE_ROWS;
            if !fits {
                let token = position.and_then(|at| at.token_in(range));
                let next = Some(encoded(&json!([range.id, range.min, token])));
                return Ok(ListPage { items, next });
            }
            items.extend(parsed(&page.rows, &page.answer.operation)?);
            if let Some(token) = page.continuation {
                let next = Some(encoded(&json!([range.id, range.min, token])));
                return Ok(ListPage { items, next });
            }
        }
        Ok(ListPage { items, next: None })
    }
}

impl RangePosition {
    /// Returns the continuation token if the position is inside `range`.
    fn token_in(&self, range: &PartitionKeyRange) -> Option<String> {
        if range.id == self.range {
            self.token.clone()
        } else {
            None
        }
    }
}

/// Returns true if a part of `range` lies at or after `position`.
fn is_left(range: &PartitionKeyRange, position: &RangePosition) -> bool {
    range.max > position.min
}

/// Turns the server's refusal of a forged token into [`BlogError::InvalidPage`].
fn refused_position(error: ClientError, is_continued: bool) -> BlogError {
    match error.status() {
        Some(400) if is_continued => BlogError::InvalidPage,
        _ => error.into(),
    }
}

fn encoded(position: &Value) -> String {
    BASE64URL.encode(position.to_string())
}

/// Parses the text of a position. `None` for text that is not a JSON array in base64url.
fn decoded(text: &str) -> Option<Vec<Value>> {
    if text.len() > POSITION_BYTES_MAX {
        return None;
    }
    let bytes = BASE64URL.decode(text).ok()?;
    match serde_json::from_slice(&bytes).ok()? {
        Value::Array(parts) => Some(parts),
        _ => None,
    }
}

fn key_position(text: &str) -> Option<String> {
    match decoded(text)?.as_slice() {
        [Value::String(token)] if is_header_text(token) => Some(token.clone()),
        _ => None,
    }
}

fn range_position(text: &str) -> Option<RangePosition> {
    let parts = decoded(text)?;
    let [Value::String(range), Value::String(min), token] = parts.as_slice() else {
        return None;
    };
    let token = match token {
        Value::Null => None,
        Value::String(token) if is_header_text(token) => Some(token.clone()),
        _ => return None,
    };
    if !min.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(RangePosition {
        range: range.clone(),
        min: min.clone(),
        token,
    })
}

/// Returns true for a text that can be the value of a header.
fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_way_through_a_url() {
        let text = encoded(&json!(["3", "1FFF", "+RID:~x#RT:1"]));
        assert!(
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        let position = range_position(&text).unwrap();
        assert_eq!(position.range, "3");
        assert_eq!(position.min, "1FFF");
        assert_eq!(position.token.as_deref(), Some("+RID:~x#RT:1"));
        let text = encoded(&json!(["token"]));
        assert_eq!(key_position(&text).as_deref(), Some("token"));
    }

    #[test]
    fn a_forged_position_is_refused() {
        let forged = [
            String::new(),
            "%%%".into(),
            "bm90IGpzb24".into(),
            encoded(&json!({})),
            encoded(&json!([])),
            encoded(&json!([7])),
            encoded(&json!(["line\nbreak"])),
            encoded(&json!([""])),
            "A".repeat(POSITION_BYTES_MAX + 1),
        ];
        for text in forged {
            assert_eq!(key_position(&text), None, "{text}");
            assert!(range_position(&text).is_none(), "{text}");
        }
        for parts in [
            json!(["0", "zz", null]),
            json!(["0", "1F", 7]),
            json!(["0", "1F", "\u{7f}"]),
            json!(["0", "1F"]),
        ] {
            assert!(range_position(&encoded(&parts)).is_none(), "{parts}");
        }
    }

    #[test]
    fn a_page_is_sorted_by_date_in_both_directions() {
        let page = ListPage {
            items: vec![
                json!({"creationDate": "2026-02"}),
                json!({"creationDate": "2026-03"}),
                json!({"creationDate": "2026-01"}),
            ],
            next: None,
        };
        let dates = |page: ListPage| -> Vec<String> {
            let mut dates = Vec::new();
            for item in page.items {
                dates.push(item["creationDate"].as_str().unwrap().to_owned());
            }
            dates
        };
        let newest = dates(page.clone().newest_first());
        assert_eq!(newest, ["2026-03", "2026-02", "2026-01"]);
        assert_eq!(
            dates(page.oldest_first()),
            ["2026-01", "2026-02", "2026-03"]
        );
    }
}
