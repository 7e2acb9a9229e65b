//! Where a request runs: cheap ones on the async worker that read them, those that may be slow on a bounded pool, so
//! that nobody waits behind them.
//!
//! The pool runs a few requests at a time and lets a bounded number wait. When that is full too, a request is refused
//! with 429 and a time to come back: clients take 503 as "this server is down".

use orrery_model::{Error, Kind, Result};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::Semaphore;

/// Requests that wait for the pool at most.
const WAITING: usize = 1024;
/// Milliseconds after which a refused client should try again.
const RETRY_AFTER_MS: u64 = 100;

/// The pool for requests that may be slow.
pub struct Pool {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Pool {
    /// A pool sized for this machine: more than its cores, because scripts and syncs wait.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self::with(4 * cores.max(2), WAITING)
    }

    fn with(running: usize, waiting: usize) -> Self {
        Pool {
            admitted: Arc::new(Semaphore::new(running + waiting)),
            running: Arc::new(Semaphore::new(running)),
        }
    }

    /// Runs `work` on the pool. If the caller goes away, `work` still ends before its place is free again.
    ///
    /// # Errors
    /// 429 if the pool and its queue are full; 500 if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| {
            Error::new(
                Kind::Throttled,
                "Request rate is large: the server has more slow requests than it can queue. Please retry later.",
            )
            .with_retry_after_ms(RETRY_AFTER_MS)
        })?;
        let running = self
            .running
            .clone()
            .acquire_owned()
            .await
            .map_err(Error::internal)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((running, admitted));
            result
        });
        done.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => Error::internal(panic_text(&*panic)),
            Err(error) => Error::internal(error),
        })
    }
}

impl Default for Pool {
    fn default() -> Self {
        Pool::new()
    }
}

/// What `work` comes to; a panic in it is an error like others.
///
/// # Errors
/// 500 if it panics.
pub async fn catch_panics<T>(work: impl Future<Output = T>) -> Result<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or_else(
            |panic| Poll::Ready(Err(Error::internal(panic_text(&*panic)))),
            |poll| poll.map(Ok),
        )
    })
    .await
}

/// What a panic said.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref().cloned());
    format!(
        "panic: {}",
        text.unwrap_or_else(|| "of unknown kind".into())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_full_queue_is_answered_with_429_and_a_time() {
        let pool = Arc::new(Pool::with(1, 0));
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
        pool.run(|| ()).await.expect("the place is free again");
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_error_and_frees_its_place() {
        let pool = Pool::with(1, 0);
        let error = pool
            .run::<()>(|| panic!("on purpose"))
            .await
            .expect_err("it panics");
        assert_eq!(error.status(), 500);
        assert_eq!(error.cause_chain(), "panic: on purpose");
        pool.run(|| ()).await.expect("the place is free again");
    }
}
