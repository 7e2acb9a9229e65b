//! The lab: experiments that push a container to its limits, each started by a button.
//!
//! | experiment | shows |
//! |---|---|
//! | hot key | one key is throttled at its partition's share, another partition is not |
//! | split | more throughput splits a physical partition, and the load goes on |
//! | bad key | all items under one partition key value use one physical partition |
//! | full key | a logical partition reaches its limit: 403/1014 |
//! | growth | a physical partition reaches its limit and is split |
//!
//! The lab has a database of its own, and each experiment a new container in it. Loads are bounded
//! in rate, size and time, and one experiment runs at a time. The two experiments about sizes are
//! offered only if the server's limits were lowered, since otherwise they take days.
//!
//! Left out: a comparison of servers. The lab counts what clients see, whatever the cause.

mod experiments;
mod load;
pub mod small_blog;
mod state;

pub use state::{ContainerState, Fill, LabState, PartitionState, Phase, Second, Series};

use crate::control::existing_is_fine;
use crate::sync::lock;
use crate::{BlogError, Client};
use load::Recorder;
use small_blog::SmallBlog;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Time limit of an experiment.
const TIME_MAX: Duration = Duration::from_secs(180);
/// Limits above these sizes are not reached within [`TIME_MAX`].
const LIMIT_BYTES_MAX: u64 = 512 << 20;

/// The experiments of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Experiment {
    /// Load on one partition key beyond the share of its physical partition.
    HotKey,
    /// More throughput than the physical partitions can carry.
    Split,
    /// All items under one partition key value.
    BadKey,
    /// One logical partition up to its size limit.
    FullKey,
    /// One physical partition up to its size limit.
    Growth,
}

impl Experiment {
    /// All experiments, in the order of the lesson.
    pub const ALL: [Self; 5] = [
        Self::HotKey,
        Self::Split,
        Self::BadKey,
        Self::FullKey,
        Self::Growth,
    ];

    /// Returns the name for buttons, e.g. `Hot key`.
    pub fn title(self) -> &'static str {
        match self {
            Self::HotKey => "Hot key",
            Self::Split => "Split",
            Self::BadKey => "Partition by type",
            Self::FullKey => "Fill a logical partition",
            Self::Growth => "Grow a physical partition",
        }
    }
}

impl fmt::Display for Experiment {
    /// Writes the name in forms and JSON, e.g. `hot-key`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HotKey => "hot-key",
            Self::Split => "split",
            Self::BadKey => "bad-key",
            Self::FullKey => "full-key",
            Self::Growth => "growth",
        })
    }
}

impl FromStr for Experiment {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        for experiment in Self::ALL {
            if experiment.to_string() == text {
                return Ok(experiment);
            }
        }
        Err(BlogError::InvalidOption(format!(
            "'{text}' is not an experiment of the lab"
        )))
    }
}

/// Returns the name of the lab's database in a blog with this prefix.
pub fn database(prefix: &str) -> String {
    format!("{prefix}-lab")
}

/// Facts about the server that the protocol does not tell, and the length of the loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOptions {
    /// The size limit of a logical partition of the lab's database in bytes, if it was lowered.
    pub logical_partition_limit: Option<u64>,
    /// The size limit of a physical partition of the lab's database in bytes, if it was lowered.
    pub physical_partition_limit: Option<u64>,
    /// Seconds of load in the experiments about throughput.
    pub seconds: u64,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self {
            logical_partition_limit: None,
            physical_partition_limit: None,
            seconds: 10,
        }
    }
}

impl LabOptions {
    /// Returns true if `experiment` ends within a few minutes on this server.
    pub fn offers(&self, experiment: Experiment) -> bool {
        let is_low = |limit: Option<u64>| limit.is_some_and(|bytes| bytes <= LIMIT_BYTES_MAX);
        match experiment {
            Experiment::HotKey | Experiment::Split | Experiment::BadKey => true,
            Experiment::FullKey => is_low(self.logical_partition_limit),
            Experiment::Growth => is_low(self.physical_partition_limit),
        }
    }
}

/// The reason for which the lab did not do what it was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum LabError {
    /// An experiment is running.
    Busy,
    /// The server's limits are too high for the experiment.
    NotOffered,
    /// A request failed.
    Failed(BlogError),
}

/// The lab of an application. Clones share their state.
#[derive(Clone)]
pub struct Lab(Arc<Inner>);

struct Inner {
    client: Client,
    database: String,
    options: LabOptions,
    small_blog: SmallBlog,
    state: Arc<Mutex<LabState>>,
    /// Set when the running experiment must end.
    stop: Arc<AtomicBool>,
    /// Notified at the end of an experiment.
    ended: Arc<Notify>,
}

/// Marks the experiment as ended, even if its task is dropped.
struct Running {
    state: Arc<Mutex<LabState>>,
    ended: Arc<Notify>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Running {
            state.phase = Phase::Ended;
        }
        drop(state);
        self.ended.notify_waiters();
    }
}

impl Lab {
    /// Returns the lab with the database `{prefix}-lab`, which need not exist yet.
    pub fn new(client: Client, prefix: &str, options: LabOptions) -> Self {
        let database = database(prefix);
        Self(Arc::new(Inner {
            small_blog: SmallBlog::new(client.clone(), database.clone(), options.clone()),
            client,
            database,
            options,
            state: Arc::default(),
            stop: Arc::default(),
            ended: Arc::default(),
        }))
    }

    /// Returns the options.
    pub fn options(&self) -> &LabOptions {
        &self.0.options
    }

    /// Returns the small blog in the lab's database.
    pub fn small_blog(&self) -> &SmallBlog {
        &self.0.small_blog
    }

    /// Returns true if containers of the lab cost nothing: the database is a server of this
    /// process.
    pub fn is_free(&self) -> bool {
        self.0.options.logical_partition_limit.is_some()
    }

    /// Returns the name of the database.
    pub fn database(&self) -> &str {
        &self.0.database
    }

    /// Returns the state.
    pub fn state(&self) -> LabState {
        lock(&self.0.state).clone()
    }

    /// Starts an experiment in a task of its own.
    ///
    /// # Errors
    /// [`LabError::Busy`] if one is running, [`LabError::NotOffered`] if it would not end here.
    pub fn start(&self, experiment: Experiment) -> Result<(), LabError> {
        if !self.0.options.offers(experiment) {
            return Err(LabError::NotOffered);
        }
        {
            let mut state = lock(&self.0.state);
            if state.phase == Phase::Running {
                return Err(LabError::Busy);
            }
            *state = LabState {
                experiment: Some(experiment),
                phase: Phase::Running,
                ..LabState::default()
            };
        }
        self.0.stop.store(false, Ordering::Relaxed);
        let running = Running {
            state: self.0.state.clone(),
            ended: self.0.ended.clone(),
        };
        let lab = self.clone();
        tokio::spawn(async move {
            let result = tokio::time::timeout(TIME_MAX, lab.run(experiment)).await;
            let failure = match result {
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(failure),
                Err(_) => Some(BlogError::unexpected(
                    experiment.title(),
                    format!("no end within {} s", TIME_MAX.as_secs()),
                )),
            };
            if let Some(failure) = failure {
                lock(&running.state).phase = Phase::Failed(failure);
            }
        });
        Ok(())
    }

    /// Waits until no experiment is running.
    pub async fn settled(&self) {
        loop {
            let ended = self.0.ended.notified();
            let mut ended = std::pin::pin!(ended);
            // The end may come between the look at the state and the wait.
            ended.as_mut().enable();
            if lock(&self.0.state).phase != Phase::Running {
                return;
            }
            ended.await;
        }
    }

    /// Makes the running experiment end soon.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Deletes the database of the lab and forgets the last experiment.
    ///
    /// # Errors
    /// [`LabError::Busy`] if an experiment is running, and every error of a request.
    pub async fn reset(&self) -> Result<(), LabError> {
        if lock(&self.0.state).phase == Phase::Running {
            return Err(LabError::Busy);
        }
        self.0
            .client
            .delete_database(&self.0.database)
            .await
            .map_err(LabError::Failed)?;
        self.0
            .client
            .clear_cached_metadata(&format!("dbs/{}", self.0.database));
        self.0.small_blog.forget().await;
        let mut state = lock(&self.0.state);
        if state.phase == Phase::Running {
            return Err(LabError::Busy);
        }
        *state = LabState::default();
        Ok(())
    }

    /// Runs an experiment and follows its partitions meanwhile.
    async fn run(&self, experiment: Experiment) -> Result<(), BlogError> {
        let inner = &self.0;
        let recorder = Recorder::new(inner.state.clone(), inner.stop.clone());
        existing_is_fine(inner.client.create_database(&inner.database).await)?;
        let context = experiments::Context {
            client: inner.client.clone(),
            database: format!("dbs/{}", inner.database),
            recorder: recorder.clone(),
            options: inner.options.clone(),
        };
        let result = tokio::select! {
            result = experiments::run(&context, experiment) => result,
            result = context.follow_partitions() => result,
        };
        result?;
        context.read_partitions().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_about_sizes_need_lowered_limits() {
        let usual = LabOptions::default();
        assert!(usual.offers(Experiment::HotKey));
        assert!(!usual.offers(Experiment::FullKey));
        assert!(!usual.offers(Experiment::Growth));
        let lowered = LabOptions {
            logical_partition_limit: Some(20 << 20),
            physical_partition_limit: Some(50 << 30),
            ..usual
        };
        assert!(lowered.offers(Experiment::FullKey));
        assert!(!lowered.offers(Experiment::Growth));
    }

    #[test]
    fn an_experiment_is_found_by_its_name() {
        for experiment in Experiment::ALL {
            assert_eq!(experiment.to_string().parse(), Ok(experiment));
        }
        assert!("hotkey".parse::<Experiment>().is_err());
    }
}
