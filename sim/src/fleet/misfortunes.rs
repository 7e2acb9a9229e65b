//! Misfortunes of a fleet, and changes beside the requests of clients.

use super::agenda::{Event, Part, What};
use super::process::{Role, definition};
use super::{Fleet, MACHINES, TTL_MS, event_of};
use crate::node::object;
use orrery_engine::Engine;
use orrery_engine::request::{Id, RangeChange, SplitAt};
use orrery_model::sync::lock;
use orrery_model::world::World;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most physical partitions of the container.
const PARTITIONS_MAX: usize = 6;
/// Steps after which a split or merge is cancelled.
const STEPS_MAX: u64 = 50;

impl Fleet {
    /// Returns true from the creation of the container until the world comes to rest.
    pub(super) fn may_go_wrong(&self) -> bool {
        self.may_go_wrong.load(Ordering::SeqCst)
    }

    /// Lets something go wrong, and plans the next.
    pub(super) fn meet_misfortune(self: &Arc<Self>) {
        if !self.may_go_wrong() {
            return;
        }
        let next_ms = self.below(2 * self.rates.misfortune_ms);
        self.plan_event(next_ms, Event::of_world(What::Misfortune));
        self.count(|counts| counts.misfortunes += 1);
        let at = self.below(MACHINES as u64) as usize;
        let other = (at + 1 + self.below(MACHINES as u64 - 1) as usize) % MACHINES;
        let now_ms = self.now_ms();
        let time_ms = match self.happens(300) {
            true => self.below(3 * TTL_MS),
            false => self.below(TTL_MS / 2),
        };
        let machine = &self.machines[at];
        match self.below(100) {
            0..20 => {
                self.note(|| format!("m{at} is killed"));
                self.kill_process(at);
            }
            20..35 => {
                self.note(|| format!("m{at} loses the store for {time_ms}"));
                machine.cut_store(now_ms + time_ms);
            }
            35..60 => {
                let is_one_way = self.happens(300);
                self.note(|| format!("m{at} loses m{other} for {time_ms}, {is_one_way}"));
                machine.cut(other, now_ms + time_ms);
                if !is_one_way {
                    self.machines[other].cut(at, now_ms + time_ms);
                }
            }
            60..78 => {
                self.note(|| format!("m{at} stands still for {time_ms}"));
                machine.freeze(now_ms + time_ms);
            }
            78..88 => self.set_clock(at),
            _ => {
                if let Some(process) = machine.process() {
                    let leaves = event_of(at, process.number, Part::Main, What::Leave);
                    self.plan_event(0, leaves);
                }
            }
        }
    }

    /// Sets the wall clock of a machine. A machine whose other clock stops at a standstill is left
    /// alone: its wall clock is the only one that counts then.
    fn set_clock(&self, at: usize) {
        let machine = &self.machines[at];
        if machine.is_suspended_at_standstill {
            return;
        }
        let shown_ms = machine.clock.now_ms() + self.below(60_000);
        let shown_ms = shown_ms - self.below(60_000);
        self.note(|| format!("the clock of m{at} is set to {shown_ms}"));
        machine.clock.jump_to_ms(shown_ms);
    }

    /// Lets a machine stand still in the middle of a call.
    pub(super) fn stand_still(self: &Arc<Self>, machine: usize) {
        let time_ms = self.below(3 * TTL_MS);
        self.note(|| format!("m{machine} stands still in a call for {time_ms}"));
        self.machines[machine].freeze(self.now_ms() + time_ms);
        self.pass(time_ms);
    }

    /// Lets nothing go wrong any more.
    pub(super) fn repair_everything(&self) {
        self.may_go_wrong.store(false, Ordering::SeqCst);
        self.note(|| "nothing goes wrong any more".to_owned());
        for machine in &self.machines {
            machine.repair();
        }
        lock(&self.agenda).remove(|what| matches!(what, What::Misfortune | What::CatalogChange));
    }

    /// Changes the container at the leaseholder, and plans the next change.
    pub(super) fn change_catalog(self: &Arc<Self>) {
        self.plan_event(self.below(9_000), Event::of_world(What::CatalogChange));
        let at = self.below(MACHINES as u64) as usize;
        self.at_machine(at, |process| {
            let Role::Serving(serving) = process.role() else {
                return;
            };
            match self.below(3) {
                0 => self.replace_definition(at, &serving.engine),
                _ => self.change_ranges(at, &serving.engine),
            }
            self.note_partitions(&serving.engine);
        });
    }

    fn replace_definition(&self, machine: usize, engine: &Engine) {
        let number = self.below(2);
        let Ok(container) = engine.container(Id::Name("db"), Id::Name("c")) else {
            return;
        };
        let Ok(body) = object(&definition(number)) else {
            return;
        };
        let replaced = engine.replace_container(&container, &body, None).result;
        let kind = replaced.err().map(|error| error.kind());
        self.note(|| format!("m{machine} definition {number}: {kind:?}"));
    }

    /// Splits or merges partitions.
    fn change_ranges(&self, machine: usize, engine: &Engine) {
        let Ok(container) = engine.container(Id::Name("db"), Id::Name("c")) else {
            return;
        };
        let Ok((mut ranges, _)) = engine.partition_key_ranges(&container) else {
            return;
        };
        ranges.sort_by(|a, b| a.range.min.as_bytes().cmp(b.range.min.as_bytes()));
        let ids: Vec<u32> = ranges.iter().map(|range| range.id).collect();
        let change = match ids.len() > 1 && (ids.len() >= PARTITIONS_MAX || self.happens(500)) {
            true => {
                let first = self.below(ids.len() as u64 - 1) as usize;
                RangeChange::Merge {
                    ranges: ids[first..first + 2].to_vec(),
                }
            }
            false => RangeChange::Split {
                range: ids[self.below(ids.len() as u64) as usize],
                at: SplitAt::Middle,
            },
        };
        self.note(|| format!("m{machine} {change:?}"));
        let Ok(begun) = engine.begin_range_change(&container, change, true) else {
            return;
        };
        let mut stage = begun.stage;
        for _ in 0..STEPS_MAX {
            match engine.step_range_change(begun.id) {
                Ok(status) => stage = status.stage,
                Err(_) => break,
            }
            if stage.is_over() {
                break;
            }
        }
        if !stage.is_over() {
            // A step that could not complete goes on with the next attempt of the engine.
            let _ = engine.cancel_range_change(begun.id);
        }
        self.note(|| format!("m{machine} {}", stage.name()));
    }
}
