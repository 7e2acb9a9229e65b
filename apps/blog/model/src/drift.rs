//! The comparison of every copy with its source.
//!
//! Within a model: the names in posts, comments and likes with those of the users; the counts of a
//! post with the numbers of its comments and likes; the short copies in `users` with the posts; the
//! feed with the 100 newest posts. Between models: users, posts, comments and likes.
//!
//! ```text
//! scan      every item is read once; users and posts whose sums differ are suspects
//! settle    suspects are compared item by item, again and again, until each item has agreed once
//!           or the patience ends
//! ```
//! A comparison may run while the blog is written to and while pipelines work: a copy that is on
//! its way agrees after a short time. Only items that never agree are reported.
//!
//! Left out: items of deleted posts that the model still deletes, until the patience ends; the
//! order of posts in the feed with equal dates.

mod examine;
mod report;
mod scan;

pub use report::{Difference, DriftReport};

use crate::{Blog, BlogError, Model, Site};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Scans that are repeated because a partition was split.
const RESTARTS_MAX: usize = 5;
/// Shortest and longest time between two comparisons of the same suspects.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time for which differing items are compared again.
    pub patience: Duration,
    /// Number of differences in the report.
    pub differences_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            differences_max: 100,
        }
    }
}

/// Users and posts to be compared item by item.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    pub users: BTreeSet<String>,
    pub posts: BTreeSet<String>,
    /// True if the feed of V3 is to be compared.
    pub feed: bool,
}

impl Suspects {
    /// Returns the number of users and posts.
    pub(crate) fn len(&self) -> usize {
        self.users.len() + self.posts.len()
    }

    /// Adds other suspects.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.users.append(&mut other.users);
        self.posts.append(&mut other.posts);
        self.feed |= other.feed;
    }

    fn is_empty(&self) -> bool {
        self.users.is_empty() && self.posts.is_empty() && !self.feed
    }
}

/// Compares the copies in `models` with their sources, and the models with each other.
///
/// # Errors
/// Every error of a request; [`BlogError::InvalidOption`] without models.
pub async fn check(
    site: &Site,
    models: &[Model],
    options: &Options,
) -> Result<DriftReport, BlogError> {
    if models.is_empty() || models.len() > Model::ALL.len() {
        return Err(BlogError::InvalidOption(
            "one to three models can be compared".into(),
        ));
    }
    let blogs = models.iter().map(|model| site.blog(*model)).collect();
    let mut comparison = Comparison::of_all(blogs);
    comparison.differences_max = options.differences_max;
    let suspects = comparison.scan().await?;
    let (mut report, _) = comparison.settle(suspects, options.patience).await?;
    report.items = comparison.items_read();
    Ok(report)
}

/// A comparison of blogs with each other; the first one is the reference.
pub(crate) struct Comparison {
    blogs: Vec<Blog>,
    /// True if the copies within the reference are not compared.
    has_trusted_reference: bool,
    differences_max: usize,
    /// Number of items that the scan has read.
    items_read: AtomicU64,
    /// Number of suspects that are left.
    suspects_left: AtomicU64,
}

impl Comparison {
    /// Returns the comparison of the copies in all blogs, and of the blogs with each other.
    pub(crate) fn of_all(blogs: Vec<Blog>) -> Self {
        Self {
            blogs,
            has_trusted_reference: false,
            differences_max: Options::default().differences_max,
            items_read: AtomicU64::new(0),
            suspects_left: AtomicU64::new(0),
        }
    }

    /// Returns the comparison of the copies in `target`, and of `target` with `source`. The copies
    /// within `source` are not compared.
    pub(crate) fn of_target(source: Blog, target: Blog) -> Self {
        Self {
            has_trusted_reference: true,
            ..Self::of_all(vec![source, target])
        }
    }

    /// Returns the number of items that [`Comparison::scan`] has read so far.
    pub(crate) fn items_read(&self) -> u64 {
        self.items_read.load(Ordering::Relaxed)
    }

    /// Returns the number of suspects that are left so far.
    pub(crate) fn suspects_left(&self) -> u64 {
        self.suspects_left.load(Ordering::Relaxed)
    }

    /// Reads every item once and returns the suspects.
    pub(crate) async fn scan(&self) -> Result<Suspects, BlogError> {
        let blogs = &self.blogs;
        let mut restarts = 0;
        loop {
            match scan::scan(blogs, self.has_trusted_reference, &self.items_read).await {
                Err(e) if e.is_range_gone() && restarts < RESTARTS_MAX => {
                    restarts += 1;
                    for container in blogs.iter().flat_map(Blog::containers) {
                        blogs[0].client().clear_cached_metadata(container);
                    }
                }
                scanned => {
                    let scan = scanned?;
                    self.items_read.store(scan.items, Ordering::Relaxed);
                    return Ok(scan.suspects);
                }
            }
        }
    }

    /// Compares the suspects item by item until each item has agreed once or `patience` is over.
    /// Returns the suspects that are left as well.
    pub(crate) async fn settle(
        &self,
        mut suspects: Suspects,
        patience: Duration,
    ) -> Result<(DriftReport, Suspects), BlogError> {
        let count = suspects.len() as u64;
        let began = Instant::now();
        let mut pause = PAUSE.0;
        // The items that have differed in every round so far.
        let mut pending: Option<BTreeSet<(Model, String)>> = None;
        loop {
            self.suspects_left
                .store(suspects.len() as u64, Ordering::Relaxed);
            let mut examined = self.examine(&suspects).await?;
            if let Some(pending) = &pending {
                examined.retain(|found| pending.contains(&(found.model, found.item.clone())));
            }
            let items = examined.differences().map(|d| (d.model, d.item.clone()));
            pending = Some(items.collect());
            let (left, differences) = examined.into_parts();
            suspects = left;
            let mut report = DriftReport {
                models: self.blogs.iter().map(Blog::model).collect(),
                items: count,
                suspects: count,
                count: differences.len() as u64,
                differences,
            };
            if suspects.is_empty() || began.elapsed() >= patience {
                report.differences.sort();
                report.differences.truncate(self.differences_max);
                return Ok((report, suspects));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}
