//! The items that a prediction works with: all items of a container, or a sample.
//!
//! A sample is deterministic: the same items are chosen each time, by their numbers. The items that
//! recorded requests were about are added, so that the requests can be repeated.

use crate::limits::{Failure, Run, SAMPLE_BYTES};
use bytes::Bytes;
use orrery_engine::request::IndexingDirective;
use orrery_engine::{Container, SampledItem, Sampling};
use orrery_model::json::parse;
use orrery_model::{Error, Json, Object};
use std::collections::{HashMap, HashSet};

/// The whole of a share, see [`Sampling::share`].
const WHOLE: u64 = 1 << 32;

/// The items of a prediction.
#[derive(Default)]
pub(crate) struct Sample {
    /// The items.
    pub items: Vec<SampleItem>,
    /// The index of each item by its number.
    pub by_number: HashMap<u64, usize>,
    /// The size of the sample and of the container.
    pub summary: SampleSummary,
}

/// An item of a prediction.
pub(crate) struct SampleItem {
    /// The JSON text without system properties.
    pub text: Bytes,
    /// The second of the last write.
    pub ts: u64,
    /// The indexing directive of the last write.
    pub indexing: IndexingDirective,
    /// True if chance chose the item, so that the item stands for others.
    pub is_random: bool,
}

/// The size of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleSummary {
    /// Items of the sample.
    pub items: u64,
    /// Of `items`: those that chance chose.
    pub random_items: u64,
    /// Bytes of the texts of the items that chance chose.
    pub random_bytes: u64,
    /// Items of the container.
    pub container_items: u64,
    /// Bytes of the container's items.
    pub container_bytes: u64,
    /// Bytes of the container's index entries.
    pub container_index_bytes: u64,
}

impl SampleSummary {
    /// Returns true if the sample has all items of the container.
    pub fn is_complete(&self) -> bool {
        self.random_items >= self.container_items
    }

    /// Returns the number of items of the container for which a randomly chosen one stands.
    pub fn scale(&self) -> f64 {
        match self.random_items {
            0 => 1.0,
            items => (self.container_items as f64 / items as f64).max(1.0),
        }
    }
}

impl Sample {
    /// Reads at most `most` items of a container, and of `wanted` those that exist.
    ///
    /// # Errors
    /// Those of the bounds, and 500 if the store cannot be read.
    pub(crate) fn read(
        run: &mut Run<'_>,
        container: &Container,
        most: u64,
        wanted: HashSet<u64>,
    ) -> Result<Sample, Failure> {
        let mut summary = SampleSummary::default();
        for partition in run.engine.partition_inventory(container)? {
            summary.container_items += partition.items;
            summary.container_bytes += partition.bytes;
            summary.container_index_bytes += partition.index_bytes;
        }
        let sampling = Sampling {
            share: share(&summary, most),
            wanted,
        };
        let mut sample = Sample {
            items: Vec::new(),
            by_number: HashMap::new(),
            summary,
        };
        // The wanted items may be above the bound, so the bound on bytes leaves room for them.
        let (mut bytes, mut room) = (0, Ok(()));
        let engine = run.engine;
        let ends = |run: &Run<'_>| run.has_time();
        let is_whole = {
            let mut visit = |item: SampledItem| {
                bytes += item.text.len() as u64;
                sample.add(item);
                bytes <= SAMPLE_BYTES * 2
            };
            let mut proceed = || ends(run);
            engine.sample_items(container, &sampling, &mut proceed, &mut visit)?
        };
        if !is_whole {
            run.check_time("reading items")?;
            room = Err(Failure::Memory);
        }
        room?;
        run.hold(run.held() + bytes)?;
        // Counters include items that have expired and are not removed yet.
        if sampling.share == WHOLE {
            sample.summary.container_items = sample.summary.random_items;
        }
        Ok(sample)
    }

    fn add(&mut self, item: SampledItem) {
        self.by_number.insert(item.number, self.items.len());
        self.summary.items += 1;
        if item.is_random {
            self.summary.random_items += 1;
            self.summary.random_bytes += item.text.len() as u64;
        }
        self.items.push(SampleItem {
            text: item.text,
            ts: item.ts,
            indexing: item.indexing,
            is_random: item.is_random,
        });
    }
}

impl SampleItem {
    /// Parses the item.
    ///
    /// # Errors
    /// 500 if the stored text is no JSON object.
    pub(crate) fn object(&self) -> Result<Object, Error> {
        parse_object(&self.text)
    }
}

/// Parses the text of a stored item.
///
/// # Errors
/// 500 if the text is no JSON object.
pub(crate) fn parse_object(text: &[u8]) -> Result<Object, Error> {
    match parse(text) {
        Ok(Json::Object(object)) => Ok(object),
        _ => Err(Error::internal("a stored item is no JSON object")),
    }
}

/// Returns the share of the items that fits into the bounds, of [`WHOLE`].
fn share(summary: &SampleSummary, most: u64) -> u64 {
    let by_items = most as f64 / summary.container_items.max(1) as f64;
    let by_bytes = SAMPLE_BYTES as f64 / summary.container_bytes.max(1) as f64;
    let share = by_items.min(by_bytes);
    if share >= 1.0 {
        return WHOLE;
    }
    (share * WHOLE as f64) as u64
}
