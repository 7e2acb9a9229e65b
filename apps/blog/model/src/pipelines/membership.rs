//! The protocol by which workers share leases, without requests: the worker asks it what to do.
//!
//! Each worker has an item in the lease container and renews it, its *heartbeat*, several times in
//! a lifetime. A lease names its owner. Leases have no expiry of their own: they end together when
//! their owner's heartbeats end. This takes one write for each worker and not one for each lease.
//!
//! ```text
//! owner     heartbeat sent ──── 3/4 lifetime ────▶ reacts no more
//! observer        heartbeat seen ───────── lifetime, unchanged ─────────▶ takes the leases
//! ```
//! The observer sees a heartbeat after it was sent, so the owner has stopped before its leases are
//! taken, however wrong the clocks are. Both measure durations with their own monotonic clocks,
//! whose rates may differ by a tenth.
//!
//! - A worker that has stopped in this way goes on under a new id, so that no item of before can be
//!   taken for its own.
//! - No lease is taken from a live owner. A worker with more leases than its share releases some.
//! - All workers compute the same shares from the sorted ids: sizes differ by at most one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Heartbeats in one lifetime.
const HEARTBEATS: u32 = 5;

/// A pipeline and a range, which identify a lease.
pub(super) type LeaseKey = (String, String);

/// The state of the lease container at one moment, as far as the protocol needs it.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Id of each worker with an item, and the etag of the item.
    pub(super) workers: Vec<(String, String)>,
    /// The leases that can be owned, and their owners.
    pub(super) leases: Vec<(LeaseKey, Option<String>)>,
}

/// The next steps of a worker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Leases to take.
    pub(super) take: Vec<LeaseKey>,
    /// Own leases to release.
    pub(super) release: Vec<LeaseKey>,
}

/// One worker's part in the protocol.
pub(super) struct Membership {
    /// The id of this worker.
    id: String,
    /// Ids that this worker had before. Their leases are free.
    former_ids: HashSet<String>,
    lifetime: Duration,
    /// The end of the time in which this worker may react. `None` before the first heartbeat.
    valid_until: Option<Instant>,
    /// The etag of each other worker's heartbeat, and the time at which it was first seen.
    heartbeats: HashMap<String, (Option<String>, Instant)>,
}

impl Membership {
    /// Begins without a heartbeat.
    pub(super) fn new(id: String, lifetime: Duration) -> Self {
        Self {
            id,
            former_ids: HashSet::new(),
            lifetime,
            valid_until: None,
            heartbeats: HashMap::new(),
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if this worker has or had the id.
    pub(super) fn is_own(&self, id: &str) -> bool {
        id == self.id || self.former_ids.contains(id)
    }

    /// Returns the time between two heartbeats.
    pub(super) fn heartbeat_interval(lifetime: Duration) -> Duration {
        lifetime / HEARTBEATS
    }

    /// Notes that a heartbeat was stored. `sent` is the time at which the request began. A
    /// heartbeat that arrives too late changes nothing.
    pub(super) fn heartbeat_stored(&mut self, id: &str, sent: Instant, now: Instant) {
        if id != self.id || self.has_lapsed(now) {
            return;
        }
        let until = sent + self.lifetime * 3 / 4;
        self.valid_until = Some(self.valid_until.map_or(until, |before| before.max(until)));
    }

    /// Returns the end of the time in which the worker `id` may react.
    pub(super) fn valid_until(&self, id: &str) -> Option<Instant> {
        self.valid_until.filter(|_| id == self.id)
    }

    /// Returns true if the worker `id` may react now.
    pub(super) fn is_valid(&self, id: &str, now: Instant) -> bool {
        self.valid_until(id).is_some_and(|until| now < until)
    }

    /// Returns true if this worker was valid and is no longer.
    pub(super) fn has_lapsed(&self, now: Instant) -> bool {
        self.valid_until.is_some_and(|until| now >= until)
    }

    /// Continues under a new id after a lapse. All reactions under the old id must have ended.
    pub(super) fn begin_again(&mut self, id: String) {
        let former = std::mem::replace(&mut self.id, id);
        self.former_ids.insert(former);
        self.valid_until = None;
    }

    /// Returns the next steps after a look at the lease container.
    pub(super) fn plan(&mut self, look: &Look, now: Instant) -> Plan {
        if !self.is_valid(&self.id, now) {
            return Plan::default();
        }
        let dead = self.dead_workers(look, now);
        let mut live: BTreeSet<&str> = BTreeSet::from([self.id.as_str()]);
        for (id, _) in &look.workers {
            if !dead.contains(id) {
                live.insert(id);
            }
        }
        let (mut mine, mut free) = (Vec::new(), Vec::new());
        for (key, owner) in &look.leases {
            match owner {
                Some(owner) if *owner == self.id => mine.push(key),
                Some(owner) if !dead.contains(owner) => {}
                _ => free.push(key),
            }
        }
        let share = share_of(&self.id, &live, look.leases.len());
        // Each worker has another order, so that workers seldom want the same lease.
        let order = |key: &&LeaseKey| {
            let mut hasher = DefaultHasher::new();
            (&self.id, key).hash(&mut hasher);
            hasher.finish()
        };
        mine.sort_by_key(order);
        free.sort_by_key(order);
        let missing = share.saturating_sub(mine.len());
        let surplus = mine.len().saturating_sub(share);
        Plan {
            take: free.into_iter().take(missing).cloned().collect(),
            release: mine.into_iter().take(surplus).cloned().collect(),
        }
    }

    /// Returns the workers whose heartbeats have ended: those that have not changed for a lifetime,
    /// and former selves.
    fn dead_workers(&mut self, look: &Look, now: Instant) -> HashSet<String> {
        let mut current: HashMap<&str, Option<&str>> = HashMap::new();
        for (_, owner) in &look.leases {
            if let Some(owner) = owner {
                current.insert(owner, None);
            }
        }
        for (id, etag) in &look.workers {
            current.insert(id, Some(etag));
        }
        self.heartbeats
            .retain(|id, _| current.contains_key(id.as_str()));
        let mut dead = HashSet::new();
        for (id, etag) in current {
            if id == self.id {
                continue;
            }
            let etag = etag.map(str::to_owned);
            let seen = self
                .heartbeats
                .entry(id.to_owned())
                .or_insert_with(|| (etag.clone(), now));
            if seen.0 != etag {
                *seen = (etag, now);
            }
            let is_silent = now.saturating_duration_since(seen.1) >= self.lifetime;
            if is_silent || self.former_ids.contains(id) {
                dead.insert(id.to_owned());
            }
        }
        dead
    }
}

/// Returns the number of leases that a worker should have. The first workers in the order of ids
/// have one more if the leases cannot be shared evenly.
fn share_of(id: &str, live: &BTreeSet<&str>, leases: usize) -> usize {
    let rank = live.iter().take_while(|other| **other < id).count();
    let larger = leases % live.len().max(1);
    leases / live.len().max(1) + usize::from(rank < larger)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg32;

    const LIFETIME: Duration = Duration::from_millis(1_000);

    /// A lease item: its owner, and the number of its last write as etag.
    #[derive(Clone, Default)]
    struct Item {
        owner: Option<String>,
        etag: u64,
    }

    /// The lease container: every write is conditional.
    #[derive(Default)]
    struct Container {
        workers: HashMap<String, u64>,
        leases: HashMap<LeaseKey, Item>,
        writes: u64,
    }

    impl Container {
        fn set_owner(&mut self, key: &LeaseKey, etag: u64, owner: Option<String>) -> bool {
            self.writes += 1;
            match self.leases.get_mut(key) {
                Some(item) if item.etag == etag => {
                    *item = Item {
                        owner,
                        etag: self.writes,
                    };
                    true
                }
                _ => false,
            }
        }
    }

    /// A worker with a clock of its own, whose steps are delayed at will.
    struct Worker {
        membership: Membership,
        /// Thousandths of the real time that the clock runs.
        rate: u64,
        /// No step before this time.
        paused_until: u64,
        is_dead: bool,
        /// A heartbeat on its way: its id and the local time at which it was sent.
        sent: Option<(String, Instant)>,
        /// The last look of the worker, with the etags of the leases.
        look: Option<(Look, HashMap<LeaseKey, u64>)>,
        /// The leases to which the worker reacts, under the id with which they were taken.
        active: HashMap<LeaseKey, u64>,
    }

    struct World {
        origin: Instant,
        now: u64,
        random: Pcg32,
        container: Container,
        workers: Vec<Worker>,
        ids: u64,
    }

    impl World {
        fn new(seed: u64, leases: usize) -> Self {
            let mut container = Container::default();
            for n in 0..leases {
                let key = (format!("p{}", n % 2), n.to_string());
                container.leases.insert(key, Item::default());
            }
            Self {
                origin: Instant::now(),
                now: 0,
                random: Pcg32::seed_from_u64(seed),
                container,
                workers: Vec::new(),
                ids: 0,
            }
        }

        fn below(&mut self, bound: u64) -> u64 {
            u64::from(self.random.next_u32()) % bound
        }

        fn fresh_id(&mut self) -> String {
            self.ids += 1;
            let salt = self.below(1_000);
            format!("w{salt}-{}", self.ids)
        }

        fn add_worker(&mut self) {
            let id = self.fresh_id();
            let rate = 950 + self.below(100);
            self.workers.push(Worker {
                membership: Membership::new(id, LIFETIME),
                rate,
                paused_until: 0,
                is_dead: false,
                sent: None,
                look: None,
                active: HashMap::new(),
            });
        }

        /// Returns the time on the clock of a worker.
        fn local(&self, worker: usize) -> Instant {
            let millis = self.now * self.workers[worker].rate / 1_000;
            self.origin + Duration::from_millis(millis)
        }

        /// Lets a worker take one step.
        fn step(&mut self, n: usize) {
            let local = self.local(n);
            if self.workers[n].is_dead || self.workers[n].paused_until > self.now {
                return;
            }
            if self.workers[n].membership.has_lapsed(local) {
                let id = self.fresh_id();
                self.workers[n].active.clear();
                self.workers[n].membership.begin_again(id);
            }
            match self.below(4) {
                0 => self.heartbeat(n, local),
                1 => self.look(n),
                _ => self.act(n, local),
            }
        }

        /// Sends a heartbeat, or lets the one on its way arrive.
        fn heartbeat(&mut self, n: usize, local: Instant) {
            let worker = &mut self.workers[n];
            let Some((id, sent)) = worker.sent.take() else {
                worker.sent = Some((worker.membership.id().to_owned(), local));
                return;
            };
            self.container.writes += 1;
            self.container
                .workers
                .insert(id.clone(), self.container.writes);
            worker.membership.heartbeat_stored(&id, sent, local);
        }

        fn look(&mut self, n: usize) {
            let workers = self.container.workers.iter();
            let leases = self.container.leases.iter();
            let look = Look {
                workers: workers
                    .map(|(id, etag)| (id.clone(), etag.to_string()))
                    .collect(),
                leases: leases
                    .clone()
                    .map(|(key, item)| (key.clone(), item.owner.clone()))
                    .collect(),
            };
            let etags = leases.map(|(key, item)| (key.clone(), item.etag)).collect();
            self.workers[n].look = Some((look, etags));
        }

        /// Acts on the last look, which may be old.
        fn act(&mut self, n: usize, local: Instant) {
            let Some((look, etags)) = self.workers[n].look.take() else {
                return;
            };
            let worker = &mut self.workers[n];
            let plan = worker.membership.plan(&look, local);
            let id = worker.membership.id().to_owned();
            for key in plan.release {
                if let Some(etag) = worker.active.remove(&key) {
                    self.container.set_owner(&key, etag, None);
                }
            }
            for key in plan.take {
                let is_taken = self
                    .container
                    .set_owner(&key, etags[&key], Some(id.clone()));
                if is_taken {
                    worker.active.insert(key, self.container.writes);
                }
            }
        }

        /// Asserts that no two workers may react to one range.
        fn check(&self, seed: u64) {
            let mut owners: HashMap<&LeaseKey, usize> = HashMap::new();
            for (n, worker) in self.workers.iter().enumerate() {
                let id = worker.membership.id();
                if worker.is_dead || !worker.membership.is_valid(id, self.local(n)) {
                    continue;
                }
                for key in worker.active.keys() {
                    let other = owners.insert(key, n);
                    assert_eq!(other, None, "seed {seed}, time {}: {key:?}", self.now);
                }
            }
        }

        fn fault(&mut self) {
            let n = self.below(self.workers.len() as u64) as usize;
            match self.below(40) {
                0 => self.workers[n].is_dead = true,
                1 => self.workers[n].paused_until = self.now + self.below(4_000),
                2 if self.workers.len() < 12 => self.add_worker(),
                _ => {}
            }
        }
    }

    #[test]
    fn no_two_workers_may_react_to_one_range_and_in_the_end_all_ranges_are_shared_evenly() {
        for seed in 0..60 {
            let mut world = World::new(seed, 7);
            (0..3).for_each(|_| world.add_worker());
            for _ in 0..4_000 {
                world.now += world.below(25);
                world.fault();
                let n = world.below(world.workers.len() as u64) as usize;
                world.step(n);
                world.check(seed);
            }
            // Without faults the live workers share all leases.
            world.add_worker();
            for worker in &mut world.workers {
                worker.paused_until = 0;
            }
            for _ in 0..12_000 {
                world.now += 1;
                let n = world.below(world.workers.len() as u64) as usize;
                world.step(n);
                world.check(seed);
            }
            let live = world.workers.iter().filter(|worker| !worker.is_dead);
            let counts: Vec<usize> = live.map(|worker| worker.active.len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 7, "seed {seed}: {counts:?}");
            let spread = counts.iter().max().zip(counts.iter().min());
            assert!(
                spread.is_some_and(|(most, least)| most - least <= 1),
                "seed {seed}: {counts:?}"
            );
        }
    }

    #[test]
    fn the_leases_of_a_silent_worker_are_free_after_a_lifetime() {
        let start = Instant::now();
        let mut membership = Membership::new("b".into(), LIFETIME);
        let key = |n: u32| ("p".to_owned(), n.to_string());
        let look = Look {
            workers: vec![("a".into(), "1".into()), ("b".into(), "9".into())],
            leases: vec![(key(0), Some("a".into())), (key(1), Some("a".into()))],
        };
        let mut now = start;
        let mut first = None;
        while first.is_none() {
            membership.heartbeat_stored("b", now, now);
            let plan = membership.plan(&look, now);
            if !plan.take.is_empty() {
                first = Some(plan.take.len());
            }
            now += LIFETIME / 5;
        }
        assert_eq!(first, Some(2));
        assert!(now - start > LIFETIME, "not before");
    }

    #[test]
    fn a_worker_without_a_heartbeat_takes_nothing() {
        let mut membership = Membership::new("a".into(), LIFETIME);
        let look = Look {
            workers: vec![],
            leases: vec![(("p".into(), "0".into()), None)],
        };
        let start = Instant::now();
        assert_eq!(membership.plan(&look, start), Plan::default());
        membership.heartbeat_stored("a", start, start);
        assert_eq!(membership.plan(&look, start).take.len(), 1);
        assert_eq!(membership.plan(&look, start + LIFETIME), Plan::default());
        membership.heartbeat_stored("a", start + LIFETIME, start + LIFETIME);
        assert!(membership.has_lapsed(start + LIFETIME), "a new id is due");
    }

    #[test]
    fn shares_differ_by_at_most_one() {
        let live = BTreeSet::from(["a", "b", "c"]);
        let shares = ["a", "b", "c"].map(|id| share_of(id, &live, 4));
        assert_eq!(shares, [2, 1, 1]);
    }
}
