//! V1: every entity is stored once, and nothing is copied.
//!
//! `users` (partition key `/id`) contains the users. `posts` (`/postId`) contains the posts, each
//! with its comments and likes in the same logical partition. A write is a single create. Reads are
//! expensive: usernames are read one by one, comments and likes are counted by queries, and lists
//! of posts query every physical partition.

use super::{Blog, COMMENTS_OF_POST, FEED, LIKES_OF_POST, POSTS_OF_USER};
use crate::dataset::{Comment, Like, Post, User};
use crate::query::Query;
use crate::{BlogError, Meter};
use futures_util::future::{try_join, try_join_all};
use serde_json::{Value, json};

/// Returns the item of a user in V1 and V2.
pub(crate) fn user_item(user: &User) -> Value {
    json!({"id": user.id, "username": user.username})
}

/// Returns the item of a post in V1.
pub(crate) fn post_item(post: &Post) -> Value {
    json!({
        "id": post.id,
        "type": "post",
        "postId": post.id,
        "userId": post.user.id,
        "title": post.title,
        "content": post.content,
        "creationDate": post.created,
    })
}

/// Returns the item of a comment in V1.
pub(crate) fn comment_item(comment: &Comment) -> Value {
    json!({
        "id": comment.id,
        "type": "comment",
        "postId": comment.post_id,
        "userId": comment.user.id,
        "content": comment.content,
        "creationDate": comment.created,
    })
}

/// Returns the item of a like in V1.
pub(crate) fn like_item(like: &Like) -> Value {
    json!({
        "id": like.id,
        "type": "like",
        "postId": like.post_id,
        "userId": like.user.id,
        "creationDate": like.created,
    })
}

/// Q2: reads the post and its author and counts comments and likes: four operations.
pub(super) async fn post(blog: &Blog, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
    let post = blog.stored_post(meter, post_id).await?;
    let username = username_of(blog, meter, &post).await?;
    with_counts(blog, meter, post, username).await
}

/// Q3: queries every partition for the user's posts, then counts comments and likes of each.
pub(super) async fn posts_of_user(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let query = Query::new(POSTS_OF_USER).with("@userId", user_id);
    let posts = blog.client.query_all(meter, &blog.posts, &query).await?;
    complete_posts(blog, meter, user_id, posts).await
}

/// Adds the author's name and the counts to posts of one user.
pub(super) async fn complete_posts(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
    posts: Vec<Value>,
) -> Result<Vec<Value>, BlogError> {
    // All posts have the same author, so one read is enough.
    let user = blog.user(meter, user_id).await?;
    let complete = posts
        .into_iter()
        .map(|post| with_counts(blog, meter, post, user["username"].clone()));
    try_join_all(complete).await
}

/// Q4: queries the comments, then reads the author of each.
pub(super) async fn comments(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let comments = blog.query_in_post(meter, post_id, COMMENTS_OF_POST).await?;
    with_usernames(blog, meter, comments).await
}

/// Q5: queries the likes, then reads the user of each.
pub(super) async fn likes(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let likes = blog.query_in_post(meter, post_id, LIKES_OF_POST).await?;
    with_usernames(blog, meter, likes).await
}

/// Q6: queries every partition for its newest posts, then reads the author and counts comments and
/// likes of each of the hundred posts.
pub(super) async fn feed(blog: &Blog, meter: &Meter) -> Result<Vec<Value>, BlogError> {
    let posts = blog
        .client
        .query_all(meter, &blog.posts, &Query::new(FEED))
        .await?;
    complete_feed(blog, meter, posts).await
}

/// Adds the names of their authors and the counts to posts of several users.
pub(super) async fn complete_feed(
    blog: &Blog,
    meter: &Meter,
    posts: Vec<Value>,
) -> Result<Vec<Value>, BlogError> {
    let complete = posts.into_iter().map(|post| async {
        let username = username_of(blog, meter, &post).await?;
        with_counts(blog, meter, post, username).await
    });
    try_join_all(complete).await
}

/// Reads the name of the user to whom an item belongs.
async fn username_of(blog: &Blog, meter: &Meter, item: &Value) -> Result<Value, BlogError> {
    let user_id = item["userId"].as_str().unwrap_or_default();
    Ok(blog.user(meter, user_id).await?["username"].take())
}

/// Adds the usernames to comments or likes.
pub(super) async fn with_usernames(
    blog: &Blog,
    meter: &Meter,
    items: Vec<Value>,
) -> Result<Vec<Value>, BlogError> {
    let complete = items.into_iter().map(|mut item| async {
        item["userUsername"] = username_of(blog, meter, &item).await?;
        Ok(item)
    });
    try_join_all(complete).await
}

/// Adds the username and the numbers of comments and likes to a post.
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
            // A page may hold a part of the count; the sum of all rows is the result.
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
