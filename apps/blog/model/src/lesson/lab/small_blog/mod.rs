//! The small blog of the lab: V3 with four users in the lab's database.
//!
//! | step | shows |
//! |---|---|
//! | rename | a changed name, and its copies that follow by the change feed |
//! | repeat | `updateUsernames` a second time: nothing is left to change |
//! | add post | a new post in a full feed, and the oldest one that the trigger cuts |
//! | grow | a feed without the trigger, up to the limit of its logical partition |
//! | policies | one item written under four indexing policies |
//!
//! A step takes seconds at most and runs while its caller waits; one step runs at a time. Results
//! stay until the lab is reset, so that pages show them without a request. The blog is created in
//! the background, or by the first step, and anew by each process.
//!
//! Left out: loads and limits of throughput, see `experiments`.

mod feed;
mod names;
mod policies;
mod stage;
mod trials;

pub use feed::{Added, Feed, FeedPost, Grown, Uncut};
pub use names::{Copy, Names, Renamed, Repeated};
pub use policies::PolicyCost;
pub use trials::{Measured, Trial};

use super::LabOptions;
use crate::sync::lock;
use crate::{BlogError, Client};
use stage::Stage;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The query with which the pipeline finds the posts with an old name.
pub const SEARCH_QUERY: &str = crate::pipelines::POSTS_WITH_OLD_NAME;
/// The query of the feed, Q6.
pub const FEED_QUERY: &str = crate::models::FEED;

/// Time for which a step waits for the end of another one.
const TURN_TIME_MAX: Duration = Duration::from_secs(20);
/// Time limit of a step.
const STEP_TIME_MAX: Duration = Duration::from_secs(60);

/// A step in the small blog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A user takes another name, and the pipelines run.
    Rename,
    /// The procedure of the pipeline runs once more.
    Repeat,
    /// A post is written, and the pipelines run.
    AddPost,
    /// Posts are added to a feed without its trigger.
    Grow,
    /// One item is written under several indexing policies.
    Policies,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 5] = [
        Self::Rename,
        Self::Repeat,
        Self::AddPost,
        Self::Grow,
        Self::Policies,
    ];
}

impl fmt::Display for Step {
    /// Writes the name in addresses, e.g. `add-post`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rename => "rename",
            Self::Repeat => "repeat",
            Self::AddPost => "add-post",
            Self::Grow => "grow",
            Self::Policies => "policies",
        })
    }
}

impl FromStr for Step {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        let step = Self::ALL.into_iter().find(|step| step.to_string() == text);
        step.ok_or_else(|| BlogError::InvalidOption(format!("'{text}' is not a step of the lab")))
    }
}

/// The results of the steps.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// The copies of a user's name, with the last rename.
    pub names: Option<Names>,
    /// The last repetition of the procedure.
    pub repeated: Option<Repeated>,
    /// The feed, with the last post that was added.
    pub feed: Option<Feed>,
    /// The feed without the trigger.
    pub uncut: Uncut,
    /// The charges under each policy; empty before the first measurement.
    pub policies: Vec<PolicyCost>,
    /// The step that failed last, if no step has succeeded since; `None` for the preparation.
    pub failure: Option<(Option<Step>, BlogError)>,
    /// True while the blog is created.
    pub is_preparing: bool,
}

/// The small blog. Clones share their state.
#[derive(Clone)]
pub struct SmallBlog(Arc<Inner>);

struct Inner {
    client: Client,
    database: String,
    options: LabOptions,
    /// The blog, once it was created. Held while a step runs.
    stage: tokio::sync::Mutex<Option<Stage>>,
    results: Mutex<Results>,
    /// True once the blog was asked for.
    is_wanted: AtomicBool,
}

impl SmallBlog {
    /// Returns the small blog in a database, which need not exist yet.
    pub(super) fn new(client: Client, database: String, options: LabOptions) -> Self {
        Self(Arc::new(Inner {
            client,
            database,
            options,
            stage: tokio::sync::Mutex::default(),
            results: Mutex::default(),
            is_wanted: AtomicBool::default(),
        }))
    }

    /// Returns the results so far.
    pub fn results(&self) -> Results {
        lock(&self.0.results).clone()
    }

    /// Creates the blog in a task of its own, if that was not asked for since the last reset.
    pub fn prepare(&self) {
        if self.0.is_wanted.swap(true, Ordering::Relaxed) {
            return;
        }
        lock(&self.0.results).is_preparing = true;
        let blog = self.clone();
        tokio::spawn(async move {
            let mut stage = blog.0.stage.lock().await;
            let prepared = match stage.is_some() {
                true => Ok(()),
                false => blog.open(&mut stage).await,
            };
            let mut results = lock(&blog.0.results);
            results.is_preparing = false;
            if let Err(failure) = prepared {
                results.failure = Some((None, failure));
                blog.0.is_wanted.store(false, Ordering::Relaxed);
            }
        });
    }

    /// Runs a step and stores its result, or its failure.
    ///
    /// # Errors
    /// Those of the requests. A step that waits too long for another one is refused with
    /// [`BlogError::InvalidOption`].
    pub async fn run(&self, step: Step) -> Result<(), BlogError> {
        let result = self.limited(self.run_in_turn(step)).await;
        let mut results = lock(&self.0.results);
        results.failure = result.clone().err().map(|failure| (Some(step), failure));
        result
    }

    /// Runs a trial of the questions and returns its figures.
    ///
    /// # Errors
    /// Those of [`SmallBlog::run`].
    pub async fn measure(&self, trial: Trial) -> Result<Measured, BlogError> {
        self.limited(async {
            let mut stage = self.opened().await?;
            let Some(stage) = stage.as_mut() else {
                return Err(busy());
            };
            trials::measure(stage, trial).await
        })
        .await
    }

    /// Returns true if `trial` can end on this server.
    pub fn offers(&self, trial: Trial) -> bool {
        trial != Trial::FullKey || self.0.options.offers(super::Experiment::FullKey)
    }

    /// Forgets the blog and all results. The caller deletes the database.
    pub(super) async fn forget(&self) {
        *self.0.stage.lock().await = None;
        *lock(&self.0.results) = Results::default();
        self.0.is_wanted.store(false, Ordering::Relaxed);
    }

    /// Ends a step after its time limit.
    async fn limited<T>(
        &self,
        step: impl Future<Output = Result<T, BlogError>>,
    ) -> Result<T, BlogError> {
        match tokio::time::timeout(STEP_TIME_MAX, step).await {
            Ok(result) => result,
            Err(_) => Err(BlogError::unexpected(
                "a step of the lab",
                format!("no end within {} s", STEP_TIME_MAX.as_secs()),
            )),
        }
    }

    async fn run_in_turn(&self, step: Step) -> Result<(), BlogError> {
        let mut stage = self.opened().await?;
        let Some(stage) = stage.as_mut() else {
            return Err(busy());
        };
        let results = &self.0.results;
        match step {
            Step::Rename => {
                let names = names::rename(stage).await?;
                lock(results).names = Some(names);
            }
            Step::Repeat => {
                let repeated = names::repeat(stage).await?;
                lock(results).repeated = Some(repeated);
            }
            Step::AddPost => {
                let feed = feed::add_post(stage).await?;
                lock(results).feed = Some(feed);
            }
            Step::Grow => {
                let mut uncut = lock(results).uncut.clone();
                feed::grow(stage, &mut uncut).await?;
                lock(results).uncut = uncut;
            }
            Step::Policies => {
                let policies = policies::measure(stage).await?;
                lock(results).policies = policies;
            }
        }
        Ok(())
    }

    /// Returns the blog, created if needed, for one step.
    async fn opened(&self) -> Result<tokio::sync::MutexGuard<'_, Option<Stage>>, BlogError> {
        let turn = tokio::time::timeout(TURN_TIME_MAX, self.0.stage.lock()).await;
        let mut stage = turn.map_err(|_| busy())?;
        if stage.is_none() {
            self.0.is_wanted.store(true, Ordering::Relaxed);
            self.open(&mut stage).await?;
        }
        Ok(stage)
    }

    /// Creates the blog and shows its names and its feed.
    async fn open(&self, stage: &mut Option<Stage>) -> Result<(), BlogError> {
        let opened = Stage::create(self.0.client.clone(), &self.0.database).await?;
        let names = names::look(&opened).await?;
        let feed = feed::look(&opened).await?;
        let limit = self.0.options.logical_partition_limit;
        let mut results = lock(&self.0.results);
        *results = Results {
            names: Some(names),
            feed: Some(feed),
            uncut: Uncut {
                limit,
                ..Uncut::default()
            },
            is_preparing: results.is_preparing,
            ..Results::default()
        };
        drop(results);
        *stage = Some(opened);
        Ok(())
    }
}

/// Returns the refusal of a step that has waited too long for its turn.
fn busy() -> BlogError {
    BlogError::InvalidOption("the lab is busy with the steps of other readers".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_by_its_name() {
        for step in Step::ALL {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
        assert!("Rename".parse::<Step>().is_err());
    }
}
