//! `orrery blog migrate`: moves a running blog to another home model.

use super::place::Place;
use super::report::write_out;
use super::{failure, runtime};
use crate::command::MigrateArguments;
use orrery_blog::migrate::{self, Options};
use orrery_blog::{Model, Site, on_stderr};
use orrery_server::Failure;

/// Runs a migration to its end, or ends an interrupted one.
///
/// # Errors
/// No blog runs, another process migrates it, or a request fails. The same command continues.
pub(super) fn run(arguments: &MigrateArguments) -> Result<(), Failure> {
    let place = Place::find(&arguments.blog)?;
    let options = Options {
        keep_old: arguments.keep_old,
        ..Options::default()
    };
    runtime()?.block_on(async {
        let site = place.open().await?;
        match arguments.to {
            Some(to) => migrate_to(&site, to.into(), &options).await,
            None => cancel(&site, &options).await,
        }
    })
}

async fn migrate_to(site: &Site, to: Model, options: &Options) -> Result<(), Failure> {
    // A migration may have been killed after its last step, and is then started once more.
    if site.home() == to && site.migration().is_none() {
        return write_out(&format!("{to} is the home model already\n"));
    }
    let progress = on_stderr();
    let report = migrate::run(site, to, options, progress.as_ref()).await;
    let report = report.map_err(failure)?;
    write_out(&format!(
        "Migrated from {} to {}: {} changes copied, {} items compared, writes waited for {} ms\n",
        report.from,
        report.to,
        report.copied,
        report.compared,
        report.gate_closed.as_millis()
    ))
}

async fn cancel(site: &Site, options: &Options) -> Result<(), Failure> {
    let is_cancelled = migrate::cancel(site, options).await.map_err(failure)?;
    write_out(match is_cancelled {
        true => "The migration was ended; its target was deleted\n",
        false => "No migration is in progress\n",
    })
}
