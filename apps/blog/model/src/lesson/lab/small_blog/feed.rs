//! The feed with its post-trigger, and a feed without one that grows up to the limit of its logical
//! partition.

use super::stage::Stage;
use crate::lesson::lab::load::is_key_full;
use crate::meter::{Measurement, Meter, Operation};
use crate::models::{FEED, short_post};
use crate::{BlogError, Charge, Query};
use serde_json::{Value, json};
use std::time::Instant;

/// Posts that one step adds to the feed without the trigger, and posts of one transaction.
const GROWTH: u64 = 1_000;
const BATCH: u64 = 100;
/// The partition key of all posts of a feed.
const KEY: &str = "post";

/// A short post in the feed.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are the properties of the item")]
pub struct FeedPost {
    pub id: String,
    pub title: String,
    pub created: String,
}

/// The charges of the last post that was added.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Id of the post.
    pub id: String,
    /// Cost of the post itself.
    pub post: Measurement,
    /// Charge of its copy in the feed, with the trigger.
    pub with_trigger: Charge,
    /// Charge of the same copy in a feed without the trigger.
    pub without_trigger: Charge,
    /// Time from the answer to the post until its copy was in the feed, in milliseconds.
    pub lag_ms: f64,
    /// The post that the trigger has removed.
    pub cut: Option<FeedPost>,
}

/// The feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Feed {
    /// The posts, newest first.
    pub posts: Vec<FeedPost>,
    /// Cost of the query that read them, Q6.
    pub q6: Measurement,
    /// The newest item, without system properties.
    pub sample: Value,
    /// The last post that was added, if there was one.
    pub added: Option<Added>,
}

/// A measurement of the feed without the trigger.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    /// Number of posts.
    pub posts: u64,
    /// Size of their physical partition, which has no other items, in bytes.
    pub bytes: u64,
    /// Cost of Q6.
    pub q6: Measurement,
    /// Cost of the count that the trigger would make.
    pub count: Measurement,
    /// Charge of one more post.
    pub write: Charge,
}

/// The feed without the trigger.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Uncut {
    /// The measurements, one for each step.
    pub grown: Vec<Grown>,
    /// The size limit of a logical partition, if it was lowered.
    pub limit: Option<u64>,
    /// The answer to the write beyond the limit: status, sub-status and message.
    pub refusal: Option<(u16, u32, String)>,
}

/// Reads the feed.
pub(super) async fn look(stage: &Stage) -> Result<Feed, BlogError> {
    let (meter, started) = (Meter::recording(), Instant::now());
    let items = stage.blog.feed(&meter).await?;
    let q6 = meter.measurement(started.elapsed());
    let mut posts = Vec::with_capacity(items.len());
    for item in &items {
        posts.push(feed_post(item));
    }
    let sample = items.into_iter().next().unwrap_or_default();
    Ok(Feed {
        posts,
        q6,
        sample: super::names::without_system(sample),
        added: None,
    })
}

fn feed_post(item: &Value) -> FeedPost {
    let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
    FeedPost {
        id: text("id"),
        title: text("title"),
        created: text("creationDate"),
    }
}

/// Writes a post and runs the pipelines.
pub(super) async fn add_post(stage: &mut Stage) -> Result<Feed, BlogError> {
    let before = look(stage).await?;
    let post = stage.data.fresh_post(stage.written);
    stage.written += 1;

    // The post is one write in `posts`; the pipeline then copies it to `users` and `feed`.
    let (meter, started) = (Meter::recording(), Instant::now());
    stage.blog.create_post(&meter, &post).await?;
    let cost = meter.measurement(started.elapsed());
    let answered = Instant::now();
    let meter = Meter::recording();
    stage.to_copies.drain_metered(&meter).await?;
    let records = meter.records_with_moments();
    let copied = records.iter().find(|(record, _)| {
        record.container == stage.blog.feed && record.operation == Operation::Upsert
    });
    let Some((copied, at)) = copied else {
        return Err(BlogError::unexpected("the feed", "the post was not copied"));
    };

    // The same copy in a feed without the trigger shows what the trigger charges.
    let item = crate::models::post_item(stage.blog.model(), &post, 0, 0);
    let short = short_post(&item).unwrap_or_default();
    let without_trigger = write_uncut(stage, &short).await?;
    let mut feed = look(stage).await?;
    let is_gone = |old: &&FeedPost| feed.posts.iter().all(|new| new.id != old.id);
    feed.added = Some(Added {
        id: post.id.clone(),
        post: cost,
        with_trigger: copied.charge,
        without_trigger,
        lag_ms: at.saturating_duration_since(answered).as_secs_f64() * 1000.0,
        cut: before.posts.iter().find(is_gone).cloned(),
    });
    Ok(feed)
}

/// Writes a post to the feed without the trigger, and returns the charge.
async fn write_uncut(stage: &mut Stage, short: &Value) -> Result<Charge, BlogError> {
    let meter = Meter::recording();
    let (client, uncut) = (&stage.blog.client, &stage.uncut);
    client.upsert(&meter, uncut, KEY, short, None).await?;
    stage.uncut_posts += 1;
    Ok(meter.measurement(std::time::Duration::ZERO).ru)
}

/// Adds posts to the feed without the trigger, and measures the feed. A full logical partition is a
/// result and not a failure.
pub(super) async fn grow(stage: &mut Stage, uncut: &mut Uncut) -> Result<(), BlogError> {
    for _ in 0..GROWTH / BATCH {
        match add_batch(stage).await {
            Ok(()) => {}
            Err(BlogError::Refused {
                status,
                sub_status,
                message,
                operation,
            }) => {
                let refusal = BlogError::Refused {
                    status,
                    sub_status,
                    message: message.clone(),
                    operation,
                };
                if !is_key_full(&refusal) {
                    return Err(refusal);
                }
                uncut.refusal = Some((status, sub_status, message));
                break;
            }
            Err(other) => return Err(other),
        }
    }
    let grown = measure(stage).await?;
    uncut.grown.push(grown);
    Ok(())
}

/// Adds the posts of one transaction.
async fn add_batch(stage: &mut Stage) -> Result<(), BlogError> {
    let mut items = Vec::with_capacity(BATCH as usize);
    for n in 0..BATCH {
        // The numbers lie behind those of posts that the other steps write.
        let number = 10_000 + stage.uncut_posts + n;
        let post = stage.data.fresh_post(number);
        let item = crate::models::post_item(stage.blog.model(), &post, 0, 0);
        items.push(short_post(&item).unwrap_or_default());
    }
    let (client, uncut) = (&stage.blog.client, &stage.uncut);
    let arguments = json!([items]);
    let created = client
        .execute(&Meter::new(), uncut, KEY, "bulkLoad", &arguments)
        .await?;
    stage.uncut_posts += created.as_u64().unwrap_or_default();
    Ok(())
}

/// Measures the feed without the trigger.
async fn measure(stage: &mut Stage) -> Result<Grown, BlogError> {
    // One more post, if the logical partition takes one.
    let post = stage.data.fresh_post(9_000_000 + stage.uncut_posts);
    let item = crate::models::post_item(stage.blog.model(), &post, 0, 0);
    let short = short_post(&item).unwrap_or_default();
    let write = match write_uncut(stage, &short).await {
        Err(error) if is_key_full(&error) => Charge::default(),
        written => written?,
    };

    let (client, uncut) = (&stage.blog.client, &stage.uncut);
    let (meter, started) = (Meter::recording(), Instant::now());
    client.query(&meter, uncut, KEY, &Query::new(FEED)).await?;
    let q6 = meter.measurement(started.elapsed());
    let (meter, started) = (Meter::recording(), Instant::now());
    let count = Query::new(COUNT);
    let rows = client.query(&meter, uncut, KEY, &count).await?;
    let posts = rows.iter().filter_map(Value::as_u64).sum();
    let count = meter.measurement(started.elapsed());

    let sizes = client.partition_sizes(uncut).await?;
    let bytes = sizes.iter().map(|size| size.kilobytes << 10).sum();

    Ok(Grown {
        posts,
        bytes,
        q6,
        count,
        write,
    })
}

/// The count that the trigger makes before each cut.
const COUNT: &str = "SELECT VALUE COUNT(1) FROM f WHERE f.id != 'x'";
