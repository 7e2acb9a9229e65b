//! Pipelines that maintain copies: each reads the change feed of a container and reacts to every
//! change.
//!
//! ```text
//! V2, V3     users ──changes──> renameInPosts  the name in every item of the user in `posts`
//! V3         posts ──changes──> copyToUsers    a short copy of the post in `users`
//!                               copyToFeed     a short copy in `feed`, cut by a post-trigger
//! migration  users, posts of one model ──changes──> the same containers of another model
//! ```
//!
//! The reactions to one container share one reading of its feed. A pipeline reads the feed of each
//! physical partition from a position of its own and moves the position forward only after all
//! reactions to a page are complete. A pipeline may therefore stop at any point and continue from
//! the stored position. Some changes are then processed twice; every reaction is idempotent.
//!
//! ```text
//! Pipelines (service)   the handle of an application: start, stop, status, metrics, dead letters
//!   worker              one of several that share the ranges: heartbeats, leases
//!     membership        the protocol of workers and leases, without requests
//!     leases            its items in the container `leases`
//!     range             the loop of one leased range: page, reactions, position
//!       reactions       the reaction to one change
//!         feed_copy     the copies in `feed`
//! drain                 the same reactions from positions in memory, until the end of the feed
//! ```
//!
//! The change feed has no deletions. A deleted post is a tombstone (`type` is `deletedPost`), on
//! which the copies are removed.

mod consequences;
mod dead_letters;
mod delivery;
mod drain;
mod feed_copy;
mod leases;
mod membership;
mod metrics;
mod range;
mod reactions;
mod service;
mod status;
mod wake;
mod worker;

pub use consequences::Consequence;
pub use dead_letters::DeadLetter;
pub use delivery::{Delivery, Precision};
pub use drain::PipelineProgress;
pub(crate) use reactions::POSTS_WITH_OLD_NAME;
pub(crate) use reactions::rename_in_post;
pub use service::{PipelineSource, Pipelines, ServiceOptions};
pub use status::{PipelineStatus, RangeStatus, ReactionStatus, Status, WorkerStatus};
pub use wake::Wake;

use crate::Blog;
use crate::feed::Positions;
use crate::models::Model;
use crate::sync::lock;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// The reaction of a pipeline to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reaction {
    /// V2, V3: rewrites the name of a changed user in `posts`.
    RenameInPosts,
    /// V3: writes a short copy of a changed post to the author's partition in `users`.
    CopyToUsers,
    /// V3: writes a short copy of a changed post to `feed`, which keeps the newest posts.
    CopyToFeed,
    /// Migration: copies changed users of another model to `users`.
    MigrateUsers {
        /// True if the name is also rewritten in `posts`, because posts copied before may have an
        /// older name.
        rename: bool,
    },
    /// Migration: copies changed posts, comments and likes of another model to `posts` and adds
    /// names and counts.
    MigratePosts,
}

impl Reaction {
    /// Returns true for a reaction to changes of `users`; all others react to changes of `posts`.
    fn reads_users(self) -> bool {
        matches!(self, Self::RenameInPosts | Self::MigrateUsers { .. })
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RenameInPosts => "renameInPosts",
            Self::CopyToUsers => "copyToUsers",
            Self::CopyToFeed => "copyToFeed",
            Self::MigrateUsers { .. } => "migrateUsers",
            Self::MigratePosts => "migratePosts",
        })
    }
}

/// The point of the change feed at which a pipeline without a position starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At the creation of the container.
    Beginning,
    /// After the changes that the loading of a data set made, if that has left the state to which
    /// the pipeline leads.
    AfterLoad,
}

/// A change feed and the reactions to its changes.
#[derive(Clone)]
pub struct Pipeline {
    source: Blog,
    target: Blog,
    reactions: Vec<Reaction>,
    start: Start,
    /// The positions of [`Pipeline::drain`].
    positions: Positions,
    /// Usernames by user id, for a migration from V1. Cleared before each page.
    names: Arc<Mutex<HashMap<String, Value>>>,
    /// What is known about `feed`.
    feed_floor: Arc<Mutex<feed_copy::Floor>>,
}

impl Pipeline {
    /// Creates a pipeline with one reaction, which starts at the beginning of the feed. `source`
    /// and `target` differ only in a migration.
    pub fn new(source: &Blog, target: &Blog, reaction: Reaction) -> Self {
        Self {
            source: source.clone(),
            target: target.clone(),
            reactions: vec![reaction],
            start: Start::Beginning,
            positions: Positions::default(),
            names: Arc::default(),
            feed_floor: Arc::default(),
        }
    }

    /// Returns the pipelines that a model needs in operation. V1 needs none.
    pub fn of(blog: &Blog) -> Vec<Self> {
        let groups: &[&[Reaction]] = match blog.model {
            Model::V1 => &[],
            Model::V2 => &[&[Reaction::RenameInPosts]],
            Model::V3 => &[
                &[Reaction::RenameInPosts],
                &[Reaction::CopyToUsers, Reaction::CopyToFeed],
            ],
        };
        let mut pipelines = Vec::new();
        for reactions in groups {
            let mut pipeline = Self::new(blog, blog, reactions[0]);
            pipeline.reactions = reactions.to_vec();
            pipeline.start = Start::AfterLoad;
            pipelines.push(pipeline);
        }
        pipelines
    }

    /// Returns the name, which is the same in all processes: source, target if it is another
    /// database, and container, e.g. `blog-v3.posts`.
    pub fn name(&self) -> String {
        let (source, target) = (&self.source.database, &self.target.database);
        let container = self.container_name();
        if source == target {
            format!("{source}.{container}")
        } else {
            format!("{source}.to.{target}.{container}")
        }
    }

    /// Returns the reactions.
    pub fn reactions(&self) -> &[Reaction] {
        &self.reactions
    }

    /// Sets the positions from which [`Pipeline::drain`] continues.
    pub fn from_positions(mut self, positions: Positions) -> Self {
        self.positions = positions;
        self
    }

    /// Returns the positions of [`Pipeline::drain`], which can be stored.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Returns the same pipeline with a client of another patience for all its requests.
    fn with_patience(mut self, patience: std::time::Duration) -> Self {
        let client = |blog: &Blog| blog.client.with_patience(patience);
        let (source, target) = (client(&self.source), client(&self.target));
        self.source = self.source.with_client(source);
        self.target = self.target.with_client(target);
        self
    }

    /// Returns true if the pipeline reads the feed of `users`.
    fn reads_users(&self) -> bool {
        self.reactions
            .first()
            .is_some_and(|reaction| reaction.reads_users())
    }

    /// Returns the name of the container whose change feed the pipeline reads.
    fn container_name(&self) -> &'static str {
        if self.reads_users() { "users" } else { "posts" }
    }

    /// Returns the link of the container whose change feed the pipeline reads.
    fn container(&self) -> &str {
        if self.reads_users() {
            &self.source.users
        } else {
            &self.source.posts
        }
    }

    /// Forgets all that was remembered about other items than those of the next page.
    fn begin_page(&self) {
        lock(&self.names).clear();
    }
}
