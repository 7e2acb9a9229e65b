//! V3: every frequent list has a logical partition of its own.
//!
//! `posts` is that of V2. `users` has the partition key `/userId` and contains, besides each user,
//! a short copy of each of the user's posts, so that Q3 is a query in one logical partition. `feed`
//! (partition key `/type`) contains short copies of the 100 newest posts, so that Q6 is a query in
//! one logical partition as well. The change feed of `posts` maintains both copies (see
//! `pipelines`).

use super::{Blog, FEED};
use crate::dataset::User;
use crate::excerpt::excerpt;
use crate::query::Query;
use crate::{BlogError, Meter};
use serde_json::{Value, json};

/// Returns the item of a user in V3.
pub(crate) fn user_item(user: &User) -> Value {
    json!({"id": user.id, "type": "user", "userId": user.id, "username": user.username})
}

/// Returns the short copy of a post, without system properties: the content is an excerpt. `None`
/// if the item is not a post.
pub(crate) fn short_post(item: &Value) -> Option<Value> {
    if item["type"] != "post" {
        return None;
    }
    let mut short = item.clone();
    // The names of system properties begin with an underscore.
    short
        .as_object_mut()?
        .retain(|name, _| !name.starts_with('_'));
    let content = excerpt(item["content"].as_str().unwrap_or_default());
    short["content"] = content.into();
    Some(short)
}

/// Q3: runs one query in the user's logical partition.
pub(super) async fn posts_of_user(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let query = Query::new(super::POSTS_OF_USER).with("@userId", user_id);
    blog.client.query(meter, &blog.users, user_id, &query).await
}

/// Q6: runs one query in the logical partition of the feed.
pub(super) async fn feed(blog: &Blog, meter: &Meter) -> Result<Vec<Value>, BlogError> {
    blog.client
        .query(meter, &blog.feed, "post", &Query::new(FEED))
        .await
}
