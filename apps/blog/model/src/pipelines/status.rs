//! The state of the pipelines, as an application shows it.
//!
//! Two sources are combined: the lease container, which all workers write, and the memory of this
//! process, which is newer for its own ranges. The figures of reactions count from the start of the
//! workers that are alive; the sums of a lease count from its creation.

use super::delivery::{Delivery, Histogram, Precision};
use super::leases::{Lease, LeaseItems};
use super::membership::LeaseKey;
use super::{Pipeline, Reaction};
use crate::Charge;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// The state of all pipelines and workers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// The pipelines, in the order of their source.
    pub pipelines: Vec<PipelineStatus>,
    /// The workers of all processes, in the order of their ids.
    pub workers: Vec<WorkerStatus>,
    /// Charges that this process has paid for stored positions since its start.
    pub position_ru: Charge,
    /// Charges that this process has paid for heartbeats and for reading leases since its start.
    pub lease_ru: Charge,
}

/// The state of one pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineStatus {
    /// The name, e.g. `blog-v3.posts`.
    pub name: String,
    /// Link of the container whose change feed is read.
    pub container: String,
    /// The reactions to each change.
    pub reactions: Vec<ReactionStatus>,
    /// The ranges of the container that have leases, in the order of their ids.
    pub ranges: Vec<RangeStatus>,
    /// Pages of the feed that the live workers have read.
    pub feed_reads: u64,
    /// Charges of these pages. An empty page costs 1 RU.
    pub feed_ru: Charge,
}

impl PipelineStatus {
    /// Returns the number of changes that are not processed; `None` if it is not known of a range.
    pub fn lag(&self) -> Option<u64> {
        self.ranges.iter().map(|range| range.lag).sum()
    }

    /// Returns the charges of the live workers for the feed and all reactions.
    pub fn ru(&self) -> Charge {
        let reactions: u64 = self.reactions.iter().map(|reaction| reaction.ru.0).sum();
        Charge(self.feed_ru.0 + reactions)
    }
}

/// The figures of one reaction, of the workers that are alive.
#[derive(Debug, Clone, PartialEq)]
pub struct ReactionStatus {
    /// The name, e.g. `copyToFeed`.
    pub name: String,
    /// Number of changes processed.
    pub processed: u64,
    /// Number of items written.
    pub written: u64,
    /// Number of attempts that failed and were repeated.
    pub retries: u64,
    /// Number of changes that became dead letters.
    pub dead_letters: u64,
    /// Charges of all requests.
    pub ru: Charge,
    /// Delivery times, one entry for each precision that has occurred.
    pub delivery: Vec<Delivery>,
}

/// The state of one range of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeStatus {
    /// Id of the partition key range.
    pub range: String,
    /// The worker that owns the lease.
    pub owner: Option<String>,
    /// False if the owner has not renewed its heartbeat for long, or if there is no owner.
    pub is_owner_alive: bool,
    /// Position in the change feed; `None` at its beginning.
    pub position: Option<String>,
    /// Changes after the position: the difference of LSNs, as the estimators of SDKs compute it.
    /// Deletions and several changes of one item count as well, so it is an upper bound.
    pub lag: Option<u64>,
    /// Number of changes processed since the creation of the lease.
    pub changes: u64,
    /// Number of items written since then.
    pub written: u64,
    /// Number of repeated attempts since then.
    pub retries: u64,
    /// Number of changes that became dead letters since then.
    pub dead_letters: u64,
    /// Charges for the pages with changes and the reactions since then.
    pub ru: Charge,
    /// The last error, while the range waits for its next attempt; of this process only.
    pub error: Option<String>,
}

/// The state of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    /// The id.
    pub id: String,
    /// Number of ranges that it owns.
    pub ranges: usize,
    /// True if the worker belongs to this process.
    pub is_own: bool,
}

/// The figures of one reaction in this process.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ReactionFigures {
    pub(super) processed: u64,
    pub(super) written: u64,
    pub(super) retries: u64,
    pub(super) dead_letters: u64,
    pub(super) ru: Charge,
    /// Delivery times of new posts.
    pub(super) exact: Histogram,
    /// Delivery times of other changes.
    pub(super) coarse: Histogram,
}

/// The reads of a feed in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct FeedFigures {
    pub(super) reads: u64,
    pub(super) ru: Charge,
}

/// The state of a range that this process owns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RangeFigures {
    pub(super) lag: Option<u64>,
    pub(super) error: Option<String>,
}

/// The figures of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// By pipeline and name of the reaction.
    pub(super) reactions: BTreeMap<(String, String), ReactionFigures>,
    /// By pipeline.
    pub(super) feeds: BTreeMap<String, FeedFigures>,
    /// By pipeline and range; of the ranges that this process owns.
    pub(super) ranges: BTreeMap<LeaseKey, RangeFigures>,
    /// The last error of the worker outside the ranges.
    pub(super) error: Option<String>,
}

impl ReactionFigures {
    pub(super) fn histogram(&mut self, precision: Precision) -> &mut Histogram {
        match precision {
            Precision::Microseconds => &mut self.exact,
            Precision::Seconds => &mut self.coarse,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.processed += other.processed;
        self.written += other.written;
        self.retries += other.retries;
        self.dead_letters += other.dead_letters;
        self.ru.0 += other.ru.0;
        self.exact.merge(&other.exact);
        self.coarse.merge(&other.coarse);
    }

    fn status(&self, name: String) -> ReactionStatus {
        let exact = self.exact.summary(Precision::Microseconds);
        let coarse = self.coarse.summary(Precision::Seconds);
        ReactionStatus {
            name,
            processed: self.processed,
            written: self.written,
            retries: self.retries,
            dead_letters: self.dead_letters,
            ru: self.ru,
            delivery: exact.into_iter().chain(coarse).collect(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "processed": self.processed,
            "written": self.written,
            "retries": self.retries,
            "deadLetters": self.dead_letters,
            "ru": self.ru.ru(),
            "exact": self.exact.to_json(),
            "coarse": self.coarse.to_json(),
        })
    }

    fn from_json(stored: &Value) -> Self {
        let number = |name: &str| stored[name].as_u64().unwrap_or(0);
        Self {
            processed: number("processed"),
            written: number("written"),
            retries: number("retries"),
            dead_letters: number("deadLetters"),
            ru: charge(&stored["ru"]),
            exact: Histogram::from_json(&stored["exact"]),
            coarse: Histogram::from_json(&stored["coarse"]),
        }
    }
}

impl Figures {
    /// Returns the figures that a worker publishes with its heartbeat.
    pub(super) fn to_json(&self) -> Value {
        let mut stats = Map::new();
        for (name, feed) in &self.feeds {
            let mut reactions = Map::new();
            for ((pipeline, reaction), figures) in &self.reactions {
                if pipeline == name {
                    reactions.insert(reaction.clone(), figures.to_json());
                }
            }
            let entry = json!({"reads": feed.reads, "ru": feed.ru.ru(), "reactions": reactions});
            stats.insert(name.clone(), entry);
        }
        Value::Object(stats)
    }

    /// Adds the published figures of a worker.
    fn add_published(&mut self, stats: &Value) {
        for (pipeline, entry) in stats.as_object().into_iter().flatten() {
            let feed = self.feeds.entry(pipeline.clone()).or_default();
            feed.reads += entry["reads"].as_u64().unwrap_or(0);
            feed.ru.0 += charge(&entry["ru"]).0;
            for (reaction, stored) in entry["reactions"].as_object().into_iter().flatten() {
                let key = (pipeline.clone(), reaction.clone());
                let figures = self.reactions.entry(key).or_default();
                figures.merge(&ReactionFigures::from_json(stored));
            }
        }
    }
}

/// Returns the charge of a number of RU.
fn charge(ru: &Value) -> Charge {
    Charge((ru.as_f64().unwrap_or(0.0) * 100.0).round() as u64)
}

/// Returns the status from the items of the lease container and the figures of this process.
/// `is_own` tells whether an id is, or was, that of this handle's worker.
pub(super) fn status_of(
    pipelines: &[Pipeline],
    items: &LeaseItems,
    own: &Figures,
    is_own: impl Fn(&str) -> bool,
) -> Status {
    // The own figures are newer than those that the own worker has published.
    let mut figures = own.clone();
    for worker in &items.workers {
        if !is_own(&worker.id) {
            figures.add_published(&worker.stats);
        }
    }
    let mut owned: HashMap<&str, usize> = HashMap::new();
    for owner in items
        .leases
        .iter()
        .filter_map(|lease| lease.owner.as_deref())
    {
        *owned.entry(owner).or_default() += 1;
    }
    let mut workers: Vec<_> = items
        .workers
        .iter()
        .map(|worker| WorkerStatus {
            id: worker.id.clone(),
            ranges: owned.get(worker.id.as_str()).copied().unwrap_or(0),
            is_own: is_own(&worker.id),
        })
        .collect();
    workers.sort_by(|a, b| a.id.cmp(&b.id));
    Status {
        pipelines: pipelines
            .iter()
            .map(|pipeline| pipeline_status(pipeline, items, &figures))
            .collect(),
        workers,
        position_ru: Charge::default(),
        lease_ru: Charge::default(),
    }
}

fn pipeline_status(pipeline: &Pipeline, items: &LeaseItems, figures: &Figures) -> PipelineStatus {
    let name = pipeline.name();
    let reaction = |reaction: &Reaction| {
        let key = (name.clone(), reaction.to_string());
        let of_reaction = figures.reactions.get(&key).cloned().unwrap_or_default();
        of_reaction.status(reaction.to_string())
    };
    let leases = items.leases.iter();
    let mut ranges: Vec<_> = leases
        .filter(|lease| lease.pipeline == name && !lease.is_gone)
        .map(|lease| range_status(lease, items, figures))
        .collect();
    ranges.sort_by_key(|range| (range.range.len(), range.range.clone()));
    let feed = figures.feeds.get(&name).copied().unwrap_or_default();
    PipelineStatus {
        container: pipeline.container().to_owned(),
        reactions: pipeline.reactions.iter().map(reaction).collect(),
        ranges,
        feed_reads: feed.reads,
        feed_ru: feed.ru,
        name,
    }
}

fn range_status(lease: &Lease, items: &LeaseItems, figures: &Figures) -> RangeStatus {
    let key = (lease.pipeline.clone(), lease.range.clone());
    let own = figures.ranges.get(&key);
    let owner = lease.owner.clone();
    let is_owner_alive = items
        .workers
        .iter()
        .any(|worker| Some(&worker.id) == owner.as_ref());
    RangeStatus {
        range: lease.range.clone(),
        owner,
        is_owner_alive,
        position: lease.position.clone(),
        lag: own.map_or(lease.lag, |own| own.lag),
        changes: lease.sums.changes,
        written: lease.sums.written,
        retries: lease.sums.retries,
        dead_letters: lease.sums.dead_letters,
        ru: lease.sums.ru,
        error: own.and_then(|own| own.error.clone()),
    }
}
