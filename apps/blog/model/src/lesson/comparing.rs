//! The comparison of an application: one runs at a time, and the last result is kept in memory.
//!
//! A comparison starts by itself ([`Comparing::watch`]) and on demand ([`Comparing::start`]). The
//! watch looks at the containers every [`LOOK`] and measures
//!
//! ```text
//! at the first look      always
//! at a later look        if there is no result yet, or if a container has another indexing policy,
//!                        another number of physical partitions, or a number of items that differs
//!                        by more than a tenth from the one that the last comparison saw
//! never                  within PAUSE of the last start, or while a migration runs
//! ```
//! A look is three reads of each container's metadata, which have no charge. The requests of looks
//! and comparisons have meters of their own, so no page and no session shows them.
//!
//! Left out: results are not kept across restarts, since a comparison takes seconds; two processes
//! that serve one blog measure one after another only by chance, and one that fails tries again.

use super::compare::{Comparison, RUNS_MAX, Step, compare};
use crate::sync::lock;
use crate::{BlogError, Model, Site};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Time between two looks at the containers.
pub const LOOK: Duration = Duration::from_secs(10);
/// Shortest time between the starts of two comparisons that start by themselves.
const PAUSE: Duration = Duration::from_secs(60);
/// Runs of each action of a comparison that starts by itself: few, to leave the server to users.
const RUNS: usize = 3;
/// Time limit of a comparison.
const TIME_MAX: Duration = Duration::from_secs(300);
/// Time after which the time that is left is told.
const ESTIMATE_AFTER: Duration = Duration::from_secs(2);
/// The part of the number of items beyond which a difference counts as a change.
const ITEMS_PART: u64 = 10;

/// A comparison that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// The step that has begun.
    pub step: Step,
    /// Time of the start.
    pub started: Instant,
}

impl Running {
    /// Returns the time that is left if the other steps take as long as those before. `None` in
    /// the first two seconds.
    pub fn time_left(&self) -> Option<Duration> {
        let elapsed = self.started.elapsed();
        let done = self.step.number.saturating_sub(1);
        if elapsed < ESTIMATE_AFTER || done == 0 {
            return None;
        }
        let left = self.step.of.saturating_sub(done) as f64 / done as f64;
        Some(elapsed.mul_f64(left))
    }
}

/// The state of the comparison of an application.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// The comparison that runs.
    pub running: Option<Running>,
    /// The failure of the last comparison, if it failed.
    pub failure: Option<BlogError>,
    /// The last comparison that succeeded.
    pub last: Option<Arc<Comparison>>,
    /// True if comparisons start by themselves.
    pub is_watched: bool,
}

impl Status {
    /// Returns true if figures will come without a person's doing: a comparison runs, or the first
    /// one is about to start.
    pub fn is_awaited(&self) -> bool {
        let is_first = self.is_watched && self.last.is_none() && self.failure.is_none();
        self.running.is_some() || is_first
    }
}

/// The containers of every present model, on which a comparison depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen(Vec<Container>);

/// The properties of a container on which a comparison depends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Container {
    model: Model,
    /// The indexing policy as JSON.
    policy: String,
    partitions: usize,
    items: u64,
}

impl Seen {
    /// Looks at the containers of a site.
    async fn at(site: &Site) -> Result<Self, BlogError> {
        let mut containers = Vec::new();
        for model in site.models() {
            let blog = site.blog(model);
            for link in blog.containers() {
                let (policy, items, partitions) = blog.client.condition(link).await?;
                containers.push(Container {
                    model,
                    policy,
                    partitions,
                    items,
                });
            }
        }
        Ok(Self(containers))
    }

    /// Returns true if charges measured for `self` may no longer be those for `now`.
    fn differs(&self, now: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&now.0);
        self.0.len() != now.0.len() || pairs.any(|(before, now)| before.differs(now))
    }
}

impl Container {
    fn differs(&self, now: &Self) -> bool {
        let items = self.items.abs_diff(now.items);
        (self.model, self.partitions) != (now.model, now.partitions)
            || self.policy != now.policy
            || items * ITEMS_PART > self.items
    }
}

/// The comparison of an application, of which one runs at a time. Clones share their state.
#[derive(Clone, Default)]
pub struct Comparing(Arc<Mutex<Status>>);

/// Marks the comparison as ended, even if its task is dropped.
struct EndsWhenDropped(Comparing);

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        lock(&self.0.0).running = None;
    }
}

/// The memory of the watch between two looks.
#[derive(Default)]
struct Watch {
    /// The containers at the start of the last comparison of the watch that ended with an answer.
    seen: Option<Seen>,
    /// The start of the last comparison of the watch.
    started: Option<Instant>,
}

impl Comparing {
    /// Returns the state.
    pub fn status(&self) -> Status {
        lock(&self.0).clone()
    }

    /// Measures the models of `site` in the background now and after changes, until the last clone
    /// is dropped. Has to be called in a Tokio runtime.
    pub fn watch(&self, site: &Site) {
        lock(&self.0).is_watched = true;
        let (status, site) = (Arc::downgrade(&self.0), site.clone());
        tokio::spawn(Self::look_again_and_again(status, site));
    }

    async fn look_again_and_again(status: Weak<Mutex<Status>>, site: Site) {
        let mut watch = Watch::default();
        while let Some(status) = status.upgrade() {
            let comparing = Self(status);
            comparing.look(&site, &mut watch).await;
            drop(comparing);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Looks at the containers and measures if that is due.
    async fn look(&self, site: &Site, watch: &mut Watch) {
        if self.status().running.is_some() || site.migration().is_some() {
            return;
        }
        let now = match Seen::at(site).await {
            Ok(now) => now,
            Err(failure) => {
                lock(&self.0).failure = Some(failure);
                return;
            }
        };
        // A database that is back has no failure any more; the figures may still hold.
        let is_changed = watch.seen.as_ref().is_none_or(|seen| seen.differs(&now));
        let is_early = watch.started.is_some_and(|start| start.elapsed() < PAUSE);
        let has_result = self.status().last.is_some();
        if !is_changed {
            let mut status = lock(&self.0);
            if has_result {
                status.failure = None;
            }
            return;
        }
        if is_early && has_result {
            return;
        }
        watch.started = Some(Instant::now());
        if !self.begin() {
            return;
        }
        // The numbers of runs that a person chose are kept.
        let runs = self.status().last.map_or(RUNS, |last| last.runs);
        self.measure(site, None, runs).await;
        // A blog without a post is measured when it has one; other failures are tried again.
        let failure = self.status().failure;
        if matches!(failure, None | Some(BlogError::InvalidOption(_))) {
            watch.seen = Some(now);
        }
    }

    /// Starts a comparison in a task of its own. Returns false if one is running.
    pub fn start(&self, site: &Site, post: Option<String>, runs: usize) -> bool {
        if !self.begin() {
            return false;
        }
        let (comparing, site) = (self.clone(), site.clone());
        tokio::spawn(async move {
            comparing.measure(&site, post.as_deref(), runs).await;
        });
        true
    }

    /// Marks a comparison as running. Returns false if one is running already.
    fn begin(&self) -> bool {
        let mut status = lock(&self.0);
        if status.running.is_some() {
            return false;
        }
        status.running = Some(Running {
            step: Step {
                name: "looking for a post to read".to_owned(),
                number: 0,
                of: 0,
            },
            started: Instant::now(),
        });
        status.failure = None;
        true
    }

    /// Runs the comparison that [`Comparing::begin`] has marked, and keeps its result.
    async fn measure(&self, site: &Site, post: Option<&str>, runs: usize) {
        let ends = EndsWhenDropped(self.clone());
        let result = self.run(site, post, runs.min(RUNS_MAX)).await;
        {
            let mut status = lock(&self.0);
            match result {
                Ok(comparison) => status.last = Some(Arc::new(comparison)),
                Err(failure) => status.failure = Some(failure),
            }
        }
        drop(ends);
    }

    async fn run(
        &self,
        site: &Site,
        post: Option<&str>,
        runs: usize,
    ) -> Result<Comparison, BlogError> {
        let report = |step: Step| {
            if let Some(running) = &mut lock(&self.0).running {
                running.step = step;
            }
        };
        let comparison = compare(site, post, runs, &report);
        match tokio::time::timeout(TIME_MAX, comparison).await {
            Ok(result) => result,
            Err(_) => {
                // The step at which time ran out is still known.
                let running = self.status().running;
                let step = running.map_or(String::new(), |running| running.step.name);
                let limit = TIME_MAX.as_secs();
                Err(BlogError::unexpected(
                    step,
                    format!("the comparison took longer than {limit} s"),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(items: u64) -> Container {
        Container {
            model: Model::V1,
            policy: "{}".to_owned(),
            partitions: 3,
            items,
        }
    }

    #[test]
    fn a_tenth_more_items_is_no_change_and_any_other_policy_or_partition_is() {
        let before = Seen(vec![container(100)]);
        let differs = |now: Container| before.differs(&Seen(vec![now]));
        assert!(!differs(container(100)) && !differs(container(110)) && !differs(container(90)));
        assert!(differs(container(111)) && differs(container(0)));
        let mut other = container(100);
        other.policy = "{\"indexingMode\":\"none\"}".to_owned();
        assert!(differs(other));
        let mut split = container(100);
        split.partitions = 4;
        assert!(differs(split));
        assert!(before.differs(&Seen(Vec::new())), "a model is gone");
        assert!(Seen(vec![container(0)]).differs(&Seen(vec![container(1)])));
    }

    #[test]
    fn the_time_that_is_left_is_told_after_two_seconds() {
        let running = |seconds: u64, number: usize| Running {
            step: Step {
                name: String::new(),
                number,
                of: 45,
            },
            started: Instant::now() - Duration::from_secs(seconds),
        };
        assert_eq!(running(1, 10).time_left(), None);
        assert_eq!(running(5, 1).time_left(), None, "no step is done");
        let left = running(10, 16).time_left().expect("an estimate");
        assert_eq!(left.as_secs(), 20, "30 steps as long as the first 15");
    }

    #[test]
    fn figures_are_awaited_until_the_first_comparison_of_a_watch_has_ended() {
        let mut status = Status::default();
        assert!(!status.is_awaited(), "no comparison starts by itself");
        status.is_watched = true;
        assert!(status.is_awaited());
        status.failure = Some(BlogError::InvalidOption("no post".to_owned()));
        assert!(!status.is_awaited());
    }
}
