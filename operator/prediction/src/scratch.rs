//! A container in memory with given settings, filled with a sample of items.
//!
//! Items keep their `_ts`, because the clock of the scratch engine is set to it before each write.
//! Their lifetimes are left out, so that no item expires while a prediction runs; so are settings
//! that have no effect on charges: versions, encryption.

use crate::limits::{Failure, Run};
use crate::sample::{Sample, SampleItem};
use orrery_engine::request::{
    Charge, Id, RangeChange, ScriptKind, SplitAt, Throughput, WriteOperation, WriteOptions,
};
use orrery_engine::{Container, Engine};
use orrery_model::partition_key::{Definition, Epk, EpkRange, PartitionKey};
use orrery_model::world::{World, split_mix};
use orrery_model::{Error, Json, Object, object};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Items that are written between two checks of the bounds.
const ITEMS_PER_CHECK: usize = 64;
/// RU/s for which a new container has one physical partition.
const RU_PER_PARTITION: u32 = 6_000;
/// Physical partitions that a scratch container may have.
pub(crate) const PARTITIONS_MAX: u32 = 100;
/// The id of the scratch database and of its container.
const NAME: &str = "prediction";

/// The settings of a scratch container.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    /// The partition key definition.
    pub partition_key: Json,
    /// The indexing policy; `None` for the default.
    pub indexing_policy: Option<Json>,
    /// The borders between the physical partitions.
    pub layout: Layout,
}

/// The physical partitions of a scratch container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layout {
    /// Partitions with equal parts of the hash space.
    Even(u32),
    /// Partitions with these EPK ranges.
    Ranges(Vec<EpkRange>),
}

/// The clock of a scratch engine, which is set and never moves by itself.
pub(crate) struct Clock {
    now_ms: AtomicU64,
    drawn: AtomicU64,
}

impl World for Clock {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        split_mix(self.drawn.fetch_add(1, Ordering::Relaxed))
    }
}

/// A filled scratch container.
pub(crate) struct Scratch {
    /// The engine in memory.
    pub engine: Engine,
    /// The container.
    pub container: Arc<Container>,
    /// The EPK ranges of the physical partitions.
    pub ranges: Vec<EpkRange>,
    /// The place of each item of the sample; `None` for an item that could not be stored.
    pub placed: Vec<Option<Placed>>,
    /// Items whose id or unique key is taken in their logical partition.
    pub conflicts: u64,
    /// Items that the container refuses for another reason, and the first reason.
    pub refused: (u64, Option<String>),
    clock: Arc<Clock>,
}

/// The place of an item in a scratch container.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The id of the item.
    pub id: String,
    /// The partition key.
    pub key: PartitionKey,
    /// The effective partition key.
    pub epk: Epk,
    /// The index of the physical partition.
    pub partition: usize,
    /// The charge of the create.
    pub created: Charge,
}

impl Design {
    /// Returns the settings of a container as they are.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn of(run: &Run<'_>, container: &Container) -> Result<Design, Failure> {
        let (ranges, _) = run.engine.partition_key_ranges(container)?;
        let ranges: Vec<EpkRange> = ranges.into_iter().map(|range| range.range).collect();
        let hashing = container.partition_key().hashing();
        let layout = match EpkRange::divide_evenly(hashing, ranges.len()) == ranges {
            true => Layout::Even(u32::try_from(ranges.len()).unwrap_or(PARTITIONS_MAX)),
            false => Layout::Ranges(ranges),
        };
        Ok(Design {
            partition_key: container.partition_key().to_json(),
            indexing_policy: body_of(container).get("indexingPolicy").cloned(),
            layout,
        })
    }
}

/// Returns the body of a container.
fn body_of(container: &Container) -> Object {
    container.settings().body(container.id())
}

impl Layout {
    /// Returns the number of physical partitions.
    pub(crate) fn count(&self) -> u32 {
        match self {
            Layout::Even(count) => *count,
            Layout::Ranges(ranges) => u32::try_from(ranges.len()).unwrap_or(PARTITIONS_MAX),
        }
    }
}

impl Scratch {
    /// Creates a container with the settings of `design`, and those of `container` that the design
    /// does not name, and fills it with a sample.
    ///
    /// # Errors
    /// 400 for settings that are wrong, and those of the bounds.
    pub(crate) fn fill(
        run: &mut Run<'_>,
        container: &Container,
        design: &Design,
        sample: &Sample,
    ) -> Result<Scratch, Failure> {
        if design.layout.count() > PARTITIONS_MAX {
            return Err(Failure::Engine(Error::bad(format!(
                "A prediction works with at most {PARTITIONS_MAX} physical partitions, and {} are \
                 needed. State fewer 'physicalPartitions'.",
                design.layout.count()
            ))));
        }
        let clock = Arc::new(Clock {
            now_ms: AtomicU64::new(1_000),
            drawn: AtomicU64::new(0),
        });
        let world: Arc<dyn World> = Arc::clone(&clock) as Arc<dyn World>;
        let engine = run.engine.scratch_engine(container, world)?;
        let copy = create(&engine, container, design)?;
        let (ranges, _) = engine.partition_key_ranges(&copy)?;
        let mut scratch = Scratch {
            ranges: ranges.into_iter().map(|range| range.range).collect(),
            placed: Vec::with_capacity(sample.items.len()),
            conflicts: 0,
            refused: (0, None),
            container: copy,
            engine,
            clock,
        };
        let before = run.held();
        for (at, item) in sample.items.iter().enumerate() {
            if at % ITEMS_PER_CHECK == 0 {
                run.check_time("copying items")?;
                run.hold(before + scratch.engine.approximate_bytes())?;
            }
            let placed = scratch.add(item)?;
            scratch.placed.push(placed);
        }
        run.hold(before + scratch.engine.approximate_bytes())?;
        Ok(scratch)
    }

    /// Returns the partition key definition.
    pub(crate) fn definition(&self) -> &Definition {
        self.container.partition_key()
    }

    /// Lets a second pass, so that the next write changes `_ts`.
    pub(crate) fn pass_second(&self) {
        self.clock.now_ms.fetch_add(1_000, Ordering::Relaxed);
    }

    /// Writes an item of the sample.
    fn add(&mut self, item: &SampleItem) -> Result<Option<Placed>, Failure> {
        self.clock
            .now_ms
            .store(item.ts.saturating_mul(1_000).max(1_000), Ordering::Relaxed);
        let options = WriteOptions {
            indexing: item.indexing,
            ..WriteOptions::default()
        };
        let written = self.engine.write_item(
            &self.container,
            &WriteOperation::Create,
            Some(&item.text),
            &options,
        );
        let written = written.wait();
        match written.result {
            Ok(_) => {}
            Err(error) if error.status() >= 500 => return Err(error.into()),
            Err(error) if error.status() == 409 => {
                self.conflicts += 1;
                return Ok(None);
            }
            Err(error) => {
                self.refused.0 += 1;
                self.refused
                    .1
                    .get_or_insert_with(|| error.message().to_owned());
                return Ok(None);
            }
        }
        self.place(&item.object()?, written.charge).map(Some)
    }

    /// Returns the place of an item that was stored.
    fn place(&self, object: &Object, created: Charge) -> Result<Placed, Failure> {
        let definition = self.definition();
        let key = definition.extract(object)?;
        let epk = definition.epk(&key);
        let id = object.get("id").and_then(Json::as_str).unwrap_or_default();
        Ok(Placed {
            id: id.to_owned(),
            partition: self.partition_of(&epk),
            key,
            epk,
            created,
        })
    }

    /// Returns the index of the physical partition of a logical partition.
    pub(crate) fn partition_of(&self, epk: &Epk) -> usize {
        let mut ranges = self.ranges.iter();
        ranges.position(|range| range.contains(epk)).unwrap_or(0)
    }

    /// Returns the charges of each physical partition so far, in hundredths of a request unit.
    pub(crate) fn charged(&self) -> Vec<u64> {
        let throughput = self.engine.throughput_of(&self.container);
        let partitions = throughput.partitions.iter();
        partitions.map(|partition| partition.charged.0).collect()
    }
}

/// Creates an empty container with the settings of a design.
fn create(engine: &Engine, source: &Container, design: &Design) -> Result<Arc<Container>, Failure> {
    let mut body = body_of(source);
    for name in ["defaultTtl", "changeFeedPolicy", "clientEncryptionPolicy"] {
        body.remove(name);
    }
    body.set("id", NAME);
    match source.partition_key().is_system_key() {
        true if design.partition_key == source.partition_key().to_json() => {}
        _ => body.set("partitionKey", design.partition_key.clone()),
    }
    match &design.indexing_policy {
        Some(policy) => body.set("indexingPolicy", policy.clone()),
        None => drop(body.remove("indexingPolicy")),
    }
    engine
        .create_database(&object! { "id" => NAME }, None)
        .result?;
    let database = engine.database(Id::Name(NAME))?;
    let partitions = match &design.layout {
        Layout::Even(count) => *count,
        Layout::Ranges(_) => 1,
    };
    let throughput = match partitions {
        0 | 1 => Throughput::Manual(400),
        count => Throughput::Manual(count * RU_PER_PARTITION),
    };
    engine
        .create_container(&database, &body, Some(throughput))
        .result?;
    let container = engine.container(Id::Name(NAME), Id::Name(NAME))?;
    if let Layout::Ranges(ranges) = &design.layout {
        divide(engine, &container, ranges)?;
    }
    for function in source.scripts(ScriptKind::Function) {
        let body = object! { "id" => function.id(), "body" => function.source() };
        engine
            .create_script(&container, ScriptKind::Function, &body, false)
            .result?;
    }
    Ok(container)
}

/// Splits the only partition of an empty container into these ranges.
fn divide(engine: &Engine, container: &Arc<Container>, ranges: &[EpkRange]) -> Result<(), Failure> {
    for range in ranges.iter().skip(1) {
        // The last partition holds the rest of the hash space.
        let (all, _) = engine.partition_key_ranges(container)?;
        let Some(last) = all.last() else { break };
        let change = RangeChange::Split {
            range: last.id,
            at: SplitAt::Border(range.min.clone()),
        };
        let begun = engine.begin_range_change(container, change, true)?;
        engine.finish_range_change(begun.id)?;
    }
    Ok(())
}
