//! Feeds without a query: lists of resources, items in order, and the change feed.

use super::Step;
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::FeedMode;
use crate::reply::Reply;
use crate::route::Target;
use orrery_engine::request::{FeedStart, Outcome, Page};
use orrery_engine::{Container, Database, Engine, Feed};
use orrery_model::{Error, Result, Rid};
use std::sync::Arc;

pub(super) fn list_databases(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(page(
        None,
        FeedKind::Databases,
        engine.list(Feed::Databases, &call.page()),
    )))
}

pub(super) fn list_offers(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(page(
        None,
        FeedKind::Offers,
        engine.list(Feed::Offers, &call.page()),
    )))
}

pub(super) fn list_containers(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Step> {
    let outcome = engine.list(Feed::Containers(database), &call.page());
    Ok(Step::Reply(page(
        Some(database.rid()),
        FeedKind::Containers,
        outcome,
    )))
}

pub(super) fn list_scripts(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let Target::Scripts(kind) = call.target else {
        return Err(Error::not_found());
    };
    let outcome = engine.list(Feed::Scripts(container, kind), &call.page());
    Ok(Step::Reply(page(
        Some(container.rid()),
        FeedKind::Scripts(kind),
        outcome,
    )))
}

pub(super) fn list_conflicts(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let outcome = engine.list(Feed::Conflicts(container), &call.page());
    Ok(Step::Reply(page(
        Some(container.rid()),
        FeedKind::Conflicts,
        outcome,
    )))
}

/// There is one write region, so there are no conflicts.
pub(super) fn no_such_conflict(_: &Engine, _: &Call, _: &Container) -> Result<Step> {
    Err(Error::not_found())
}

pub(super) fn read_items(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let scope = call.feed_scope(container)?;
    let outcome = engine.read_feed(container, &scope, &call.page(), call.headers.reading());
    Ok(Step::Reply(page(
        Some(container.rid()),
        FeedKind::Items,
        outcome,
    )))
}

pub(super) fn page(owner: Option<Rid>, rows: FeedKind, outcome: Outcome<Page>) -> Reply {
    Reply::of(outcome, |page| {
        let body = envelope(owner, rows, &page.rows);
        Reply::json(200, body).with_rows(page.rows.len(), page.continuation.as_deref())
    })
}

/// A page of changes, or 304. Both carry the etag to go on from and a count: clients read them either way.
pub(super) fn change_feed(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let scope = call.feed_scope(container)?;
    let start = feed_start(
        call.headers.if_none_match.as_deref(),
        call.headers.if_modified_since,
    )?;
    let (most, options) = (call.headers.max_items.limit(), call.headers.reading());
    let pending = match call.headers.change_feed {
        Some(FeedMode::AllVersions) => {
            engine.all_versions_feed(container, &scope, &start, most, options)
        }
        _ => engine.change_feed(container, &scope, &start, most, options),
    };
    Ok(Step::Reply(Reply::of(pending.wait(), |page| {
        // A page that was cut without rows is no end: clients take 304 for one.
        let reply = if page.rows.is_empty() && !page.cut {
            Reply::empty(304)
        } else {
            Reply::json(
                200,
                envelope(Some(container.rid()), FeedKind::Items, &page.rows),
            )
        };
        reply
            .with_etag(&format!("\"{}\"", page.continue_after))
            .with_rows(page.rows.len(), None)
    })))
}

/// Where a change feed starts: an etag wins over a time, `*` means now, nothing means the beginning.
fn feed_start(if_none_match: Option<&str>, if_modified_since: Option<i64>) -> Result<FeedStart> {
    match (if_none_match, if_modified_since) {
        (Some("*"), _) => Ok(FeedStart::Now),
        (Some(etag), _) => etag
            .trim_matches('"')
            .parse()
            .map(FeedStart::Lsn)
            .map_err(|_| {
                Error::bad(format!(
                    "The value '{etag}' of the header 'If-None-Match' is no etag of a change feed."
                ))
            }),
        // Everything is younger than 1970.
        (None, Some(seconds)) => Ok(u64::try_from(seconds)
            .map_or(FeedStart::Beginning, |seconds| FeedStart::After { seconds })),
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
    fn a_concrete_etag_wins_over_a_time() {
        assert_eq!(
            feed_start(Some("\"3\""), Some(5)).expect("a start"),
            FeedStart::Lsn(3)
        );
    }

    #[test]
    fn an_etag_that_is_no_number_is_refused() {
        assert_eq!(
            feed_start(Some("\"00000100-0000\""), None)
                .expect_err("no number")
                .status(),
            400
        );
    }
}
