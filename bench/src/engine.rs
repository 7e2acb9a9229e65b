//! Benchmark of the engine alone: in this process, on the memory store, without HTTP and disk.
//!
//! [`BenchEngine`], an engine with one container, is also the subject of the other in-process
//! benchmarks.

use crate::Result;
use crate::items::{CONTAINER, CREATE_BYTES, DATABASE, READ_BYTES, READ_ITEMS, id, item};
use crate::record::figure;
use crate::report::median;
use orrery_engine::request::{
    AdmissionOptions, Id, QueryPage, QueryRequest, RangeChange, RangeChangeStatus, ReadReply,
    Scope, Throughput, WriteOperation, WriteOptions, Written,
};
use orrery_engine::{BackgroundTask, Container, Engine, EngineOptions, Pending, ThroughputOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{MemoryStore, Store};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Operations of one round.
const READS: u64 = 100_000;
const CREATES: u64 = 10_000;
/// Writes that [`BenchEngine::write_all`] keeps waiting for durability.
const PENDING_WRITES_MAX: usize = 256;
/// Threads of [`BenchEngine::load`].
pub(crate) const LOADERS: usize = 4;
/// Milliseconds within which background work must come for [`BenchEngine::settle`] to wait for it.
const SETTLED_MS: u64 = 1_100;
/// 2026-01-01, in milliseconds since 1970.
pub(crate) const NOW_MS: u64 = 1_767_225_600_000;

/// A world with the time of the machine and random numbers from a seed.
pub(crate) struct RealClock(pub(crate) SeededWorld);

impl World for RealClock {
    #[expect(clippy::disallowed_methods, reason = "this is a World")]
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(NOW_MS, |since| since.as_millis() as u64)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

/// An engine with one database and one container.
pub(crate) struct BenchEngine {
    engine: Arc<Engine>,
    container: Arc<Container>,
}

impl BenchEngine {
    /// Opens an engine on `store` and creates the container that the HTTP benchmark uses as well.
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<BenchEngine> {
        Self::with(store, CONTAINER, 400)
    }

    /// Opens an engine on `store` and creates the container `items` with the definition `container`
    /// and a throughput of `ru` RU/s.
    pub(crate) fn with(store: Arc<dyn Store>, container: &str, ru: u32) -> Result<BenchEngine> {
        Self::on(
            store,
            container,
            ru,
            ThroughputOptions::default(),
            Arc::new(SeededWorld::new(NOW_MS, 1)),
        )
    }

    /// Does the same as [`BenchEngine::with`] with the real clock, by which background work that
    /// waits comes to its turn.
    pub(crate) fn with_clock(store: Arc<dyn Store>, container: &str, ru: u32) -> Result<Self> {
        Self::on(
            store,
            container,
            ru,
            ThroughputOptions::default(),
            Arc::new(RealClock(SeededWorld::new(NOW_MS, 1))),
        )
    }

    /// Opens an engine with the given throughput options and the real clock, and creates the
    /// container of the HTTP benchmark with a throughput of `ru` RU/s.
    pub(crate) fn metered(
        store: Arc<dyn Store>,
        throughput: ThroughputOptions,
        ru: u32,
    ) -> Result<BenchEngine> {
        let bench = Self::on(
            store,
            CONTAINER,
            ru,
            throughput,
            Arc::new(RealClock(SeededWorld::new(NOW_MS, 1))),
        )?;
        bench
            .engine
            .set_throughput_buckets(&bench.container, [Some(100), None, None, None, None])?;
        Ok(bench)
    }

    fn on(
        store: Arc<dyn Store>,
        container: &str,
        ru: u32,
        throughput: ThroughputOptions,
        world: Arc<dyn World>,
    ) -> Result<BenchEngine> {
        // No script runs, so the pool never starts a script host.
        let scripts = PoolOptions::new(HostCommand {
            program: "no-script-host".into(),
            arguments: Vec::new(),
        });
        let options = EngineOptions {
            throughput,
            ..EngineOptions::new(scripts)
        };
        let engine = Arc::new(Engine::open(store, options, world)?);
        engine.create_database(&object(DATABASE)?, None).result?;
        let database = engine.database(Id::Name("bench"))?;
        engine
            .create_container(&database, &object(container)?, Some(Throughput::Manual(ru)))
            .result?;
        let container = engine.container(Id::Name("bench"), Id::Name("items"))?;
        Ok(BenchEngine { engine, container })
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Admits and charges a request that does nothing.
    pub(crate) fn pass(&self, key: &PartitionKey, admission: AdmissionOptions) -> Result<()> {
        Ok(self.engine.admit_only(&self.container, key, admission)?)
    }

    /// Submits the write of an item.
    fn begin_write(&self, operation: &WriteOperation, text: &[u8]) -> Pending<Written> {
        self.engine.write_item(
            &self.container,
            operation,
            Some(text),
            &WriteOptions::default(),
        )
    }

    /// Creates an item and waits until the store reports the commit as durable.
    pub(crate) fn create(&self, text: &[u8]) -> Result<()> {
        let create = self.begin_write(&WriteOperation::Create, text);
        create.wait().result?;
        Ok(())
    }

    /// Creates items with up to [`PENDING_WRITES_MAX`] creates waiting for durability at a time.
    pub(crate) fn create_all(&self, texts: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        self.write_all(&WriteOperation::Create, texts)
    }

    /// Writes items with up to [`PENDING_WRITES_MAX`] writes waiting for durability at a time.
    fn write_all(
        &self,
        operation: &WriteOperation,
        texts: impl Iterator<Item = Vec<u8>>,
    ) -> Result<()> {
        let mut pending = VecDeque::new();
        for text in texts {
            pending.push_back(self.begin_write(operation, &text));
            if pending.len() > PENDING_WRITES_MAX
                && let Some(oldest) = pending.pop_front()
            {
                oldest.wait().result?;
            }
        }
        for write in pending {
            write.wait().result?;
        }
        Ok(())
    }

    /// Writes `count` items with [`LOADERS`] threads. Returns the time that they took.
    pub(crate) fn load(
        &self,
        operation: &WriteOperation,
        count: usize,
        item: impl Fn(usize) -> Vec<u8> + Sync,
    ) -> Result<Duration> {
        let started = Instant::now();
        let item = &item;
        on_threads(LOADERS, |first| {
            let own = (first..count).step_by(LOADERS);
            self.write_all(operation, own.map(item))
        })?;
        Ok(started.elapsed())
    }

    /// Runs the background work of all tasks until none has work now or within
    /// [`SETTLED_MS`]. Returns the time that it took, without the waits for work.
    #[expect(
        clippy::disallowed_methods,
        reason = "the time of the next work is known, and nothing else runs that brings some"
    )]
    pub(crate) fn settle(&self) -> Result<Duration> {
        let mut busy = Duration::ZERO;
        loop {
            let mut has_run = false;
            for task in BackgroundTask::ALL {
                let started = Instant::now();
                while self.engine.run_background_work(task)? {
                    has_run = true;
                }
                busy += started.elapsed();
            }
            let waits = BackgroundTask::ALL.map(|task| self.engine.background_work_in(task));
            let next = waits.into_iter().flatten().min();
            match next {
                _ if has_run => {}
                Some(wait) if wait <= SETTLED_MS => {
                    std::thread::sleep(Duration::from_millis(wait.max(1)));
                }
                _ => return Ok(busy),
            }
        }
    }

    /// Returns one page of a query.
    pub(crate) fn query(&self, scope: &Scope, request: &QueryRequest) -> Result<QueryPage> {
        Ok(self
            .engine
            .query(&self.container, scope, request, None)
            .result?)
    }

    /// Returns the ids of the container's partition key ranges.
    pub(crate) fn ranges(&self) -> Result<Vec<u32>> {
        Ok(self
            .engine
            .partition_key_ranges(&self.container)?
            .0
            .iter()
            .map(|range| range.id)
            .collect())
    }

    /// Splits or merges partitions and waits until the change is complete.
    pub(crate) fn change_ranges(&self, change: RangeChange) -> Result<RangeChangeStatus> {
        let change = self
            .engine
            .begin_range_change(&self.container, change, false)?;
        Ok(self.engine.finish_range_change(change.id)?)
    }

    /// Deletes the data of partitions that no longer exist.
    pub(crate) fn destroy_deleted(&self) -> Result<()> {
        Ok(self.engine.destroy_deleted()?)
    }

    /// Returns the bytes of all items' JSON texts, rounded to kilobytes.
    pub(crate) fn bytes(&self) -> u64 {
        let (_, usage) = self.engine.quota(&self.container);
        let size = usage
            .split(';')
            .find_map(|part| part.strip_prefix("documentsSize="));
        size.and_then(|kilobytes| kilobytes.parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    }

    /// Reads an item and returns the bytes of its body.
    pub(crate) fn read(&self, key: &PartitionKey, id: &str) -> Result<usize> {
        match self
            .engine
            .read_item(&self.container, key, id, None, None)
            .wait()
            .result?
        {
            ReadReply::Item { body, .. } => Ok(body.len()),
            ReadReply::NotModified { .. } => {
                Err("a read without a condition returned no item".into())
            }
        }
    }

    /// Returns the partition key of an item.
    pub(crate) fn key(&self, text: &[u8]) -> Result<PartitionKey> {
        let Json::Object(item) = parse(text)? else {
            return Err("an item is an object".into());
        };
        Ok(self.container.partition_key().extract(&item)?)
    }
}

/// Calls `run` with the numbers from 0 on, each in its own thread. Returns the results in the order
/// of the numbers.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    run: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let run = &run;
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for number in 0..threads {
            // An error of any kind does not pass from thread to thread, its text does.
            started.push(scope.spawn(move || run(number).map_err(|error| error.to_string())));
        }
        let mut results = Vec::new();
        for thread in started {
            results.push(thread.join().map_err(|_| "a thread panicked")??);
        }
        Ok(results)
    })
}

/// Parses a JSON object.
fn object(text: &str) -> Result<Object> {
    match parse(text.as_bytes())? {
        Json::Object(object) => Ok(object),
        _ => Err("a definition is an object".into()),
    }
}

/// Runs the benchmark and prints microseconds per operation.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let bench = BenchEngine::open(Arc::new(MemoryStore::new()))?;
    let mut stored = Vec::new();
    for n in 0..READ_ITEMS {
        let text = item('r', n, READ_BYTES);
        bench.create(&text)?;
        stored.push((bench.key(&text)?, id('r', n)));
    }

    let (mut reads, mut creates) = (Vec::new(), Vec::new());
    for round in 0..rounds as u64 {
        let started = Instant::now();
        let mut bytes = 0;
        for n in 0..READS {
            let (key, id) = &stored[(n % READ_ITEMS) as usize];
            bytes += bench.read(key, id)?;
        }
        reads.push(started.elapsed().as_secs_f64() * 1e6 / READS as f64);
        if bytes < READS as usize * READ_BYTES {
            return Err("the items read are smaller than the items written".into());
        }

        // The texts are created first, so that only the engine is measured.
        let texts: Vec<_> = (0..CREATES)
            .map(|n| item('c', round * CREATES + n, CREATE_BYTES))
            .collect();
        let started = Instant::now();
        for text in &texts {
            bench.create(text)?;
        }
        creates.push(started.elapsed().as_secs_f64() * 1e6 / CREATES as f64);
    }

    println!(
        "{:<24} {:>8} {:>18}",
        "engine alone, in memory", "µs/op", "(best–worst round)"
    );
    for (name, figures) in [("point read, 1 KB", reads), ("create, 400 B", creates)] {
        let best = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let worst = figures.iter().copied().fold(0.0, f64::max);
        let middle = median(figures);
        figure(format!("{name}, µs"), middle);
        println!(
            "{name:<24} {middle:>8.2} {:>18}",
            format!("({best:.2}–{worst:.2})")
        );
    }
    Ok(())
}
