//! Loading of a data set into one model.
//!
//! At 1/100 of the article's size a model has 1.7 million items. If each item were created by one
//! HTTP request, each would cost a signed request and its share of a durable commit. The default is
//! therefore the stored procedure `bulkLoad`: one transaction for each logical partition, that is,
//! a post with its comments and likes, on average 64 items and 25 KB. The service's guides
//! recommend this way; it takes about one sixtieth of the requests and commits. [`Load::Creates`]
//! is for servers without scripts and for comparison.
//!
//! The copies that the pipelines of V3 maintain (short posts, the feed) are loaded directly, in the
//! state to which the pipelines would lead.

use crate::dataset::Dataset;
use crate::models::{Blog, FEED_LENGTH, Model};
use crate::options::Load;
use crate::progress::Progress;
use crate::{BlogError, Meter};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A part of the data set, loaded by one set of workers.
#[derive(Clone, Copy)]
enum Part {
    /// `users`: one logical partition for each user.
    Users,
    /// `posts`: one logical partition for each post.
    Posts,
    /// `feed`: one logical partition, loaded item by item.
    Feed,
}

/// Loads `data` into the containers of `blog` and returns the number of items created.
pub(crate) async fn load(
    blog: &Blog,
    data: &Arc<Dataset>,
    method: Load,
    workers: usize,
    progress: &dyn Progress,
) -> Result<u64, BlogError> {
    let mut parts = vec![(Part::Users, data.users()), (Part::Posts, data.posts())];
    if blog.model == Model::V3 {
        parts.push((Part::Feed, FEED_LENGTH.min(data.posts())));
    }
    let total = parts.iter().map(|(_, count)| count).sum();
    progress.begin(&format!("loading {}", blog.model), total);
    let mut items = 0;
    for (part, count) in parts {
        let loader = PartLoader {
            blog: blog.clone(),
            data: data.clone(),
            method,
            part,
            count,
            newest: match part {
                Part::Feed => data.newest(count),
                Part::Users | Part::Posts => Vec::new(),
            },
            next: AtomicU64::new(0),
        };
        items += load_part(Arc::new(loader), workers, progress).await?;
    }
    progress.end();
    Ok(items)
}

/// Loads one part with `workers` concurrent workers and returns the number of items created.
async fn load_part(
    loader: Arc<PartLoader>,
    workers: usize,
    progress: &dyn Progress,
) -> Result<u64, BlogError> {
    let (created_sender, mut created_receiver) = mpsc::channel(workers * 4);
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        tasks.spawn(loader.clone().run(created_sender.clone()));
    }
    // The channel closes when the last worker has dropped its sender.
    drop(created_sender);

    let mut items = 0;
    while let Some(created) = created_receiver.recv().await {
        items += created;
        progress.advance(1);
    }
    while let Some(task) = tasks.join_next().await {
        task.map_err(|e| BlogError::unexpected("loading", e.to_string()))??;
    }
    Ok(items)
}

/// The state that the workers of one part share.
struct PartLoader {
    blog: Blog,
    data: Arc<Dataset>,
    method: Load,
    part: Part,
    /// Number of logical partitions of the part; of the feed, number of items.
    count: u64,
    /// The posts of the feed.
    newest: Vec<u64>,
    /// The next logical partition or feed item to load.
    next: AtomicU64,
}

impl PartLoader {
    /// Loads logical partitions until none is left. Sends the number of items of each to `created`.
    async fn run(self: Arc<Self>, created: mpsc::Sender<u64>) -> Result<(), BlogError> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return Ok(());
            }
            let items = self.items(number);
            let count = items.len() as u64;
            self.store(items).await?;
            if created.send(count).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Returns the items of one logical partition, or one item of the feed.
    fn items(&self, number: u64) -> Vec<Value> {
        match self.part {
            Part::Users => self.blog.items_of_user(&self.data, number),
            Part::Posts => self.blog.items_of_post(&self.data, number),
            Part::Feed => self
                .blog
                .short_post_item(&self.data, self.newest[number as usize])
                .into_iter()
                .collect(),
        }
    }

    /// Stores the items of one logical partition.
    async fn store(&self, items: Vec<Value>) -> Result<(), BlogError> {
        let meter = Meter::new();
        let (blog, client) = (&self.blog, &self.blog.client);
        // The partition key of users and posts is the id of the first item.
        let first_id = match items.first() {
            Some(item) => item["id"].as_str().unwrap_or_default(),
            None => "",
        };
        let (container, key) = match self.part {
            Part::Users => (&blog.users, first_id),
            Part::Posts => (&blog.posts, first_id),
            Part::Feed => (&blog.feed, "post"),
        };
        if self.method == Load::Creates || items.len() == 1 {
            for item in &items {
                client.create(&meter, container, key, item).await?;
            }
            return Ok(());
        }

        // The procedure may end early because of its time limit; it returns the number of items
        // that it created, and the next call continues with the rest.
        let mut remaining = items.as_slice();
        while !remaining.is_empty() {
            let arguments = json!([remaining]);
            let result = client
                .execute(&meter, container, key, "bulkLoad", &arguments)
                .await?;
            let created = result.as_u64().unwrap_or(0) as usize;
            // Without progress the loop would never end.
            if created == 0 {
                return Err(BlogError::unexpected(
                    format!("bulkLoad of '{key}'"),
                    format!("{result} items created"),
                ));
            }
            remaining = &remaining[created.min(remaining.len())..];
        }
        Ok(())
    }
}
