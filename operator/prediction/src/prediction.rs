//! The prediction of a container under proposed settings.
//!
//! Each recorded request is repeated on two copies of the same items: one with the settings as they
//! are, one with the proposed settings. An error that both copies share cancels out: values that
//! were not recorded, items that are not in the sample, items that were written meanwhile. The
//! recorded charge says how much, with *asking* for what a query pays at each partition whatever
//! the partition finds:
//!
//! ```text
//! predicted = asking(proposed) + (proposed − asking(proposed)) × (recorded − asking(current))
//!                                                              ÷ (current  − asking(current))
//! ```

use crate::limits::{Failure, Run, SAMPLE_ITEMS_DEFAULT};
use crate::replay::{GroupRun, Observed, Pair};
use crate::sample::{Sample, SampleSummary};
use crate::scratch::{Design, Layout, Scratch};
use crate::words;
use crate::workload::{Chooser, GivenQuery, Group, KeptGroup, Workload, wanted_items};
use orrery_engine::request::{Charge, OperationKind, Throughput};
use orrery_engine::{Arrival, Cancel, Container, Engine, Served};
use orrery_model::partition_key::{Definition, Epk};
use orrery_model::world::split_mix;
use orrery_model::{Error, Json, limits};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Milliseconds that the repetition of all groups may take.
const REPLAY_MS: u64 = 15_000;
/// Milliseconds before the last request that are simulated against budgets.
const SIMULATED_MS: u64 = 600_000;
/// Requests that are simulated against budgets.
const ARRIVALS_MAX: usize = 100_000;
/// Logical partitions that are listed.
const LARGEST: usize = 5;
/// RU/s for which a new container with manual throughput gets one physical partition.
const MANUAL_RU_PER_PARTITION: u32 = 6_000;

/// The settings to predict.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// The partition key definition; `None` keeps that of the container.
    pub partition_key: Option<Json>,
    /// The indexing policy; `None` keeps that of the container.
    pub indexing_policy: Option<Json>,
    /// The throughput; `None` keeps that of the container.
    pub throughput: Option<Throughput>,
    /// The number of physical partitions; `None` takes as many as data and throughput need.
    pub physical_partitions: Option<u32>,
    /// The most items to copy; `None` takes the default.
    pub sample_items: Option<u64>,
    /// False to leave the recorded requests out.
    pub uses_recorded: bool,
    /// Queries to judge beside the recorded ones.
    pub queries: Vec<GivenQuery>,
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The items that were copied.
    pub sample: SampleSummary,
    /// The settings as they are.
    pub current: PredictionSide,
    /// The proposed settings.
    pub proposed: PredictionSide,
    /// The kinds of requests, queries by their form; the most expensive in total first.
    pub classes: Vec<PredictionClass>,
    /// The prediction in sentences, the most important first.
    pub words: Vec<String>,
}

/// A container under some settings.
#[derive(Clone, Debug, Default)]
pub struct PredictionSide {
    /// The paths of the partition key.
    pub key_paths: Vec<String>,
    /// RU/s, of autoscale the maximum; `None` without an offer of its own.
    pub ru_per_second: Option<u32>,
    /// True if the throughput is autoscale.
    pub is_autoscale: bool,
    /// The charge of all requests, in RU.
    pub ru: f64,
    /// The physical partitions asked by a request on average.
    pub fan_out: f64,
    /// Each physical partition's share of the charge, in the order of the hash space.
    pub ru_shares: Vec<f64>,
    /// The bytes of the items of each physical partition.
    pub partition_bytes: Vec<u64>,
    /// The share of requests that budgets refuse with 429 at the recorded rates; `None` if it
    /// cannot be known.
    pub throttled: Option<f64>,
    /// Bytes of the items.
    pub item_bytes: u64,
    /// Bytes of the index entries.
    pub index_bytes: u64,
    /// The logical partitions.
    pub keys: KeyProfile,
    /// Items of the sample whose id or unique key another item of their logical partition has.
    pub conflicts: u64,
    /// Items of the sample that cannot be stored for another reason.
    pub refused: u64,
    /// The first reason.
    pub refusal: Option<String>,
}

/// The logical partitions of a container.
#[derive(Clone, Debug, Default)]
pub struct KeyProfile {
    /// The number of different keys among the copied items.
    pub distinct: u64,
    /// The largest logical partitions, the largest first.
    pub largest: Vec<LargestKey>,
    /// Bytes that one logical partition may have.
    pub limit_bytes: u64,
}

/// A large logical partition.
#[derive(Clone, Debug)]
pub struct LargestKey {
    /// The partition key as a JSON array.
    pub key: Json,
    /// Bytes of its items, of a sample scaled to the container.
    pub bytes: u64,
    /// The share of the container's bytes.
    pub share: f64,
}

/// The requests of one kind, or of one form of queries.
#[derive(Clone, Debug)]
pub struct PredictionClass {
    /// The kind.
    pub kind: OperationKind,
    /// The text of a query; empty for other kinds.
    pub text: String,
    /// The number of requests; of queries, of executions.
    pub count: f64,
    /// The mean of the recorded charges in RU; `None` for a given query.
    pub recorded_ru: Option<f64>,
    /// The mean under the settings as they are.
    pub current: Column,
    /// The mean under the proposed settings.
    pub proposed: Column,
    /// The predicted mean of the charges in RU.
    pub predicted_ru: f64,
    /// The repeated requests.
    pub repeated: u64,
    /// The limits of the prediction, as a sentence.
    pub note: Option<String>,
}

/// The mean of repeated requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Column {
    /// The charge in RU.
    pub ru: f64,
    /// The part of the charge for asking partitions, in RU.
    pub asking_ru: f64,
    /// The physical partitions asked.
    pub partitions: f64,
}

/// Predicts a container under proposed settings.
///
/// # Errors
/// [`Failure`]: another prediction runs, a bound is reached, or the proposal is wrong.
pub fn predict(
    engine: &Engine,
    container: &Container,
    proposal: &Proposal,
    cancel: &Cancel,
) -> Result<Prediction, Failure> {
    let mut run = Run::begin(engine, cancel)?;
    let traffic = proposal
        .uses_recorded
        .then(|| engine.recorded_traffic(container));
    let wanted = traffic.as_ref().map(wanted_items).unwrap_or_default();
    let most = proposal.sample_items.unwrap_or(SAMPLE_ITEMS_DEFAULT);
    let sample = Sample::read(&mut run, container, most, wanted)?;
    let design = Design::of(&run, container)?;
    let mut current = PredictionSide::of(&run, container, None);
    let mut proposed = PredictionSide::of(&run, container, proposal.throughput);
    let plan = proposed_design(container, &design, proposal, &proposed, &sample.summary)?;
    let now = Scratch::fill(&mut run, container, &design, &sample)?;
    let then = Scratch::fill(&mut run, container, &plan, &sample)?;
    let pair = Pair {
        sample: &sample,
        current: &now,
        proposed: &then,
    };

    // Sizes are read before requests change the items.
    current.measure(&now, &sample)?;
    proposed.measure(&then, &sample)?;
    let workload = Chooser::new(&sample, &now).workload(traffic.as_ref(), &proposal.queries);
    let mut runs = Vec::with_capacity(workload.groups.len());
    for (at, group) in workload.groups.iter().enumerate() {
        // The time that is left is divided evenly over the groups that are left.
        let left = (workload.groups.len() - at) as u64;
        let ends_ms = engine.monotonic_ms() + REPLAY_MS / left.max(workload.groups.len() as u64);
        runs.push(pair.run(&run, group, ends_ms)?);
    }
    let mut classes = classes(&workload, &runs);
    current.add_requests(&workload, &runs, &classes, |(now, _, _)| now, false);
    proposed.add_requests(&workload, &runs, &classes, |(_, then, _)| then, true);
    let arrivals = Arrivals::new(engine, container, &workload, &runs, &classes);
    current.throttled = arrivals.throttled(&current, false);
    proposed.throttled = arrivals.throttled(&proposed, true);
    classes.sort_by(|a, b| (b.count * b.predicted_ru).total_cmp(&(a.count * a.predicted_ru)));
    let mut prediction = Prediction {
        sample: sample.summary,
        current,
        proposed,
        classes,
        words: Vec::new(),
    };
    prediction.words = words::sentences(&prediction);
    Ok(prediction)
}

/// Returns the proposed settings, with the physical partitions that data and throughput need.
fn proposed_design(
    container: &Container,
    design: &Design,
    proposal: &Proposal,
    side: &PredictionSide,
    sample: &SampleSummary,
) -> Result<Design, Failure> {
    let partition_key = proposal.partition_key.clone();
    let partition_key = partition_key.unwrap_or_else(|| design.partition_key.clone());
    let is_same_key = match &proposal.partition_key {
        Some(key) => Definition::from_json(key)? == *container.partition_key(),
        None => true,
    };
    let by_bytes = sample
        .container_bytes
        .div_ceil(container.partition_bytes_max().max(1));
    let by_bytes = u32::try_from(by_bytes).unwrap_or(u32::MAX).max(1);
    let by_throughput = match (side.ru_per_second, side.is_autoscale, is_same_key) {
        (Some(ru), false, false) => ru.div_ceil(MANUAL_RU_PER_PARTITION),
        (Some(ru), ..) => ru.div_ceil(limits::PARTITION_RU_PER_SECOND),
        (None, ..) => 1,
    };
    let needed = match (proposal.physical_partitions, is_same_key) {
        (Some(0), _) => {
            let error = Error::bad("A container has at least one physical partition.");
            return Err(Failure::Engine(error));
        }
        (Some(count), _) => count,
        // Another key means another container, which begins with what it needs.
        (None, false) => by_throughput.max(by_bytes),
        (None, true) => by_throughput.max(by_bytes).max(design.layout.count()),
    };
    let keeps_layout = is_same_key && needed == design.layout.count();
    Ok(Design {
        partition_key,
        indexing_policy: match &proposal.indexing_policy {
            Some(policy) => Some(policy.clone()),
            None => design.indexing_policy.clone(),
        },
        layout: match keeps_layout {
            true => design.layout.clone(),
            false => Layout::Even(needed),
        },
    })
}

impl PredictionSide {
    /// Creates a side with a throughput, or with that of the container.
    fn of(run: &Run<'_>, container: &Container, throughput: Option<Throughput>) -> PredictionSide {
        let provisioned = run.engine.throughput_of(container).provisioned;
        // A throughput that containers share is not that of one of them.
        let own = provisioned.filter(|provisioned| !provisioned.shared);
        let throughput = throughput.or(own.map(|provisioned| provisioned.throughput));
        PredictionSide {
            ru_per_second: throughput.map(Throughput::ru_max),
            is_autoscale: matches!(throughput, Some(Throughput::Autoscale { .. })),
            ..PredictionSide::default()
        }
    }

    /// Adds the sizes of a filled container.
    fn measure(&mut self, scratch: &Scratch, sample: &Sample) -> Result<(), Failure> {
        let summary = &sample.summary;
        for path in scratch.definition().paths() {
            self.key_paths.push(format!("/{}", path.join("/")));
        }
        let inventory = scratch.engine.partition_inventory(&scratch.container)?;
        let stored: u64 = inventory.iter().map(|partition| partition.items).sum();
        let index: u64 = inventory
            .iter()
            .map(|partition| partition.index_bytes)
            .sum();
        let per_item = index as f64 / stored.max(1) as f64;
        self.index_bytes = (per_item * summary.container_items as f64) as u64;
        self.item_bytes = summary.container_bytes;
        self.conflicts = scratch.conflicts;
        (self.refused, self.refusal) = scratch.refused.clone();
        self.add_keys(scratch, sample);
        Ok(())
    }

    /// Adds the sizes of the logical and the physical partitions.
    fn add_keys(&mut self, scratch: &Scratch, sample: &Sample) {
        let summary = &sample.summary;
        // Texts of the sample are without system properties, the bytes of the container are not.
        let scale = summary.container_bytes as f64 / summary.random_bytes.max(1) as f64;
        let mut partitions = vec![0; scratch.ranges.len()];
        let mut keys: HashMap<&Epk, (u64, usize)> = HashMap::new();
        for (at, (item, placed)) in sample.items.iter().zip(&scratch.placed).enumerate() {
            let Some(placed) = placed else { continue };
            if item.is_random {
                let bytes = item.text.len() as u64;
                partitions[placed.partition] += bytes;
                keys.entry(&placed.epk).or_insert((0, at)).0 += bytes;
            }
        }
        let scaled = |bytes: u64| (bytes as f64 * scale) as u64;
        self.partition_bytes = partitions.into_iter().map(scaled).collect();
        let mut largest: Vec<(u64, usize)> = keys.into_values().collect();
        largest.sort_by_key(|(bytes, at)| (Reverse(*bytes), *at));
        self.keys.distinct = largest.len() as u64;
        self.keys.limit_bytes = scratch.container.logical_partition_bytes_max();
        for (bytes, at) in largest.into_iter().take(LARGEST) {
            if let Some(placed) = &scratch.placed[at] {
                self.keys.largest.push(LargestKey {
                    key: placed.key.to_json(),
                    bytes: scaled(bytes),
                    share: bytes as f64 / summary.random_bytes.max(1) as f64,
                });
            }
        }
    }

    /// Adds the charge of the requests, and its division over the physical partitions.
    fn add_requests(
        &mut self,
        workload: &Workload,
        runs: &[GroupRun],
        classes: &[PredictionClass],
        side: fn(&(Observed, Observed, f64)) -> &Observed,
        is_proposed: bool,
    ) {
        let mut at = vec![0.0; self.partition_bytes.len()];
        let (mut requests, mut asked) = (0.0, 0.0);
        for (run, class) in runs.iter().zip(classes) {
            let factor = class.factor(is_proposed);
            for pair in &run.pairs {
                let weight = pair.2 * class.part_repeated(run);
                for (partition, charge) in &side(pair).at {
                    if let Some(sum) = at.get_mut(*partition) {
                        *sum += charge.as_ru() * weight * factor;
                    }
                }
                requests += weight;
                asked += side(pair).asked as f64 * weight;
            }
        }
        for class in classes {
            self.ru += class.count * class.mean(is_proposed);
        }
        // Requests that are not repeated are taken to be spread as the others are.
        debug_assert!(runs.len() == workload.groups.len());
        let sum: f64 = at.iter().sum();
        self.fan_out = asked / f64::max(requests, 1.0);
        self.ru_shares = at;
        for share in &mut self.ru_shares {
            *share /= f64::max(sum, f64::MIN_POSITIVE);
        }
    }

    /// Returns the share of the charge at the busiest physical partition.
    pub fn hottest_share(&self) -> f64 {
        self.ru_shares.iter().copied().fold(0.0, f64::max)
    }
}

impl PredictionClass {
    /// Returns the ratio of the recorded or predicted charge to that of the repetition.
    fn factor(&self, is_proposed: bool) -> f64 {
        let column = if is_proposed {
            self.proposed
        } else {
            self.current
        };
        match column.ru > 0.0 {
            true => self.mean(is_proposed) / column.ru,
            false => 1.0,
        }
    }

    /// Returns the predicted mean of the charges.
    fn predicted(&self) -> f64 {
        let found = |column: Column| column.ru - column.asking_ru;
        let Some(recorded) = self.recorded_ru else {
            return self.proposed.ru;
        };
        let ratio = match found(self.current) > 0.0 {
            true => (recorded - self.current.asking_ru) / found(self.current),
            false => 1.0,
        };
        self.proposed.asking_ru + found(self.proposed) * ratio.max(0.0)
    }

    /// Returns the number of requests for which a repeated one stands beyond its weight, because
    /// others could not be repeated.
    fn part_repeated(&self, run: &GroupRun) -> f64 {
        let weights: f64 = run.pairs.iter().map(|pair| pair.2).sum();
        self.count / f64::max(weights, f64::MIN_POSITIVE)
    }

    /// Returns the mean charge of a side.
    fn mean(&self, is_proposed: bool) -> f64 {
        match (is_proposed, self.recorded_ru) {
            (true, _) => self.predicted_ru,
            (false, Some(recorded)) => recorded,
            (false, None) => self.current.ru,
        }
    }
}

/// Returns the classes: those of the groups in their order, then those that are not repeated.
fn classes(workload: &Workload, runs: &[GroupRun]) -> Vec<PredictionClass> {
    let mut classes = Vec::with_capacity(runs.len() + workload.kept.len());
    for (group, run) in workload.groups.iter().zip(runs) {
        classes.push(class_of(group, run));
    }
    let ratio = write_ratio(&classes);
    for kept in &workload.kept {
        classes.push(kept_class(kept, ratio));
    }
    classes
}

fn class_of(group: &Group, run: &GroupRun) -> PredictionClass {
    let (mut current, mut proposed) = (Column::default(), Column::default());
    let mut weights = 0.0;
    for (now, then, weight) in &run.pairs {
        for (column, observed) in [(&mut current, now), (&mut proposed, then)] {
            column.ru += observed.charge.as_ru() * weight;
            column.asking_ru += observed.asking_ru * weight;
            column.partitions += observed.asked as f64 * weight;
        }
        weights += weight;
    }
    for column in [&mut current, &mut proposed] {
        column.ru /= f64::max(weights, f64::MIN_POSITIVE);
        column.asking_ru /= f64::max(weights, f64::MIN_POSITIVE);
        column.partitions /= f64::max(weights, f64::MIN_POSITIVE);
    }
    let mut class = PredictionClass {
        kind: group.kind,
        text: group.text.clone(),
        count: group.count,
        recorded_ru: group.recorded_ru,
        current,
        proposed,
        predicted_ru: 0.0,
        repeated: run.pairs.len() as u64,
        note: words::note(run, group.actions.len()),
    };
    class.predicted_ru = match run.pairs.is_empty() {
        true => group.recorded_ru.unwrap_or(0.0),
        false => class.predicted(),
    };
    class
}

/// Returns the ratio of the predicted to the recorded charge of all writes; 1 without writes.
fn write_ratio(classes: &[PredictionClass]) -> f64 {
    let (mut before, mut after) = (0.0, 0.0);
    for class in classes {
        if !matches!(class.kind, OperationKind::Query | OperationKind::PointRead) {
            before += class.count * class.current.ru;
            after += class.count * class.proposed.ru;
        }
    }
    if before > 0.0 { after / before } else { 1.0 }
}

fn kept_class(kept: &KeptGroup, write_ratio: f64) -> PredictionClass {
    let is_write = matches!(kept.kind, OperationKind::Batch | OperationKind::Script);
    let ratio = if is_write { write_ratio } else { 1.0 };
    PredictionClass {
        kind: kept.kind,
        text: kept.text.clone(),
        count: kept.count,
        recorded_ru: Some(kept.recorded_ru),
        current: Column::default(),
        proposed: Column::default(),
        predicted_ru: kept.recorded_ru * ratio,
        repeated: 0,
        note: Some(words::kept_note(&kept.reason, ratio)),
    }
}

/// The recorded rate of requests over time, as requests that arrive at budgets.
struct Arrivals {
    /// The requests under the settings as they are, and under the proposed ones.
    sides: [Vec<Arrival>; 2],
}

impl Arrivals {
    /// Makes requests that arrive at the recorded rates. Each is one of the repeated requests.
    fn new(
        engine: &Engine,
        container: &Container,
        workload: &Workload,
        runs: &[GroupRun],
        classes: &[PredictionClass],
    ) -> Arrivals {
        let mut arrivals = Arrivals {
            sides: [Vec::new(), Vec::new()],
        };
        let mut requests = 0.0;
        let mut ru = 0.0;
        for class in classes {
            requests += class.count;
            ru += class.count * class.recorded_ru.unwrap_or(0.0);
        }
        let draw = Draw::new(runs, classes);
        let mean = ru / f64::max(requests, 1.0);
        if workload.groups.is_empty() || mean <= 0.0 || draw.is_empty() {
            return arrivals;
        }
        let columns = engine.heat_map(container, 0, u64::MAX);
        let end = columns
            .last()
            .map_or(0, |column| column.start_ms + column.width_ms);
        let mut drawn = 0_u64;
        for column in columns {
            if column.start_ms + SIMULATED_MS < end || arrivals.sides[0].len() > ARRIVALS_MAX {
                continue;
            }
            let mut charge = column.scans.charge.as_ru();
            for (_, heat) in &column.buckets {
                charge += heat.charge.as_ru();
            }
            let count = (charge / mean).round() as u64;
            let mut times = Vec::with_capacity(count as usize);
            for _ in 0..count {
                drawn += 1;
                times.push(column.start_ms + split_mix(drawn) % column.width_ms.max(1));
            }
            times.sort_unstable();
            for at_ms in times {
                drawn += 1;
                let (pair, factors) = draw.one(split_mix(drawn), runs);
                let observed = [&pair.0, &pair.1].into_iter().zip(factors);
                for (side, (observed, factor)) in arrivals.sides.iter_mut().zip(observed) {
                    let scale = |(at, charge): &(usize, Charge)| {
                        (*at, Charge((charge.0 as f64 * factor).round() as u64))
                    };
                    let charges = observed.at.iter().map(scale).collect();
                    side.push(Arrival { at_ms, charges });
                }
            }
        }
        arrivals
    }

    /// Returns the share of the requests that the budgets of a side refuse.
    fn throttled(&self, side: &PredictionSide, is_proposed: bool) -> Option<f64> {
        let ru = f64::from(side.ru_per_second?);
        let arrivals = &self.sides[usize::from(is_proposed)];
        if arrivals.is_empty() {
            return None;
        }
        let count = side.partition_bytes.len().max(1);
        let most = f64::from(limits::PARTITION_RU_PER_SECOND);
        let rates = vec![f64::min(ru / count as f64, most); count];
        let served = Served::by_budgets(&rates, false, arrivals);
        Some(served.throttled as f64 / served.requests.max(1) as f64)
    }
}

/// Draws repeated requests by their weight.
struct Draw {
    /// The running sum of the weights, with the group, the request and the factors of its charges.
    sums: Vec<(f64, usize, usize, [f64; 2])>,
}

impl Draw {
    fn new(runs: &[GroupRun], classes: &[PredictionClass]) -> Draw {
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for (group, (run, class)) in runs.iter().zip(classes).enumerate() {
            let part = class.part_repeated(run);
            for (at, pair) in run.pairs.iter().enumerate() {
                sum += pair.2 * part;
                sums.push((sum, group, at, [class.factor(false), class.factor(true)]));
            }
        }
        Draw { sums }
    }

    fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Returns the request that a random number draws.
    fn one<'r>(
        &self,
        random: u64,
        runs: &'r [GroupRun],
    ) -> (&'r (Observed, Observed, f64), [f64; 2]) {
        let all = self.sums.last().map_or(0.0, |(sum, ..)| *sum);
        let wanted = random as f64 / u64::MAX as f64 * all;
        let found = self.sums.partition_point(|(sum, ..)| *sum < wanted);
        let (_, group, at, factor) = self.sums[found.min(self.sums.len() - 1)];
        (&runs[group].pairs[at], factor)
    }
}
