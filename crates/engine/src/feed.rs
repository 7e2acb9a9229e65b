//! Feeds: all items in natural order, and changes in the order of their LSN: the latest of each item, or all.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::keys::{self, EpkPrefix};
use crate::partition::row::Row;
use crate::partition::row_reader::read_row;
use crate::partition::session::check_session;
use crate::partition::versions::{self, Versions};
use crate::partition::visibility::Visibility;
use crate::partition::{Partition, scan};
use crate::partition_request::{Done, Found, PartitionRequest, PositionOfFailure};
use crate::pending::Pending;
use crate::query::{page_items, scope_reach};
use crate::request::{
    FeedPage, FeedStart, Outcome, Page, PageRequest, QueryRequest, ReadOptions, Scope,
};
use crate::throughput::{PartitionCharges, is_throttled};
use bytes::Bytes;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result, limits};
use orrery_storage::{Direction, Snapshot};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

/// Changes that a page looks at at most, so that a feed of few among many answers in time.
const LOOKED_AT_MOST: usize = 20_000;

/// Seconds by which clocks may have been set back while a partition was written.
const CLOCK_SLACK_SECONDS: u64 = 60;

/// Which items of a partition a feed shows.
#[derive(Clone, Default)]
struct FeedFilter {
    key: Option<Epk>,
    within: Option<EpkRange>,
}

impl FeedFilter {
    fn is_nothing(&self) -> bool {
        self.within.as_ref().is_some_and(EpkRange::is_empty)
    }

    /// Whether an item at this place can be one of them.
    fn may_have(&self, epk_prefix: EpkPrefix) -> bool {
        let within = |w: &EpkRange| {
            keys::epk_prefix(&w.min) <= epk_prefix && (epk_prefix <= keys::epk_prefix(&w.max))
        };
        self.key
            .as_ref()
            .is_none_or(|key| keys::epk_prefix(key) == epk_prefix)
            && self.within.as_ref().is_none_or(within)
    }

    fn has(&self, row: &Row) -> bool {
        self.key.as_ref().is_none_or(|key| row.epk == *key)
            && self.within.as_ref().is_none_or(|w| w.contains(&row.epk))
    }
}

impl Engine {
    /// All items, page by page.
    pub fn read_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        page: &PageRequest,
        options: impl Into<ReadOptions<'a>>,
    ) -> Outcome<Page> {
        // A feed is `SELECT *`, paid as reads; each partition pays in the proportion of its query.
        let query = QueryRequest::everything(page);
        let options = options.into();
        let two_replicas = options.admission.two_replicas;
        let (result, charges, position) = self.run_query(
            container,
            scope,
            &query,
            options,
            PartitionCharges::default(),
        );
        let mut work = match &result {
            Err(error) if error.kind() == Kind::Throttled => charges.work.clone(),
            result => Work {
                steps: vec![Step::Feed {
                    items: sizes(result.iter().flat_map(|q| &q.page.rows)),
                }],
            },
        };
        if two_replicas {
            Step::add_second_replica_reads(&mut work.steps, 0);
        }
        charges.settle(
            self,
            container,
            self.profile.price(&work),
            is_throttled(&result),
        );
        self.outcome(result.map(|q| q.page), work, position)
    }

    /// The changes of one physical partition, or of what of it the scope covers: each item's current version, in the
    /// order of its last change.
    pub fn change_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        options: impl Into<ReadOptions<'a>>,
    ) -> Pending<FeedPage> {
        let latest = |open: &FeedReader<'_>, most: usize| {
            let after = match start {
                FeedStart::Now => return Ok(open.nothing()),
                FeedStart::Beginning => 0,
                FeedStart::After { seconds } => open.last_until(*seconds)?,
                FeedStart::Lsn(lsn) => *lsn,
            };
            let not_before = match start {
                FeedStart::After { seconds } => Some(*seconds),
                _ => None,
            };
            open.latest_versions(after, not_before, most)
        };
        self.feed_page(container, scope, max_items, options.into(), latest)
    }

    /// The changes of one physical partition, or of what of it the scope covers: each change of each item, with
    /// deletions, as far back as the container keeps versions.
    pub fn all_versions_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        options: impl Into<ReadOptions<'a>>,
    ) -> Pending<FeedPage> {
        let versions = |open: &FeedReader<'_>, most: usize| {
            let retention = open
                .container
                .settings()
                .retention_seconds
                .ok_or_else(versions_not_kept)?;
            match start {
                FeedStart::Now => Ok(open.nothing()),
                FeedStart::Lsn(lsn) => open.all_versions(*lsn, retention, most),
                FeedStart::Beginning | FeedStart::After { .. } => Err(Error::bad(
                    "A change feed in the mode All Versions and Deletes starts from now or from a continuation \
                     (If-None-Match), not from the beginning or a point in time.",
                )),
            }
        };
        self.feed_page(container, scope, max_items, options.into(), versions)
    }

    /// Answers one page of either change feed. `read` collects the changes.
    fn feed_page(
        &self,
        container: &Container,
        scope: &Scope,
        max_items: Option<usize>,
        options: ReadOptions<'_>,
        read: impl Fn(&FeedReader<'_>, usize) -> Result<FeedPage>,
    ) -> Pending<FeedPage> {
        let request = PartitionRequest {
            container,
            admission: options.admission,
            refusal: Step::Feed { items: Vec::new() },
            position_of_failure: PositionOfFailure::None,
        };
        let page_items = page_items(&PageRequest {
            max_items,
            ..PageRequest::default()
        });
        // The scope is resolved again if its partition was split, so the filter is found with it.
        let filter = RefCell::new(FeedFilter::default());
        self.at_partition(
            &request,
            || {
                let (partition, found) = one_partition(container, scope)?;
                let key = found.key.clone().map(Cow::Owned);
                *filter.borrow_mut() = found;
                Ok(Found { partition, key })
            },
            |attempt| {
                let partition = attempt.partition;
                let snapshot = partition.snapshot()?;
                let lsn = snapshot.head().lsn;
                attempt.position = Some(partition.position(lsn, None));
                check_session(options.session, partition, lsn)?;
                let reader = FeedReader {
                    container,
                    mixed_until: partition.mixed_until,
                    snapshot: snapshot.as_ref(),
                    filter: filter.borrow().clone(),
                    now: self.world().now_seconds(),
                };
                let page = match reader.filter.is_nothing() {
                    true => reader.nothing(),
                    false => read(&reader, page_items)?,
                };
                let shown = page.rows.len() as u64;
                self.meters().change_feed_items.add(shown);
                attempt.steps.push(Step::Feed {
                    items: sizes(page.rows.iter()),
                });
                Ok(Done::read(page))
            },
        )
    }
}

fn sizes<'a>(rows: impl Iterator<Item = &'a Bytes>) -> Vec<usize> {
    rows.map(Bytes::len).collect()
}

/// What a page of changes is read from.
struct FeedReader<'a> {
    container: &'a Container,
    /// Changes up to here are not in the order of time.
    mixed_until: u64,
    snapshot: &'a dyn Snapshot,
    filter: FeedFilter,
    now: u64,
}

impl FeedReader<'_> {
    /// A page without changes that goes on from here.
    fn nothing(&self) -> FeedPage {
        FeedPage {
            rows: Vec::new(),
            continue_after: self.snapshot.head().lsn,
            cut: false,
        }
    }

    /// An LSN before the first change after `second`. Rows have the seconds of their changes in the order of the feed,
    /// but for those by which a clock was set back, and those of histories that were merged.
    fn last_until(&self, second: u64) -> Result<u64> {
        let (mut old, mut new) = (self.mixed_until, self.snapshot.head().lsn);
        while old < new {
            let middle = old + (new - old) / 2;
            match self.changes_after(middle).next().transpose()? {
                Some((lsn, row)) if row.ts <= second.saturating_sub(CLOCK_SLACK_SECONDS) => {
                    old = lsn
                }
                _ => new = middle,
            }
        }
        if old == self.mixed_until {
            // Nothing in the order of time is old enough, so what is not may hold newer changes anywhere.
            old = 0;
        }
        for change in self.changes_after(old) {
            let (lsn, row) = change?;
            if row.ts > second {
                return Ok(lsn - 1);
            }
        }
        Ok(self.snapshot.head().lsn)
    }

    /// The latest changes behind an LSN, each with its own.
    fn changes_after(&self, lsn: u64) -> impl Iterator<Item = Result<(u64, Row)>> {
        scan(self.snapshot, &keys::feed_after(lsn), Direction::Forward).map(|entry| {
            let (key, value) = entry?;
            let (lsn, number, epk_prefix) = read_change(&key, &value)?;
            Ok((lsn, self.row(number, epk_prefix)?))
        })
    }

    fn row(&self, number: keys::ItemNumber, epk_prefix: EpkPrefix) -> Result<Row> {
        read_row(epk_prefix, number, |key| {
            self.snapshot.get(key).map_err(storage_failure)
        })?
        .ok_or_else(damaged)
    }

    fn latest_versions(
        &self,
        after: u64,
        not_before: Option<u64>,
        most: usize,
    ) -> Result<FeedPage> {
        let visible = Visibility::of(
            self.snapshot,
            self.now,
            self.container.settings().default_ttl,
        )?;
        let mut page = FeedPageBuilder::new(after, most);
        for entry in scan(self.snapshot, &keys::feed_after(after), Direction::Forward) {
            let (key, value) = entry?;
            let (lsn, number, epk_prefix) = read_change(&key, &value)?;
            if !page.reaches(lsn) {
                return Ok(page.cut());
            }
            if !self.filter.may_have(epk_prefix) {
                continue;
            }
            let row = self.row(number, epk_prefix)?;
            let new_enough = not_before.is_none_or(|second| row.ts > second);
            if new_enough && self.filter.has(&row) && visible.has(&row) {
                page.add(row.feed_text(self.container.rid(), number));
            }
        }
        Ok(page.end(self.snapshot.head().lsn))
    }

    fn all_versions(&self, after: u64, retention_seconds: u64, most: usize) -> Result<FeedPage> {
        if after < versions::floor(self.snapshot)? {
            return Err(versions_are_gone());
        }
        let oldest = self.now.saturating_sub(retention_seconds);
        let mut page = FeedPageBuilder::new(after, most);
        for entry in Versions::after(self.snapshot, after) {
            let (lsn, version) = entry?;
            // Whether they are removed by now or not: too old is too old.
            if version.crts < oldest {
                return Err(versions_are_gone());
            }
            if !page.reaches(lsn) {
                return Ok(page.cut());
            }
            if self.filter.has(&version.row) {
                page.add(version.text(self.container, lsn)?);
            }
        }
        Ok(page.end(self.snapshot.head().lsn))
    }
}

/// A page of changes in the making. The changes of one transaction stay together, even beyond the page's size.
struct FeedPageBuilder {
    rows: Vec<Bytes>,
    bytes: usize,
    /// Changes looked at, shown or not.
    looked_at: usize,
    /// The LSN that has been reached.
    passed: u64,
    most: usize,
}

impl FeedPageBuilder {
    fn new(after: u64, most: usize) -> Self {
        FeedPageBuilder {
            rows: Vec::new(),
            bytes: 0,
            looked_at: 0,
            passed: after,
            most,
        }
    }

    /// Goes on to a change, unless the page is full.
    fn reaches(&mut self, lsn: u64) -> bool {
        let is_full = self.rows.len() >= self.most
            || self.bytes >= limits::PAGE_BYTES
            || self.looked_at >= LOOKED_AT_MOST;
        if is_full && lsn != self.passed {
            return false;
        }
        self.passed = lsn;
        self.looked_at += 1;
        true
    }

    fn add(&mut self, row: Bytes) {
        self.bytes += row.len();
        self.rows.push(row);
    }

    fn cut(self) -> FeedPage {
        FeedPage {
            rows: self.rows,
            continue_after: self.passed,
            cut: true,
        }
    }

    /// Nothing more up to the head: a later poll starts there, so that it does not pass what is gone again.
    fn end(self, head: u64) -> FeedPage {
        FeedPage {
            rows: self.rows,
            continue_after: head.max(self.passed),
            cut: false,
        }
    }
}

/// LSN, number and place in a row of the feed.
pub fn read_change(key: &[u8], value: &[u8]) -> Result<(u64, keys::ItemNumber, EpkPrefix)> {
    let (lsn, number) = keys::read_feed(key).ok_or_else(damaged)?;
    Ok((lsn, number, value.try_into().map_err(|_| damaged())?))
}

fn damaged() -> Error {
    Error::internal("a row of the change feed is damaged")
}

fn versions_not_kept() -> Error {
    Error::bad(
        "The change feed mode All Versions and Deletes must be enabled: set a 'changeFeedPolicy' with a \
         'retentionDuration' (in minutes) on the container.",
    )
}

fn versions_are_gone() -> Error {
    Error::bad(
        "The continuation of the change feed in the mode All Versions and Deletes is older than the versions that are \
         kept: changes since then are beyond the retention of the container. Start again from now.",
    )
}

/// The one partition that a change feed reads: its etag is a place in one history.
fn one_partition(container: &Container, scope: &Scope) -> Result<(Arc<Partition>, FeedFilter)> {
    let reach = scope_reach(container, scope)?;
    match &reach.partitions[..] {
        [(partition, within)] => Ok((
            Arc::clone(partition),
            FeedFilter {
                key: reach.key,
                within: within.clone(),
            },
        )),
        [] => Err(Error::new(
            Kind::PartitionKeyRangeGone,
            "No partition key range covers the range asked for.",
        )),
        several => Err(Error::bad(format!(
            "The change feed is read from one partition key range at a time, and the request covers {}: name one with \
             x-ms-documentdb-partitionkeyrangeid.",
            several.len()
        ))),
    }
}
