//! V1: every entity once, nothing copied.
//!
//! `users` (key `/id`) holds users; `posts` (key `/postId`) holds posts with their comments and likes beside them. Writes
//! are one create each. Reads pay: usernames are fetched one by one, counts are counted, and lists across posts ask
//! every physical partition.

use super::{Blog, COMMENTS_OF_POST, FEED, LIKES_OF_POST, POSTS_OF_USER};
use crate::dataset::{Comment, Like, Post, User};
use crate::query::Query;
use crate::{BlogError, Meter};
use futures_util::future::{try_join, try_join_all};
use serde_json::{Value, json};

/// A user as V1 and V2 store it.
pub(crate) fn user_item(user: &User) -> Value {
    json!({"id": user.id, "username": user.username})
}

/// A post as V1 stores it.
pub(crate) fn post_item(post: &Post) -> Value {
    json!({
        "id": post.id, "type": "post", "postId": post.id, "userId": post.user.id,
        "title": post.title, "content": post.content, "creationDate": post.created,
    })
}

/// A comment as V1 stores it.
pub(crate) fn comment_item(comment: &Comment) -> Value {
    json!({
        "id": comment.id, "type": "comment", "postId": comment.post_id, "userId": comment.user.id,
        "content": comment.content, "creationDate": comment.created,
    })
}

/// A like as V1 stores it.
pub(crate) fn like_item(like: &Like) -> Value {
    json!({
        "id": like.id, "type": "like", "postId": like.post_id, "userId": like.user.id, "creationDate": like.created,
    })
}

/// Q2: the post, its author's name, and its two counts: four operations.
pub(super) async fn post(blog: &Blog, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
    let post = blog
        .client
        .read(meter, &blog.posts, post_id, post_id)
        .await?;
    let username = username_of(blog, meter, &post).await?;
    with_counts(blog, meter, post, username).await
}

/// Q3: asks every partition for the user's posts, then counts for each; all of them have the one author.
pub(super) async fn posts_of_user(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let posts = blog
        .client
        .query_all(
            meter,
            &blog.posts,
            &Query::new(POSTS_OF_USER).with("@userId", user_id),
        )
        .await?;
    let user = blog.user(meter, user_id).await?;
    let shown = posts
        .into_iter()
        .map(|post| with_counts(blog, meter, post, user["username"].clone()));
    try_join_all(shown).await
}

/// Q4: the comments, then one read for the name of each.
pub(super) async fn comments(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    with_usernames(
        blog,
        meter,
        blog.in_post(meter, post_id, COMMENTS_OF_POST).await?,
    )
    .await
}

/// Q5: the likes, then one read for the name of each.
pub(super) async fn likes(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    with_usernames(
        blog,
        meter,
        blog.in_post(meter, post_id, LIKES_OF_POST).await?,
    )
    .await
}

/// Q6: asks every partition for its newest posts, then gathers names and counts for each of the hundred.
pub(super) async fn feed(blog: &Blog, meter: &Meter) -> Result<Vec<Value>, BlogError> {
    let posts = blog
        .client
        .query_all(meter, &blog.posts, &Query::new(FEED))
        .await?;
    let shown = posts.into_iter().map(|post| async {
        let username = username_of(blog, meter, &post).await?;
        with_counts(blog, meter, post, username).await
    });
    try_join_all(shown).await
}

async fn username_of(blog: &Blog, meter: &Meter, item: &Value) -> Result<Value, BlogError> {
    let user_id = item["userId"].as_str().unwrap_or_default();
    Ok(blog.user(meter, user_id).await?["username"].take())
}

async fn with_usernames(
    blog: &Blog,
    meter: &Meter,
    items: Vec<Value>,
) -> Result<Vec<Value>, BlogError> {
    let named = items.into_iter().map(|mut item| async {
        item["userUsername"] = username_of(blog, meter, &item).await?;
        Ok(item)
    });
    try_join_all(named).await
}

async fn with_counts(
    blog: &Blog,
    meter: &Meter,
    mut post: Value,
    username: Value,
) -> Result<Value, BlogError> {
    const COUNT: &str = "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @postId AND c.type = @type";
    let post_id = post["id"].as_str().unwrap_or_default().to_owned();
    let count = |kind: &'static str| {
        let query = Query::new(COUNT)
            .with("@postId", post_id.as_str())
            .with("@type", kind);
        let post_id = &post_id;
        async move {
            // A long count may come in parts, one row each.
            let rows = blog
                .client
                .query(meter, &blog.posts, post_id, &query)
                .await?;
            Ok::<u64, BlogError>(rows.iter().filter_map(Value::as_u64).sum())
        }
    };
    let (comments, likes) = try_join(count("comment"), count("like")).await?;
    post["userUsername"] = username;
    post["commentCount"] = comments.into();
    post["likeCount"] = likes.into();
    Ok(post)
}
