//! One of several workers that share the ranges of all pipelines.
//!
//! A worker has two tasks. One sends heartbeats. The other, in each turn, compares the pipelines
//! and ranges that exist with the leases, and starts and stops the loops of its own ranges.
//!
//! The leases of a range that was split or merged are left as `gone` by the range's loop. Any
//! worker then creates those of the new ranges, at the earliest position of their parents, and
//! removes the old ones. No worker creates the lease of a range while a parent's is in use, so a
//! change is never processed by two loops.

use super::leases::{Lease, LeaseItems, earliest_position};
use super::membership::{LeaseKey, Look, Membership, Plan};
use super::range::RangeLoop;
use super::service::Shared;
use super::{Pipeline, Reaction, Start};
use crate::client::PartitionKeyRange;
use crate::sync::lock;
use crate::{BlogError, load};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Time after which the ranges of a pipeline are compared with its leases again.
const RANGES_INTERVAL: Duration = Duration::from_secs(30);

/// A worker.
pub(super) struct Worker {
    shared: Arc<Shared>,
    /// The loops of the owned ranges.
    loops: HashMap<LeaseKey, Loop>,
    /// The tasks of the loops. Dropping the worker ends them without a release.
    tasks: JoinSet<LeaseKey>,
    /// The time at which the ranges of each pipeline were last compared with its leases.
    compared: HashMap<String, Instant>,
}

/// A running loop.
struct Loop {
    stop: watch::Sender<bool>,
    reactions: Vec<Reaction>,
    task: tokio::task::AbortHandle,
}

/// Sends heartbeats until the task is ended.
pub(super) async fn send_heartbeats(shared: Arc<Shared>) {
    let lifetime = shared.options.lifetime;
    let interval = Membership::heartbeat_interval(lifetime);
    // The item of a dead worker disappears some time after its leases are taken.
    let ttl_seconds = (lifetime * 3).as_secs().max(1);
    loop {
        let id = lock(&shared.membership).id().to_owned();
        let stats = lock(&shared.figures).to_json();
        let sent = Instant::now();
        let heartbeat = shared.store.heartbeat(&id, stats, ttl_seconds);
        match timeout(lifetime / 2, heartbeat).await {
            Ok(Ok(())) => {
                lock(&shared.membership).heartbeat_stored(&id, sent, Instant::now());
                shared.first_heartbeat.notify_one();
            }
            Ok(Err(e)) => shared.note_error(Some(format!("heartbeat: {e}"))),
            Err(_) => shared.note_error(Some("heartbeat: no answer in time".into())),
        }
        sleep(interval).await;
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            loops: HashMap::new(),
            tasks: JoinSet::new(),
            compared: HashMap::new(),
        }
    }

    /// Works until `stop` is true, then releases all ranges.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let interval = Membership::heartbeat_interval(self.shared.options.lifetime);
        // The first turn would find that there was no heartbeat yet.
        tokio::select! {
            () = self.shared.first_heartbeat.notified() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
        while !*stop.borrow() {
            let turn = self.turn().await;
            self.shared.note_error(turn.err().map(|e| e.to_string()));
            let shared = self.shared.clone();
            tokio::select! {
                () = sleep(interval) => {}
                () = shared.poke.notified() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        self.release_all().await;
    }

    /// Compares what exists with what this worker does, and acts on the difference.
    async fn turn(&mut self) -> Result<(), BlogError> {
        self.begin_again_after_lapse().await;
        self.remove_finished();
        let pipelines = self.shared.pipelines();
        self.stop_unlisted(&pipelines);
        let mut items = self.shared.store.read_all().await?;
        let mut has_changed = false;
        for pipeline in &pipelines {
            // One pipeline whose container is missing must not hold up the others.
            match self.compare_ranges(pipeline, &items).await {
                Ok(changed) => has_changed |= changed,
                Err(e) => self
                    .shared
                    .note_error(Some(format!("{}: {e}", pipeline.name()))),
            }
        }
        if has_changed {
            items = self.shared.store.read_all().await?;
        }
        let plan = self.plan(&pipelines, &items);
        for key in &plan.release {
            self.stop(key);
        }
        self.start_and_take(&pipelines, items, &plan).await
    }

    /// Returns the next steps for the leases of the listed pipelines.
    fn plan(&self, pipelines: &[Pipeline], items: &LeaseItems) -> Plan {
        let names: HashSet<String> = pipelines.iter().map(Pipeline::name).collect();
        let leases = items.leases.iter();
        let look = Look {
            workers: items
                .workers
                .iter()
                .map(|worker| (worker.id.clone(), worker.etag.clone()))
                .collect(),
            leases: leases
                .filter(|lease| !lease.is_gone && names.contains(&lease.pipeline))
                .map(|lease| (key_of(lease), lease.owner.clone()))
                .collect(),
        };
        lock(&self.shared.membership).plan(&look, Instant::now())
    }

    /// Takes the planned leases, and starts the loops of all own leases that have none.
    async fn start_and_take(
        &mut self,
        pipelines: &[Pipeline],
        items: LeaseItems,
        plan: &Plan,
    ) -> Result<(), BlogError> {
        let own_id = lock(&self.shared.membership).id().to_owned();
        let by_name: HashMap<String, &Pipeline> = pipelines.iter().map(|p| (p.name(), p)).collect();
        for mut lease in items.leases {
            let key = key_of(&lease);
            let Some(pipeline) = by_name.get(&lease.pipeline) else {
                continue;
            };
            let is_own = lease.owner.as_ref() == Some(&own_id);
            if self.loops.contains_key(&key) {
                // Only this worker writes the leases that it owns, so this is another's work.
                if !is_own {
                    self.abort(&key);
                }
                continue;
            }
            if lease.is_gone {
                continue;
            }
            let is_taken = is_own
                || plan.take.contains(&key) && {
                    lease.owner = Some(own_id.clone());
                    self.shared.store.replace(&mut lease).await?
                };
            if is_taken && !plan.release.contains(&key) {
                self.start(pipeline, lease, &own_id);
            }
        }
        Ok(())
    }

    /// Starts the loop of an own lease.
    fn start(&mut self, pipeline: &Pipeline, lease: Lease, own_id: &str) {
        let key = key_of(&lease);
        let (sender, receiver) = watch::channel(false);
        let range = RangeLoop {
            shared: self.shared.clone(),
            pipeline: pipeline.clone(),
            lease,
            owner: own_id.to_owned(),
            stop: receiver,
        };
        let finished = key.clone();
        let task = self.tasks.spawn(async move {
            range.run().await;
            finished
        });
        let running = Loop {
            stop: sender,
            reactions: pipeline.reactions.clone(),
            task,
        };
        self.loops.insert(key, running);
    }

    /// Lets a loop finish its page and release its range.
    fn stop(&self, key: &LeaseKey) {
        if let Some(running) = self.loops.get(key) {
            running.stop.send_replace(true);
        }
    }

    /// Ends a loop at once.
    fn abort(&mut self, key: &LeaseKey) {
        if let Some(running) = self.loops.remove(key) {
            running.task.abort();
            lock(&self.shared.figures).ranges.remove(key);
        }
    }

    /// Removes the loops that have ended by themselves.
    fn remove_finished(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            if let Ok(key) = ended {
                // A newer loop of the range may have started after this one was ended.
                if self.loops.get(&key).is_some_and(|l| l.task.is_finished()) {
                    self.loops.remove(&key);
                }
            }
        }
        self.loops.retain(|_, running| !running.task.is_finished());
    }

    /// Stops the loops of pipelines that are no longer listed or have other reactions.
    fn stop_unlisted(&self, pipelines: &[Pipeline]) {
        for (key, running) in &self.loops {
            let is_listed = pipelines
                .iter()
                .any(|p| p.name() == key.0 && p.reactions == running.reactions);
            if !is_listed {
                self.stop(key);
            }
        }
    }

    /// Continues under a new id if the heartbeats have lapsed.
    async fn begin_again_after_lapse(&mut self) {
        if !lock(&self.shared.membership).has_lapsed(Instant::now()) {
            return;
        }
        let keys: Vec<LeaseKey> = self.loops.keys().cloned().collect();
        for key in keys {
            self.abort(&key);
        }
        while self.tasks.join_next().await.is_some() {}
        lock(&self.shared.membership).begin_again(super::service::fresh_worker_id());
    }

    /// Finishes all pages, releases all ranges and removes the item of this worker.
    async fn release_all(&mut self) {
        for running in self.loops.values() {
            running.stop.send_replace(true);
        }
        while self.tasks.join_next().await.is_some() {}
        self.loops.clear();
        let id = lock(&self.shared.membership).id().to_owned();
        // The item would otherwise disappear by itself.
        let removed = self.shared.store.remove_worker(&id).await;
        self.shared.note_error(removed.err().map(|e| e.to_string()));
    }

    /// Creates the leases that a pipeline lacks and removes those that are no longer needed.
    /// Returns true if there may be other leases than before.
    async fn compare_ranges(
        &mut self,
        pipeline: &Pipeline,
        items: &LeaseItems,
    ) -> Result<bool, BlogError> {
        let name = pipeline.name();
        let of_pipeline = |lease: &&Lease| lease.pipeline == name;
        let leases: Vec<&Lease> = items.leases.iter().filter(of_pipeline).collect();
        let compared = self.compared.get(&name);
        let is_recent = compared.is_some_and(|at| at.elapsed() < RANGES_INTERVAL);
        let has_gone = leases.iter().any(|lease| lease.is_gone);
        if is_recent && !has_gone && !leases.is_empty() {
            return Ok(false);
        }
        let container = pipeline.container();
        let resource_id = self.shared.store.resource_id(container).await?;
        let client = &pipeline.blog.client;
        client.clear_cached_metadata(container);
        let ranges = client.ranges(container).await?;

        // The leases of a container that was replaced by another of the same name mean nothing.
        let (leases, outdated): (Vec<&Lease>, Vec<&Lease>) = leases
            .into_iter()
            .partition(|lease| lease.container == resource_id);
        let mut has_changed = !outdated.is_empty();
        for lease in outdated {
            self.shared.store.delete(lease).await?;
        }
        for range in ranges.iter() {
            if !leases.iter().any(|lease| lease.range == range.id) {
                has_changed |= self
                    .create_lease(pipeline, &resource_id, range, &leases)
                    .await?;
            }
        }
        has_changed |= self.remove_gone(&ranges, &leases).await?;
        self.compared.insert(name, Instant::now());
        Ok(has_changed)
    }

    /// Creates the lease of a range, unless a lease of a parent is still in use. Returns true if
    /// the lease was created.
    async fn create_lease(
        &self,
        pipeline: &Pipeline,
        resource_id: &str,
        range: &PartitionKeyRange,
        leases: &[&Lease],
    ) -> Result<bool, BlogError> {
        let is_parent = |lease: &&&Lease| range.parents.contains(&lease.range);
        let parents: Vec<&Lease> = leases.iter().filter(is_parent).copied().collect();
        if parents.iter().any(|parent| !parent.is_gone) {
            // The parent's loop has not yet reached the split.
            return Ok(false);
        }
        let position = match parents.is_empty() {
            true => self.first_position(pipeline, range).await?,
            false => earliest_position(&parents),
        };
        let lease = Lease::new(&pipeline.name(), resource_id, range, position);
        self.shared.store.create(&lease).await?;
        Ok(true)
    }

    /// Removes the leases of ranges that were split or merged, once all new ranges have leases.
    /// `leases` were read before this turn, so all workers see the new ones. Returns true if one
    /// was removed.
    async fn remove_gone(
        &self,
        ranges: &[PartitionKeyRange],
        leases: &[&Lease],
    ) -> Result<bool, BlogError> {
        let has_lease = |id: &str| leases.iter().any(|lease| lease.range == id);
        let mut has_removed = false;
        for gone in leases.iter().filter(|lease| lease.is_gone) {
            let mut children = ranges.iter().filter(|r| r.parents.contains(&gone.range));
            if children.all(|child| has_lease(&child.id)) {
                self.shared.store.delete(gone).await?;
                has_removed = true;
            }
        }
        Ok(has_removed)
    }

    /// Returns the position at which a pipeline without leases starts.
    async fn first_position(
        &self,
        pipeline: &Pipeline,
        range: &PartitionKeyRange,
    ) -> Result<Option<String>, BlogError> {
        if pipeline.start == Start::Beginning {
            return Ok(None);
        }
        let name = pipeline.container_name();
        let positions = load::positions_after(&pipeline.blog, name).await?;
        Ok(positions.and_then(|p| p.position_of(range).map(str::to_owned)))
    }
}

fn key_of(lease: &Lease) -> LeaseKey {
    (lease.pipeline.clone(), lease.range.clone())
}
