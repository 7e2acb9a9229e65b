//! The cost of traffic: the RU/s that each model needs for stated rates of requests, and the ratio
//! of reads to writes at which two models cost the same.
//!
//! # The formula
//! A *price* is the charge of an action in each of the containers `users`, `posts` and `feed`, once
//! for the request itself and once for the pipelines that follow it. With the rates *r* of the
//! actions per second:
//!
//! ```text
//! load of a container   = Σ r × (request + pipelines)
//! evenly spread load    = load − hot load
//! hottest partition     = hot load + evenly spread load ÷ physical partitions
//! RU/s to provision     = hottest partition × physical partitions, at least 400, in steps of 100
//! ```
//!
//! The provisioned throughput of a container is divided evenly over its physical partitions, so the
//! hottest partition determines the throughput of all. The *hot load* is that of one logical
//! partition: all of `feed`, which has a single one, and in `posts` the stated share of the
//! requests on posts. The load of one logical partition cannot be divided, so beyond the maximum of
//! a physical partition no throughput suffices.
//!
//! Prices of pipelines are those of one write followed by one reaction. Several writes of one item
//! between two polls of the change feed cause a single reaction, so the formula gives an upper
//! bound.

use super::Action;
use crate::dataset::{MEAN_COMMENTS, MEAN_LIKES};
use crate::models::{Model, Request};

/// Number of containers of a model.
pub const CONTAINERS: usize = 3;
/// The containers, in the order of every array with a figure for each of them.
pub const CONTAINER_NAMES: [&str; CONTAINERS] = ["users", "posts", "feed"];
/// RU/s that one physical partition can serve at most.
pub const PARTITION_RU_MAX: f64 = 10_000.0;
/// The smallest throughput of a container in RU/s.
const PROVISION_MIN: f64 = 400.0;
/// The step of a throughput in RU/s.
const PROVISION_STEP: f64 = 100.0;

const POSTS: usize = 1;
const FEED: usize = 2;

/// The charge of one action in RU, for each container.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Price {
    /// Of the requests that the action causes directly.
    pub request: [f64; CONTAINERS],
    /// Of the reactions of the pipelines.
    pub pipelines: [f64; CONTAINERS],
}

impl Price {
    /// Returns the charge of the requests in all containers.
    pub fn request_ru(&self) -> f64 {
        self.request.iter().sum()
    }

    /// Returns the charge of the pipelines in all containers.
    pub fn pipelines_ru(&self) -> f64 {
        self.pipelines.iter().sum()
    }

    /// Returns the whole charge of the action.
    pub fn total_ru(&self) -> f64 {
        self.request_ru() + self.pipelines_ru()
    }
}

/// The prices of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPrices {
    /// The model.
    pub model: Model,
    /// Physical partitions of each container; 0 for a container that the model does not have.
    pub partitions: [usize; CONTAINERS],
    /// The price of each action, in the order of [`Action::ALL`].
    pub prices: [Price; Action::COUNT],
}

/// Traffic: the rates of all actions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Actions per second, in the order of [`Action::ALL`].
    pub rates: [f64; Action::COUNT],
    /// The part of the requests on posts that goes to one post, 0 to 1.
    pub hot_share: f64,
}

impl Default for Mix {
    /// Returns traffic in which a post gets as many comments and likes as in the article's data.
    fn default() -> Self {
        let mut rates = [0.0; Action::COUNT];
        for (action, rate) in [
            (Action::Article(Request::C1), 0.1),
            (Action::Rename, 0.01),
            (Action::Article(Request::Q1), 5.0),
            (Action::Article(Request::C2), 1.0),
            (Action::EditPost, 0.1),
            (Action::DeletePost, 0.01),
            (Action::Article(Request::Q2), 100.0),
            (Action::Article(Request::Q3), 5.0),
            (Action::Article(Request::C3), MEAN_COMMENTS),
            (Action::Article(Request::Q4), 100.0),
            (Action::Article(Request::C4), MEAN_LIKES),
            (Action::Article(Request::Q5), 20.0),
            (Action::Article(Request::Q6), 50.0),
        ] {
            rates[action.index()] = rate;
        }
        Self {
            rates,
            hot_share: 0.05,
        }
    }
}

/// The load of one container and the throughput for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ContainerNeed {
    /// Load in RU/s.
    pub load: f64,
    /// Load of the hottest physical partition in RU/s.
    pub hottest: f64,
    /// RU/s to provision; 0 for a container that the model does not have.
    pub provision: f64,
}

impl ContainerNeed {
    /// Returns true if one logical partition needs more than a physical partition can serve.
    pub fn is_beyond_partition(&self) -> bool {
        self.hottest > PARTITION_RU_MAX
    }

    /// Returns the hottest partition's part of the container's load, 0 to 1.
    pub fn hottest_share(&self) -> f64 {
        if self.load > 0.0 {
            self.hottest / self.load
        } else {
            0.0
        }
    }
}

/// The needs of a model for a mix.
#[derive(Debug, Clone, PartialEq)]
pub struct Need {
    /// The model.
    pub model: Model,
    /// Load of the requests themselves in RU/s.
    pub requests: f64,
    /// Load of the pipelines in RU/s.
    pub pipelines: f64,
    /// The containers.
    pub containers: [ContainerNeed; CONTAINERS],
}

impl Need {
    /// Returns the load of all containers in RU/s.
    pub fn load(&self) -> f64 {
        self.requests + self.pipelines
    }

    /// Returns the RU/s to provision for all containers.
    pub fn provision(&self) -> f64 {
        self.containers.iter().map(|need| need.provision).sum()
    }
}

/// Returns the needs of a model for `mix`, by the formula of this module.
pub fn need(prices: &ModelPrices, mix: &Mix) -> Need {
    let mut loads = [0.0; CONTAINERS];
    let mut hot = [0.0; CONTAINERS];
    let (mut requests, mut pipelines) = (0.0, 0.0);
    for (index, action) in Action::ALL.into_iter().enumerate() {
        let (rate, price) = (mix.rates[index], &prices.prices[index]);
        requests += rate * price.request_ru();
        pipelines += rate * price.pipelines_ru();
        for (container, load) in loads.iter_mut().enumerate() {
            *load += rate * (price.request[container] + price.pipelines[container]);
        }
        if action.is_on_one_post() {
            hot[POSTS] += mix.hot_share * rate * price.request[POSTS];
        }
    }
    hot[FEED] = loads[FEED];

    let mut containers = [ContainerNeed::default(); CONTAINERS];
    for (container, need) in containers.iter_mut().enumerate() {
        let partitions = prices.partitions[container] as f64;
        if partitions > 0.0 {
            let hottest = hot[container] + (loads[container] - hot[container]) / partitions;
            let provision = (hottest * partitions / PROVISION_STEP).ceil() * PROVISION_STEP;
            *need = ContainerNeed {
                load: loads[container],
                hottest,
                provision: provision.max(PROVISION_MIN),
            };
        }
    }
    Need {
        model: prices.model,
        requests,
        pipelines,
        containers,
    }
}

/// The cost of one model as a function of the reads for each write: `write + reads × read`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// The model.
    pub model: Model,
    /// Mean charge of a read in RU.
    pub read: f64,
    /// Mean charge of a write with its pipelines in RU.
    pub write: f64,
}

impl CostLine {
    /// Returns the charge of one write and `reads` reads.
    pub fn at(&self, reads: f64) -> f64 {
        self.write + reads * self.read
    }

    /// Returns the reads for each write at which this model and `other` cost the same; `None` if
    /// one of them is cheaper at every ratio.
    pub fn break_even(&self, other: &Self) -> Option<f64> {
        let ratio = (other.write - self.write) / (self.read - other.read);
        (ratio.is_finite() && ratio >= 0.0).then_some(ratio)
    }
}

/// Returns the mean charges of reads and of writes in a model. The rates of `mix` weigh the reads
/// among each other and the writes among each other. `None` without reads or without writes.
pub fn cost_line(prices: &ModelPrices, mix: &Mix) -> Option<CostLine> {
    let (mut reads, mut writes) = (0.0, 0.0);
    let (mut read_ru, mut write_ru) = (0.0, 0.0);
    for (index, action) in Action::ALL.into_iter().enumerate() {
        let (rate, ru) = (mix.rates[index], prices.prices[index].total_ru());
        if action.is_write() {
            writes += rate;
            write_ru += rate * ru;
        } else {
            reads += rate;
            read_ru += rate * ru;
        }
    }
    if reads <= 0.0 || writes <= 0.0 {
        return None;
    }
    Some(CostLine {
        model: prices.model,
        read: read_ru / reads,
        write: write_ru / writes,
    })
}

/// Returns the reads for each write in `mix`; `None` without writes.
pub fn reads_per_write(mix: &Mix) -> Option<f64> {
    let (mut reads, mut writes) = (0.0, 0.0);
    for (index, action) in Action::ALL.into_iter().enumerate() {
        if action.is_write() {
            writes += mix.rates[index];
        } else {
            reads += mix.rates[index];
        }
    }
    (writes > 0.0).then(|| reads / writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns prices in which every action costs `read` or `write` in `posts`, and every write
    /// `pipeline` in `feed`.
    fn prices(model: Model, read: f64, write: f64, pipeline: f64) -> ModelPrices {
        let mut prices = [Price::default(); Action::COUNT];
        for (index, action) in Action::ALL.into_iter().enumerate() {
            if action.is_write() {
                prices[index].request[POSTS] = write;
                prices[index].pipelines[FEED] = pipeline;
            } else {
                prices[index].request[POSTS] = read;
            }
        }
        ModelPrices {
            model,
            partitions: [1, 4, 1],
            prices,
        }
    }

    #[test]
    fn the_solved_break_even_is_the_ratio_that_a_search_finds() {
        let mix = Mix::default();
        let cases = [
            (
                prices(Model::V1, 40.0, 7.0, 0.0),
                prices(Model::V3, 4.0, 14.0, 25.0),
            ),
            (
                prices(Model::V1, 3.0, 7.0, 0.0),
                prices(Model::V2, 1.0, 15.0, 0.0),
            ),
        ];
        for (a, b) in cases {
            let (a, b) = (cost_line(&a, &mix).unwrap(), cost_line(&b, &mix).unwrap());
            let solved = a.break_even(&b).unwrap();
            assert_eq!(b.break_even(&a), Some(solved));
            // The search walks up in small steps until the order of the two costs changes.
            let order = a.at(0.0) < b.at(0.0);
            let mut found = 0.0;
            while (a.at(found) < b.at(found)) == order {
                found += 0.001;
            }
            assert!((found - solved).abs() <= 0.002, "{found} and {solved}");
        }
    }

    #[test]
    fn a_model_that_is_cheaper_in_both_has_no_break_even() {
        let mix = Mix::default();
        let cheap = cost_line(&prices(Model::V3, 1.0, 5.0, 0.0), &mix).unwrap();
        let expensive = cost_line(&prices(Model::V1, 2.0, 6.0, 0.0), &mix).unwrap();
        assert_eq!(cheap.break_even(&expensive), None);
        assert_eq!(cheap.break_even(&cheap), None, "parallel lines never meet");
    }

    #[test]
    fn the_hottest_partition_determines_the_throughput_of_its_container() {
        let mut mix = Mix {
            rates: [0.0; Action::COUNT],
            hot_share: 0.0,
        };
        mix.rates[Action::Article(Request::Q2).index()] = 1_000.0;
        let prices = prices(Model::V2, 1.0, 0.0, 0.0);
        let even = need(&prices, &mix).containers[POSTS];
        assert_eq!(
            (even.load, even.hottest, even.provision),
            (1_000.0, 250.0, 1_000.0)
        );
        mix.hot_share = 1.0;
        let hot = need(&prices, &mix).containers[POSTS];
        assert_eq!(
            (hot.load, hot.hottest, hot.provision),
            (1_000.0, 1_000.0, 4_000.0)
        );
        assert_eq!((even.hottest_share(), hot.hottest_share()), (0.25, 1.0));
        mix.rates[Action::Article(Request::Q2).index()] = 10_001.0;
        assert!(need(&prices, &mix).containers[POSTS].is_beyond_partition());
    }

    #[test]
    fn the_load_is_that_of_each_action_counted_one_by_one() {
        let prices = prices(Model::V3, 2.0, 10.0, 5.0);
        let mix = Mix::default();
        let mut expected = 0.0;
        for (action, rate) in Action::ALL.into_iter().zip(mix.rates) {
            expected += rate * if action.is_write() { 15.0 } else { 2.0 };
        }
        let need = need(&prices, &mix);
        assert!((need.load() - expected).abs() < 1e-9);
        let of_containers: f64 = need.containers.iter().map(|c| c.load).sum();
        assert!((of_containers - expected).abs() < 1e-9);
        assert_eq!(
            need.containers[0].provision, PROVISION_MIN,
            "no load, but the least throughput"
        );
    }

    #[test]
    fn a_mix_without_writes_has_no_ratio() {
        let mut mix = Mix::default();
        for (index, action) in Action::ALL.into_iter().enumerate() {
            if action.is_write() {
                mix.rates[index] = 0.0;
            }
        }
        assert_eq!(reads_per_write(&mix), None);
        assert_eq!(cost_line(&prices(Model::V1, 1.0, 1.0, 0.0), &mix), None);
    }
}
