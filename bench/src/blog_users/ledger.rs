//! The record of what simulated users wrote, failed to write, and waited for.
//!
//! An entry is *certain* if the application confirmed it, and *possible* if a request failed: the
//! effect of such a request may or may not exist, but never twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures that are kept word for word.
const FAILURES_MAX: usize = 200;

/// A post of a simulated user.
#[derive(Clone, Debug, Default)]
pub(crate) struct PostEntry {
    /// Name of the simulated user who wrote the post, at the time.
    pub(crate) author: usize,
    /// Titles that the post may have.
    pub(crate) titles: Vec<String>,
    /// True from the moment before its deletion is sent.
    pub(crate) is_deleted: bool,
}

/// A comment of a simulated user.
#[derive(Clone, Debug)]
pub(crate) struct CommentEntry {
    /// Id of the post.
    pub(crate) post: String,
    /// A word that stands in this comment only.
    pub(crate) tag: String,
    /// True if the application confirmed the comment.
    pub(crate) is_certain: bool,
}

/// All records of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// Usernames that each simulated user may have.
    pub(crate) names: BTreeMap<usize, Vec<String>>,
    /// Posts by id.
    pub(crate) posts: BTreeMap<String, PostEntry>,
    /// Comments in the order in which they were sent.
    pub(crate) comments: Vec<CommentEntry>,
    /// Likes by post and simulated user, with true if the application confirmed the like.
    pub(crate) likes: BTreeMap<(String, usize), bool>,
    /// Posts whose deletion was sent, also those of no simulated user.
    pub(crate) deleted: BTreeSet<String>,
    /// Number of failures by kind of action.
    pub(crate) failure_counts: BTreeMap<&'static str, u64>,
    /// Descriptions of the first failures.
    pub(crate) failures: Vec<String>,
    /// Milliseconds of each answer by kind of page.
    pub(crate) times: BTreeMap<&'static str, Vec<f64>>,
}

/// The records of a run, shared by all users.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Books>);

impl Ledger {
    /// Returns the records for a change. To be held for a moment only.
    pub(crate) fn open(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure of an action.
    pub(crate) fn fail(&self, action: &'static str, cause: String) {
        let mut books = self.open();
        *books.failure_counts.entry(action).or_default() += 1;
        if books.failures.len() < FAILURES_MAX {
            books.failures.push(format!("{action}: {cause}"));
        }
    }

    /// Records the time of an answer.
    pub(crate) fn time(&self, kind: &'static str, ms: f64) {
        self.open().times.entry(kind).or_default().push(ms);
    }

    /// Returns true if the deletion of a post was sent.
    pub(crate) fn is_deleted(&self, post: &str) -> bool {
        self.open().deleted.contains(post)
    }
}
