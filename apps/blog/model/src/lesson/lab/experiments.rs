//! The experiments, each from the creation of its container to its end.

use super::load::{Recorder, Stream, is_key_full, large_item, small_item};
use super::state::{ContainerState, Fill, PartitionState};
use super::{Experiment, LabOptions};
use crate::client::PartitionKeyRange;
use crate::meter::Meter;
use crate::offers::PartitionSize;
use crate::{BlogError, Client};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// RU/s with which a new container has four physical partitions: one for each 6,000 RU/s.
const FOUR_PARTITIONS: u32 = 24_000;
/// RU/s with which a new container has one physical partition that takes much load.
const ONE_PARTITION: u32 = 6_000;
/// RU/s of the experiments about throttling, over all partitions.
const LITTLE: u32 = 400;
/// RU/s before and after the split.
const BEFORE_SPLIT: u32 = 1_000;
const AFTER_SPLIT: u32 = 12_000;
/// Keys whose physical partitions are looked up.
const KEYS: usize = 32;
/// Requests per second on the hot key, on the other key, and in loads that must not be throttled.
const HOT_RATE: u32 = 40;
const OTHER_RATE: u32 = 3;
const EVEN_RATE: u32 = 20;
/// Requests per second while a partition is split: most of its share before.
const SPLIT_RATE: u32 = 80;
/// Time limit for a split to become visible.
const SPLIT_TIME_MAX: Duration = Duration::from_secs(90);
/// Pause between two looks at the partitions.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Seconds of load before and after a split.
const SECONDS_AROUND_SPLIT: u64 = 3;
/// Bytes of the items that fill a partition, and requests in flight meanwhile.
const LARGE_BYTES: usize = 64 << 10;
const WRITERS: usize = 4;

/// The surroundings of an experiment.
pub(super) struct Context {
    pub(super) client: Client,
    /// Link of the database.
    pub(super) database: String,
    pub(super) recorder: Recorder,
    pub(super) options: LabOptions,
}

/// Runs an experiment to its end.
pub(super) async fn run(context: &Context, experiment: Experiment) -> Result<(), BlogError> {
    match experiment {
        Experiment::HotKey => context.hot_key().await,
        Experiment::Split => context.split().await,
        Experiment::BadKey => context.bad_key().await,
        Experiment::FullKey => context.full_key().await,
        Experiment::Growth => context.growth().await,
    }
}

/// A partition key with the physical partition in which it lies.
struct PlacedKey {
    key: String,
    range: String,
}

impl Context {
    /// Loads one key of a container with four partitions beyond its partition's share, and a key of
    /// another partition a little.
    async fn hot_key(&self) -> Result<(), BlogError> {
        let link = self
            .new_container("hot", "/postId", FOUR_PARTITIONS)
            .await?;
        let keys = self.placed_keys(&link).await?;
        let hot = &keys[0];
        let Some(other) = keys.iter().find(|key| key.range != hot.range) else {
            return Err(BlogError::unexpected(
                "hot key",
                "the container has a single physical partition, so that no other can be shown",
            ));
        };
        self.lower_throughput(&link, LITTLE).await?;
        let labels = [
            format!("hot key, partition {}", hot.range),
            format!("another key, partition {}", other.range),
        ];
        self.recorder.begin_load(&labels);
        self.recorder.say(format!(
            "{HOT_RATE} writes a second go to one key and {OTHER_RATE} to a key of another \
             partition."
        ));
        let stream = |series: usize, key: &PlacedKey, rate: u32| Stream {
            series,
            container: 0,
            link: link.clone(),
            keys: vec![key.key.clone()],
            key_property: "postId",
            range: Some(key.range.clone()),
            rate,
        };
        let streams = [stream(0, hot, HOT_RATE), stream(1, other, OTHER_RATE)];
        self.load_for_seconds(&streams).await;
        self.recorder.say("The load has ended.");
        Ok(())
    }

    /// Puts the same load on a container with one partition key value and on one with many.
    async fn bad_key(&self) -> Result<(), BlogError> {
        let typed = self
            .new_container("byType", "/type", FOUR_PARTITIONS)
            .await?;
        let posts = self
            .new_container("byPost", "/postId", FOUR_PARTITIONS)
            .await?;
        let keys = even_keys(self.placed_keys(&posts).await?);
        self.lower_throughput(&typed, LITTLE).await?;
        self.lower_throughput(&posts, LITTLE).await?;
        let labels = [
            "partition key /type".to_owned(),
            "partition key /postId".to_owned(),
        ];
        self.recorder.begin_load(&labels);
        self.recorder.say(format!(
            "The same {EVEN_RATE} writes of posts a second go to both containers."
        ));
        let streams = [
            Stream {
                series: 0,
                container: 0,
                link: typed,
                keys: vec!["post".to_owned()],
                key_property: "type",
                range: None,
                rate: EVEN_RATE,
            },
            Stream {
                series: 1,
                container: 1,
                link: posts,
                keys,
                key_property: "postId",
                range: None,
                rate: EVEN_RATE,
            },
        ];
        self.load_for_seconds(&streams).await;
        self.recorder.say("The load has ended.");
        Ok(())
    }

    /// Raises the throughput of a container with one partition under load.
    async fn split(&self) -> Result<(), BlogError> {
        let link = self.new_container("split", "/postId", BEFORE_SPLIT).await?;
        let keys = self.placed_keys(&link).await?;
        let before = self.client.ranges(&link).await?.len();
        self.recorder
            .begin_load(&["writes over many keys".to_owned()]);
        let stream = Stream {
            series: 0,
            container: 0,
            link: link.clone(),
            keys: keys.into_iter().map(|key| key.key).collect(),
            key_property: "postId",
            range: None,
            rate: SPLIT_RATE,
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let until = || is_over.load(Ordering::Relaxed);
        let raise = async {
            let result = self.raise_and_wait(&link, before).await;
            is_over.store(true, Ordering::Relaxed);
            result
        };
        // Clients wait for a short time if they are throttled, as an SDK does.
        let ((), result) = tokio::join!(stream.run(&self.client, &self.recorder, &until), raise);
        result?;
        self.recorder.say("The load has ended.");
        Ok(())
    }

    /// Raises the throughput, waits until there are more than `before` partitions, and lets the
    /// load go on for some seconds.
    async fn raise_and_wait(&self, link: &str, before: usize) -> Result<(), BlogError> {
        self.pause(Duration::from_secs(SECONDS_AROUND_SPLIT)).await;
        let started = Instant::now();
        self.client.set_throughput(link, AFTER_SPLIT).await?;
        self.recorder.change(|state| {
            for container in &mut state.containers {
                container.ru_per_second = AFTER_SPLIT;
            }
        });
        self.recorder.say(format!(
            "The offer was replaced: {BEFORE_SPLIT} RU/s became {AFTER_SPLIT} RU/s."
        ));
        let count = self.wait_for_more_partitions(link, before).await?;
        if count <= before {
            // The experiment was stopped before the split.
            return Ok(());
        }
        let seconds = started.elapsed().as_secs_f64();
        self.recorder.say(format!(
            "After {seconds:.1} s there are {count} physical partitions instead of {before}."
        ));
        self.pause(Duration::from_secs(SECONDS_AROUND_SPLIT)).await;
        Ok(())
    }

    /// Writes under one key until the server refuses.
    async fn full_key(&self) -> Result<(), BlogError> {
        let limit = self.options.logical_partition_limit.unwrap_or_default();
        let link = self.new_container("full", "/postId", ONE_PARTITION).await?;
        self.begin_fill(limit, "comments on one post");
        let mut number = 0;
        // A server with another limit than expected does not refuse; the write ends nevertheless.
        while self.recorder.goes_on() && number * (LARGE_BYTES as u64) < limit * 2 {
            let next = number + WRITERS as u64;
            let writes = (number..next).map(|n| self.write_large(&link, "endless", n));
            number = next;
            for result in join_all(writes).await {
                match result {
                    Err(e) if is_key_full(&e) => {
                        self.note_refusal(e);
                        return Ok(());
                    }
                    other => other?,
                }
            }
        }
        self.recorder
            .say("The writes have ended without a refusal: the server has another limit.");
        Ok(())
    }

    /// Writes under many keys until the physical partition is split.
    async fn growth(&self) -> Result<(), BlogError> {
        let limit = self.options.physical_partition_limit.unwrap_or_default();
        let link = self
            .new_container("growing", "/postId", ONE_PARTITION)
            .await?;
        let before = self.client.ranges(&link).await?.len();
        self.begin_fill(limit, "posts under many keys");
        let mut number = 0;
        while self.recorder.goes_on() && number * (LARGE_BYTES as u64) < limit * 2 {
            let keys: Vec<_> = (0..WRITERS as u64)
                .map(|n| format!("post-{}", number + n))
                .collect();
            let writes = keys.iter().map(|key| self.write_large(&link, key, 0));
            number += WRITERS as u64;
            for result in join_all(writes).await {
                result?;
            }
            let is_beyond = number * LARGE_BYTES as u64 > limit;
            if is_beyond && self.count_partitions(&link).await? > before {
                break;
            }
        }
        if !self.recorder.goes_on() {
            return Ok(());
        }
        let count = self.wait_for_more_partitions(&link, before).await?;
        self.recorder.say(format!(
            "The partition was split: there are {count} physical partitions instead of {before}."
        ));
        Ok(())
    }

    /// Starts the count of an experiment that fills a partition.
    fn begin_fill(&self, limit: u64, label: &str) {
        self.recorder.begin_load(&[label.to_owned()]);
        self.recorder.change(|state| {
            state.fill = Some(Fill {
                bytes: 0,
                limit,
                refusal: None,
            });
        });
        self.recorder.say(format!(
            "{WRITERS} writers create {label}, {} KB each.",
            LARGE_BYTES >> 10
        ));
    }

    /// Creates one large item and counts its bytes. Throttled writes are repeated.
    async fn write_large(&self, link: &str, key: &str, number: u64) -> Result<(), BlogError> {
        let item = large_item(key, number, LARGE_BYTES);
        let meter = Meter::recording();
        let result = self.client.create(&meter, link, key, &item).await;
        let stream = Stream {
            series: 0,
            container: 0,
            link: String::new(),
            keys: Vec::new(),
            key_property: "postId",
            range: None,
            rate: 1,
        };
        self.recorder
            .count(&stream, meter.records().last(), result.is_err());
        result?;
        let mut is_now_near = false;
        self.recorder.change(|state| {
            if let Some(fill) = &mut state.fill {
                let was_near = fill.is_near();
                fill.bytes += item.to_string().len() as u64;
                is_now_near = fill.is_near() && !was_near;
            }
        });
        if is_now_near {
            self.recorder.say("80 % of the limit are used.");
        }
        Ok(())
    }

    /// Stores the server's refusal of a write beyond the limit.
    fn note_refusal(&self, refusal: BlogError) {
        let BlogError::Refused {
            status,
            sub_status,
            message,
            ..
        } = refusal
        else {
            return;
        };
        self.recorder.say(format!(
            "The next write was refused with {status}/{sub_status}. Other keys still accept writes."
        ));
        self.recorder.change(|state| {
            if let Some(fill) = &mut state.fill {
                fill.refusal = Some((status, sub_status, message));
            }
        });
    }

    /// Creates a container, in place of one that an earlier experiment has left, and shows it.
    async fn new_container(
        &self,
        name: &str,
        key_path: &'static str,
        ru_per_second: u32,
    ) -> Result<String, BlogError> {
        let link = format!("{}/colls/{name}", self.database);
        self.client.delete_container(&link).await?;
        self.client
            .create_container(&self.database, name, key_path, ru_per_second)
            .await?;
        let ranges = self.client.ranges(&link).await?;
        self.recorder.say(format!(
            "The container '{name}' has the partition key {key_path} and {} for {ru_per_second} \
             RU/s.",
            counted(ranges.len())
        ));
        let mut partitions = Vec::new();
        for range in ranges.iter() {
            partitions.push(fresh(range.clone()));
        }
        let container = ContainerState {
            link: link.clone(),
            name: name.to_owned(),
            key_path,
            ru_per_second,
            partitions,
            replaced: Vec::new(),
        };
        self.recorder
            .change(|state| state.containers.push(container));
        Ok(link)
    }

    /// Lowers the throughput of a container. The number of its partitions stays.
    async fn lower_throughput(&self, link: &str, ru_per_second: u32) -> Result<(), BlogError> {
        self.client.set_throughput(link, ru_per_second).await?;
        self.recorder.change(|state| {
            for container in &mut state.containers {
                if container.link == link {
                    container.ru_per_second = ru_per_second;
                }
            }
        });
        self.recorder.say(format!(
            "The throughput was lowered to {ru_per_second} RU/s; the partitions stay and share it."
        ));
        Ok(())
    }

    /// Creates an item under each of some keys and returns the keys with the physical partitions
    /// that answered.
    async fn placed_keys(&self, link: &str) -> Result<Vec<PlacedKey>, BlogError> {
        let mut keys = Vec::with_capacity(KEYS);
        for n in 0..KEYS {
            let key = format!("post-{n}");
            let meter = Meter::recording();
            let item = small_item("postId", &key, 0);
            self.client.upsert(&meter, link, &key, &item, None).await?;
            let records = meter.records();
            let range = records.last().map(|record| record.range.clone());
            keys.push(PlacedKey {
                key,
                range: range.unwrap_or_default(),
            });
        }
        Ok(keys)
    }

    /// Runs streams for the seconds of the options. Throttled requests are not repeated, so that
    /// each one is counted.
    async fn load_for_seconds(&self, streams: &[Stream]) {
        let client = self.client.with_patience(Duration::ZERO);
        let end = Instant::now() + Duration::from_secs(self.options.seconds);
        let until = move || Instant::now() >= end;
        let mut runs = Vec::new();
        for stream in streams {
            runs.push(stream.run(&client, &self.recorder, &until));
        }
        join_all(runs).await;
    }

    /// Waits, and ends early if the experiment is asked to stop.
    async fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while self.recorder.goes_on() && Instant::now() < end {
            tokio::time::sleep(LOOK_PAUSE.min(time)).await;
        }
    }

    /// Waits until a container has more than `before` physical partitions and returns their number.
    async fn wait_for_more_partitions(
        &self,
        link: &str,
        before: usize,
    ) -> Result<usize, BlogError> {
        let started = Instant::now();
        loop {
            let count = self.count_partitions(link).await?;
            if count > before || !self.recorder.goes_on() {
                return Ok(count);
            }
            if started.elapsed() > SPLIT_TIME_MAX {
                let seconds = SPLIT_TIME_MAX.as_secs();
                let reason = format!("no split within {seconds} s");
                return Err(BlogError::unexpected(link, reason));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Reads the number of physical partitions from the server.
    async fn count_partitions(&self, link: &str) -> Result<usize, BlogError> {
        self.client.clear_cached_metadata(link);
        Ok(self.client.ranges(link).await?.len())
    }

    /// Follows the partitions of all containers, until a request fails.
    pub(super) async fn follow_partitions(&self) -> Result<(), BlogError> {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            self.read_partitions().await?;
        }
    }

    /// Reads the partitions and sizes of all containers into the state.
    pub(super) async fn read_partitions(&self) -> Result<(), BlogError> {
        let mut links = Vec::new();
        self.recorder.change(|state| {
            for container in &state.containers {
                links.push(container.link.clone());
            }
        });
        for link in links {
            self.client.clear_cached_metadata(&link);
            let ranges = self.client.ranges(&link).await?;
            let sizes = self.client.partition_sizes(&link).await?;
            self.recorder.change(|state| {
                for container in &mut state.containers {
                    if container.link == link {
                        update(container, &ranges, &sizes);
                    }
                }
            });
        }
        Ok(())
    }
}

/// Returns keys that lie evenly in all physical partitions.
fn even_keys(keys: Vec<PlacedKey>) -> Vec<String> {
    let mut by_range: Vec<(String, Vec<String>)> = Vec::new();
    for placed in keys {
        match by_range
            .iter_mut()
            .find(|(range, _)| *range == placed.range)
        {
            Some((_, keys)) => keys.push(placed.key),
            None => by_range.push((placed.range, vec![placed.key])),
        }
    }
    let fewest = by_range.iter().map(|(_, keys)| keys.len()).min();
    let mut even = Vec::new();
    for place in 0..fewest.unwrap_or_default() {
        for (_, keys) in &by_range {
            even.push(keys[place].clone());
        }
    }
    even
}

/// Returns the state of a partition without load.
fn fresh(range: PartitionKeyRange) -> PartitionState {
    PartitionState {
        range,
        seconds: Vec::new(),
        kilobytes: None,
    }
}

/// Takes over the partitions that the server lists. Those that are gone have been split.
fn update(container: &mut ContainerState, ranges: &[PartitionKeyRange], sizes: &[PartitionSize]) {
    let mut old = std::mem::take(&mut container.partitions);
    for range in ranges {
        let place = old
            .iter()
            .position(|partition| partition.range.id == range.id);
        let mut partition = match place {
            Some(place) => old.remove(place),
            None => fresh(range.clone()),
        };
        let size = sizes.iter().find(|size| size.range == range.id);
        partition.kilobytes = size.map(|size| size.kilobytes);
        container.partitions.push(partition);
    }
    container.replaced.append(&mut old);
}

/// Returns a number of physical partitions in words.
fn counted(partitions: usize) -> String {
    match partitions {
        1 => "one physical partition".to_owned(),
        n => format!("{n} physical partitions"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(key: &str, range: &str) -> PlacedKey {
        PlacedKey {
            key: key.to_owned(),
            range: range.to_owned(),
        }
    }

    #[test]
    fn keys_of_an_even_load_come_from_all_partitions_in_turn() {
        let keys = vec![
            placed("a", "0"),
            placed("b", "0"),
            placed("c", "1"),
            placed("d", "0"),
            placed("e", "1"),
        ];
        assert_eq!(even_keys(keys), ["a", "c", "b", "e"]);
        assert!(even_keys(Vec::new()).is_empty());
    }

    #[test]
    fn a_partition_that_is_no_longer_listed_was_split() {
        let range = |id: &str, min: &str, max: &str| PartitionKeyRange {
            id: id.to_owned(),
            min: min.to_owned(),
            max: max.to_owned(),
            parents: Vec::new(),
        };
        let mut container = ContainerState {
            link: String::new(),
            name: String::new(),
            key_path: "/postId",
            ru_per_second: 400,
            partitions: vec![fresh(range("0", "", "FF"))],
            replaced: Vec::new(),
        };
        let sizes = [PartitionSize {
            range: "1".to_owned(),
            kilobytes: 7,
            items: 1,
        }];
        let after = [range("1", "", "20"), range("2", "20", "FF")];
        update(&mut container, &after, &sizes);
        assert_eq!(container.replaced.len(), 1);
        assert_eq!(container.partitions[0].kilobytes, Some(7));
        assert_eq!(container.partitions[1].kilobytes, None);
        update(&mut container, &after, &sizes);
        assert_eq!(
            (container.partitions.len(), container.replaced.len()),
            (2, 1)
        );
    }
}
