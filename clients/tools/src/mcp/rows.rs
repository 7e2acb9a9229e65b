//! Pages of a query within bounds of rows, bytes and request units.
//!
//! The continuation of an answer is a position of this module: the page of the server's
//! continuation, the physical partition if the server does not merge, and the rows of the page that
//! were given already. A page that is cut in its middle is asked for again with the same size.

use super::account::{Account, ToolError};
use crate::query::{needs_merge, refuse_merge};
use orrery_client::{Client, ClientError, PartitionKey, QueryPage, QueryText, Scope};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A query with its bounds.
pub(super) struct Asked {
    /// Link of the container.
    pub(super) container: String,
    pub(super) query: QueryText,
    pub(super) key: Option<PartitionKey>,
    pub(super) max_rows: usize,
    /// Continuation of an earlier answer.
    pub(super) continuation: Option<String>,
}

/// The position after the rows of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Position {
    /// Id of the partition key range that is being read, if the server does not merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    /// The server's continuation; `None` for the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    /// Size with which the page is asked for; 0 if any size fits.
    size: usize,
    /// Rows of the page that were given already.
    skip: usize,
}

/// The rows of an answer.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Box<RawValue>>,
    pub(super) charge: f64,
    pub(super) continuation: Option<String>,
    /// Notes about bounds that were met.
    pub(super) notes: Vec<String>,
    bytes: usize,
}

/// Runs a query until its end or the first bound.
///
/// # Errors
/// A request fails, the cap is spent before the first page, or the continuation is not one of this
/// module.
pub(super) async fn run(account: &Account, asked: &Asked) -> Result<Rows, ToolError> {
    let mut position = match &asked.continuation {
        None => Position::default(),
        Some(text) => serde_json::from_str(text).map_err(|_| {
            ToolError::new("the continuation is not that of an answer of this tool")
        })?,
    };
    let mut found = Rows::default();
    loop {
        let left = asked.max_rows.saturating_sub(found.rows.len());
        if left == 0 {
            found.notes.push(format!("cut at {} rows", asked.max_rows));
            break;
        }
        let client = match account.client() {
            Ok(client) => client,
            // Rows that were paid for are given.
            Err(error) if found.charge > 0.0 => {
                found.notes.push(error.0);
                break;
            }
            Err(error) => return Err(error),
        };
        let size = Some(position.size).filter(|size| *size > 0).unwrap_or(left);
        let page = page_at(client, asked, &position, size).await;
        let page = match page {
            // The server leaves the merge to its clients: the partitions are asked in their order.
            Err(error) if needs_merge(&error) && position.range.is_none() => {
                count_refused(account, &mut found, &error);
                refuse_merge(client, &asked.container, &asked.query).await?;
                position.range = next_range(account, asked, None).await?;
                continue;
            }
            Err(error) => {
                count_refused(account, &mut found, &error);
                return Err(ToolError(error.to_string()));
            }
            Ok(page) => page,
        };
        account.add(page.answer.charge());
        found.charge += page.answer.charge();
        let continuation = page.continuation.clone();
        if !take(
            account,
            &mut found,
            page,
            &mut position,
            size,
            asked.max_rows,
        ) {
            found.continuation = serde_json::to_string(&position).ok();
            return Ok(found);
        }
        position.page = continuation;
        (position.size, position.skip) = (0, 0);
        if position.page.is_none() {
            match &position.range {
                None => return Ok(found),
                Some(range) => match next_range(account, asked, Some(range)).await? {
                    None => return Ok(found),
                    next => position.range = next,
                },
            }
        }
    }
    found.continuation = serde_json::to_string(&position).ok();
    Ok(found)
}

/// Asks for the page at a position.
async fn page_at(
    client: &Client,
    asked: &Asked,
    position: &Position,
    size: usize,
) -> Result<QueryPage, ClientError> {
    let scope = match (&asked.key, &position.range) {
        (Some(key), _) => Scope::Key(key),
        (None, Some(range)) => Scope::Range(range),
        (None, None) => Scope::Container,
    };
    let (container, page) = (&asked.container, position.page.as_deref());
    client
        .query_page(container, &asked.query, scope, size, page, Vec::new())
        .await
}

fn count_refused(account: &Account, found: &mut Rows, error: &ClientError) {
    let charge = error.refusal().map_or(0.0, |refusal| refusal.charge);
    account.add(charge);
    found.charge += charge;
}

/// Takes the rows of a page. Returns false if a bound cut the page; `position` is then behind the
/// last row that was taken.
fn take(
    account: &Account,
    found: &mut Rows,
    page: QueryPage,
    position: &mut Position,
    size: usize,
    max_rows: usize,
) -> bool {
    let bytes_max = account.options.result_bytes_max;
    for (number, row) in page.rows.into_iter().enumerate().skip(position.skip) {
        let row_bytes = row.get().len() + 1;
        if found.rows.len() == max_rows {
            found.notes.push(format!("cut at {max_rows} rows"));
            (position.size, position.skip) = (size, number);
            return false;
        }
        if row_bytes > bytes_max {
            // No answer can hold the row, so a position before the row would never be left.
            found.notes.push(format!(
                "a row of {row_bytes} bytes is left out, because an answer has at most {bytes_max} \
                 bytes: select fewer properties"
            ));
            continue;
        }
        if found.bytes + row_bytes > bytes_max {
            found.notes.push(format!(
                "cut at {bytes_max} bytes: ask again with the continuation, or select fewer \
                 properties"
            ));
            (position.size, position.skip) = (size, number);
            return false;
        }
        found.bytes += row_bytes;
        found.rows.push(row);
    }
    true
}

/// Returns the id of the partition key range after `range`, or of the first one.
async fn next_range(
    account: &Account,
    asked: &Asked,
    range: Option<&str>,
) -> Result<Option<String>, ToolError> {
    let client = account.client()?;
    let failed = |error: ClientError| ToolError(error.to_string());
    let ranges = client
        .fresh_ranges(&asked.container)
        .await
        .map_err(failed)?;
    let Some(range) = range else {
        return Ok(ranges.first().map(|first| first.id.clone()));
    };
    let place = ranges.iter().position(|known| known.id == range);
    let Some(place) = place else {
        return Err(ToolError::new(
            "the physical partition of the continuation was split: run the query again",
        ));
    };
    Ok(ranges.get(place + 1).map(|next| next.id.clone()))
}
