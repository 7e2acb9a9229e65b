//! Feeds: the read feed with all items in natural order, and the two change feeds in the order of
//! LSNs.
//!
//! A page of a change feed usually reads one physical partition, and its etag is an LSN of one
//! history; `several` reads a scope of several partitions, one after another. The changes of one
//! transaction stay on one page, and a page ends at a bounded number of items, bytes and visited
//! changes.

mod all_versions;
mod latest;
mod several;

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{gone_error, no_memory_for_answer};
use crate::partition::Partition;
use crate::partition::keys::{self, EpkPrefix};
use crate::partition::row::Row;
use crate::partition::session::check_session;
use crate::partition::stamps::Moment;
use crate::partition_request::{
    PartitionRequest, PositionOfFailure, RequestResult, TargetPartition,
};
use crate::pending::Pending;
use crate::query::{has_memory_for_rows, page_items, scope_reach};
use crate::request::{
    FeedPage, FeedStart, OperationKind, Outcome, Page, PageRequest, QueryRequest, RangeStart,
    ReadOptions, Scope,
};
use crate::throughput::{PartitionCharges, is_throttled};
use bytes::Bytes;
use orrery_model::memory::{AnswerMemory, RowsMemory};
use orrery_model::partition_key::{EpkRange, KeyAddress};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result, limits};
use orrery_storage::Snapshot;
use several::{PartPosition, StartIn};
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

/// The subject of the error for a damaged row.
const ROW: &str = "a row of the change feed";

/// Changes that a page visits at most, shown or not, so that a feed of few items among many answers
/// in time.
const VISITED_PER_PAGE: usize = 20_000;

/// Reads one page of a change feed.
type ReadPage = fn(&FeedReader<'_>, &FeedStart, usize) -> Result<FeedPage>;

/// A request for a page of a change feed.
#[derive(Clone, Copy)]
struct FeedRequest<'a> {
    container: &'a Container,
    start: &'a FeedStart,
    /// The most rows of the page; `None` for as many as its bytes and its work allow.
    max_items: Option<usize>,
    options: ReadOptions<'a>,
    /// Bytes of memory of the rows of the same page that come from other partitions.
    held_bytes: usize,
    /// Reads the rows of one partition.
    read_page: ReadPage,
}

impl Engine {
    /// Returns a page of all items.
    pub fn read_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        page: &PageRequest,
        options: impl Into<ReadOptions<'a>>,
    ) -> Outcome<Page> {
        // A read feed is the query `SELECT *`, charged as reads of its items; the charge is divided
        // over the partitions by the work of the query.
        let query = QueryRequest::everything(page);
        let options = options.into();
        let two_replicas = options.admission.two_replicas;
        let (result, charges, position) = self.run_query(
            container,
            scope,
            &query,
            options,
            PartitionCharges::of_feed(),
        );
        let mut work = match &result {
            Err(error) if error.kind() == Kind::Throttled => charges.work.clone(),
            Err(_) => feed_work(&[]),
            Ok(page) => feed_work(&page.page.rows),
        };
        if two_replicas {
            Step::add_second_replica_reads(&mut work.steps, 0);
        }
        let charge = self.profile.price(&work);
        charges.charge(self, container, charge, is_throttled(&result));
        self.outcome(result.map(|query| query.page), work, position)
    }

    /// Returns a page of the change feed of latest versions.
    pub fn change_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        options: impl Into<ReadOptions<'a>>,
    ) -> Pending<FeedPage> {
        let request = FeedRequest {
            container,
            start,
            max_items,
            options: options.into(),
            held_bytes: 0,
            read_page: latest::read_page,
        };
        self.feed(&request, scope)
    }

    /// Returns a page of the change feed with all versions and deletes.
    pub fn all_versions_feed<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        start: &FeedStart,
        max_items: Option<usize>,
        options: impl Into<ReadOptions<'a>>,
    ) -> Pending<FeedPage> {
        let request = FeedRequest {
            container,
            start,
            max_items,
            options: options.into(),
            held_bytes: 0,
            read_page: all_versions::read_page,
        };
        self.feed(&request, scope)
    }

    /// Answers a page of either change feed.
    fn feed(&self, request: &FeedRequest<'_>, scope: &Scope) -> Pending<FeedPage> {
        let reach = scope_reach(request.container, scope);
        match reach.is_ok_and(|reach| reach.partitions.len() > 1) {
            true => self.page_of_several(request, scope),
            false => self.page_of_one(request, scope),
        }
    }

    /// Answers a page of the changes of one physical partition, or of the part of it that `scope`
    /// covers.
    fn page_of_one(&self, feed: &FeedRequest<'_>, scope: &Scope) -> Pending<FeedPage> {
        let container = feed.container;
        let request = PartitionRequest {
            container,
            kind: OperationKind::Feed,
            admission: feed.options.admission,
            refusal: Step::Feed { items: Vec::new() },
            position_of_failure: PositionOfFailure::None,
        };
        let page_items = page_items(&PageRequest {
            max_items: feed.max_items,
            ..PageRequest::default()
        });
        // The filter is found together with the partition, again after a split.
        let filter = RefCell::new(FeedFilter::default());
        self.at_partition(
            &request,
            || {
                let (partition, found) = one_partition(container, scope)?;
                let key = found.key.as_ref().map(|key| Cow::Owned(key.epk().clone()));
                *filter.borrow_mut() = found;
                Ok(TargetPartition { partition, key })
            },
            |attempt| {
                let partition = attempt.partition;
                let StartIn { start, parts } =
                    several::start_in(container, &partition.range, feed.start)?;
                let snapshot = partition.snapshot()?;
                let lsn = snapshot.head().lsn;
                attempt.position = Some(partition.position(lsn, None));
                check_session(feed.options.session, partition, lsn)?;
                let reader = FeedReader {
                    container,
                    mixed_until: partition.mixed_until,
                    snapshot: snapshot.as_ref(),
                    filter: filter.borrow().clone(),
                    parts,
                    moment: partition.moment(self.world().now_seconds()),
                    memory: PageMemory {
                        answer: feed.options.answer,
                        held_bytes: feed.held_bytes,
                    },
                };
                let mut page = match reader.filter.is_nothing() {
                    true => reader.empty_page(),
                    false => (feed.read_page)(&reader, &start, page_items)?,
                };
                let end = page.continue_after;
                page.ranges = several::positions_after(partition.id, &reader.parts, end);
                let shown = page.rows.len() as u64;
                self.meters().change_feed_items.add(shown);
                attempt.steps.extend(feed_work(&page.rows).steps);
                Ok(RequestResult::read(page))
            },
        )
    }
}

/// Returns the work of a page with these rows.
fn feed_work(rows: &[Bytes]) -> Work {
    let items = rows.iter().map(Bytes::len).collect();
    Work {
        steps: vec![Step::Feed { items }],
    }
}

/// The items of a partition that a feed shows.
#[derive(Clone, Default)]
struct FeedFilter {
    /// The logical partition, if the feed is of a single one.
    key: Option<KeyAddress>,
    /// The EPK range, if the feed is not of the whole partition.
    within: Option<EpkRange>,
}

impl FeedFilter {
    /// Returns true if the filter lets no item through.
    fn is_nothing(&self) -> bool {
        self.within.as_ref().is_some_and(EpkRange::is_empty)
    }

    /// Returns true if an item with this EPK prefix may pass the filter.
    fn may_have(&self, epk_prefix: EpkPrefix) -> bool {
        if let Some(key) = &self.key
            && keys::epk_prefix(key.epk()) != epk_prefix
        {
            return false;
        }
        match &self.within {
            Some(range) => {
                let first = keys::epk_prefix(&range.min);
                let last = keys::epk_prefix(&range.max);
                (first..=last).contains(&epk_prefix)
            }
            None => true,
        }
    }

    /// Returns true if an item of a range may pass the filter.
    fn shows(&self, range: &EpkRange) -> bool {
        match (&self.key, &self.within) {
            (Some(key), _) => range.contains(key.epk()),
            (None, Some(within)) => within.intersection(range).is_some(),
            (None, None) => true,
        }
    }

    /// Returns true if an item passes the filter.
    fn has(&self, row: &Row) -> bool {
        let has_key = self.key.as_ref().is_none_or(|key| row.is_of(key));
        let is_within = match &self.within {
            Some(range) => range.contains(&row.epk),
            None => true,
        };
        has_key && is_within
    }
}

/// The source of a page of changes.
struct FeedReader<'a> {
    container: &'a Container,
    /// The LSN up to which changes are not in the order of time.
    mixed_until: u64,
    snapshot: &'a dyn Snapshot,
    filter: FeedFilter,
    /// The positions of the reader in the parts of the partition, if the reader has several. The
    /// parts cover the partition.
    parts: Vec<PartPosition>,
    /// The present moment.
    moment: Moment,
    memory: PageMemory<'a>,
}

impl FeedReader<'_> {
    /// Returns true if the reader has not read a change behind the start of the page.
    fn is_unread(&self, row: &Row, lsn: u64) -> bool {
        let mut parts = self.parts.iter();
        let part = parts.find(|part| part.within.contains(&row.epk));
        match part.map(|part| &part.position.start) {
            Some(RangeStart::Lsn(after)) => lsn > *after,
            Some(RangeStart::After(second)) => row.ts > *second,
            None => true,
        }
    }

    /// Returns the LSN up to which the reader has read every change of a range that it is shown, on
    /// a page that starts after `after`; `None` if it is shown no part of the range.
    fn read_until(&self, range: &EpkRange, after: u64) -> Option<u64> {
        if self.parts.is_empty() {
            return self.filter.shows(range).then_some(after);
        }
        let mut least: Option<u64> = None;
        for part in &self.parts {
            let common = part.within.intersection(range);
            if common.is_some_and(|common| self.filter.shows(&common)) {
                let read = part.read_until();
                least = Some(least.map_or(read, |least| least.min(read)));
            }
        }
        least
    }

    /// Returns a page without changes, after which the feed continues at the head of the history.
    fn empty_page(&self) -> FeedPage {
        FeedPage {
            rows: Vec::new(),
            continue_after: self.snapshot.head().lsn,
            ranges: Vec::new(),
            cut: false,
        }
    }
}

/// The memory that the rows of a page may take.
#[derive(Clone, Copy)]
struct PageMemory<'a> {
    /// The memory of the answer; `None` if nothing counts it.
    answer: Option<&'a AnswerMemory>,
    /// Bytes of memory of the rows of the same page that come from other partitions.
    held_bytes: usize,
}

/// Collects a page of changes. The changes of one transaction stay together, even beyond the size
/// of the page.
struct FeedPageBuilder<'a> {
    rows: Vec<Bytes>,
    bytes: usize,
    memory: RowsMemory,
    /// The memory of the answer; `None` if nothing counts it.
    answer: Option<&'a AnswerMemory>,
    /// The LSN at which the page begins.
    after: u64,
    /// The last LSN of which all changes are visited, and the rows up to there.
    whole: (u64, usize),
    /// Changes visited, shown or not.
    visited: usize,
    /// The LSN of the last change visited.
    last_lsn: u64,
    /// Rows that the page may have.
    page_items: usize,
}

impl<'a> FeedPageBuilder<'a> {
    fn new(after: u64, page_items: usize, memory: PageMemory<'a>) -> Self {
        FeedPageBuilder {
            rows: Vec::new(),
            bytes: 0,
            memory: RowsMemory::holding(memory.held_bytes),
            answer: memory.answer,
            after,
            whole: (after, 0),
            visited: 0,
            last_lsn: after,
            page_items,
        }
    }

    /// Visits a change. Returns false if the page is full and the change begins a new transaction.
    fn reaches(&mut self, lsn: u64) -> bool {
        let is_full = self.rows.len() >= self.page_items
            || self.bytes >= limits::PAGE_BYTES
            || self.visited >= VISITED_PER_PAGE;
        if is_full && lsn != self.last_lsn {
            return false;
        }
        if lsn != self.last_lsn {
            self.whole = (self.last_lsn, self.rows.len());
        }
        self.last_lsn = lsn;
        self.visited += 1;
        true
    }

    /// Adds a change that was visited. Returns false if there is no memory for the change: the page
    /// then ends before its transaction.
    ///
    /// # Errors
    /// 429 if the page would make no progress.
    fn add(&mut self, row: Bytes) -> Result<bool> {
        let answer = self.answer;
        let reserve = |bytes| has_memory_for_rows(answer, bytes);
        if !self.memory.has_room(row.len(), reserve) {
            let needed = self.memory.bytes_with(row.len());
            return self.end_before_transaction(needed).map(|()| false);
        }
        self.memory.add(row.len());
        self.bytes += row.len();
        self.rows.push(row);
        Ok(true)
    }

    /// Drops the changes of the transaction that was begun.
    ///
    /// # Errors
    /// 429 if the page would make no progress.
    fn end_before_transaction(&mut self, needed: usize) -> Result<()> {
        let (lsn, rows) = self.whole;
        if lsn == self.after {
            return Err(no_memory_for_answer(needed));
        }
        self.rows.truncate(rows);
        self.last_lsn = lsn;
        Ok(())
    }

    /// Ends a page that is full.
    fn cut(self) -> FeedPage {
        FeedPage {
            rows: self.rows,
            continue_after: self.last_lsn,
            ranges: Vec::new(),
            cut: true,
        }
    }

    /// Ends a page at the head of the history. The next poll starts there, so that it does not
    /// visit changes again whose items were deleted.
    fn end(self, head: u64) -> FeedPage {
        FeedPage {
            rows: self.rows,
            continue_after: head.max(self.last_lsn),
            ranges: Vec::new(),
            cut: false,
        }
    }
}

/// Returns the one partition that a change feed reads, and the filter for its items.
///
/// # Errors
/// 410/1002 if no partition covers the scope, or if several do: the only one was split meanwhile.
fn one_partition(container: &Container, scope: &Scope) -> Result<(Arc<Partition>, FeedFilter)> {
    let reach = scope_reach(container, scope)?;
    match &reach.partitions[..] {
        [(partition, within)] => {
            let filter = FeedFilter {
                key: reach.key,
                within: within.clone(),
            };
            Ok((Arc::clone(partition), filter))
        }
        [] => Err(Error::new(
            Kind::PartitionKeyRangeGone,
            "No partition key range covers the range asked for.",
        )),
        [first, ..] => Err(gone_error(first.0.id)),
    }
}
