//! The continuous backup of a server: rounds that copy the log of the store, and the bases that the
//! log begins with.
//!
//! Both are called by the server from threads of their own, at their times. What they did last is
//! kept for `/status` and `/metrics`.
//!
//! Promised: a failure leaves the log as it was, and the next round goes on from there. Left out:
//! the restore (`orrery restore --to`).

use crate::backups::about;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_backup::{
    BackupError, BaseBegun, ContinuousBackup, ContinuousOptions, CreateOptions, Round, create_base,
    limit_kept, windows,
};
use orrery_engine::Engine;
use orrery_model::sync::lock;
use orrery_model::{Object, object};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes a second that a base copies, so that requests go on beside it.
const BASE_BYTES_PER_SECOND: u64 = 32 << 20;

/// The looks for what is too old in the time of a retention, and the pauses between them.
const EXPIRIES_PER_RETENTION: u64 = 24;
const EXPIRY_PAUSE_MIN: Duration = Duration::from_secs(60);
const EXPIRY_PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// Milliseconds by which the clock may differ from the time since the start while old parts of the
/// log are removed.
const CLOCK_SLACK_MS: u64 = 3_600_000;

/// The continuous backup in the response of `/status`.
pub(crate) const CONTINUOUS_BACKUP: Schema = Schema {
    name: "ContinuousBackup",
    members: &[
        required(
            "folder",
            ValueType::Text,
            "folder with the backups and the log",
        ),
        optional(
            "reachedSeconds",
            COUNT,
            "second since 1970-01-01 UTC up to which everything is in the log; absent before the \
             first round",
        ),
        optional(
            "restorableFromSeconds",
            COUNT,
            "first second from which on each second up to the reached one can be restored; absent \
             while none can",
        ),
        required(
            "lagSeconds",
            COUNT,
            "seconds of which writes may be missing in the log",
        ),
        required(
            "segmentBytes",
            COUNT,
            "bytes that were added to the log since the start",
        ),
        required(
            "bases",
            COUNT,
            "backups that were made for the log since the start",
        ),
        required(
            "failures",
            COUNT,
            "rounds, bases and removals that failed since the start",
        ),
        optional(
            "failure",
            ValueType::Text,
            "reason of a failure; absent if the last round, base and removal succeeded",
        ),
    ],
};

/// The continuous backup of an open engine.
pub struct ContinuousBackups {
    engine: Arc<Engine>,
    folder: PathBuf,
    options: ContinuousOptions,
    /// The clock of the log: milliseconds since 1970.
    now_ms: fn() -> u64,
    log: Mutex<Option<ContinuousBackup>>,
    state: Mutex<State>,
    /// Ends the base that is being made.
    is_cancelled: AtomicBool,
    started: Instant,
    started_ms: u64,
}

/// The results so far.
#[derive(Clone, Debug, Default)]
struct State {
    began_second: u64,
    reached: Option<u64>,
    /// The log has a backup to begin with, so its seconds can be restored.
    has_base: bool,
    /// The first second of the log without a gap up to now; `None` if it is not known.
    restorable_from: Option<u64>,
    /// The time from the start to the last look for what is too old.
    last_expiry: Duration,
    segment_bytes: u64,
    bases: u64,
    failures: u64,
    round_failure: Option<String>,
    base_failure: Option<String>,
    expiry_failure: Option<String>,
}

impl ContinuousBackups {
    /// Prepares the continuous backup of an engine into a folder.
    pub fn new(
        engine: Arc<Engine>,
        folder: PathBuf,
        options: ContinuousOptions,
        now_ms: fn() -> u64,
    ) -> ContinuousBackups {
        let state = State {
            began_second: now_ms() / 1_000,
            ..State::default()
        };
        ContinuousBackups {
            engine,
            folder,
            options,
            now_ms,
            log: Mutex::default(),
            state: Mutex::new(state),
            is_cancelled: AtomicBool::new(false),
            started: Instant::now(),
            started_ms: now_ms(),
        }
    }

    /// Opens the folder if it is not open, so that a folder that can never be used is known.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(&self) -> Result<(), BackupError> {
        let mut log = lock(&self.log);
        if log.is_none() {
            let (store, options) = (self.engine.store(), self.options.clone());
            *log = Some(ContinuousBackup::open(&**store, &self.folder, options)?);
        }
        Ok(())
    }

    /// Copies what the journals got since the last round. Returns a sentence about a gap, if one is
    /// in the log now.
    ///
    /// # Errors
    /// The reason why the round failed.
    pub fn round(&self) -> Result<Option<String>, String> {
        let copied = self.try_round();
        if let Ok(round) = &copied {
            self.look_for_first_second(round.gap.is_some());
        }
        let mut state = lock(&self.state);
        let gap = match &copied {
            Ok(round) => {
                state.reached = Some(round.reached);
                state.segment_bytes += round.bytes;
                round.gap.clone()
            }
            Err(_) => None,
        };
        self.noted(copied.map(drop), &mut state, |state| {
            &mut state.round_failure
        })?;
        Ok(gap)
    }

    fn try_round(&self) -> Result<Round, BackupError> {
        let opened = self.open();
        let store = &**self.engine.store();
        let mut log = lock(&self.log);
        let Some(open) = log.as_mut() else {
            // Journals that wait for a folder which cannot be written must not fill the disk.
            limit_kept(store, self.options.kept_bytes_max)?;
            return Err(opened.err().unwrap_or(BackupError::Cancelled));
        };
        let round = open.round(store, (self.now_ms)());
        if round.is_err() {
            open.limit_kept(store)?;
        }
        lock(&self.state).has_base = open.has_base();
        // A new folder, or that of another disk, is opened by the next round.
        if round.is_err() && open.is_lost() {
            *log = None;
        }
        round
    }

    /// Reads the first second of the log without a gap up to now, if it is not known or has
    /// changed.
    fn look_for_first_second(&self, has_changed: bool) {
        let mut state = lock(&self.state);
        if has_changed {
            state.restorable_from = None;
        }
        if state.restorable_from.is_some() || !state.has_base {
            return;
        }
        drop(state);
        // A folder that cannot be read is told by the next round.
        let windows = windows(&self.folder).unwrap_or_default();
        lock(&self.state).restorable_from = windows.last().and_then(|window| window.from);
    }

    /// Returns the beginning of a base if one is to be made.
    pub fn wanted_base(&self) -> Option<BaseBegun> {
        let log = lock(&self.log);
        log.as_ref()?.wanted_base((self.now_ms)())
    }

    /// Makes a base.
    ///
    /// # Errors
    /// The reason why the base failed.
    pub fn make_base(&self, base: &BaseBegun) -> Result<(), String> {
        let options = CreateOptions {
            about: about(&self.engine),
            bytes_per_second: BASE_BYTES_PER_SECOND,
            is_cancelled: Some(&self.is_cancelled),
            clock_ms: Some(self.now_ms),
            ..CreateOptions::new((self.now_ms)(), env!("CARGO_PKG_VERSION"))
        };
        let made = create_base(&**self.engine.store(), &self.folder, &options);
        if let (Ok(_), Some(log)) = (&made, lock(&self.log).as_mut()) {
            log.note_base(base);
        }
        let mut state = lock(&self.state);
        state.bases += u64::from(made.is_ok());
        state.has_base |= made.is_ok();
        self.noted(made.map(drop), &mut state, |state| &mut state.base_failure)
    }

    /// Removes what is older than the retention, if it is time to look. Nothing is removed while
    /// the clock disagrees with the time since the start: what is old by a wrong clock may be new.
    ///
    /// # Errors
    /// The reason why the removal failed.
    pub fn expire_if_due(&self) -> Result<(), String> {
        let now_ms = (self.now_ms)();
        let elapsed = self.started.elapsed();
        let expected_ms = self.started_ms + elapsed.as_millis() as u64;
        let pause = Duration::from_millis(self.options.retention_ms / EXPIRIES_PER_RETENTION);
        let pause = pause.clamp(EXPIRY_PAUSE_MIN, EXPIRY_PAUSE_MAX);
        let mut state = lock(&self.state);
        if elapsed < state.last_expiry + pause || now_ms.abs_diff(expected_ms) > CLOCK_SLACK_MS {
            return Ok(());
        }
        state.last_expiry = elapsed;
        drop(state);
        let Some(expiry) = lock(&self.log).as_ref().map(ContinuousBackup::expiry) else {
            return Ok(());
        };
        let expired = expiry.run(now_ms).map(drop);
        self.look_for_first_second(true);
        let mut state = lock(&self.state);
        self.noted(expired, &mut state, |state| &mut state.expiry_failure)
    }

    /// Counts a failure and keeps its reason for `/status`.
    fn noted(
        &self,
        result: Result<(), BackupError>,
        state: &mut State,
        place: impl Fn(&mut State) -> &mut Option<String>,
    ) -> Result<(), String> {
        let failure = result.err().map(|error| error.to_string());
        state.failures += u64::from(failure.is_some());
        place(state).clone_from(&failure);
        failure.map_or(Ok(()), Err)
    }

    /// Ends the base that is being made, because the server ends.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the seconds of which writes may be missing in the log.
    pub(crate) fn lag_seconds(&self) -> u64 {
        let state = lock(&self.state);
        // A log without a base restores nothing.
        let reached = state.reached.filter(|_| state.has_base);
        let reached = reached.unwrap_or(state.began_second);
        ((self.now_ms)() / 1_000).saturating_sub(reached + 1)
    }

    /// Returns the first second from which on each second can be restored; `None` while none can.
    pub(crate) fn restorable_from(&self) -> Option<u64> {
        lock(&self.state).restorable_from
    }

    /// Returns the number of rounds and bases that failed.
    pub(crate) fn failures(&self) -> u64 {
        lock(&self.state).failures
    }

    /// Returns the bytes that were added to the log.
    pub(crate) fn segment_bytes(&self) -> u64 {
        lock(&self.state).segment_bytes
    }

    /// Describes the continuous backup for `/status`.
    pub(crate) fn to_json(&self) -> Object {
        let lag = self.lag_seconds();
        let state = lock(&self.state).clone();
        let mut json = object! { "folder" => self.folder.display().to_string() };
        if let Some(reached) = state.reached {
            json.push_new("reachedSeconds", reached);
        }
        if let Some(from) = state.restorable_from {
            json.push_new("restorableFromSeconds", from);
        }
        for (name, value) in [
            ("lagSeconds", lag),
            ("segmentBytes", state.segment_bytes),
            ("bases", state.bases),
            ("failures", state.failures),
        ] {
            json.push_new(name, value);
        }
        let failure = state.round_failure.or(state.base_failure);
        if let Some(failure) = failure.or(state.expiry_failure) {
            json.push_new("failure", failure);
        }
        json
    }
}
