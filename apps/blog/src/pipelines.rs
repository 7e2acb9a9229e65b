//! The pipelines that keep copies up to date: each reads a change feed and reacts to every change.
//!
//! ```text
//! V2, V3   users ──changes──> updateUsernames in every post that shows the user's name
//! V3       posts ──changes──> users: a short copy of the post
//! V3       posts ──changes──> feed:  a short copy, then the post-trigger truncateFeed
//! upgrade  users, posts of an older model ──changes──> the same of a newer one
//! ```
//!
//! A pipeline reads each physical partition's feed from its own position and moves it forward only after the reactions to
//! a page are done. So it may stop at any point and go on from stored [`Positions`]: some changes are then seen twice,
//! and every reaction is such that twice is as good as once. Different partitions are worked on side by side.
//!
//! Deleted items do not appear in the change feed, and so are not followed. The blog deletes nothing.

use crate::feed::Positions;
use crate::models::{Blog, FEED_LENGTH, Model, short_post};
use crate::{BlogError, Meter, Query};
use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Changes read at once from one partition.
const PAGE: usize = 500;
/// Reactions under way at once for one page.
const CONCURRENT: usize = 8;
/// Items handed to one run of `absorb`: with text of a few KB each, well below the largest request.
const ABSORBED_AT_ONCE: usize = 200;
/// Names kept at once while moving from V1.
const MAX_NAMES: usize = 200_000;

/// What a pipeline does with changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// V2, V3: changes of `users` rewrite the user's name in `posts`.
    RenameInPosts,
    /// V3: changes of `posts` are copied, short, to their authors in `users`.
    CopyToUsers,
    /// V3: changes of `posts` are copied, short, to `feed`, which keeps the newest.
    CopyToFeed,
    /// Upgrade: changes of an older model's `users` are taken over, and renamed in `posts` if asked.
    TakeUsers {
        /// Whether posts taken over before may carry an older name.
        rename: bool,
    },
    /// Upgrade: changes of an older model's `posts` are taken over with names and counts.
    TakePosts,
}

/// What a pipeline has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progressed {
    /// Changes read.
    pub changes: u64,
    /// Items written in reaction.
    pub written: u64,
}

/// A change feed, a reaction, and how far it has come.
#[derive(Clone)]
pub struct Pipeline {
    source: Blog,
    target: Blog,
    reaction: Reaction,
    positions: Positions,
    /// Usernames met while moving from V1; forgotten before each run, since users may be renamed.
    names: Arc<Mutex<HashMap<String, Value>>>,
}

impl Pipeline {
    /// A pipeline from the beginning of the feed. Only the reactions of an upgrade have a source other than the target.
    pub fn new(source: &Blog, target: &Blog, reaction: Reaction) -> Self {
        let (source, target) = (source.clone(), target.clone());
        Self {
            source,
            target,
            reaction,
            positions: Positions::default(),
            names: Arc::default(),
        }
    }

    /// The pipelines that a model needs while it runs; V1 needs none.
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

    /// The same pipeline, going on from stored positions.
    pub fn from_positions(mut self, positions: Positions) -> Self {
        self.positions = positions;
        self
    }

    /// How far each partition has been read; to be stored.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Reads and reacts until no partition has anything new.
    pub async fn drain(&mut self) -> Result<Progressed, BlogError> {
        self.names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let mut sum = Progressed::default();
        let mut splits = 0;
        loop {
            match self.round().await {
                Ok(round) if round.changes == 0 => return Ok(sum),
                Ok(round) => {
                    sum.changes += round.changes;
                    sum.written += round.written;
                }
                Err(e) if e.is_range_gone() && splits < 10 => {
                    splits += 1;
                    self.source.client.forget(self.container());
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// One page of every partition. What was done before an error is kept.
    async fn round(&mut self) -> Result<Progressed, BlogError> {
        let ranges = self.source.client.ranges(self.container()).await?;
        let reading = ranges.iter().map(|range| async {
            let etag = self.positions.of(range);
            let meter = Meter::new();
            let changes = self
                .source
                .client
                .changes(&meter, self.container(), &range.id, etag, PAGE)
                .await?;
            let count = changes.items.len() as u64;
            let written = self.react(&meter, changes.items).await?;
            Ok((
                changes.etag,
                Progressed {
                    changes: count,
                    written,
                },
            ))
        });
        let results: Vec<Result<_, BlogError>> = join_all(reading).await;
        let mut sum = Progressed::default();
        let mut failed = None;
        for (range, result) in ranges.iter().zip(results) {
            match result {
                Ok((etag, done)) => {
                    self.positions.advance(&range.id, etag);
                    sum.changes += done.changes;
                    sum.written += done.written;
                }
                Err(e) => failed = Some(e),
            }
        }
        failed.map_or(Ok(sum), Err)
    }

    fn container(&self) -> &str {
        match self.reaction {
            Reaction::RenameInPosts | Reaction::TakeUsers { .. } => &self.source.users,
            Reaction::CopyToUsers | Reaction::CopyToFeed | Reaction::TakePosts => {
                &self.source.posts
            }
        }
    }

    /// From now on, changes of users that are taken over are renamed in posts too.
    pub(crate) fn rename_from_now_on(&mut self) {
        if let Reaction::TakeUsers { rename } = &mut self.reaction {
            *rename = true;
        }
    }

    async fn react(&self, meter: &Meter, items: Vec<Value>) -> Result<u64, BlogError> {
        match self.reaction {
            Reaction::TakePosts => self.take_posts(meter, items).await,
            Reaction::CopyToFeed => self.copy_to_feed(meter, items).await,
            Reaction::CopyToUsers => {
                let posts: Vec<_> = items.iter().filter_map(short_post).collect();
                let copies = posts.iter().map(|post| self.copy_to_user(meter, post));
                stream::iter(copies)
                    .buffer_unordered(CONCURRENT)
                    .try_fold(0, |sum, ()| async move { Ok(sum + 1) })
                    .await
            }
            Reaction::RenameInPosts | Reaction::TakeUsers { .. } => {
                // V3 keeps short posts beside the users; they are no users.
                let users = items
                    .iter()
                    .filter(|item| item.get("type").is_none_or(|kind| kind == "user"));
                let reactions: Vec<_> = users.map(|user| self.react_to_user(meter, user)).collect();
                stream::iter(reactions)
                    .buffer_unordered(CONCURRENT)
                    .try_fold(0, |s, n| async move { Ok(s + n) })
                    .await
            }
        }
    }

    async fn copy_to_user(&self, meter: &Meter, post: &Value) -> Result<(), BlogError> {
        let user_id = text(post, "userId")?;
        self.target
            .client
            .upsert(meter, &self.target.users, user_id, post, None)
            .await
    }

    /// Of one page only the newest hundred can stay in the feed, so only these are written, the oldest first.
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

    async fn react_to_user(&self, meter: &Meter, user: &Value) -> Result<u64, BlogError> {
        let (id, username) = (text(user, "id")?, text(user, "username")?);
        let mut written = 0;
        if let Reaction::TakeUsers { .. } = self.reaction {
            let user = crate::dataset::User {
                id: id.to_owned(),
                username: username.to_owned(),
            };
            let item = crate::models::user_item(self.target.model, &user);
            self.target
                .client
                .upsert(meter, &self.target.users, id, &item, None)
                .await?;
            written += 1;
        }
        if self.reaction != (Reaction::TakeUsers { rename: false }) {
            written += rename_in_posts(&self.target, meter, id, username).await?;
        }
        Ok(written)
    }

    /// Hands the changes of each post to `absorb`, which stores them and sets the post's counts.
    async fn take_posts(&self, meter: &Meter, items: Vec<Value>) -> Result<u64, BlogError> {
        let mut by_post: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for mut item in items {
            if let Some(map) = item.as_object_mut() {
                map.retain(|name, _| !name.starts_with('_'));
            }
            if item.get("userUsername").is_none() {
                item["userUsername"] = self.name_of(meter, text(&item, "userId")?).await?;
            }
            by_post
                .entry(text(&item, "postId")?.to_owned())
                .or_default()
                .push(item);
        }
        let posts: Vec<_> = by_post
            .iter()
            .map(|(post_id, items)| self.absorb(meter, post_id, items))
            .collect();
        stream::iter(posts)
            .buffer_unordered(CONCURRENT)
            .try_fold(0, |sum, n| async move { Ok(sum + n) })
            .await
    }

    async fn absorb(
        &self,
        meter: &Meter,
        post_id: &str,
        items: &[Value],
    ) -> Result<u64, BlogError> {
        let mut left = items;
        while !left.is_empty() {
            let arguments = json!([post_id, &left[..left.len().min(ABSORBED_AT_ONCE)]]);
            let answer = self
                .target
                .client
                .execute(meter, &self.target.posts, post_id, "absorb", &arguments)
                .await?;
            match answer.as_u64() {
                Some(taken) if taken > 0 => left = &left[(taken as usize).min(left.len())..],
                _ => {
                    return Err(BlogError::unexpected(
                        format!("absorb of '{post_id}'"),
                        answer.to_string(),
                    ));
                }
            }
        }
        Ok(items.len() as u64)
    }

    async fn name_of(&self, meter: &Meter, user_id: &str) -> Result<Value, BlogError> {
        let known = self
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(user_id)
            .cloned();
        if let Some(name) = known {
            return Ok(name);
        }
        let name = self.source.user(meter, user_id).await?["username"].take();
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(user_id.to_owned(), name.clone());
        Ok(name)
    }
}

/// Rewrites a user's name on everything he has in `posts`; answers the number of items changed.
async fn rename_in_posts(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
    username: &str,
) -> Result<u64, BlogError> {
    const STALE: &str = "SELECT DISTINCT VALUE c.postId FROM c WHERE c.userId = @userId \
                         AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)";
    let query = Query::new(STALE)
        .with("@userId", user_id)
        .with("@username", username);
    let posts = blog.client.query_all(meter, &blog.posts, &query).await?;
    let arguments = json!([user_id, username]);
    let rename = |post_id: Value| {
        let arguments = &arguments;
        async move {
            let post_id = post_id.as_str().unwrap_or_default();
            let mut updated = 0;
            loop {
                let answer = blog
                    .client
                    .execute(meter, &blog.posts, post_id, "updateUsernames", arguments)
                    .await?;
                let step = answer["updated"].as_u64().unwrap_or(0);
                updated += step;
                if answer["done"] == true {
                    return Ok(updated);
                }
                if step == 0 {
                    return Err(BlogError::unexpected(
                        format!("updateUsernames in '{post_id}'"),
                        answer.to_string(),
                    ));
                }
            }
        }
    };
    let renames = posts.into_iter().map(rename);
    stream::iter(renames)
        .buffer_unordered(CONCURRENT)
        .try_fold(0, |sum, n| async move { Ok(sum + n) })
        .await
}

fn text<'a>(item: &'a Value, name: &str) -> Result<&'a str, BlogError> {
    item[name].as_str().ok_or_else(|| {
        BlogError::unexpected("change feed", format!("an item without {name}: {item}"))
    })
}
