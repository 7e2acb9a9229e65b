//! The rings of samples: seconds for a quarter of an hour, tens of seconds for a day.
//!
//! Counters rise and are read as they are; a sample has the difference of two readings. A sample
//! keeps its latencies while they are few, and their counts by bucket, so that percentiles of few
//! requests are exact and samples are merged without a loss.

use crate::metrics::LATENCIES_KEPT;
use orrery_model::metrics::LATENCY_BOUNDS_SECONDS;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The samples of the fine ring: a quarter of an hour of seconds.
const FINE_SAMPLES: usize = 15 * 60;
/// The milliseconds of a sample of the wide ring.
const WIDE_MS: u64 = 10_000;
/// The samples of the wide ring: a day.
const WIDE_SAMPLES: usize = 24 * 60 * 6;
/// The containers that a sample names, those with the highest charge.
pub(super) const CONTAINERS_SAMPLED: usize = 16;
/// The largest difference between the two clocks over a sample that is no jump, in milliseconds.
const CLOCKS_APART_MS: u64 = 100;
/// The number of latency buckets: one for each bound, and one for what is above all bounds.
const BUCKETS: usize = LATENCY_BOUNDS_SECONDS.len() + 1;

/// The names of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName {
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
}

/// Counts of requests. In a reading they are sums since the start, in a sample those of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub requests: u64,
    /// Hundredths of a request unit.
    pub charge: u64,
    /// Requests that were answered with 429.
    pub throttled: u64,
    /// Requests that were answered with 400 to 499, other than 429.
    pub client_errors: u64,
    /// Requests that were answered with 500 or more.
    pub server_errors: u64,
    /// Requests by latency, one count for each bound and one for what is above.
    pub latency: [u64; BUCKETS],
}

/// Counts of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerCounts {
    /// Requests at physical partitions: one that asks several counts at each.
    pub requests: u64,
    /// Hundredths of a request unit.
    pub charge: u64,
    pub throttled: u64,
}

/// Figures of the process. In a reading they are sums since the start, in a sample those of its
/// time, except for the memory, which is that of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessCounts {
    /// Processor time in microseconds.
    pub processor_us: u64,
    pub disk_read_bytes: u64,
    pub disk_written_bytes: u64,
    pub resident_bytes: u64,
}

/// The counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Milliseconds of a clock that cannot be set.
    pub monotonic_ms: u64,
    pub counts: Counts,
    /// The latencies of the requests since the last reading in microseconds, in ascending order;
    /// not all of them if there are [`LATENCIES_KEPT`] or more.
    pub latencies: Vec<u64>,
    pub process: ProcessCounts,
    pub connections: u64,
    pub stored_bytes: u64,
    /// Containers with their sums. A container that is absent has not changed.
    pub containers: Vec<(Arc<ContainerName>, ContainerCounts)>,
}

/// The difference of two readings, or the sum of adjacent samples.
#[derive(Clone, Debug, Default)]
struct Sample {
    start_ms: u64,
    width_ms: u64,
    counts: Counts,
    /// All latencies in microseconds, in ascending order; empty if there are many.
    latencies: Box<[u64]>,
    process: ProcessCounts,
    connections: u64,
    stored_bytes: u64,
    /// The containers with the highest charges, the highest first.
    containers: Box<[(Arc<ContainerName>, ContainerCounts)]>,
}

/// The part of the samples that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct LiveSelection {
    /// The begin, in milliseconds since 1970.
    pub from_ms: u64,
    /// The end, exclusive, in milliseconds since 1970.
    pub to_ms: u64,
    /// Milliseconds to which samples are merged; `None` for the samples as they are kept.
    pub step_ms: Option<u64>,
    /// The largest number of containers with a series of their own.
    pub containers: usize,
}

/// One sample as callers see it.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveSample {
    /// The begin, in milliseconds since 1970.
    pub start_ms: u64,
    /// The width in milliseconds.
    pub width_ms: u64,
    /// Answered requests.
    pub requests: u64,
    /// Charges of these requests, in hundredths of a request unit.
    pub charge: u64,
    /// Requests that were answered with 429.
    pub throttled: u64,
    /// Requests that were answered with 400 to 499, other than 429.
    pub client_errors: u64,
    /// Requests that were answered with 500 or more.
    pub server_errors: u64,
    /// The 50th, 95th and 99th percentile of the latencies in microseconds, exact for fewer than
    /// 100 requests; 0 without requests.
    pub latency_us: [u64; 3],
    /// Processor time of the process in microseconds.
    pub processor_us: u64,
    /// Memory of the process at the end of the sample.
    pub resident_bytes: u64,
    /// Bytes that the process read from disks.
    pub disk_read_bytes: u64,
    /// Bytes that the process wrote to disks.
    pub disk_written_bytes: u64,
    /// Open connections at the end of the sample.
    pub connections: u64,
    /// Bytes of the store at the end of the sample, approximately.
    pub stored_bytes: u64,
}

/// The series of one container: one entry for each sample of the view.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSeries {
    /// The container.
    pub name: Arc<ContainerName>,
    /// Requests at physical partitions: one that asks several counts at each.
    pub requests: Vec<u64>,
    /// Charges in hundredths of a request unit.
    pub charge: Vec<u64>,
    /// Requests that were refused with 429.
    pub throttled: Vec<u64>,
}

/// The samples of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveView {
    /// The samples, the oldest first.
    pub samples: Vec<LiveSample>,
    /// The containers with the highest charges in the selection, the highest first.
    pub containers: Vec<ContainerSeries>,
}

/// The samples of a server.
#[derive(Debug, Default)]
pub(super) struct Samples {
    last: Option<Reading>,
    /// The sums of every container at the last reading that had it.
    known: HashMap<Arc<ContainerName>, ContainerCounts>,
    fine: VecDeque<Sample>,
    wide: VecDeque<Sample>,
    /// The wide sample whose time is not over.
    open: Option<Sample>,
    /// True once a fine sample was dropped: older times are in the wide ring only.
    has_dropped: bool,
}

impl Samples {
    /// Adds a reading. The first one makes no sample.
    pub(super) fn add(&mut self, mut reading: Reading) {
        let changed = self.changes_of(&reading.containers);
        if let Some(last) = &self.last {
            let width_ms = reading.monotonic_ms.saturating_sub(last.monotonic_ms);
            if width_ms == 0 {
                return;
            }
            // Both clocks agree within a moment unless one was set.
            let passed_ms = reading.time_ms.saturating_sub(last.time_ms);
            let (start_ms, width_ms) = match passed_ms.abs_diff(width_ms) <= CLOCKS_APART_MS {
                true => (last.time_ms, passed_ms),
                false => (reading.time_ms.saturating_sub(width_ms), width_ms),
            };
            let sample = Sample {
                start_ms,
                width_ms,
                counts: reading.counts.since(&last.counts),
                latencies: few(std::mem::take(&mut reading.latencies)),
                process: reading.process.since(&last.process),
                connections: reading.connections,
                stored_bytes: reading.stored_bytes,
                containers: changed,
            };
            self.push(sample);
        }
        for (name, counts) in &reading.containers {
            self.known.insert(Arc::clone(name), *counts);
        }
        self.last = Some(reading);
    }

    /// Forgets the containers that `exists` denies.
    pub(super) fn retain_containers(&mut self, exists: impl Fn(&ContainerName) -> bool) {
        self.known.retain(|name, _| exists(name));
    }

    /// Returns what changed at the containers with the highest charges since the last reading.
    fn changes_of(
        &self,
        containers: &[(Arc<ContainerName>, ContainerCounts)],
    ) -> Box<[(Arc<ContainerName>, ContainerCounts)]> {
        let mut changed = Vec::new();
        for (name, counts) in containers {
            let before = self.known.get(name).copied().unwrap_or_default();
            let since = counts.since(&before);
            if since != ContainerCounts::default() {
                changed.push((Arc::clone(name), since));
            }
        }
        highest(changed)
    }

    fn push(&mut self, sample: Sample) {
        // Samples that a clock which was set back contradicts are dropped, so that the order holds.
        let is_later = |other: &Sample| other.start_ms + other.width_ms / 2 > sample.start_ms;
        while self.fine.back().is_some_and(is_later) {
            self.fine.pop_back();
        }
        while self.wide.back().is_some_and(is_later) {
            self.wide.pop_back();
        }

        match &mut self.open {
            Some(open) if open.start_ms / WIDE_MS == sample.start_ms / WIDE_MS => {
                open.join(&sample);
            }
            open => {
                let over = open.replace(sample.clone());
                let over = over.filter(|over| over.start_ms < sample.start_ms);
                self.wide.extend(over);
                if self.wide.len() > WIDE_SAMPLES {
                    self.wide.pop_front();
                }
            }
        }
        self.fine.push_back(sample);
        if self.fine.len() > FINE_SAMPLES {
            self.fine.pop_front();
            self.has_dropped = true;
        }
    }

    /// Returns the samples of a selection.
    pub(super) fn view(&self, selection: LiveSelection) -> LiveView {
        let LiveSelection {
            from_ms,
            to_ms,
            step_ms,
            containers,
        } = selection;
        // Wide samples are for the times before the first complete ten seconds of fine ones.
        let first_fine = self.fine.front().map_or(u64::MAX, |sample| sample.start_ms);
        let border_ms = match self.has_dropped {
            true => first_fine.div_ceil(WIDE_MS).saturating_mul(WIDE_MS),
            false => 0,
        };
        let wide = self.wide.iter().filter(|s| s.start_ms < border_ms);
        let fine = self.fine.iter().filter(|s| s.start_ms >= border_ms);
        let mut merged: Vec<Sample> = Vec::new();
        for sample in wide.chain(fine) {
            if sample.start_ms < from_ms || sample.start_ms >= to_ms {
                continue;
            }
            match (merged.last_mut(), step_ms) {
                (Some(last), Some(step)) if last.start_ms / step == sample.start_ms / step => {
                    last.join(sample);
                }
                _ => merged.push(sample.clone()),
            }
        }
        LiveView {
            containers: series_of(&merged, containers),
            samples: merged.iter().map(Sample::shown).collect(),
        }
    }
}

impl Sample {
    /// Adds a later sample.
    fn join(&mut self, later: &Sample) {
        let end_ms = later.start_ms + later.width_ms;
        self.width_ms = end_ms.saturating_sub(self.start_ms);
        self.latencies = self.joined_latencies(later);
        self.counts.add(&later.counts);
        self.process.add(&later.process);
        self.connections = later.connections;
        self.stored_bytes = later.stored_bytes;
        let mut containers = std::mem::take(&mut self.containers).into_vec();
        for (name, counts) in &later.containers {
            match containers.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => sum.add(counts),
                None => containers.push((Arc::clone(name), *counts)),
            }
        }
        self.containers = highest(containers);
    }

    /// Returns the latencies of both samples, unless one of them has too many or they are too many
    /// together.
    fn joined_latencies(&self, later: &Sample) -> Box<[u64]> {
        for sample in [self, later] {
            if sample.latencies.is_empty() && sample.counts.requests > 0 {
                return Box::default();
            }
        }
        let mut all = self.latencies.to_vec();
        all.extend_from_slice(&later.latencies);
        all.sort_unstable();
        few(all)
    }

    /// Returns a percentile of the latencies in microseconds; 0 without requests.
    fn percentile_us(&self, percent: usize) -> u64 {
        if self.counts.requests == 0 {
            return 0;
        }
        let wanted = (self.latencies.len() * percent).div_ceil(100);
        match self.latencies.get(wanted.saturating_sub(1)) {
            Some(latency) => *latency,
            None => percentile_us(&self.counts.latency, percent as u64),
        }
    }

    fn shown(&self) -> LiveSample {
        let percentile = |percent| self.percentile_us(percent);
        LiveSample {
            start_ms: self.start_ms,
            width_ms: self.width_ms,
            requests: self.counts.requests,
            charge: self.counts.charge,
            throttled: self.counts.throttled,
            client_errors: self.counts.client_errors,
            server_errors: self.counts.server_errors,
            latency_us: [percentile(50), percentile(95), percentile(99)],
            processor_us: self.process.processor_us,
            resident_bytes: self.process.resident_bytes,
            disk_read_bytes: self.process.disk_read_bytes,
            disk_written_bytes: self.process.disk_written_bytes,
            connections: self.connections,
            stored_bytes: self.stored_bytes,
        }
    }
}

/// Returns the latencies if they are so few that all are known, otherwise none.
fn few(latencies: Vec<u64>) -> Box<[u64]> {
    match latencies.len() < LATENCIES_KEPT {
        true => latencies.into(),
        false => Box::default(),
    }
}

impl ProcessCounts {
    fn since(&self, before: &ProcessCounts) -> ProcessCounts {
        ProcessCounts {
            processor_us: self.processor_us.saturating_sub(before.processor_us),
            disk_read_bytes: self.disk_read_bytes.saturating_sub(before.disk_read_bytes),
            disk_written_bytes: self
                .disk_written_bytes
                .saturating_sub(before.disk_written_bytes),
            resident_bytes: self.resident_bytes,
        }
    }

    fn add(&mut self, more: &ProcessCounts) {
        self.processor_us += more.processor_us;
        self.disk_read_bytes += more.disk_read_bytes;
        self.disk_written_bytes += more.disk_written_bytes;
        self.resident_bytes = more.resident_bytes;
    }
}

impl Counts {
    pub(super) fn since(&self, before: &Counts) -> Counts {
        let mut latency = self.latency;
        for (now, before) in latency.iter_mut().zip(&before.latency) {
            *now = now.saturating_sub(*before);
        }
        Counts {
            requests: self.requests.saturating_sub(before.requests),
            charge: self.charge.saturating_sub(before.charge),
            throttled: self.throttled.saturating_sub(before.throttled),
            client_errors: self.client_errors.saturating_sub(before.client_errors),
            server_errors: self.server_errors.saturating_sub(before.server_errors),
            latency,
        }
    }

    fn add(&mut self, more: &Counts) {
        self.requests += more.requests;
        self.charge += more.charge;
        self.throttled += more.throttled;
        self.client_errors += more.client_errors;
        self.server_errors += more.server_errors;
        for (sum, more) in self.latency.iter_mut().zip(&more.latency) {
            *sum += more;
        }
    }
}

impl ContainerCounts {
    fn since(&self, before: &ContainerCounts) -> ContainerCounts {
        // A container that was created again counts from 0.
        if self.requests < before.requests {
            return *self;
        }
        ContainerCounts {
            requests: self.requests - before.requests,
            charge: self.charge.saturating_sub(before.charge),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }

    fn add(&mut self, more: &ContainerCounts) {
        self.requests += more.requests;
        self.charge += more.charge;
        self.throttled += more.throttled;
    }
}

/// Returns the containers with the highest charges, the highest first.
fn highest(
    mut containers: Vec<(Arc<ContainerName>, ContainerCounts)>,
) -> Box<[(Arc<ContainerName>, ContainerCounts)]> {
    containers.sort_by(|(a, x), (b, y)| y.charge.cmp(&x.charge).then_with(|| a.cmp(b)));
    containers.truncate(CONTAINERS_SAMPLED);
    containers.into()
}

/// Returns the series of the containers with the highest charges in all samples together.
fn series_of(samples: &[Sample], containers: usize) -> Vec<ContainerSeries> {
    let mut sums: BTreeMap<&Arc<ContainerName>, u64> = BTreeMap::new();
    for sample in samples {
        for (name, counts) in &sample.containers {
            *sums.entry(name).or_default() += counts.charge;
        }
    }
    let mut names: Vec<(&Arc<ContainerName>, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, charge)| std::cmp::Reverse(*charge));
    names.truncate(containers);

    let mut all = Vec::with_capacity(names.len());
    for (name, _) in names {
        let mut series = ContainerSeries {
            name: Arc::clone(name),
            requests: Vec::with_capacity(samples.len()),
            charge: Vec::with_capacity(samples.len()),
            throttled: Vec::with_capacity(samples.len()),
        };
        for sample in samples {
            let found = sample.containers.iter().find(|(other, _)| other == name);
            let counts = found.map_or(ContainerCounts::default(), |(_, counts)| *counts);
            series.requests.push(counts.requests);
            series.charge.push(counts.charge);
            series.throttled.push(counts.throttled);
        }
        all.push(series);
    }
    all
}

/// Returns a percentile of latencies in microseconds: within its bucket by proportion, and the last
/// bound for what is above all bounds; 0 without requests.
fn percentile_us(latency: &[u64; BUCKETS], percent: u64) -> u64 {
    let total: u64 = latency.iter().sum();
    let wanted = (total * percent).div_ceil(100);
    let mut below = 0;
    let mut lower = 0.0;
    for (bound, count) in LATENCY_BOUNDS_SECONDS.iter().zip(latency) {
        if below + count >= wanted && *count > 0 {
            let share = (wanted - below) as f64 / *count as f64;
            return ((lower + (bound - lower) * share) * 1e6).round() as u64;
        }
        below += count;
        lower = *bound;
    }
    if total == 0 { 0 } else { (lower * 1e6) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: u64 = 1_767_225_600_000;

    fn name(container: &str) -> Arc<ContainerName> {
        Arc::new(ContainerName {
            database: "db".into(),
            container: container.into(),
        })
    }

    /// Returns the reading `seconds` after the begin, with so many requests in all.
    fn reading(seconds: u64, requests: u64) -> Reading {
        let mut counts = Counts {
            requests,
            charge: requests * 100,
            throttled: requests / 10,
            ..Counts::default()
        };
        counts.latency[3] = requests;
        let of_container = ContainerCounts {
            requests,
            charge: requests * 50,
            throttled: 0,
        };
        Reading {
            time_ms: BEGIN + seconds * 1000,
            monotonic_ms: 5_000 + seconds * 1000,
            counts,
            latencies: Vec::new(),
            process: ProcessCounts {
                processor_us: seconds * 250_000,
                disk_written_bytes: seconds * 4_096,
                resident_bytes: seconds + 7,
                ..ProcessCounts::default()
            },
            connections: seconds,
            stored_bytes: seconds * 10,
            containers: vec![(name("a"), of_container)],
        }
    }

    fn everything(step_ms: Option<u64>) -> LiveSelection {
        LiveSelection {
            from_ms: 0,
            to_ms: u64::MAX,
            step_ms,
            containers: 10,
        }
    }

    #[test]
    fn a_sample_is_the_difference_of_two_readings() {
        let mut samples = Samples::default();
        for (second, requests) in [(0, 100), (1, 130), (2, 130), (3, 170)] {
            samples.add(reading(second, requests));
        }
        let view = samples.view(everything(None));
        let mut shown = Vec::new();
        for sample in &view.samples {
            shown.push((sample.start_ms, sample.requests, sample.charge));
        }
        assert_eq!(
            shown,
            [
                (BEGIN, 30, 3_000),
                (BEGIN + 1000, 0, 0),
                (BEGIN + 2000, 40, 4_000)
            ]
        );
        assert_eq!(view.samples[1].latency_us, [0, 0, 0]);
        // All requests took 0.5 to 1 ms.
        assert_eq!(view.samples[2].latency_us, [750, 975, 1_000]);
        assert_eq!(
            (view.samples[2].connections, view.samples[2].stored_bytes),
            (3, 30)
        );
        // The requests before the first reading belong to no sample, and to no series.
        assert_eq!(view.containers.len(), 1);
        assert_eq!(view.containers[0].charge, [1_500, 0, 2_000]);
    }

    #[test]
    fn steps_merge_samples_and_keep_sums() {
        let mut samples = Samples::default();
        for second in 0..=60 {
            samples.add(reading(second, second * second));
        }
        let fine = samples.view(everything(None));
        let merged = samples.view(everything(Some(30_000)));
        assert_eq!((fine.samples.len(), merged.samples.len()), (60, 2));
        let sum = |view: &LiveView| -> u64 { view.samples.iter().map(|s| s.requests).sum() };
        assert_eq!((sum(&fine), sum(&merged)), (3_600, 3_600));
        assert_eq!(merged.samples[1].width_ms, 30_000);
        assert_eq!(merged.containers[0].requests, [900, 2_700]);
        let part = samples.view(LiveSelection {
            from_ms: BEGIN + 10_000,
            to_ms: BEGIN + 12_000,
            ..everything(None)
        });
        assert_eq!(part.samples.len(), 2);
    }

    #[test]
    fn a_day_is_kept_in_tens_of_seconds_and_the_last_quarter_of_an_hour_in_seconds() {
        let mut samples = Samples::default();
        let end = 25 * 3600;
        for second in 0..=end {
            samples.add(reading(second, second));
        }
        let view = samples.view(everything(None));
        assert!((samples.fine.len(), samples.wide.len()) == (FINE_SAMPLES, WIDE_SAMPLES));
        for pair in view.samples.windows(2) {
            let [first, second] = pair else { continue };
            assert_eq!(first.start_ms + first.width_ms, second.start_ms);
        }
        let is_fine = |sample: &&LiveSample| sample.width_ms == 1000;
        let fine = view.samples.iter().filter(is_fine).count();
        assert!((890..=900).contains(&fine), "{fine}");
        let sum: u64 = view.samples.iter().map(|sample| sample.requests).sum();
        assert!((86_000..=87_300).contains(&sum), "{sum}");
    }

    #[test]
    fn a_clock_that_goes_back_leaves_samples_in_order() {
        let mut samples = Samples::default();
        for second in 0..100 {
            samples.add(reading(second, second));
        }
        let mut back = reading(100, 200);
        back.time_ms = BEGIN + 50_000;
        samples.add(back);
        let view = samples.view(everything(None));
        for pair in view.samples.windows(2) {
            assert!(pair[0].start_ms < pair[1].start_ms);
        }
        assert_eq!(view.samples.last().map(|sample| sample.requests), Some(101));
    }

    #[test]
    fn a_sample_names_the_containers_with_the_highest_charges_only() {
        let mut samples = Samples::default();
        samples.add(reading(0, 0));
        let mut many = reading(1, 0);
        for n in 0..100 {
            let counts = ContainerCounts {
                requests: 1,
                charge: n,
                throttled: 0,
            };
            many.containers.push((name(&format!("c{n}")), counts));
        }
        samples.add(many);
        let view = samples.view(everything(None));
        assert_eq!(view.containers.len(), 10);
        assert_eq!(view.containers[0].name.container, "c99");
        assert_eq!(samples.fine[0].containers.len(), CONTAINERS_SAMPLED);
        samples.retain_containers(|name| name.container == "c99");
        assert_eq!(samples.known.len(), 1);
    }

    #[test]
    fn percentiles_of_few_requests_are_exact() {
        let mut samples = Samples::default();
        samples.add(reading(0, 0));
        for (second, latencies) in [(1, vec![1_300]), (2, vec![400, 9_000])] {
            let mut next = reading(second, second * (second + 1) / 2);
            next.latencies = latencies;
            samples.add(next);
        }
        let fine = samples.view(everything(None)).samples;
        assert_eq!(fine[0].latency_us, [1_300; 3]);
        assert_eq!(fine[1].latency_us, [400, 9_000, 9_000]);
        // Merged samples know the latencies of both.
        let merged = samples.view(everything(Some(30_000))).samples;
        assert_eq!(merged[0].latency_us, [1_300, 9_000, 9_000]);
        assert_eq!(
            (merged[0].processor_us, merged[0].resident_bytes),
            (500_000, 9)
        );
        assert_eq!(merged[0].disk_written_bytes, 8_192);
    }

    #[test]
    fn a_percentile_lies_within_its_bucket() {
        let mut latency = [0; BUCKETS];
        assert_eq!(percentile_us(&latency, 50), 0);
        latency[0] = 50;
        latency[BUCKETS - 1] = 50;
        assert_eq!(percentile_us(&latency, 50), 100);
        assert_eq!(percentile_us(&latency, 99), 10_000_000);
    }
}
