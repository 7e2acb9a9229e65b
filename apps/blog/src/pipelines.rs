//! Pipelines that maintain copies: each reads a change feed and reacts to every change.
//!
//! ```text
//! V2, V3   users ──changes──> updateUsernames in every post that shows the user's name
//! V3       posts ──changes──> users: a short copy of the post
//! V3       posts ──changes──> feed:  a short copy, then the post-trigger truncateFeed
//! upgrade  users, posts of an older model ──changes──> the same containers of a newer model
//! ```
//!
//! A pipeline reads the feed of each physical partition from a position of its own and moves the
//! position forward only after all reactions to a page are complete. A pipeline may therefore stop
//! at any time and continue from stored [`Positions`]. Some changes are then processed twice; every
//! reaction is idempotent. The partitions are processed concurrently.
//!
//! Left out: deletions. The change feed does not contain deleted items, and the blog deletes none.

use crate::dataset::User;
use crate::feed::Positions;
use crate::models::{Blog, FEED_LENGTH, Model, short_post, user_item};
use crate::sync::lock;
use crate::{BlogError, Meter, Query};
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Changes in one page of a partition's feed.
const PAGE_SIZE: usize = 500;
/// Concurrent reactions to one page.
const CONCURRENT_REACTIONS: usize = 8;
/// Items in one call of `absorb`. With texts of a few KB each, the request stays well below the
/// size limit.
const ABSORBED_ITEMS_MAX: usize = 200;
/// Usernames in the cache during an upgrade from V1.
const NAMES_MAX: usize = 200_000;
/// Splits during one run after which a pipeline gives up.
const SPLITS_MAX: usize = 10;

/// The reaction of a pipeline to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// V2, V3: rewrites the name of a changed user in `posts`.
    RenameInPosts,
    /// V3: writes a short copy of a changed post to the author's partition in `users`.
    CopyToUsers,
    /// V3: writes a short copy of a changed post to `feed`, which keeps the newest posts.
    CopyToFeed,
    /// Upgrade: copies changed users of an older model to `users`.
    MigrateUsers {
        /// True if the name is also rewritten in `posts`, because posts copied before may have an
        /// older name.
        rename: bool,
    },
    /// Upgrade: copies changed posts, comments and likes of an older model to `posts` and adds
    /// names and counts.
    MigratePosts,
}

/// The work that a pipeline has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PipelineProgress {
    /// Number of changes read.
    pub changes: u64,
    /// Number of items written in reaction.
    pub written: u64,
}

impl std::ops::AddAssign for PipelineProgress {
    fn add_assign(&mut self, other: Self) {
        self.changes += other.changes;
        self.written += other.written;
    }
}

/// A change feed, a reaction, and the current positions in the feed.
#[derive(Clone)]
pub struct Pipeline {
    source: Blog,
    target: Blog,
    reaction: Reaction,
    positions: Positions,
    /// Usernames by user id, for an upgrade from V1. Cleared before each run, since users may have
    /// been renamed.
    names: Arc<Mutex<HashMap<String, Value>>>,
}

impl Pipeline {
    /// Creates a pipeline that starts at the beginning of the feed. `source` and `target` differ
    /// only in an upgrade.
    pub fn new(source: &Blog, target: &Blog, reaction: Reaction) -> Self {
        Self {
            source: source.clone(),
            target: target.clone(),
            reaction,
            positions: Positions::default(),
            names: Arc::default(),
        }
    }

    /// Returns the pipelines that a model needs in operation. V1 needs none.
    pub fn of(blog: &Blog) -> Vec<Self> {
        let reactions: &[Reaction] = match blog.model {
            Model::V1 => &[],
            Model::V2 => &[Reaction::RenameInPosts],
            Model::V3 => &[
                Reaction::RenameInPosts,
                Reaction::CopyToUsers,
                Reaction::CopyToFeed,
            ],
        };
        reactions
            .iter()
            .map(|reaction| Self::new(blog, blog, *reaction))
            .collect()
    }

    /// Sets the positions from which the pipeline continues.
    pub fn from_positions(mut self, positions: Positions) -> Self {
        self.positions = positions;
        self
    }

    /// Returns the current positions, which can be stored.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Reads changes and reacts to them until no partition has further changes.
    ///
    /// # Errors
    /// The first error of a request. The positions of partitions without an error are kept.
    pub async fn drain(&mut self) -> Result<PipelineProgress, BlogError> {
        self.drain_metered(&Meter::new()).await
    }

    /// Does the same as [`Pipeline::drain`] and adds the requests to `meter`.
    ///
    /// # Errors
    /// Those of [`Pipeline::drain`].
    pub async fn drain_metered(&mut self, meter: &Meter) -> Result<PipelineProgress, BlogError> {
        lock(&self.names).clear();
        let mut progress = PipelineProgress::default();
        let mut splits = 0;
        loop {
            match self.process_next_pages(meter).await {
                Ok(done) if done.changes == 0 => return Ok(progress),
                Ok(done) => progress += done,
                Err(e) if e.is_range_gone() && splits < SPLITS_MAX => {
                    // A partition was split: the new ranges continue from the parent's position.
                    splits += 1;
                    self.source
                        .client
                        .clear_cached_metadata(self.source_container());
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Processes the next page of every partition.
    async fn process_next_pages(&mut self, meter: &Meter) -> Result<PipelineProgress, BlogError> {
        let client = &self.source.client;
        let ranges = client.ranges(self.source_container()).await?;
        let mut pages = Vec::with_capacity(ranges.len());
        for range in ranges.iter() {
            let etag = self.positions.position_of(range);
            pages.push(self.process_page(meter, &range.id, etag));
        }
        let results = join_all(pages).await;

        // A failed partition does not discard the work of the others: their positions move forward.
        let mut progress = PipelineProgress::default();
        let mut failure = None;
        for (range, result) in ranges.iter().zip(results) {
            match result {
                Ok((etag, done)) => {
                    self.positions.set(&range.id, etag);
                    progress += done;
                }
                Err(e) => failure = Some(e),
            }
        }
        match failure {
            Some(e) => Err(e),
            None => Ok(progress),
        }
    }

    /// Processes one page of a partition. Returns the position after the page.
    async fn process_page(
        &self,
        meter: &Meter,
        range: &str,
        etag: Option<&str>,
    ) -> Result<(String, PipelineProgress), BlogError> {
        let changes = self
            .source
            .client
            .changes(meter, self.source_container(), range, etag, PAGE_SIZE)
            .await?;
        let count = changes.items.len() as u64;
        let written = self.react(meter, changes.items).await?;
        let progress = PipelineProgress {
            changes: count,
            written,
        };
        Ok((changes.etag, progress))
    }

    /// Returns the link of the container whose change feed the pipeline reads.
    fn source_container(&self) -> &str {
        match self.reaction {
            Reaction::RenameInPosts | Reaction::MigrateUsers { .. } => &self.source.users,
            Reaction::CopyToUsers | Reaction::CopyToFeed | Reaction::MigratePosts => {
                &self.source.posts
            }
        }
    }

    /// Makes [`Reaction::MigrateUsers`] rewrite names in `posts` from the next change onward.
    pub(crate) fn enable_renames(&mut self) {
        if let Reaction::MigrateUsers { rename } = &mut self.reaction {
            *rename = true;
        }
    }

    /// Reacts to the changed items and returns the number of items written.
    async fn react(&self, meter: &Meter, items: Vec<Value>) -> Result<u64, BlogError> {
        match self.reaction {
            Reaction::MigratePosts => self.migrate_posts(meter, items).await,
            Reaction::CopyToFeed => self.copy_to_feed(meter, items).await,
            Reaction::CopyToUsers => {
                let posts: Vec<_> = items.iter().filter_map(short_post).collect();
                let copies: Vec<_> = posts
                    .iter()
                    .map(|post| self.copy_to_user(meter, post))
                    .collect();
                sum_concurrently(copies).await
            }
            Reaction::RenameInPosts | Reaction::MigrateUsers { .. } => {
                // `users` of V3 also contains short posts.
                let users = items
                    .iter()
                    .filter(|item| item.get("type").is_none_or(|kind| kind == "user"));
                let reactions: Vec<_> = users.map(|user| self.react_to_user(meter, user)).collect();
                sum_concurrently(reactions).await
            }
        }
    }

    /// Writes the short copy of a post to the author's partition in `users`.
    async fn copy_to_user(&self, meter: &Meter, post: &Value) -> Result<u64, BlogError> {
        let user_id = string_property(post, "userId")?;
        self.target
            .client
            .upsert(meter, &self.target.users, user_id, post, None)
            .await?;
        Ok(1)
    }

    /// Writes short copies of posts to the feed. Only the newest hundred posts of a page can stay
    /// in the feed, so only these are written, oldest first.
    async fn copy_to_feed(&self, meter: &Meter, items: Vec<Value>) -> Result<u64, BlogError> {
        let mut posts: Vec<_> = items.iter().filter_map(short_post).collect();
        posts.sort_by(|a, b| a["creationDate"].as_str().cmp(&b["creationDate"].as_str()));
        let newest = posts.split_off(posts.len().saturating_sub(FEED_LENGTH as usize));
        for post in &newest {
            self.target
                .client
                .upsert(meter, &self.target.feed, "post", post, Some("truncateFeed"))
                .await?;
        }
        Ok(newest.len() as u64)
    }

    /// Copies a changed user to the target, rewrites the name in `posts`, or both.
    async fn react_to_user(&self, meter: &Meter, user: &Value) -> Result<u64, BlogError> {
        let id = string_property(user, "id")?;
        let username = string_property(user, "username")?;
        let mut written = 0;
        if let Reaction::MigrateUsers { .. } = self.reaction {
            let user = User {
                id: id.to_owned(),
                username: username.to_owned(),
            };
            let item = user_item(self.target.model, &user);
            self.target
                .client
                .upsert(meter, &self.target.users, id, &item, None)
                .await?;
            written += 1;
        }
        if self.reaction != (Reaction::MigrateUsers { rename: false }) {
            written += rename_in_posts(&self.target, meter, id, username).await?;
        }
        Ok(written)
    }

    /// Passes the changes of each post to the stored procedure `absorb`, which stores the items and
    /// sets the counts of the post.
    async fn migrate_posts(&self, meter: &Meter, items: Vec<Value>) -> Result<u64, BlogError> {
        let mut by_post: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for mut item in items {
            // System properties belong to the old item.
            if let Some(properties) = item.as_object_mut() {
                properties.retain(|name, _| !name.starts_with('_'));
            }
            if item.get("userUsername").is_none() {
                let user_id = string_property(&item, "userId")?;
                item["userUsername"] = self.username(meter, user_id).await?;
            }
            let post_id = string_property(&item, "postId")?.to_owned();
            by_post.entry(post_id).or_default().push(item);
        }
        let posts: Vec<_> = by_post
            .iter()
            .map(|(post_id, items)| self.absorb(meter, post_id, items))
            .collect();
        sum_concurrently(posts).await
    }

    /// Runs `absorb` for the items of one post until it has stored all of them.
    async fn absorb(
        &self,
        meter: &Meter,
        post_id: &str,
        items: &[Value],
    ) -> Result<u64, BlogError> {
        let mut remaining = items;
        while !remaining.is_empty() {
            let batch = &remaining[..remaining.len().min(ABSORBED_ITEMS_MAX)];
            let arguments = json!([post_id, batch]);
            let result = self
                .target
                .client
                .execute(meter, &self.target.posts, post_id, "absorb", &arguments)
                .await?;
            // The procedure may end early because of its time limit. Without progress the loop
            // would never end.
            let stored = result.as_u64().unwrap_or(0) as usize;
            if stored == 0 {
                return Err(BlogError::unexpected(
                    format!("absorb of '{post_id}'"),
                    result.to_string(),
                ));
            }
            remaining = &remaining[stored.min(remaining.len())..];
        }
        Ok(items.len() as u64)
    }

    /// Returns the name of a user of the source, from the cache if possible.
    async fn username(&self, meter: &Meter, user_id: &str) -> Result<Value, BlogError> {
        let cached = lock(&self.names).get(user_id).cloned();
        if let Some(name) = cached {
            return Ok(name);
        }
        let name = self.source.user(meter, user_id).await?["username"].take();
        let mut names = lock(&self.names);
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(user_id.to_owned(), name.clone());
        Ok(name)
    }
}

/// Runs futures, up to [`CONCURRENT_REACTIONS`] at a time, and returns the sum of their results or
/// the first error.
async fn sum_concurrently<F>(futures: impl IntoIterator<Item = F>) -> Result<u64, BlogError>
where
    F: Future<Output = Result<u64, BlogError>>,
{
    let mut results = stream::iter(futures).buffer_unordered(CONCURRENT_REACTIONS);
    let mut sum = 0;
    while let Some(result) = results.next().await {
        sum += result?;
    }
    Ok(sum)
}

/// Rewrites a user's name in all of the user's items in `posts`. Returns the number of items
/// changed.
async fn rename_in_posts(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
    username: &str,
) -> Result<u64, BlogError> {
    const OUTDATED: &str = "SELECT DISTINCT VALUE c.postId FROM c WHERE c.userId = @userId \
                            AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)";
    let query = Query::new(OUTDATED)
        .with("@userId", user_id)
        .with("@username", username);
    let posts = blog.client.query_all(meter, &blog.posts, &query).await?;
    let arguments = json!([user_id, username]);
    let renames: Vec<_> = posts
        .iter()
        .map(|post_id| rename_in_post(blog, meter, post_id, &arguments))
        .collect();
    sum_concurrently(renames).await
}

/// Runs `updateUsernames` in the logical partition of one post until all items have the new name.
async fn rename_in_post(
    blog: &Blog,
    meter: &Meter,
    post_id: &Value,
    arguments: &Value,
) -> Result<u64, BlogError> {
    let post_id = post_id.as_str().unwrap_or_default();
    let mut updated = 0;
    loop {
        let result = blog
            .client
            .execute(meter, &blog.posts, post_id, "updateUsernames", arguments)
            .await?;
        let updated_now = result["updated"].as_u64().unwrap_or(0);
        updated += updated_now;
        if result["done"] == true {
            return Ok(updated);
        }
        // The procedure may end early because of its time limit. Without progress the loop would
        // never end.
        if updated_now == 0 {
            return Err(BlogError::unexpected(
                format!("updateUsernames in '{post_id}'"),
                result.to_string(),
            ));
        }
    }
}

/// Returns a string property of an item.
fn string_property<'a>(item: &'a Value, name: &str) -> Result<&'a str, BlogError> {
    item[name].as_str().ok_or_else(|| {
        BlogError::unexpected("change feed", format!("an item without {name}: {item}"))
    })
}
