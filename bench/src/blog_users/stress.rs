//! Disturbances of a run: workers that are killed, migrations that are killed and continued.

use super::processes::{Database, Killable};
use crate::Result;
use crate::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Workers that run at the same time while workers are killed.
const WORKERS: usize = 2;
/// Pause between two looks at a process or at the end of the run.
const LOOK: Duration = Duration::from_millis(20);
/// Times that a migration may give up and is continued. A migrator that does not get the processor
/// for seconds loses its lease and says so.
const RESTARTS_MAX: u32 = 5;
/// The first migration is killed within this time; later ones within the time of the last.
const FIRST_DURATION: Duration = Duration::from_secs(3);

/// The end of a run, which disturbances look at.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    /// Ends all disturbances.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for `time`, or until the end of the run.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.is_set() && Instant::now() < end {
            #[expect(clippy::disallowed_methods, reason = "the pace of a load")]
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// Runs workers until the end of the run, of which one is killed and replaced every `every`.
/// Returns the workers that are left, and the number of kills.
pub(crate) fn kill_workers(
    database: &Database,
    every: Duration,
    stop: &Stop,
) -> Result<(Vec<Killable>, u32)> {
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(Killable::worker(database)?);
    }
    let mut kills = 0;
    loop {
        stop.wait(every);
        if stop.is_set() {
            return Ok((workers, kills));
        }
        // The oldest worker dies; a new one takes its place at the end of the list.
        if !workers.remove(0).kill()? {
            return Err("a worker ended by itself; its message stands above".into());
        }
        kills += 1;
        workers.push(Killable::worker(database)?);
    }
}

/// The migrations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Migrations {
    /// Target and seconds of each finished migration.
    pub(crate) finished: Vec<(String, f64)>,
    /// Number of processes that were killed.
    pub(crate) kills: u32,
    /// Number of processes that gave up and were continued.
    pub(crate) restarts: u32,
}

/// The end of a process of a migration.
enum End {
    Finished,
    Killed,
    GaveUp,
}

/// Migrates to the models of `targets` in order, again from the first one as long as the run lasts
/// or kills are left, and at least once. In total `kills` processes are killed at random times and
/// continued. Ends after a migration to the last target.
pub(crate) fn migrate(
    database: &Database,
    targets: &[String],
    kills: u32,
    random: &mut Random,
    stop: &Stop,
) -> Result<Migrations> {
    let mut migrations = Migrations::default();
    let mut typical = FIRST_DURATION;
    loop {
        for target in targets {
            let started = Instant::now();
            let mut longest = Duration::ZERO;
            loop {
                let began = Instant::now();
                let process = Killable::migration(database, target)?;
                let is_killed = migrations.kills < kills && random.fraction() < 0.7;
                let kill_after = is_killed.then(|| typical.mul_f64(random.fraction()));
                let end = run_migration(process, kill_after)?;
                longest = longest.max(began.elapsed());
                match end {
                    End::Finished => break,
                    End::Killed => migrations.kills += 1,
                    End::GaveUp => migrations.restarts += 1,
                }
                if migrations.restarts > RESTARTS_MAX {
                    return Err(format!("the migration to {target} fails again and again").into());
                }
            }
            let seconds = started.elapsed().as_secs_f64();
            typical = longest;
            migrations.finished.push((target.clone(), seconds));
            println!(
                "migrated to {target} in {seconds:.1} s, {} kills so far",
                migrations.kills
            );
            stop.wait(Duration::from_secs(5));
        }
        if stop.is_set() && migrations.kills >= kills {
            return Ok(migrations);
        }
    }
}

/// Waits for the end of a migration, or kills it after `kill_after`.
fn run_migration(mut process: Killable, kill_after: Option<Duration>) -> Result<End> {
    let end = kill_after.map(|time| Instant::now() + time);
    loop {
        if let Some(status) = process.ended()? {
            return Ok(match status.success() {
                true => End::Finished,
                false => End::GaveUp,
            });
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            // The migration may have ended at this moment; the next look tells how.
            if process.kill()? {
                return Ok(End::Killed);
            }
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "other processes do not notify this one"
        )]
        std::thread::sleep(LOOK);
    }
}
