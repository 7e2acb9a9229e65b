//! `orrery blog worker`: pipelines for a blog whose application runs in another process.

use super::place::Place;
use super::report::write_out;
use super::{pipelines, runtime};
use crate::command::WorkerArguments;
use crate::signals;
use orrery_server::Failure;

/// Runs pipelines until SIGTERM or Ctrl-C.
///
/// # Errors
/// No blog runs, or its database does not answer.
pub(super) fn run(arguments: &WorkerArguments) -> Result<(), Failure> {
    let place = Place::find(&arguments.blog)?;
    runtime()?.block_on(work(arguments, &place))
}

async fn work(arguments: &WorkerArguments, place: &Place) -> Result<(), Failure> {
    let stopped = signals::shutdown()?;
    let site = place.open().await?;
    let workers = pipelines::Workers::start(&site, arguments.workers);
    write_out(&match arguments.ready_json {
        true => "{\"ready\":true}\n".to_owned(),
        false => format!(
            "Running {} pipelines for the blog at {}\nStop with: Ctrl-C\n",
            arguments.workers, place.endpoint
        ),
    })?;
    stopped.await;
    workers.stop().await;
    Ok(())
}
