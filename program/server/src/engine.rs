//! Opens the engine on its store.

use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::continuous_backup::now_second;
use crate::failure::Failure;
use crate::memory::Memory;
use crate::moved;
use crate::private_file;
use orrery_engine::{Engine, EngineOptions};
use orrery_gateway::LogLevel;
use orrery_model::world::World;
use orrery_node::Clusters;
use orrery_placement::is_incomplete_copy;
use orrery_script::PoolOptions;
use orrery_storage::{LocalOptions, LocalStore, LogKeeping, MemoryStore, Store, StoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says that a data directory holds data.
const MARKER: &str = "HOLDS-DATA";

/// Opens the engine on the clusters, on the store in the data directory, or on a store in memory if
/// there is neither.
///
/// # Errors
/// [`Failure::Data`] if the data cannot be opened.
pub(crate) fn open_engine(
    config: &ServerConfig,
    context: &ServerContext,
    memory: &Memory,
    clusters: Option<&Clusters>,
    world: Arc<dyn World>,
) -> Result<Arc<Engine>, Failure> {
    let store: Arc<dyn Store> = match (clusters, &context.data_dir) {
        (Some(clusters), _) => clusters.store(),
        (None, None) => Arc::new(MemoryStore::new()),
        (None, Some(directory)) => {
            let options = LocalOptions {
                cache_bytes: memory.cache_bytes,
                memtable_bytes: memory.memtable_bytes,
                reserve_bytes: config.data.reserve_bytes,
                scrub_bytes_per_second: config.data.scrub_bytes_per_second,
                open_tables: context.descriptors.store_tables,
                log: match config.data.continuous_backup {
                    Some(_) => LogKeeping::On(now_second),
                    None => LogKeeping::Off,
                },
                ..LocalOptions::default()
            };
            if let Some(warning) = moved::check(directory, config.data.accepts_stale)? {
                context.log(LogLevel::Warn, &warning);
            }
            Arc::new(open_store(directory, options)?)
        }
    };
    refuse_incomplete_copy(&*store)?;
    let mut options = engine_options(config, memory)?;
    if let Some(clusters) = clusters {
        options.owners = clusters.grantor.clone();
    }
    let engine = open_on(store, options, world)?;
    if let Some(clusters) = clusters {
        clusters.grantor.set_engine(&engine);
    }
    Ok(engine)
}

/// Returns the options of the engine.
///
/// # Errors
/// The path of this program is not known.
pub(crate) fn engine_options(
    config: &ServerConfig,
    memory: &Memory,
) -> Result<EngineOptions, Failure> {
    Ok(EngineOptions {
        profile: config.engine.profile,
        cross_partition_queries: config.engine.cross_partition_queries,
        throughput: config.engine.throughput,
        logical_partition_bytes: config.engine.logical_partition_bytes,
        partition_bytes: config.engine.physical_partition_bytes,
        database_limits: config.engine.database_limits.clone(),
        container_ru: config.engine.container_ru,
        script_denial: config.engine.script_denial,
        account_versions: config.account_versions(),
        query_memory: memory.queries.clone(),
        ..EngineOptions::new(PoolOptions {
            max_processes: memory.script_requests,
            memory_bytes: memory.script_bytes,
            ..PoolOptions::new(config.script_host.clone())
        })
    })
}

/// Refuses data that `orrery migrate-store` has not copied completely: an engine would find no
/// database there.
fn refuse_incomplete_copy(store: &dyn Store) -> Result<(), Failure> {
    match is_incomplete_copy(store) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::Data(
            "the data is a copy that was not completed: run 'orrery migrate-store' again, with the \
             same source"
                .to_owned(),
        )),
        Err(error) => Err(Failure::Data(error.to_string())),
    }
}

/// Opens the engine on a store.
///
/// # Errors
/// [`Failure::Data`] if the data cannot be opened.
pub fn open_on(
    store: Arc<dyn Store>,
    options: EngineOptions,
    world: Arc<dyn World>,
) -> Result<Arc<Engine>, Failure> {
    match Engine::open(store, options, world) {
        Ok(engine) => Ok(Arc::new(engine)),
        Err(error) => {
            // The message is meant for clients; the cause names files and is more useful here.
            let cause = error.operator_text();
            Err(Failure::Data(format!("cannot open the data: {cause}")))
        }
    }
}

/// Returns the folder of the store in a data directory.
pub fn store_folder(directory: &Path) -> PathBuf {
    directory.join("store")
}

/// Opens the store in the folder `store` of a data directory.
///
/// The store detects missing files in its folder, but not the loss of the whole folder or of
/// everything in it. A file `HOLDS-DATA` beside the folder records that the store exists, so that
/// the server refuses to start with an empty database in its place. The file is durable before the
/// first request is served, so no acknowledged write precedes it.
pub fn open_store(directory: &Path, options: LocalOptions) -> Result<LocalStore, Failure> {
    let folder = store_folder(directory);
    let marker = directory.join(MARKER);
    let failed = |error: StoreError| Failure::Data(error.to_string());
    let has_marker = marker
        .try_exists()
        .map_err(|error| Failure::Data(format!("cannot look for {}: {error}", marker.display())))?;
    if has_marker && !LocalStore::is_created(&folder).map_err(failed)? {
        return Err(Failure::Data(format!(
            "the folder {} is missing or empty, but {} shows that it contained data: restore the \
             folder, or delete that file to start with an empty database",
            folder.display(),
            marker.display()
        )));
    }

    let store = LocalStore::open(&folder, options).map_err(failed)?;
    if !has_marker {
        mark_data(directory)?;
    }
    Ok(store)
}

/// Writes the file that says that a data directory holds data.
///
/// # Errors
/// [`Failure::Data`] if the file cannot be written.
pub fn mark_data(directory: &Path) -> Result<(), Failure> {
    let marker = directory.join(MARKER);
    let text = b"The folder `store` beside this file holds the data of an Orrery server.\n";
    private_file::write(&marker, text)
        .map_err(|error| Failure::Data(format!("cannot write {}: {error}", marker.display())))
}
