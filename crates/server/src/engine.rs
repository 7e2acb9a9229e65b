//! Opens the engine on a store.

use crate::command::Profile;
use crate::failure::Failure;
use orrery_engine::{Engine, EngineOptions};
use orrery_model::world::World;
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore, Store};
use std::path::Path;
use std::sync::Arc;

/// Opens the engine on `data_dir`, or on memory.
///
/// # Errors
/// [`Failure::Data`] if what lies in `data_dir` cannot be opened.
pub(crate) fn open_engine(
    data_dir: Option<&Path>,
    profile: Profile,
    world: Arc<dyn World>,
) -> Result<Arc<Engine>, Failure> {
    let store: Arc<dyn Store> = match data_dir {
        None => Arc::new(MemoryStore::new()),
        Some(directory) => {
            let opened = LocalStore::open(directory.join("store"), LocalOptions::default());
            Arc::new(opened.map_err(|error| Failure::Data(error.to_string()))?)
        }
    };
    let options = EngineOptions { profile: profile.into(), scripts: PoolOptions::new(script_host()?) };
    let opened = Engine::open(store, options, world);
    let told =
        |error: orrery_model::Error| Failure::Data(format!("the data cannot be opened: {}", error.cause_chain()));
    opened.map(Arc::new).map_err(told)
}

/// Scripts run in processes of this very program.
fn script_host() -> Result<HostCommand, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find the program's own file, which runs scripts: {error}")))?;
    Ok(HostCommand { program: program.into(), arguments: vec!["script-host".into()] })
}

impl From<Profile> for orrery_engine::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Modern => Self::Modern,
            Profile::Y2019 => Self::Y2019,
        }
    }
}
