//! The second step of a comparison: the items of single users and posts are read and compared one
//! by one.

use super::{Comparison, Difference, Suspects};
use crate::migrate::{has_names, plain_post_item, plain_user, without_system_properties};
use crate::models::short_post;
use crate::{Blog, BlogError, Meter, Model, Query};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Users or posts that are compared at the same time.
const CONCURRENT: usize = 16;
/// Properties of a difference that are named.
const PROPERTIES_MAX: usize = 3;

/// The entity to which a difference belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entity {
    User(String),
    Post(String),
    Feed,
}

/// The result of an examination: the differences, each with its entity.
#[derive(Default)]
pub(super) struct Examined(Vec<(Entity, Difference)>);

impl Examined {
    fn add(&mut self, entity: &Entity, differences: Vec<Difference>) {
        for difference in differences {
            self.0.push((entity.clone(), difference));
        }
    }

    /// Returns the differences.
    pub(super) fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.0.iter().map(|(_, difference)| difference)
    }

    /// Keeps the differences that `is_kept` accepts.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Difference) -> bool) {
        self.0.retain(|(_, difference)| is_kept(difference));
    }

    /// Returns the entities that differ, and the differences.
    pub(super) fn into_parts(self) -> (Suspects, Vec<Difference>) {
        let mut suspects = Suspects::default();
        let mut differences = Vec::with_capacity(self.0.len());
        for (entity, difference) in self.0 {
            match entity {
                Entity::User(id) => _ = suspects.users.insert(id),
                Entity::Post(id) => _ = suspects.posts.insert(id),
                Entity::Feed => suspects.feed = true,
            }
            differences.push(difference);
        }
        (suspects, differences)
    }
}

/// The items of `posts` with one partition key, by id, without system properties.
struct PostItems(BTreeMap<String, Value>);

impl PostItems {
    /// Returns the post, unless it was deleted.
    fn post(&self, post_id: &str) -> Option<&Value> {
        self.0.get(post_id).filter(|item| item["type"] == "post")
    }

    /// Returns true if the post was deleted and its tombstone has not expired.
    fn is_deleted(&self, post_id: &str) -> bool {
        let item = self.0.get(post_id);
        item.is_some_and(|item| item["type"] == "deletedPost")
    }

    /// Returns the number of items of a kind.
    fn count(&self, kind: &str) -> u64 {
        self.0.values().filter(|item| item["type"] == kind).count() as u64
    }
}

impl Comparison {
    /// Compares the suspects once.
    pub(super) async fn examine(&self, suspects: &Suspects) -> Result<Examined, BlogError> {
        let mut examined = Examined::default();
        let users: Vec<_> = suspects
            .users
            .iter()
            .map(|user_id| self.examine_user(user_id))
            .collect();
        let mut users = stream::iter(users).buffer_unordered(CONCURRENT);
        while let Some(result) = users.next().await {
            let (user_id, differences) = result?;
            examined.add(&Entity::User(user_id), differences);
        }
        let posts: Vec<_> = suspects
            .posts
            .iter()
            .map(|post_id| self.examine_post(post_id))
            .collect();
        let mut posts = stream::iter(posts).buffer_unordered(CONCURRENT);
        while let Some(result) = posts.next().await {
            let (post_id, differences) = result?;
            examined.add(&Entity::Post(post_id), differences);
        }
        let checked = self.blogs.iter().filter(|blog| self.checks_copies_of(blog));
        for blog in checked.filter(|blog| suspects.feed && blog.model == Model::V3) {
            examined.add(&Entity::Feed, examine_feed(blog).await?);
        }
        Ok(examined)
    }

    /// Returns true if the copies within `blog` are compared.
    fn checks_copies_of(&self, blog: &Blog) -> bool {
        !self.has_trusted_reference || blog.model != self.blogs[0].model
    }

    /// Compares one user between the models, and the copies of the user's name with the user.
    /// Returns the user's id and the differences.
    async fn examine_user(&self, user_id: &str) -> Result<(String, Vec<Difference>), BlogError> {
        let mut differences = Vec::new();
        let mut reference = None;
        for (index, blog) in self.blogs.iter().enumerate() {
            let stored = match blog.user(&Meter::new(), user_id).await {
                Ok(user) => plain_user(&user),
                Err(e) if e.is_not_found() => None,
                Err(e) => return Err(e),
            };
            if let Some(user) = &stored
                && has_names(blog.model)
                && self.checks_copies_of(blog)
            {
                differences.extend(other_names(blog, user_id, &user["username"]).await?);
            }
            if index == 0 {
                reference = stored;
                continue;
            }
            let item = format!("user {user_id}");
            let text = difference_of(reference.as_ref(), stored.as_ref());
            differences.extend(text.map(|text| difference(blog, item, text)));
        }
        Ok((user_id.to_owned(), differences))
    }

    /// Compares the items of one post between the models, and the copies of and in the post.
    /// Returns the post's id and the differences.
    async fn examine_post(&self, post_id: &str) -> Result<(String, Vec<Difference>), BlogError> {
        let mut differences = Vec::new();
        let mut reference: Option<PostItems> = None;
        for blog in &self.blogs {
            let items = read_post_items(blog, post_id).await?;
            if self.checks_copies_of(blog) {
                differences.extend(wrong_copies(blog, post_id, &items).await?);
            }
            match &reference {
                None => reference = Some(items),
                Some(reference) => {
                    differences.extend(differences_between(blog, post_id, reference, &items));
                }
            }
        }
        Ok((post_id.to_owned(), differences))
    }
}

async fn read_post_items(blog: &Blog, post_id: &str) -> Result<PostItems, BlogError> {
    let query = Query::new("SELECT * FROM c WHERE c.postId = @postId").with("@postId", post_id);
    let rows = blog
        .client
        .query(&Meter::new(), &blog.posts, post_id, &query)
        .await?;
    let mut items = BTreeMap::new();
    for row in rows {
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        items.insert(id, without_system_properties(&row));
    }
    Ok(PostItems(items))
}

/// Compares the copies in the items of a post, and those of the post, with their sources.
async fn wrong_copies(
    blog: &Blog,
    post_id: &str,
    items: &PostItems,
) -> Result<Vec<Difference>, BlogError> {
    let mut differences = deleted_remains(blog, post_id, items);
    if has_names(blog.model) {
        differences.extend(wrong_counts(blog, post_id, items));
        differences.extend(wrong_names(blog, post_id, items).await?);
    }
    if blog.model == Model::V3 {
        differences.extend(wrong_short_copies(blog, post_id, items).await?);
    }
    Ok(differences)
}

/// Returns the comments and likes of a deleted post.
fn deleted_remains(blog: &Blog, post_id: &str, items: &PostItems) -> Vec<Difference> {
    if !items.is_deleted(post_id) {
        return Vec::new();
    }
    let remains = items.0.values().filter(|item| item["id"] != post_id);
    remains
        .map(|item| difference(blog, name_of(item), "the post was deleted".into()))
        .collect()
}

fn wrong_counts(blog: &Blog, post_id: &str, items: &PostItems) -> Vec<Difference> {
    let mut differences = Vec::new();
    let Some(post) = items.post(post_id) else {
        return differences;
    };
    for (property, kind) in [("commentCount", "comment"), ("likeCount", "like")] {
        let count = items.count(kind);
        if post[property].as_u64() != Some(count) {
            let text = format!("{property} is {}, and there are {count}", post[property]);
            differences.push(difference(blog, name_of(post), text));
        }
    }
    differences
}

async fn wrong_names(
    blog: &Blog,
    post_id: &str,
    items: &PostItems,
) -> Result<Vec<Difference>, BlogError> {
    let mut names: BTreeMap<&str, Option<Value>> = BTreeMap::new();
    let mut differences = Vec::new();
    if items.is_deleted(post_id) {
        return Ok(differences);
    }
    for item in items.0.values() {
        let user_id = item["userId"].as_str().unwrap_or_default();
        if !names.contains_key(user_id) {
            let name = match blog.user(&Meter::new(), user_id).await {
                Ok(mut user) => Some(user["username"].take()),
                Err(e) if e.is_not_found() => None,
                Err(e) => return Err(e),
            };
            names.insert(user_id, name);
        }
        let shown = &item["userUsername"];
        let text = match names.get(user_id).and_then(Option::as_ref) {
            None => format!("there is no user {user_id}"),
            Some(name) if name != shown => {
                format!("userUsername is {shown}, and the user's name is {name}")
            }
            Some(_) => continue,
        };
        differences.push(difference(blog, name_of(item), text));
    }
    Ok(differences)
}

/// Returns the copies of a user's name that differ from the name.
async fn other_names(
    blog: &Blog,
    user_id: &str,
    username: &Value,
) -> Result<Vec<Difference>, BlogError> {
    const OTHER_NAMES: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type != 'user' \
                               AND c.type != 'deletedPost' AND (NOT IS_DEFINED(c.userUsername) \
                               OR c.userUsername != @username)";
    let query = Query::new(OTHER_NAMES)
        .with("@userId", user_id)
        .with("@username", username.clone());
    let meter = Meter::new();
    let mut items = blog.client.query_all(&meter, &blog.posts, &query).await?;
    let mut differences = Vec::new();
    let mut add = |place: &str, item: &Value| {
        let shown = &item["userUsername"];
        let text = format!("userUsername{place} is {shown}, and the user's name is {username}");
        differences.push(difference(blog, name_of(item), text));
    };
    items.iter().for_each(|item| add("", item));
    if blog.model == Model::V3 {
        items = blog
            .client
            .query(&meter, &blog.users, user_id, &query)
            .await?;
        items
            .iter()
            .for_each(|item| add(" of the short copy", item));
    }
    Ok(differences)
}

/// Compares the short copies in `users` with the post.
async fn wrong_short_copies(
    blog: &Blog,
    post_id: &str,
    items: &PostItems,
) -> Result<Vec<Difference>, BlogError> {
    let query = Query::new("SELECT * FROM c WHERE c.id = @id AND c.type = 'post'");
    let query = query.with("@id", post_id);
    let copies = blog
        .client
        .query_all(&Meter::new(), &blog.users, &query)
        .await?;
    let post = items.post(post_id);
    let author = post.and_then(|post| post["userId"].as_str());
    let mut differences = Vec::new();
    let mut own = None;
    for copy in copies {
        let owner = copy["userId"].as_str();
        if owner == author && author.is_some() {
            own = Some(without_system_properties(&copy));
        } else {
            let item = format!("short copy of post {post_id} at user {}", copy["userId"]);
            differences.push(difference(blog, item, "surplus".into()));
        }
    }
    let expected = post.and_then(short_post);
    if let Some(text) = difference_of(expected.as_ref(), own.as_ref()) {
        let item = format!("short copy of post {post_id}");
        differences.push(difference(blog, item, text));
    }
    Ok(differences)
}

/// Compares the items of one post in two models.
fn differences_between(
    blog: &Blog,
    post_id: &str,
    reference: &PostItems,
    items: &PostItems,
) -> Vec<Difference> {
    // A tombstone that expired in one model only is no difference, and neither are the comments of
    // a deleted post that are still to be deleted in one model.
    let plain = |items: &PostItems, id: &str| {
        let item = items.0.get(id).filter(|_| !items.is_deleted(post_id));
        item.map(plain_post_item)
    };
    let ids: BTreeSet<&String> = reference.0.keys().chain(items.0.keys()).collect();
    let mut differences = Vec::new();
    for id in ids {
        let (expected, found) = (plain(reference, id), plain(items, id));
        if let Some(text) = difference_of(expected.as_ref(), found.as_ref()) {
            let item = match (&expected, &found) {
                (Some(item), _) | (None, Some(item)) => name_of(item),
                (None, None) => format!("post {post_id}"),
            };
            differences.push(difference(blog, item, text));
        }
    }
    differences
}

/// Compares the feed with the newest posts.
async fn examine_feed(blog: &Blog) -> Result<Vec<Difference>, BlogError> {
    const NEWEST: &str = "SELECT TOP 100 * FROM c WHERE c.type = 'post' \
                          ORDER BY c.creationDate DESC";
    let meter = Meter::new();
    let newest = blog
        .client
        .query_all(&meter, &blog.posts, &Query::new(NEWEST))
        .await?;
    // Without TOP: the feed may have more posts than it should.
    let feed_query = Query::new("SELECT * FROM c ORDER BY c.creationDate DESC");
    let feed = blog
        .client
        .query(&meter, &blog.feed, "post", &feed_query)
        .await?;

    let mut differences = Vec::new();
    let mut add = |id: &str, text: String| {
        let item = format!("post {id} in the feed");
        differences.push(difference(blog, item, text));
    };
    let mut found: BTreeMap<&str, Value> = BTreeMap::new();
    for item in &feed {
        let id = item["id"].as_str().unwrap_or_default();
        found.insert(id, without_system_properties(item));
    }
    // Of several posts with the date of the oldest one, any may be in the feed.
    let oldest = newest.last().map(|post| &post["creationDate"]);
    for post in &newest {
        let id = post["id"].as_str().unwrap_or_default();
        let expected = short_post(post);
        let copy = found.remove(id);
        let may_be_absent = newest.len() == 100 && Some(&post["creationDate"]) == oldest;
        if copy.is_none() && may_be_absent {
            continue;
        }
        if let Some(text) = difference_of(expected.as_ref(), copy.as_ref()) {
            add(id, text);
        }
    }
    for (id, copy) in found {
        let post = read_post_items(blog, id).await?;
        let expected = post.post(id).and_then(short_post);
        let has_date_of_oldest = newest.len() == 100 && Some(&copy["creationDate"]) == oldest;
        let text = match difference_of(expected.as_ref(), Some(&copy)) {
            Some(text) => text,
            None if has_date_of_oldest => continue,
            None => "surplus: the post is not one of the 100 newest".into(),
        };
        add(id, text);
    }
    if feed.len() != newest.len() {
        let text = format!("{} posts instead of {}", feed.len(), newest.len());
        differences.push(difference(blog, "feed".into(), text));
    }
    Ok(differences)
}

/// Describes the difference between an item and its copy. `None` if they are equal.
fn difference_of(expected: Option<&Value>, found: Option<&Value>) -> Option<String> {
    let (expected, found) = match (expected, found) {
        (None, None) => return None,
        (Some(_), None) => return Some("missing".into()),
        (None, Some(_)) => return Some("surplus".into()),
        (Some(expected), Some(found)) if expected == found => return None,
        (Some(expected), Some(found)) => (expected, found),
    };
    let names = |item: &Value| -> BTreeSet<String> {
        item.as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect()
    };
    let mut parts = Vec::new();
    for name in names(expected).union(&names(found)) {
        let (left, right) = (expected.get(name), found.get(name));
        if left != right {
            let text = |value: Option<&Value>| match value {
                Some(value) => shortened(&value.to_string()),
                None => "absent".into(),
            };
            parts.push(format!(
                "{name} is {} instead of {}",
                text(right),
                text(left)
            ));
        }
    }
    parts.truncate(PROPERTIES_MAX);
    Some(parts.join(", "))
}

/// Returns the beginning of a long text.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(CHARS_MAX).collect();
    format!("{beginning}…")
}

/// Returns the kind and the ids of an item of `posts`.
fn name_of(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap_or("?").to_owned();
    match item["type"].as_str() {
        Some("post" | "deletedPost") => format!("post {}", text("id")),
        Some(kind) => format!("{kind} {} of post {}", text("id"), text("postId")),
        None => format!("item {} of post {}", text("id"), text("postId")),
    }
}

fn difference(blog: &Blog, item: String, text: String) -> Difference {
    Difference {
        model: blog.model,
        item,
        text,
    }
}
