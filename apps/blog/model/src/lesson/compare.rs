//! The comparison: every action in every present model, measured on the running blog.
//!
//! Reads run on the live data, for a *probe*: one user and one post. Writes run in databases of
//! their own (see `scratch`), so that the blog's contents stay as they are. The pipelines' part of
//! a write is counted apart from the write.
//!
//! A comparison is bounded in runs and time, and one runs at a time (`comparing`). Other requests
//! go on meanwhile, so latencies are those of a server with this load, and two runs of a read may
//! have different charges; a cell tells so.

use super::Action;
use super::growth::Sizes;
use super::mix::{CONTAINER_NAMES, CONTAINERS, ModelPrices, Price};
use super::scratch::Scratch;
use crate::bench::percentile;
use crate::client::PartitionKeyRange;
use crate::dataset::Dataset;
use crate::meter::{Charge, Meter, RequestRecord};
use crate::models::{Blog, Model, Request};
use crate::pipelines::POSTS_WITH_OLD_NAME;
use crate::query::Query;
use crate::{BlogError, Site, article};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The largest number of runs of each action.
pub const RUNS_MAX: usize = 50;
/// The part of the runs that a read of all partitions has.
const ALL_PARTITIONS_RUNS_PART: usize = 5;

/// The user and the post that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Id of the user.
    pub user: String,
    /// Id of the post.
    pub post: String,
}

/// The part of one pipeline in the cost of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineCost {
    /// The work of the pipeline in words, e.g. `posts to feed`.
    pub name: &'static str,
    /// Charge in RU: the changes read and the reaction.
    pub ru: f64,
    /// The charge in each container.
    pub by_container: [f64; CONTAINERS],
    /// Number of requests of the reaction.
    pub requests: usize,
    /// Number of items written.
    pub written: u64,
    /// Time in milliseconds from the start of the poll until the reaction was complete.
    pub ms: f64,
}

/// The figures of one action in one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The action.
    pub action: Action,
    /// The model.
    pub model: Model,
    /// Charge in RU of the action itself, the median of all runs.
    pub ru: f64,
    /// True if two runs had different charges.
    pub varies: bool,
    /// Median latency in milliseconds.
    pub ms_p50: f64,
    /// Number of runs.
    pub runs: usize,
    /// Physical partitions that answered.
    pub partitions: usize,
    /// Requests to the database.
    pub requests: usize,
    /// Charge in RU at each physical partition of `posts`, by range id.
    pub asked: BTreeMap<String, f64>,
    /// The pipelines that the write sets off.
    pub pipelines: Vec<PipelineCost>,
    /// The charge in each container.
    pub price: Price,
    /// Milliseconds and RU in the article.
    pub article: Option<(f64, f64)>,
    /// Reason for which the article's figures cannot be compared directly.
    pub note: Option<&'static str>,
}

/// Facts about the live data of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    /// The model.
    pub model: Model,
    /// Physical partitions of each container.
    pub partitions: [usize; CONTAINERS],
    /// The physical partitions of `posts` in key order.
    pub ranges: Arc<Vec<PartitionKeyRange>>,
    /// Mean sizes of the items that belong to the probe.
    pub sizes: Sizes,
    /// Posts of the probe user.
    pub posts_of_user: u64,
    /// Posts that show the probe user's name, on themselves, a comment or a like. 0 in V1, which
    /// stores no names.
    pub posts_with_name: u64,
    /// Charge in RU of one poll of all change feeds by all pipelines, without changes.
    pub poll_ru: f64,
}

/// A finished comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Time of the end.
    pub at: jiff::Timestamp,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of runs of each action; fewer for those that read all partitions.
    pub runs: usize,
    /// The user and the post that were read.
    pub probe: Probe,
    /// The models in order.
    pub models: Vec<ModelFacts>,
    /// The cells, sorted by action and then by model.
    pub cells: Vec<Cell>,
}

impl Comparison {
    /// Returns the cell of an action in a model, if it was measured.
    pub fn cell(&self, action: Action, model: Model) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.action == action && cell.model == model)
    }

    /// Returns the facts about a model, if it was measured.
    pub fn facts(&self, model: Model) -> Option<&ModelFacts> {
        self.models.iter().find(|facts| facts.model == model)
    }

    /// Returns the prices of each measured model.
    pub fn prices(&self) -> Vec<ModelPrices> {
        let mut all = Vec::new();
        for facts in &self.models {
            let mut prices = [Price::default(); Action::COUNT];
            for action in Action::ALL {
                if let Some(cell) = self.cell(action, facts.model) {
                    prices[action.index()] = cell.price;
                }
            }
            all.push(ModelPrices {
                model: facts.model,
                partitions: facts.partitions,
                prices,
            });
        }
        all
    }

    /// Returns the mean sizes of items: those of the newest model, which has all kinds.
    pub fn sizes(&self) -> Sizes {
        match self.models.last() {
            Some(facts) => facts.sizes,
            None => Sizes::default(),
        }
    }
}

/// A step of a comparison that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The measured action, e.g. `V1: read a post`.
    pub name: String,
    /// The place of the step, from 1 on.
    pub number: usize,
    /// Number of all steps.
    pub of: usize,
}

/// Counts the steps of a comparison and reports each of them.
struct Steps<'a> {
    report: &'a (dyn Fn(Step) + Send + Sync),
    begun: AtomicUsize,
    of: usize,
}

impl Steps<'_> {
    /// Steps of one model: its actions, the sizes of its items, the database for its writes.
    const OF_MODEL: usize = Action::COUNT + 2;

    fn begin(&self, model: Model, what: &str) {
        (self.report)(Step {
            name: format!("{model}: {what}"),
            number: self.begun.fetch_add(1, Ordering::Relaxed) + 1,
            of: self.of,
        });
    }
}

/// One run of an action.
pub(super) struct Run {
    pub(super) ms: f64,
    pub(super) ru: Charge,
    /// The requests to the database.
    pub(super) records: Vec<RequestRecord>,
}

impl Run {
    /// Returns the run that `meter` has recorded since `started`.
    pub(super) fn of(meter: &Meter, started: Instant) -> Self {
        let sums = meter.measurement(started.elapsed());
        Self {
            ms: sums.ms,
            ru: sums.ru,
            records: meter.records(),
        }
    }
}

/// Measures every action in every present model of `site`. Reads are those of `post` and its
/// author; without a post, those of the data set's probe or of the newest post.
///
/// # Errors
/// Every error of a request, and [`BlogError::InvalidOption`] if there is nothing to read.
pub async fn compare(
    site: &Site,
    post: Option<&str>,
    runs: usize,
    report: &(dyn Fn(Step) + Send + Sync),
) -> Result<Comparison, BlogError> {
    let started = Instant::now();
    let runs = runs.clamp(1, RUNS_MAX);
    let home = site.blog(site.home());
    let probe = match post {
        Some(post) => probe_of(&home, post).await?,
        None => find_probe(&home).await?,
    };
    let mut models = Vec::new();
    let mut cells = Vec::new();
    let steps = Steps {
        report,
        begun: AtomicUsize::new(0),
        of: site.models().len() * Steps::OF_MODEL,
    };
    for model in site.models() {
        let blog = site.blog(model);
        for action in Action::ALL {
            if action.is_write() {
                continue;
            }
            steps.begin(model, action.description());
            cells.push(measure_read(&blog, action, &probe, runs).await?);
        }
        steps.begin(model, "sizes of items");
        let mut facts = facts(&blog, &probe).await?;
        cells.extend(measure_writes(&blog, &probe, &mut facts, runs, &steps).await?);
        models.push(facts);
    }
    cells.sort_by_key(|cell| (cell.action.index(), cell.model));
    Ok(Comparison {
        at: jiff::Timestamp::now(),
        seconds: started.elapsed().as_secs_f64(),
        runs,
        probe,
        models,
        cells,
    })
}

/// Returns a post with its author.
async fn probe_of(blog: &Blog, post: &str) -> Result<Probe, BlogError> {
    match blog.post(&Meter::new(), post).await {
        Ok(item) => Ok(Probe {
            user: item["userId"].as_str().unwrap_or_default().to_owned(),
            post: post.to_owned(),
        }),
        Err(e) if e.is_not_found() => Err(BlogError::InvalidOption(
            "there is no post with this id".to_owned(),
        )),
        Err(e) => Err(e),
    }
}

/// Returns the probe of the data set if the blog was filled with it, and otherwise the newest post
/// with its author.
async fn find_probe(blog: &Blog) -> Result<Probe, BlogError> {
    let meter = Meter::new();
    let data = Dataset::new(1, super::scratch::SCALE)?;
    let probe = Probe {
        user: data.user(0).id,
        post: data.post(0).id,
    };
    match blog.post(&meter, &probe.post).await {
        Ok(_) => return Ok(probe),
        Err(e) if !e.is_not_found() => return Err(e),
        Err(_) => {}
    }
    let newest = blog.feed(&meter).await?;
    let first = newest.first().and_then(|post| {
        Some(Probe {
            user: post["userId"].as_str()?.to_owned(),
            post: post["id"].as_str()?.to_owned(),
        })
    });
    first.ok_or_else(|| BlogError::InvalidOption("the blog has no post to read".to_owned()))
}

/// Runs a read `runs` times on the live blog.
async fn measure_read(
    blog: &Blog,
    action: Action,
    probe: &Probe,
    runs: usize,
) -> Result<Cell, BlogError> {
    // A run that is not measured opens connections and fills the client's caches. The number of
    // partitions that it asks determines the number of further runs.
    let first = read_once(blog, action, probe).await?;
    let runs = if partitions_of(&first.records) > 3 {
        runs.div_ceil(ALL_PARTITIONS_RUNS_PART)
    } else {
        runs
    };
    let mut measured = Vec::with_capacity(runs);
    for _ in 0..runs {
        measured.push(read_once(blog, action, probe).await?);
    }
    Ok(cell(blog.model(), action, &measured, Vec::new()))
}

/// Runs a read once.
async fn read_once(blog: &Blog, action: Action, probe: &Probe) -> Result<Run, BlogError> {
    let meter = Meter::recording();
    let started = Instant::now();
    match action {
        Action::Article(Request::Q1) => drop(blog.user(&meter, &probe.user).await?),
        Action::Article(Request::Q2) => drop(blog.post(&meter, &probe.post).await?),
        Action::Article(Request::Q3) => drop(blog.posts_of_user(&meter, &probe.user).await?),
        Action::Article(Request::Q4) => drop(blog.comments(&meter, &probe.post).await?),
        Action::Article(Request::Q5) => drop(blog.likes(&meter, &probe.post).await?),
        Action::Article(Request::Q6) => drop(blog.feed(&meter).await?),
        write => {
            return Err(BlogError::InvalidOption(format!("{write} is not a read")));
        }
    }
    Ok(Run::of(&meter, started))
}

/// Measures the writes of a model in a database of their own.
async fn measure_writes(
    live: &Blog,
    probe: &Probe,
    facts: &mut ModelFacts,
    runs: usize,
    steps: &Steps<'_>,
) -> Result<Vec<Cell>, BlogError> {
    steps.begin(live.model(), "a database for the writes");
    let cells = match Scratch::create(live, runs).await {
        Ok(scratch) => measure_writes_in(scratch, live, probe, facts, steps).await,
        Err(failure) => Err(failure),
    };
    // The database goes away after a failure too; the failure of the measurement comes first.
    let removed = Scratch::remove(live).await;
    let cells = cells?;
    removed?;
    Ok(cells)
}

async fn measure_writes_in(
    mut scratch: Scratch,
    live: &Blog,
    probe: &Probe,
    facts: &mut ModelFacts,
    steps: &Steps<'_>,
) -> Result<Vec<Cell>, BlogError> {
    let model = live.model();
    facts.poll_ru = scratch.poll_ru().await?;
    let mut cells = Vec::new();
    for action in Scratch::WRITES {
        steps.begin(model, action.description());
        let (runs, mut pipelines) = scratch.measure(action).await?;
        let mut price = price_of(&pipelines);
        if action == Action::Rename && !pipelines.is_empty() {
            let rewrite = rename_in_live(live, probe, scratch.rewrite_ru()).await?;
            facts.posts_with_name = rewrite.posts;
            price = scale_rename(&mut pipelines, &rewrite, facts.posts_of_user);
        }
        let mut cell = cell(model, action, &runs, pipelines);
        cell.price.pipelines = price;
        cells.push(cell);
    }
    Ok(cells)
}

/// Returns the sum of the costs of pipelines, by container.
fn price_of(pipelines: &[PipelineCost]) -> [f64; CONTAINERS] {
    let mut price = [0.0; CONTAINERS];
    for pipeline in pipelines {
        for (sum, ru) in price.iter_mut().zip(pipeline.by_container) {
            *sum += ru;
        }
    }
    price
}

/// Scales the pipelines of a rename from the database of the writes to the live blog and returns
/// their price. The first pipeline rewrites the name; the others then copy the user's posts again.
fn scale_rename(
    pipelines: &mut [PipelineCost],
    rewrite: &Rewrite,
    posts_of_user: u64,
) -> [f64; CONTAINERS] {
    for (place, pipeline) in pipelines.iter_mut().enumerate() {
        if place == 0 {
            pipeline.ru = rewrite.ru;
            pipeline.by_container = [0.0, rewrite.ru, 0.0];
            pipeline.requests = rewrite.requests;
            pipeline.written = rewrite.posts;
            continue;
        }
        let factor = posts_of_user as f64 / pipeline.written.max(1) as f64;
        pipeline.ru *= factor;
        for ru in &mut pipeline.by_container {
            *ru *= factor;
        }
        pipeline.requests = (pipeline.requests as f64 * factor).ceil() as usize;
        pipeline.written = posts_of_user;
    }
    price_of(pipelines)
}

/// The rewrite of a name in the live blog.
struct Rewrite {
    /// Posts with the name.
    posts: u64,
    /// Charge in RU.
    ru: f64,
    /// Requests to the database.
    requests: usize,
}

/// Computes the cost of a rename of the probe user in the live blog: the query for the posts with
/// the name, which runs, and one procedure for each of these posts, which does not.
async fn rename_in_live(
    live: &Blog,
    probe: &Probe,
    ru_per_post: f64,
) -> Result<Rewrite, BlogError> {
    let meter = Meter::recording();
    let query = Query::new(POSTS_WITH_OLD_NAME)
        .with("@userId", probe.user.as_str())
        .with("@username", "");
    let posts = live.client.query_all(&meter, &live.posts, &query).await?;
    let sums = meter.measurement(Duration::ZERO);
    Ok(Rewrite {
        posts: posts.len() as u64,
        ru: sums.ru.ru() + posts.len() as f64 * ru_per_post,
        requests: sums.requests + posts.len(),
    })
}

/// Reads the facts about the live data of a model.
async fn facts(blog: &Blog, probe: &Probe) -> Result<ModelFacts, BlogError> {
    let mut partitions = [0; CONTAINERS];
    for (index, container) in blog.containers().into_iter().enumerate() {
        // A container may have been split since the ranges were read.
        blog.client.clear_cached_metadata(container);
        partitions[index] = blog.client.ranges(container).await?.len();
    }
    let meter = Meter::new();
    let of_post =
        Query::new("SELECT * FROM c WHERE c.postId = @postId").with("@postId", probe.post.as_str());
    let items = blog
        .client
        .query(&meter, &blog.posts, &probe.post, &of_post)
        .await?;
    let posts_of_user = blog.posts_of_user(&meter, &probe.user).await?;
    // Only V3 stores short copies, and lists them.
    let short_post = match blog.model() {
        Model::V3 => mean_bytes(posts_of_user.iter()),
        Model::V1 | Model::V2 => None,
    };
    let mean = |kind: &str| {
        let of_kind = items.iter().filter(|item| item["type"] == kind);
        mean_bytes(of_kind).unwrap_or_default()
    };
    Ok(ModelFacts {
        model: blog.model(),
        partitions,
        ranges: blog.client.ranges(&blog.posts).await?,
        sizes: Sizes {
            post: mean("post"),
            comment: mean("comment"),
            like: mean("like"),
            short_post,
        },
        posts_of_user: posts_of_user.len() as u64,
        posts_with_name: 0,
        poll_ru: 0.0,
    })
}

/// Returns the mean size of the texts of items in bytes.
fn mean_bytes<'a>(items: impl Iterator<Item = &'a Value>) -> Option<f64> {
    let (mut bytes, mut count) = (0, 0);
    for item in items {
        bytes += item.to_string().len();
        count += 1;
    }
    (count > 0).then(|| bytes as f64 / f64::from(count))
}

/// Returns the number of physical partitions that answered.
fn partitions_of(records: &[RequestRecord]) -> usize {
    let mut partitions: Vec<_> = records
        .iter()
        .map(|record| (&record.container, &record.range))
        .collect();
    partitions.sort_unstable();
    partitions.dedup();
    partitions.len()
}

/// Adds the charges of `records` by container.
pub(super) fn by_container<'a>(
    records: impl Iterator<Item = &'a RequestRecord>,
) -> [f64; CONTAINERS] {
    let mut sums = [0.0; CONTAINERS];
    for record in records {
        let name = record.container.rsplit('/').next().unwrap_or_default();
        for (sum, container) in sums.iter_mut().zip(CONTAINER_NAMES) {
            if name == container {
                *sum += record.charge.ru();
            }
        }
    }
    sums
}

/// Returns the cell for the runs of an action; figures other than time are those of the run with
/// the median charge.
fn cell(model: Model, action: Action, runs: &[Run], pipelines: Vec<PipelineCost>) -> Cell {
    let mut by_charge: Vec<&Run> = runs.iter().collect();
    by_charge.sort_by_key(|run| run.ru);
    let mut times: Vec<f64> = runs.iter().map(|run| run.ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    let median = by_charge.get(by_charge.len() / 2);
    let records = median.map(|run| run.records.as_slice()).unwrap_or_default();
    let mut asked = BTreeMap::new();
    for record in records {
        if record.container.ends_with("/posts") {
            *asked.entry(record.range.clone()).or_insert(0.0) += record.charge.ru();
        }
    }
    let (article, note) = match action {
        Action::Article(request) => (
            Some(article::published(request, model)),
            article::note(request, model),
        ),
        _ => (None, None),
    };
    Cell {
        action,
        model,
        ru: median.map(|run| run.ru.ru()).unwrap_or_default(),
        varies: by_charge.first().map(|run| run.ru) != by_charge.last().map(|run| run.ru),
        ms_p50: percentile(&times, 50.0),
        runs: runs.len(),
        partitions: partitions_of(records),
        requests: records.len(),
        asked,
        pipelines,
        price: Price {
            request: by_container(records.iter()),
            pipelines: [0.0; CONTAINERS],
        },
        article,
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Operation;

    fn run(charge: u64, ms: f64, range: &str) -> Run {
        Run {
            ms,
            ru: Charge(charge),
            records: vec![RequestRecord {
                operation: Operation::Read,
                container: "dbs/blog-v1/colls/posts".to_owned(),
                text: String::new(),
                key: None,
                range: range.to_owned(),
                status: 200,
                charge: Charge(charge),
                ms,
                items: None,
                index_use: None,
                throttled: 0,
                read: Vec::new(),
            }],
        }
    }

    #[test]
    fn a_cell_has_the_median_charge_and_tells_that_charges_differ() {
        let action = Action::Article(Request::Q2);
        let equal = cell(
            Model::V2,
            action,
            &[run(100, 3.0, "0"), run(100, 1.0, "0")],
            vec![],
        );
        assert_eq!((equal.ru, equal.varies, equal.ms_p50), (1.0, false, 1.0));
        assert_eq!(equal.price.request, [0.0, 1.0, 0.0]);
        assert_eq!(equal.article, Some((2.0, 1.0)));
        let runs = [run(300, 1.0, "7"), run(100, 1.0, "0"), run(200, 1.0, "5")];
        let different = cell(Model::V2, action, &runs, vec![]);
        assert_eq!((different.ru, different.varies), (2.0, true));
        assert_eq!(different.asked, BTreeMap::from([("5".to_owned(), 2.0)]));
    }

    #[test]
    fn an_action_beyond_the_article_has_no_published_figures() {
        let rename = cell(Model::V3, Action::Rename, &[run(100, 1.0, "0")], vec![]);
        assert_eq!((rename.article, rename.note), (None, None));
    }
}
