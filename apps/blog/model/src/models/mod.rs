//! The data layer of the blog: ten requests, implemented once for each model, behind one type.
//!
//! A [`Blog`] is one model in one database. Its methods are the requests of the article:
//!
//! | | writes | | reads |
//! |---|---|---|---|
//! | C1 | [`Blog::create_user`], [`Blog::rename_user`] | Q1 | [`Blog::user`] |
//! | C2 | [`Blog::create_post`], [`Blog::edit_post`] | Q2 | [`Blog::post`] |
//! | C3 | [`Blog::create_comment`] | Q3 | [`Blog::posts_of_user`] |
//! | C4 | [`Blog::create_like`] | Q4 | [`Blog::comments`] |
//! | | | Q5 | [`Blog::likes`] |
//! | | | Q6 | [`Blog::feed`] |
//!
//! Q3, Q4 and Q5 return the whole list for measurements, and pages for an application:
//! [`Blog::posts_of_user_page`], [`Blog::comments_page`], [`Blog::likes_page`]. The pages after
//! Q6 are those of [`Blog::feed_page`].
//!
//! The article shows the posts in lists in short form. V3 stores the short form; V1 and V2 return
//! complete posts.

mod v1;
mod v2;
mod v3;

use crate::client::Client;
use crate::control::existing_is_fine;
use crate::dataset::{Comment, Dataset, Like, Post, User};
use crate::excerpt::excerpt;
use crate::paging::{List, ListPage};
use crate::{BlogError, Meter, Query};
use serde_json::{Value, json};
use std::fmt;

pub(crate) use v3::short_post;

/// Number of posts in the feed (Q6).
pub(crate) const FEED_LENGTH: u64 = 100;

const POSTS_OF_USER: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post'";
const COMMENTS_OF_POST: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'comment'";
const LIKES_OF_POST: &str = "SELECT * FROM c WHERE c.postId = @postId AND c.type = 'like'";
pub(crate) const FEED: &str =
    "SELECT TOP 100 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";

/// The list of all posts.
const ALL_POSTS: List<'static> = List {
    name: "posts",
    subject: "",
    condition: "c.type = 'post'",
    parameter: None,
    is_newest_first: true,
};

/// Returns the list of a user's posts.
fn posts_of(user_id: &str) -> List<'_> {
    List {
        name: "posts of",
        subject: user_id,
        condition: "c.userId = @userId AND c.type = 'post'",
        parameter: Some("@userId"),
        is_newest_first: true,
    }
}

/// Returns the list of the comments on, or likes of, a post.
fn reactions_of<'a>(name: &'static str, post_id: &'a str, kind: &'static str) -> List<'a> {
    List {
        name,
        subject: post_id,
        condition: kind,
        parameter: None,
        is_newest_first: false,
    }
}

/// Adds the property `excerpt` to the posts of a page. The content of a short copy is one.
fn with_excerpts(mut page: ListPage, are_short: bool) -> ListPage {
    for item in &mut page.items {
        let content = item["content"].as_str().unwrap_or_default();
        let short = match are_short {
            true => content.to_owned(),
            false => excerpt(content),
        };
        item["excerpt"] = short.into();
    }
    page
}

/// Provisioned RU/s of the containers of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Of `users`.
    pub users: u32,
    /// Of `posts`.
    pub posts: u32,
    /// Of `feed`. Its single logical partition can use one physical partition only.
    pub feed: u32,
}

impl Throughput {
    /// Returns equal throughput for all containers.
    pub fn of_each(ru_per_second: u32) -> Self {
        Self {
            users: ru_per_second,
            posts: ru_per_second,
            feed: ru_per_second,
        }
    }
}

impl Default for Throughput {
    /// Returns the throughput of the article's measurement. A new container has one physical
    /// partition for each 6,000 RU/s, so `posts` has 67, which the article's charges imply.
    fn default() -> Self {
        Self {
            users: 60_000,
            posts: 400_000,
            feed: 6_000,
        }
    }
}

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
        for model in Self::ALL {
            if model.to_string().eq_ignore_ascii_case(text) {
                return Ok(model);
            }
        }
        Err(BlogError::InvalidOption(format!(
            "'{text}' is not a model; the models are v1, v2 and v3"
        )))
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

    /// Returns what the request does, in the words of the article: "list a user's posts".
    pub fn purpose(self) -> &'static str {
        match self {
            Self::C1 => "create a user",
            Self::Q1 => "read a user",
            Self::C2 => "create a post",
            Self::Q2 => "read a post",
            Self::Q3 => "list a user's posts",
            Self::C3 => "comment on a post",
            Self::Q4 => "list a post's comments",
            Self::C4 => "like a post",
            Self::Q5 => "list a post's likes",
            Self::Q6 => "front page",
        }
    }

    /// Returns true for a request that writes.
    pub fn is_write(self) -> bool {
        matches!(self, Self::C1 | Self::C2 | Self::C3 | Self::C4)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(["C1", "Q1", "C2", "Q2", "Q3", "C3", "Q4", "C4", "Q5", "Q6"][*self as usize])
    }
}

/// One model of the blog in one database.
#[derive(Clone)]
pub struct Blog {
    pub(crate) client: Client,
    pub(crate) model: Model,
    throughput: Throughput,
    /// Name of the database.
    pub(crate) database: String,
    /// Link of the container `users`.
    pub(crate) users: String,
    /// Link of the container `posts`.
    pub(crate) posts: String,
    /// Link of the container `feed`, which exists in V3 only.
    pub(crate) feed: String,
}

impl Blog {
    /// Returns the blog of `model` in the database `name`, which need not exist yet.
    pub fn new(client: Client, model: Model, name: &str) -> Self {
        let link = |container: &str| format!("dbs/{name}/colls/{container}");
        Self {
            client,
            model,
            throughput: Throughput::default(),
            database: name.to_owned(),
            users: link("users"),
            posts: link("posts"),
            feed: link("feed"),
        }
    }

    /// Sets the throughput with which [`Blog::create`] creates the containers.
    pub fn with_throughput(mut self, throughput: Throughput) -> Self {
        self.throughput = throughput;
        self
    }

    /// Returns the same blog with a client of other patience, see [`Client::with_patience`].
    pub fn with_client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// Returns the client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the model.
    pub fn model(&self) -> Model {
        self.model
    }

    /// Returns the name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Returns the links of the containers: `users`, `posts` and, in V3, `feed`.
    pub fn containers(&self) -> Vec<&str> {
        let mut containers = vec![self.users.as_str(), self.posts.as_str()];
        if self.model == Model::V3 {
            containers.push(self.feed.as_str());
        }
        containers
    }

    /// Creates the database with its containers and scripts.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 409 if the database exists.
    pub async fn create(&self) -> Result<(), BlogError> {
        self.client.create_database(&self.database).await?;
        self.create_missing().await
    }

    /// Creates the database, its containers and its scripts as far as they do not exist. A creation
    /// that was interrupted continues.
    ///
    /// # Errors
    /// Every error of a request other than a conflict.
    pub async fn create_missing(&self) -> Result<(), BlogError> {
        const BULK_LOAD: &str = include_str!("../scripts/bulkLoad.js");
        existing_is_fine(self.client.create_database(&self.database).await)?;

        // V3 also stores short posts in `users`, in the partition of their author.
        let database = format!("dbs/{}", self.database);
        let users_key = if self.model == Model::V3 {
            "/userId"
        } else {
            "/id"
        };
        let throughput = self.throughput;
        self.create_container(&database, "users", users_key, throughput.users)
            .await?;
        self.create_container(&database, "posts", "/postId", throughput.posts)
            .await?;
        for (id, source) in [
            ("bulkLoad", BULK_LOAD),
            ("deletePost", include_str!("../scripts/deletePost.js")),
            ("absorb", include_str!("../scripts/absorb.js")),
        ] {
            self.create_procedure(&self.posts, id, source).await?;
        }

        // From V2 on posts contain counts and names, which procedures maintain.
        if self.model != Model::V1 {
            for (id, source) in [
                ("createComment", include_str!("../scripts/createComment.js")),
                ("createLike", include_str!("../scripts/createLike.js")),
                (
                    "updateUsernames",
                    include_str!("../scripts/updateUsernames.js"),
                ),
            ] {
                self.create_procedure(&self.posts, id, source).await?;
            }
        }

        // V3 adds the feed, whose trigger keeps its length.
        if self.model == Model::V3 {
            self.create_procedure(&self.users, "bulkLoad", BULK_LOAD)
                .await?;
            self.create_container(&database, "feed", "/type", throughput.feed)
                .await?;
            let truncate_feed = include_str!("../scripts/truncateFeed.js");
            let created = self
                .client
                .create_post_trigger(&self.feed, "truncateFeed", truncate_feed)
                .await;
            existing_is_fine(created)?;
        }
        Ok(())
    }

    /// Creates a container unless it exists.
    async fn create_container(
        &self,
        database: &str,
        name: &str,
        key_path: &str,
        throughput: u32,
    ) -> Result<(), BlogError> {
        let created = self
            .client
            .create_container(database, name, key_path, throughput)
            .await;
        existing_is_fine(created)
    }

    /// Creates a stored procedure unless it exists.
    async fn create_procedure(
        &self,
        container: &str,
        id: &str,
        source: &str,
    ) -> Result<(), BlogError> {
        existing_is_fine(self.client.create_procedure(container, id, source).await)
    }

    /// Deletes the database if it exists.
    pub async fn delete(&self) -> Result<(), BlogError> {
        self.client.delete_database(&self.database).await
    }

    /// C1: creates a user.
    pub async fn create_user(&self, meter: &Meter, user: &User) -> Result<(), BlogError> {
        self.client
            .create(meter, &self.users, &user.id, &user_item(self.model, user))
            .await
    }

    /// C1: changes a user's name. The pipelines of V2 and V3 update the copies of the name later.
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

    /// Q1: returns a user.
    pub async fn user(&self, meter: &Meter, user_id: &str) -> Result<Value, BlogError> {
        self.client.read(meter, &self.users, user_id, user_id).await
    }

    /// C2: creates a post.
    pub async fn create_post(&self, meter: &Meter, post: &Post) -> Result<(), BlogError> {
        let item = post_item(self.model, post, 0, 0);
        self.client
            .create(meter, &self.posts, &post.id, &item)
            .await
    }

    /// C2: changes the title and content of a post and keeps its counts.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 412 if the post changes at the same time, with 404 if there is
    /// no such post or the post was deleted.
    pub async fn edit_post(
        &self,
        meter: &Meter,
        post_id: &str,
        title: &str,
        content: &str,
    ) -> Result<(), BlogError> {
        let mut post = self.stored_post(meter, post_id).await?;
        post["title"] = title.into();
        post["content"] = content.into();
        self.replace_post(meter, &post).await
    }

    /// Reads the item of a post.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 404 if there is no such post or the post was deleted.
    pub async fn stored_post(&self, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
        let item = self
            .client
            .read(meter, &self.posts, post_id, post_id)
            .await?;
        if item["type"] != "post" {
            return Err(BlogError::deleted_post(post_id));
        }
        Ok(item)
    }

    /// Replaces the item of a post that was read before.
    pub(crate) async fn replace_post(&self, meter: &Meter, post: &Value) -> Result<(), BlogError> {
        let post_id = post["id"].as_str().unwrap_or_default();
        self.client.replace(meter, &self.posts, post_id, post).await
    }

    /// Deletes a post with its comments and likes. A tombstone stays for the readers of the change
    /// feed: `{id, postId, userId, type: "deletedPost"}` with a time to live.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 400 and sub-status 404 if there is no such post, 401 if the post
    /// belongs to another user.
    pub async fn delete_post(
        &self,
        meter: &Meter,
        post_id: &str,
        user_id: &str,
    ) -> Result<(), BlogError> {
        let arguments = json!([post_id, user_id]);
        loop {
            let result = self
                .client
                .execute(meter, &self.posts, post_id, "deletePost", &arguments)
                .await?;
            if result["done"] == true {
                return Ok(());
            }
            // The procedure may end early because of its time limit. Without progress the loop
            // would never end.
            if result["deleted"].as_u64().unwrap_or(0) == 0 {
                return Err(BlogError::unexpected(
                    format!("deletePost of '{post_id}'"),
                    result.to_string(),
                ));
            }
        }
    }

    /// Q2: returns a post with its author's name and its counts.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 404 if there is no such post or the post was deleted.
    pub async fn post(&self, meter: &Meter, post_id: &str) -> Result<Value, BlogError> {
        match self.model {
            Model::V1 => v1::post(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::post(self, meter, post_id).await,
        }
    }

    /// Q3: returns a user's posts with the author's name and their counts, in no particular order.
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

    /// Q3 by pages: returns a page of a user's posts, from the newest to the oldest, each with its
    /// `excerpt`.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn posts_of_user_page(
        &self,
        meter: &Meter,
        user_id: &str,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let list = posts_of(user_id);
        let client = &self.client;
        let position = position.map(|text| list.position(text)).transpose()?;
        let first = Query::new(POSTS_OF_USER).with("@userId", user_id);
        let short = match (&position, self.model) {
            (Some(_), _) => None,
            (None, Model::V1 | Model::V2) => {
                client.query_short_all(meter, &self.posts, &first).await?
            }
            (None, Model::V3) => {
                client
                    .query_short(meter, &self.users, user_id, &first)
                    .await?
            }
        };
        let mut page = match short {
            Some(items) => list.only_page(items),
            None => {
                let query = list.query(position.as_ref());
                let rows = match self.model {
                    Model::V1 | Model::V2 => client.query_all(meter, &self.posts, &query).await?,
                    Model::V3 => client.query(meter, &self.users, user_id, &query).await?,
                };
                list.page(rows, position.as_ref())
            }
        };
        if self.model == Model::V1 {
            page.items = v1::complete_posts(self, meter, user_id, page.items).await?;
        }
        Ok(with_excerpts(page, self.model == Model::V3))
    }

    /// Q4 by pages: returns a page of a post's comments, sorted from the oldest to the newest.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn comments_page(
        &self,
        meter: &Meter,
        post_id: &str,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let list = reactions_of("comments on", post_id, "c.type = 'comment'");
        self.page_of_post(meter, list, COMMENTS_OF_POST, position)
            .await
    }

    /// Q5 by pages: returns a page of a post's likes, sorted from the oldest to the newest.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn likes_page(
        &self,
        meter: &Meter,
        post_id: &str,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let list = reactions_of("likes of", post_id, "c.type = 'like'");
        self.page_of_post(meter, list, LIKES_OF_POST, position)
            .await
    }

    /// Returns a page of the comments or likes of a post, with usernames, the oldest first. All
    /// items of the post are in one logical partition.
    async fn page_of_post(
        &self,
        meter: &Meter,
        list: List<'_>,
        first: &str,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let (client, post_id) = (&self.client, list.subject);
        let position = position.map(|text| list.position(text)).transpose()?;
        let short = match position {
            Some(_) => None,
            None => {
                let query = Query::new(first).with("@postId", post_id);
                client
                    .query_short(meter, &self.posts, post_id, &query)
                    .await?
            }
        };
        let mut page = match short {
            Some(items) => list.only_page(items),
            None => {
                let query = list.query(position.as_ref());
                let rows = client.query(meter, &self.posts, post_id, &query).await?;
                list.page(rows, position.as_ref())
            }
        };
        if self.model == Model::V1 {
            page.items = v1::with_usernames(self, meter, page.items).await?;
        }
        Ok(page)
    }

    /// Q6 by pages: returns a page of all posts, newest first, each with its `excerpt`. The first
    /// page is Q6. Further pages ask every partition of `posts` in all models: the feed of V3 has
    /// the newest posts only.
    ///
    /// # Errors
    /// [`BlogError::InvalidPage`] for a position that no page had as its `next`.
    pub async fn feed_page(
        &self,
        meter: &Meter,
        position: Option<&str>,
    ) -> Result<ListPage, BlogError> {
        let Some(text) = position else {
            let items = self.feed(meter).await?;
            // Posts before a full feed may exist; the next page tells.
            let is_full = items.len() as u64 == FEED_LENGTH;
            let next = is_full.then(|| ALL_POSTS.end_of(&items, None));
            let page = ListPage { items, next };
            return Ok(with_excerpts(page, self.model == Model::V3));
        };
        let position = ALL_POSTS.position(text)?;
        let query = ALL_POSTS.query(Some(&position));
        let rows = self.client.query_all(meter, &self.posts, &query).await?;
        let mut page = ALL_POSTS.page(rows, Some(&position));
        if self.model == Model::V1 {
            page.items = v1::complete_feed(self, meter, page.items).await?;
        }
        Ok(with_excerpts(page, false))
    }

    /// C3: creates a comment on a post.
    pub async fn create_comment(&self, meter: &Meter, comment: &Comment) -> Result<(), BlogError> {
        match self.model {
            Model::V1 => {
                let item = v1::comment_item(comment);
                self.client
                    .create(meter, &self.posts, &comment.post_id, &item)
                    .await
            }
            Model::V2 | Model::V3 => v2::create_comment(self, meter, comment).await,
        }
    }

    /// Q4: returns a post's comments with the names of their authors.
    pub async fn comments(&self, meter: &Meter, post_id: &str) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::comments(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::comments(self, meter, post_id).await,
        }
    }

    /// C4: creates a like of a post.
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

    /// Q5: returns a post's likes with the names of the users.
    pub async fn likes(&self, meter: &Meter, post_id: &str) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::likes(self, meter, post_id).await,
            Model::V2 | Model::V3 => v2::likes(self, meter, post_id).await,
        }
    }

    /// Q6: returns the 100 newest posts, newest first, with the names of their authors and their
    /// counts.
    pub async fn feed(&self, meter: &Meter) -> Result<Vec<Value>, BlogError> {
        match self.model {
            Model::V1 => v1::feed(self, meter).await,
            Model::V2 => v2::feed(self, meter).await,
            Model::V3 => v3::feed(self, meter).await,
        }
    }

    /// Runs a query with the parameter `@postId` in the logical partition of a post.
    async fn query_in_post(
        &self,
        meter: &Meter,
        post_id: &str,
        query: &str,
    ) -> Result<Vec<Value>, BlogError> {
        let query = Query::new(query).with("@postId", post_id);
        self.client.query(meter, &self.posts, post_id, &query).await
    }

    /// Returns the items in the logical partition of post `k`: the post, its comments and its
    /// likes.
    pub(crate) fn items_of_post(&self, data: &Dataset, k: u64) -> Vec<Value> {
        let (comments, likes) = data.reaction_counts(k);
        let mut items = vec![post_item(self.model, &data.post(k), comments, likes)];
        for comment in data.comments(k) {
            items.push(comment_item(self.model, &comment));
        }
        for like in data.likes(k) {
            items.push(like_item(self.model, &like));
        }
        items
    }

    /// Returns the items in the logical partition of user `n`: the user and, in V3, short copies of
    /// the user's posts.
    pub(crate) fn items_of_user(&self, data: &Dataset, n: u64) -> Vec<Value> {
        let mut items = vec![user_item(self.model, &data.user(n))];
        if self.model == Model::V3 {
            for k in data.posts_of(n) {
                items.extend(self.short_post_item(data, k));
            }
        }
        items
    }

    /// Returns the short copy of post `k`.
    pub(crate) fn short_post_item(&self, data: &Dataset, k: u64) -> Option<Value> {
        let (comments, likes) = data.reaction_counts(k);
        short_post(&v2::post_item(&data.post(k), comments, likes))
    }
}

/// Returns the item of a user in a model.
pub(crate) fn user_item(model: Model, user: &User) -> Value {
    if model == Model::V3 {
        v3::user_item(user)
    } else {
        v1::user_item(user)
    }
}

/// Returns the item of a post in a model. V1 does not store the counts.
pub(crate) fn post_item(model: Model, post: &Post, comments: u64, likes: u64) -> Value {
    if model == Model::V1 {
        v1::post_item(post)
    } else {
        v2::post_item(post, comments, likes)
    }
}

/// Returns the item of a comment in a model.
pub(crate) fn comment_item(model: Model, comment: &Comment) -> Value {
    if model == Model::V1 {
        v1::comment_item(comment)
    } else {
        v2::comment_item(comment)
    }
}

/// Returns the item of a like in a model.
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

    #[test]
    fn a_short_post_has_an_excerpt_of_the_content_and_no_system_properties() {
        let item = json!({
            "id": "p",
            "type": "post",
            "content": "**Ten** words. ".repeat(50),
            "likeCount": 3,
            "_etag": "x",
        });
        let content = excerpt(&"Ten words. ".repeat(50));
        let short = json!({"id": "p", "type": "post", "content": content, "likeCount": 3});
        assert_eq!(short_post(&item), Some(short));
        assert_eq!(short_post(&json!({"id": "c", "type": "comment"})), None);
    }

    #[test]
    fn the_names_of_models_are_case_insensitive() {
        assert_eq!("v2".parse::<Model>(), Ok(Model::V2));
        assert!("v4".parse::<Model>().is_err());
        assert_eq!(format!("{:>4}|{:<4}", Model::V3, Request::Q6), "  V3|Q6  ");
    }
}
