//! The copy of one model into another one by the change feed, including deletions of posts.
//!
//! ```text
//! source users ──changes──> target users                  U
//! source posts ──changes──> absorb ──> target posts       P
//! target users, posts ──changes──> the target's own pipelines: names (N), short copies, feed
//! ```
//! Every reaction may be repeated at any time: users are upserted, `absorb` counts the comments and
//! likes that are stored, and a tombstone wins over every other item of its post.
//!
//! # A rename reaches every copy
//!
//! P gives each item the name of its user, since V1 has no names and those of V2 and V3 may be out
//! of date. A rename that happens meanwhile reaches the item for every order of the steps:
//!
//! 1. U notes the new name in [`Names`] at time m, then writes it to the target's `users` at time
//!    u. N reads that change and, from time n on, rewrites every item in `posts` with another
//!    name. So m < u < n.
//! 2. P takes the old name from [`Names`], stores the item at time t, and then looks up the name
//!    again, at time v. So t < v.
//! 3. If t < n, N finds the item and rewrites it. If t > n, then m < n < t < v, so P finds the new
//!    name and rewrites the item itself.
//!
//! Step 3 needs the memory of one process only as long as that process runs: a page whose second
//! look-up did not take place is processed again after a restart, and the names are then read from
//! the target's `users`, which has the new name from u on. The same holds when [`Names`] is full
//! and is emptied: P notices by the generation and reads the names again.
//!
//! N begins at the end of the target's `users` after U's first pass, when no post is copied yet: a
//! rename before that moment is noted in the target's `users` before P takes any name.

use super::convert::{
    has_names, plain_post_item, shown_user, string_property, user_of, without_system_properties,
};
use super::feeds::{FollowedFeed, Round, end_of_feed};
use super::lease::Lease;
use crate::control::existing_is_fine;
use crate::pipelines::{Pipeline, Pipelines, Reaction, ServiceOptions, rename_in_post};
use crate::sync::lock;
use crate::{Blog, BlogError, Control, Meter, Site};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names of the followed feeds.
const USERS: &str = "users";
const POSTS: &str = "posts";
/// Concurrent reactions to one page.
const CONCURRENT_REACTIONS: usize = 8;
/// Items in one call of `absorb`. With texts of a few KB each, the request stays well below the
/// size limit.
const ABSORBED_ITEMS_MAX: usize = 200;
/// Names in memory.
const NAMES_MAX: usize = 500_000;
/// Entities whose change is noted for a comparison.
const TOUCHED_MAX: usize = 100_000;

/// The users and posts that were copied since the notes were taken last.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub users: BTreeSet<String>,
    pub posts: BTreeSet<String>,
    /// True if there were more than can be noted.
    pub is_incomplete: bool,
}

/// Names of users as the target shows them.
#[derive(Default)]
struct Names {
    by_user: HashMap<String, String>,
    /// Increases when the names are removed from memory.
    generation: u64,
}

/// A target that follows the changes of its source.
pub(super) struct Follower {
    source: Blog,
    target: Blog,
    users: FollowedFeed,
    posts: FollowedFeed,
    /// The pipelines of the site and of the target, with a worker.
    pipelines: Pipelines,
    names: Mutex<Names>,
    touched: Mutex<Touched>,
    lease: Arc<Lease>,
}

impl Follower {
    /// Returns the follower at its stored positions.
    pub(super) async fn open(
        site: &Site,
        migration: &str,
        source: &Blog,
        target: &Blog,
        lease: &Arc<Lease>,
    ) -> Result<Self, BlogError> {
        let control = site.control();
        let pipelines = pipelines_of_site(site, target, lease.lifetime());
        Ok(Self {
            users: FollowedFeed::open(control, migration, USERS, &source.users).await?,
            posts: FollowedFeed::open(control, migration, POSTS, &source.posts).await?,
            pipelines,
            source: source.clone(),
            target: target.clone(),
            names: Mutex::default(),
            touched: Mutex::default(),
            lease: lease.clone(),
        })
    }

    /// Returns the number of changes copied since the beginning of the migration.
    pub(super) fn copied(&self) -> u64 {
        self.users.changes() + self.posts.changes()
    }

    /// Returns the age of the change copied last, in seconds. 0 if all changes are copied.
    pub(super) fn lag_seconds(&self) -> u64 {
        self.users.lag_seconds().max(self.posts.lag_seconds())
    }

    /// Returns the entities copied since the last call, and forgets them.
    pub(super) fn take_touched(&self) -> Touched {
        std::mem::take(&mut lock(&self.touched))
    }

    /// Copies all users while no post is copied yet, and lets N begin after these copies.
    pub(super) async fn copy_users_first(&self) -> Result<(), BlogError> {
        while !self.round_of_users().await?.is_nearly_at_end() {}
        let end = end_of_feed(&self.target.client, &self.target.users).await?;
        for pipeline in Pipeline::of(&self.target) {
            if pipeline.reactions() == [Reaction::RenameInPosts] {
                self.pipelines.begin_at(&pipeline, &end).await?;
            }
        }
        Ok(())
    }

    /// Starts a worker for the pipelines, beside those of applications.
    pub(super) fn start_pipelines(&self) {
        self.pipelines.start();
    }

    /// Hands the pipelines over to the workers of applications.
    pub(super) async fn stop_pipelines(&self) {
        self.pipelines.stop().await;
    }

    /// Copies the next page of every partition.
    async fn round(&self) -> Result<Round, BlogError> {
        let users = self.round_of_users().await?;
        let posts = self.posts.round(|items| self.copy_posts(items)).await?;
        Ok(users.and(posts))
    }

    async fn round_of_users(&self) -> Result<Round, BlogError> {
        self.users.round(|items| self.copy_users(items)).await
    }

    /// Copies everything that was written to the source, and waits for the target's own pipelines.
    /// Ends only if nobody writes.
    pub(super) async fn drain(&self) -> Result<(), BlogError> {
        while !self.round().await?.is_at_end {}
        self.pipelines.settled().await
    }

    /// Copies until few changes are left, which may have been written meanwhile. Returns true if
    /// there was nothing to copy.
    pub(super) async fn catch_up(&self) -> Result<bool, BlogError> {
        let mut has_copied = false;
        loop {
            let round = self.round().await?;
            has_copied |= round.changes > 0;
            if round.is_nearly_at_end() {
                break;
            }
        }
        if has_copied {
            self.pipelines.wake().ring_all();
        }
        Ok(!has_copied)
    }

    async fn copy_users(&self, items: Vec<Value>) -> Result<(), BlogError> {
        let model = self.target.model;
        let users = items.iter().filter_map(|item| user_of(model, item));
        for_each_concurrently(users.map(|user| self.copy_user(user))).await
    }

    async fn copy_user(&self, user: Value) -> Result<(), BlogError> {
        self.lease.check()?;
        let id = string_property(&user, "id")?;
        if has_names(self.target.model) {
            self.note_name(id, string_property(&user, "username")?);
        }
        self.target
            .client
            .upsert(&Meter::new(), &self.target.users, id, &user, None)
            .await?;
        let mut touched = lock(&self.touched);
        if touched.users.len() < TOUCHED_MAX {
            touched.users.insert(id.to_owned());
        } else {
            touched.is_incomplete = true;
        }
        Ok(())
    }

    async fn copy_posts(&self, items: Vec<Value>) -> Result<(), BlogError> {
        let mut by_post: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for item in items {
            let post_id = string_property(&item, "postId")?.to_owned();
            by_post.entry(post_id).or_default().push(item);
        }
        let posts = by_post
            .iter()
            .map(|(post_id, items)| self.copy_post(post_id, items));
        for_each_concurrently(posts).await
    }

    /// Copies changed items of one post.
    pub(super) async fn copy_post(&self, post_id: &str, items: &[Value]) -> Result<(), BlogError> {
        let shows_names = has_names(self.target.model);
        let generation = lock(&self.names).generation;
        let mut copies = Vec::with_capacity(items.len());
        let mut shown: BTreeMap<&str, String> = BTreeMap::new();
        for item in items {
            if !shows_names {
                copies.push(plain_post_item(item));
                continue;
            }
            let mut copy = without_system_properties(item);
            if let Some(user_id) = shown_user(item)? {
                let name = match shown.get(user_id) {
                    Some(name) => name.clone(),
                    None => self.name_of(user_id, item).await?,
                };
                copy["userUsername"] = name.as_str().into();
                shown.insert(user_id, name);
            }
            copies.push(copy);
        }
        self.lease.check()?;
        absorb(&self.target, post_id, &copies).await?;
        self.rewrite_changed_names(post_id, &shown, generation)
            .await?;
        let mut touched = lock(&self.touched);
        if touched.posts.len() < TOUCHED_MAX {
            touched.posts.insert(post_id.to_owned());
        } else {
            touched.is_incomplete = true;
        }
        Ok(())
    }

    /// Rewrites the items of a post whose users were renamed since the look-up of the names.
    async fn rewrite_changed_names(
        &self,
        post_id: &str,
        shown: &BTreeMap<&str, String>,
        generation: u64,
    ) -> Result<(), BlogError> {
        for (user_id, name) in shown {
            let noted = {
                let names = lock(&self.names);
                if names.generation == generation {
                    names.by_user.get(*user_id).cloned()
                } else {
                    None
                }
            };
            let current = match noted {
                Some(name) => Some(name),
                None => self.target_name(user_id).await?,
            };
            if let Some(current) = current
                && current != *name
            {
                let arguments = json!([user_id, current]);
                let post_id = Value::from(post_id);
                rename_in_post(&self.target, &Meter::new(), &post_id, &arguments).await?;
            }
        }
        Ok(())
    }

    /// Notes the name of a user.
    fn note_name(&self, user_id: &str, name: &str) {
        let mut names = lock(&self.names);
        if names.by_user.len() >= NAMES_MAX {
            names.by_user.clear();
            names.generation += 1;
        }
        names.by_user.insert(user_id.to_owned(), name.to_owned());
    }

    /// Returns the name of the user of `item`: from memory, from the target, or else from the
    /// source.
    async fn name_of(&self, user_id: &str, item: &Value) -> Result<String, BlogError> {
        let noted = lock(&self.names).by_user.get(user_id).cloned();
        if let Some(name) = noted {
            return Ok(name);
        }
        let name = match self.target_name(user_id).await? {
            Some(name) => name,
            None => self.copy_unknown_user(user_id, item).await?,
        };
        // U may have noted a newer name in the meantime, which stays.
        let mut names = lock(&self.names);
        let noted = names.by_user.entry(user_id.to_owned()).or_insert(name);
        Ok(noted.clone())
    }

    /// Returns the name of a user in the target. `None` if the target does not have the user.
    async fn target_name(&self, user_id: &str) -> Result<Option<String>, BlogError> {
        match self.target.user(&Meter::new(), user_id).await {
            Ok(user) => Ok(Some(string_property(&user, "username")?.to_owned())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Copies a user whose item is read before the user's own change. Returns the name.
    async fn copy_unknown_user(&self, user_id: &str, item: &Value) -> Result<String, BlogError> {
        let user = match self.source.user(&Meter::new(), user_id).await {
            Ok(user) => user,
            Err(e) if e.is_not_found() => {
                return Err(BlogError::unexpected(
                    format!(
                        "migration of item {} of post {}",
                        item["id"], item["postId"]
                    ),
                    format!("{} has no user '{user_id}'", self.source.model),
                ));
            }
            Err(e) => return Err(e),
        };
        let name = string_property(&user, "username")?.to_owned();
        // Created and not upserted: the target may have a newer version by now.
        if let Some(user) = user_of(self.target.model, &user) {
            let created = self
                .target
                .client
                .create(&Meter::new(), &self.target.users, user_id, &user)
                .await;
            existing_is_fine(created)?;
        }
        Ok(name)
    }
}

/// Returns the pipelines of the site and of `target`.
///
/// The workers of applications list the same pipelines. Each worker computes its share from the
/// number of leases that it lists: a worker that listed the target's pipelines only would compute
/// too small a share, and a range of the target could stay without a worker.
fn pipelines_of_site(site: &Site, target: &Blog, lifetime: Duration) -> Pipelines {
    let control = site.control().clone();
    let (site, target) = (site.clone(), target.clone());
    let options = ServiceOptions {
        lifetime,
        ..ServiceOptions::default()
    };
    let source = move || {
        let mut models = site.pipeline_models();
        // The state of the site may be older than the beginning of the migration.
        if !models.contains(&target.model) {
            models.push(target.model);
        }
        let blogs = models.into_iter().map(|model| site.blog(model));
        blogs.flat_map(|blog| Pipeline::of(&blog)).collect()
    };
    Pipelines::new(&control, Arc::new(source), options)
}

/// Deletes the stored positions of a migration.
pub(super) async fn forget(control: &Control, migration: &str) -> Result<(), BlogError> {
    for purpose in [USERS, POSTS] {
        FollowedFeed::forget(control, migration, purpose).await?;
    }
    Ok(())
}

/// Deletes the leases and dead letters of the pipelines inside `blog`, whose database is deleted.
pub(super) async fn forget_pipelines(control: &Control, blog: &Blog) -> Result<(), BlogError> {
    let of_blog = Pipeline::of(blog);
    let listed = of_blog.clone();
    let source = Arc::new(move || listed.clone());
    let pipelines = Pipelines::new(control, source, ServiceOptions::default());
    for pipeline in of_blog {
        pipelines.forget(&pipeline.name()).await?;
    }
    Ok(())
}

/// Runs `absorb` for the items of one post until it has stored all of them.
pub(super) async fn absorb(target: &Blog, post_id: &str, items: &[Value]) -> Result<(), BlogError> {
    let keeps_counters = has_names(target.model);
    let mut remaining = items;
    while !remaining.is_empty() {
        let batch = &remaining[..remaining.len().min(ABSORBED_ITEMS_MAX)];
        let arguments = json!([post_id, batch, keeps_counters]);
        let result = target
            .client
            .execute(&Meter::new(), &target.posts, post_id, "absorb", &arguments)
            .await?;
        // The procedure may end early because of its time limit. Without progress the loop would
        // never end.
        match result.as_i64() {
            Some(-1) => {}
            Some(stored) if stored > 0 => {
                remaining = &remaining[(stored as usize).min(remaining.len())..];
            }
            _ => {
                return Err(BlogError::unexpected(
                    format!("absorb of '{post_id}'"),
                    result.to_string(),
                ));
            }
        }
    }
    Ok(())
}

/// Runs futures, up to [`CONCURRENT_REACTIONS`] at a time.
async fn for_each_concurrently<F>(futures: impl IntoIterator<Item = F>) -> Result<(), BlogError>
where
    F: Future<Output = Result<(), BlogError>>,
{
    let futures: Vec<F> = futures.into_iter().collect();
    let mut results = stream::iter(futures).buffer_unordered(CONCURRENT_REACTIONS);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}
