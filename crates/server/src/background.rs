//! Periodic work of a running server, beside the requests of clients.
//!
//! Each task runs on a thread for blocking work and then pauses for a second. The engine decides
//! how much is done in one run, so that requests need not wait long. A task that fails writes a
//! warning to the log and runs again after the pause.

use crate::context::ServerContext;
use orrery_engine::Engine;
use orrery_gateway::LogLevel;
use orrery_model::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pause between two runs of a task.
const PAUSE: Duration = Duration::from_secs(1);

/// A task and the log message for its failures.
struct PeriodicTask {
    run: fn(&Engine) -> Result<(), Error>,
    failure_message: &'static str,
}

static TASKS: [PeriodicTask; 4] = [
    PeriodicTask {
        run: remove_expired_and_deleted,
        failure_message: "cannot remove expired or deleted data now; trying again",
    },
    PeriodicTask {
        run: Engine::finish_deletes_by_key,
        failure_message: "cannot remove deleted logical partitions now; trying again",
    },
    PeriodicTask {
        run: Engine::split_where_needed,
        failure_message: "cannot split a physical partition now; trying again",
    },
    PeriodicTask {
        run: Engine::finish_reindexing,
        failure_message: "cannot adapt an index to its policy now; trying again",
    },
];

/// Starts all tasks. They run until their handles are aborted.
pub(crate) fn start(engine: &Arc<Engine>, context: &ServerContext) -> Vec<JoinHandle<()>> {
    TASKS
        .iter()
        .map(|task| tokio::spawn(repeat(task, engine.clone(), context.clone())))
        .collect()
}

/// Runs a task again and again.
async fn repeat(task: &'static PeriodicTask, engine: Arc<Engine>, context: ServerContext) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let engine = engine.clone();
        let run = tokio::task::spawn_blocking(move || (task.run)(&engine));
        // A panic has already been reported by the panic hook.
        if let Ok(Err(error)) = run.await {
            context.log_with_cause(LogLevel::Warn, task.failure_message, &error.cause_chain());
        }
    }
}

fn remove_expired_and_deleted(engine: &Engine) -> Result<(), Error> {
    engine.remove_expired()?;
    engine.remove_old_versions()?;
    engine.destroy_deleted()
}
