//! Backups of a fleet: a base backup of each PostgreSQL cluster, made and checked by the programs
//! of PostgreSQL.
//!
//! ```text
//! fleet_backup   the actions of orrery backup and orrery restore on a folder of such backups
//!   record       the folder and what is known about each backup
//!   postgres     pg_basebackup and pg_verifybackup
//! ```
//!
//! Promises: a backup has its name when the files of every cluster agree with their manifests, and
//! not before.
//! Leaves out: the archive of WAL, which PostgreSQL writes itself, and tablespaces.

mod postgres;
mod record;

pub(crate) use record::is_folder;

use crate::command::{CreateArguments, RestoreArguments};
use crate::management::print;
use orrery_backup::{Moment, is_remote, time_text};
use orrery_model::world::World;
use orrery_server::{Failure, SystemWorld};
use orrery_storage_postgres::ClusterConfig;
use record::{ClusterBackup, FORMAT, FleetBackup, FleetFolder};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// The rates that pg_basebackup takes, in bytes a second.
const RATE_MIN: u64 = 32 << 10;
const RATE_MAX: u64 = 1 << 30;
/// The end of the names of whole backups of a data directory.
const ARCHIVE_SUFFIX: &str = ".tar.zst";
const DAY_MS: u64 = 24 * 3_600_000;

/// Makes a base backup of each cluster of a file.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used, [`Failure::Failed`] if a program of
/// PostgreSQL is missing or fails.
pub(crate) fn create(arguments: &CreateArguments, cluster_file: &Path) -> Result<(), Failure> {
    let target = &arguments.target;
    if is_remote(target) || target.to_string_lossy().ends_with(ARCHIVE_SUFFIX) {
        return Err(Failure::Usage(format!(
            "{}: base backups are folders of files: name a folder",
            target.display()
        )));
    }
    let rate = match arguments.bytes_per_second {
        Some(rate @ 1..RATE_MIN) => {
            return Err(Failure::Usage(format!(
                "--bytes-per-second {rate} is less than {RATE_MIN}, the least rate of pg_basebackup"
            )));
        }
        rate => rate.unwrap_or(0).min(RATE_MAX),
    };
    let clusters = ClusterConfig::read_file(cluster_file)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    for cluster in &clusters {
        record::check_name(&cluster.name)?;
    }
    let programs = postgres::Programs::find()?;

    let folder = FleetFolder::claim(target)?;
    let moment_ms = SystemWorld::new().now_ms();
    let unfinished = folder.begin(moment_ms)?;
    let mut made = Vec::new();
    for cluster in &clusters {
        let data = unfinished.path.join(&cluster.name);
        programs.back_up(cluster, arguments.user.as_deref(), rate, &data)?;
        programs.verify(&data)?;
        let ended_ms = SystemWorld::new().now_ms();
        made.push(ClusterBackup::of(&cluster.name, &data, ended_ms)?);
    }
    let backup = FleetBackup {
        format: FORMAT,
        id: unfinished.id.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        moment_milliseconds: moment_ms,
        clusters: made,
    };
    folder.finish(unfinished, &backup)?;
    print(&match arguments.management.json {
        true => format!("{:#}\n", json!(backup)),
        false => made_text(target, &backup),
    })
}

fn made_text(folder: &Path, backup: &FleetBackup) -> String {
    let mut text = format!("Backup {} in {}.\n", backup.id, folder.display());
    for cluster in &backup.clusters {
        let _ = writeln!(
            text,
            "{}: {} bytes, whole at {} (LSN {}); the archive of WAL is needed from {} on.",
            cluster.name,
            cluster.bytes,
            time_text(cluster.ended_milliseconds / 1_000),
            cluster.end_lsn,
            cluster.first_wal
        );
    }
    text
}

/// Lists the backups of a folder.
///
/// # Errors
/// [`Failure::Data`] for a backup whose record cannot be read.
pub(crate) fn list(folder: &Path, is_json: bool) -> Result<(), Failure> {
    let backups = FleetFolder::open(folder)?.backups()?;
    if is_json {
        return print(&format!("{:#}\n", json!({ "fleetBackups": backups })));
    }
    let mut text = String::new();
    for backup in &backups {
        let names = backup.clusters.iter().map(|cluster| cluster.name.as_str());
        let names: Vec<&str> = names.collect();
        let _ = writeln!(
            text,
            "{}  {:>14} bytes  {}",
            backup.id,
            backup.bytes(),
            names.join(", ")
        );
    }
    if backups.is_empty() {
        let _ = writeln!(text, "There is no backup in {}.", folder.display());
    }
    print(&text)
}

/// Has PostgreSQL compare the files of one backup, or of all, with their manifests.
///
/// # Errors
/// [`Failure::Data`] if a backup is damaged.
pub(crate) fn verify(folder: &Path, id: Option<&str>) -> Result<(), Failure> {
    let opened = FleetFolder::open(folder)?;
    let backups = match id {
        Some(id) => vec![opened.named(Some(id))?],
        None => opened.backups()?,
    };
    let programs = postgres::Programs::find()?;
    let mut damaged = Vec::new();
    for backup in backups {
        for cluster in &backup.clusters {
            let data = opened.data(&backup, cluster);
            match programs.verify(&data) {
                Ok(()) => print(&format!("{} {}: no finding\n", backup.id, cluster.name))?,
                Err(Failure::Data(message)) => {
                    print(&format!("{} {}: {message}\n", backup.id, cluster.name))?;
                    damaged.push(data);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    match damaged.first() {
        None => Ok(()),
        Some(first) => Err(Failure::Data(format!("{} is damaged", first.display()))),
    }
}

/// Removes old backups; the newest one stays.
///
/// # Errors
/// [`Failure::Failed`] if a folder cannot be removed.
pub(crate) fn prune(folder: &Path, keep_last: u64, keep_days: u64) -> Result<(), Failure> {
    let claimed = FleetFolder::claim(folder)?;
    let backups = claimed.backups()?;
    let since_ms = SystemWorld::new()
        .now_ms()
        .saturating_sub(keep_days.saturating_mul(DAY_MS));
    let newest_from = backups.len().saturating_sub(keep_last as usize);
    let mut text = String::new();
    let mut oldest = None;
    for (place, backup) in backups.iter().enumerate() {
        let is_young = keep_days > 0 && backup.moment_milliseconds >= since_ms;
        if place >= newest_from || is_young {
            oldest = oldest.or(Some(backup));
        } else {
            claimed.remove(backup)?;
            let _ = writeln!(text, "Removed {}.", backup.id);
        }
    }
    for cluster in oldest.iter().flat_map(|backup| &backup.clusters) {
        let _ = writeln!(
            text,
            "The archive of {} is needed from {} on; pg_archivecleanup removes what is older.",
            cluster.name, cluster.first_wal
        );
    }
    print(&text)
}

/// Restores the data directory of one cluster.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used, [`Failure::Data`] for a damaged backup or a
/// directory that is not empty.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let folder = FleetFolder::open(&arguments.path)?;
    let backup = folder.named(arguments.backup.as_deref())?;
    let (Some(name), Some(target)) = (&arguments.cluster, &arguments.data_dir) else {
        return Err(Failure::Usage(format!(
            "{} has backups of a fleet: name a cluster with --cluster, and the data directory of \
             its PostgreSQL with --data-dir",
            arguments.path.display()
        )));
    };
    let Some(cluster) = backup.clusters.iter().find(|one| one.name == *name) else {
        let known = backup.clusters.iter().map(|one| one.name.as_str());
        let known: Vec<&str> = known.collect();
        return Err(Failure::Usage(format!(
            "the backup {} has no cluster '{name}'; it has {}",
            backup.id,
            known.join(", ")
        )));
    };
    let recovery = recovery_of(arguments, &backup)?;

    // The copy is judged by the manifest too: a copy on a full or failing disk differs.
    let programs = postgres::Programs::find()?;
    postgres::copy_data(&folder.data(&backup, cluster), target)?;
    programs.verify(target)?;
    if let Some(recovery) = &recovery {
        postgres::set_recovery(target, recovery)?;
    }
    print(&format!(
        "Restored the base backup {} of the cluster {name} into {}.\nStart its PostgreSQL as the \
         owner of the files, and nodes when every cluster has ended its recovery: see \
         docs/how-to/run-a-fleet.md\n",
        backup.id,
        target.display()
    ))
}

/// Returns the settings of the recovery; `None` for the moment at which the base backup ended.
fn recovery_of(
    arguments: &RestoreArguments,
    backup: &FleetBackup,
) -> Result<Option<String>, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    let Some(archive) = &arguments.wal_archive else {
        return match (backup.clusters.len(), arguments.to) {
            (1, None) => Ok(None),
            (_, Some(_)) => usage("--to needs --wal-archive, the folder of archived WAL".into()),
            (count, None) => usage(format!(
                "the backup has {count} clusters, whose base backups ended at different moments: \
                 restore all of them to one time with --to and --wal-archive"
            )),
        };
    };
    let archive = std::path::absolute(archive)
        .map_err(|error| Failure::Usage(format!("{}: {error}", archive.display())))?;
    let mut text = format!("restore_command = {}\n", postgres::copy_command(&archive)?);
    // A cluster that was recovered once has its target of then in the same file.
    for target in ["", "_name", "_xid", "_lsn", "_time"] {
        let _ = writeln!(text, "recovery_target{target} = ''");
    }
    match arguments.to {
        Some(Moment::Second(second)) => {
            if let Some(last) = backup.whole_from().filter(|last| second < *last) {
                return usage(format!(
                    "the backup {} is whole from {} on: name that time or a later one, or an older \
                     backup with --backup",
                    backup.id,
                    time_text(last)
                ));
            }
            // The whole second is restored, as of a data directory.
            let time = time_text(second)
                .replace('T', " ")
                .replace('Z', ".999999+00");
            let _ = writeln!(text, "recovery_target_time = '{time}'");
        }
        Some(Moment::Latest) | None if backup.clusters.len() > 1 => {
            return usage(format!(
                "the ends of {} archives are different moments: name one time for all with --to",
                backup.clusters.len()
            ));
        }
        Some(Moment::Latest) | None => {}
    }
    text.push_str("recovery_target_action = 'promote'\n");
    Ok(Some(text))
}
