//! The handle of an application for its pipelines.

use super::consequences::{Consequence, Consequences};
use super::dead_letters::{self, DeadLetter};
use super::leases::{Lease, LeaseItems, LeaseStore};
use super::membership::Membership;
use super::range::lag_after;
use super::status::{Figures, Status, status_of};
use super::wake::Wake;
use super::worker::{Worker, send_heartbeats};
use super::{Pipeline, metrics};
use crate::feed::Positions;
use crate::sync::lock;
use crate::{BlogError, Control, Meter, Site};
use futures_util::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// The pipelines that are to run. Asked again every few seconds, and must not block: the set may
/// change while pipelines run. All processes give the same answer, apart from the short time in
/// which a change of the set spreads. Each worker computes its share of the leases from its own
/// answer, so with lasting differences a range may stay without a worker.
pub type PipelineSource = Arc<dyn Fn() -> Vec<Pipeline> + Send + Sync>;

/// Ranges whose lag is read at the same time.
const CONCURRENT_ESTIMATES: usize = 16;
/// The wait between two looks at the lag of all ranges.
const SETTLED_INTERVAL: Duration = Duration::from_millis(50);

/// The parameters of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServiceOptions {
    /// Time after the last heartbeat of a worker after which others take its ranges. Heartbeats are
    /// sent five times in it, each about 10 RU.
    pub lifetime: Duration,
    /// Wait after the first empty page of a range, doubled with each further one.
    pub poll_min: Duration,
    /// Longest wait between two pages of a range. An empty page costs 1 RU: 67 ranges that are
    /// polled once a second cost 67 RU/s.
    pub poll_max: Duration,
    /// Changes in one page.
    pub page_size: usize,
    /// Failures of a change after which it becomes a dead letter.
    pub attempts: u32,
    /// Longest time for which one request waits because of throttling. The reaction is repeated
    /// afterwards.
    pub patience: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(8),
            poll_min: Duration::from_millis(25),
            poll_max: Duration::from_secs(1),
            page_size: 100,
            attempts: 5,
            patience: Duration::from_secs(5),
        }
    }
}

/// The state that the tasks of a worker and the handle share.
pub(super) struct Shared {
    pub(super) options: ServiceOptions,
    pub(super) control: Control,
    pub(super) store: LeaseStore,
    source: PipelineSource,
    pub(super) membership: Mutex<Membership>,
    pub(super) figures: Mutex<Figures>,
    pub(super) consequences: Consequences,
    pub(super) wake: Wake,
    /// Notified when the worker's next turn should not wait.
    pub(super) poke: Notify,
    /// Notified after each heartbeat.
    pub(super) first_heartbeat: Notify,
    /// One instance of each pipeline, whose memory outlives a turn.
    instances: Mutex<HashMap<String, Pipeline>>,
}

impl Shared {
    /// Returns the pipelines that are to run.
    pub(super) fn pipelines(&self) -> Vec<Pipeline> {
        let listed = (self.source)();
        let mut instances = lock(&self.instances);
        let mut current = HashMap::new();
        let mut pipelines = Vec::new();
        for pipeline in listed {
            let name = pipeline.name();
            let instance = match instances.remove(&name) {
                Some(known) if known.reactions == pipeline.reactions => known,
                _ => pipeline.with_patience(self.options.patience),
            };
            current.insert(name, instance.clone());
            pipelines.push(instance);
        }
        *instances = current;
        pipelines
    }

    /// Sets the last error of the worker outside its ranges.
    pub(super) fn note_error(&self, error: Option<String>) {
        lock(&self.figures).error = error;
    }
}

/// The tasks of a worker.
struct Tasks {
    stop: watch::Sender<bool>,
    heartbeats: JoinHandle<()>,
    worker: JoinHandle<()>,
}

impl Drop for Tasks {
    /// Ends the worker without releasing its ranges, as the end of the process would.
    fn drop(&mut self) {
        self.heartbeats.abort();
        self.worker.abort();
    }
}

/// The pipelines of an application. At most one worker runs for each value; other processes, and
/// other values in this process, may have workers that share the work.
///
/// Dropping the value ends its worker without a release: others take its ranges when its heartbeats
/// have ended. [`Pipelines::stop`] ends it in order.
pub struct Pipelines {
    shared: Arc<Shared>,
    tasks: Mutex<Option<Tasks>>,
}

impl Pipelines {
    /// Returns a handle without a worker. The containers of `control` must exist.
    pub fn new(control: &Control, source: PipelineSource, options: ServiceOptions) -> Self {
        let mut control = control.clone();
        control.client = control.client.with_patience(options.patience);
        let id = fresh_worker_id();
        Self {
            shared: Arc::new(Shared {
                options,
                store: LeaseStore::new(control.clone()),
                control,
                source,
                membership: Mutex::new(Membership::new(id, options.lifetime)),
                figures: Mutex::default(),
                consequences: Consequences::default(),
                wake: Wake::default(),
                poke: Notify::new(),
                first_heartbeat: Notify::new(),
                instances: Mutex::default(),
            }),
            tasks: Mutex::new(None),
        }
    }

    /// Returns a handle for the pipelines of the models that are present in a site, and of the
    /// target of a migration.
    pub fn of_site(site: &Site, options: ServiceOptions) -> Self {
        let control = site.control().clone();
        let site = site.clone();
        let source = move || {
            let models = site.pipeline_models().into_iter();
            let blogs = models.map(|model| site.blog(model));
            blogs.flat_map(|blog| Pipeline::of(&blog)).collect()
        };
        Self::new(&control, Arc::new(source), options)
    }

    /// Starts the worker of this handle, on the current tokio runtime. A worker that runs goes on.
    pub fn start(&self) {
        let mut tasks = lock(&self.tasks);
        if tasks.is_some() {
            return;
        }
        let (stop, stopped) = watch::channel(false);
        *tasks = Some(Tasks {
            stop,
            heartbeats: tokio::spawn(send_heartbeats(self.shared.clone())),
            worker: tokio::spawn(Worker::new(self.shared.clone()).run(stopped)),
        });
    }

    /// Lets the worker finish its pages and release its ranges. Without a worker nothing happens.
    pub async fn stop(&self) {
        let tasks = lock(&self.tasks).take();
        let Some(mut tasks) = tasks else {
            return;
        };
        tasks.stop.send_replace(true);
        // The worker may have been ended with the runtime.
        let _ = (&mut tasks.worker).await;
        drop(tasks);
        lock(&self.shared.membership).begin_again(fresh_worker_id());
    }

    /// Returns the id of the worker of this handle.
    pub fn worker_id(&self) -> String {
        lock(&self.shared.membership).id().to_owned()
    }

    /// Returns the handle with which a writer of this process wakes the pipelines.
    pub fn wake(&self) -> Wake {
        self.shared.wake.clone()
    }

    /// Returns the state of all pipelines. The lag of ranges without a live owner is read from
    /// their feeds, at 1 RU and more for each.
    ///
    /// # Errors
    /// Every error of reading the lease container. The lag of a feed that cannot be read is `None`.
    pub async fn status(&self) -> Result<Status, BlogError> {
        let pipelines = self.shared.pipelines();
        let items = self.shared.store.read_all().await?;
        let own = lock(&self.shared.figures).clone();
        let is_own = |id: &str| lock(&self.shared.membership).is_own(id);
        let mut status = status_of(&pipelines, &items, &own, is_own);
        let store = &self.shared.store;
        status.lease_ru = store.meter.measurement(Duration::ZERO).ru;
        status.position_ru = store.positions.measurement(Duration::ZERO).ru;
        for (pipeline, of_pipeline) in pipelines.iter().zip(&mut status.pipelines) {
            for range in of_pipeline.ranges.iter_mut().filter(|r| !r.is_owner_alive) {
                let position = range.position.as_deref();
                range.lag = estimate(pipeline, &range.range, position).await.ok();
            }
        }
        Ok(status)
    }

    /// Returns the last error of the worker outside its ranges, e.g. of a heartbeat.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.shared.figures).error.clone()
    }

    /// Returns the figures of this process in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        metrics::text(&lock(&self.shared.figures))
    }

    /// Returns the reactions of this process to changes of a post or of a user since a point in
    /// time, oldest first. A bounded number of the last reactions is kept.
    pub fn consequences(&self, id: &str, since: Timestamp) -> Vec<Consequence> {
        self.shared.consequences.of(id, since)
    }

    /// Returns the dead letters of all pipelines.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, BlogError> {
        dead_letters::all(&self.shared.control).await
    }

    /// Reacts again to the change of a dead letter, in its current version, and removes the dead
    /// letter. Returns false if there is no such dead letter.
    ///
    /// # Errors
    /// The error of the reaction; the dead letter is kept. [`BlogError::InvalidOption`] if the
    /// pipeline does not run any longer.
    pub async fn retry_dead_letter(&self, pipeline: &str, id: &str) -> Result<bool, BlogError> {
        let control = &self.shared.control;
        let Some(letter) = dead_letters::read(control, pipeline, id).await? else {
            return Ok(false);
        };
        let pipelines = self.shared.pipelines();
        let Some(pipeline) = pipelines.iter().find(|p| p.name() == letter.pipeline) else {
            return Err(BlogError::InvalidOption(format!(
                "the pipeline '{}' of the dead letter does not run",
                letter.pipeline
            )));
        };
        pipeline.retry(&letter).await?;
        dead_letters::remove(control, &letter).await?;
        Ok(true)
    }

    /// Returns the number of changes that no worker has processed, over all pipelines; 0 only if
    /// every stored position was at the end of its feed when it was read. A pipeline or range
    /// without a lease counts as one change, and so does a lease of a container that another of
    /// the same name has replaced.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn lag(&self) -> Result<u64, BlogError> {
        let items = self.shared.store.read_all().await?;
        self.lag_of(&items).await
    }

    async fn lag_of(&self, items: &LeaseItems) -> Result<u64, BlogError> {
        let mut lag = 0;
        for pipeline in self.shared.pipelines() {
            let name = pipeline.name();
            let of_pipeline = |lease: &&Lease| lease.pipeline == name;
            let container = pipeline.container();
            // A position of a replaced container may be after the end of the new feed.
            let resource_id = self.shared.store.resource_id(container).await?;
            let (leases, outdated): (Vec<&Lease>, Vec<&Lease>) = items
                .leases
                .iter()
                .filter(of_pipeline)
                .partition(|lease| lease.container == resource_id);
            lag += outdated.len() as u64;
            let ranges = pipeline.blog.client.ranges(container).await?;
            let has_all = ranges
                .iter()
                .all(|range| leases.iter().any(|l| l.range == range.id && !l.is_gone));
            lag += u64::from(!has_all);
            let estimates = leases.iter().filter(|lease| !lease.is_gone).map(|lease| {
                let position = lease.position.as_deref();
                estimate(&pipeline, &lease.range, position)
            });
            lag += stream::iter(estimates.collect::<Vec<_>>())
                .buffer_unordered(CONCURRENT_ESTIMATES)
                .try_fold(0, |sum, lag| async move { Ok(sum + lag) })
                .await?;
        }
        Ok(lag)
    }

    /// Waits until every feed is read to its end and every reaction is complete, including the
    /// reactions to what reactions have written. Meaningful while there are no other writes.
    /// Workers must run, here or elsewhere.
    ///
    /// # Errors
    /// Every error of a request other than those of the environment, which are waited out.
    pub async fn settled(&self) -> Result<(), BlogError> {
        let mut previous = None;
        loop {
            match self.positions_if_settled().await {
                Ok(positions) => {
                    // Nothing has moved between two looks that found nothing to do.
                    if positions.is_some() && positions == previous {
                        return Ok(());
                    }
                    previous = positions;
                }
                Err(e) if e.is_environmental() => previous = None,
                Err(e) => return Err(e),
            }
            if previous.is_none() {
                self.shared.wake.ring_all();
                tokio::time::sleep(SETTLED_INTERVAL).await;
            }
        }
    }

    /// Returns the position of each lease, or `None` if there are changes to process.
    async fn positions_if_settled(&self) -> Result<Option<Vec<Lease>>, BlogError> {
        let items = self.shared.store.read_all().await?;
        let lag = self.lag_of(&items).await?;
        Ok((lag == 0).then_some(items.leases))
    }

    /// Lets a pipeline that has no leases begin at `positions`. To be called before any worker runs
    /// the pipeline.
    pub(crate) async fn begin_at(
        &self,
        pipeline: &Pipeline,
        positions: &Positions,
    ) -> Result<(), BlogError> {
        let container = pipeline.container();
        let resource_id = self.shared.store.resource_id(container).await?;
        let ranges = pipeline.blog.client.ranges(container).await?;
        for range in ranges.iter() {
            let position = positions.position_of(range).map(str::to_owned);
            let lease = Lease::new(&pipeline.name(), &resource_id, range, position);
            self.shared.store.create(&lease).await?;
        }
        Ok(())
    }

    /// Removes the leases and dead letters of a pipeline that will not run again, e.g. because its
    /// source was deleted. The pipeline must no longer be listed by any process.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn forget(&self, pipeline: &str) -> Result<(), BlogError> {
        let items = self.shared.store.read_all().await?;
        for lease in items.leases.iter().filter(|l| l.pipeline == pipeline) {
            self.shared.store.delete(lease).await?;
        }
        let letters = dead_letters::all(&self.shared.control).await?;
        for letter in letters.iter().filter(|l| l.pipeline == pipeline) {
            dead_letters::remove(&self.shared.control, letter).await?;
        }
        Ok(())
    }
}

/// Returns the number of changes of a range after a position, as the estimators of SDKs compute it.
async fn estimate(
    pipeline: &Pipeline,
    range: &str,
    position: Option<&str>,
) -> Result<u64, BlogError> {
    let meter = Meter::new();
    let client = &pipeline.blog.client;
    let read = client
        .changes(&meter, pipeline.container(), range, position, 1)
        .await;
    match read {
        // The range was split; its lease is still to be replaced.
        Err(e) if e.is_range_gone() => {
            client.clear_cached_metadata(pipeline.container());
            Ok(1)
        }
        Err(e) => Err(e),
        Ok(changes) if changes.items.is_empty() => Ok(0),
        Ok(changes) => Ok(lag_after(&changes) + 1),
    }
}

/// Returns an id that no other worker has: the id of the process and a random number.
pub(super) fn fresh_worker_id() -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{}-{random:016x}", std::process::id())
}
