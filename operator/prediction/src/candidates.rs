//! Properties that could be the partition key of a container: their paths in a sample of items,
//! with the number of values and the share of the most frequent one.
//!
//! Left out: arrays, objects as values, properties of the server, and paths below the third level.

use crate::sample::parse_object;
use orrery_engine::{Container, Engine, SampledItem, Sampling};
use orrery_model::{Json, Object, Result};
use std::collections::{BTreeMap, HashMap};

/// Items that are looked at.
const ITEMS: u64 = 2_000;
/// Names of a path.
const DEPTH: usize = 3;
/// Paths that are counted.
const PATHS: usize = 200;
/// Milliseconds that the search may take.
const TIME_MS: u64 = 2_000;

/// The candidates of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCandidates {
    /// The items that were looked at.
    pub items: u64,
    /// The candidates, those with the most values first.
    pub candidates: Vec<KeyCandidate>,
}

/// A property that could be a partition key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCandidate {
    /// The path, as in a partition key definition.
    pub path: String,
    /// The number of different values.
    pub values: u64,
    /// The share of the items that have the most frequent value.
    pub largest: f64,
    /// The share of the items that have the property.
    pub present: f64,
}

/// The number of items with each value of a property.
type Values = HashMap<String, u64>;

/// Returns the candidates of a container. Nothing is charged to the container.
///
/// # Errors
/// 500 if the store cannot be read.
pub fn key_candidates(engine: &Engine, container: &Container) -> Result<KeyCandidates> {
    let ends_ms = engine.monotonic_ms() + TIME_MS;
    let inventory = engine.partition_inventory(container)?;
    let stored: u64 = inventory.iter().map(|partition| partition.items).sum();
    let sampling = Sampling {
        share: (ITEMS.min(stored.max(1)) << 32) / stored.max(1),
        ..Sampling::default()
    };
    let mut found: BTreeMap<String, Values> = BTreeMap::new();
    let (mut items, mut damaged) = (0, None);
    let mut proceed = || engine.monotonic_ms() < ends_ms;
    let mut visit = |item: SampledItem| match parse_object(&item.text) {
        Ok(object) => {
            items += 1;
            collect(&object, String::new(), 1, &mut found);
            items < ITEMS * 2
        }
        Err(error) => {
            damaged = Some(error);
            false
        }
    };
    engine.sample_items(container, &sampling, &mut proceed, &mut visit)?;
    if let Some(error) = damaged {
        return Err(error);
    }
    let mut candidates = Vec::with_capacity(found.len());
    for (path, values) in found {
        let present: u64 = values.values().sum();
        let largest = values.values().copied().max().unwrap_or(0);
        candidates.push(KeyCandidate {
            path,
            values: values.len() as u64,
            largest: largest as f64 / items as f64,
            present: present as f64 / items as f64,
        });
    }
    // The order of paths decides among equals, because the sort is stable.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.values));
    Ok(KeyCandidates { items, candidates })
}

/// Counts the scalars of an object.
fn collect(object: &Object, prefix: String, depth: usize, found: &mut BTreeMap<String, Values>) {
    for (name, value) in object.iter() {
        let path = format!("{prefix}/{}", step(name));
        match value {
            Json::Object(inner) if depth < DEPTH => collect(inner, path, depth + 1, found),
            Json::Object(_) | Json::Array(_) => {}
            _ if depth == 1 && name == "ttl" => {}
            _ if found.len() >= PATHS && !found.contains_key(&path) => {}
            scalar => {
                let values = found.entry(path).or_default();
                *values.entry(scalar.to_text()).or_default() += 1;
            }
        }
    }
}

/// Returns a name as a step of a path; a name with other characters is quoted.
fn step(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => Json::from(name).to_text(),
    }
}
