//! Opens the engine on a store.

use crate::command::{CrossPartitionQueries, Profile};
use crate::failure::Failure;
use orrery_engine::{Engine, EngineOptions, ThroughputOptions};
use orrery_model::world::World;
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore, Store};
use std::path::Path;
use std::sync::Arc;

/// Opens the engine on the directory `store` of `data_dir`, or on memory.
///
/// # Errors
/// [`Failure::Data`] if what lies in `data_dir` cannot be opened.
pub(crate) fn open_engine(
    data_dir: Option<&Path>,
    profile: Profile,
    cross_partition_queries: CrossPartitionQueries,
    throughput: ThroughputOptions,
    world: Arc<dyn World>,
) -> Result<Arc<Engine>, Failure> {
    let store: Arc<dyn Store> = match data_dir {
        None => Arc::new(MemoryStore::new()),
        Some(directory) => Arc::new(open_store(directory)?),
    };
    let program = std::env::current_exe().map_err(|error| {
        Failure::Failed(format!(
            "cannot find this program to run scripts with: {error}"
        ))
    })?;
    let command = HostCommand {
        program: program.into_os_string(),
        arguments: vec!["script-host".into()],
    };
    let profile = match profile {
        Profile::Modern => orrery_engine::Profile::Modern,
        Profile::Y2019 => orrery_engine::Profile::Y2019,
    };
    let cross_partition_queries = match cross_partition_queries {
        CrossPartitionQueries::Merge => orrery_engine::CrossPartitionQueries::Merge,
        CrossPartitionQueries::Refuse => orrery_engine::CrossPartitionQueries::Refuse,
    };
    let scripts = PoolOptions::new(command);
    let options = EngineOptions {
        profile,
        cross_partition_queries,
        throughput,
        ..EngineOptions::new(scripts)
    };
    let engine = Engine::open(store, options, world).map_err(|error| {
        let cause = error.cause_chain();
        let cause = if cause.is_empty() {
            error.message().to_owned()
        } else {
            cause
        };
        Failure::Data(format!("the data cannot be opened: {cause}"))
    })?;
    Ok(Arc::new(engine))
}

/// Opens the local store of a data directory.
///
/// The store guards its own files; that its whole folder is gone only a note beside it can tell.
fn open_store(directory: &Path) -> Result<LocalStore, Failure> {
    let (folder, note) = (directory.join("store"), directory.join("HOLDS-DATA"));
    if note.exists() && !folder.exists() {
        return Err(Failure::Data(format!(
            "the folder {} is missing, and {} says that there was data in it: restore the folder, or delete that file to \
             begin anew without the data",
            folder.display(),
            note.display()
        )));
    }
    let store = LocalStore::open(&folder, LocalOptions::default())
        .map_err(|error| Failure::Data(error.to_string()))?;
    let sentence = "The folder `store` beside this file holds the data of an Orrery server.\n";
    std::fs::write(&note, sentence)
        .map_err(|error| Failure::Data(format!("cannot write {}: {error}", note.display())))?;
    Ok(store)
}
