//! Benchmark of the continuous backup: creates by four writers on a store on disk, without it and
//! with it, in turn.
//!
//! Each state has a store of its own. While a state is measured, its log is copied at the interval
//! of a server, and the state with bases makes one after the other at the rate of a server.

use crate::engine::BenchEngine;
use crate::in_turn::InTurn;
use crate::items::{CREATE_BYTES, item};
use crate::{Result, temporary_directory};
use orrery_backup::{ContinuousBackup, ContinuousOptions, CreateOptions, create_base};
use orrery_model::sync::pause_unless;
use orrery_storage::{LocalOptions, LocalStore, LogKeeping, Store};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Writers that create items.
const WRITERS: u64 = 4;
/// The time between two copies of the log.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes a second that a base copies, as that of a server.
const BASE_BYTES_PER_SECOND: u64 = 32 << 20;

/// One state of the store.
struct State {
    name: &'static str,
    engine: BenchEngine,
    store: Arc<LocalStore>,
    folder: PathBuf,
    log: Option<Mutex<ContinuousBackup>>,
    has_bases: bool,
    next_item: AtomicU64,
}

impl State {
    fn new(name: &'static str, parent: &Path, has_log: bool, has_bases: bool) -> Result<State> {
        let place = parent.join(name.replace([' ', ','], "-"));
        let folder = place.join("backups");
        let options = LocalOptions {
            log: match has_log {
                true => LogKeeping::On(now_second),
                false => LogKeeping::Off,
            },
            ..LocalOptions::default()
        };
        let store = Arc::new(LocalStore::open(place.join("data"), options)?);
        let log = match has_log {
            true => {
                let options = ContinuousOptions::new(3_600_000);
                let mut log = ContinuousBackup::open(&*store, &folder, options)?;
                log.round(&*store, now_ms())?;
                Some(Mutex::new(log))
            }
            false => None,
        };
        let shared: Arc<dyn Store> = store.clone();
        Ok(State {
            name,
            engine: BenchEngine::open(shared)?,
            store,
            folder,
            log,
            has_bases,
            next_item: AtomicU64::new(0),
        })
    }

    /// Creates items for some time. Returns the creates per second.
    fn measure(&self, time: Duration) -> Result<f64> {
        let is_over = AtomicBool::new(false);
        let began = Instant::now();
        let created = std::thread::scope(|scope| {
            let backup = scope.spawn(|| self.back_up(&is_over));
            let mut writers = Vec::new();
            for _ in 0..WRITERS {
                writers.push(scope.spawn(|| self.create_until(began + time)));
            }
            let mut created = 0;
            for writer in writers {
                created += joined(writer)?;
            }
            let seconds = began.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            joined(backup)?;
            Ok::<f64, String>(created as f64 / seconds)
        })?;
        Ok(created)
    }

    fn create_until(&self, end: Instant) -> std::result::Result<u64, String> {
        let mut count = 0;
        while Instant::now() < end {
            let n = self.next_item.fetch_add(1, Ordering::Relaxed);
            let created = self.engine.create(&item('c', n, CREATE_BYTES));
            created.map_err(|error| error.to_string())?;
            count += 1;
        }
        Ok(count)
    }

    /// Copies the log at its interval, and makes bases if the state has them.
    fn back_up(&self, is_over: &AtomicBool) -> std::result::Result<(), String> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        let store = &*self.store;
        std::thread::scope(|scope| {
            let bases = scope.spawn(|| {
                while self.has_bases && !is_over.load(Ordering::Relaxed) {
                    let options = CreateOptions {
                        bytes_per_second: BASE_BYTES_PER_SECOND,
                        is_cancelled: Some(is_over),
                        ..CreateOptions::new(now_ms(), "bench")
                    };
                    match create_base(store, &self.folder, &options) {
                        Ok(_) | Err(orrery_backup::BackupError::Cancelled) => {}
                        Err(error) => return Err(error.to_string()),
                    }
                }
                Ok(())
            });
            while !is_over.load(Ordering::Relaxed) {
                pause_unless(is_over, INTERVAL);
                let mut log = log.lock().map_err(|error| error.to_string())?;
                let round = log.round(store, now_ms());
                round.map_err(|error| error.to_string())?;
            }
            joined(bases)
        })
    }
}

/// Waits for the end of a thread.
fn joined<T>(
    thread: std::thread::ScopedJoinHandle<'_, std::result::Result<T, String>>,
) -> std::result::Result<T, String> {
    thread.join().map_err(|_| "a thread panicked".to_owned())?
}

/// The arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of rounds, each with one measurement of every line
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Duration of one measurement in seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Directory for the data while measuring [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the median rate of creates in each state, and the median of its ratio to the first state
/// in the same round.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let (rounds, time) = (arguments.rounds, Duration::from_secs_f64(arguments.seconds));
    let directory = temporary_directory(arguments.directory)?;
    let directory = directory.path();
    let states = [
        State::new("no continuous backup", directory, false, false)?,
        State::new("the same again", directory, false, false)?,
        State::new("continuous backup", directory, true, false)?,
        State::new("continuous backup, beside bases", directory, true, true)?,
    ];
    let measured = InTurn::measure(rounds, states.len(), |place| states[place].measure(time))?;
    let names = states.each_ref().map(|state| state.name);
    measured.print("creates by four writers", "per s", 0, &names);
    Ok(())
}

fn now_second() -> u64 {
    now_ms() / 1_000
}

#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the log is that of the machine"
)]
fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as u64)
}
