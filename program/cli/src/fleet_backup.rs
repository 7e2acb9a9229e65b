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
//! not before. An archive that fails and a standby that was behind are told on standard error.
//! Leaves out: the archive of WAL, which PostgreSQL writes itself, and tablespaces.

mod postgres;
mod record;

pub(crate) use record::is_folder;

use crate::command::{CreateArguments, RestoreArguments};
use crate::management::print;
use crate::transfer::tell;
use orrery_backup::{Moment, Retention, is_archive, is_remote, time_text};
use orrery_model::world::World;
use orrery_server::{Failure, SystemWorld};
use orrery_storage_postgres::{BackupFacts, ClusterConfig, PostgresStore, WalArchive};
use record::{CONTROL_FILE, ClusterBackup, FORMAT, FleetBackup, FleetFolder};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;

/// The rates that pg_basebackup takes, in bytes a second.
const RATES: RangeInclusive<u64> = 32 << 10..=1 << 30;

/// Makes a base backup of each cluster of a file.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used, [`Failure::Failed`] if a program of
/// PostgreSQL is missing or fails.
pub(crate) fn create(arguments: &CreateArguments, cluster_file: &Path) -> Result<(), Failure> {
    let target = &arguments.target;
    if is_remote(target) || is_archive(target) {
        return Err(Failure::Usage(format!(
            "{}: base backups are folders of files: name a folder",
            target.display()
        )));
    }
    let rate = arguments.bytes_per_second.unwrap_or(0);
    if rate != 0 && !RATES.contains(&rate) {
        return Err(Failure::Usage(format!(
            "--bytes-per-second {rate}: pg_basebackup takes {} to {}, and 0 is no limit",
            RATES.start(),
            RATES.end()
        )));
    }
    let clusters = ClusterConfig::read_file(cluster_file)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    for cluster in &clusters {
        record::check_name(&cluster.name)?;
    }
    let programs = postgres::Programs::find()?;
    // All are asked before the first one is copied, which may take hours.
    for cluster in &clusters {
        facts_of(cluster, arguments.from_standby)?;
    }
    let source = postgres::Source {
        user: arguments.user.as_deref(),
        is_standby_preferred: arguments.from_standby,
    };

    let folder = FleetFolder::claim(target)?;
    let moment_ms = SystemWorld::new().now_ms();
    let unfinished = folder.begin(moment_ms)?;
    let mut made = Vec::new();
    for cluster in &clusters {
        let data = unfinished.path.join(&cluster.name);
        let facts = facts_of(cluster, arguments.from_standby)?;
        programs.back_up(cluster, &source, rate, &data)?;
        let ended_ms = SystemWorld::new().now_ms();
        postgres::refuse_tablespaces(&data)?;
        programs.verify(&data, None)?;
        let cluster = ClusterBackup::of(&cluster.name, &data, ended_ms)?;
        folder.refuse_other(&cluster)?;
        match facts {
            Some(facts) => tell_faults(&cluster, &facts),
            None => tell(&format!(
                "the primary of {} did not answer: its archive of WAL and the delay of the standby \
                 were not checked",
                cluster.name
            )),
        }
        made.push(cluster);
    }
    let backup = FleetBackup {
        format: FORMAT,
        id: unfinished.id.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        moment_milliseconds: moment_ms,
        clusters: made,
    };
    folder.finish(&unfinished, &backup)?;
    print(&match arguments.management.json {
        true => format!("{:#}\n", json!(backup)),
        false => made_text(target, &backup),
    })
}

/// Asks a cluster what its backup depends on, and refuses tablespaces. A primary that does not
/// answer is no error if a standby is to be copied.
fn facts_of(cluster: &ClusterConfig, from_standby: bool) -> Result<Option<BackupFacts>, Failure> {
    match PostgresStore::backup_facts(cluster.clone()) {
        Ok(facts) if facts.tablespaces.is_empty() => Ok(Some(facts)),
        Ok(facts) => Err(Failure::Failed(format!(
            "the cluster {} has tablespaces, which are not supported: {}; move the tables of \
             Orrery out of them and drop them",
            cluster.name,
            facts.tablespaces.join(", ")
        ))),
        Err(_) if from_standby => Ok(None),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// Tells what a restore of a base backup will lack.
fn tell_faults(backup: &ClusterBackup, facts: &BackupFacts) {
    let name = &backup.name;
    match &facts.archive {
        WalArchive::Kept => {}
        WalArchive::Off => tell(&format!(
            "{name} writes no archive of WAL (archive_mode, archive_command): a restore ends with \
             this backup, and several clusters cannot be restored to one time"
        )),
        WalArchive::Failing { file, time } => tell(&format!(
            "{name} could not archive {file} at {time}: until its archive_command succeeds, a \
             restore ends before that file; the log of its PostgreSQL says why"
        )),
    }
    let is_behind = match (lsn_of(&backup.end_lsn), lsn_of(&facts.lsn)) {
        (Some(end), Some(began)) => end < began,
        _ => false,
    };
    if is_behind {
        tell(&format!(
            "the standby of {name} that was copied was behind: it was at {}, and the primary at {} \
             when the backup began; only a recovery with the archive has what is between",
            backup.end_lsn, facts.lsn
        ));
    }
}

/// Returns the number of a position in the WAL, for example of `16/B374D848`.
fn lsn_of(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |text| u32::from_str_radix(text, 16).ok();
    Some(u64::from(part(high)?) << 32 | u64::from(part(low)?))
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
    let (backups, unreadable) = FleetFolder::open(folder)?.listed()?;
    let mut text = String::new();
    if is_json {
        text = format!("{:#}\n", json!({ "backups": backups }));
    } else if backups.is_empty() && unreadable.is_empty() {
        let _ = writeln!(text, "There is no backup in {}.", folder.display());
    } else {
        for backup in &backups {
            text.push_str(&line_text(backup));
        }
    }
    print(&text)?;
    match unreadable.into_iter().next() {
        None => Ok(()),
        Some(first) => Err(first),
    }
}

/// Describes a backup by its clusters and the first second that all of them can be restored to.
fn line_text(backup: &FleetBackup) -> String {
    let names = backup.clusters.iter().map(|cluster| cluster.name.as_str());
    let names: Vec<&str> = names.collect();
    let whole_from = backup.whole_from().map(time_text).unwrap_or_default();
    format!(
        "{}  {:>14} bytes  {}, whole from {whole_from} on\n",
        backup.id,
        backup.bytes(),
        names.join(", ")
    )
}

/// Has PostgreSQL compare the files of one backup, or of all, with their manifests.
///
/// # Errors
/// [`Failure::Data`] if a backup is damaged.
pub(crate) fn verify(folder: &Path, id: Option<&str>) -> Result<(), Failure> {
    let opened = FleetFolder::open_files(folder)?;
    let backups = match id {
        Some(id) => vec![opened.named(Some(id))?],
        None => opened.backups()?,
    };
    let programs = postgres::Programs::find()?;
    let mut damaged = Vec::new();
    for backup in backups {
        for cluster in &backup.clusters {
            let data = opened.data(&backup, cluster);
            match programs.verify(&data, None) {
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
pub(crate) fn prune(folder: &Path, retention: &Retention) -> Result<(), Failure> {
    let claimed = FleetFolder::claim(folder)?;
    let backups = claimed.backups()?;
    let mut text = String::new();
    let mut needed: BTreeMap<&str, &str> = BTreeMap::new();
    for (place, backup) in backups.iter().enumerate() {
        if !retention.keeps(backup.moment_milliseconds, backups.len() - place - 1) {
            claimed.remove(backup)?;
            let _ = writeln!(text, "Removed {}.", backup.id);
            continue;
        }
        for cluster in &backup.clusters {
            let first = needed.entry(&cluster.name).or_insert(&cluster.first_wal);
            // A copy of a standby that was behind needs older files than a copy before it.
            if place_of_wal(&cluster.first_wal) < place_of_wal(first) {
                *first = &cluster.first_wal;
            }
        }
    }
    if text.is_empty() {
        text.push_str("No backup was removed.\n");
    }
    for (cluster, first) in needed {
        let _ = writeln!(
            text,
            "The archive of {cluster} is needed from {first} on; pg_archivecleanup removes what \
             is older."
        );
    }
    print(&text)
}

/// Returns the part of the name of a file of WAL behind the timeline.
fn place_of_wal(name: &str) -> &str {
    name.get(8..).unwrap_or_default()
}

/// Restores the data directory of one cluster.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used, [`Failure::Data`] for a damaged backup or a
/// directory that is not empty.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    if arguments.into.is_some() {
        return Err(Failure::Usage(format!(
            "{} has backups of a fleet, which --into cannot copy: restore each cluster with \
             --cluster and --data-dir",
            arguments.path.display()
        )));
    }
    let folder = FleetFolder::open_files(&arguments.path)?;
    let backup = match (&arguments.backup, arguments.to) {
        (None, Some(Moment::Second(second))) => folder.before(second)?,
        (id, _) => folder.named(id.as_deref())?,
    };
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
    let recovery = recovery_of(arguments, &backup, cluster)?;

    // No server opens the copy before its files are compared and the recovery is ordered.
    let programs = postgres::Programs::find()?;
    let data = folder.data(&backup, cluster);
    if !data.is_dir() {
        return Err(Failure::Data(format!("{} is missing", data.display())));
    }
    postgres::copy_data(&data, target)?;
    programs.verify(target, Some(CONTROL_FILE))?;
    if let Some(recovery) = &recovery {
        postgres::set_recovery(target, recovery)?;
    }
    postgres::finish_copy(&data, target)?;
    print(&format!(
        "Restored the base backup {} of the cluster {name} into {}.\nStart its PostgreSQL as the \
         owner of the files, which is the user of this command, and nodes when every cluster has \
         ended its recovery: see docs/how-to/run-a-fleet.md\n{}",
        backup.id,
        target.display(),
        postgres::owner_note(target)
    ))
}

/// Returns the settings of the recovery; `None` for the moment at which the base backup ended.
fn recovery_of(
    arguments: &RestoreArguments,
    backup: &FleetBackup,
    cluster: &ClusterBackup,
) -> Result<Option<String>, Failure> {
    let usage = |message: String| Err(Failure::Usage(message));
    let count = backup.clusters.len();
    if count > 1 && arguments.to.is_none() {
        return usage(format!(
            "the backup has {count} clusters, whose base backups ended at different moments: \
             restore all of them to one time with --to and --wal-archive, or one that was lost \
             alone to the end of its archive with --to latest"
        ));
    }
    let Some(archive) = &arguments.wal_archive else {
        return match arguments.to {
            None => Ok(None),
            Some(_) => usage("--to needs --wal-archive, the folder of archived WAL".into()),
        };
    };
    let archive = std::path::absolute(archive)
        .map_err(|error| Failure::Usage(format!("{}: {error}", archive.display())))?;
    if !archive.join(&cluster.first_wal).is_file() {
        return usage(format!(
            "{} has no file {}, with which the recovery of the cluster begins",
            archive.display(),
            cluster.first_wal
        ));
    }
    let mut settings = vec![("restore_command", postgres::copy_command(&archive)?)];
    // A cluster that was recovered once has the settings of then in the same file.
    for (name, value) in [
        ("recovery_target", "''"),
        ("recovery_target_name", "''"),
        ("recovery_target_xid", "''"),
        ("recovery_target_lsn", "''"),
        ("recovery_target_time", "''"),
        ("recovery_target_inclusive", "on"),
        ("recovery_min_apply_delay", "0"),
        ("recovery_end_command", "''"),
        ("archive_cleanup_command", "''"),
        ("recovery_target_action", "'promote'"),
    ] {
        settings.push((name, value.to_owned()));
    }
    let timeline = arguments
        .timeline
        .map_or("latest".to_owned(), |number| number.to_string());
    settings.push(("recovery_target_timeline", format!("'{timeline}'")));
    if let Some(Moment::Second(second)) = arguments.to {
        refuse_time(second, backup)?;
        // The whole second is restored, as of a data directory.
        let time = time_text(second)
            .replace('T', " ")
            .replace('Z', ".999999+00");
        settings.push(("recovery_target_time", format!("'{time}'")));
    }
    let lines = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}\n"));
    Ok(Some(lines.collect()))
}

/// Refuses a second that a backup cannot be restored to.
fn refuse_time(second: u64, backup: &FleetBackup) -> Result<(), Failure> {
    if second > SystemWorld::new().now_seconds() {
        return Err(Failure::Usage(format!(
            "{} is in the future",
            time_text(second)
        )));
    }
    match backup.whole_from() {
        Some(first) if second < first => Err(Failure::Usage(format!(
            "the backup {} is whole from {} on: name that time or a later one, or leave --backup \
             out for an older backup",
            backup.id,
            time_text(first)
        ))),
        _ => Ok(()),
    }
}
