//! Pipelines that maintain copies: each reads the change feed of a container and reacts to every
//! change.
//!
//! ```text
//! V2, V3     users ──changes──> renameInPosts  the name in every item of the user in `posts`
//! V3         posts ──changes──> copyToUsers    a short copy of the post in `users`
//!                               copyToFeed     a short copy in `feed`, cut by a post-trigger
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
}

impl Reaction {
    /// Returns true for a reaction to changes of `users`; all others react to changes of `posts`.
    fn reads_users(self) -> bool {
        self == Self::RenameInPosts
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::RenameInPosts => "renameInPosts",
            Self::CopyToUsers => "copyToUsers",
            Self::CopyToFeed => "copyToFeed",
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
    blog: Blog,
    reactions: Vec<Reaction>,
    start: Start,
    /// The positions of [`Pipeline::drain`].
    positions: Positions,
    /// The floor of `feed` that was read last.
    feed_floor: Arc<Mutex<feed_copy::Floor>>,
}

impl Pipeline {
    /// Creates a pipeline with one reaction, which starts at the beginning of the feed.
    pub fn new(blog: &Blog, reaction: Reaction) -> Self {
        Self {
            blog: blog.clone(),
            reactions: vec![reaction],
            start: Start::Beginning,
            positions: Positions::default(),
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
            let mut pipeline = Self::new(blog, reactions[0]);
            pipeline.reactions = reactions.to_vec();
            pipeline.start = Start::AfterLoad;
            pipelines.push(pipeline);
        }
        pipelines
    }

    /// Returns the name, which is the same in all processes: database and container, e.g.
    /// `blog-v3.posts`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.blog.database, self.container_name())
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
        let client = self.blog.client.with_patience(patience);
        self.blog = self.blog.with_client(client);
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
            &self.blog.users
        } else {
            &self.blog.posts
        }
    }
}
