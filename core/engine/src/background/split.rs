//! Splits and merges: physical partitions are replaced by their successors while clients read and
//! write.
//!
//! ```text
//! Copying ──▶ Copied ──▶ Completing ──▶ Done
//!  rounds      follows     410/1007      410/1002
//!
//! a failure before Done leads to Failed, a request to Cancelled; the old partitions then serve on
//! ```
//!
//! The successors are written to new key spaces of the store that belong to no partition (see
//! `catalog.rs`), so a process that ends on the way leaves nothing behind that the next one would
//! not remove. One commit of the catalog makes them partitions of the container and retires the old
//! ones: before that commit everything is as it was, after it everything is new. The writers of the
//! old partitions are locked from the last round of copying to that commit; clients wait for these
//! few milliseconds, unless the steps are taken one by one.
//!
//! Splits begin by themselves when the container is provisioned with more throughput than its
//! partitions carry, and when a partition holds more bytes than it may. Merges are made on request
//! only.
//!
//! # A range change, step by step
//!
//! 1. [`Engine::begin_range_change`] determines the partitions to replace and the EPK ranges of
//!    their successors, and reserves key spaces of the store as orphans, which are destroyed at the
//!    next start if the process ends before the switch. The management API calls it, and so does
//!    [`Engine::split_where_needed`].
//! 2. `PartitionCopy::begin` makes the writer of each source record the rows of its commits
//!    (`partition/change_capture.rs`).
//! 3. `PartitionCopy::round` takes a new snapshot, applies the recorded commits to the rows that
//!    are already copied, and copies about `ROUND_BYTES` more, each row to the successor that
//!    `Routing` names. Rounds are repeated until everything is copied.
//! 4. `Catalog::replace_partitions` locks the writers of the sources, runs a last round
//!    (`PartitionCopy::finish`), and replaces the partitions in one commit of the catalog. The
//!    spent, owed and saved part of the budget is passed to the successors before requests find
//!    them (`throughput/succession.rs`).
//! 5. The old partitions enter `Phase::Gone`: `Partition::lock` and `Partition::snapshot` refuse,
//!    and `retry_if_moved` looks the successor up. A request that names the old range id gets
//!    410/1002.
//! 6. Positions that clients kept name the old range: `Reach::continue_after` reads its successors
//!    in the old order, `check_session` accepts tokens of all ancestors, and LSNs continue above
//!    those of the sources.
//!
//! # The modules
//!
//! | module | holds |
//! |---|---|
//! | `copy` | copying in rounds, following commits, the last round |
//! | `routing` | the target of each row |

mod copy;
mod routing;

use super::BackgroundTask;
use super::agenda::Subject;
use crate::Engine;
use crate::catalog::{Container, Successors};
use crate::container::view::ContainerView;
use crate::errors::damaged;
use crate::partition::keys;
use crate::partition::{Partition, Phase, scan};
use crate::request::{RangeChange, RangeChangeStage, RangeChangeStatus, SplitAt};
use copy::PartitionCopy;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result};
use orrery_storage::Direction;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Milliseconds after which the splits of a container are looked at again when one has ended before
/// it was done.
const RETRY_MS: u64 = 1_000;
/// Splits and merges that are listed after they are over.
const LISTED_MAX: usize = 100;

/// All splits and merges of an engine.
#[derive(Default)]
pub(crate) struct RangeChanges {
    last_id: AtomicU64,
    all: Mutex<VecDeque<Arc<Operation>>>,
}

/// One split or merge.
struct Operation {
    container: Arc<Container>,
    /// The copy; taken by the thread that runs a step, and dropped when the operation is over.
    copy: Mutex<Option<PartitionCopy>>,
    status: Mutex<RangeChangeStatus>,
}

impl Operation {
    fn status(&self) -> RangeChangeStatus {
        lock(&self.status).clone()
    }

    fn update(&self, change: impl FnOnce(&mut RangeChangeStatus)) {
        change(&mut lock(&self.status));
    }

    fn is_over(&self) -> bool {
        lock(&self.status).stage.is_over()
    }
}

/// Requests of the operator.
impl Engine {
    /// Begins a split or merge. A stepwise one is continued by [`Engine::step_range_change`], any
    /// other by [`Engine::finish_range_change`] or by the next [`Engine::split_where_needed`].
    ///
    /// # Errors
    /// 400 for a border with nothing on one side, for ranges that are not adjacent and for fewer
    /// than two ranges; 404 for a container that is gone; 409 if a partition is being split or
    /// merged already; 410/1002 for a range that does not exist.
    pub fn begin_range_change(
        &self,
        container: &Arc<Container>,
        change: RangeChange,
        stepwise: bool,
    ) -> Result<RangeChangeStatus> {
        let Plan { sources, ranges } = plan(container, &change)?;
        let storage_ids = self.catalog().new_storage_ids(ranges.len())?;
        let targets: Vec<_> = storage_ids.iter().copied().zip(ranges).collect();
        let hashing = container.partition_key().hashing();
        let begun = PartitionCopy::begin(&self.store, &self.world, hashing, &sources, &targets);
        let copy = begun.inspect_err(|_| self.catalog().release_storage_ids(storage_ids))?;
        let status = RangeChangeStatus {
            id: self.range_changes.last_id.fetch_add(1, Ordering::Relaxed) + 1,
            database: container.database_id().to_owned(),
            container: container.id().to_owned(),
            change,
            stepwise,
            stage: RangeChangeStage::Copying,
            copied_bytes: 0,
            new_ranges: Vec::new(),
            failure: None,
            began_ms: self.world.now_ms(),
            ended_ms: None,
        };
        let operation = Arc::new(Operation {
            container: Arc::clone(container),
            copy: Mutex::new(Some(copy)),
            status: Mutex::new(status.clone()),
        });

        // The list is bounded: the oldest operation that is over makes way.
        let mut all = lock(&self.range_changes.all);
        if all.len() >= LISTED_MAX
            && let Some(oldest) = all.iter().position(|operation| operation.is_over())
        {
            all.remove(oldest);
        }
        all.push_back(operation);
        drop(all);
        self.agenda
            .enter(BackgroundTask::Splits, Subject::RangeChanges, 0);
        Ok(status)
    }

    /// Returns the splits and merges that are running and the last that are over, the oldest first.
    pub fn range_changes(&self) -> Vec<RangeChangeStatus> {
        let operations = self.operations();
        operations
            .iter()
            .map(|operation| operation.status())
            .collect()
    }

    /// Returns a split or merge.
    ///
    /// # Errors
    /// 404 if there is none with this id.
    pub fn range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        Ok(self.operation(id)?.status())
    }

    /// Runs the next step of a split or merge. A failure is part of the status.
    ///
    /// # Errors
    /// 404 if there is none with this id.
    pub fn step_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        self.run_step(&operation);
        Ok(operation.status())
    }

    /// Runs all remaining steps of a split or merge. A failure is part of the status.
    ///
    /// # Errors
    /// 404 if there is none with this id.
    pub fn finish_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        while !operation.is_over() {
            self.run_step(&operation);
        }
        Ok(operation.status())
    }

    /// Cancels a split or merge. One that is over stays as it is.
    ///
    /// # Errors
    /// 404 if there is none with this id.
    pub fn cancel_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        // The lock is held until the stage is final, so that no other thread sees one in between.
        let mut taken = lock(&operation.copy);
        if let Some(copy) = taken.take() {
            self.end(&operation, &copy, RangeChangeStage::Cancelled, None);
        }
        drop(taken);
        Ok(operation.status())
    }

    fn operations(&self) -> Vec<Arc<Operation>> {
        lock(&self.range_changes.all).iter().cloned().collect()
    }

    fn operation(&self, id: u64) -> Result<Arc<Operation>> {
        for operation in self.operations() {
            if lock(&operation.status).id == id {
                return Ok(operation);
            }
        }
        Err(Error::new(
            Kind::NotFound,
            format!("There is no split or merge with the number {id}."),
        ))
    }
}

/// Steps.
impl Engine {
    /// Runs the next step of an operation that no other thread is working on.
    fn run_step(&self, operation: &Operation) {
        let mut taken = lock(&operation.copy);
        let Some(mut copy) = taken.take() else {
            return;
        };
        let RangeChangeStatus {
            stage, stepwise, ..
        } = operation.status();
        let next = match stage {
            RangeChangeStage::Copying => self
                .copy_all(operation, &mut copy)
                .map(|()| RangeChangeStage::Copied),
            // Only stepwise operations stop here, so that a test can see 410/1007.
            RangeChangeStage::Copied if stepwise => {
                for source in copy.sources() {
                    source.set_phase(Phase::Completing);
                }
                Ok(RangeChangeStage::Completing)
            }
            _ => self
                .complete(operation, &mut copy)
                .map(|()| RangeChangeStage::Done),
        };
        match next {
            Ok(RangeChangeStage::Done) => {
                let now = self.world.now_ms();
                operation.update(|status| {
                    status.stage = RangeChangeStage::Done;
                    status.ended_ms = Some(now);
                });
            }
            Ok(stage) => {
                operation.update(|status| {
                    status.stage = stage;
                    status.copied_bytes = copy.copied_bytes;
                });
                *taken = Some(copy);
            }
            Err(error) => self.fail(operation, &copy, &error),
        }
    }

    fn copy_all(&self, operation: &Operation, copy: &mut PartitionCopy) -> Result<()> {
        while !copy.round()? {
            operation.update(|status| status.copied_bytes = copy.copied_bytes);
        }
        Ok(())
    }

    /// Replaces the sources by the targets in one commit of the catalog.
    fn complete(&self, operation: &Operation, copy: &mut PartitionCopy) -> Result<()> {
        // Commits since the last round are followed now, before clients have to wait.
        copy.round()?;
        let container = &operation.container;
        let sources: Vec<_> = copy.sources().cloned().collect();
        let new_ranges = self
            .catalog()
            .replace_partitions(container, &sources, |writers| {
                copy.finish(container, writers)?;
                Ok(Successors {
                    partitions: copy.targets(),
                    mixed_until: copy.mixed_until(),
                })
            })?;
        operation.update(|status| {
            status.copied_bytes = copy.copied_bytes;
            status.new_ranges = new_ranges;
        });
        Ok(())
    }

    /// Lets the copy of an operation that waits for its next step follow the commits of its
    /// sources, so that captured commits do not pile up in memory.
    fn follow(&self, operation: &Operation) {
        let Ok(mut taken) = operation.copy.try_lock() else {
            return;
        };
        if operation.status().stage != RangeChangeStage::Copied {
            return;
        }
        let Some(mut copy) = taken.take() else {
            return;
        };
        match copy.round() {
            Ok(_) => *taken = Some(copy),
            Err(error) => self.fail(operation, &copy, &error),
        }
    }

    fn fail(&self, operation: &Operation, copy: &PartitionCopy, error: &Error) {
        self.end(operation, copy, RangeChangeStage::Failed, Some(error));
    }

    /// Ends an operation before it is done: the sources serve on, the targets are destroyed.
    fn end(
        &self,
        operation: &Operation,
        copy: &PartitionCopy,
        stage: RangeChangeStage,
        error: Option<&Error>,
    ) {
        for source in copy.sources() {
            source.serve_after(Phase::Completing);
        }
        // A commit of the catalog that may have taken place gave the targets to the container: they
        // stay, and the next start destroys them if nothing uses them.
        let may_be_used = error.is_some_and(|error| error.kind() == Kind::UnknownOutcome);
        if !may_be_used {
            let targets = copy.targets().into_iter();
            self.catalog()
                .release_storage_ids(targets.map(|(storage_id, _)| storage_id));
        }
        let failure = error.map(Error::operator_text);
        let now = self.world.now_ms();
        operation.update(|status| {
            status.stage = stage;
            status.failure = failure;
            status.ended_ms = Some(now);
        });
        // The container may want a split that this operation held up.
        operation
            .container
            .enter_work(BackgroundTask::Splits, now + RETRY_MS);
    }
}

/// Splits that begin by themselves.
impl Engine {
    /// Raises the throughput that scales with the stored data, begins and finishes the splits that
    /// throughput and size ask for, finishes operations that are not stepwise, and lets those that
    /// wait for their next step follow their partitions.
    ///
    /// # Errors
    /// The first failure. The rest is done nevertheless, and the next call begins the failed split
    /// again.
    pub fn split_where_needed(&self) -> Result<()> {
        let mut first_failure = self.catalog().raise_autoscale_offers().err();
        for container in self.catalog().all_containers() {
            if let Err(failure) = self.split_container(&container) {
                first_failure.get_or_insert(failure);
            }
        }
        self.advance_range_changes()?;
        match first_failure {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Begins and finishes the splits that the throughput and the size of a container ask for.
    ///
    /// # Errors
    /// The first failure, after which the container is left to the next call.
    pub(super) fn split_container(&self, container: &Arc<Container>) -> Result<()> {
        while let Some(change) = self.wanted_split(container)? {
            // A refusal means that another split of the partition is running.
            let Ok(begun) = self.begin_range_change(container, change, false) else {
                return Ok(());
            };
            let Ok(ended) = self.finish_range_change(begun.id) else {
                return Ok(());
            };
            if ended.stage != RangeChangeStage::Done {
                return match ended.failure {
                    Some(failure) => Err(Error::internal(failure)),
                    None => Ok(()),
                };
            }
        }
        Ok(())
    }

    /// Finishes splits and merges that are not stepwise, and lets those that wait for their next
    /// step follow their partitions.
    pub(super) fn advance_range_changes(&self) -> Result<()> {
        for operation in self.operations() {
            if operation.is_over() {
                continue;
            }
            let RangeChangeStatus { id, stepwise, .. } = operation.status();
            if stepwise {
                self.follow(&operation);
            } else {
                self.finish_range_change(id)?;
            }
        }
        Ok(())
    }

    /// Returns true if a split or merge is under way.
    pub(super) fn has_range_changes(&self) -> bool {
        let operations = self.operations();
        operations.iter().any(|operation| !operation.is_over())
    }

    /// Returns true if the throughput of a container needs more partitions than there are.
    pub(super) fn has_too_few_partitions(&self, container: &Container) -> bool {
        let offer = self.catalog().offer_of(container.rid());
        offer.is_some_and(|offer| container.lacks_partitions_for(&offer))
    }

    /// Returns the ranges that are being split, or will be for the throughput of the container.
    pub(crate) fn ranges_to_split(&self, container: &Container) -> Vec<u32> {
        let mut ranges = Vec::new();
        for operation in self.operations() {
            if operation.container.rid() != container.rid() {
                continue;
            }
            let status = operation.status();
            if let RangeChange::Split { range, .. } = status.change
                && !status.stage.is_over()
            {
                ranges.push(range);
            }
        }
        ranges.extend(self.ranges_for_throughput(container));
        ranges
    }

    /// Returns the ranges that have to be split for the throughput of the container, the widest
    /// first.
    fn ranges_for_throughput(&self, container: &Container) -> Vec<u32> {
        let needed = match self.catalog().offer_of(container.rid()) {
            Some(offer) if !container.has_one_partition() => offer.partitions(),
            _ => 0,
        };
        let partitions = container.partitions();
        let missing = needed.saturating_sub(partitions.len());
        let hashing = container.partition_key().hashing();
        let mut widest: Vec<_> = partitions.iter().collect();
        widest.sort_by_key(|p| (Reverse(p.range.width(hashing)), p.id));
        widest.iter().take(missing).map(|p| p.id).collect()
    }

    /// Returns the split that the throughput or the size of a container asks for next.
    fn wanted_split(&self, container: &Container) -> Result<Option<RangeChange>> {
        if let Some(range) = self.ranges_for_throughput(container).first() {
            return Ok(Some(RangeChange::Split {
                range: *range,
                at: SplitAt::Middle,
            }));
        }
        if container.has_one_partition() {
            return Ok(None);
        }
        for partition in container.partitions().iter() {
            let Ok(snapshot) = partition.snapshot_of_accepted() else {
                continue;
            };
            let bytes = Partition::counters(snapshot.as_ref())?.bytes;
            let is_large = bytes > container.partition_bytes_max();
            // A partition with one partition key cannot be split.
            if is_large && median(partition)?.is_some() {
                return Ok(Some(RangeChange::Split {
                    range: partition.id,
                    at: SplitAt::Median,
                }));
            }
        }
        Ok(None)
    }
}

/// The partitions that are replaced, and the EPK ranges of their successors.
struct Plan {
    sources: Vec<Arc<Partition>>,
    ranges: Vec<EpkRange>,
}

fn plan(container: &Container, change: &RangeChange) -> Result<Plan> {
    match change {
        RangeChange::Split { range, at } => plan_split(container, *range, at),
        RangeChange::Merge { ranges } => plan_merge(container, ranges),
    }
}

fn plan_split(container: &Container, range: u32, at: &SplitAt) -> Result<Plan> {
    let partition = container.partition_by_id(range)?;
    if container.has_one_partition() {
        return Err(Error::bad(
            "A container that was created without a partition key has one physical partition, \
             which cannot be split.",
        ));
    }
    let border = match at {
        SplitAt::Middle => partition
            .range
            .midpoint(container.partition_key().hashing()),
        SplitAt::Median => median(&partition)?,
        SplitAt::Border(epk) => Some(epk.clone()),
    };
    let EpkRange { min, max } = partition.range.clone();
    match border {
        Some(border) if min < border && border < max => Ok(Plan {
            sources: vec![partition],
            ranges: vec![
                EpkRange::new(min, border.clone()),
                EpkRange::new(border, max),
            ],
        }),
        _ => Err(Error::bad(format!(
            "The partition key range {range} cannot be split there: nothing lies on one of the sides."
        ))),
    }
}

fn plan_merge(container: &Container, ranges: &[u32]) -> Result<Plan> {
    let mut sources = Vec::with_capacity(ranges.len());
    for id in ranges {
        sources.push(container.partition_by_id(*id)?);
    }
    sources.sort_by(|a, b| a.range.min.cmp(&b.range.min));
    let are_adjacent = sources
        .windows(2)
        .all(|pair| pair[0].range.max == pair[1].range.min);
    match &sources[..] {
        [first, .., last] if are_adjacent => {
            let whole = EpkRange::new(first.range.min.clone(), last.range.max.clone());
            Ok(Plan {
                sources,
                ranges: vec![whole],
            })
        }
        _ => Err(Error::bad(
            "A merge needs two or more partition key ranges that lie side by side.",
        )),
    }
}

/// Returns the first partition key behind about half of a partition's items, or `None` if all items
/// have one partition key.
fn median(partition: &Partition) -> Result<Option<Epk>> {
    let snapshot = partition.snapshot()?;
    let half = Partition::counters(snapshot.as_ref())?.items / 2;
    let mut first = None;
    let mut median = None;
    let rows = scan(snapshot.as_ref(), &keys::primaries(), Direction::Forward);
    for (passed, row) in (0..).zip(rows) {
        let (key, _) = row?;
        let epk = match keys::kept(&key) {
            Some(keys::Kept::OfKey(epk)) => Epk::from_bytes(epk),
            _ => return Err(damaged("a primary key row")),
        };
        let first = first.get_or_insert_with(|| epk.clone());
        // A border before the first key would leave the left side empty.
        if *first != epk {
            median = Some(epk);
            if passed >= half {
                break;
            }
        }
    }
    Ok(median)
}
