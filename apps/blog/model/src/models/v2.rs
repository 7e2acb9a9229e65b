//! V2: names and counts are copied into the items that show them.
//!
//! The containers are those of V1. Posts also have `userUsername`, `commentCount` and `likeCount`;
//! comments and likes have `userUsername`. A stored procedure writes a comment or like and
//! increments the count of its post in one transaction. After a user is renamed, the change feed of
//! `users` drives the procedure `updateUsernames` (see `pipelines`). V3 uses the same `posts`.

use super::{Blog, COMMENTS_OF_POST, FEED, LIKES_OF_POST, POSTS_OF_USER, v1};
use crate::dataset::{Comment, Like, Post};
use crate::query::Query;
use crate::{BlogError, Meter};
use serde_json::{Value, json};

/// Returns the item of a post in V2 and V3.
pub(crate) fn post_item(post: &Post, comments: u64, likes: u64) -> Value {
    json!({
        "id": post.id,
        "type": "post",
        "postId": post.id,
        "userId": post.user.id,
        "userUsername": post.user.username,
        "title": post.title,
        "content": post.content,
        "commentCount": comments,
        "likeCount": likes,
        "creationDate": post.created,
    })
}

/// Returns the item of a comment in V2 and V3.
pub(crate) fn comment_item(comment: &Comment) -> Value {
    let mut item = v1::comment_item(comment);
    item["userUsername"] = comment.user.username.as_str().into();
    item
}

/// Returns the item of a like in V2 and V3.
pub(crate) fn like_item(like: &Like) -> Value {
    let mut item = v1::like_item(like);
    item["userUsername"] = like.user.username.as_str().into();
    item
}

/// Q2: reads the post.
pub(super) async fn post(blog: &Blog, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
    blog.stored_post(meter, post_id).await
}

/// Q3: queries every partition, because posts are not partitioned by user.
pub(super) async fn posts_of_user(
    blog: &Blog,
    meter: &Meter,
    user_id: &str,
) -> Result<Vec<Value>, BlogError> {
    let query = Query::new(POSTS_OF_USER).with("@userId", user_id);
    blog.client.query_all(meter, &blog.posts, &query).await
}

/// C3: runs `createComment`, which increments the count and creates the comment.
pub(super) async fn create_comment(
    blog: &Blog,
    meter: &Meter,
    comment: &Comment,
) -> Result<(), BlogError> {
    let arguments = json!([comment.post_id, comment_item(comment)]);
    blog.client
        .execute(
            meter,
            &blog.posts,
            &comment.post_id,
            "createComment",
            &arguments,
        )
        .await
        .map(drop)
}

/// Q4: runs one query in one logical partition.
pub(super) async fn comments(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    blog.query_in_post(meter, post_id, COMMENTS_OF_POST).await
}

/// C4: runs `createLike`, which increments the count and creates the like.
pub(super) async fn create_like(blog: &Blog, meter: &Meter, like: &Like) -> Result<(), BlogError> {
    let arguments = json!([like.post_id, like_item(like)]);
    blog.client
        .execute(meter, &blog.posts, &like.post_id, "createLike", &arguments)
        .await
        .map(drop)
}

/// Q5: runs one query in one logical partition.
pub(super) async fn likes(
    blog: &Blog,
    meter: &Meter,
    post_id: &str,
) -> Result<Vec<Value>, BlogError> {
    blog.query_in_post(meter, post_id, LIKES_OF_POST).await
}

/// Q6: queries every partition for its newest posts.
pub(super) async fn feed(blog: &Blog, meter: &Meter) -> Result<Vec<Value>, BlogError> {
    blog.client
        .query_all(meter, &blog.posts, &Query::new(FEED))
        .await
}
