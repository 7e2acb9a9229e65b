//! Etags of change feeds, with which a client continues. The first byte of the input chooses the
//! scope, the feed and the length of pages; the rest is the etag.

use crate::fixture::{Fixture, ITEMS, check_refusal, scope};
use orrery_engine::request::{FeedPage, FeedStart};
use orrery_gateway::fuzzing::{feed_etag, feed_start};
use std::sync::LazyLock;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| Fixture::new(3));

/// Checks an input: an etag that is read is written as a text with the same meaning, and the pages
/// from it on are those of an engine, each once, and end.
pub(crate) fn check(input: &[u8]) {
    let Some((options, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    match feed_start(text) {
        Err(error) => check_refusal(&error, text.len()),
        Ok(start) => {
            check_written(&start);
            check_pages(*options, start, text.len());
        }
    }
}

/// Checks that a start reads back from the etag of a page that ends there.
fn check_written(start: &FeedStart) {
    let mut page = FeedPage {
        rows: Vec::new(),
        continue_after: 0,
        ranges: Vec::new(),
        cut: false,
    };
    match start {
        FeedStart::Lsn(lsn) => page.continue_after = *lsn,
        FeedStart::Ranges(ranges) => page.ranges.clone_from(ranges),
        FeedStart::Beginning | FeedStart::Now | FeedStart::After { .. } => return,
    }
    assert_eq!(feed_start(&feed_etag(&page)).expect("own etag"), *start);
}

/// Reads the pages from a start on, as a client does.
fn check_pages(options: u8, mut start: FeedStart, etag_bytes: usize) {
    let Fixture { engine, container } = &*FIXTURE;
    let scope = scope(options);
    let max_items = Some(1 + usize::from(options >> 5) * 4);
    let mut rows = 0;
    for _ in 0..4 * ITEMS {
        let feed = match options & 4 {
            0 => engine.change_feed(container, &scope, &start, max_items, None::<&str>),
            _ => engine.all_versions_feed(container, &scope, &start, max_items, None::<&str>),
        };
        let page = match feed.wait().result {
            Ok(page) => page,
            Err(error) => return check_refusal(&error, etag_bytes),
        };
        rows += page.rows.len();
        assert!(rows <= ITEMS, "a change comes twice");
        start = feed_start(&feed_etag(&page)).expect("own etag");
        if page.rows.is_empty() && !page.cut {
            return;
        }
    }
    panic!("the feed does not end");
}
