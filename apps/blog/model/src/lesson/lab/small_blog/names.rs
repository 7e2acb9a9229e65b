//! A changed name and its copies: the rename itself, the pipelines, and the moment at which each
//! copy followed.

use super::stage::Stage;
use crate::meter::{Measurement, Meter, Operation, RequestRecord};
use crate::pipelines::POSTS_WITH_OLD_NAME;
use crate::{BlogError, Charge, Query};
use serde_json::{Value, json};
use std::time::Instant;

/// The names that the user takes, one after another.
const NAMES: [&str; 5] = [
    "Amara Okafor",
    "Jonas Lindqvist",
    "Mei Tanaka",
    "Zofia Nowak",
    "Tomás Rivera",
];
/// The items with a copy of a user's name, in `posts`, `users` and `feed`.
const COPIES: &str = "\
    SELECT c.id, c.postId, c.type, c.title, c.userUsername FROM c \
    WHERE c.userId = @userId AND IS_DEFINED(c.userUsername)";

/// An item with a copy of the user's name.
#[derive(Debug, Clone, PartialEq)]
pub struct Copy {
    /// `posts`, `users` or `feed`.
    pub container: &'static str,
    /// The physical partition of its container, if a request has told it.
    pub range: String,
    /// The partition key value: the post in `posts`, the user in `users`, `post` in `feed`.
    pub key: String,
    /// `post` or `comment`.
    pub kind: String,
    /// The title; empty for a comment.
    pub title: String,
    /// The name in the item.
    pub username: String,
    /// Milliseconds from the answer to the rename until the copy was written; `None` before a
    /// rename.
    pub lag_ms: Option<f64>,
    /// Charge of the request that wrote the copy. In `posts` one request writes all copies of a
    /// logical partition.
    pub charge: Option<Charge>,
}

/// The last rename.
#[derive(Debug, Clone, PartialEq)]
pub struct Renamed {
    /// The name before.
    pub from: String,
    /// Cost of the rename itself.
    pub rename: Measurement,
    /// Cost of the pipeline from `users` to `posts`.
    pub to_posts: Measurement,
    /// Cost of the pipelines from `posts` to `users` and `feed`.
    pub to_copies: Measurement,
    /// Logical partitions of `posts` that still had the old name afterwards.
    pub left: usize,
}

/// The copies of a user's name.
#[derive(Debug, Clone, PartialEq)]
pub struct Names {
    /// The present name.
    pub username: String,
    /// The items with copies.
    pub copies: Vec<Copy>,
    /// The item of the user, without system properties.
    pub user: Value,
    /// An item with a copy, without system properties.
    pub sample: Value,
    /// The last rename, if there was one.
    pub renamed: Option<Renamed>,
}

/// A run of `updateUsernames` in a logical partition that has the name already.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeated {
    /// The post whose logical partition it was.
    pub post: String,
    /// Number of items changed.
    pub updated: u64,
    /// Cost of the run.
    pub cost: Measurement,
}

/// Reads the copies of the name.
pub(super) async fn look(stage: &Stage) -> Result<Names, BlogError> {
    let (blog, id) = (&stage.blog, stage.user.id.as_str());
    let meter = Meter::recording();
    let query = Query::new(COPIES).with("@userId", id);
    let in_posts = blog.client.query_all(&meter, &blog.posts, &query).await?;
    let in_users = blog.client.query(&meter, &blog.users, id, &query).await?;
    let in_feed = blog
        .client
        .query(&meter, &blog.feed, "post", &query)
        .await?;
    let ranges = |container: &str| {
        let of = |record: &&RequestRecord| record.container == container;
        let records = meter.records();
        let found = records.iter().find(of);
        found.map(|record| record.range.clone()).unwrap_or_default()
    };
    let mut copies = Vec::new();
    for item in &in_posts {
        let post = item["postId"].as_str().unwrap_or_default();
        let range = range_of_post(stage, post).await?;
        copies.push(copy("posts", range, post, item));
    }
    for item in &in_users {
        copies.push(copy("users", ranges(&blog.users), id, item));
    }
    for item in &in_feed {
        copies.push(copy("feed", ranges(&blog.feed), "post", item));
    }
    let post = in_posts.iter().find(|item| item["type"] == "post");
    let post = post
        .and_then(|item| item["id"].as_str())
        .unwrap_or_default();
    Ok(Names {
        username: stage.user.username.clone(),
        copies,
        user: without_system(blog.user(&meter, id).await?),
        sample: without_system(blog.stored_post(&meter, post).await?),
        renamed: None,
    })
}

/// Returns the physical partition of a post, which the answer to a read names.
async fn range_of_post(stage: &Stage, post: &str) -> Result<String, BlogError> {
    let meter = Meter::recording();
    stage.blog.stored_post(&meter, post).await?;
    let records = meter.records();
    Ok(records
        .last()
        .map(|record| record.range.clone())
        .unwrap_or_default())
}

fn copy(container: &'static str, range: String, key: &str, item: &Value) -> Copy {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    Copy {
        container,
        range,
        key: key.to_owned(),
        kind: text("type"),
        title: text("title"),
        username: text("userUsername"),
        lag_ms: None,
        charge: None,
    }
}

/// Returns an item without its system properties, whose names begin with an underscore.
pub(super) fn without_system(mut item: Value) -> Value {
    if let Some(properties) = item.as_object_mut() {
        properties.retain(|name, _| !name.starts_with('_'));
    }
    item
}

/// Renames the user and runs the pipelines.
pub(super) async fn rename(stage: &mut Stage) -> Result<Names, BlogError> {
    let from = stage.user.username.clone();
    let place = NAMES.iter().position(|name| *name == from);
    let to = NAMES[place.map_or(0, |place| (place + 1) % NAMES.len())];
    let id = stage.user.id.clone();

    // The rename is one write; its answer starts the clock of the copies.
    let meter = Meter::recording();
    let started = Instant::now();
    stage.blog.rename_user(&meter, &id, to).await?;
    let rename = meter.measurement(started.elapsed());
    stage.user.username = to.to_owned();
    let answered = Instant::now();

    // The pipelines run one after the other: the second reads what the first has changed.
    let (first, second) = (Meter::recording(), Meter::recording());
    stage.to_posts.drain_metered(&first).await?;
    let to_posts = first.measurement(answered.elapsed());
    let between = Instant::now();
    stage.to_copies.drain_metered(&second).await?;
    let to_copies = second.measurement(between.elapsed());

    // The items are read again, and each gets the moment of the request that wrote it.
    let mut names = look(stage).await?;
    let mut writes = first.records_with_moments();
    writes.extend(second.records_with_moments());
    date_copies(&mut names.copies, &writes, answered, stage);
    let query = Query::new(POSTS_WITH_OLD_NAME)
        .with("@userId", id.as_str())
        .with("@username", to);
    let blog = &stage.blog;
    let left = blog
        .client
        .query_all(&Meter::new(), &blog.posts, &query)
        .await?;
    names.renamed = Some(Renamed {
        from,
        rename,
        to_posts,
        to_copies,
        left: left.len(),
    });
    Ok(names)
}

/// Gives each copy the lag and the charge of the request that wrote it.
fn date_copies(
    copies: &mut [Copy],
    writes: &[(RequestRecord, Instant)],
    answered: Instant,
    stage: &Stage,
) {
    let blog = &stage.blog;
    for (container, link) in [
        ("posts", &blog.posts),
        ("users", &blog.users),
        ("feed", &blog.feed),
    ] {
        // The record of an upsert with a trigger names the trigger and not the item: the copies of
        // the feed are dated in the order of their writes.
        let mut of_container = writes.iter().filter(|(record, _)| {
            let writes = matches!(record.operation, Operation::Execute | Operation::Upsert);
            record.container == *link && writes
        });
        for copy in copies.iter_mut().filter(|copy| copy.container == container) {
            let found = match container {
                "posts" => of_container
                    .clone()
                    .find(|(record, _)| record.key.as_deref() == Some(copy.key.as_str())),
                _ => of_container.next(),
            };
            if let Some((record, at)) = found {
                let lag = at.saturating_duration_since(answered);
                copy.lag_ms = Some(lag.as_secs_f64() * 1000.0);
                copy.charge = Some(record.charge);
            }
        }
    }
}

/// Runs `updateUsernames` in a logical partition that has the present name already.
pub(super) async fn repeat(stage: &mut Stage) -> Result<Repeated, BlogError> {
    let names = look(stage).await?;
    let copy = names.copies.iter().find(|copy| copy.container == "posts");
    let Some(post) = copy.map(|copy| copy.key.clone()) else {
        return Err(BlogError::unexpected("the lab", "the user has no post"));
    };
    let blog = &stage.blog;
    let (meter, started) = (Meter::recording(), Instant::now());
    let arguments = json!([stage.user.id, stage.user.username]);
    let answer = blog
        .client
        .execute(&meter, &blog.posts, &post, "updateUsernames", &arguments)
        .await?;
    Ok(Repeated {
        post,
        updated: answer["updated"].as_u64().unwrap_or_default(),
        cost: meter.measurement(started.elapsed()),
    })
}
