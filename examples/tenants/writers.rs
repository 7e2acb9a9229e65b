//! Writers of the big tenant: they create, replace and delete orders all the time and keep what the
//! database has acknowledged, so that the move can be verified.
//!
//! The change feed reports creations and replacements and no deletions. A writer therefore replaces
//! a deleted order by a mark, `"deleted": true`, which expires by itself in a real program (`ttl`),
//! and the move deletes the order in the target when the mark arrives.

use crate::order::order;
use crate::route::Route;
use orrery_examples::Result;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Writers that work at the same time.
const WRITERS: usize = 3;
/// Time between two writes of a writer. Without it, the writers would take all the throughput of
/// the shared container and leave none for the reads of the move.
const PAUSE: Duration = Duration::from_millis(45);
/// Every order with a number that this divides is deleted at the end of its life.
const DELETED_EACH: usize = 5;

/// The acknowledged state of the orders: the version of each, or `None` for a deleted one.
pub(crate) type Orders = HashMap<String, Option<usize>>;

/// The running writers.
pub(crate) struct Writers {
    tasks: JoinSet<Result<Orders>>,
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    writes: AtomicUsize,
    written: Notify,
    stop: AtomicBool,
}

impl Writers {
    /// Starts the writers.
    pub(crate) fn start(route: &Arc<Route>) -> Writers {
        let progress = Arc::new(Progress::default());
        let mut tasks = JoinSet::new();
        for writer in 0..WRITERS {
            tasks.spawn(write(writer, route.clone(), progress.clone()));
        }
        Writers { tasks, progress }
    }

    /// Returns the number of acknowledged writes.
    pub(crate) fn writes(&self) -> usize {
        self.progress.writes.load(Ordering::SeqCst)
    }

    /// Waits for `count` more acknowledged writes. A writer that fails is an error.
    pub(crate) async fn wait_for(&mut self, count: usize) -> Result<()> {
        let target = self.writes() + count;
        let progress = self.progress.clone();
        loop {
            let written = progress.written.notified();
            if self.writes() >= target {
                return Ok(());
            }
            tokio::select! {
                () = written => {}
                Some(ended) = self.tasks.join_next() => {
                    ended??;
                    return Err("a writer ended before it was told to".into());
                }
            }
        }
    }

    /// Stops the writers and returns the orders that they left.
    pub(crate) async fn stop(mut self) -> Result<Orders> {
        self.progress.stop.store(true, Ordering::SeqCst);
        let mut orders = Orders::new();
        while let Some(ended) = self.tasks.join_next().await {
            orders.extend(ended??);
        }
        Ok(orders)
    }
}

/// Creates an order and replaces it twice; then the next order. Some are deleted in the end.
async fn write(writer: usize, route: Arc<Route>, progress: Arc<Progress>) -> Result<Orders> {
    let mut orders = Orders::new();
    let tenant = route.big();
    let mut pause = tokio::time::interval(PAUSE);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0.. {
        let id = format!("live-{writer}-{number}");
        for version in 1..=4 {
            if progress.stop.load(Ordering::SeqCst) {
                return Ok(orders);
            }
            let mut item = order(tenant, &id, version);
            let is_deleted = version == 4;
            if is_deleted {
                if number % DELETED_EACH != 0 {
                    continue;
                }
                item = json!({"id": id, "tenantId": tenant, "deleted": true});
            }
            pause.tick().await;
            // The gate is held until the write is acknowledged.
            let place = route.enter().await;
            let key = place.key_of(tenant, &id);
            place.container.upsert(key, &item).await?;
            drop(place);
            orders.insert(id.clone(), (!is_deleted).then_some(version));
            progress.writes.fetch_add(1, Ordering::SeqCst);
            progress.written.notify_one();
        }
    }
    Ok(orders)
}
