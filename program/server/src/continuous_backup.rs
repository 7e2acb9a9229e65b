//! The continuous backup of a server: its start, its rounds and its end.
//!
//! A round runs at the interval of the configuration, and a base beside the rounds when one is due.
//! A failure is a warning of the log and is tried again in the next round; the lag in `/metrics`
//! tells how far the log is behind. The last round runs when all requests are finished.
//!
//! The log has the seconds of the machine's clock, and not those of a clock that the management API
//! has moved.

use crate::config::{ContinuousBackupConfig, ServerConfig};
use crate::context::ServerContext;
use crate::failure::Failure;
use crate::world::now_ns;
use orrery_admin::{ContinuousBackups, is_inside};
use orrery_backup::{BackupError, BaseBegun, ContinuousOptions, is_remote};
use orrery_engine::Engine;
use orrery_gateway::{LogLevel, RepeatedFailures};
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The longest time that the start of the server waits for the place of the backup.
const OPENING_MAX: Duration = Duration::from_secs(5);

/// The longest time that the end of the server waits for the last round.
const LAST_ROUND_MAX: Duration = Duration::from_secs(10);

/// Returns the second of the machine's clock, since 1970.
pub(crate) fn now_second() -> u64 {
    now_ms() / 1_000
}

fn now_ms() -> u64 {
    now_ns() / 1_000_000
}

/// Prepares the continuous backup that the configuration asks for.
///
/// # Errors
/// [`Failure::Usage`] for a place that can never be used: a folder inside of the data directory,
/// one of another store, one that is no folder of backups, an address that is none.
pub(crate) fn open(
    config: &ServerConfig,
    context: &ServerContext,
    engine: &Arc<Engine>,
) -> Result<Option<Arc<ContinuousBackups>>, Failure> {
    let Some(continuous) = &config.data.continuous_backup else {
        return Ok(None);
    };
    let refused = |reason: String| Failure::Usage(format!("--continuous-backup: {reason}"));
    let folder = match is_remote(&continuous.folder) {
        true => continuous.folder.clone(),
        false => std::path::absolute(&continuous.folder)
            .map_err(|error| refused(format!("{}: {error}", continuous.folder.display())))?,
    };
    let Some(directory) = &context.data_dir else {
        return Err(refused("data in memory has no backup".to_owned()));
    };
    if is_inside(&folder, directory) {
        let place = folder.display();
        return Err(refused(format!(
            "{place} is inside of the data directory and would be lost with it; name another place"
        )));
    }
    let options = ContinuousOptions::new(continuous.retention_ms);
    let backups = Arc::new(ContinuousBackups::new(
        engine.clone(),
        folder,
        options,
        now_ms,
    ));
    match open_in_time(&backups) {
        Ok(()) => {}
        Err(
            error @ (BackupError::OtherStore { .. }
            | BackupError::NotARepository { .. }
            | BackupError::NewerFormat { .. }
            | BackupError::NoFolder { .. }
            | BackupError::Address { .. }),
        ) => return Err(refused(error.to_string())),
        // A disk that is not there may come back, and the data is served meanwhile.
        Err(error) => {
            let message = "the continuous backup cannot begin now; trying again";
            context.log_with_cause(LogLevel::Warn, message, &error.to_string());
        }
    }
    let message = format!("continuous backup to {}", backups.folder().display());
    context.log(LogLevel::Info, &message);
    Ok(Some(backups))
}

/// Opens the place, and fails if the opening takes long: it goes on then, beside the requests.
fn open_in_time(backups: &Arc<ContinuousBackups>) -> Result<(), BackupError> {
    let (sender, receiver) = mpsc::channel();
    let opened = backups.clone();
    let opening = std::thread::Builder::new()
        .name("continuous backup".to_owned())
        .spawn(move || {
            // The receiver may have given up.
            let _ = sender.send(opened.open());
        });
    let failed = |source: io::Error| BackupError::Io {
        doing: "open",
        path: backups.folder().to_owned(),
        source,
    };
    opening.map_err(failed)?;
    let answer = receiver.recv_timeout(OPENING_MAX);
    answer.unwrap_or_else(|_| Err(failed(io::ErrorKind::TimedOut.into())))
}

/// Starts the rounds. They run until the handle is aborted.
pub(crate) fn start(
    backups: &Arc<ContinuousBackups>,
    config: &ContinuousBackupConfig,
    context: &ServerContext,
) -> JoinHandle<()> {
    let rounds = Rounds {
        backups: backups.clone(),
        context: context.clone(),
        round_failures: RepeatedFailures::default(),
        base_failures: Arc::default(),
    };
    tokio::spawn(rounds.run(config.interval))
}

/// The loop of rounds.
struct Rounds {
    backups: Arc<ContinuousBackups>,
    context: ServerContext,
    round_failures: RepeatedFailures,
    base_failures: Arc<RepeatedFailures>,
}

impl Rounds {
    async fn run(self, interval: Duration) {
        let mut base: Option<JoinHandle<()>> = None;
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let backups = self.backups.clone();
            let round = tokio::task::spawn_blocking(move || backups.round()).await;
            // A panic has already been reported by the panic hook.
            if let Ok(round) = round {
                report(&self.context, &self.round_failures, &round);
            }
            // A base takes long, and is made beside the rounds.
            let is_free = base.as_ref().is_none_or(JoinHandle::is_finished);
            if is_free && let Some(wanted) = self.backups.wanted_base() {
                base = Some(self.start_base(wanted));
            }
            let backups = self.backups.clone();
            let expired = tokio::task::spawn_blocking(move || backups.expire_if_due()).await;
            if let Ok(Err(cause)) = expired {
                let message = "cannot remove what is older than the retention of the continuous \
                               backup now; trying again";
                self.context.log_with_cause(LogLevel::Warn, message, &cause);
            }
        }
    }

    /// Makes a base on a thread for blocking work.
    fn start_base(&self, wanted: BaseBegun) -> JoinHandle<()> {
        let (backups, context) = (self.backups.clone(), self.context.clone());
        let failures = self.base_failures.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(cause) = backups.make_base(&wanted) {
                let message = "cannot make a base of the continuous backup now; trying again";
                if failures.is_news(&cause, context.world.monotonic_ms()) {
                    context.log_with_cause(LogLevel::Warn, message, &cause);
                }
            }
        })
    }
}

/// Writes the failure of a round, or a gap, to the log.
fn report(
    context: &ServerContext,
    failures: &RepeatedFailures,
    round: &Result<Option<String>, String>,
) {
    match round {
        Ok(None) => {}
        Ok(Some(gap)) => {
            let message = "the continuous backup has a gap, and begins anew";
            context.log_with_cause(LogLevel::Warn, message, gap);
        }
        Err(cause) if failures.is_news(cause, context.world.monotonic_ms()) => {
            let message = "the continuous backup cannot go on now; trying again";
            context.log_with_cause(LogLevel::Warn, message, cause);
        }
        Err(_) => {}
    }
}

/// Copies what the last requests wrote. Called when no request is in progress. Waits for the end of
/// the present second, which can be restored then.
pub(crate) async fn finish(backups: Arc<ContinuousBackups>, context: ServerContext) {
    backups.cancel();
    let left_ms = 1_000 - now_ms() % 1_000;
    tokio::time::sleep(Duration::from_millis(left_ms)).await;
    let log = context.clone();
    let last = tokio::task::spawn_blocking(move || {
        let failures = RepeatedFailures::default();
        report(&log, &failures, &backups.round());
    });
    // A folder that hangs must not keep the server from ending.
    if tokio::time::timeout(LAST_ROUND_MAX, last).await.is_err() {
        let message = "the last writes are not in the continuous backup: its folder did not answer \
                       in time. The next start copies them";
        context.log(LogLevel::Warn, message);
    }
}
