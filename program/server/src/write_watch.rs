//! Reports in the log when the store stops accepting writes, why, and when it accepts them again.
//!
//! The store itself has no log, and a line for each refused request would fill the disk further.

use crate::context::ServerContext;
use orrery_engine::Engine;
use orrery_gateway::LogLevel;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pause between two looks. A look reads two numbers in memory while writes are accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the watch. It runs until its handle is aborted.
pub(crate) fn start(engine: &Arc<Engine>, context: &ServerContext) -> JoinHandle<()> {
    tokio::spawn(watch(engine.clone(), context.clone()))
}

async fn watch(engine: Arc<Engine>, context: ServerContext) {
    let mut reported = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        let failure = engine.write_failure();
        if failure == reported {
            continue;
        }
        match &failure {
            Some(cause) => {
                context.log_with_cause(LogLevel::Error, "writes are refused", cause);
            }
            None => context.log(LogLevel::Info, "writes are accepted again"),
        }
        reported = failure;
    }
}
