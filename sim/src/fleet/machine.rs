//! A machine of a fleet: its clocks, the process on it, and what it cannot reach.

use super::process::Process;
use crate::random::Random;
use orrery_model::sync::lock;
use orrery_model::world::{SeededWorld, World};
use std::sync::{Arc, Mutex};

/// The time at which every world begins, in milliseconds since 1970.
const START_MS: u64 = 1_767_225_600_000;

/// A machine.
pub(super) struct Machine {
    /// The clocks of the machine.
    pub(super) clock: Arc<SeededWorld>,
    /// Milliseconds of its clocks in 1,000 milliseconds of the world.
    pub(super) speed: u64,
    /// True if a standstill of the machine stops its monotonic clock, as a suspended machine does.
    /// The other clock of such a machine is never set.
    pub(super) is_suspended_at_standstill: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Arc<Process>>,
    /// The time of the world, by which the clocks have moved.
    passed_ms: u64,
    /// The machine stands still until this time of the world.
    frozen_until_ms: u64,
    /// The store cannot be reached until this time.
    store_away_until_ms: u64,
    /// Each other machine cannot be reached until this time.
    others_away_until_ms: [u64; super::MACHINES],
}

impl Machine {
    pub(super) fn new(number: usize, seed: u64, random: &mut Random) -> Machine {
        let numbers = seed.wrapping_mul(16).wrapping_add(number as u64);
        Machine {
            clock: Arc::new(SeededWorld::new(START_MS, numbers)),
            // A fifth between the slowest and the fastest would be too much.
            speed: 925 + random.below(150),
            is_suspended_at_standstill: random.chance(50),
            state: Mutex::default(),
        }
    }

    /// Returns the process that runs.
    pub(super) fn process(&self) -> Option<Arc<Process>> {
        lock(&self.state).process.clone()
    }

    /// Sets the process that runs.
    pub(super) fn begin_process(&self, process: Arc<Process>) {
        lock(&self.state).process = Some(process);
    }

    /// Ends the process at once. The caller drops it.
    pub(super) fn end_process(&self) -> Option<Arc<Process>> {
        let process = lock(&self.state).process.take();
        process.inspect(|process| process.end())
    }

    /// Moves the clocks to what they show at a time of the world.
    pub(super) fn pass(&self, now_ms: u64) {
        let mut state = lock(&self.state);
        let shown = |at_ms: u64| at_ms * self.speed / 1_000;
        let passed_ms = shown(now_ms) - shown(state.passed_ms);
        let is_frozen = state.passed_ms < state.frozen_until_ms;
        state.passed_ms = now_ms;
        drop(state);
        match is_frozen && self.is_suspended_at_standstill {
            true => self.clock.jump_to_ms(self.clock.now_ms() + passed_ms),
            false => self.clock.advance_ms(passed_ms),
        }
    }

    pub(super) fn is_frozen(&self, now_ms: u64) -> bool {
        now_ms < lock(&self.state).frozen_until_ms
    }

    /// Lets the machine stand still until a time.
    pub(super) fn freeze(&self, until_ms: u64) {
        lock(&self.state).frozen_until_ms = until_ms;
    }

    pub(super) fn reaches_store(&self, now_ms: u64) -> bool {
        now_ms >= lock(&self.state).store_away_until_ms
    }

    /// Takes the store away until a time.
    pub(super) fn cut_store(&self, until_ms: u64) {
        lock(&self.state).store_away_until_ms = until_ms;
    }

    pub(super) fn reaches(&self, other: usize, now_ms: u64) -> bool {
        now_ms >= lock(&self.state).others_away_until_ms[other]
    }

    /// Takes the way to another machine away until a time.
    pub(super) fn cut(&self, other: usize, until_ms: u64) {
        lock(&self.state).others_away_until_ms[other] = until_ms;
    }

    /// Ends everything that keeps the machine from working.
    pub(super) fn repair(&self) {
        let mut state = lock(&self.state);
        state.frozen_until_ms = 0;
        state.store_away_until_ms = 0;
        state.others_away_until_ms = [0; super::MACHINES];
    }
}
