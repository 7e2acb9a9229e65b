//! The run of one piece of work of the agenda: a visit of one container, which does a bounded
//! amount and enters the time of the next visit.
//!
//! A failed visit is entered again for a second later, and the failure is returned.

use super::agenda::{Agenda, Subject};
use super::confirmed_clock::Clocks;
use super::link::Linked;
use super::{BackgroundTask, ClockJump, ITEMS_PER_STEP};
use crate::Engine;
use crate::catalog::Container;
use crate::container::view::ContainerView;
use crate::partition::{Partition, wait_while_moved};
use orrery_model::sync::lock;
use orrery_model::{Result, Rid};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Milliseconds between a visit that failed and the next.
const RETRY_MS: u64 = 1_000;
/// Milliseconds between two visits of a container with more to remove, so that requests come
/// between them.
const PAUSE_MS: u64 = 100;
/// Milliseconds between two steps of linking, so that requests get the processor.
const LINKING_PAUSE_MS: u64 = 10;
/// Milliseconds between two steps of splits that wait for a caller.
const FOLLOW_MS: u64 = 1_000;
/// Milliseconds after which removal looks again while the clock is not confirmed.
const UNCONFIRMED_MS: u64 = 60_000;
/// Milliseconds after which a removal stores the confirmed time again.
const STORED_TIME_AGE_MS: u64 = 10 * 60_000;
/// Containers that one run of the survey visits.
const SURVEYED: usize = 10;

/// The removal in one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Removed {
    /// Items or rows that were removed.
    pub(super) count: usize,
    /// True if there was more to remove than one commit should.
    pub(super) is_partial: bool,
    /// The second in which the next item or version is to be removed, if there is one.
    pub(super) next_seconds: Option<u64>,
}

/// Enters a piece of work again when it is dropped with a time: after an error or a panic.
struct Retry<'a> {
    agenda: &'a Agenda,
    task: BackgroundTask,
    subject: Subject,
    at_ms: Option<u64>,
}

impl Drop for Retry<'_> {
    fn drop(&mut self) {
        if let Some(at_ms) = self.at_ms {
            self.agenda.enter(self.task, self.subject, at_ms);
        }
    }
}

impl Engine {
    /// Sets the function that is called when a task has work earlier than it had before. The
    /// function must return at once. Only the first call has an effect.
    pub fn on_background_work(&self, listener: impl Fn(BackgroundTask) + Send + Sync + 'static) {
        self.agenda.set_listener(Box::new(listener));
    }

    /// Returns the milliseconds until a task has work: 0 if it has work now, `None` if it has none
    /// at all.
    pub fn background_work_in(&self, task: BackgroundTask) -> Option<u64> {
        let at_ms = self.agenda.next(task)?;
        Some(at_ms.saturating_sub(self.world.now_ms()))
    }

    /// Makes every task look at the clock again, after the clock was moved forward.
    pub fn clock_changed(&self) {
        for task in BackgroundTask::ALL {
            self.agenda.wake(task);
        }
    }

    /// Runs one piece of work of a task, if the time of one has come. Returns false if there was
    /// none.
    ///
    /// # Errors
    /// 500 and 503 as the store reports; the work stays on the agenda.
    pub fn run_background_work(&self, task: BackgroundTask) -> Result<bool> {
        let now = self.world.now_ms();
        let Some(subject) = self.agenda.take_due(task, now) else {
            return Ok(false);
        };
        let mut retry = Retry {
            agenda: &self.agenda,
            task,
            subject,
            at_ms: Some(now + RETRY_MS),
        };
        // Work follows settings, which may not be those of the rows.
        self.catalog().end_doubt()?;
        self.run_subject(task, subject)?;
        retry.at_ms = None;
        Ok(true)
    }

    fn run_subject(&self, task: BackgroundTask, subject: Subject) -> Result<()> {
        match subject {
            Subject::Container(rid) => {
                // A container that was deleted since has no work any more.
                if let Some(container) = self.catalog().container_of(rid) {
                    self.visit(task, &container)?;
                }
                Ok(())
            }
            Subject::Orphans => {
                if self.catalog().destroy_one_orphan()? {
                    self.agenda.enter(task, subject, self.world.now_ms());
                }
                Ok(())
            }
            Subject::RangeChanges => {
                self.advance_range_changes()?;
                if self.has_range_changes() {
                    let at = self.world.now_ms() + FOLLOW_MS;
                    self.agenda.enter(task, subject, at);
                }
                Ok(())
            }
            Subject::Unvisited => self.survey_some(),
        }
    }

    /// Does the work of a task in one container, and enters the next visit.
    fn visit(&self, task: BackgroundTask, container: &Arc<Container>) -> Result<()> {
        match task {
            BackgroundTask::Removal => self.visit_for_removal(container),
            BackgroundTask::KeyDeletion => self.visit_for_key_deletion(container),
            BackgroundTask::Splits => self.visit_for_splits(container),
            BackgroundTask::KeySizes => self.visit_for_key_sizes(container),
            BackgroundTask::Reindexing => {
                let step = self.reindex_some_of(container, ITEMS_PER_STEP);
                let now = self.world.now_ms();
                match wait_while_moved(step)? {
                    Some(false) => container.enter_linking(),
                    Some(true) => container.enter_work(task, now),
                    None => container.enter_work(task, now + RETRY_MS),
                }
                Ok(())
            }
            BackgroundTask::Linking => self.visit_for_linking(container),
            BackgroundTask::Survey => {
                for task in [
                    BackgroundTask::Removal,
                    BackgroundTask::KeyDeletion,
                    BackgroundTask::Splits,
                    BackgroundTask::Linking,
                ] {
                    self.visit(task, container)?;
                }
                Ok(())
            }
        }
    }

    fn visit_for_removal(&self, container: &Container) -> Result<()> {
        container.forget_removal();
        // A partition that cannot be read does not keep the others from their turn.
        let mut result = Ok(());
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            match wait_while_moved(self.remove_in(container, partition)) {
                Ok(removed) => {
                    if let Some(at_ms) = self.next_removal(removed) {
                        container.enter_work(BackgroundTask::Removal, at_ms);
                    }
                    if removed.is_some_and(|removed| removed.count > 0) {
                        self.store_confirmed_time(STORED_TIME_AGE_MS)?;
                    }
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Returns the millisecond of the next visit of a partition after a removal; `None` stands for
    /// a partition that is being replaced.
    fn next_removal(&self, removed: Option<Removed>) -> Option<u64> {
        let now = self.world.now_ms();
        let Some(removed) = removed else {
            return Some(now + RETRY_MS);
        };
        if removed.is_partial {
            return Some(now + PAUSE_MS);
        }
        // What the clock says is due and was not removed waits for a confirmed clock.
        let at_ms = removed.next_seconds?.saturating_mul(1000);
        Some(if at_ms <= now {
            now + UNCONFIRMED_MS
        } else {
            at_ms
        })
    }

    /// Removes expired items and old versions of one partition, a bounded number of each.
    fn remove_in(&self, container: &Container, partition: &Partition) -> Result<Removed> {
        self.begin_versions_of(container, partition)?;
        let versions = self.remove_old_versions_of(container, partition)?;
        let items = match container.settings().default_ttl {
            Some(_) => self.remove_expired_of(container, partition)?,
            None => Removed::default(),
        };
        self.meters().expired_items.add(items.count as u64);
        let next = versions.next_seconds.into_iter().chain(items.next_seconds);
        Ok(Removed {
            count: versions.count + items.count,
            is_partial: versions.is_partial || items.is_partial,
            next_seconds: next.min(),
        })
    }

    fn visit_for_key_deletion(&self, container: &Container) -> Result<()> {
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            let step = self.remove_some_deleted_by_key_of(container, partition);
            let now = self.world.now_ms();
            match wait_while_moved(step)? {
                Some(false) => {}
                Some(true) => container.enter_work(BackgroundTask::KeyDeletion, now),
                None => container.enter_work(BackgroundTask::KeyDeletion, now + RETRY_MS),
            }
        }
        Ok(())
    }

    fn visit_for_linking(&self, container: &Container) -> Result<()> {
        // A partition that fails does not keep the others from their turn.
        let mut result = Ok(());
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            let Some(request) = partition.linking_request() else {
                continue;
            };
            let step = self.link_some_of(container, partition);
            let now = self.world.now_ms();
            let at_ms = match wait_while_moved(step) {
                Ok(Some(Linked::All)) => {
                    partition.note_linked(request);
                    continue;
                }
                Ok(Some(Linked::Some)) => now + LINKING_PAUSE_MS,
                Ok(Some(Linked::Waits) | None) => now + RETRY_MS,
                Err(error) => {
                    result = result.and(Err(error));
                    now + RETRY_MS
                }
            };
            container.enter_work(BackgroundTask::Linking, at_ms);
        }
        result
    }

    /// Begins the splits of a container that throughput or size ask for.
    fn visit_for_splits(&self, container: &Arc<Container>) -> Result<()> {
        if !self.owners.reads_all() {
            self.leave_to_leaseholder(container);
            return Ok(());
        }
        self.catalog().raise_autoscale_offer_of(container)?;
        let split = self.split_container(container);
        for partition in container.partitions().iter() {
            partition.expect_growth(
                container.partition_bytes_max(),
                self.catalog().gigabyte_bytes(),
            );
        }
        split
    }
}

/// The confirmed clock.
impl Engine {
    /// Sets the function that hears of jumps of the clock. The function must return at once. Only
    /// the first call has an effect.
    pub fn on_clock_jump(&self, listener: impl Fn(ClockJump) + Send + Sync + 'static) {
        self.confirmed_clock.set_listener(Box::new(listener));
    }

    /// Begins the confirmed clock, see `confirmed_clock.rs`.
    pub(crate) fn begin_confirmed_clock(&self) -> Result<()> {
        let stored = match self.database_count() {
            0 => None,
            _ => Some(self.catalog().confirmed_time()?.unwrap_or(0)),
        };
        self.stored_time_ms
            .store(stored.unwrap_or(0), Ordering::Relaxed);
        self.confirmed_clock.begin(stored, self.clocks());
        self.report_if_misdated(self.catalog().last_stamp());
        Ok(())
    }

    /// Begins the confirmed clock of an owner with the confirmed time of the leaseholder.
    pub(crate) fn begin_clock_of_owner(&self, confirmed_ms: u64) {
        self.confirmed_clock
            .begin(Some(confirmed_ms), self.clocks());
    }

    /// Returns the confirmed time in milliseconds since 1970.
    pub fn confirmed_ms(&self) -> u64 {
        self.confirmed_clock.look(self.clocks())
    }

    /// Returns the second up to which expired items and old versions may be removed.
    pub(super) fn confirmed_seconds(&self) -> u64 {
        self.confirmed_ms() / 1000
    }

    fn clocks(&self) -> Clocks {
        Clocks {
            wall_ms: self.world.now_ms(),
            monotonic_ms: self.world.monotonic_ms(),
        }
    }

    /// Stores the confirmed time, if it is more than `age_ms` later than the one that is stored. A
    /// server without databases stores none.
    ///
    /// # Errors
    /// 500 and 503 as the store reports.
    pub(crate) fn store_confirmed_time(&self, age_ms: u64) -> Result<()> {
        let confirmed_ms = self.confirmed_clock.look(self.clocks());
        let stored_ms = self.stored_time_ms.load(Ordering::Relaxed);
        let is_due = confirmed_ms > stored_ms.saturating_add(age_ms);
        // The leaseholder stores the time for all owners.
        if !is_due || self.database_count() == 0 || !self.owners.reads_all() {
            return Ok(());
        }
        self.catalog().store_confirmed_time(confirmed_ms)?;
        self.stored_time_ms.store(confirmed_ms, Ordering::Relaxed);
        Ok(())
    }
}

/// The survey.
impl Engine {
    /// Enters the work of all containers that follows from the catalog, and lets the survey visit
    /// all of them for the work that only their partitions know. Called when the engine opens and
    /// after everything was replaced.
    pub(crate) fn plan_background_work(&self) {
        let now = self.world.now_ms();
        let (mut soon, mut later) = (Vec::new(), Vec::new());
        for container in self.catalog().all_containers() {
            if !container.policies().older.is_empty() {
                container.enter_work(BackgroundTask::Reindexing, now);
            }
            if self.has_too_few_partitions(&container) {
                container.enter_work(BackgroundTask::Splits, now);
            }
            let settings = container.settings();
            let removes = settings.default_ttl.is_some() || settings.retention_seconds.is_some();
            match removes {
                true => soon.push(container.rid()),
                false => later.push(container.rid()),
            }
        }
        // The list is taken from its end.
        later.extend(soon);
        *lock(&self.unvisited) = later;
        self.agenda
            .enter(BackgroundTask::Survey, Subject::Unvisited, 0);
        self.agenda
            .enter(BackgroundTask::Removal, Subject::Orphans, 0);
    }

    /// Visits some containers that were not visited since the start.
    fn survey_some(&self) -> Result<()> {
        for _ in 0..SURVEYED {
            let Some(rid) = lock(&self.unvisited).pop() else {
                return Ok(());
            };
            self.survey(rid)
                .inspect_err(|_| lock(&self.unvisited).insert(0, rid))?;
        }
        self.agenda
            .enter(BackgroundTask::Survey, Subject::Unvisited, 0);
        Ok(())
    }

    fn survey(&self, rid: Rid) -> Result<()> {
        match self.catalog().container_of(rid) {
            Some(container) => {
                self.look_for_misdated(&container)?;
                self.visit(BackgroundTask::Survey, &container)
            }
            None => Ok(()),
        }
    }
}
