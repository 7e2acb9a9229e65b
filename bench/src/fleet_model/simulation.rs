//! Latencies of a modelled fleet by a simulation of single requests.
//!
//! A request arrives at a random node. A node has a queue in which requests wait for its cores: for
//! the time to send them on, or to carry them out. After the hop and the computing, a request waits
//! for its cluster. The two waits have measured distributions and no queue.

use super::FleetModelArguments;
use super::fleet::Fleet;
use crate::random::Random;
use crate::report::percentile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326;
/// The first of so many equal parts of the requests fills the queues and is not counted.
const PARTS: usize = 5;

/// A request that reaches its owner. The order of requests is that of their times.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct AtOwner {
    /// Nanoseconds from the start of the simulation.
    time_ns: u64,
    /// The number of the request.
    request: usize,
    partition: usize,
    is_read: bool,
    /// Nanoseconds from the start to the arrival at the first node.
    arrived_ns: u64,
}

/// The state of a simulation.
struct Simulation<'a> {
    arguments: &'a FleetModelArguments,
    fleet: &'a Fleet,
    /// Requests a second.
    rate: f64,
    random: Random,
    /// The nanosecond at which each core is free, one node after the other.
    free_ns: Vec<u64>,
    /// Milliseconds of the counted requests.
    latencies_ms: Vec<f64>,
}

/// Returns the median and the 99th percentile of the latency in milliseconds, at a number of
/// requests a second.
pub(super) fn latencies(arguments: &FleetModelArguments, fleet: &Fleet, rate: f64) -> (f64, f64) {
    let mut simulation = Simulation {
        arguments,
        fleet,
        rate,
        random: Random::new(arguments.seed ^ 0x6c61_7465_6e63_7900),
        free_ns: vec![0; fleet.nodes * arguments.cores as usize],
        latencies_ms: Vec::new(),
    };
    simulation.run();
    let latencies = &mut simulation.latencies_ms;
    (percentile(latencies, 50.0), percentile(latencies, 99.0))
}

impl Simulation<'_> {
    fn run(&mut self) {
        // The sums of shares find the partition of a random number.
        let mut sum = 0.0;
        let sums = self.fleet.shares.iter().map(|share| {
            sum += share;
            sum
        });
        let sums: Vec<f64> = sums.collect();

        // Cores take requests in the order of their times, so the requests that reach their owners
        // earlier come before the next arrival.
        let mut on_the_way = BinaryHeap::new();
        let mut now_ns = 0;
        for request in 0..self.arguments.requests as usize {
            now_ns += self.exponential_ns(1e6 / self.rate);
            while let Some(Reverse(next)) = on_the_way.peek() {
                let next: &AtOwner = next;
                if next.time_ns > now_ns {
                    break;
                }
                self.carry_out(next);
                on_the_way.pop();
            }
            let chosen = self.random.fraction();
            let partition = sums.partition_point(|sum| *sum <= chosen);
            let partition = partition.min(sums.len() - 1);
            on_the_way.push(Reverse(self.arrive(request, partition, now_ns)));
        }
        while let Some(Reverse(next)) = on_the_way.pop() {
            self.carry_out(&next);
        }
    }

    /// Lets a request arrive at a random node, which sends the request on if it is not the owner.
    fn arrive(&mut self, request: usize, partition: usize, now_ns: u64) -> AtOwner {
        let node = self.random.below(self.fleet.nodes);
        let mut time_ns = now_ns;
        if node != self.fleet.owners[partition] {
            let hop_ns = (self.arguments.hop_us * 1e3) as u64;
            time_ns = self.compute(node, now_ns, self.arguments.forward_cpu_us) + hop_ns;
        }
        AtOwner {
            time_ns,
            request,
            partition,
            is_read: self.random.fraction() < self.arguments.reads,
            arrived_ns: now_ns,
        }
    }

    /// Lets the owner carry a request out, and counts its latency.
    fn carry_out(&mut self, request: &AtOwner) {
        let arguments = self.arguments;
        let cpu_us = match request.is_read {
            true => arguments.read_cpu_us,
            false => arguments.create_cpu_us,
        };
        let owner = self.fleet.owners[request.partition];
        let computed_ns = self.compute(owner, request.time_ns, cpu_us);
        let cluster_ms = match request.is_read {
            true => self.lognormal(arguments.cluster_read_p50_ms, arguments.cluster_read_p99_ms),
            false => self.commit_ms(request.partition),
        };
        if request.request >= arguments.requests as usize / PARTS {
            let nodes_ms = (computed_ns - request.arrived_ns) as f64 / 1e6;
            self.latencies_ms.push(nodes_ms + cluster_ms);
        }
    }

    /// Returns the nanosecond at which a node has computed for a request that comes at `time_ns`.
    fn compute(&mut self, node: usize, time_ns: u64, mean_us: f64) -> u64 {
        let work_ns = self.exponential_ns(mean_us);
        let cores = self.arguments.cores as usize;
        let cores = &mut self.free_ns[node * cores..(node + 1) * cores];
        let Some(free_ns) = cores.iter_mut().min() else {
            return time_ns;
        };
        *free_ns = time_ns.max(*free_ns) + work_ns;
        *free_ns
    }

    /// Returns the milliseconds of a create's commit, and before it of the rest of the commit that
    /// the partition makes at that moment.
    fn commit_ms(&mut self, partition: usize) -> f64 {
        let (p50, p99) = (self.arguments.commit_p50_ms, self.arguments.commit_p99_ms);
        let creates = self.fleet.shares[partition] * self.rate * (1.0 - self.arguments.reads);
        let is_busy = self.random.fraction() < creates * p50 / 1e3;
        let rest = match is_busy {
            true => self.random.fraction() * self.lognormal(p50, p99),
            false => 0.0,
        };
        rest + self.lognormal(p50, p99)
    }

    /// Returns random nanoseconds with an exponential distribution.
    fn exponential_ns(&mut self, mean_us: f64) -> u64 {
        (-(1.0 - self.random.fraction()).ln() * mean_us * 1e3) as u64
    }

    /// Returns a random number of a lognormal distribution, from its median and 99th percentile.
    fn lognormal(&mut self, p50: f64, p99: f64) -> f64 {
        let angle = std::f64::consts::TAU * self.random.fraction();
        let radius = (-2.0 * (1.0 - self.random.fraction()).ln()).sqrt();
        let deviation = (p99 / p50).ln() / NORMAL_P99;
        p50 * (radius * angle.cos() * deviation).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::arguments;
    use super::*;

    #[test]
    fn reads_without_a_queue_take_the_sum_of_their_parts() {
        let options = "--reads 1 --nodes 10 --cores 100 --hop-us 5000";
        let arguments = arguments(options);
        let fleet = Fleet::balanced(&arguments, 10, 0.0);
        let (p50, p99) = latencies(&arguments, &fleet, 100.0);
        // Nine of ten requests have the hop.
        assert!((5.4..5.7).contains(&p50), "{p50}");
        assert!((6.0..7.5).contains(&p99), "{p99}");
    }

    #[test]
    fn a_queue_has_the_mean_length_of_the_theory() {
        // With one core at a use of 0.7, the median of the time in an M/M/1 queue is
        // `ln 2 * mean / (1 - 0.7)`, and the 99th percentile `ln 100 * mean / (1 - 0.7)`.
        let fixed = "--cluster-read-p50-ms 0.001 --cluster-read-p99-ms 0.001";
        let options = format!("--reads 1 --cores 1 --read-cpu-us 1000 --requests 200000 {fixed}");
        let arguments = arguments(&options);
        let fleet = Fleet::balanced(&arguments, 1, 0.0);
        let (p50, p99) = latencies(&arguments, &fleet, 700.0);
        assert!((p50 / 2.31 - 1.0).abs() < 0.1, "{p50}");
        assert!((p99 / 15.35 - 1.0).abs() < 0.2, "{p99}");
    }
}
