//! Lists by pages of at most [`PAGE_ROWS`] rows, in the order of the creation dates.
//!
//! A position is the date of the last row of a page, as text that can stand in a URL:
//! ```text
//! [list, subject, date, id, …]      JSON in base64url
//! ["posts of", "6bf5…", "2026-11-03T09:12:44.1234560Z", "0d1c…"]
//! ```
//! `list` and `subject` name the list, so that a position of another list is refused; the ids are
//! those of the rows of the page with just this date, which the next page leaves out. A position is
//! therefore valid in every model, also after a split of partitions, and no row comes twice or is
//! left out. Any other text is [`BlogError::InvalidPage`]. Positions are not signed: every list is
//! public.
//!
//! The first page of a list is the article's request if the list fits one page; a longer list is
//! then read by the order of its dates.

use crate::BlogError;
use crate::client::Client;
use crate::meter::{Meter, Operation};
use crate::query::{Query, metrics_headers, parsed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use futures_util::future::try_join_all;
use orrery_client::{PartitionKey, Scope};
use serde_json::{Value, json};

/// Rows of one page. The largest list of the article's measurement fits one page.
pub const PAGE_ROWS: usize = 100;
/// Bytes of the text of a position.
const POSITION_BYTES_MAX: usize = 16 * 1024;
/// Characters of a date and of an id in a position.
const PART_CHARS_MAX: usize = 64;
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

/// A list that has pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List<'a> {
    /// Name of the list in positions.
    pub(crate) name: &'static str,
    /// The id of the user or post to which the list belongs; empty for the list of all posts.
    pub(crate) subject: &'a str,
    /// The condition of the list on its items.
    pub(crate) condition: &'static str,
    /// The parameter of the condition, with `subject` as its value.
    pub(crate) parameter: Option<&'static str>,
    /// True if the list begins with the newest item.
    pub(crate) is_newest_first: bool,
}

/// The end of a page: the next page begins after it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Position {
    date: String,
    /// Ids of the rows with this date that pages before have shown.
    shown: Vec<String>,
}

impl List<'_> {
    /// Parses the position of a page of this list.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a text that is no position of this list.
    pub(crate) fn position(&self, text: &str) -> Result<Position, BlogError> {
        self.parsed_position(text).ok_or(BlogError::InvalidPage)
    }

    fn parsed_position(&self, text: &str) -> Option<Position> {
        if text.len() > POSITION_BYTES_MAX {
            return None;
        }
        let bytes = BASE64URL.decode(text).ok()?;
        let parts: Vec<String> = serde_json::from_slice(&bytes).ok()?;
        let [name, subject, date, shown @ ..] = parts.as_slice() else {
            return None;
        };
        let is_part = |text: &str| (1..=PART_CHARS_MAX).contains(&text.len()) && text.is_ascii();
        let is_valid = name == self.name
            && subject == self.subject
            && is_part(date)
            && (1..=PAGE_ROWS).contains(&shown.len())
            && shown.iter().all(|id| is_part(id));
        is_valid.then(|| Position {
            date: date.clone(),
            shown: shown.to_vec(),
        })
    }

    /// Returns the query of the page after `position`. The query has rows that the page before
    /// showed, and one row more than the page, which tells whether there is a next page.
    pub(crate) fn query(&self, position: Option<&Position>) -> Query {
        let shown = position.map_or(0, |position| position.shown.len());
        let (before, order) = match self.is_newest_first {
            true => ("<=", "DESC"),
            false => (">=", "ASC"),
        };
        let bound = match position {
            Some(_) => format!(" AND c.creationDate {before} @date"),
            None => String::new(),
        };
        let mut query = Query::new(format!(
            "SELECT TOP {} * FROM c WHERE {}{bound} ORDER BY c.creationDate {order}",
            PAGE_ROWS + 1 + shown,
            self.condition,
        ));
        if let Some(parameter) = self.parameter {
            query = query.with(parameter, self.subject);
        }
        match position {
            Some(position) => query.with("@date", position.date.as_str()),
            None => query,
        }
    }

    /// Returns the page with the rows of [`List::query`].
    pub(crate) fn page(&self, rows: Vec<Value>, position: Option<&Position>) -> ListPage {
        let is_shown = |row: &Value| match position {
            Some(position) => position.shown.iter().any(|id| row["id"] == id.as_str()),
            None => false,
        };
        let mut items: Vec<Value> = rows.into_iter().filter(|row| !is_shown(row)).collect();
        let has_more = items.len() > PAGE_ROWS;
        items.truncate(PAGE_ROWS);
        let next = has_more.then(|| self.end_of(&items, position));
        ListPage { items, next }
    }

    /// Returns the page of a list that fits one page, in the order of the list.
    pub(crate) fn only_page(&self, mut items: Vec<Value>) -> ListPage {
        items.sort_by(|a, b| match self.is_newest_first {
            true => creation_date(b).cmp(creation_date(a)),
            false => creation_date(a).cmp(creation_date(b)),
        });
        ListPage { items, next: None }
    }

    /// Returns the position after `items`.
    pub(crate) fn end_of(&self, items: &[Value], position: Option<&Position>) -> String {
        let date = items.last().map_or("", creation_date);
        let mut parts = vec![self.name, self.subject, date];
        // A date that fills pages: the rows of the pages before are left out as well.
        if let Some(position) = position
            && position.date == date
        {
            parts.extend(position.shown.iter().map(String::as_str));
        }
        for item in items.iter().filter(|item| creation_date(item) == date) {
            parts.push(item["id"].as_str().unwrap_or_default());
        }
        BASE64URL.encode(json!(parts).to_string())
    }
}

fn creation_date(item: &Value) -> &str {
    item["creationDate"].as_str().unwrap_or_default()
}

impl Client {
    /// Returns the first rows of a query in one logical partition: all of them, or `None` if they
    /// do not fit a page.
    pub(crate) async fn query_short(
        &self,
        meter: &Meter,
        container: &str,
        key: &str,
        query: &Query,
    ) -> Result<Option<Vec<Value>>, BlogError> {
        let client = self.metered(meter, container, Operation::Query, None, Some(key));
        let key = PartitionKey::text(key);
        let (scope, headers) = (Scope::Key(&key), metrics_headers(meter));
        let page = client
            .query_page(container, query, scope, PAGE_ROWS, None, headers)
            .await?;
        match page.continuation {
            None => parsed(&page.rows, &page.answer.operation).map(Some),
            Some(_) => Ok(None),
        }
    }

    /// Returns the first rows of a query over all physical partitions: all of them, or `None` if
    /// they do not fit a page. The query has neither ORDER BY nor TOP nor DISTINCT.
    pub(crate) async fn query_short_all(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Option<Vec<Value>>, BlogError> {
        let mut restarts = 0;
        loop {
            match self.first_rows(meter, container, query).await {
                Err(e) if e.is_range_gone() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    self.clear_cached_metadata(container);
                }
                result => return result,
            }
        }
    }

    /// Asks every partition for its first rows.
    async fn first_rows(
        &self,
        meter: &Meter,
        container: &str,
        query: &Query,
    ) -> Result<Option<Vec<Value>>, BlogError> {
        let client = self.metered(meter, container, Operation::Query, None, None);
        let plan = client.merge_plan(container, query).await?;
        let rewritten = plan.rewritten(query);
        let ranges = self.ranges(container).await?;
        let asked = ranges.iter().filter(|range| plan.includes(range));
        let fetches = asked.map(|range| {
            let (client, rewritten) = (&client, &rewritten);
            let (scope, headers) = (Scope::Range(&range.id), metrics_headers(meter));
            client.query_page(container, rewritten, scope, PAGE_ROWS, None, headers)
        });
        let mut rows = Vec::new();
        for page in try_join_all(fetches).await? {
            rows.extend(parsed(&page.rows, &page.answer.operation)?);
            if page.continuation.is_some() || rows.len() > PAGE_ROWS {
                return Ok(None);
            }
        }
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSTS: List<'static> = List {
        name: "posts of",
        subject: "u1",
        condition: "c.userId = @userId AND c.type = 'post'",
        parameter: Some("@userId"),
        is_newest_first: true,
    };

    fn rows(dates: impl Iterator<Item = usize>) -> Vec<Value> {
        let row = |n: usize| json!({"id": format!("p{n}"), "creationDate": format!("{n:04}")});
        dates.map(row).collect()
    }

    #[test]
    fn a_position_survives_its_way_through_a_url() {
        let text = POSTS.end_of(&rows([7, 5].into_iter()), None);
        assert!(
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        );
        let position = POSTS.position(&text).unwrap();
        assert_eq!((position.date.as_str(), position.shown.len()), ("0005", 1));
    }

    #[test]
    fn a_forged_position_and_one_of_another_list_are_refused() {
        let encoded = |parts: Value| BASE64URL.encode(parts.to_string());
        let valid = ["posts of", "u1", "2026", "p1"];
        assert!(POSTS.position(&encoded(json!(valid))).is_ok());
        let forged = [
            String::new(),
            "%%%".into(),
            "bm90IGpzb24".into(),
            encoded(json!({})),
            encoded(json!([])),
            encoded(json!(["posts of", "u1", "2026"])),
            encoded(json!(["posts of", "u1", 2026, "p1"])),
            encoded(json!(["posts of", "u1", "", "p1"])),
            encoded(json!(["posts of", "u1", "ä", "p1"])),
            encoded(json!(["posts of", "u1", "2".repeat(65), "p1"])),
            encoded(json!(["posts of", "u2", "2026", "p1"])),
            encoded(json!(["comments on", "u1", "2026", "p1"])),
            "A".repeat(POSITION_BYTES_MAX + 1),
        ];
        for text in forged {
            let refused = POSTS.position(&text);
            assert_eq!(refused, Err(BlogError::InvalidPage), "{text}");
        }
    }

    #[test]
    fn pages_follow_each_other_without_a_gap_and_without_a_repeated_row() {
        // 250 rows of which three in a row have one date, so that pages end within a date.
        let mut all = rows(0..250);
        for (n, row) in all.iter_mut().enumerate() {
            row["creationDate"] = format!("{:04}", (249 - n) / 3).into();
        }
        let mut seen = Vec::new();
        let mut position: Option<Position> = None;
        for _ in 0..4 {
            // The rows that the query would have.
            let shown = position.as_ref().map_or(0, |position| position.shown.len());
            let is_after = |row: &&Value| match &position {
                Some(position) => creation_date(row) <= position.date.as_str(),
                None => true,
            };
            let found: Vec<Value> = all.iter().filter(is_after).cloned().collect();
            let found = found.into_iter().take(PAGE_ROWS + 1 + shown).collect();
            let page = POSTS.page(found, position.as_ref());
            for item in &page.items {
                seen.push(item["id"].clone());
            }
            match page.next {
                Some(next) => position = Some(POSTS.position(&next).unwrap()),
                None => break,
            }
        }
        let expected: Vec<Value> = all.iter().map(|row| row["id"].clone()).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_query_begins_at_the_date_of_the_position_and_has_one_row_more() {
        let text = POSTS.end_of(&rows([7, 5].into_iter()), None);
        let position = POSTS.position(&text).unwrap();
        assert_eq!(
            POSTS.query(Some(&position)).text,
            "SELECT TOP 102 * FROM c WHERE c.userId = @userId AND c.type = 'post' AND \
             c.creationDate <= @date ORDER BY c.creationDate DESC"
        );
        let oldest_first = List {
            is_newest_first: false,
            ..POSTS
        };
        assert!(
            oldest_first
                .query(None)
                .text
                .ends_with("ORDER BY c.creationDate ASC")
        );
        let sorted = oldest_first.only_page(rows([3, 1, 2].into_iter()));
        assert_eq!(sorted.items, rows([1, 2, 3].into_iter()));
    }
}
