//! The reactions to changes. Each is idempotent, and a later version of an item is never replaced
//! by an earlier one as long as the changes of one item are processed in order.

use super::{Pipeline, Reaction};
use crate::models::{Blog, FEED_LENGTH, short_post};
use crate::{BlogError, Meter, Query};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The posts with items of a user under another name than the parameter `@username`.
pub(crate) const POSTS_WITH_OLD_NAME: &str = "\
    SELECT DISTINCT VALUE c.postId FROM c WHERE c.userId = @userId \
    AND (NOT IS_DEFINED(c.userUsername) OR c.userUsername != @username)";

/// Concurrent reactions to one page, and concurrent procedures in one rename.
const CONCURRENT_REACTIONS: usize = 8;
/// The type of the item that a deleted post becomes.
const DELETED_POST: &str = "deletedPost";

/// The state that the reactions to one page share.
#[derive(Default)]
pub(super) struct Page {
    /// Date of the oldest post of a full feed, read after the page; `None` if the feed is not full.
    pub(super) floor: OnceLock<Option<String>>,
}

impl Reaction {
    /// Returns the items of a page that concern the reaction, in the order in which they are to be
    /// processed.
    pub(super) fn concerned(self, items: &[Value]) -> Vec<&Value> {
        let concerns = |item: &&Value| match self {
            // `users` of V3 also contains short posts.
            Self::RenameInPosts => item.get("type").is_none_or(|kind| kind == "user"),
            Self::CopyToUsers | Self::CopyToFeed => {
                item["type"] == "post" || item["type"] == DELETED_POST
            }
        };
        let concerned = items.iter().filter(concerns).collect();
        match self {
            Self::CopyToFeed => in_order_of_feed(concerned),
            Self::RenameInPosts | Self::CopyToUsers => concerned,
        }
    }

    /// Returns the number of items of a page that may be processed at the same time. The copies
    /// of the feed are in one logical partition, where concurrent writes only wait.
    pub(super) fn items_at_a_time(self) -> usize {
        match self {
            Self::CopyToFeed => 1,
            _ => CONCURRENT_REACTIONS,
        }
    }
}

/// Returns the posts of a page that can be in the feed, newest first, and then the deleted posts.
/// Only the newest hundred posts of a page can stay in the feed.
fn in_order_of_feed(items: Vec<&Value>) -> Vec<&Value> {
    let (mut posts, deleted): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item["type"] == "post");
    posts.sort_by(|a, b| b["creationDate"].as_str().cmp(&a["creationDate"].as_str()));
    posts.truncate(FEED_LENGTH as usize);
    posts.extend(deleted);
    posts
}

impl Pipeline {
    /// Reacts to one changed item and returns the number of items written.
    pub(super) async fn react(
        &self,
        reaction: Reaction,
        page: &Page,
        meter: &Meter,
        item: &Value,
    ) -> Result<u64, BlogError> {
        let is_deleted = item["type"] == DELETED_POST;
        match reaction {
            Reaction::RenameInPosts => self.rename_user(meter, item).await,
            Reaction::CopyToUsers if is_deleted => self.remove_from_user(meter, item).await,
            Reaction::CopyToUsers => self.copy_to_user(meter, item).await,
            Reaction::CopyToFeed if is_deleted => self.remove_from_feed(meter, item).await,
            Reaction::CopyToFeed => self.copy_to_feed(page, meter, item).await,
        }
    }

    /// Writes the short copy of a post to the author's partition in `users`.
    async fn copy_to_user(&self, meter: &Meter, post: &Value) -> Result<u64, BlogError> {
        let user_id = string_property(post, "userId")?;
        let Some(short) = short_post(post) else {
            return Ok(0);
        };
        let users = &self.blog.users;
        self.blog
            .client
            .upsert(meter, users, user_id, &short, None)
            .await?;
        Ok(1)
    }

    /// Removes the short copy of a deleted post from the author's partition in `users`.
    async fn remove_from_user(&self, meter: &Meter, deleted: &Value) -> Result<u64, BlogError> {
        let user_id = string_property(deleted, "userId")?;
        let id = string_property(deleted, "id")?;
        remove_item(&self.blog, meter, &self.blog.users, user_id, id).await
    }

    /// Rewrites the name of a changed user in `posts`.
    async fn rename_user(&self, meter: &Meter, user: &Value) -> Result<u64, BlogError> {
        let id = string_property(user, "id")?;
        let username = string_property(user, "username")?;
        rename_in_posts(&self.blog, meter, id, username).await
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
