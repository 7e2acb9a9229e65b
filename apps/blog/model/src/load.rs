//! Loading of a data set into one model, which can be interrupted at any point and continued.
//!
//! At 1/100 of the article's size a model has 1.7 million items. If each item were created by one
//! HTTP request, each would cost a signed request and its share of a durable commit. The default is
//! therefore the stored procedure `bulkLoad`: one transaction for each logical partition, that is,
//! a post with its comments and likes, on average 64 items and 25 KB. The service's guides
//! recommend this way; it takes about one sixtieth of the requests and commits. [`Load::Creates`]
//! is for servers without scripts and for comparison.
//!
//! The copies that the pipelines of V3 maintain (short posts, the feed) are loaded directly, in the
//! state to which the pipelines would lead, or left to the pipelines: see [`Copies`].
//!
//! The logical partitions of a part are numbered and loaded in windows. The item of the container
//! `loadState` states the window in progress:
//! ```text
//! 0 ─────────── done ─────────── begun ────────────── count
//!   all loaded       some loaded        none loaded
//! ```
//! A window is recorded before its first partition is loaded. A load that continues therefore looks
//! only in that window for items that exist, and a load that is complete does nothing.
//!
//! Left out: writes by others while the data set is being loaded. The positions from which
//! pipelines start are those of the end of the load, and a write before would not be seen.

use crate::client::Client;
use crate::control::existing_is_fine;
use crate::dataset::Dataset;
use crate::feed::Positions;
use crate::models::{Blog, FEED_LENGTH, Model, user_item};
use crate::options::Load;
use crate::progress::Progress;
use crate::{BlogError, Meter, Query};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Logical partitions of one window. Longer windows have more partitions to look at after an
/// interruption; shorter ones wait more often for their last partition.
const WINDOW: u64 = 2_048;
/// Provisioned RU/s of the container of the load state.
const STATE_THROUGHPUT: u32 = 400;
/// Repetitions of one logical partition because of items that exist.
const CONFLICTS_MAX: usize = 5;
/// Id and partition key of the load state.
const STATE_ID: &str = "load";
/// An etag that stands for the end of a change feed.
const END_OF_FEED: &str = "*";

/// Bytes on disk of one item of the data set with its index entries, in Orrery's local store.
/// Measured: 257 MB of tables for the 349,481 items of V1 at scale 0.002, which are 736 B each.
const BYTES_PER_ITEM: u64 = 750;
/// Bytes on disk of an empty local store at work: its log and its reserve.
const BYTES_OF_STORE: u64 = 200_000_000;

/// The way in which V3 gets its short copies of posts in `users` and `feed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// The copies are loaded in their final state, and the pipelines start at the end of the
    /// loaded changes.
    Loaded,
    /// The copies are not loaded: the pipelines start at the beginning of the feed of `posts` and
    /// write them.
    ByPipelines,
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loaded => "loaded",
            Self::ByPipelines => "by pipelines",
        })
    }
}

/// The way in which a data set is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Procedures or single creates.
    pub method: Load,
    /// Number of concurrent workers.
    pub workers: usize,
    /// The origin of the copies of V3.
    pub copies: Copies,
}

impl Default for Fill {
    /// Returns loading by procedures with 32 workers, copies included.
    fn default() -> Self {
        Self {
            method: Load::Procedure,
            workers: 32,
            copies: Copies::Loaded,
        }
    }
}

/// The work of one call of [`fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Items that this call created.
    pub items: u64,
    /// Items that earlier, interrupted calls had created.
    pub items_before: u64,
}

/// A part of the data set, loaded by one set of workers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// `users`: one logical partition for each user.
    Users,
    /// `posts`: one logical partition for each post.
    Posts,
    /// `feed`: one logical partition, loaded item by item.
    Feed,
}

impl Part {
    /// Returns the name of the container.
    fn name(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Posts => "posts",
            Self::Feed => "feed",
        }
    }
}

/// Loads `data` into `blog`, whose database, containers and scripts are created if missing. A load
/// that was interrupted continues; one that is complete does nothing. No other writer may be active
/// until the load is complete.
///
/// # Errors
/// [`BlogError::InvalidOption`] if the database was filled with another data set or with another
/// [`Copies`]; every error of a request. The load can be continued after any error.
pub async fn fill(
    blog: &Blog,
    data: &Arc<Dataset>,
    options: Fill,
    progress: &dyn Progress,
) -> Result<Filled, BlogError> {
    blog.create_missing().await?;
    let mut state = LoadState::open(blog, data, options).await?;
    let mut filled = Filled {
        items: 0,
        items_before: state.items(),
    };
    if state.is_complete() {
        return Ok(filled);
    }
    let parts = parts_of(blog, data, options);
    let total: u64 = parts.iter().map(|(_, count)| count).sum();
    let done: u64 = parts.iter().map(|(part, _)| state.done(*part)).sum();
    progress.begin(
        &format!("loading {}", blog.model),
        total.saturating_sub(done),
    );
    for (part, count) in parts {
        filled.items += fill_part(blog, data, options, (part, count), &mut state, progress).await?;
    }
    state.complete(options).await?;
    progress.end();
    Ok(filled)
}

/// The size of a data set in some models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Number of items, with the copies of V3.
    pub items: u64,
    /// Bytes on the disk of an Orrery server.
    pub bytes: u64,
}

/// Estimates the size of a data set before it is loaded. Takes time in proportion to the number of
/// posts.
pub fn estimate(data: &Dataset, models: &[Model]) -> Estimate {
    let totals = data.totals();
    let mut items = 0;
    for model in models {
        items += totals.users + totals.posts + totals.comments + totals.likes;
        if *model == Model::V3 {
            items += totals.posts + FEED_LENGTH.min(totals.posts);
        }
    }
    Estimate {
        items,
        bytes: BYTES_OF_STORE + items * BYTES_PER_ITEM,
    }
}

/// Returns the positions in the change feed of a container (`users` or `posts`) at the end of the
/// load, from which pipelines start. `None` if pipelines start at the beginning: nothing was
/// loaded, the load is not complete, or the copies are left to the pipelines.
///
/// # Errors
/// Every error of a request except that there is no load state.
pub(crate) async fn positions_after(
    blog: &Blog,
    container: &str,
) -> Result<Option<Positions>, BlogError> {
    let link = state_link(blog);
    let meter = Meter::new();
    let state = match blog.client.read(&meter, &link, STATE_ID, STATE_ID).await {
        Err(e) if e.is_not_found() => return Ok(None),
        state => state?,
    };
    match state["positions"].get(container) {
        Some(stored) => Positions::from_json(stored).map(Some),
        None => Ok(None),
    }
}

/// Returns the parts of a model with their numbers of logical partitions; of the feed, of items.
fn parts_of(blog: &Blog, data: &Dataset, options: Fill) -> Vec<(Part, u64)> {
    let mut parts = vec![(Part::Users, data.users()), (Part::Posts, data.posts())];
    if blog.model == Model::V3 && options.copies == Copies::Loaded {
        parts.push((Part::Feed, FEED_LENGTH.min(data.posts())));
    }
    parts
}

/// Loads the rest of one part, window by window, and returns the number of items created.
async fn fill_part(
    blog: &Blog,
    data: &Arc<Dataset>,
    options: Fill,
    (part, count): (Part, u64),
    state: &mut LoadState,
    progress: &dyn Progress,
) -> Result<u64, BlogError> {
    let newest = match part {
        Part::Feed => data.newest(count),
        Part::Users | Part::Posts => Vec::new(),
    };
    let newest = Arc::new(newest);
    let mut items = 0;
    while state.done(part) < count {
        let done = state.done(part);
        let interrupted_before = state.begun(part);
        let begun = interrupted_before.max(count.min(done + WINDOW));
        state.begin_window(part, begun).await?;
        let loader = PartLoader {
            blog: blog.clone(),
            data: data.clone(),
            options,
            part,
            newest: newest.clone(),
            next: AtomicU64::new(done),
            end: begun,
            interrupted_before,
        };
        let created = load_window(Arc::new(loader), options.workers, progress).await?;
        state.end_window(part, begun, created);
        items += created;
    }
    Ok(items)
}

/// Loads one window with `workers` concurrent workers and returns the number of items created.
async fn load_window(
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

/// The state of a load, which is kept in the database that is loaded.
///
/// ```text
/// {"id": "load", "seed": 1, "users": 40, "end": 1556668800, "copies": "loaded",
///  "complete": false,
///  "parts": {"users": {"done": 40, "begun": 40, "items": 40}, "posts": {...}},
///  "positions": {"users": {"0": "\"12\""}, "posts": {...}}}
/// ```
struct LoadState {
    client: Client,
    link: String,
    /// Links of the containers whose change feeds pipelines read.
    sources: [(&'static str, String); 2],
    item: Value,
}

impl LoadState {
    /// Reads the state, or begins with an empty one.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] if the database was filled with another data set or with
    /// another origin of the copies.
    async fn open(blog: &Blog, data: &Dataset, options: Fill) -> Result<Self, BlogError> {
        let database = format!("dbs/{}", blog.database);
        let created = blog
            .client
            .create_container(&database, "loadState", "/id", STATE_THROUGHPUT)
            .await;
        existing_is_fine(created)?;
        let identity = [
            ("seed", json!(data.seed())),
            ("users", json!(data.users())),
            ("end", json!(data.end())),
            ("copies", json!(options.copies.to_string())),
        ];
        let link = state_link(blog);
        let meter = Meter::new();
        let item = match blog.client.read(&meter, &link, STATE_ID, STATE_ID).await {
            Ok(item) => item,
            Err(e) if e.is_not_found() => {
                let mut item = json!({"id": STATE_ID, "complete": false, "parts": {}});
                for (name, value) in identity.clone() {
                    item[name] = value;
                }
                item
            }
            Err(e) => return Err(e),
        };
        for (name, value) in &identity {
            if item[*name] != *value {
                return Err(BlogError::InvalidOption(format!(
                    "the database '{}' was filled with {name} {}, not {value}; delete the \
                     database, or use the same options",
                    blog.database, item[*name]
                )));
            }
        }
        Ok(Self {
            client: blog.client.clone(),
            link,
            sources: [("users", blog.users.clone()), ("posts", blog.posts.clone())],
            item,
        })
    }

    fn is_complete(&self) -> bool {
        self.item["complete"] == true
    }

    /// Returns a number of a part; 0 if the part has not begun.
    fn number(&self, part: Part, name: &str) -> u64 {
        self.item["parts"][part.name()][name].as_u64().unwrap_or(0)
    }

    /// Returns the number of partitions before which every partition is loaded.
    fn done(&self, part: Part) -> u64 {
        self.number(part, "done")
    }

    /// Returns the number of partitions from which on no partition is loaded.
    fn begun(&self, part: Part) -> u64 {
        self.number(part, "begun")
    }

    /// Returns the number of items of all complete windows.
    fn items(&self) -> u64 {
        [Part::Users, Part::Posts, Part::Feed]
            .iter()
            .map(|part| self.number(*part, "items"))
            .sum()
    }

    /// Records that the partitions before `begun` may be loaded from now on.
    async fn begin_window(&mut self, part: Part, begun: u64) -> Result<(), BlogError> {
        let (done, items) = (self.done(part), self.number(part, "items"));
        self.item["parts"][part.name()] = json!({"done": done, "begun": begun, "items": items});
        self.store().await
    }

    /// Notes that the window is loaded. The next window, or the end, stores the note.
    fn end_window(&mut self, part: Part, done: u64, created: u64) {
        let items = self.number(part, "items") + created;
        self.item["parts"][part.name()] = json!({"done": done, "begun": done, "items": items});
    }

    /// Records that all parts are loaded, and the positions at which pipelines start. The names in
    /// `posts` are always loaded in their final state, so the changes of `users` are done.
    async fn complete(&mut self, options: Fill) -> Result<(), BlogError> {
        let mut positions = json!({});
        for (name, container) in &self.sources {
            if *name == "users" || options.copies == Copies::Loaded {
                positions[*name] = end_of_feed(&self.client, container).await?.to_json();
            }
        }
        self.item["positions"] = positions;
        self.item["complete"] = true.into();
        self.store().await
    }

    async fn store(&self) -> Result<(), BlogError> {
        let meter = Meter::new();
        self.client
            .upsert(&meter, &self.link, STATE_ID, &self.item, None)
            .await
    }
}

/// Returns the link of the container of the load state.
pub(crate) fn state_link(blog: &Blog) -> String {
    format!("dbs/{}/colls/loadState", blog.database)
}

/// Returns the current end of the change feed of each physical partition.
async fn end_of_feed(client: &Client, container: &str) -> Result<Positions, BlogError> {
    let meter = Meter::new();
    let mut positions = Positions::default();
    // The ranges may have been split while the container was filled.
    client.clear_cached_metadata(container);
    for range in client.ranges(container).await?.iter() {
        let page = client
            .changes(&meter, container, &range.id, Some(END_OF_FEED), 1)
            .await?;
        positions.set(&range.id, page.etag);
    }
    Ok(positions)
}

/// The state that the workers of one window share.
struct PartLoader {
    blog: Blog,
    data: Arc<Dataset>,
    options: Fill,
    part: Part,
    /// The posts of the feed.
    newest: Arc<Vec<u64>>,
    /// The next logical partition or feed item to load.
    next: AtomicU64,
    /// The end of the window.
    end: u64,
    /// An interrupted load may have created items of the partitions before this one.
    interrupted_before: u64,
}

impl PartLoader {
    /// Loads logical partitions until none is left. Sends the number of items of each to `created`.
    async fn run(self: Arc<Self>, created: mpsc::Sender<u64>) -> Result<(), BlogError> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.end {
                return Ok(());
            }
            let count = self.load_partition(number).await?;
            if created.send(count).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Loads the missing items of one logical partition and returns their number.
    async fn load_partition(&self, number: u64) -> Result<u64, BlogError> {
        let mut items = self.items(number);
        if number < self.interrupted_before {
            self.remove_existing(&mut items).await?;
        }
        let mut conflicts = 0;
        loop {
            match self.store(&items).await {
                Err(e) if is_existing(&e) && conflicts < CONFLICTS_MAX => {
                    // A request of the interrupted load was carried out only now.
                    conflicts += 1;
                    self.remove_existing(&mut items).await?;
                }
                stored => return stored.map(|()| items.len() as u64),
            }
        }
    }

    /// Returns the items of one logical partition, or one item of the feed.
    fn items(&self, number: u64) -> Vec<Value> {
        match self.part {
            Part::Users if self.options.copies == Copies::ByPipelines => {
                vec![user_item(self.blog.model, &self.data.user(number))]
            }
            Part::Users => self.blog.items_of_user(&self.data, number),
            Part::Posts => self.blog.items_of_post(&self.data, number),
            Part::Feed => self
                .blog
                .short_post_item(&self.data, self.newest[number as usize])
                .into_iter()
                .collect(),
        }
    }

    /// Returns the link of the container and the partition key of the items of one logical
    /// partition.
    fn place<'a>(&'a self, items: &'a [Value]) -> (&'a str, &'a str) {
        // The partition key of users is the user's id, and that of posts the id of the post.
        let key = |name: &str| match items.first() {
            Some(item) => item[name].as_str().unwrap_or_default(),
            None => "",
        };
        match self.part {
            Part::Users if self.blog.model == Model::V3 => (&self.blog.users, key("userId")),
            Part::Users => (&self.blog.users, key("id")),
            Part::Posts => (&self.blog.posts, key("postId")),
            Part::Feed => (&self.blog.feed, "post"),
        }
    }

    /// Removes the items that exist in the container.
    async fn remove_existing(&self, items: &mut Vec<Value>) -> Result<(), BlogError> {
        let meter = Meter::new();
        let (container, key) = self.place(items);
        let query = Query::new("SELECT VALUE c.id FROM c");
        let rows = self
            .blog
            .client
            .query(&meter, container, key, &query)
            .await?;
        let existing: HashSet<&str> = rows.iter().filter_map(Value::as_str).collect();
        items.retain(|item| !existing.contains(item["id"].as_str().unwrap_or_default()));
        Ok(())
    }

    /// Stores the items of one logical partition.
    async fn store(&self, items: &[Value]) -> Result<(), BlogError> {
        let meter = Meter::new();
        let client = &self.blog.client;
        let (container, key) = self.place(items);
        if self.options.method == Load::Creates || items.len() == 1 {
            for item in items {
                client.create(&meter, container, key, item).await?;
            }
            return Ok(());
        }

        // The procedure may end early because of its time limit; it returns the number of items
        // that it created, and the next call continues with the rest. On a machine that is so busy
        // that a run uses up its time without a chance to end, the next run has half of the items,
        // and a single item is created without the procedure.
        let mut remaining = items;
        let mut items_max = items.len();
        while !remaining.is_empty() {
            let part = &remaining[..items_max.min(remaining.len())];
            let arguments = json!([part]);
            let answer = client.execute(&meter, container, key, "bulkLoad", &arguments);
            let result = match answer.await {
                Err(error) if is_out_of_time(&error) => {
                    match part {
                        [item] => {
                            client.create(&meter, container, key, item).await?;
                            remaining = &remaining[1..];
                        }
                        _ => items_max = part.len() / 2,
                    }
                    continue;
                }
                answer => answer?,
            };
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

/// Returns true if a run of a procedure used up its time. It stored nothing, unless the outcome of
/// its commit is unknown; then the next run meets existing items, as after any lost answer.
fn is_out_of_time(error: &BlogError) -> bool {
    matches!(error, BlogError::Refused { status: 408, .. })
}

/// Returns true if an item exists already: the answer to a create, or to a procedure whose create
/// failed in this way.
fn is_existing(error: &BlogError) -> bool {
    match error {
        BlogError::Refused {
            status, sub_status, ..
        } => *status == 409 || *sub_status == 409,
        _ => false,
    }
}
