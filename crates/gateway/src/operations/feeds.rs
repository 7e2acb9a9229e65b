//! Feeds without a query: lists of resources, items in natural order, and change feeds.

use super::{Progress, keyless};
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::FeedMode;
use crate::reply::Reply;
use orrery_engine::request::{FeedStart, Outcome, Page};
use orrery_engine::{Container, Database, Engine, Feed};
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
        keyless::show_rows(call, &mut page.rows);
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
            .with_etag(&format!("\"{}\"", page.continue_after))
            .with_rows(page.rows.len(), None)
    });
    Ok(Progress::Complete(reply))
}

/// Returns the start of a change feed: an etag takes precedence over a time, `*` means now, and
/// neither means the beginning.
fn feed_start(if_none_match: Option<&str>, if_modified_since: Option<i64>) -> Result<FeedStart> {
    match (if_none_match, if_modified_since) {
        (Some("*"), _) => Ok(FeedStart::Now),
        (Some(etag), _) => match etag.trim_matches('"').parse() {
            Ok(lsn) => Ok(FeedStart::Lsn(lsn)),
            Err(_) => Err(Error::bad(format!(
                "The value '{etag}' of the header 'If-None-Match' is no etag of a change feed."
            ))),
        },
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
    fn an_etag_that_is_no_number_is_refused() {
        let error = feed_start(Some("\"00000100-0000\""), None).expect_err("no number");
        assert_eq!(error.status(), 400);
    }
}
