//! Opens the engine on its store.

use crate::command::{CrossPartitionQueries, Profile, StartArguments, Switch};
use crate::failure::Failure;
use crate::memory::Memory;
use orrery_engine::{Engine, EngineOptions, ThroughputOptions};
use orrery_model::world::World;
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore, Store};
use std::path::Path;
use std::sync::Arc;

/// Opens the engine on the store in `data_dir`, or on a store in memory if there is no directory.
///
/// # Errors
/// [`Failure::Data`] if the data in `data_dir` cannot be opened.
pub(crate) fn open_engine(
    arguments: &StartArguments,
    memory: &Memory,
    data_dir: Option<&Path>,
    world: Arc<dyn World>,
) -> Result<Arc<Engine>, Failure> {
    let store: Arc<dyn Store> = match data_dir {
        None => Arc::new(MemoryStore::new()),
        Some(directory) => Arc::new(open_store(directory, memory)?),
    };

    // Scripts run in processes of this program, which can be killed without harm to the server.
    let program = std::env::current_exe().map_err(|error| {
        Failure::Failed(format!(
            "cannot determine the path of this program, which runs scripts: {error}"
        ))
    })?;
    let script_host = HostCommand {
        program: program.into_os_string(),
        arguments: vec!["script-host".into()],
    };

    let options = EngineOptions {
        profile: match arguments.profile {
            Profile::Modern => orrery_engine::Profile::Modern,
            Profile::Y2019 => orrery_engine::Profile::Y2019,
        },
        cross_partition_queries: match arguments.cross_partition_queries {
            CrossPartitionQueries::Merge => orrery_engine::CrossPartitionQueries::Merge,
            CrossPartitionQueries::Refuse => orrery_engine::CrossPartitionQueries::Refuse,
        },
        throughput: ThroughputOptions {
            enforce: arguments.enforce_throughput == Switch::On,
            burst_capacity: arguments.burst_capacity,
            priorities: arguments.priority_based_execution,
        },
        query_memory: memory.queries.clone(),
        ..EngineOptions::new(PoolOptions {
            max_processes: memory.script_requests,
            ..PoolOptions::new(script_host)
        })
    };
    match Engine::open(store, options, world) {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(error) => {
            // The message is meant for clients; the cause names files and is more useful here.
            let mut cause = error.cause_chain();
            if cause.is_empty() {
                cause = error.message().to_owned();
            }
            Err(Failure::Data(format!("cannot open the data: {cause}")))
        }
    }
}

/// Opens the store in the folder `store` of a data directory.
///
/// The store detects missing files in its folder, but not the loss of the whole folder. A file
/// `HOLDS-DATA` beside the folder records that the folder exists, so that the server refuses to
/// start with an empty database in its place.
fn open_store(directory: &Path, memory: &Memory) -> Result<LocalStore, Failure> {
    let folder = directory.join("store");
    let marker = directory.join("HOLDS-DATA");
    if marker.exists() && !folder.exists() {
        return Err(Failure::Data(format!(
            "the folder {} is missing, but {} shows that it contained data: restore the folder, \
             or delete that file to start with an empty database",
            folder.display(),
            marker.display()
        )));
    }

    let options = LocalOptions {
        cache_bytes: memory.cache_bytes,
        ..LocalOptions::default()
    };
    let store =
        LocalStore::open(&folder, options).map_err(|error| Failure::Data(error.to_string()))?;
    let text = "The folder `store` beside this file holds the data of an Orrery server.\n";
    std::fs::write(&marker, text)
        .map_err(|error| Failure::Data(format!("cannot write {}: {error}", marker.display())))?;
    Ok(store)
}
