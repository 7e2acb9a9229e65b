//! V3: every list that is asked for often has a place of its own.
//!
//! `posts` is as in V2. `users` is keyed by `/userId` and holds, beside each user, a short copy of each of his posts: Q3
//! becomes a query in one logical partition. `feed`, keyed by `/type`, holds short copies of the 100 newest posts of all:
//! Q6 likewise. Both copies are kept by the change feed of `posts` (see `pipelines`).

use super::{Blog, FEED};
use crate::dataset::User;
use crate::query::Query;
use crate::{BlogError, Meter};
use serde_json::{Value, json};

/// Characters of its text that a short post keeps.
const SHORT_CONTENT: usize = 35;

/// A user as V3 stores it.
pub(crate) fn user_item(user: &User) -> Value {
    json!({"id": user.id, "type": "user", "userId": user.id, "username": user.username})
}

/// The short copy of a post of `posts`, without system properties; none if the item is no post.
pub(crate) fn short_post(item: &Value) -> Option<Value> {
    if item["type"] != "post" {
        return None;
    }
    let kept = item
        .as_object()?
        .iter()
        .filter(|(name, _)| !name.starts_with('_'));
    let mut short: Value = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let content: String = item["content"]
        .as_str()
        .unwrap_or_default()
        .chars()
        .take(SHORT_CONTENT)
        .collect();
    short["content"] = content.into();
    Some(short)
}

/// Q3: one query in the user's logical partition.
pub(super) async fn posts_of_user(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let query = Query::new(super::POSTS_OF_USER).with("@userId", user_id);
    blog.client.query(meter, &blog.users, user_id, &query).await
}

/// Q6: one query in the one logical partition of the feed.
pub(super) async fn feed(blog: &Blog, meter: &Meter) -> Result<Vec<Value>, BlogError> {
    blog.client
        .query(meter, &blog.feed, "post", &Query::new(FEED))
        .await
}
