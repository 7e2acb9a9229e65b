//! Benchmark of the parts that watch requests: a point read through the gateway in this process,
//! without a socket, with each of them on and without all of them.

use crate::Result;
use crate::engine::BenchEngine;
use crate::in_turn::InTurn;
use crate::items::{READ_BYTES, READ_ITEMS, item};
use crate::recording::{READS, gateway, read, set_recording};
use orrery_gateway::{Gateway, SlowRequests, SpanQueue, SpanRecorder, SpanSampler};
use orrery_storage::MemoryStore;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// One state of the gateway.
struct State {
    name: &'static str,
    gateway: Gateway,
    /// The queue that the exporter would empty, and whether the benchmark does.
    queue: Option<(SpanQueue, bool)>,
}

impl State {
    fn new(name: &'static str, gateway: Gateway) -> Self {
        State {
            name,
            gateway,
            queue: None,
        }
    }

    /// Returns a state whose gateway records the spans that `ratio` selects.
    fn with_spans(name: &'static str, gateway: Gateway, ratio: f64, is_emptied: bool) -> Self {
        let sampler = SpanSampler {
            follows_parent: true,
            ratio,
        };
        // An emptied queue has room for all spans of a measurement, and the other is soon full.
        let capacity = if is_emptied { READS as usize } else { 2048 };
        let (recorder, queue) = SpanRecorder::new(sampler, capacity, now_ns);
        let mut state = State::new(name, gateway.recording_spans(Some(recorder)));
        state.queue = Some((queue, is_emptied));
        state
    }
}

/// Prints the median microseconds of a read in each state, and the median of its ratio to the first
/// state in the same round.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let bench = BenchEngine::open(Arc::new(MemoryStore::new()))?;
    for n in 0..READ_ITEMS {
        bench.create(&item('r', n, READ_BYTES))?;
    }
    // The threshold is the one of `orrery start`, which no read reaches.
    let slow = SlowRequests {
        min_microseconds: 1_000_000,
        shows_values: false,
    };
    let plain = || gateway(&bench);
    let mut states = [
        State::new("nothing watches", plain()?),
        State::new("the same again", plain()?),
        State::new("slow-request log on", plain()?.reporting_slow(Some(slow))),
        State::with_spans("spans, none sampled", plain()?, 0.0, true),
        State::with_spans("spans, all sampled", plain()?, 1.0, true),
        State::with_spans("spans, queue full", plain()?, 1.0, false),
    ];
    for state in &states {
        set_recording(&state.gateway, false);
    }

    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let measured = InTurn::measure(rounds, states.len(), |place| {
        let state = &mut states[place];
        let micros = runtime.block_on(read(&state.gateway))?;
        if let Some((queue, true)) = &mut state.queue {
            while queue.try_recv().is_ok() {}
        }
        Ok(micros)
    })?;
    let names = states.each_ref().map(|state| state.name);
    measured.print("point read through the gateway", "µs", 2, &names);
    Ok(())
}

/// Returns the nanoseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the server is measured too"
)]
fn now_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_nanos() as u64)
}
