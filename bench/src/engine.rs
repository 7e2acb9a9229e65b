//! The engine alone, in this process, on the memory store: what it computes, without HTTP and without a disk.

use crate::items::{CONTAINER, CREATE_BYTES, DATABASE, READ_BYTES, READ_ITEMS, id, item};
use crate::report::median;
use crate::{Result, items};
use orrery_engine::request::{
    AdmissionOptions, Id, QueryPage, QueryRequest, RangeChange, RangeChangeStatus, ReadReply,
    Scope, Throughput, WriteOperation, WriteOptions,
};
use orrery_engine::{Container, Engine, EngineOptions, ThroughputOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const READS: u64 = 100_000;
const CREATES: u64 = 10_000;
/// 2026-01-01, in milliseconds since 1970.
const NOW_MS: u64 = 1_767_225_600_000;

/// A world whose time is the machine's.
struct RealClock(SeededWorld);

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

/// An engine with one container.
pub(crate) struct Room {
    engine: Engine,
    container: Arc<Container>,
}

impl Room {
    /// Opens an engine on `store` and makes the container that is also measured over HTTP.
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<Room> {
        Self::with(store, CONTAINER, 400)
    }

    /// Opens an engine on `store` and makes a container, named `items`, of so many RU/s.
    pub(crate) fn with(store: Arc<dyn Store>, container: &str, ru: u32) -> Result<Room> {
        Self::on(
            store,
            container,
            ru,
            ThroughputOptions::default(),
            Arc::new(SeededWorld::new(NOW_MS, 1)),
        )
    }

    /// The same container with so many RU/s under these options, by the real clock.
    pub(crate) fn metered(
        store: Arc<dyn Store>,
        throughput: ThroughputOptions,
        ru: u32,
    ) -> Result<Room> {
        let room = Self::on(
            store,
            CONTAINER,
            ru,
            throughput,
            Arc::new(RealClock(SeededWorld::new(NOW_MS, 1))),
        )?;
        room.engine
            .set_throughput_buckets(&room.container, [Some(100), None, None, None, None])?;
        Ok(room)
    }

    fn on(
        store: Arc<dyn Store>,
        container: &str,
        ru: u32,
        throughput: ThroughputOptions,
        world: Arc<dyn World>,
    ) -> Result<Room> {
        // No script is run, so no host is ever started.
        let scripts = PoolOptions::new(HostCommand {
            program: "no-script-host".into(),
            arguments: Vec::new(),
        });
        let options = EngineOptions {
            throughput,
            ..EngineOptions::new(scripts)
        };
        let engine = Engine::open(store, options, world)?;
        engine.create_database(&object(DATABASE)?, None).result?;
        let database = engine.database(Id::Name("bench"))?;
        engine
            .create_container(&database, &object(container)?, Some(Throughput::Manual(ru)))
            .result?;
        let container = engine.container(Id::Name("bench"), Id::Name("items"))?;
        Ok(Room { engine, container })
    }

    /// A request that is admitted and charged, and does nothing.
    pub(crate) fn pass(&self, key: &PartitionKey, admission: AdmissionOptions) -> Result<()> {
        Ok(self.engine.admit_only(&self.container, key, admission)?)
    }

    /// Creates an item and waits until it is durable, or what the store takes for that.
    pub(crate) fn create(&self, text: &[u8]) -> Result<()> {
        let written = self.engine.write_item(
            &self.container,
            &WriteOperation::Create,
            Some(text),
            &WriteOptions::default(),
        );
        written.wait().result?;
        Ok(())
    }

    /// Creates items; waits for their durability some hundred at a time.
    pub(crate) fn create_all(&self, texts: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        const UNDER_WAY: usize = 256;
        let mut pending = std::collections::VecDeque::new();
        let options = WriteOptions::default();
        for text in texts {
            pending.push_back(self.engine.write_item(
                &self.container,
                &WriteOperation::Create,
                Some(&text),
                &options,
            ));
            if pending.len() > UNDER_WAY
                && let Some(first) = pending.pop_front()
            {
                first.wait().result?;
            }
        }
        for write in pending {
            write.wait().result?;
        }
        Ok(())
    }

    /// A page of a query.
    pub(crate) fn query(&self, scope: &Scope, request: &QueryRequest) -> Result<QueryPage> {
        Ok(self
            .engine
            .query(&self.container, scope, request, None)
            .result?)
    }

    /// The range ids of the container.
    pub(crate) fn ranges(&self) -> Result<Vec<u32>> {
        Ok(self
            .engine
            .partition_key_ranges(&self.container)?
            .0
            .iter()
            .map(|range| range.id)
            .collect())
    }

    /// Splits or merges, and waits for the end of it.
    pub(crate) fn repartition(&self, change: RangeChange) -> Result<RangeChangeStatus> {
        let begun = self
            .engine
            .begin_range_change(&self.container, change, false)?;
        Ok(self.engine.finish_range_change(begun.id)?)
    }

    /// Gives back what nobody needs any more.
    pub(crate) fn destroy_deleted(&self) -> Result<()> {
        Ok(self.engine.destroy_deleted()?)
    }

    /// Bytes of all items' texts, to the kilobyte.
    pub(crate) fn bytes(&self) -> u64 {
        let (_, usage) = self.engine.quota(&self.container);
        let size = usage
            .split(';')
            .find_map(|part| part.strip_prefix("documentsSize="));
        size.and_then(|kilobytes| kilobytes.parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes * 1024)
    }

    pub(crate) fn read(&self, key: &PartitionKey, id: &str) -> Result<usize> {
        match self
            .engine
            .read_item(&self.container, key, id, None, None)
            .wait()
            .result?
        {
            ReadReply::Item { body, .. } => Ok(body.len()),
            ReadReply::NotModified { .. } => {
                Err("an item was read without a condition and not shown".into())
            }
        }
    }

    pub(crate) fn key(&self, text: &[u8]) -> Result<PartitionKey> {
        let Json::Object(item) = parse(text)? else {
            return Err("an item is an object".into());
        };
        Ok(self.container.partition_key().extract(&item)?)
    }
}

fn object(text: &str) -> Result<Object> {
    match parse(text.as_bytes())? {
        Json::Object(object) => Ok(object),
        _ => Err("a definition is an object".into()),
    }
}

/// Measures and prints microseconds an operation.
pub(crate) fn run(rounds: usize) -> Result<()> {
    let room = Room::open(Arc::new(MemoryStore::new()))?;
    let mut reads = Vec::new();
    for n in 0..READ_ITEMS {
        let text = item('r', n, READ_BYTES);
        room.create(&text)?;
        reads.push((room.key(&text)?, id('r', n)));
    }
    let (mut read, mut create) = (Vec::new(), Vec::new());
    for round in 0..rounds as u64 {
        let begun = Instant::now();
        let mut bytes = 0;
        for n in 0..READS {
            let (key, id) = &reads[(n % READ_ITEMS) as usize];
            bytes += room.read(key, id)?;
        }
        read.push(begun.elapsed().as_secs_f64() * 1e6 / READS as f64);
        if bytes < READS as usize * READ_BYTES {
            return Err("the items read are smaller than those written".into());
        }
        let texts: Vec<_> = (0..CREATES)
            .map(|n| items::item('c', round * CREATES + n, CREATE_BYTES))
            .collect();
        let begun = Instant::now();
        texts.iter().try_for_each(|text| room.create(text))?;
        create.push(begun.elapsed().as_secs_f64() * 1e6 / CREATES as f64);
    }
    println!(
        "{:<24} {:>8} {:>18}",
        "engine alone, in memory", "µs/op", "(best–worst round)"
    );
    for (name, figures) in [("point read, 1 KB", read), ("create, 400 B", create)] {
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = figures.iter().copied().fold(0.0, f64::max);
        println!(
            "{name:<24} {:>8.2} {:>18}",
            median(figures),
            format!("({least:.2}–{most:.2})")
        );
    }
    Ok(())
}
