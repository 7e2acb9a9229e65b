//! The events beside the requests of clients: changes of settings, splits and merges, snapshots,
//! background work, moves of the clock, faults of the store, crashes and restarts.

use crate::Checked;
use crate::model::ContainerModel;
use crate::node::{Node, object};
use crate::spec::RETENTION_SECONDS;
use orrery_engine::BackgroundTask;
use orrery_engine::request::{RangeChange, RangeChangeStage, RangeChangeStatus, SplitAt};
use orrery_model::json::parse;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, Object};
use orrery_storage::testing::Fault;

/// The most physical partitions of a container.
const PARTITIONS_MAX: usize = 6;
/// Snapshots that are kept.
const SNAPSHOTS_MAX: usize = 2;
/// Stands for any container where an error concerns all of them.
pub(crate) const ANY: usize = usize::MAX;

/// Settings and background work.
impl Node<'_> {
    /// Changes the indexing policy of a container.
    pub(crate) fn change_policy(&mut self) -> Checked {
        let container = self.random_container();
        let policies = self.models[container].spec.policies();
        let policy = self.random.pick(policies);
        let default_ttl = self.models[container].default_ttls[0];
        let replaced = self.replace_container(container, policy, default_ttl)?;
        let before = self.models[container].spec.policy;
        self.models[container].spec.policy = match replaced {
            true => policy,
            false => policy.max(before),
        };
        Ok(())
    }

    /// Changes the `defaultTtl` of a container.
    pub(crate) fn change_ttl(&mut self) -> Checked {
        let container = self.random_container();
        if !self.models[container].spec.has_ttl {
            return Ok(());
        }
        let ttl = self
            .random
            .pick(&[None, Some(-1), Some(5), Some(20), Some(4_000)]);
        let policy = self.models[container].spec.policy;
        let now = self.now();
        self.models[container].note_expired(now);
        self.replace_container(container, policy, ttl)?;
        Ok(())
    }

    /// Replaces the definition of a container. Returns true if it was replaced for sure.
    fn replace_container(
        &mut self,
        container: usize,
        policy: u8,
        default_ttl: Option<i64>,
    ) -> Checked<bool> {
        let handle = self.handle(container)?;
        let definition = object(&self.models[container].spec.definition(policy, default_ttl))?;
        let replaced = self
            .engine
            .replace_container(&handle, &definition, None)
            .result;
        let kind = replaced.as_ref().err().map(Error::kind);
        self.note(format!(
            "c{container} policy {policy} ttl {default_ttl:?}: {kind:?}"
        ));
        let model = &mut self.models[container];
        match replaced {
            Ok(_) => {
                model.default_ttls = vec![default_ttl];
                Ok(true)
            }
            Err(error) => {
                if !model.default_ttls.contains(&default_ttl) {
                    model.default_ttls.push(default_ttl);
                }
                self.check_failure(container, &error)?;
                Ok(false)
            }
        }
    }

    /// Reads which of the possible settings the containers have. An engine that does not know the
    /// outcome of a change goes on with the settings from before, so the store must answer.
    fn settle_ttls(&mut self) -> Checked {
        (0..self.models.len()).try_for_each(|container| self.settle_ttl(container))
    }

    fn settle_ttl(&mut self, container: usize) -> Checked {
        if self.models[container].default_ttls.len() == 1 {
            return Ok(());
        }
        let handle = self.handle(container)?;
        let body = self
            .engine
            .read_container(&handle)
            .result
            .map_err(|error| error.to_string())?;
        let body = parse(&body.body).map_err(|error| error.to_string())?;
        let ttl = body.get("defaultTtl").and_then(Json::as_i64);
        let now = self.now();
        let model = &mut self.models[container];
        model.note_expired(now);
        if !model.default_ttls.contains(&ttl) {
            return Err(format!(
                "c{container} has the ttl {ttl:?}, which nobody set"
            ));
        }
        model.default_ttls = vec![ttl];
        Ok(())
    }

    /// Runs some background work of a random kind.
    pub(crate) fn work_in_background(&mut self) -> Checked {
        let task = self.random.pick(&BackgroundTask::ALL);
        let mut done = 0;
        for _ in 0..self.random.pick(&[1, 2, 20]) {
            match self.engine.run_background_work(task) {
                Ok(true) => done += 1,
                Ok(false) => break,
                Err(error) => {
                    self.check_failure(ANY, &error)?;
                }
            }
        }
        self.note(format!("{task:?}: {done}"));
        Ok(())
    }

    /// Moves the clock: mostly a little ahead, sometimes much, sometimes back.
    pub(crate) fn move_clock(&mut self) -> Checked {
        let now_ms = self.world.now_ms();
        match self.random.below(100) {
            0..65 => self.world.advance_ms(self.random.below(3_000)),
            65..85 => self.world.advance_ms(self.random.below(120_000)),
            85..91 => self.world.advance_ms(self.random.below(30 * 3_600_000)),
            91..96 => self.world.jump_to_ms(now_ms + self.random.below(3_600_000)),
            _ => {
                let now = self.now();
                self.models
                    .iter_mut()
                    .for_each(|model| model.note_expired(now));
                self.world
                    .jump_to_ms(now_ms - 1_000 - self.random.below(49_000));
            }
        }
        let ahead_ms = self.world.now_ms().saturating_sub(now_ms);
        self.has_jumped |= ahead_ms / 1000 > RETENTION_SECONDS / 2;
        self.note(format!("the clock shows {}", self.world.now_ms()));
        Ok(())
    }
}

/// Splits and merges.
impl Node<'_> {
    /// Begins a split or merge, or takes the next step of one.
    pub(crate) fn change_ranges(&mut self) -> Checked {
        let container = self.random_container();
        if let Some(id) = self.range_changes.get(&container).copied() {
            let status = match self.random.below(10) {
                0 => self.engine.cancel_range_change(id),
                1 | 2 => self.engine.finish_range_change(id),
                _ => self.engine.step_range_change(id),
            };
            return self.note_range_change(container, status);
        }
        let handle = self.handle(container)?;
        let ranges = match self.engine.partition_key_ranges(&handle) {
            Ok((ranges, _)) => ranges,
            Err(error) => return self.check_failure(container, &error),
        };
        let mut ranges = ranges;
        ranges.sort_by(|a, b| a.range.min.as_bytes().cmp(b.range.min.as_bytes()));
        let ids: Vec<u32> = ranges.iter().map(|range| range.id).collect();
        let is_split = ids.len() == 1 || ids.len() < PARTITIONS_MAX && self.random.chance(55);
        let change = match is_split {
            true => RangeChange::Split {
                range: self.random.pick(&ids),
                at: match self.random.chance(50) {
                    true => SplitAt::Middle,
                    false => SplitAt::Median,
                },
            },
            false => {
                let at = self.random.index(ids.len() - 1);
                RangeChange::Merge {
                    ranges: ids[at..at + 2].to_vec(),
                }
            }
        };
        self.note(format!("c{container} {change:?}"));
        let stepwise = self.random.chance(60);
        let troubles = self.troubles - u64::from(self.is_failing());
        self.troubles_before.insert(container, troubles);
        match self.engine.begin_range_change(&handle, change, stepwise) {
            Ok(status) if stepwise => self.note_range_change(container, Ok(status)),
            Ok(status) => {
                let status = self.engine.finish_range_change(status.id);
                self.note_range_change(container, status)
            }
            // A range in which no border is left.
            Err(error) if matches!(error.kind(), Kind::BadRequest | Kind::Conflict) => Ok(()),
            Err(error) => self.check_failure(container, &error),
        }
    }
}

impl Node<'_> {
    /// Takes in the state of a split or merge.
    fn note_range_change(
        &mut self,
        container: usize,
        status: Result<RangeChangeStatus, Error>,
    ) -> Checked {
        let status = status.map_err(|error| format!("a range change is lost: {error:?}"))?;
        self.note(format!(
            "c{container} {}: {:?}",
            status.stage.name(),
            status.new_ranges
        ));
        let before = self.troubles_before.get(&container).copied();
        // A merge waits until the indexes of the partitions follow one policy.
        let failure = status.failure.as_deref().unwrap_or_default();
        let is_early = failure.contains("is following a new policy");
        let is_explained = self.is_failing() || before < Some(self.troubles) || is_early;
        if status.stage == RangeChangeStage::Failed && !is_explained {
            return Err(format!("a range change failed without a cause: {status:?}"));
        }
        match status.stage.is_over() {
            true => self.range_changes.remove(&container),
            false => self.range_changes.insert(container, status.id),
        };
        Ok(())
    }

    /// Returns true if requests for a container are refused until a split or merge is complete.
    pub(crate) fn is_completing(&self, container: usize) -> bool {
        let mut changes = self.range_changes.iter();
        changes.any(|(of, id)| {
            let status = self.engine.range_change(*id);
            (*of == container || container == ANY)
                && status.is_ok_and(|status| status.stage == RangeChangeStage::Completing)
        })
    }

    /// Completes all splits and merges.
    pub(crate) fn finish_range_changes(&mut self) -> Checked {
        for (container, id) in self.range_changes.clone() {
            let status = self.engine.finish_range_change(id);
            self.note_range_change(container, status)?;
        }
        Ok(())
    }
}

/// Snapshots.
impl Node<'_> {
    /// Takes a snapshot.
    pub(crate) fn take_snapshot(&mut self) -> Checked {
        self.settle_completely()?;
        if self.snapshots.len() == SNAPSHOTS_MAX
            && let Some((oldest, _)) = self.snapshots.pop_first()
            && let Err(error) = self.engine.delete_snapshot(&oldest)
        {
            return self.check_failure(ANY, &error);
        }
        let name = format!("s{:08}", self.number());
        let taken = self.engine.take_snapshot(&name, &Object::new());
        self.note(format!("snapshot {name}: {}", taken.is_ok()));
        match taken {
            Ok(_) => {
                let now = self.now();
                self.models
                    .iter_mut()
                    .for_each(|model| model.note_expired(now));
                self.snapshots.insert(name, self.models.clone());
                Ok(())
            }
            Err(error) => self.check_failure(ANY, &error),
        }
    }

    /// Restores a snapshot.
    pub(crate) fn restore_snapshot(&mut self) -> Checked {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        self.settle_completely()?;
        let at = self.random.index(self.snapshots.len());
        let Some((name, models)) = self.snapshots.iter().nth(at) else {
            return Ok(());
        };
        let (name, models) = (name.clone(), models.clone());
        let restored = self.engine.restore_snapshot(&name);
        self.note(format!("restore {name}: {}", restored.is_ok()));
        match restored {
            Ok(_) => self.restored(models),
            Err(error) => {
                self.check_failure(ANY, &error)?;
                self.restored_or_not(models)
            }
        }
    }

    /// Finds out which contents there are after a restoration with an unknown outcome.
    fn restored_or_not(&mut self, models: Vec<ContainerModel>) -> Checked {
        self.reopen()?;
        let now = self.now();
        let (mut is_before, mut is_after) = (true, true);
        for (at, model) in models.iter().enumerate() {
            let state = self.read_numbers(at)?;
            is_before &= self.models[at].explains(&state, now);
            is_after &= model.explains(&state, now);
        }
        self.note(format!(
            "contents: before {is_before}, of the snapshot {is_after}"
        ));
        match (is_before, is_after) {
            (_, true) => self.restored(models),
            (true, false) => Ok(()),
            (false, false) => Err("a restoration took place in part".to_owned()),
        }
    }

    fn restored(&mut self, models: Vec<ContainerModel>) -> Checked {
        self.models = models;
        self.range_changes.clear();
        self.restore_readers();
        self.survey()?;
        // The partitions are new ones.
        self.forget_charges()?;
        self.resolve_all()
    }
}

/// Faults, crashes and restarts.
impl Node<'_> {
    /// Arranges that a later call of the store fails.
    pub(crate) fn arm_fault(&mut self) -> Checked {
        if self.is_failing() {
            return Ok(());
        }
        let fault = self.random.pick(&[
            Fault::Refused,
            Fault::Busy,
            Fault::Full,
            Fault::Lost,
            Fault::Applied,
        ]);
        let writes = self.random.below(6);
        self.note(format!("{fault:?} after {writes} writes"));
        self.store.fail_by(fault, writes);
        self.is_armed = true;
        self.troubles += 1;
        Ok(())
    }

    /// Ends a failure of the store. Some answers are awaited before, some after.
    pub(crate) fn repair(&mut self) -> Checked {
        if !self.is_armed && !self.store.is_broken() {
            return Ok(());
        }
        if self.random.chance(50) {
            self.wait_for_all()?;
        }
        self.store.repair();
        self.note("repaired".to_owned());
        self.wait_for_all()?;
        if self.store.inner().has_crashed() {
            return Ok(());
        }
        // The engine finds out what became of its changes now that the store answers, which takes
        // steps: the store may crash at them.
        self.handle(0)?;
        if self.store.inner().has_crashed() {
            return Ok(());
        }
        self.is_armed = false;
        // An engine that was in doubt about a change of a definition has loaded all definitions
        // again, with new partitions in memory.
        self.forget_charges()?;
        self.models.iter_mut().for_each(ContainerModel::doubt);
        self.settle_ttls()?;
        self.resolve_all()
    }

    /// Opens the engine again after a crash of the store.
    pub(crate) fn recover(&mut self) -> Checked {
        self.counts.crashes += 1;
        self.note("crashed".to_owned());
        self.wait_for_all()?;
        self.reopen()?;
        self.resolve_all()
    }

    /// Ends the engine in order, and opens it again.
    pub(crate) fn restart(&mut self) -> Checked {
        self.settle()?;
        self.note("restart".to_owned());
        if let Err(error) = self.engine.shut_down() {
            self.check_failure(ANY, &error)?;
        }
        self.reopen()?;
        self.resolve_all()
    }

    /// Opens an engine on what is durable. A third of the openings meet a crash on the way.
    fn reopen(&mut self) -> Checked {
        loop {
            let store = self.store.inner().reopen()?;
            let crash_in = self.random.chance(30).then(|| self.random.below(12));
            store.crash_after(crash_in);
            let opened = self.open_on(store);
            self.note(format!("opened: {}", opened.is_ok()));
            self.models.iter_mut().for_each(ContainerModel::doubt);
            match opened {
                Ok(()) if self.store.inner().has_crashed() => {}
                Ok(()) => break,
                Err(_) if self.store.inner().has_crashed() => {}
                Err(error) => return Err(format!("the engine does not open: {error:?}")),
            }
        }
        self.survey()?;
        self.settle_ttls()
    }

    /// Lets the engine visit each container once, and plans the next crash. Neither a fault nor a
    /// crash comes in between.
    fn survey(&mut self) -> Checked {
        self.store.inner().crash_after(None);
        loop {
            match self.engine.run_background_work(BackgroundTask::Survey) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.check_failure(ANY, &error)?;
                    break;
                }
            }
        }
        let crash_in = self.random.chance(60).then(|| self.random.below(500));
        self.note(format!("the next crash is in {crash_in:?} steps"));
        self.store.inner().crash_after(crash_in);
        Ok(())
    }

    /// Waits for all answers, ends all failures, and decides what is open.
    pub(crate) fn settle(&mut self) -> Checked {
        self.wait_for_all()?;
        while self.is_failing() {
            match self.store.inner().has_crashed() {
                true => self.recover()?,
                false => self.repair()?,
            }
        }
        self.resolve_all()
    }

    /// As [`Node::settle`], and completes all splits and merges.
    pub(crate) fn settle_completely(&mut self) -> Checked {
        loop {
            self.settle()?;
            self.finish_range_changes()?;
            if !self.store.inner().has_crashed() {
                return self.resolve_all();
            }
        }
    }

    /// Decides the open changes of all containers by what can be read.
    pub(crate) fn resolve_all(&mut self) -> Checked {
        // A partition that is being replaced cannot be read.
        if !self.awaited.is_empty() || self.is_completing(ANY) {
            return Ok(());
        }
        for container in 0..self.models.len() {
            let state = self.read_all(container)?;
            let now = self.now();
            self.models[container].resolve(&state, now)?;
        }
        Ok(())
    }
}
