//! The loop of one leased range: read a page of changes, react to each, store the position.
//!
//! - The loop ends at once when the worker's heartbeats lapse, in the middle of whatever it does:
//!   the lease may be another worker's from then on. It also looks before each reaction.
//! - An error of the environment (no response, throttling) is waited out, for as long as the lease
//!   is valid. A change that fails for reasons of its own becomes a dead letter after some
//!   attempts, and the feed goes on.
//! - Reactions to different items of a page run at the same time, and so do different reactions to
//!   one item. The next page is read after all of them.

use super::consequences::{Consequence, REQUESTS_KEPT};
use super::dead_letters::{self, DeadLetter};
use super::delivery::committed_ms;
use super::leases::{Lease, Sums};
use super::reactions::Page;
use super::service::Shared;
use super::{Pipeline, Reaction};
use crate::feed::Changes;
use crate::sync::lock;
use crate::{BlogError, Charge, Meter};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// The first wait after a failed attempt, doubled with each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The loop of one leased range.
pub(super) struct RangeLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) pipeline: Pipeline,
    pub(super) lease: Lease,
    /// The id under which the worker took the lease.
    pub(super) owner: String,
    /// True when the range is to be released.
    pub(super) stop: watch::Receiver<bool>,
}

/// The reason for which a loop cannot continue.
enum End {
    /// The range was split or merged.
    Gone,
    /// The lease has another owner, or is about to have one.
    Lost,
}

/// The result of one page.
enum Step {
    /// Changes were processed.
    Worked,
    /// There were no changes.
    Idle,
    End(End),
}

impl RangeLoop {
    /// Runs until the range is released, gone or lost.
    pub(super) async fn run(mut self) {
        let (shared, owner) = (self.shared.clone(), self.owner.clone());
        let key = (self.lease.pipeline.clone(), self.lease.range.clone());
        lock(&shared.figures)
            .ranges
            .insert(key.clone(), Default::default());
        tokio::select! {
            () = shared.lapse_of(&owner) => {}
            () = self.process() => {}
        }
        lock(&shared.figures).ranges.remove(&key);
        shared.poke.notify_one();
    }

    /// Processes pages until the range is to be released, gone or lost.
    async fn process(&mut self) {
        let wake = &self.shared.wake;
        let sleeper = wake.sleeper(self.pipeline.container(), &self.lease.range);
        let options = self.shared.options;
        let (mut idle, mut failures) = (options.poll_min, 0);
        loop {
            if *self.stop.borrow() {
                self.lease.owner = None;
                self.store_lease().await;
                return;
            }
            match self.next_page().await {
                Ok(Step::Worked) => (idle, failures) = (options.poll_min, 0),
                Ok(Step::Idle) => {
                    failures = 0;
                    if self.wait(&sleeper, idle).await {
                        idle = options.poll_min;
                    } else {
                        idle = (idle * 2).min(options.poll_max);
                    }
                }
                Ok(Step::End(End::Lost)) => return,
                Ok(Step::End(End::Gone)) => {
                    self.lease.owner = None;
                    self.lease.is_gone = true;
                    self.store_lease().await;
                    return;
                }
                Err(e) => {
                    self.note(|range| range.error = Some(e.to_string()));
                    self.wait(&sleeper, backoff(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Waits for `time`, for a ring or for the stop. Returns true if the wait was cut short.
    async fn wait(&mut self, sleeper: &Notify, time: Duration) -> bool {
        let mut stop = self.stop.clone();
        tokio::select! {
            () = sleep(time) => false,
            () = sleeper.notified() => true,
            // An error means that the worker is gone, which ends this loop as well.
            _ = stop.wait_for(|stop| *stop) => true,
        }
    }

    /// Reads a page, reacts to its changes and stores the position.
    async fn next_page(&mut self) -> Result<Step, BlogError> {
        let meter = Meter::new();
        let client = &self.pipeline.blog.client;
        let (container, range) = (self.pipeline.container(), self.lease.range.as_str());
        let position = self.lease.position.as_deref();
        let page_size = self.shared.options.page_size;
        let read = client
            .changes(&meter, container, range, position, page_size)
            .await;
        let ru = meter.measurement(Duration::ZERO).ru;
        self.note_read(ru);
        let changes = match read {
            Err(e) if e.is_range_gone() => return Ok(Step::End(End::Gone)),
            read => read?,
        };
        if changes.items.is_empty() {
            self.note(|range| (range.lag, range.error) = (Some(0), None));
            return Ok(Step::Idle);
        }
        let lag = lag_after(&changes);
        self.note(|range| {
            (range.lag, range.error) = (Some(lag + changes.items.len() as u64), None)
        });

        let Some(mut sums) = self.react_to_page(&changes).await else {
            return Ok(Step::End(End::Lost));
        };
        sums.changes = changes.items.len() as u64;
        sums.ru.0 += ru.0;
        self.lease.position = Some(changes.etag);
        self.lease.lag = Some(lag);
        self.lease.sums += sums;
        if !self.store_lease().await {
            return Ok(Step::End(End::Lost));
        }
        self.note(|range| range.lag = Some(lag));
        Ok(Step::Worked)
    }

    /// Runs all reactions to a page. Returns `None` if the lease ended before all were complete.
    async fn react_to_page(&self, changes: &Changes) -> Option<Sums> {
        let page = Page::default();
        let page = &page;
        let reactions = self.pipeline.reactions.iter().map(|reaction| async move {
            let items = reaction.concerned(&changes.items);
            let reacted = items
                .into_iter()
                .map(|item| self.react_until_done(*reaction, page, item))
                .collect::<Vec<_>>();
            let mut results = stream::iter(reacted).buffer_unordered(reaction.items_at_a_time());
            let mut sums = Sums::default();
            while let Some(result) = results.next().await {
                sums += result?;
            }
            Some(sums)
        });
        let mut sums = Sums::default();
        for result in join_all(reactions).await {
            sums += result?;
        }
        Some(sums)
    }

    /// Reacts to one item, repeatedly if an attempt fails, and gives it up as a dead letter in
    /// the end. Returns `None` if the lease ended.
    async fn react_until_done(
        &self,
        reaction: Reaction,
        page: &Page,
        item: &Value,
    ) -> Option<Sums> {
        let mut sums = Sums::default();
        // Failures of the change itself, and all failures.
        let (mut own_failures, mut failures) = (0, 0);
        let first = Timestamp::now();
        loop {
            if !self.shared.is_valid(&self.owner) {
                return None;
            }
            let meter = Meter::recording();
            let reacted = self.pipeline.react(reaction, page, &meter, item).await;
            sums.ru.0 += meter.measurement(Duration::ZERO).ru.0;
            let error = match reacted {
                Ok(written) => {
                    sums.written = written;
                    self.note_reaction(reaction, item, sums, &meter, failures + 1);
                    return Some(sums);
                }
                Err(error) => error,
            };
            failures += 1;
            own_failures += u32::from(!error.is_environmental());
            self.note(|range| range.error = Some(format!("{reaction}: {error}")));
            if own_failures >= self.shared.options.attempts {
                let times = (first, Timestamp::now());
                let failure = (&error, failures);
                let letter = DeadLetter::new(&self.lease, reaction, item, failure, times);
                self.store_dead_letter(&letter).await;
                sums.dead_letters = 1;
                self.note_reaction(reaction, item, sums, &meter, failures);
                return Some(sums);
            }
            sums.retries += 1;
            sleep(backoff(failures - 1)).await;
        }
    }

    /// Stores a dead letter, however long that takes: the change would be lost otherwise.
    async fn store_dead_letter(&self, letter: &DeadLetter) {
        let mut failures = 0;
        while let Err(e) = dead_letters::store(&self.shared.control, letter).await {
            self.note(|range| range.error = Some(format!("storing a dead letter: {e}")));
            sleep(backoff(failures)).await;
            failures += 1;
        }
    }

    /// Stores the lease. Returns false if the lease was lost. Errors of the environment are waited
    /// out.
    async fn store_lease(&mut self) -> bool {
        let mut failures = 0;
        loop {
            let store = &self.shared.store;
            match store.replace_owned(&mut self.lease, &self.owner).await {
                Ok(is_stored) => return is_stored,
                Err(e) => {
                    self.note(|range| range.error = Some(format!("storing the position: {e}")));
                    sleep(backoff(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Changes the figures of the range.
    fn note(&self, change: impl FnOnce(&mut super::status::RangeFigures)) {
        let key = (self.lease.pipeline.clone(), self.lease.range.clone());
        if let Some(range) = lock(&self.shared.figures).ranges.get_mut(&key) {
            change(range);
        }
    }

    fn note_read(&self, ru: Charge) {
        let mut figures = lock(&self.shared.figures);
        let feed = figures
            .feeds
            .entry(self.lease.pipeline.clone())
            .or_default();
        feed.reads += 1;
        feed.ru.0 += ru.0;
    }

    /// Notes a finished reaction, and wakes the pipelines that read what it has written.
    fn note_reaction(
        &self,
        reaction: Reaction,
        item: &Value,
        sums: Sums,
        meter: &Meter,
        attempts: u32,
    ) {
        let now = Timestamp::now();
        let committed = committed_ms(item);
        let delivery_ms = committed.map(|(ms, precision)| {
            let delivery = now.as_microsecond() as f64 / 1e3 - ms;
            // The clocks of server and worker may differ.
            (delivery.max(0.0), precision)
        });
        let mut requests = meter.records();
        // The short copies in `users` are changes that no pipeline reacts to.
        if reaction != Reaction::CopyToUsers {
            self.shared.wake.ring_after(&requests);
        }
        requests.truncate(REQUESTS_KEPT);
        let is_dead_letter = sums.dead_letters > 0;
        {
            let mut figures = lock(&self.shared.figures);
            let key = (self.lease.pipeline.clone(), reaction.to_string());
            let of_reaction = figures.reactions.entry(key).or_default();
            of_reaction.processed += 1;
            of_reaction.written += sums.written;
            of_reaction.retries += sums.retries;
            of_reaction.dead_letters += sums.dead_letters;
            of_reaction.ru.0 += sums.ru.0;
            if let Some((ms, precision)) = delivery_ms.filter(|_| !is_dead_letter) {
                of_reaction.histogram(precision).add(ms);
            }
        }
        let id = |name: &str| {
            let id = item[name].as_str().filter(|id| !id.is_empty());
            id.map(str::to_owned)
        };
        let user_id = match reaction.reads_users() {
            true => id("id"),
            false => id("userId"),
        };
        self.shared.consequences.add(Consequence {
            at: now,
            pipeline: self.lease.pipeline.clone(),
            reaction: reaction.to_string(),
            range: self.lease.range.clone(),
            post_id: id("postId"),
            user_id,
            attempts,
            written: sums.written,
            ru: sums.ru,
            delivery_ms,
            requests,
            is_dead_letter,
        });
    }
}

impl Shared {
    /// Waits until the worker `id` may react no longer.
    async fn lapse_of(&self, id: &str) {
        loop {
            let until = lock(&self.membership).valid_until(id);
            match until {
                Some(until) if Instant::now() < until => sleep_until(until).await,
                _ => return,
            }
        }
    }

    /// Returns true if the worker `id` may react now.
    fn is_valid(&self, id: &str) -> bool {
        lock(&self.membership).is_valid(id, Instant::now())
    }
}

/// Returns the number of changes after a page: the difference between the partition's LSN and that
/// of the last change.
pub(super) fn lag_after(changes: &Changes) -> u64 {
    let last = changes.items.last().and_then(|item| item["_lsn"].as_u64());
    match (changes.lsn, last) {
        (Some(newest), Some(last)) => newest.saturating_sub(last),
        _ => 0,
    }
}

/// Returns the wait after the `n`-th failure in a row: doubled each time, and between half and
/// three halves of that at random, so that ranges do not retry all at once.
fn backoff(n: u32) -> Duration {
    let doubled = BACKOFF_MIN.saturating_mul(1 << n.min(10)).min(BACKOFF_MAX);
    let random = RandomState::new().hash_one(n) % 1_000;
    doubled / 2 + doubled * random as u32 / 1_000
}
