//! Bounded load with a count for each second, each series and each physical partition.

use super::state::{LabState, Second, Series};
use crate::meter::{Meter, RequestRecord};
use crate::sync::lock;
use crate::{BlogError, Client};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// Requests of one stream in flight. A slow server lowers the rate, instead of a growing queue.
const IN_FLIGHT_MAX: usize = 8;
/// Seconds of load that are kept.
const SECONDS_MAX: usize = 180;
/// Different items under each key: the lab's container does not grow without end.
const ITEMS_PER_KEY: u64 = 20;

/// Writes what happens into the state of the lab. Clones write into the same state.
#[derive(Clone)]
pub(super) struct Recorder {
    state: Arc<Mutex<LabState>>,
    stop: Arc<AtomicBool>,
    started: Arc<Mutex<Instant>>,
}

impl Recorder {
    /// Creates a recorder whose first second begins now.
    pub(super) fn new(state: Arc<Mutex<LabState>>, stop: Arc<AtomicBool>) -> Self {
        Self {
            state,
            stop,
            started: Arc::new(Mutex::new(Instant::now())),
        }
    }

    /// Returns true until the experiment is asked to stop.
    pub(super) fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Tells the reader what has happened.
    pub(super) fn say(&self, sentence: impl Into<String>) {
        lock(&self.state).steps.push(sentence.into());
    }

    /// Changes the state.
    pub(super) fn change(&self, change: impl FnOnce(&mut LabState)) {
        change(&mut lock(&self.state));
    }

    /// Starts the clock of the load and adds a series for each label.
    pub(super) fn begin_load(&self, labels: &[String]) {
        *lock(&self.started) = Instant::now();
        let mut state = lock(&self.state);
        for label in labels {
            state.series.push(Series {
                label: label.clone(),
                seconds: Vec::new(),
            });
        }
    }

    /// Counts one answered or failed request.
    pub(super) fn count(&self, stream: &Stream, record: Option<&RequestRecord>, is_failed: bool) {
        let second = lock(&self.started).elapsed().as_secs() as usize;
        let second = second.min(SECONDS_MAX - 1);
        let is_throttled = record.is_some_and(|record| record.status == 429);
        let waited = record.map_or(0, |record| record.throttled) as u32;
        let one = Second {
            served: u32::from(!is_failed && !is_throttled),
            throttled: u32::from(is_throttled) + waited,
            failed: u32::from(is_failed && !is_throttled),
            ru: match record {
                Some(record) if !is_throttled => record.charge.ru(),
                _ => 0.0,
            },
        };
        let mut state = lock(&self.state);
        if let Some(series) = state.series.get_mut(stream.series) {
            add(&mut series.seconds, second, &one);
        }
        let Some(container) = state.containers.get_mut(stream.container) else {
            return;
        };
        let range = record
            .map(|record| record.range.as_str())
            .unwrap_or_default();
        // A refusal may come without the partition that refused; the key tells it then.
        let range = if range.is_empty() {
            stream.range.as_deref()
        } else {
            Some(range)
        };
        for partition in &mut container.partitions {
            if Some(partition.range.id.as_str()) == range {
                add(&mut partition.seconds, second, &one);
            }
        }
    }
}

/// Adds `one` to the figures of a second.
fn add(seconds: &mut Vec<Second>, second: usize, one: &Second) {
    if seconds.len() <= second {
        seconds.resize(second + 1, Second::default());
    }
    seconds[second].add(one);
}

/// A load: upserts of small items at a steady rate.
pub(super) struct Stream {
    /// The place of its series in the state.
    pub(super) series: usize,
    /// The place of its container in the state.
    pub(super) container: usize,
    /// Link of the container.
    pub(super) link: String,
    /// The partition key values, used in turn.
    pub(super) keys: Vec<String>,
    /// The property that is the partition key.
    pub(super) key_property: &'static str,
    /// The physical partition of the keys, if all lie in one.
    pub(super) range: Option<String>,
    /// Requests per second.
    pub(super) rate: u32,
}

impl Stream {
    /// Sends requests until `until` returns true.
    pub(super) async fn run(
        &self,
        client: &Client,
        recorder: &Recorder,
        until: &(dyn Fn() -> bool + Send + Sync),
    ) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / self.rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut in_flight = FuturesUnordered::new();
        let mut number = 0;
        while !until() && recorder.goes_on() {
            tokio::select! {
                _ = ticks.tick(), if in_flight.len() < IN_FLIGHT_MAX => {
                    in_flight.push(self.send(client, recorder, number));
                    number += 1;
                }
                Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
            }
        }
        while in_flight.next().await.is_some() {}
    }

    async fn send(&self, client: &Client, recorder: &Recorder, number: u64) {
        let Some(key) = self.keys.get(number as usize % self.keys.len().max(1)) else {
            return;
        };
        let item = small_item(self.key_property, key, number % ITEMS_PER_KEY);
        let meter = Meter::recording();
        let result = client.upsert(&meter, &self.link, key, &item, None).await;
        recorder.count(self, meter.records().last(), result.is_err());
    }
}

/// Returns an item of about 300 bytes under a key.
pub(super) fn small_item(key_property: &str, key: &str, number: u64) -> Value {
    let mut item = json!({
        "id": format!("{key}-{number}"),
        "type": "post",
        "title": "A post of the lab",
        "content": "Words that no reader of the blog sees, because the lab has its own database.",
        "written": jiff::Timestamp::now().to_string(),
    });
    item[key_property] = key.into();
    item
}

/// Returns an item of `bytes` bytes and a little more.
pub(super) fn large_item(key: &str, number: u64, bytes: usize) -> Value {
    json!({
        "id": format!("{key}-{number}"),
        "postId": key,
        "type": "comment",
        "content": "x".repeat(bytes),
    })
}

/// Returns true if a request was refused because the logical partition is full.
pub(super) fn is_key_full(error: &BlogError) -> bool {
    matches!(
        error,
        BlogError::Refused {
            status: 403,
            sub_status: 1014,
            ..
        }
    )
}
