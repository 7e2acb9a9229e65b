//! Feeds without a query: lists of resources, items in natural order, and change feeds.

use super::{Progress, old_versions};
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::FeedMode;
use crate::reply::Reply;
use orrery_engine::request::{FeedPage, FeedStart, Outcome, Page, RangePosition, RangeStart};
use orrery_engine::{Container, Database, Engine, Feed};
use orrery_model::words::shortened;
use orrery_model::{Error, Result, Rid};
use std::sync::Arc;

pub(super) fn list_databases(engine: &Engine, call: &Call) -> Result<Progress> {
    let outcome = engine.list(Feed::Databases, &call.page());
    Ok(Progress::Complete(page(None, FeedKind::Databases, outcome)))
}

pub(super) fn list_offers(engine: &Engine, call: &Call) -> Result<Progress> {
    let outcome = engine.list(Feed::Offers, &call.page());
    Ok(Progress::Complete(page(None, FeedKind::Offers, outcome)))
}

pub(super) fn list_containers(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Progress> {
    let outcome = engine.list(Feed::Containers(database), &call.page());
    let outcome = outcome.map(|mut page| {
        old_versions::show_rows(call, &mut page.rows);
        page
    });
    let reply = page(Some(database.rid()), FeedKind::Containers, outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn list_conflicts(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    let outcome = engine.list(Feed::Conflicts(container), &call.page());
    let reply = page(Some(container.rid()), FeedKind::Conflicts, outcome);
    Ok(Progress::Complete(reply))
}

/// Answers 404 for every conflict: there is one write region, so there are no conflicts.
pub(super) fn no_such_conflict(_: &Engine, _: &Call, _: &Container) -> Result<Progress> {
    Err(Error::not_found())
}

/// Answers the deletion of a conflict in the same way, if the request names a partition key: the
/// service refuses a deletion without one.
pub(super) fn delete_conflict(_: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    call.required_key(container)?;
    Err(Error::not_found())
}

pub(super) fn read_items(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let scope = call.feed_scope(container)?;
    let outcome = engine.read_feed(container, &scope, &call.page(), call.cancellable_read());
    let reply = page(Some(container.rid()), FeedKind::Items, outcome);
    Ok(Progress::Complete(reply))
}

/// Returns the reply with one page of a feed.
pub(super) fn page(owner: Option<Rid>, kind: FeedKind, outcome: Outcome<Page>) -> Reply {
    Reply::of(outcome, |page| {
        let body = envelope(owner, kind, &page.rows);
        Reply::json(200, body).with_rows(page.rows.len(), page.continuation.as_deref())
    })
}

/// Answers a page of changes, or 304 if there are none. Both replies carry an item count and the
/// etag with which the client continues, because clients read these headers in either case.
pub(super) fn change_feed(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let scope = call.feed_scope(container)?;
    let headers = &call.headers;
    let start = feed_start(headers.if_none_match.as_deref(), headers.if_modified_since)?;
    let max_items = headers.max_items.limit();
    let options = call.read_options();
    let pending = match headers.change_feed {
        Some(FeedMode::AllVersions) => {
            engine.all_versions_feed(container, &scope, &start, max_items, options)
        }
        Some(FeedMode::LatestVersion) | None => {
            engine.change_feed(container, &scope, &start, max_items, options)
        }
    };
    let reply = Reply::of(pending.wait(), |page| {
        // Clients take a 304 for the end of the feed, so a page that was cut before its first row
        // is answered with 200.
        let reply = if page.rows.is_empty() && !page.cut {
            Reply::empty(304)
        } else {
            let body = envelope(Some(container.rid()), FeedKind::Items, &page.rows);
            Reply::json(200, body)
        };
        reply
            .with_etag(&format!("\"{}\"", etag_text(&page)))
            .with_rows(page.rows.len(), None)
    });
    Ok(Progress::Complete(reply))
}

/// Returns the etag of a page of changes: the LSN after which the next page starts, or
/// `range:LSN,range:LSN,…` for several physical partitions. `range:@second` stands for a partition
/// of which no change was read yet.
pub(crate) fn etag_text(page: &FeedPage) -> String {
    if page.ranges.is_empty() {
        return page.continue_after.to_string();
    }
    let mut parts = Vec::with_capacity(page.ranges.len());
    for RangePosition { range, start } in &page.ranges {
        parts.push(match start {
            RangeStart::Lsn(lsn) => format!("{range}:{lsn}"),
            RangeStart::After(seconds) => format!("{range}:@{seconds}"),
        });
    }
    parts.join(",")
}

/// Reads an etag that [`etag_text`] wrote.
fn read_etag(text: &str) -> Option<FeedStart> {
    if !text.contains(':') {
        return text.parse().ok().map(FeedStart::Lsn);
    }
    let mut positions = Vec::new();
    for part in text.split(',') {
        let (range, at) = part.split_once(':')?;
        let start = match at.strip_prefix('@') {
            Some(seconds) => RangeStart::After(seconds.parse().ok()?),
            None => RangeStart::Lsn(at.parse().ok()?),
        };
        positions.push(RangePosition {
            range: range.parse().ok()?,
            start,
        });
    }
    Some(FeedStart::Ranges(positions))
}

/// Returns the start of a change feed: an etag takes precedence over a time, `*` means now, and
/// neither means the beginning.
pub(crate) fn feed_start(
    if_none_match: Option<&str>,
    if_modified_since: Option<i64>,
) -> Result<FeedStart> {
    match (if_none_match, if_modified_since) {
        (Some("*"), _) => Ok(FeedStart::Now),
        (Some(etag), _) => read_etag(etag.trim_matches('"')).ok_or_else(|| {
            Error::bad(format!(
                "The value '{}' of the header 'If-None-Match' is no etag of a change feed.",
                shortened(etag)
            ))
        }),
        // All changes are younger than 1970, the time 0.
        (None, Some(seconds)) => match u64::try_from(seconds) {
            Ok(seconds) => Ok(FeedStart::After { seconds }),
            Err(_) => Ok(FeedStart::Beginning),
        },
        (None, None) => Ok(FeedStart::Beginning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_feed_starts_where_the_headers_say() {
        let start = |etag, time| feed_start(etag, time).expect("a start");
        assert_eq!(start(None, None), FeedStart::Beginning);
        assert_eq!(start(Some("*"), None), FeedStart::Now);
        assert_eq!(start(Some("\"12\""), None), FeedStart::Lsn(12));
        assert_eq!(start(Some("12"), None), FeedStart::Lsn(12));
        assert_eq!(start(None, Some(5)), FeedStart::After { seconds: 5 });
        assert_eq!(start(None, Some(-5)), FeedStart::Beginning);
    }

    #[test]
    fn an_etag_takes_precedence_over_a_time() {
        let start = feed_start(Some("\"3\""), Some(5)).expect("a start");
        assert_eq!(start, FeedStart::Lsn(3));
    }

    #[test]
    fn an_etag_that_is_no_position_is_refused() {
        for etag in [
            "\"00000100-0000\"",
            "\"0:\"",
            "\"0:1,\"",
            "\":1\"",
            "\"0:1,1\"",
            "\"0:@\"",
            "\"x:1\"",
            "\"0:-1\"",
        ] {
            let error = feed_start(Some(etag), None).expect_err(etag);
            assert_eq!(error.status(), 400);
        }
    }

    #[test]
    fn the_etag_of_several_partitions_reads_back() {
        let position = |range, start| RangePosition { range, start };
        let page = FeedPage {
            rows: Vec::new(),
            continue_after: 0,
            ranges: vec![
                position(3, RangeStart::After(1_700_000_000)),
                position(0, RangeStart::Lsn(12)),
            ],
            cut: false,
        };
        let text = etag_text(&page);
        assert_eq!(text, "3:@1700000000,0:12");
        assert_eq!(read_etag(&text), Some(FeedStart::Ranges(page.ranges)));
    }
}
