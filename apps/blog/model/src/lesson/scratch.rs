//! A database for measured writes, with the containers and throughput of the live blog.
//!
//! The charge of a write depends on the written item and, for reactions of pipelines, on the number
//! of physical partitions and on a full feed; it does not depend on the number of items in the
//! blog. The database therefore has the throughput of the live containers, a few users, and enough
//! posts for a full feed. It is deleted after the measurement.

use super::Action;
use super::compare::{PipelineCost, Run, by_container};
use crate::BlogError;
use crate::dataset::Dataset;
use crate::feed::Positions;
use crate::meter::{Meter, Operation, RequestRecord};
use crate::models::{Blog, FEED_LENGTH, Model, Request, Throughput};
use crate::pipelines::{Pipeline, Reaction};
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use std::time::Instant;

/// Size of the data set of the database: four users with more posts than the feed has places.
pub(super) const SCALE: f64 = 0.000_04;
/// Requests in flight while the database is filled.
const CONCURRENCY: usize = 16;
/// Changes in a page while positions are read.
const PAGE_SIZE: usize = 100;
/// Number of the post that is written before the measurement.
const WARM_UP: u64 = 1_000_000;
/// RU/s of a container whose live counterpart does not tell its throughput.
const THROUGHPUT_UNKNOWN: u32 = 6_000;

/// The database of one model.
pub(super) struct Scratch {
    blog: Blog,
    data: Dataset,
    runs: usize,
    pipelines: Vec<(&'static str, Pipeline)>,
    /// Charge in RU of the rewrite of a name in one post.
    rewrite_ru: f64,
}

impl Scratch {
    /// The writes in the order in which they run: reactions and edits need the posts before them.
    pub(super) const WRITES: [Action; 7] = [
        Action::Article(Request::C1),
        Action::Article(Request::C2),
        Action::Article(Request::C3),
        Action::Article(Request::C4),
        Action::EditPost,
        Action::Rename,
        Action::DeletePost,
    ];

    /// Creates and fills the database for the model of `live`. A database that an interrupted
    /// comparison has left is deleted first.
    pub(super) async fn create(live: &Blog, runs: usize) -> Result<Self, BlogError> {
        Self::remove(live).await?;
        let throughput = Throughput {
            users: throughput_of(live, 0).await?,
            posts: throughput_of(live, 1).await?,
            feed: throughput_of(live, 2).await?,
        };
        let name = Self::database(live);
        let blog = Blog::new(live.client.clone(), live.model(), &name).with_throughput(throughput);
        blog.create().await?;
        let mut scratch = Self {
            pipelines: Vec::new(),
            data: Dataset::new(1, SCALE)?,
            blog,
            runs,
            rewrite_ru: 0.0,
        };
        fill(&scratch.blog, &scratch.data).await?;
        for pipeline in named_pipelines(&scratch.blog) {
            scratch.pipelines.push(pipeline);
        }
        scratch.skip_changes().await?;
        // The first post that the pipelines copy costs more: they have to look at the feed.
        scratch.write(Action::Article(Request::C2), WARM_UP).await?;
        scratch.drain().await?;
        Ok(scratch)
    }

    /// Deletes the database of the model of `live` if it exists.
    pub(super) async fn remove(live: &Blog) -> Result<(), BlogError> {
        live.client.delete_database(&Self::database(live)).await
    }

    /// Returns the name of the database.
    fn database(live: &Blog) -> String {
        format!("{}-scratch", live.database())
    }

    /// Sets all pipelines behind the last change.
    async fn skip_changes(&mut self) -> Result<(), BlogError> {
        let users = end_of_feed(&self.blog, &self.blog.users).await?;
        let posts = end_of_feed(&self.blog, &self.blog.posts).await?;
        for (name, pipeline) in &mut self.pipelines {
            let position = if *name == RENAME { &users } else { &posts };
            *pipeline = pipeline.clone().from_positions(position.clone());
        }
        Ok(())
    }

    /// Returns the charge of one poll of all pipelines without changes.
    pub(super) async fn poll_ru(&mut self) -> Result<f64, BlogError> {
        // The first run reads what was left; the second finds nothing.
        self.drain().await?;
        let mut ru = 0.0;
        for (name, pipeline) in &mut self.pipelines {
            if *name == FEED_COPY {
                continue;
            }
            let meter = Meter::recording();
            pipeline.drain_metered(&meter).await?;
            ru += records_ru(meter.records().iter());
        }
        Ok(ru)
    }

    /// Runs a write several times, each time with other items of the same size. The pipelines run
    /// after the first one and are measured.
    pub(super) async fn measure(
        &mut self,
        action: Action,
    ) -> Result<(Vec<Run>, Vec<PipelineCost>), BlogError> {
        let mut runs = vec![self.write(action, 0).await?];
        let pipelines = self.measure_pipelines().await?;
        for n in 1..self.runs {
            runs.push(self.write(action, n as u64).await?);
        }
        self.drain().await?;
        Ok((runs, pipelines))
    }

    /// Returns the charge of the rewrite of a name in one post, once a rename was measured.
    pub(super) fn rewrite_ru(&self) -> f64 {
        self.rewrite_ru
    }

    /// Runs a write once.
    async fn write(&self, action: Action, n: u64) -> Result<Run, BlogError> {
        let (blog, data) = (&self.blog, &self.data);
        // All items are created before the clock starts.
        let (user, post) = (data.fresh_user(n), data.fresh_post(n));
        let (comment, like) = (data.fresh_comment(n), data.fresh_like(n));
        // Names and texts keep their lengths, so that all runs have one price.
        let name = format!("name{n:06}");
        let content: String = post.content.chars().rev().collect();
        let meter = Meter::recording();
        let started = Instant::now();
        match action {
            Action::Article(Request::C1) => blog.create_user(&meter, &user).await?,
            Action::Article(Request::C2) => blog.create_post(&meter, &post).await?,
            Action::Article(Request::C3) => blog.create_comment(&meter, &comment).await?,
            Action::Article(Request::C4) => blog.create_like(&meter, &like).await?,
            Action::Rename => blog.rename_user(&meter, &data.user(0).id, &name).await?,
            Action::EditPost => {
                blog.edit_post(&meter, &post.id, &post.title, &content)
                    .await?;
            }
            Action::DeletePost => {
                blog.delete_post(&meter, &post.id, &post.user.id).await?;
            }
            other => {
                return Err(BlogError::InvalidOption(format!(
                    "{other} is not measured here"
                )));
            }
        }
        Ok(Run::of(&meter, started))
    }

    /// Runs each pipeline until it finds no changes, and returns what the reactions cost.
    async fn measure_pipelines(&mut self) -> Result<Vec<PipelineCost>, BlogError> {
        let mut costs = Vec::new();
        for (name, pipeline) in &mut self.pipelines {
            let meter = Meter::recording();
            let started = Instant::now();
            let done = pipeline.drain_metered(&meter).await?;
            let ms = started.elapsed().as_secs_f64() * 1000.0;
            let records = meter.records();
            let rewrites: Vec<_> = of(&records, Operation::Execute).collect();
            if *name == RENAME && !rewrites.is_empty() {
                let sum = records_ru(rewrites.iter().copied());
                self.rewrite_ru = sum / rewrites.len() as f64;
            }
            let reaction = || records.iter().filter(|record| is_counted(name, record));
            let ru = records_ru(reaction());
            // A pipeline may also search without a find; then it has written nothing.
            if reaction().count() == 0 {
                continue;
            }
            costs.push(PipelineCost {
                name,
                ru,
                by_container: by_container(reaction()),
                requests: reaction().count(),
                written: done.written,
                ms,
            });
        }
        Ok(costs)
    }

    /// Runs each pipeline until it finds no changes.
    async fn drain(&mut self) -> Result<(), BlogError> {
        // The copies in `users` are changes of `users`, which the first pipeline reads in the
        // second round.
        for _ in 0..2 {
            for (_, pipeline) in &mut self.pipelines {
                pipeline.drain().await?;
            }
        }
        Ok(())
    }
}

/// Creates the users, their posts and, in V3, the copies of the posts.
pub(super) async fn fill(blog: &Blog, data: &Dataset) -> Result<(), BlogError> {
    let mut writes: Vec<(&str, String, Value)> = Vec::new();
    for n in 0..data.users() {
        let key = data.user(n).id;
        for item in blog.items_of_user(data, n) {
            writes.push((blog.users.as_str(), key.clone(), item));
        }
    }
    for k in 0..data.posts() {
        let post = data.post(k);
        let item = crate::models::post_item(blog.model(), &post, 0, 0);
        writes.push((blog.posts.as_str(), post.id, item));
    }
    if blog.model() == Model::V3 {
        for k in data.newest(FEED_LENGTH) {
            if let Some(copy) = blog.short_post_item(data, k) {
                writes.push((blog.feed.as_str(), "post".to_owned(), copy));
            }
        }
    }
    let meter = Meter::new();
    let mut creates = Vec::with_capacity(writes.len());
    for (container, key, item) in &writes {
        creates.push(blog.client.create(&meter, container, key, item));
    }
    let mut results = stream::iter(creates).buffer_unordered(CONCURRENCY);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}

const RENAME: &str = "names to posts";
const FEED_COPY: &str = "posts to feed";

/// Returns the pipelines of a blog with names for readers.
fn named_pipelines(blog: &Blog) -> Vec<(&'static str, Pipeline)> {
    let reactions: &[(&str, Reaction)] = match blog.model() {
        Model::V1 => &[],
        Model::V2 => &[(RENAME, Reaction::RenameInPosts)],
        Model::V3 => &[
            (RENAME, Reaction::RenameInPosts),
            ("posts to users", Reaction::CopyToUsers),
            (FEED_COPY, Reaction::CopyToFeed),
        ],
    };
    let mut pipelines = Vec::new();
    for (name, reaction) in reactions {
        pipelines.push((*name, Pipeline::new(blog, *reaction)));
    }
    pipelines
}

/// Returns true for a request that a change has caused, in the pipeline `name`: everything except
/// polls that found nothing. The pipelines of `posts` share one reading of its feed, which counts
/// for the first of them.
fn is_counted(name: &str, record: &RequestRecord) -> bool {
    record.operation != Operation::ChangeFeed || (record.status != 304 && name != FEED_COPY)
}

fn of(records: &[RequestRecord], operation: Operation) -> impl Iterator<Item = &RequestRecord> {
    records
        .iter()
        .filter(move |record| record.operation == operation)
}

/// Returns the sum of charges in RU.
fn records_ru<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> f64 {
    records.map(|record| record.charge.ru()).sum()
}

/// Returns the positions behind the last change of a container.
pub(super) async fn end_of_feed(blog: &Blog, container: &str) -> Result<Positions, BlogError> {
    let ranges = blog.client.ranges(container).await?;
    let mut ends = Vec::with_capacity(ranges.len());
    for range in ranges.iter() {
        ends.push(end_of_range(blog, container, &range.id));
    }
    let mut results = stream::iter(ends).buffer_unordered(CONCURRENCY);
    let mut positions = Positions::default();
    while let Some(result) = results.next().await {
        let (range, etag) = result?;
        positions.set(&range, etag);
    }
    Ok(positions)
}

/// Returns a range with the position behind its last change.
async fn end_of_range(
    blog: &Blog,
    container: &str,
    range: &str,
) -> Result<(String, String), BlogError> {
    let meter = Meter::new();
    let mut etag: Option<String> = None;
    loop {
        let page = blog
            .client
            .changes(&meter, container, range, etag.as_deref(), PAGE_SIZE)
            .await?;
        if page.items.is_empty() {
            return Ok((range.to_owned(), page.etag));
        }
        etag = Some(page.etag);
    }
}

/// Returns the throughput of a live container by its place in [`Blog::containers`].
async fn throughput_of(live: &Blog, index: usize) -> Result<u32, BlogError> {
    let Some(container) = live.containers().get(index).copied() else {
        return Ok(THROUGHPUT_UNKNOWN);
    };
    let throughput = live.client.throughput(container).await?;
    Ok(throughput.unwrap_or(THROUGHPUT_UNKNOWN))
}
