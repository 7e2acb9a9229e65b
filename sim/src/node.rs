//! The world of a seed: a store, a clock, an engine, containers with their models, and what clients
//! remember. Each step is one request, one piece of upkeep, or one misfortune.

use crate::feeds::Reader;
use crate::model::{ContainerModel, Seen};
use crate::planted::Planted;
use crate::random::Random;
use crate::reads::named_by;
use crate::spec::{ItemKey, Spec};
use crate::trace::Trace;
use crate::writes::Submitted;
use crate::{Checked, Plan};
use orrery_engine::request::{Charge, Id, PageRequest, Position, Scope, Throughput};
use orrery_engine::{Container, Engine, EngineOptions};
use orrery_model::json::parse;
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Error, Json, Kind, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::Store;
use orrery_storage::testing::{Failing, Fault};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

/// The time at which every world begins, in milliseconds since 1970.
const START_MS: u64 = 1_767_225_600_000;
/// Vectors from which on a graph proposes candidates.
const APPROXIMATE_FROM: u64 = 6;

/// The store of a world.
pub(crate) type SimStore = Failing<Planted>;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) crashes: u64,
    pub(crate) answered: u64,
    pub(crate) unknown: u64,
    pub(crate) backups: u64,
}

/// The world.
pub(crate) struct Node<'t> {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    trace: &'t mut Trace,
    pub(crate) world: Arc<SeededWorld>,
    pub(crate) store: Arc<SimStore>,
    pub(crate) engine: Engine,
    pub(crate) models: Vec<ContainerModel>,
    /// Writes whose answers are awaited.
    pub(crate) awaited: Vec<Submitted>,
    /// The last number of a change.
    last_number: u64,
    /// True from the arrangement of a fault to the repair.
    pub(crate) is_armed: bool,
    /// The snapshots, with the models of their moments.
    pub(crate) snapshots: BTreeMap<String, Vec<ContainerModel>>,
    pub(crate) readers: Vec<Reader>,
    /// The split or merge of each container that is under way.
    pub(crate) range_changes: BTreeMap<usize, u64>,
    /// Faults and crashes so far, and their number when the split or merge of a container began.
    pub(crate) troubles: u64,
    pub(crate) troubles_before: BTreeMap<usize, u64>,
    /// LSNs of answered writes, by container and range.
    written: BTreeMap<(usize, u32), BTreeSet<u64>>,
    /// LSNs of answered writes of single items, and of others, by container and range.
    changed: BTreeSet<((usize, u32), u64)>,
    unchanged: BTreeSet<((usize, u32), u64)>,
    /// The last LSN that a read has shown, by container and range.
    read: BTreeMap<(usize, u32), u64>,
    /// The position of the last answered write of each container.
    session: BTreeMap<usize, Position>,
    pub(crate) counts: Counts,
    /// The sum of the charges of each container's requests since the engine was opened.
    charged: BTreeMap<usize, u64>,
    /// True if the clock has moved ahead by more than versions are kept.
    pub(crate) has_jumped: bool,
    /// The folder with backups of a world on files.
    pub(crate) repository: Option<TempDir>,
}

impl<'t> Node<'t> {
    /// Creates the world of a plan: a database and some containers.
    pub(crate) fn new(plan: &Plan, trace: &'t mut Trace) -> Checked<Node<'t>> {
        let mut random = Random::new(plan.seed);
        let world = Arc::new(SeededWorld::new(START_MS, plan.seed));
        let store = sim_store(Planted::new(plan)?);
        let repository = match plan.is_on_files {
            true => Some(tempfile::tempdir().map_err(|error| error.to_string())?),
            false => None,
        };
        let engine = open(&store, &world).map_err(|error| format!("no engine: {error:?}"))?;
        let database = engine
            .create_database(&object(r#"{"id":"db"}"#)?, None)
            .result;
        database.map_err(|error| format!("no database: {error:?}"))?;
        let mut models = Vec::new();
        for number in 0..2 + random.index(2) {
            let spec = Spec::random(&mut random, number);
            let default_ttl = match spec.has_ttl {
                true => random.pick(&[Some(-1), Some(20), Some(4_000)]),
                false => None,
            };
            trace.add(format!("{spec:?}, ttl {default_ttl:?}"));
            create(&engine, &spec, default_ttl)?;
            models.push(ContainerModel::new(spec, default_ttl));
        }
        let mut node = Node {
            plan: *plan,
            random,
            trace,
            world,
            store,
            engine,
            models,
            awaited: Vec::new(),
            last_number: 0,
            is_armed: false,
            snapshots: BTreeMap::new(),
            readers: Vec::new(),
            range_changes: BTreeMap::new(),
            troubles: 0,
            troubles_before: BTreeMap::new(),
            written: BTreeMap::new(),
            changed: BTreeSet::new(),
            unchanged: BTreeSet::new(),
            read: BTreeMap::new(),
            session: BTreeMap::new(),
            counts: Counts::default(),
            charged: BTreeMap::new(),
            has_jumped: false,
            repository,
        };
        node.create_readers()?;
        node.restart()?;
        Ok(node)
    }

    /// Runs all steps, then compares everything.
    pub(crate) fn run(mut self) -> Checked<Counts> {
        for _ in 0..self.plan.steps {
            self.step()?;
            if self.store.inner().has_crashed() {
                self.recover()?;
            }
        }
        self.check_everything()?;
        Ok(self.counts)
    }

    fn step(&mut self) -> Checked {
        match self.random.below(1_000) {
            0..370 => self.write_item(),
            370..450 => self.write_batch(),
            450..465 => self.delete_key(),
            465..590 => self.read_item(),
            590..690 => self.query(),
            690..790 => self.read_feed(),
            790..830 => self.work_in_background(),
            830..870 => self.move_clock(),
            870..880 => self.change_policy(),
            880..890 => self.change_ttl(),
            890..920 => self.change_ranges(),
            920..926 => self.take_snapshot(),
            926..930 => self.restore_snapshot(),
            930..945 => self.arm_fault(),
            945..965 => self.repair(),
            965..972 => self.restart(),
            972..976 => {
                self.note("crash".to_owned());
                self.store.inner().crash();
                Ok(())
            }
            976..984 => self.wait_for_all(),
            #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
            984..988 if self.plan.is_on_files => self.back_up(),
            984..988 => self.wait_for_all(),
            _ => self.check_everything(),
        }
    }

    /// Adds an event to the trace.
    pub(crate) fn note(&mut self, line: String) {
        self.trace.add(line);
    }

    /// Returns the second of the clock.
    pub(crate) fn now(&self) -> u64 {
        self.world.now_seconds()
    }

    /// Returns the next number of a change.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Returns the last number of a change.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Returns the number of a container.
    pub(crate) fn random_container(&mut self) -> usize {
        self.random.index(self.models.len())
    }

    /// Returns a container.
    pub(crate) fn handle(&self, container: usize) -> Checked<Arc<Container>> {
        let name = self.models[container].spec.name.as_str();
        let found = self.engine.container(Id::Name("db"), Id::Name(name));
        found.map_err(|error| format!("the container {name} is gone: {error:?}"))
    }

    /// Returns true while the store may refuse what it should take.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_armed || self.store.is_broken() || self.store.inner().has_crashed()
    }

    /// Checks that an error has a cause: a failure of the store, or a split that completes.
    pub(crate) fn check_failure(&mut self, container: usize, error: &Error) -> Checked {
        let is_explained = match error.kind() {
            Kind::CompletingSplit => self.is_completing(container),
            Kind::Internal
            | Kind::Unavailable
            | Kind::StorageFull
            | Kind::Throttled
            | Kind::RetryWith
            | Kind::UnknownOutcome => self.is_failing(),
            _ => false,
        };
        self.note(format!("  failed {:?}", error.kind()));
        match is_explained {
            true => Ok(()),
            false => Err(format!(
                "an error without a cause: {error:?} {}",
                error.cause_chain()
            )),
        }
    }

    /// Opens another engine on a store.
    pub(crate) fn open_on(&mut self, store: Planted) -> Result<(), Error> {
        self.store = sim_store(store);
        self.engine = open(&self.store, &self.world)?;
        self.range_changes.clear();
        self.is_armed = false;
        self.charged.clear();
        Ok(())
    }
}

/// Sessions.
impl Node<'_> {
    /// Returns the session token of the last answered write of a container.
    pub(crate) fn session(&self, container: usize) -> Option<String> {
        let position = self.session.get(&container)?;
        let Position {
            range_id,
            version,
            lsn,
            ..
        } = position;
        Some(format!("{range_id}:{version}#{lsn}"))
    }

    /// Takes in the position of an answered write. No two have the same, but for those that changed
    /// nothing in the end: a batch that deletes what it created.
    pub(crate) fn note_written_lsn(
        &mut self,
        container: usize,
        position: Option<Position>,
        is_change: bool,
    ) -> Checked {
        let position = position.ok_or("an answered write has no position")?;
        let place = (container, position.range_id);
        let known = self.written.entry(place).or_default();
        let is_used = if is_change {
            &mut self.changed
        } else {
            &mut self.unchanged
        };
        known.insert(position.lsn);
        if !is_used.insert((place, position.lsn)) && is_change {
            return Err(format!(
                "two answered writes have the position {position:?}"
            ));
        }
        self.session.insert(container, position);
        Ok(())
    }

    /// Takes in the position of a read: it never goes back, and reaches every answered write.
    pub(crate) fn note_read_lsn(
        &mut self,
        container: usize,
        position: Option<Position>,
    ) -> Checked {
        let Some(position) = position else {
            return Ok(());
        };
        let place = (container, position.range_id);
        let written = self.written.get(&place).and_then(BTreeSet::last).copied();
        let read = self.read.entry(place).or_default();
        let least = (*read).max(written.unwrap_or(0));
        if position.lsn < least {
            return Err(format!(
                "{position:?} is behind {least}, which clients have seen"
            ));
        }
        *read = position.lsn;
        Ok(())
    }

    /// Reads every item of a container.
    pub(crate) fn read_all(&mut self, container: usize) -> Checked<BTreeMap<ItemKey, Seen>> {
        let mut state = BTreeMap::new();
        for key in ItemKey::all() {
            let read = self.read(container, key, None, None)?;
            let Some((seen, _)) = read else {
                return Err(format!("{key:?} cannot be read"));
            };
            if let Some(seen) = seen {
                state.insert(key, seen);
            }
        }
        Ok(state)
    }
}

impl Node<'_> {
    /// Returns the write that each item of a container shows, known to the model or not.
    pub(crate) fn read_numbers(&mut self, container: usize) -> Checked<BTreeMap<ItemKey, u64>> {
        let (numbers, charge) = numbers_of(&self.engine, &self.models[container])?;
        self.note_charge(container, charge);
        Ok(numbers)
    }

    /// Notes the charge of a request.
    pub(crate) fn note_charge(&mut self, container: usize, charge: Charge) {
        *self.charged.entry(container).or_default() += charge.0;
    }

    /// Returns what the partitions of a container have charged since the engine was opened.
    fn charged_by_partitions(&self, container: usize) -> Checked<u64> {
        let handle = self.handle(container)?;
        let throughput = self.engine.throughput_of(&handle);
        Ok(throughput.partitions.iter().map(|one| one.charged.0).sum())
    }

    /// Begins to count charges anew.
    pub(crate) fn forget_charges(&mut self) -> Checked {
        for container in 0..self.models.len() {
            let charged = self.charged_by_partitions(container)?;
            self.charged.insert(container, charged);
        }
        Ok(())
    }

    /// Compares the accounts of the partitions of a container with the charges of its requests.
    pub(crate) fn check_charges(&self, container: usize) -> Checked {
        let accounts = self.charged_by_partitions(container)?;
        let charged = self.charged.get(&container).copied().unwrap_or(0);
        match accounts == charged {
            true => Ok(()),
            false => Err(format!(
                "the partitions of c{container} have charged {accounts}, and its requests \
                 {charged} hundredths of a request unit"
            )),
        }
    }
}

/// Returns the write that each item of a container of an engine shows, and the charge.
pub(crate) fn numbers_of(
    engine: &Engine,
    model: &ContainerModel,
) -> Checked<(BTreeMap<ItemKey, u64>, Charge)> {
    let name = model.spec.name.as_str();
    let handle = engine.container(Id::Name("db"), Id::Name(name));
    let handle = handle.map_err(|error| format!("the container {name} is gone: {error:?}"))?;
    let page = PageRequest::default();
    let feed = engine.read_feed(&handle, &Scope::Everything, &page, None);
    let charge = feed.charge;
    let feed = feed.result;
    let feed = feed.map_err(|error| format!("{name} cannot be read: {error:?}"))?;
    let mut numbers = BTreeMap::new();
    for row in &feed.rows {
        let item = parse(row).map_err(|error| format!("an item is no JSON: {error}"))?;
        let (key, seen) = named_by(model, &item)?;
        numbers.insert(key, seen.n);
    }
    Ok((numbers, charge))
}

fn sim_store(store: Planted) -> Arc<SimStore> {
    Arc::new(Failing::after(u64::MAX, Fault::Busy, store))
}

fn open(store: &Arc<SimStore>, world: &Arc<SeededWorld>) -> Result<Engine, Error> {
    open_engine(Arc::clone(store) as Arc<_>, world)
}

/// Opens an engine on a store.
pub(crate) fn open_engine(
    store: Arc<dyn Store>,
    world: &Arc<SeededWorld>,
) -> Result<Engine, Error> {
    Engine::open(store, engine_options(), Arc::clone(world) as Arc<_>)
}

/// Returns the options of an engine.
pub(crate) fn engine_options() -> EngineOptions {
    // No world has scripts, so the program is never started.
    let scripts = PoolOptions::new(HostCommand {
        program: "no-script-host".into(),
        arguments: Vec::new(),
    });
    EngineOptions {
        approximate_from: APPROXIMATE_FROM,
        ..EngineOptions::new(scripts)
    }
}

fn create(engine: &Engine, spec: &Spec, default_ttl: Option<i64>) -> Checked {
    let database = engine
        .database(Id::Name("db"))
        .map_err(|error| error.to_string())?;
    // A new container has one physical partition for each 6,000 RU/s.
    let throughput = match spec.partitions {
        1 => 400,
        partitions => partitions * 6_000,
    };
    let definition = object(&spec.definition(0, default_ttl))?;
    let created =
        engine.create_container(&database, &definition, Some(Throughput::Manual(throughput)));
    let created = created
        .result
        .map_err(|error| format!("{definition:?}: {error:?}"));
    created.map(|_| ())
}

/// Parses the text of an object.
pub(crate) fn object(text: &str) -> Checked<Object> {
    match parse(text.as_bytes()) {
        Ok(Json::Object(object)) => Ok(object),
        other => Err(format!("{text} is no object: {other:?}")),
    }
}
