//! The facts about a cluster on which a base backup depends.
//!
//! Leaves out: the copy itself, which the programs of PostgreSQL make.

use tokio_postgres::Client;

use crate::connector::explain;

/// The facts. The primary is asked, also if a standby is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFacts {
    /// The names of tablespaces, whose files are not in the data directory.
    pub tablespaces: Vec<String>,
    /// The state of the archive of WAL.
    pub archive: WalArchive,
    /// The end of the WAL, for example `0/3000148`.
    pub lsn: String,
}

/// The state of the archive of WAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalArchive {
    /// The cluster writes none, or has no command for it.
    Off,
    /// No attempt to archive a file has failed since the last success.
    Kept,
    /// The last attempt to archive a file failed.
    Failing {
        /// The name of the file.
        file: String,
        /// The time of the attempt, for example `2026-11-30 17:40:05.123+00`.
        time: String,
    },
}

impl BackupFacts {
    /// Asks a server.
    ///
    /// # Errors
    /// The message of the server.
    pub(crate) async fn read(client: &Client) -> Result<BackupFacts, String> {
        let asked = async {
            let tablespaces = "SELECT coalesce(array_agg(spcname::text ORDER BY spcname), '{}') \
                               FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global')";
            let tablespaces = client.query_one(tablespaces, &[]).await?.try_get(0)?;
            let archive = "SELECT current_setting('archive_mode') = 'off' \
                           OR (current_setting('archive_command') = '' AND \
                           coalesce(current_setting('archive_library', true), '') = ''), \
                           last_failed_time > coalesce(last_archived_time, '-infinity'), \
                           last_failed_wal, last_failed_time::text, \
                           pg_current_wal_lsn()::text FROM pg_stat_archiver";
            let row = client.query_one(archive, &[]).await?;
            let (is_off, is_failing): (bool, Option<bool>) = (row.try_get(0)?, row.try_get(1)?);
            let (file, time): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
            let archive = match (is_off, is_failing, file, time) {
                (true, ..) => WalArchive::Off,
                (false, Some(true), Some(file), Some(time)) => WalArchive::Failing { file, time },
                _ => WalArchive::Kept,
            };
            Ok(BackupFacts {
                tablespaces,
                archive,
                lsn: row.try_get(4)?,
            })
        };
        asked
            .await
            .map_err(|error: tokio_postgres::Error| explain(&error))
    }
}
