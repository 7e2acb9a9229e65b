//! Splits and merges: other physical partitions take the place of some, while clients go on reading and writing.
//!
//! ```text
//! Copying ──▶ Copied ──▶ Completing ──▶ Done          a failure on the way: Failed, and everything is as it was before
//!  rounds      follows     410/1007      410/1002
//! ```
//! The new partitions are made in homes that belong to nobody (see `catalog.rs`), so that a process that ends on the way
//! leaves nothing behind but what the next one removes. One commit of the catalog makes them the container's and the old
//! ones nobody's: before it all is as it was, after it all is new. The old partition's writer is held from the last round
//! of copying to that commit; clients wait for these few milliseconds, unless somebody takes the steps one by one.
//!
//! Splits begin by themselves when more throughput is provisioned than the partitions carry, and when one holds more than
//! it may; merges only when they are asked for.

mod copy;
mod routing;

use crate::Engine;
use crate::catalog::{Container, NewRanges};
use crate::partition::keys;
use crate::partition::{Partition, Phase, scan};
use crate::request::{RangeChange, RangeChangeStage, RangeChangeStatus, SplitAt};
use copy::PartitionCopy;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result};
use orrery_storage::Direction;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Splits and merges that are over and still told of.
const REMEMBERED: usize = 100;

/// All splits and merges of an engine.
#[derive(Default)]
pub(crate) struct RangeChanges {
    last_id: AtomicU64,
    all: Mutex<VecDeque<Arc<Operation>>>,
}

/// One split or merge.
struct Operation {
    container: Arc<Container>,
    /// The work; taken by whoever does some of it.
    moving: Mutex<Option<PartitionCopy>>,
    status: Mutex<RangeChangeStatus>,
}

impl Operation {
    fn status(&self) -> RangeChangeStatus {
        lock(&self.status).clone()
    }

    fn note(&self, note: impl FnOnce(&mut RangeChangeStatus)) {
        note(&mut lock(&self.status));
    }

    fn is_over(&self) -> bool {
        self.status().stage.is_over()
    }
}

impl Engine {
    /// Begins a split or merge. It is carried on by [`Engine::step_range_change`] if it is stepwise, else by
    /// [`Engine::finish_range_change`] or, by and by, [`Engine::split_where_needed`].
    ///
    /// # Errors
    /// 400 for a border that parts nothing, ranges that are no neighbours or fewer than two; 404 for a container that is
    /// gone; 409 if a partition is being split or merged already; 410/1002 for a range that does not exist.
    pub fn begin_range_change(
        &self,
        container: &Arc<Container>,
        change: RangeChange,
        stepwise: bool,
    ) -> Result<RangeChangeStatus> {
        let (sources, ranges) = plan(container, &change)?;
        let homes = self.catalog().new_homes(ranges.len())?;
        let targets: Vec<_> = homes.iter().copied().zip(ranges).collect();
        let hashing = container.partition_key().hashing();
        let begun = PartitionCopy::begin(&self.store, &self.world, hashing, &sources, &targets);
        let moving = begun.inspect_err(|_| self.catalog().give_up_homes(homes))?;
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
            moving: Mutex::new(Some(moving)),
            status: Mutex::new(status.clone()),
        });
        let mut all = lock(&self.range_changes.all);
        if all.len() >= REMEMBERED
            && let Some(oldest) = all.iter().position(|operation| operation.is_over())
        {
            all.remove(oldest);
        }
        all.push_back(operation);
        Ok(status)
    }

    /// The splits and merges under way, and the last that are over; oldest first.
    pub fn range_changes(&self) -> Vec<RangeChangeStatus> {
        self.operations()
            .iter()
            .map(|operation| operation.status())
            .collect()
    }

    /// A split or merge.
    ///
    /// # Errors
    /// 404.
    pub fn range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        Ok(self.operation(id)?.status())
    }

    /// Does the next step of a split or merge. A failure is in what comes back.
    ///
    /// # Errors
    /// 404 for an unknown one.
    pub fn step_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        self.step_of(&operation);
        Ok(operation.status())
    }

    /// Does all that is left of a split or merge. A failure is in what comes back.
    ///
    /// # Errors
    /// 404 for an unknown one.
    pub fn finish_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        while !operation.is_over() {
            self.step_of(&operation);
        }
        Ok(operation.status())
    }

    /// Gives a split or merge up. One that is over stays what it is.
    ///
    /// # Errors
    /// 404 for an unknown one.
    pub fn cancel_range_change(&self, id: u64) -> Result<RangeChangeStatus> {
        let operation = self.operation(id)?;
        let mut moving = lock(&operation.moving);
        if let Some(moving) = moving.take() {
            self.give_up(&operation, &moving, RangeChangeStage::Cancelled, None);
        }
        drop(moving);
        Ok(operation.status())
    }

    /// Raises the throughput that scales to what is stored, begins the splits that throughput and size ask for, finishes what is not stepwise, and lets what waits for its
    /// next step follow its partitions.
    ///
    /// # Errors
    /// The first failure; the rest is done nevertheless, and what failed is begun again next time.
    pub fn split_where_needed(&self) -> Result<()> {
        let mut first_failure = self.catalog().grow_offers().err();
        for container in self.catalog().all_containers() {
            while let Some(change) = self.wanted_split(&container)? {
                match self
                    .begin_range_change(&container, change, false)
                    .map(|begun| self.finish_range_change(begun.id))
                {
                    Ok(Ok(RangeChangeStatus {
                        stage: RangeChangeStage::Done,
                        ..
                    })) => {}
                    Ok(Ok(RangeChangeStatus {
                        failure: Some(failure),
                        ..
                    })) => {
                        first_failure.get_or_insert(Error::internal(failure));
                        break;
                    }
                    // Somebody else is at it.
                    _ => break,
                }
            }
        }
        for operation in self
            .operations()
            .iter()
            .filter(|operation| !operation.is_over())
        {
            let RangeChangeStatus { id, stepwise, .. } = operation.status();
            match stepwise {
                true => self.follow(operation),
                false => _ = self.finish_range_change(id)?,
            }
        }
        first_failure.map_or(Ok(()), Err)
    }

    fn operations(&self) -> Vec<Arc<Operation>> {
        lock(&self.range_changes.all).iter().cloned().collect()
    }

    fn operation(&self, id: u64) -> Result<Arc<Operation>> {
        let found = self
            .operations()
            .into_iter()
            .find(|operation| operation.status().id == id);
        found.ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("There is no split or merge with the number {id}."),
            )
        })
    }

    fn step_of(&self, operation: &Operation) {
        let mut moving = lock(&operation.moving);
        let Some(mut work) = moving.take() else {
            return;
        };
        let RangeChangeStatus {
            stage, stepwise, ..
        } = operation.status();
        let done = match stage {
            RangeChangeStage::Copying => self
                .copy(operation, &mut work)
                .map(|()| RangeChangeStage::Copied),
            RangeChangeStage::Copied if stepwise => {
                work.sources()
                    .for_each(|source| source.set_phase(Phase::Completing));
                Ok(RangeChangeStage::Completing)
            }
            _ => self
                .complete(operation, &mut work)
                .map(|()| RangeChangeStage::Done),
        };
        match done {
            Ok(RangeChangeStage::Done) => {
                let now = self.world.now_ms();
                operation.note(|status| {
                    (status.stage, status.ended_ms) = (RangeChangeStage::Done, Some(now))
                });
            }
            Ok(stage) => {
                operation.note(|status| {
                    (status.stage, status.copied_bytes) = (stage, work.copied_bytes)
                });
                *moving = Some(work);
            }
            Err(error) => self.fail(operation, &work, &error),
        }
    }

    fn copy(&self, operation: &Operation, moving: &mut PartitionCopy) -> Result<()> {
        while !moving.round()? {
            operation.note(|status| status.copied_bytes = moving.copied_bytes);
        }
        Ok(())
    }

    /// The copy of one that waits for its next step follows what is written, so that it need not be remembered.
    fn follow(&self, operation: &Operation) {
        let Ok(mut moving) = operation.moving.try_lock() else {
            return;
        };
        if operation.status().stage != RangeChangeStage::Copied {
            return;
        }
        let Some(mut work) = moving.take() else {
            return;
        };
        match work.round() {
            Ok(_) => *moving = Some(work),
            Err(error) => self.fail(operation, &work, &error),
        }
    }

    fn complete(&self, operation: &Operation, moving: &mut PartitionCopy) -> Result<()> {
        // What came since the copy was made is followed before anybody has to wait.
        moving.round()?;
        let (container, sources) = (
            &operation.container,
            moving.sources().cloned().collect::<Vec<_>>(),
        );
        let new_ranges = self
            .catalog()
            .replace_partitions(container, &sources, |held| {
                moving.finish(container, held)?;
                Ok(NewRanges {
                    homes: moving.targets(),
                    mixed_until: moving.mixed_until(),
                })
            })?;
        operation.note(|status| {
            status.copied_bytes = moving.copied_bytes;
            status.new_ranges = new_ranges;
        });
        Ok(())
    }

    fn fail(&self, operation: &Operation, moving: &PartitionCopy, error: &Error) {
        let cause = error.cause_chain();
        let cause = if cause.is_empty() {
            error.message().to_owned()
        } else {
            cause
        };
        self.give_up(operation, moving, RangeChangeStage::Failed, Some(cause));
    }

    /// Everything is as it was before.
    fn give_up(
        &self,
        operation: &Operation,
        moving: &PartitionCopy,
        stage: RangeChangeStage,
        failure: Option<String>,
    ) {
        moving
            .sources()
            .for_each(|source| source.set_phase(Phase::Serving));
        self.catalog()
            .give_up_homes(moving.targets().into_iter().map(|(home, _)| home));
        let now = self.world.now_ms();
        operation.note(|status| {
            (status.stage, status.failure, status.ended_ms) = (stage, failure, Some(now))
        });
    }

    /// The ranges that are being split, or will be for the container's throughput.
    pub(crate) fn ranges_to_split(&self, container: &Container) -> Vec<u32> {
        let under_way = self
            .operations()
            .into_iter()
            .filter(|operation| operation.container.rid() == container.rid());
        let split = |operation: Arc<Operation>| match operation.status() {
            RangeChangeStatus {
                stage,
                change: RangeChange::Split { range, .. },
                ..
            } if !stage.is_over() => Some(range),
            _ => None,
        };
        under_way
            .filter_map(split)
            .chain(self.ranges_for_throughput(container))
            .collect()
    }

    /// The ranges that have to be split for the container's throughput: one half at a time, and the widest first.
    fn ranges_for_throughput(&self, container: &Container) -> Vec<u32> {
        let partitions = container.partitions();
        let needed = self
            .catalog()
            .offer_of(container.rid())
            .map_or(0, |offer| offer.partitions());
        let hashing = container.partition_key().hashing();
        let mut widest: Vec<_> = partitions.iter().collect();
        widest.sort_by_key(|p| (std::cmp::Reverse(p.range.width(hashing)), p.id));
        widest
            .iter()
            .take(needed.saturating_sub(partitions.len()))
            .map(|p| p.id)
            .collect()
    }

    /// The split that a container's throughput or size asks for next.
    fn wanted_split(&self, container: &Container) -> Result<Option<RangeChange>> {
        if let Some(range) = self.ranges_for_throughput(container).first() {
            return Ok(Some(RangeChange::Split {
                range: *range,
                at: SplitAt::Middle,
            }));
        }
        for partition in container.partitions().iter() {
            let Ok(snapshot) = partition.snapshot_while_completing() else {
                continue;
            };
            let is_large = Partition::counters(snapshot.as_ref())?.bytes > self.partition_bytes;
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

/// The partitions that go, and the stretches of those that come.
fn plan(
    container: &Container,
    change: &RangeChange,
) -> Result<(Vec<Arc<Partition>>, Vec<EpkRange>)> {
    match change {
        RangeChange::Split { range, at } => {
            let partition = container.partition_by_id(*range)?;
            let border = match at {
                SplitAt::Middle => partition
                    .range
                    .midpoint(container.partition_key().hashing()),
                SplitAt::Median => median(&partition)?,
                SplitAt::Border(epk) => Some(epk.clone()),
            };
            let EpkRange { min, max } = partition.range.clone();
            let border = border.filter(|border| min < *border && *border < max).ok_or_else(|| {
                Error::bad(format!(
                    "The partition key range {range} cannot be split there: nothing lies on one of the sides."
                ))
            })?;
            Ok((
                vec![partition],
                vec![
                    EpkRange::new(min, border.clone()),
                    EpkRange::new(border, max),
                ],
            ))
        }
        RangeChange::Merge { ranges } => {
            let mut partitions = ranges
                .iter()
                .map(|id| container.partition_by_id(*id))
                .collect::<Result<Vec<Arc<Partition>>>>()?;
            partitions.sort_by(|a, b| a.range.min.cmp(&b.range.min));
            let neighbours = partitions
                .windows(2)
                .all(|pair| pair[0].range.max == pair[1].range.min);
            let (Some(first), Some(last), true) = (
                partitions.first(),
                partitions.last(),
                partitions.len() > 1 && neighbours,
            ) else {
                return Err(Error::bad(
                    "A merge needs two or more partition key ranges that lie side by side.",
                ));
            };
            let whole = EpkRange::new(first.range.min.clone(), last.range.max.clone());
            Ok((partitions, vec![whole]))
        }
    }
}

/// The first key behind about half of a partition's items; `None` if they all have one key.
fn median(partition: &Partition) -> Result<Option<Epk>> {
    let snapshot = partition.snapshot()?;
    let half = Partition::counters(snapshot.as_ref())?.items / 2;
    let (mut first, mut last) = (None, None);
    for (passed, row) in (0..).zip(scan(
        snapshot.as_ref(),
        &keys::primaries(),
        Direction::Forward,
    )) {
        let (key, _) = row?;
        let epk = match keys::kept(&key) {
            Some(keys::Kept::OfKey(epk)) => Epk::from_bytes(epk),
            _ => return Err(Error::internal("a primary key row is damaged")),
        };
        let differs = first.as_ref().is_some_and(|first| *first != epk);
        if differs {
            last = Some(epk.clone());
        }
        if passed >= half && differs {
            break;
        }
        first.get_or_insert(epk);
    }
    Ok(last)
}
