//! Waiting of plain threads for the store's own threads.
//!
//! A call of the store blocks its thread for a round trip to the server. If the thread belongs to a
//! runtime with several threads, the runtime is told first, so that its other tasks go on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The time between two looks whether a wait is over.
const LOOK: Duration = Duration::from_millis(250);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `work`, which blocks this thread.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Waits for a future, which must not use timers or sockets of the runtime of this thread.
/// Returns `None` if the time is over first.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, limit: Duration) -> Option<T> {
    block_on_unless(future, limit, |_| false)
}

/// Waits as [`block_on`], and asks `is_over` now and then with the time that has passed. Returns
/// `None` too if the answer is true.
pub(crate) fn block_on_unless<T>(
    future: impl Future<Output = T>,
    limit: Duration,
    is_over: impl Fn(Duration) -> bool,
) -> Option<T> {
    blocking(|| {
        let began = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        // A task of a runtime may take a limited number of results before its futures pretend to
        // wait. The task that this thread runs does not go on, so the limit would end the waiting.
        let mut future = pin!(tokio::task::unconstrained(future));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return Some(output);
            }
            let waited = began.elapsed();
            if waited >= limit || is_over(waited) {
                return None;
            }
            std::thread::park_timeout((limit - waited).min(LOOK));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_future_or_with_the_time() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || sender.send(5).unwrap());
        let answer = block_on(receiver, Duration::from_secs(60));
        assert_eq!(answer.unwrap().unwrap(), 5);
        let never = std::future::pending::<()>();
        assert_eq!(block_on(never, Duration::from_millis(1)), None);
        let never = std::future::pending::<()>();
        let is_over = |_| true;
        assert_eq!(
            block_on_unless(never, Duration::from_secs(60), is_over),
            None
        );
    }

    #[test]
    fn one_task_may_wait_any_number_of_times() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            for round in 0..1_000 {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                sender.send(round).unwrap();
                let answer = block_on(receiver, Duration::from_secs(60));
                assert_eq!(answer.unwrap().unwrap(), round);
            }
        });
    }

    #[test]
    fn a_thread_of_a_runtime_may_wait() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let answer = runtime.block_on(async {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            // The only worker waits, and the task that ends the wait needs a worker too.
            let waits = tokio::spawn(async move { block_on(receiver, Duration::from_secs(60)) });
            tokio::spawn(async move { sender.send(7).unwrap() });
            waits.await.unwrap()
        });
        assert_eq!(answer.unwrap().unwrap(), 7);
    }
}
