//! The thread that takes the readings.

use super::samples::{
    ContainerCounts, ContainerName, Counts, LiveSelection, LiveView, ProcessCounts, Reading,
    Samples,
};
use crate::metrics::{Metrics, RequestCounts};
use crate::process::ProcessFigures;
use orrery_engine::Engine;
use orrery_model::sync::lock;
use orrery_model::world::World;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// The readings after which the bytes of the store are read again, and deleted containers are
/// forgotten: both visit every container.
const SLOW_READINGS: u64 = 10;

/// Takes samples on a thread of its own until it is dropped.
pub(crate) struct Sampler {
    samples: Arc<Mutex<Samples>>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The parts of the server that the readings come from.
struct Sources {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    world: Arc<dyn World>,
    samples: Arc<Mutex<Samples>>,
    /// The number of readings so far.
    readings: u64,
    /// Requests at the last reading of the containers.
    requests_seen: Option<u64>,
    stored_bytes: u64,
}

impl Sampler {
    /// Starts the thread. Without a thread, which the system may refuse, there are no samples.
    pub(crate) fn start(
        engine: Arc<Engine>,
        metrics: Arc<Metrics>,
        world: Arc<dyn World>,
    ) -> Sampler {
        let samples = Arc::new(Mutex::new(Samples::default()));
        let sources = Sources {
            engine,
            metrics,
            world,
            samples: Arc::clone(&samples),
            readings: 0,
            requests_seen: None,
            stored_bytes: 0,
        };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("live-samples".into())
            .spawn(move || sources.run(&stopped));
        Sampler {
            samples,
            stop: Some(stop),
            thread: thread.ok(),
        }
    }

    /// Returns the samples of a selection.
    pub(crate) fn view(&self, selection: LiveSelection) -> LiveView {
        lock(&self.samples).view(selection)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The engine is free once the thread has ended, so that its directory can be opened again.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Sources {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let reading = self.read();
            lock(&self.samples).add(reading);
            if self.readings.is_multiple_of(SLOW_READINGS) {
                self.forget_deleted_containers();
            }
            if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn read(&mut self) -> Reading {
        // The console's own requests are read first, so that they are among those read next.
        let mut own = Counts::default();
        own.count(&self.metrics.own_requests());
        let mut latencies = self.metrics.take_latencies();
        latencies.sort_unstable();
        let mut all = Counts::default();
        for kind in self.metrics.requests() {
            all.count(&kind);
        }
        let counts = all.since(&own);
        if self.readings.is_multiple_of(SLOW_READINGS) {
            self.stored_bytes = self.engine.store_bytes();
        }
        self.readings += 1;

        // A server without requests has nothing new at its containers, of which it may have many.
        let containers = match self.requests_seen == Some(counts.requests) {
            true => Vec::new(),
            false => self.read_containers(),
        };
        self.requests_seen = Some(counts.requests);
        let open = self.metrics.connections.open.get();
        Reading {
            time_ms: self.world.now_ms(),
            monotonic_ms: self.world.monotonic_ms(),
            counts,
            latencies,
            process: ProcessCounts::read(),
            connections: u64::try_from(open).unwrap_or(0),
            stored_bytes: self.stored_bytes,
            containers,
        }
    }

    fn read_containers(&self) -> Vec<(Arc<ContainerName>, ContainerCounts)> {
        let mut containers = Vec::new();
        for (container, load) in self.engine.container_loads() {
            let name = ContainerName {
                database: container.database_id().to_owned(),
                container: container.id().to_owned(),
            };
            let counts = ContainerCounts {
                requests: load.requests,
                charge: load.charge.0,
                throttled: load.throttled,
            };
            containers.push((Arc::new(name), counts));
        }
        containers
    }

    fn forget_deleted_containers(&self) {
        let mut names = HashSet::new();
        for (name, _) in self.read_containers() {
            names.insert(name);
        }
        lock(&self.samples).retain_containers(|name| names.contains(name));
    }
}

impl ProcessCounts {
    /// Returns the figures of this process; 0 for what the system does not provide.
    fn read() -> Self {
        let figures = ProcessFigures::read();
        let seconds = figures.processor_seconds.unwrap_or(0.0);
        ProcessCounts {
            processor_us: (seconds * 1e6) as u64,
            disk_read_bytes: figures.disk_read_bytes.unwrap_or(0),
            disk_written_bytes: figures.disk_written_bytes.unwrap_or(0),
            resident_bytes: figures.resident_bytes.unwrap_or(0),
        }
    }
}

impl Counts {
    /// Adds the counts of one kind of request.
    fn count(&mut self, kind: &RequestCounts) {
        self.charge += (kind.charge.sum * 100.0).round() as u64;
        for (status, _, count) in &kind.outcomes {
            self.requests += count;
            match status {
                429 => self.throttled += count,
                400..=499 => self.client_errors += count,
                500.. => self.server_errors += count,
                _ => {}
            }
        }
        let mut below = 0;
        let (last, bounded) = match self.latency.split_last_mut() {
            Some(parts) => parts,
            None => return,
        };
        for (sum, (_, up_to)) in bounded.iter_mut().zip(&kind.seconds.buckets) {
            *sum += up_to.saturating_sub(below);
            below = *up_to;
        }
        *last += kind.seconds.count.saturating_sub(below);
    }
}
