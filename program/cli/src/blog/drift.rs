//! `orrery blog drift`: compares every copy of a running blog with its source.

use super::place::Place;
use super::report::write_out;
use super::{failure, runtime};
use crate::command::DriftArguments;
use orrery_blog::drift::{self, Options};
use orrery_server::Failure;
use std::time::Duration;

/// Compares and prints the report.
///
/// # Errors
/// Copies differ from their sources, no blog runs, or a request fails.
pub(super) fn run(arguments: &DriftArguments) -> Result<(), Failure> {
    let place = Place::find(&arguments.blog)?;
    let options = Options {
        patience: Duration::from_secs(arguments.patience),
        ..Options::default()
    };
    let report = runtime()?.block_on(async {
        let site = place.open().await?;
        let report = drift::check(&site, &site.models(), &options).await;
        report.map_err(failure)
    })?;
    write_out(&match arguments.json {
        true => format!("{}\n", report.to_json()),
        false => format!("{report}\n"),
    })?;
    match report.is_equal() {
        true => Ok(()),
        false => Err(Failure::Failed("copies differ from their sources".into())),
    }
}
