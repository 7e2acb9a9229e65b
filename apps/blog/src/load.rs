//! Loading a data set into one model, fast enough that a small table is printed within a minute.
//!
//! At 1/100 of the article's size a model has 1.7 million items. Created one by one over HTTP, each pays for a signed
//! request and its share of a durable commit. So the usual way is the stored procedure `bulkLoad`: one transaction per
//! logical partition, that is, a post with its comments and likes, some 64 items and 25 KB. That is how the service's
//! own guides load data, and it makes sixty times fewer requests and commits. `Load::Creates` remains for servers
//! without scripts, and to compare.
//!
//! What the pipelines of V3 would build (short posts, the feed) is loaded directly in the state they lead to.

use crate::bench::Load;
use crate::dataset::Dataset;
use crate::models::{Blog, FEED_LENGTH, Model};
use crate::progress::Progress;
use crate::{BlogError, Meter};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Which logical partitions a loader fills.
#[derive(Clone, Copy)]
enum Part {
    /// One per user.
    Users,
    /// One per post.
    Posts,
    /// The one of the feed, item by item.
    Feed,
}

/// Fills the containers of `blog` with `data`; answers the number of items created.
pub(crate) async fn load(
    blog: &Blog,
    data: &Arc<Dataset>,
    how: Load,
    workers: usize,
    progress: &dyn Progress,
) -> Result<u64, BlogError> {
    let mut items = 0;
    let mut parts = vec![(Part::Users, data.users()), (Part::Posts, data.posts())];
    if blog.model == Model::V3 {
        parts.push((Part::Feed, FEED_LENGTH.min(data.posts())));
    }
    let total = parts.iter().map(|(_, count)| count).sum();
    progress.begin(&format!("loading {}", blog.model), total);
    for (part, count) in parts {
        items += load_part(blog, data, how, (part, count), workers, progress).await?;
    }
    progress.end();
    Ok(items)
}

async fn load_part(
    blog: &Blog,
    data: &Arc<Dataset>,
    how: Load,
    (part, count): (Part, u64),
    workers: usize,
    progress: &dyn Progress,
) -> Result<u64, BlogError> {
    let newest = Arc::new(if matches!(part, Part::Feed) {
        data.newest(count)
    } else {
        Vec::new()
    });
    let next = Arc::new(AtomicU64::new(0));
    let (done, mut finished) = mpsc::channel(workers * 4);
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (blog, data, next, newest, done) = (
            blog.clone(),
            data.clone(),
            next.clone(),
            newest.clone(),
            done.clone(),
        );
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                let items = match part {
                    Part::Users => blog.items_of_user(&data, number),
                    Part::Posts => blog.items_of_post(&data, number),
                    Part::Feed => blog
                        .short_post_item(&data, newest[number as usize])
                        .into_iter()
                        .collect(),
                };
                let created = items.len() as u64;
                store(&blog, part, how, items).await?;
                if done.send(created).await.is_err() {
                    return Ok(());
                }
            }
        });
    }
    drop(done);
    let mut items = 0;
    while let Some(created) = finished.recv().await {
        items += created;
        progress.advance(1);
    }
    while let Some(task) = tasks.join_next().await {
        task.map_err(|e| BlogError::unexpected("loading", e.to_string()))??;
    }
    Ok(items)
}

/// Stores the items of one logical partition; the first one's id is its key, except in the feed.
async fn store(blog: &Blog, part: Part, how: Load, items: Vec<Value>) -> Result<(), BlogError> {
    let meter = Meter::new();
    let (container, key) = match part {
        Part::Users => (&blog.users, None),
        Part::Posts => (&blog.posts, None),
        Part::Feed => (&blog.feed, Some("post".to_owned())),
    };
    let first_id = || {
        items
            .first()
            .and_then(|item| item["id"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let key = key.unwrap_or_else(first_id);
    if how == Load::Creates || items.len() == 1 {
        for item in &items {
            blog.client.create(&meter, container, &key, item).await?;
        }
        return Ok(());
    }
    let mut left = items.as_slice();
    while !left.is_empty() {
        let arguments = json!([left]);
        let created = blog
            .client
            .execute(&meter, container, &key, "bulkLoad", &arguments)
            .await?;
        let taken = created.as_u64().map_or(0, |n| n as usize).min(left.len());
        if taken == 0 {
            return Err(BlogError::unexpected(
                format!("bulkLoad of '{key}'"),
                format!("{created} items created"),
            ));
        }
        left = &left[taken..];
    }
    Ok(())
}
