//! The blog's data layer: ten requests, written once per model, behind one face.
//!
//! A [`Blog`] is one model on one database. Its methods are the requests of the article:
//!
//! | | writes | | reads |
//! |---|---|---|---|
//! | C1 | [`Blog::create_user`], [`Blog::rename_user`] | Q1 | [`Blog::user`] |
//! | C2 | [`Blog::create_post`], [`Blog::edit_post`] | Q2 | [`Blog::post`] |
//! | C3 | [`Blog::create_comment`] | Q3 | [`Blog::posts_of_user`] |
//! | C4 | [`Blog::create_like`] | Q4, Q5, Q6 | [`Blog::comments`], [`Blog::likes`], [`Blog::feed`] |
//!
//! Lists that the article shows in short form are cut by the model that stores them so (V3); V1 and V2 load whole posts.

mod v1;
mod v2;
mod v3;

use crate::client::Client;
use crate::dataset::{Comment, Dataset, Like, Post, User};
use crate::{BlogError, Meter, Query};
use serde_json::Value;
use std::fmt;

pub(crate) use v3::short_post;

/// How many posts the front page shows.
pub(crate) const FEED_LENGTH: u64 = 100;

const POSTS_OF_USER: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post'";
const COMMENTS_OF_POST: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'comment'";
const LIKES_OF_POST: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'like'";
const FEED: &str = "SELECT TOP 100 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";

/// `posts` begins with 400,000 / 6,000 = 67 physical partitions, as the article's must have.
const POSTS_THROUGHPUT: u32 = 400_000;
const USERS_THROUGHPUT: u32 = 60_000;
/// One logical partition can use no more than one physical one: 6,000 RU/s make one.
const FEED_THROUGHPUT: u32 = 6_000;

/// The three data models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the modules of the models explain them")]
pub enum Model {
    V1,
    V2,
    V3,
}

impl Model {
    /// All models, in order.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(["V1", "V2", "V3"][*self as usize])
    }
}

impl std::str::FromStr for Model {
    type Err = BlogError;

    fn from_str(text: &str) -> Result<Self, BlogError> {
        let named = Self::ALL
            .into_iter()
            .find(|model| model.to_string().eq_ignore_ascii_case(text));
        named.ok_or_else(|| {
            BlogError::Option(format!("'{text}' is no model; there are v1, v2 and v3"))
        })
    }
}

/// The ten requests, in the article's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "the names are the article's; the module header lists them"
)]
pub enum Request {
    C1,
    Q1,
    C2,
    Q2,
    Q3,
    C3,
    Q4,
    C4,
    Q5,
    Q6,
}

impl Request {
    /// All requests, in the article's order.
    pub const ALL: [Self; 10] = [
        Self::C1,
        Self::Q1,
        Self::C2,
        Self::Q2,
        Self::Q3,
        Self::C3,
        Self::Q4,
        Self::C4,
        Self::Q5,
        Self::Q6,
    ];

    /// Whether the request writes.
    pub fn writes(self) -> bool {
        matches!(self, Self::C1 | Self::C2 | Self::C3 | Self::C4)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(["C1", "Q1", "C2", "Q2", "Q3", "C3", "Q4", "C4", "Q5", "Q6"][*self as usize])
    }
}

/// One model of the blog on one database.
#[derive(Clone)]
pub struct Blog {
    pub(crate) client: Client,
    pub(crate) model: Model,
    pub(crate) database: String,
    /// Links of the containers; `feed` exists in V3 only.
    pub(crate) users: String,
    pub(crate) posts: String,
    pub(crate) feed: String,
}

impl Blog {
    /// The blog of `model` in the database `name`, which need not exist yet.
    pub fn new(client: Client, model: Model, name: &str) -> Self {
        let container = |container: &str| format!("dbs/{name}/colls/{container}");
        let (users, posts, feed) = (container("users"), container("posts"), container("feed"));
        Self {
            client,
            model,
            database: name.to_owned(),
            users,
            posts,
            feed,
        }
    }

    /// Creates the database with its containers and scripts. Refused with 409 if the database exists.
    pub async fn create(&self) -> Result<(), BlogError> {
        self.client.create_database(&self.database).await?;
        let database = format!("dbs/{}", self.database);
        let users_key = if self.model == Model::V3 {
            "/userId"
        } else {
            "/id"
        };
        self.client
            .create_container(&database, "users", users_key, USERS_THROUGHPUT)
            .await?;
        self.client
            .create_container(&database, "posts", "/postId", POSTS_THROUGHPUT)
            .await?;
        let bulk_load = include_str!("../scripts/bulkLoad.js");
        self.client
            .create_procedure(&self.posts, "bulkLoad", bulk_load)
            .await?;
        if self.model != Model::V1 {
            for (id, source) in [
                ("createComment", include_str!("../scripts/createComment.js")),
                ("createLike", include_str!("../scripts/createLike.js")),
                (
                    "updateUsernames",
                    include_str!("../scripts/updateUsernames.js"),
                ),
                ("absorb", include_str!("../scripts/absorb.js")),
            ] {
                self.client
                    .create_procedure(&self.posts, id, source)
                    .await?;
            }
        }
        if self.model == Model::V3 {
            self.client
                .create_procedure(&self.users, "bulkLoad", bulk_load)
                .await?;
            self.client
                .create_container(&database, "feed", "/type", FEED_THROUGHPUT)
                .await?;
            let truncate = include_str!("../scripts/truncateFeed.js");
            self.client
                .create_post_trigger(&self.feed, "truncateFeed", truncate)
                .await?;
        }
        Ok(())
    }

    /// Deletes the database, if there is one.
    pub async fn remove(&self) -> Result<(), BlogError> {
        self.client.delete_database(&self.database).await
    }

    /// C1: creates a user.
    pub async fn create_user(&self, meter: &Meter, user: &User) -> Result<(), BlogError> {
        self.client
            .create(meter, &self.users, &user.id, &user_item(self.model, user))
            .await
    }

    /// C1: gives a user another name. Copies of the name follow through the pipelines of V2 and V3.
    pub async fn rename_user(
        &self,
        meter: &Meter,
        user_id: &str,
        username: &str,
    ) -> Result<(), BlogError> {
        let mut user = self.user(meter, user_id).await?;
        user["username"] = username.into();
        self.client
            .replace(meter, &self.users, user_id, &user)
            .await
    }

    /// Q1: a user.
    pub async fn user(&self, meter: &Meter, user_id: &str) -> Result<Value, BlogError> {
        self.client.read(meter, &self.users, user_id, user_id).await
    }

    /// C2: creates a post.
    pub async fn create_post(&self, meter: &Meter, post: &Post) -> Result<(), BlogError> {
        self.client
            .create(
                meter,
                &self.posts,
                &post.id,
                &post_item(self.model, post, 0, 0),
            )
            .await
    }

    /// C2: gives a post another title and content; its counts stay. Refused with 412 if it changes meanwhile.
    pub async fn edit_post(
        &self,
        meter: &Meter,
        post_id: &str,
        title: &str,
        content: &str,
    ) -> Result<(), BlogError> {
        let mut post = self
            .client
            .read(meter, &self.posts, post_id, post_id)
            .await?;
        post["title"] = title.into();
        post["content"] = content.into();
        self.client
            .replace(meter, &self.posts, post_id, &post)
            .await
    }

    /// Q2: a post with its author's name and its counts.
    pub async fn post(&self, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
        match self.model {
            Model::V1 => v1::post(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::post(self, meter, post_id).await,
        }
    }

    /// Q3: a user's posts with the author's name and their counts, in no particular order.
    pub async fn posts_of_user(
        &self,
        meter: &Meter,
        user_id: &str,
    ) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::posts_of_user(self, meter, user_id).await,
            Model::V2 => v2::posts_of_user(self, meter, user_id).await,
            Model::V3 => v3::posts_of_user(self, meter, user_id).await,
        }
    }

    /// C3: comments on a post.
    pub async fn create_comment(&self, meter: &Meter, comment: &Comment) -> Result<(), BlogError> {
        match self.model {
            Model::V1 => {
                self.client
                    .create(
                        meter,
                        &self.posts,
                        &comment.post_id,
                        &v1::comment_item(comment),
                    )
                    .await
            }
            Model::V2 | Model::V3 => v2::create_comment(self, meter, comment).await,
        }
    }

    /// Q4: a post's comments with their authors' names.
    pub async fn comments(&self, meter: &Meter, post_id: &str) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::comments(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::comments(self, meter, post_id).await,
        }
    }

    /// C4: likes a post.
    pub async fn create_like(&self, meter: &Meter, like: &Like) -> Result<(), BlogError> {
        match self.model {
            Model::V1 => {
                self.client
                    .create(meter, &self.posts, &like.post_id, &v1::like_item(like))
                    .await
            }
            Model::V2 | Model::V3 => v2::create_like(self, meter, like).await,
        }
    }

    /// Q5: a post's likes with the users' names.
    pub async fn likes(&self, meter: &Meter, post_id: &str) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::likes(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::likes(self, meter, post_id).await,
        }
    }

    /// Q6: the 100 newest posts, newest first, with their authors' names and their counts.
    pub async fn feed(&self, meter: &Meter) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::feed(self, meter).await,
            Model::V2 => v2::feed(self, meter).await,
            Model::V3 => v3::feed(self, meter).await,
        }
    }

    async fn in_post(
        &self,
        meter: &Meter,
        post_id: &str,
        query: &str,
    ) -> Result<Vec<Value>, BlogError> {
        self.client
            .query(
                meter,
                &self.posts,
                post_id,
                &Query::new(query).with("@postId", post_id),
            )
            .await
    }

    /// What the logical partition of post `k` holds in this model: the post, its comments, its likes.
    pub(crate) fn items_of_post(&self, data: &Dataset, k: u64) -> Vec<Value> {
        let (comments, likes) = data.reactions(k);
        let mut items = vec![post_item(self.model, &data.post(k), comments, likes)];
        items.extend(
            data.comments(k)
                .iter()
                .map(|comment| comment_item(self.model, comment)),
        );
        items.extend(data.likes(k).iter().map(|like| like_item(self.model, like)));
        items
    }

    /// What the logical partition of user `n` holds in this model: the user and, in V3, short copies of his posts.
    pub(crate) fn items_of_user(&self, data: &Dataset, n: u64) -> Vec<Value> {
        let mut items = vec![user_item(self.model, &data.user(n))];
        if self.model == Model::V3 {
            items.extend(
                data.posts_of(n)
                    .filter_map(|k| self.short_post_item(data, k)),
            );
        }
        items
    }

    pub(crate) fn short_post_item(&self, data: &Dataset, k: u64) -> Option<Value> {
        let (comments, likes) = data.reactions(k);
        short_post(&v2::post_item(&data.post(k), comments, likes))
    }
}

/// A user as a model stores it.
pub(crate) fn user_item(model: Model, user: &User) -> Value {
    if model == Model::V3 {
        v3::user_item(user)
    } else {
        v1::user_item(user)
    }
}

/// A post as a model stores it; V1 keeps no counts.
pub(crate) fn post_item(model: Model, post: &Post, comments: u64, likes: u64) -> Value {
    if model == Model::V1 {
        v1::post_item(post)
    } else {
        v2::post_item(post, comments, likes)
    }
}

/// A comment as a model stores it.
pub(crate) fn comment_item(model: Model, comment: &Comment) -> Value {
    if model == Model::V1 {
        v1::comment_item(comment)
    } else {
        v2::comment_item(comment)
    }
}

/// A like as a model stores it.
pub(crate) fn like_item(model: Model, like: &Like) -> Value {
    if model == Model::V1 {
        v1::like_item(like)
    } else {
        v2::like_item(like)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_short_post_is_the_post_with_its_first_35_characters_and_nothing_of_the_system() {
        let item = json!({"id": "p", "type": "post", "content": "ä".repeat(50), "likeCount": 3, "_etag": "x"});
        let short = json!({"id": "p", "type": "post", "content": "ä".repeat(35), "likeCount": 3});
        assert_eq!(short_post(&item), Some(short));
        assert_eq!(short_post(&json!({"id": "c", "type": "comment"})), None);
    }

    #[test]
    fn models_are_named_without_regard_to_case() {
        assert_eq!("v2".parse::<Model>(), Ok(Model::V2));
        assert!("v4".parse::<Model>().is_err());
        assert_eq!(format!("{:>4}|{:<4}", Model::V3, Request::Q6), "  V3|Q6  ");
    }
}
