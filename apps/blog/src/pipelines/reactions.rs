//! The reactions to changes. Each is idempotent, and a later version of an item is never replaced
//! by an earlier one as long as the changes of one item are processed in order.

use super::{Pipeline, Reaction};
use crate::dataset::User;
use crate::models::{Blog, FEED_LENGTH, short_post, user_item};
use crate::sync::lock;
use crate::{BlogError, Meter, Query};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The posts with items of a user under another name than the parameter `@username`.
pub(crate) const POSTS_WITH_OLD_NAME: &str = "\
    SELECT DISTINCT VALUE c.postId FROM c WHERE c.userId = @userId \
    AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)";

/// Concurrent reactions to one page, and concurrent procedures in one rename.
const CONCURRENT_REACTIONS: usize = 8;
/// Items in one call of `absorb`. With texts of a few KB each, the request stays well below the
/// size limit.
const ABSORBED_ITEMS_MAX: usize = 200;
/// Usernames in the cache of a page during a migration from V1.
const NAMES_MAX: usize = 200_000;
/// The type of the item that a deleted post becomes.
const DELETED_POST: &str = "deletedPost";

/// The changed items to which a reaction reacts in one step: an item, or in a migration all items
/// of a post.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject {
    /// The changed items; never empty.
    pub(super) items: Vec<Value>,
}

impl Subject {
    /// Returns a property of the first item, or an empty text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.items
            .first()
            .and_then(|item| item[name].as_str())
            .unwrap_or_default()
    }
}

/// What the reactions to one page share.
#[derive(Default)]
pub(super) struct Page {
    /// Date of the oldest post of a full feed, read after the page; `None` if the feed is not full.
    pub(super) floor: OnceLock<Option<String>>,
}

impl Reaction {
    /// Returns the subjects among the items of a page, in the order in which they are to be
    /// processed. Items that do not concern the reaction are left out.
    pub(super) fn subjects(self, items: &[Value]) -> Vec<Subject> {
        let single = |item: &Value| Subject {
            items: vec![item.clone()],
        };
        match self {
            // `users` of V3 also contains short posts.
            Self::RenameInPosts | Self::MigrateUsers { .. } => items
                .iter()
                .filter(|item| item.get("type").is_none_or(|kind| kind == "user"))
                .map(single)
                .collect(),
            Self::CopyToUsers => items
                .iter()
                .filter(|item| item["type"] == "post" || item["type"] == DELETED_POST)
                .map(single)
                .collect(),
            Self::CopyToFeed => feed_subjects(items),
            Self::MigratePosts => {
                let mut by_post: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
                for item in items {
                    let post_id = item["postId"].as_str().unwrap_or_default();
                    by_post.entry(post_id).or_default().push(item.clone());
                }
                by_post
                    .into_values()
                    .map(|items| Subject { items })
                    .collect()
            }
        }
    }

    /// Returns the number of subjects of a page that may be processed at the same time. The copies
    /// of the feed are in one logical partition, where concurrent writes only wait.
    pub(super) fn subjects_at_a_time(self) -> usize {
        match self {
            Self::CopyToFeed => 1,
            _ => CONCURRENT_REACTIONS,
        }
    }
}

/// Returns the posts of a page that can be in the feed, newest first, and then the deleted posts.
/// Only the newest hundred posts of a page can stay in the feed.
fn feed_subjects(items: &[Value]) -> Vec<Subject> {
    let (mut posts, mut deleted) = (Vec::new(), Vec::new());
    for item in items {
        if item["type"] == "post" {
            posts.push(item);
        } else if item["type"] == DELETED_POST {
            deleted.push(item);
        }
    }
    posts.sort_by(|a, b| b["creationDate"].as_str().cmp(&a["creationDate"].as_str()));
    posts.truncate(FEED_LENGTH as usize);
    posts
        .into_iter()
        .chain(deleted)
        .map(|item| Subject {
            items: vec![item.clone()],
        })
        .collect()
}

impl Pipeline {
    /// Reacts to one subject and returns the number of items written.
    pub(super) async fn react(
        &self,
        reaction: Reaction,
        page: &Page,
        meter: &Meter,
        subject: &Subject,
    ) -> Result<u64, BlogError> {
        let Some(item) = subject.items.first() else {
            return Ok(0);
        };
        let is_deleted = item["type"] == DELETED_POST;
        match reaction {
            Reaction::RenameInPosts | Reaction::MigrateUsers { .. } => {
                self.react_to_user(reaction, meter, item).await
            }
            Reaction::CopyToUsers if is_deleted => self.remove_from_user(meter, item).await,
            Reaction::CopyToUsers => self.copy_to_user(meter, item).await,
            Reaction::CopyToFeed if is_deleted => self.remove_from_feed(meter, item).await,
            Reaction::CopyToFeed => self.copy_to_feed(page, meter, item).await,
            Reaction::MigratePosts => self.migrate_items(meter, &subject.items).await,
        }
    }

    /// Writes the short copy of a post to the author's partition in `users`.
    async fn copy_to_user(&self, meter: &Meter, post: &Value) -> Result<u64, BlogError> {
        let user_id = string_property(post, "userId")?;
        let Some(short) = short_post(post) else {
            return Ok(0);
        };
        let users = &self.target.users;
        self.target
            .client
            .upsert(meter, users, user_id, &short, None)
            .await?;
        Ok(1)
    }

    /// Removes the short copy of a deleted post from the author's partition in `users`.
    async fn remove_from_user(&self, meter: &Meter, deleted: &Value) -> Result<u64, BlogError> {
        let user_id = string_property(deleted, "userId")?;
        let id = string_property(deleted, "id")?;
        remove_item(&self.target, meter, &self.target.users, user_id, id).await
    }

    /// Copies a changed user to the target, rewrites the name in `posts`, or both.
    async fn react_to_user(
        &self,
        reaction: Reaction,
        meter: &Meter,
        user: &Value,
    ) -> Result<u64, BlogError> {
        let id = string_property(user, "id")?;
        let username = string_property(user, "username")?;
        let mut written = 0;
        if let Reaction::MigrateUsers { .. } = reaction {
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
        if reaction != (Reaction::MigrateUsers { rename: false }) {
            written += rename_in_posts(&self.target, meter, id, username).await?;
        }
        Ok(written)
    }

    /// Passes the changed items of one post to the stored procedure `absorb`, which stores the
    /// items and sets the counts of the post.
    async fn migrate_items(&self, meter: &Meter, items: &[Value]) -> Result<u64, BlogError> {
        let mut absorbed = Vec::with_capacity(items.len());
        let mut post_id = "";
        for item in items {
            post_id = string_property(item, "postId")?;
            let mut item = item.clone();
            // System properties belong to the old item.
            if let Some(properties) = item.as_object_mut() {
                properties.retain(|name, _| !name.starts_with('_'));
            }
            if item.get("userUsername").is_none() {
                let user_id = string_property(&item, "userId")?;
                item["userUsername"] = self.username(meter, user_id).await?;
            }
            absorbed.push(item);
        }
        self.absorb(meter, post_id, &absorbed).await
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

/// Runs futures, up to `at_a_time` at the same time, and returns the sum of their results or the
/// first error.
pub(super) async fn sum_concurrently<F>(
    at_a_time: usize,
    futures: impl IntoIterator<Item = F>,
) -> Result<u64, BlogError>
where
    F: Future<Output = Result<u64, BlogError>>,
{
    let mut results = stream::iter(futures).buffer_unordered(at_a_time);
    let mut sum = 0;
    while let Some(result) = results.next().await {
        sum += result?;
    }
    Ok(sum)
}

/// Deletes an item. Returns the number of items deleted: 0 if the item does not exist.
pub(super) async fn remove_item(
    blog: &Blog,
    meter: &Meter,
    container: &str,
    key: &str,
    id: &str,
) -> Result<u64, BlogError> {
    match blog.client.delete(meter, container, key, id, None).await {
        Err(e) if e.is_item_missing() => Ok(0),
        deleted => deleted.map(|()| 1),
    }
}

/// Rewrites a user's name in all of the user's items in `posts`. Returns the number of items
/// changed.
async fn rename_in_posts(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
    username: &str,
) -> Result<u64, BlogError> {
    let query = Query::new(POSTS_WITH_OLD_NAME)
        .with("@userId", user_id)
        .with("@username", username);
    let posts = blog.client.query_all(meter, &blog.posts, &query).await?;
    let arguments = json!([user_id, username]);
    let renames = posts
        .iter()
        .map(|post_id| rename_in_post(blog, meter, post_id, &arguments));
    sum_concurrently(CONCURRENT_REACTIONS, renames.collect::<Vec<_>>()).await
}

/// Runs `updateUsernames` in the logical partition of one post until all items have the new name.
pub(crate) async fn rename_in_post(
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
pub(super) fn string_property<'a>(item: &'a Value, name: &str) -> Result<&'a str, BlogError> {
    item[name].as_str().ok_or_else(|| {
        BlogError::unexpected("change feed", format!("an item without {name}: {item}"))
    })
}
