//! Background work of a running server, beside the requests of clients.
//!
//! Each task of the engine's agenda has a loop of its own, which waits until the task has work and
//! then runs one piece of it on a thread for blocking work. The engine tells when work arises; a
//! server without work does nothing. A piece of work that fails writes a warning to the log and is
//! tried again later.
//!
//! The survey, which visits every container once after a start, takes less than a hundredth of a
//! core, so that a server with many containers is idle soon after its start.

use crate::context::ServerContext;
use orrery_admin::{Components, balance_clusters};
use orrery_engine::{BackgroundTask, ClockJump, Engine, LargeKey, is_unset_clock};
use orrery_gateway::{LogLevel, RepeatedFailures};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Pause after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The longest wait for work that has a time: the clock of the machine may be set meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The pause of the survey after a run, as a multiple of the time that the run took.
const SURVEY_PAUSE_FACTOR: u32 = 200;
/// The shortest and the longest pause of the survey.
const SURVEY_PAUSE_MIN: Duration = Duration::from_millis(50);
const SURVEY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The pause between two looks at the balance of the clusters.
const BALANCE_PAUSE: Duration = Duration::from_secs(60);

/// Starts the loops of all tasks. They run until their handles are aborted.
pub(crate) fn start(engine: &Arc<Engine>, context: &ServerContext) -> Vec<JoinHandle<()>> {
    let log = context.clone();
    engine.on_clock_jump(move |jump| log_jump(&log, jump));
    let log = context.clone();
    engine.on_large_key(move |large| log_large_key(&log, large));
    let woken: Arc<[Notify]> = BackgroundTask::ALL.iter().map(|_| Notify::new()).collect();
    let wakers = woken.clone();
    engine.on_background_work(move |task| wakers[task as usize].notify_one());
    let mut loops = Vec::new();
    for task in BackgroundTask::ALL {
        let task_loop = TaskLoop {
            task,
            engine: engine.clone(),
            context: context.clone(),
            woken: woken.clone(),
            failures: RepeatedFailures::default(),
        };
        loops.push(tokio::spawn(task_loop.run()));
    }
    loops
}

/// Starts the loop that keeps the clusters in balance: one move at a time, at most one in
/// [`BALANCE_PAUSE`]. It runs until its handle is aborted.
pub(crate) fn balance(components: Components, context: &ServerContext) -> JoinHandle<()> {
    let (components, context) = (Arc::new(components), context.clone());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(BALANCE_PAUSE).await;
            let components = components.clone();
            let round = tokio::task::spawn_blocking(move || balance_clusters(&components)).await;
            // A panic has already been reported by the panic hook.
            match round {
                Ok(Ok(Some(text))) => context.log(LogLevel::Info, &text),
                Ok(Err(cause)) => {
                    let message = "cannot balance the clusters now; trying again";
                    context.log_with_cause(LogLevel::Warn, message, &cause);
                }
                _ => {}
            }
        }
    })
}

/// The loop of one task.
struct TaskLoop {
    task: BackgroundTask,
    engine: Arc<Engine>,
    context: ServerContext,
    /// The wake-ups of all tasks. One that comes while its loop is busy is kept.
    woken: Arc<[Notify]>,
    failures: RepeatedFailures,
}

impl TaskLoop {
    async fn run(self) {
        loop {
            let wait = self.engine.background_work_in(self.task);
            let woken = self.woken[self.task as usize].notified();
            match wait.map(Duration::from_millis) {
                None => woken.await,
                Some(Duration::ZERO) => self.run_once().await,
                Some(wait) => _ = tokio::time::timeout(wait.min(WAIT_MAX), woken).await,
            }
        }
    }

    /// Runs one piece of work.
    async fn run_once(&self) {
        let (engine, task) = (self.engine.clone(), self.task);
        let run = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            (engine.run_background_work(task), started.elapsed())
        });
        // A panic has already been reported by the panic hook.
        let Ok((result, took)) = run.await else {
            return tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        };
        if let Err(error) = result {
            let (cause, now_ms) = (error.cause_chain(), self.context.world.monotonic_ms());
            if self.failures.is_news(&cause, now_ms) {
                let message = failure_message(self.task);
                self.context.log_with_cause(LogLevel::Warn, message, &cause);
            }
            tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
        } else if self.task == BackgroundTask::Survey {
            let pause = took * SURVEY_PAUSE_FACTOR;
            tokio::time::sleep(pause.clamp(SURVEY_PAUSE_MIN, SURVEY_PAUSE_MAX)).await;
        }
    }
}

/// Returns the log message for the failures of a task.
fn failure_message(task: BackgroundTask) -> &'static str {
    match task {
        BackgroundTask::Removal => "cannot remove expired or deleted data now; trying again",
        BackgroundTask::KeyDeletion => "cannot remove deleted logical partitions now; trying again",
        BackgroundTask::Splits => "cannot split a physical partition now; trying again",
        BackgroundTask::Reindexing => "cannot adapt an index to its policy now; trying again",
        BackgroundTask::KeySizes => "cannot count logical partitions now; trying again",
        BackgroundTask::Linking => "cannot bring new vectors into their index now; trying again",
        BackgroundTask::Survey => "cannot look for work left by the last run; trying again",
    }
}

/// Writes a logical partition that comes near to the limit on its size to the log. The partition
/// key itself is in the management API only.
fn log_large_key(context: &ServerContext, large: &LargeKey) {
    let LargeKey {
        database,
        container,
        epk,
        ..
    } = large;
    let message = format!(
        "a logical partition of {database}/{container} (EPK {epk}) has {} of at most {} MB: writes \
         beyond will be refused",
        large.bytes >> 20,
        large.bytes_max >> 20
    );
    context.log(LogLevel::Warn, &message);
}

/// Returns milliseconds in seconds, or in days if there are several.
fn duration(ms: u64) -> String {
    match ms / 86_400_000 {
        0..=1 => format!("{} s", ms / 1000),
        days => format!("{days} days"),
    }
}

/// Writes a jump of the clock to the log.
fn log_jump(context: &ServerContext, jump: ClockJump) {
    let (level, message) = match jump {
        ClockJump::Ahead(ms) => (
            LogLevel::Warn,
            format!(
                "the clock is {} ahead of the expected time: expired items are hidden and kept \
                 until the clock has stayed there for ten minutes",
                duration(ms)
            ),
        ),
        ClockJump::Behind(ms) if is_unset_clock(context.world.now_ms() / 1_000) => (
            LogLevel::Warn,
            format!(
                "the clock was set back by {}, to a time before 2025, so it was never set: nothing \
                 expires by it. Set the clock, and start the server again",
                duration(ms)
            ),
        ),
        ClockJump::Behind(ms) => (
            LogLevel::Warn,
            format!(
                "the clock was set back by {}, or was ahead in an earlier run. If it is right now, \
                 'orrery repair --clock' mends the times of what was written meanwhile",
                duration(ms)
            ),
        ),
        ClockJump::Misdated(ms) => (
            LogLevel::Warn,
            format!(
                "some data is dated {} later than the clock: the clock is behind now, or it was \
                 ahead when the data was written. New items get the time of the clock. If the \
                 clock is right, stop the server and run 'orrery repair --clock', which dates that \
                 data now; if it is not, stop the server and set the clock",
                duration(ms)
            ),
        ),
        ClockJump::Confirmed(ms) => (
            LogLevel::Info,
            format!(
                "the clock that moved ahead by {} is confirmed: expired items are removed by it",
                duration(ms)
            ),
        ),
    };
    context.log(level, &message);
}
