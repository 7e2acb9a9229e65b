//! Feeds: all items in natural order, and all changes in the order of their LSN.

use crate::Engine;
use crate::catalog::Container;
use crate::consistency::check_session;
use crate::keys;
use crate::partition::{Partition, scan, storage_failure};
use crate::query::{page_items, scope_reach};
use crate::request::{FeedPage, FeedStart, Outcome, Page, PageRequest, Position, QueryRequest, Scope};
use crate::row::Row;
use crate::transaction::read_row;
use crate::visible::Visible;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result, limits};
use orrery_storage::{Direction, Snapshot};
use std::sync::Arc;

/// Which items of a partition a feed shows.
struct Wanted {
    key: Option<Epk>,
    within: Option<EpkRange>,
}

impl Wanted {
    fn has(&self, row: &Row) -> bool {
        self.key.as_ref().is_none_or(|key| row.epk == *key) && self.within.as_ref().is_none_or(|w| w.contains(&row.epk))
    }
}

impl Engine {
    /// All items, page by page.
    pub fn read_feed(
        &self,
        container: &Container,
        scope: &Scope,
        page: &PageRequest,
        session: Option<&str>,
    ) -> Outcome<Page> {
        // A feed is `SELECT *`, paid as reads.
        let query = QueryRequest::everything(page);
        let answer = self.query(container, scope, &query, session);
        let items =
            answer.result.as_ref().map_or_else(|_| Vec::new(), |q| q.page.rows.iter().map(|row| row.len()).collect());
        let work = Work { steps: vec![Step::Feed { items }] };
        self.outcome(answer.result.map(|q| q.page), &work, answer.position)
    }

    /// The changes of one physical partition, or of what of it the scope covers: each item's current version, in the
    /// order of its last change.
    pub fn change_feed(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        session: Option<&str>,
    ) -> Outcome<FeedPage> {
        let mut position = None;
        let result = self.changes(container, scope, start, max_items, session, &mut position);
        let items = result.as_ref().map_or_else(|_| Vec::new(), |page| page.rows.iter().map(|row| row.len()).collect());
        self.outcome(result, &Work { steps: vec![Step::Feed { items }] }, position)
    }

    fn changes(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        session: Option<&str>,
        position: &mut Option<Position>,
    ) -> Result<FeedPage> {
        let (partition, wanted) = one_partition(container, scope)?;
        let snapshot = partition.snapshot()?;
        let lsn = snapshot.head().lsn;
        *position = Some(partition.position(lsn, None));
        check_session(session, &partition, lsn)?;
        let after = match start {
            FeedStart::Now => return Ok(FeedPage { rows: Vec::new(), continue_after: lsn }),
            FeedStart::Beginning | FeedStart::After { .. } => 0,
            FeedStart::Lsn(lsn) => *lsn,
        };
        let not_before = match start {
            FeedStart::After { seconds } => Some(*seconds),
            _ => None,
        };
        let page = PageRequest { max_items, ..PageRequest::default() };
        collect(self, container, snapshot.as_ref(), &wanted, after, not_before, page_items(&page))
    }
}

/// A page of changes. The items of one transaction stay together, even beyond the page's size.
fn collect(
    engine: &Engine,
    container: &Container,
    snapshot: &dyn Snapshot,
    wanted: &Wanted,
    after: u64,
    not_before: Option<u64>,
    most: usize,
) -> Result<FeedPage> {
    let visible = Visible::of(snapshot, engine.world().now_seconds(), container.settings().default_ttl)?;
    let damaged = || Error::internal("a row of the change feed is damaged");
    let (mut rows, mut bytes, mut passed) = (Vec::new(), 0, after);
    for entry in scan(snapshot, &keys::feed_after(after), Direction::Forward) {
        let (key, value) = entry?;
        let lsn = keys::read_feed(&key).ok_or_else(damaged)?;
        if (rows.len() >= most || bytes >= limits::PAGE_BYTES) && lsn != passed {
            return Ok(FeedPage { rows, continue_after: passed });
        }
        passed = lsn;
        let (number, place) = keys::unpack(&value).ok_or_else(damaged)?;
        let row = read_row(place, number, |key| snapshot.get(key).map_err(storage_failure))?.ok_or_else(damaged)?;
        let new_enough = not_before.is_none_or(|second| row.ts > second);
        if new_enough && wanted.has(&row) && visible.has(&row) {
            let text = row.feed_text(container.rid(), number);
            bytes += text.len();
            rows.push(text);
        }
    }
    // Nothing more up to the head: a later poll starts there, so that it does not pass deleted items again.
    Ok(FeedPage { rows, continue_after: snapshot.head().lsn.max(after) })
}

/// The one partition that a change feed reads: its etag is a place in one history.
fn one_partition(container: &Container, scope: &Scope) -> Result<(Arc<Partition>, Wanted)> {
    let reach = scope_reach(container, scope)?;
    match &reach.partitions[..] {
        [(partition, within)] => Ok((Arc::clone(partition), Wanted { key: reach.key, within: within.clone() })),
        [] => Err(Error::new(Kind::PartitionKeyRangeGone, "No partition key range covers the range asked for.")),
        several => Err(Error::bad(format!(
            "The change feed is read from one partition key range at a time, and the request covers {}: name one with \
             x-ms-documentdb-partitionkeyrangeid.",
            several.len()
        ))),
    }
}
