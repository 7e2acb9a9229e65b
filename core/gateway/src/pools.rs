//! The bounded pools for requests that may take long, and the barrier that turns a panic into a
//! 500.
//!
//! Short requests run on the async worker thread that read them. A long request there would delay
//! every other request of the thread, so it runs on a thread of its own. Requests of one kind share
//! a pool, so that they never wait for another kind:
//!
//! | kind | requests that run at once |
//! |---|---|
//! | queries | up to [`QUERIES`]: most wait for a slot of the engine, which divides the cores |
//! | requests with scripts | see `script_lane.rs` |
//! | all others: metadata, feeds, batches | a few for each core |
//!
//! Over a store on other machines every request waits for those, so none runs on a worker thread,
//! and the pool for all others has [`REMOTE_REQUESTS`].
//!
//! A pool queues a bounded number of requests. If the queue is full, a request is refused with 429
//! and a time to retry, and not with 503, because clients take 503 for a server that is down.

use orrery_model::{Error, Kind, Result};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;

/// The length of the queue, in requests.
const QUEUE_LENGTH: usize = 1024;
/// The milliseconds after which a refused client should retry.
pub(crate) const RETRY_AFTER_MS: u64 = 100;
/// The queries that run at once, unless there is too little memory for their threads. Each has a
/// thread.
pub(crate) const QUERIES: usize = 256;
/// The requests to a store on other machines that run at once, without queries and scripts. Each
/// has a thread, which waits most of the time.
const REMOTE_REQUESTS: usize = 128;

/// The measurements that run at once.
const MEASUREMENTS: usize = 2;
/// The measurements that wait.
const MEASUREMENTS_QUEUED: usize = 8;

/// A pool for requests that may be slow.
pub struct Pool {
    /// A permit for each request that runs or is queued.
    admitted: Arc<Semaphore>,
    /// A permit for each request that runs.
    running: Arc<Semaphore>,
}

impl Pool {
    /// Creates the pool for queries, `running` of which run at once.
    pub(crate) fn for_queries(running: usize) -> Self {
        Self::with_limits(running, QUEUE_LENGTH)
    }

    /// Creates the pool for requests that are neither queries nor run scripts. It runs more
    /// requests than there are cores, because syncs wait without using a core.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self::with_limits(4 * cores.max(2), QUEUE_LENGTH)
    }

    /// Creates the pool for all requests but queries and scripts over a store on other machines.
    pub(crate) fn for_remote_store() -> Self {
        Self::with_limits(REMOTE_REQUESTS, QUEUE_LENGTH)
    }

    /// Creates the pool for measurements of the operator, each of which may keep a core busy for
    /// seconds.
    pub fn for_measurements() -> Self {
        Self::with_limits(MEASUREMENTS, MEASUREMENTS_QUEUED)
    }

    fn with_limits(running: usize, queued: usize) -> Self {
        Pool {
            admitted: Arc::new(Semaphore::new(running + queued)),
            running: Arc::new(Semaphore::new(running)),
        }
    }

    /// Runs `work` on the pool. If the caller drops the future, `work` still runs to its end and
    /// keeps its permits until then.
    ///
    /// # Errors
    /// 429 if the pool and its queue are full; 500 if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        // Refuse at once if the queue is full.
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| {
            Error::new(
                Kind::Throttled,
                "Request rate is large: the server has more slow requests than it can queue. \
                 Please retry later.",
            )
            .with_retry_after_ms(RETRY_AFTER_MS)
        })?;
        // Wait in the queue.
        let running = self
            .running
            .clone()
            .acquire_owned()
            .await
            .map_err(Error::internal)?;
        // The thread owns the permits, so that they are free only when the work has ended.
        on_thread(move || {
            let result = work();
            drop((running, admitted));
            result
        })
        .await
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool::new()
    }
}

/// Runs `work` on a thread for blocking work.
///
/// # Errors
/// 500 if `work` panics.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Err(Error::internal(panic_text(&*panic))),
            Err(error) => Err(Error::internal(error)),
        },
    }
}

/// Runs `work` and returns its result; a panic becomes an error. The work is borrowed, because a
/// future that takes another one by value is twice as large, and every request moves the whole.
///
/// # Errors
/// 500 if `work` panics.
pub async fn catch_panics<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Result<T> {
    std::future::poll_fn(|context| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(Error::internal(panic_text(&*panic)))),
        }
    })
    .await
}

/// Returns the message of a panic, for the log.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let message = if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "of unknown kind"
    };
    format!("panic: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_full_queue_is_answered_with_429_and_a_time_to_retry() {
        let pool = Arc::new(Pool::with_limits(1, 0));
        let (release, held) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let pool = pool.clone();
            async move {
                pool.run(move || {
                    started.send(()).expect("the test waits");
                    held.recv().expect("the test lets go");
                })
                .await
            }
        });
        has_started.await.expect("it runs");
        let error = pool.run(|| ()).await.expect_err("full");
        assert_eq!(
            (error.status(), error.retry_after_ms()),
            (429, Some(RETRY_AFTER_MS))
        );
        release.send(()).expect("it waits");
        first.await.expect("it ends").expect("it runs");
        pool.run(|| ()).await.expect("the permits are free again");
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_frees_its_permits() {
        let pool = Pool::with_limits(1, 0);
        let error = pool
            .run::<()>(|| panic!("on purpose"))
            .await
            .expect_err("it panics");
        assert_eq!(error.status(), 500);
        assert_eq!(error.cause_chain(), "panic: on purpose");
        pool.run(|| ()).await.expect("the permits are free again");
    }
}
