//! Arguments of `orrery backup` and `orrery restore`.

use super::ManagementArguments;
use super::account::KeyArguments;
use clap::{Args, Subcommand};
use jiff::Timestamp;
use orrery_backup::Moment;
use std::path::{Path, PathBuf};

/// Help text after the options of `orrery backup`.
pub(super) const BACKUP_HELP: &str = "\
Examples:
  orrery backup create /backups/shop
  orrery backup create /backups/shop-monday.tar.zst --bytes-per-second 20000000
  orrery backup create s3://backups/shop
  orrery backup list /backups/shop
  orrery backup verify /backups/shop
  orrery backup prune /backups/shop --keep-last 7 --keep-days 30
  orrery backup create /backups/fleet --cluster-file clusters.toml --user replicator
  orrery restore /backups/shop --data-dir ./restored

A backup has all databases as of one moment: every write that was answered before it, and no part of
a later one. A folder keeps the backups of one data directory; a further backup copies only what the
folder lacks, and each backup can be restored alone. A file that ends with .tar.zst is one whole
backup. A running server is asked by its management API and writes the backup itself; requests go
on meanwhile. Backups have the data and no keys of the server.

s3://BUCKET/PREFIX is a folder in a bucket of Amazon S3 or of another service with its protocol. The
settings are the variables of the tools of that service: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_SESSION_TOKEN, AWS_REGION, and AWS_ENDPOINT_URL for the address of another service. A server
that is asked for a backup uses its own variables.

The data of a fleet is in PostgreSQL: --cluster-file makes a base backup of each cluster by
pg_basebackup and has pg_verifybackup check it. The folder takes
backups of one fleet; list, verify, prune and 'orrery restore --cluster' know it. PostgreSQL
archives its WAL itself: see docs/how-to/run-a-fleet.md.

Exit codes:
  0  done
  1  the backup failed or was cancelled, or the server refused the request or did not answer
  2  wrong options
  4  a backup is damaged, or the data directory is damaged or missing";

/// Help text after the options of `orrery restore`.
pub(super) const RESTORE_HELP: &str = "\
Examples:
  orrery restore /backups/shop --data-dir ./restored
  orrery restore /backups/shop --backup 20261126T174005Z --data-dir ./restored
  orrery restore /backups/shop-monday.tar.zst --data-dir ./restored
  orrery restore /backups/shop --to 2026-11-26T17:40:05Z --data-dir ./restored
  orrery restore s3://backups/shop --to latest --data-dir ./restored
  orrery start --data-dir ./restored
  orrery restore /backups/fleet --cluster main --wal-archive /backups/wal-main \
    --to 2026-11-26T17:40:05Z --data-dir /var/lib/postgresql/15/main
  orrery restore /backups/shop --into http://127.0.0.1:8081 --database shop --container orders \
    --as-container orders-yesterday

A folder that a server with --continuous-backup writes can be restored as of each second between the
times that 'orrery backup list' prints: everything that was written in that second or before is
there, deleted databases and containers too.

The data directory must be empty or missing. Each file is compared with its checksum while it is
written. A restore that was interrupted leaves a directory that no server opens: delete it, and
restore again.

--into copies databases and containers of the backup into an account that runs: of this program, of
a fleet or of the service. The containers are created with their settings and scripts, and the items
are written by requests, as many as the throughput lets through. A container that exists is refused
before anything is written, or left as it is with --skip-existing, which also goes on after an
interruption. All items of the moment are copied; they have a new _ts, so their time to live begins
anew. Users and permissions are not copied. Meanwhile the whole backup is restored into a directory
orrery-restore-... in that for temporary files; it is removed at the end, unless the command is
killed by SIGKILL.

Exit codes:
  0  the backup is restored
  1  the restore failed; a container that is not complete is named
  2  wrong options, or a container that exists
  4  the backup is damaged, or the data directory is not empty";

/// Arguments of `orrery backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    pub(crate) action: BackupAction,
}

/// Actions on backups.
#[derive(Debug, Subcommand)]
pub(crate) enum BackupAction {
    /// Make a backup of a data directory, of a running server or while none runs
    Create(CreateArguments),
    /// List the backups of a folder
    List {
        /// Folder with backups, s3://BUCKET/PREFIX, or a file that ends with .tar.zst
        #[arg(value_name = "BACKUPS")]
        path: PathBuf,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare every file of the backups with its checksum
    Verify {
        /// Folder with backups, s3://BUCKET/PREFIX, or a file that ends with .tar.zst
        #[arg(value_name = "BACKUPS")]
        path: PathBuf,
        /// Backup to verify [default: all]
        #[arg(long, value_name = "ID")]
        backup: Option<String>,
    },
    /// Remove old backups and what only they need; the newest one stays
    Prune {
        /// Folder with backups, or s3://BUCKET/PREFIX
        #[arg(value_name = "BACKUPS")]
        path: PathBuf,
        /// Number of the newest backups to keep, at least 1
        #[arg(
            long,
            value_name = "NUMBER",
            value_parser = clap::value_parser!(u64).range(1..),
            required_unless_present = "keep_days"
        )]
        keep_last: Option<u64>,
        /// Days whose backups are kept; with --keep-last both are
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
    },
}

impl BackupAction {
    /// Returns the place of the backups.
    pub(crate) fn path(&self) -> &Path {
        match self {
            BackupAction::Create(arguments) => &arguments.target,
            BackupAction::List { path, .. }
            | BackupAction::Verify { path, .. }
            | BackupAction::Prune { path, .. } => path,
        }
    }
}

/// Arguments of `orrery backup create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArguments {
    /// Folder for backups, which is created if it is missing, s3://BUCKET/PREFIX, or a new file
    /// that ends with .tar.zst
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,
    /// Ask the server at the endpoint of the management API, whatever the data directory is;
    /// --admin-endpoint does so too
    #[arg(long)]
    pub(crate) online: bool,
    /// Most bytes to copy in a second, 0 for no limit [default: 33554432 by a running server,
    /// otherwise 0]
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes_per_second: Option<u64>,
    /// File with the PostgreSQL clusters of a fleet, of which base backups are made
    #[arg(long, value_name = "FILE", conflicts_with = "online")]
    pub(crate) cluster_file: Option<PathBuf>,
    /// Role of the clusters that may copy them, with its password where PostgreSQL looks for it,
    /// such as ~/.pgpass [default: the role of the cluster file with its password]
    #[arg(long, value_name = "ROLE", requires = "cluster_file")]
    pub(crate) user: Option<String>,
    /// Copy a standby of each cluster if one answers; a standby may be behind
    #[arg(long, requires = "cluster_file")]
    pub(crate) from_standby: bool,
    #[command(flatten)]
    pub(crate) management: ManagementArguments,
}

/// Arguments of `orrery restore`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArguments {
    /// Folder with backups, s3://BUCKET/PREFIX, or a file that ends with .tar.zst
    #[arg(value_name = "BACKUPS")]
    pub(crate) path: PathBuf,
    /// Backup to restore [default: the newest]
    #[arg(long, value_name = "ID")]
    pub(crate) backup: Option<String>,
    /// Moment to restore from a continuous backup or from the archive of a fleet: the end of a
    /// second, such as 2026-11-26T17:40:05Z, or latest for the last write in it
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) to: Option<Moment>,
    /// Data directory to create
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "into",
        conflicts_with = "into"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Cluster of the fleet whose PostgreSQL gets the data directory, from a backup of a fleet
    #[arg(
        long,
        value_name = "NAME",
        requires = "data_dir",
        conflicts_with = "into"
    )]
    pub(crate) cluster: Option<String>,
    /// Folder with the archived WAL of the cluster, which the recovery reads
    #[arg(long, value_name = "DIR", requires = "cluster")]
    pub(crate) wal_archive: Option<PathBuf>,
    /// Timeline of the cluster that the recovery follows [default: the latest of the archive]
    #[arg(long, value_name = "NUMBER", requires = "wal_archive")]
    pub(crate) timeline: Option<u32>,
    /// Endpoint of the account to copy databases and containers into
    #[arg(long, value_name = "URL")]
    pub(crate) into: Option<String>,
    /// Database to copy [default: all]
    #[arg(
        long,
        value_name = "NAME",
        requires = "into",
        conflicts_with = "data_dir"
    )]
    pub(crate) database: Option<String>,
    /// Container of the database to copy; may be repeated [default: all]
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) container: Vec<String>,
    /// Name of the database in the account [default: the same]
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) as_database: Option<String>,
    /// Name of the one container in the account [default: the same]
    #[arg(long, value_name = "NAME", requires = "container")]
    pub(crate) as_container: Option<String>,
    /// Leave containers that exist in the account as they are, and copy the others
    #[arg(long, requires = "into", conflicts_with = "data_dir")]
    pub(crate) skip_existing: bool,
    /// Directory for the restored backup while it is copied [default: that for temporary files]
    #[arg(
        long,
        value_name = "DIR",
        requires = "into",
        conflicts_with = "data_dir"
    )]
    pub(crate) work_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Accept any certificate of the account
    #[arg(long, requires = "into", conflicts_with_all = ["ca_file", "data_dir"])]
    pub(crate) insecure: bool,
    /// File in PEM with the root certificates to accept
    #[arg(
        long,
        value_name = "FILE",
        requires = "into",
        conflicts_with = "data_dir"
    )]
    pub(crate) ca_file: Option<PathBuf>,
}

/// Parses the moment of a restore.
fn moment(text: &str) -> Result<Moment, String> {
    if text == "latest" {
        return Ok(Moment::Latest);
    }
    let form = "write a time with its offset from UTC, such as 2026-11-26T17:40:05Z or \
                2026-11-26T18:40:05+01:00, or latest";
    let time: Timestamp = text.parse().map_err(|_| form.to_owned())?;
    // A restore has whole seconds: a fraction means the second that it is in.
    u64::try_from(time.as_second())
        .map(Moment::Second)
        .map_err(|_| "the time must be after 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_with_an_offset_or_the_latest() {
        for (text, second) in [
            ("2026-11-26T17:40:05Z", 1_795_714_805),
            ("2026-11-26T18:40:05+01:00", 1_795_714_805),
            ("2026-11-26 17:40:05.9Z", 1_795_714_805),
        ] {
            assert_eq!(moment(text), Ok(Moment::Second(second)), "{text}");
        }
        assert_eq!(moment("latest"), Ok(Moment::Latest));
        for text in [
            "",
            "now",
            "2026-11-26",
            "2026-11-26T17:40:05",
            "1960-01-01T00:00:00Z",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
