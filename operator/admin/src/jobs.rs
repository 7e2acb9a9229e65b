//! Jobs: work of minutes that goes on after the response, one of each kind at a time.
//!
//! A job runs on a thread of its own. Its progress and its last result are in memory until the next
//! job of the kind begins or the server ends. A job that is cancelled ends at its next look.

use crate::backups::Made;
use crate::problem::Problem;
use crate::schema::{COUNT, Member, ValueType, optional, required};
use orrery_backup::Progress;
use orrery_engine::{Verification, VerifyProgress};
use orrery_model::Object;
use orrery_model::sync::{lock, pause_unless};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The member with the start of work that goes on after the response.
pub(crate) const BEGAN: Member = required(
    "beganMilliseconds",
    COUNT,
    "time of the data at the start, in milliseconds since 1970-01-01 UTC",
);
/// The member with its end.
pub(crate) const ENDED: Member = optional(
    "endedMilliseconds",
    COUNT,
    "time of the data at the end, in milliseconds since 1970-01-01 UTC",
);
/// The member with the state of a job.
pub(crate) const STATUS: ValueType = ValueType::OneOf(&["running", "done", "cancelled", "failed"]);

/// The jobs of a server.
#[derive(Default)]
pub struct Jobs {
    pub(crate) verification: Slot<VerifyProgress, Verification>,
    pub(crate) backup: Slot<Progress, Made>,
}

impl Jobs {
    /// Asks all jobs to end early, because the server ends.
    pub fn cancel(&self) {
        // A kind without a job has nothing to end.
        let _ = self.verification.cancel("");
        let _ = self.backup.cancel("");
    }
}

/// The place of the jobs of one kind, with progress `P` and result `R`.
pub(crate) struct Slot<P, R>(Arc<Mutex<Option<Job<P, R>>>>);

impl<P, R> Default for Slot<P, R> {
    fn default() -> Self {
        Slot(Arc::default())
    }
}

/// A job as it stands.
#[derive(Clone)]
pub(crate) struct Job<P, R> {
    /// Milliseconds of the time of the data at the start.
    pub(crate) began_ms: u64,
    /// Milliseconds at the end; `None` while the job runs.
    pub(crate) ended_ms: Option<u64>,
    /// The progress at the last look.
    pub(crate) progress: P,
    /// The result, or the reason of a failure.
    pub(crate) result: Option<Result<R, String>>,
    cancel: Arc<AtomicBool>,
}

impl<P, R> Job<P, R> {
    /// Adds the times of the job to its JSON, the members of [`BEGAN`] and [`ENDED`].
    pub(crate) fn push_times(&self, json: &mut Object) {
        json.push_new(BEGAN.name, self.began_ms);
        if let Some(ended_ms) = self.ended_ms {
            json.push_new(ENDED.name, ended_ms);
        }
    }
}

/// The way from a running job to its place.
pub(crate) struct Report<P, R> {
    slot: Slot<P, R>,
    cancel: Arc<AtomicBool>,
}

impl<P, R> Report<P, R> {
    /// Returns the flag that is true once the job is to end.
    pub(crate) fn cancel_flag(&self) -> &AtomicBool {
        &self.cancel
    }

    /// Waits, but no longer than the job is to run.
    pub(crate) fn pause(&self, time: Duration) {
        pause_unless(&self.cancel, time);
    }

    /// Notes the progress. Returns false if the job is to end.
    pub(crate) fn progress(&self, progress: P) -> bool {
        if let Some(job) = &mut *lock(&self.slot.0) {
            job.progress = progress;
        }
        !self.cancel.load(Ordering::Relaxed)
    }
}

impl<P, R> Slot<P, R>
where
    P: Clone + Default + Send + 'static,
    R: Clone + Send + 'static,
{
    /// Starts a job. `now` returns the milliseconds of the time of the data.
    ///
    /// # Errors
    /// 409 while another job of the kind runs; 503 if the system gives no thread.
    pub(crate) fn start(
        &self,
        kind: &'static str,
        now: impl Fn() -> u64 + Send + 'static,
        run: impl FnOnce(&Report<P, R>) -> Result<R, String> + Send + 'static,
    ) -> Result<Job<P, R>, Problem> {
        let mut place = lock(&self.0);
        if place.as_ref().is_some_and(|job| job.result.is_none()) {
            let message = format!("a {kind} is running: wait for its end, or cancel it");
            return Err(Problem::new(409, "Conflict", message));
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let job = Job {
            began_ms: now(),
            ended_ms: None,
            progress: P::default(),
            result: None,
            cancel: Arc::clone(&cancel),
        };
        let report = Report {
            slot: Slot(Arc::clone(&self.0)),
            cancel,
        };
        let work = move || {
            // A panic must not leave a job that runs for ever.
            let result = catch_unwind(AssertUnwindSafe(|| run(&report)))
                .unwrap_or_else(|_| Err("the work ended with an internal error".to_owned()));
            if let Some(job) = &mut *lock(&report.slot.0) {
                job.ended_ms = Some(now());
                job.result = Some(result);
            }
        };
        let thread = std::thread::Builder::new().name(format!("orrery-{kind}"));
        thread.spawn(work).map_err(|error| {
            let message = format!("the system gives no thread for a {kind}: {error}");
            Problem::new(503, "ServiceUnavailable", message)
        })?;
        *place = Some(job.clone());
        Ok(job)
    }

    /// Returns the job that runs, or the last one.
    ///
    /// # Errors
    /// 404 if there was none since the server started.
    pub(crate) fn job(&self, kind: &str) -> Result<Job<P, R>, Problem> {
        lock(&self.0).clone().ok_or_else(|| {
            Problem::not_found(format!("no {kind} has run since the server started"))
        })
    }

    /// Asks the job to end early, and returns it as it stands.
    ///
    /// # Errors
    /// 404 if there was none since the server started.
    pub(crate) fn cancel(&self, kind: &str) -> Result<Job<P, R>, Problem> {
        let job = self.job(kind)?;
        job.cancel.store(true, Ordering::Relaxed);
        Ok(job)
    }
}
