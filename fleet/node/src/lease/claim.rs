//! The way to the lease: a node watches the row until the leaseholder is silent for long enough.

use std::sync::Arc;

use orrery_model::world::World;
use orrery_storage::{CommitOutcome, Head, Lsn, Store, StoreError};

use super::holding::{Holding, commit_of};
use super::key::NodesKey;
use super::row::{Leaseholder, Node, Row};
use super::validity::Moment;
use super::{LEASE_PARTITION, RETRY_MS};

/// Milliseconds that a released lease is left to the successor that the last leaseholder has named.
const SUCCESSOR_MS: u64 = 2_000;

/// A node that wants the lease.
pub struct Claim {
    row: Row,
    /// The commit of the row that was seen last.
    seen: Option<Seen>,
    /// The highest head of the lease that was seen with a row. The cluster has lost data if its
    /// head is lower later.
    highest: Option<Head>,
}

/// A commit of the row. Times are milliseconds of the monotonic clock.
struct Seen {
    lsn: Lsn,
    /// The time from which on the leaseholder counts as silent: that of the first look, or later.
    since_ms: u64,
    /// The time of the last look.
    last_ms: u64,
    /// The leaseholder has got time, once, since this node could not look.
    has_got_time: bool,
}

/// The outcome of an attempt to get the lease.
pub enum Attempt {
    /// This node holds the lease.
    Held(Holding),
    /// Another node holds the lease, or has claimed it just now.
    Waiting {
        /// The leaseholder with the milliseconds for which its renewals are good; `None` for a
        /// lease that is free, or was a moment ago.
        leaseholder: Option<(Leaseholder, u64)>,
        /// Milliseconds after which the lease is free if the row stays the same.
        left_ms: u64,
    },
    /// No node can take the lease, for this reason.
    Refused(String),
}

impl Claim {
    /// Creates the claim of a process, which has a random number, of a node. A renewal is good for
    /// `ttl_ms` milliseconds.
    pub fn new(node: Node, process: u64, ttl_ms: u64) -> Claim {
        Claim {
            row: Row {
                node,
                process,
                ttl_ms,
                is_released: false,
                successor: None,
                key: None,
            },
            seen: None,
            highest: None,
        }
    }

    /// Looks at the row, and claims the lease if it is free.
    ///
    /// # Errors
    /// That of the store.
    pub fn attempt(
        &mut self,
        store: &dyn Store,
        world: &Arc<dyn World>,
    ) -> Result<Attempt, StoreError> {
        // The clock that can be set counts from here: the claim is sent later.
        let wall_ms = world.now_ms();
        let snapshot = store.snapshot(LEASE_PARTITION)?;
        let (head, row) = (snapshot.head(), Row::read(snapshot.as_ref())?);
        drop(snapshot);
        if let Some(highest) = self.highest
            && let Some(reason) = loss(highest, head, row.is_some())
        {
            return Ok(Attempt::Refused(reason));
        }
        self.highest = row.as_ref().map(|_| head);
        // The key outlives the leaseholders.
        let key = row.as_ref().and_then(|row| row.key.clone());
        if let Some(row) = row {
            let now_ms = world.monotonic_ms();
            if !row.is_released {
                // A fifth more, since clocks do not run at the same speed.
                let left_ms = self.left_ms(head.lsn, row.ttl_ms + row.ttl_ms / 5, now_ms);
                if left_ms > 0 {
                    let node = row.node;
                    return Ok(Attempt::Waiting {
                        leaseholder: Some((Leaseholder { node, key }, row.ttl_ms)),
                        left_ms,
                    });
                }
            } else if let Some(successor) = row.successor
                && successor != self.row.node.name
            {
                let left_ms = self.left_ms(head.lsn, SUCCESSOR_MS, now_ms);
                if left_ms > 0 {
                    return Ok(Attempt::free(left_ms));
                }
            }
        }
        let key = match key {
            Some(key) => key,
            None => NodesKey::random().map_err(|detail| StoreError::Cluster {
                cluster: "first".to_owned(),
                detail: format!("the system gives no random numbers for the nodes' key: {detail}"),
                retry_after_ms: Some(RETRY_MS),
            })?,
        };
        self.row.key = Some(key.clone());

        // Whatever the watched row has become meanwhile, the head tells.
        let lease = store.open(LEASE_PARTITION)?;
        if lease.head() != head {
            return Ok(Attempt::free(0));
        }
        let since = Moment {
            monotonic_ms: world.monotonic_ms(),
            now_ms: wall_ms,
        };
        let (commit, new_head) = commit_of(&self.row, head, world.as_ref());
        match store.submit(&lease, commit).wait() {
            CommitOutcome::Ok => {
                let row = self.row.clone();
                let holding = Holding::new((lease, new_head), row, key, world, since);
                Ok(Attempt::Held(holding))
            }
            CommitOutcome::Damaged => Ok(Attempt::Refused(refusal(store))),
            // A claim that took place without an answer has a leaseholder that does not know of it.
            // It expires like that of a leaseholder that has died.
            _ => Ok(Attempt::free(0)),
        }
    }

    /// Returns the milliseconds until the row has been the same for longer than a time; 0 if it
    /// has.
    ///
    /// While this node could not look at the row, as in a failover of the cluster, the leaseholder
    /// could not renew it either: it gets a third of the time afterwards. Only once for each
    /// renewal, so that a node whose looks all take long claims the lease at last.
    fn left_ms(&mut self, lsn: Lsn, time_ms: u64, now_ms: u64) -> u64 {
        let third_ms = time_ms / 3;
        let seen = match &mut self.seen {
            Some(seen) if seen.lsn == lsn => seen,
            seen => seen.insert(Seen {
                lsn,
                since_ms: now_ms,
                last_ms: now_ms,
                has_got_time: false,
            }),
        };
        if now_ms.saturating_sub(seen.last_ms) > third_ms && !seen.has_got_time {
            seen.has_got_time = true;
            let since_ms = (now_ms + third_ms).saturating_sub(time_ms);
            seen.since_ms = seen.since_ms.max(since_ms);
        }
        seen.last_ms = now_ms;
        (time_ms + 1).saturating_sub(now_ms.saturating_sub(seen.since_ms))
    }
}

impl Attempt {
    /// Returns the attempt at a lease that is free, and not this node's to claim, for a time.
    fn free(left_ms: u64) -> Attempt {
        Attempt::Waiting {
            leaseholder: None,
            left_ms,
        }
    }
}

/// Returns the reason for which a cluster must not be used whose lease had the head `highest`
/// before and has `head` now; `None` if that is no loss.
fn loss(highest: Head, head: Head, has_row: bool) -> Option<String> {
    let what = match has_row {
        false => "the row of the lease is gone, so the first cluster has lost its data".to_owned(),
        true if head.lsn < highest.lsn || (head.lsn == highest.lsn && head != highest) => format!(
            "the first cluster is an older copy of the one that this node has seen: the lease is \
             at commit {} and was at commit {}",
            head.lsn, highest.lsn
        ),
        true => return None,
    };
    Some(format!(
        "{what}. Restore the present state of the cluster, or stop all nodes and start them again \
         to accept the loss"
    ))
}

/// Returns the reason for which the partition of the lease takes no commits for good.
pub(super) fn refusal(store: &dyn Store) -> String {
    let reason = store.write_failure();
    reason.unwrap_or_else(|| "the lease takes no commits, since commits of it were lost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terms;
    use crate::lease::holding::Renewal;
    use crate::lease::row::Node;
    use orrery_model::sync::lock;
    use orrery_model::world::SeededWorld;
    use orrery_storage::{
        Capabilities, Commit, Lease, MemoryStore, PartitionId, Receipt, Snapshot,
    };
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    const TTL_MS: u64 = 3_000;
    /// The time after which a claimer looks again.
    const LOOK_MS: u64 = 50;

    /// A node with a clock of its own.
    struct TestNode {
        clock: Arc<SeededWorld>,
        claim: Claim,
        holding: Option<Holding>,
    }

    /// A store at which time passes before and behind each commit.
    struct Slow<'s> {
        inner: &'s MemoryStore,
        before: &'s (dyn Fn() + Sync),
        behind: &'s (dyn Fn() + Sync),
    }

    impl Store for Slow<'_> {
        fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
            self.inner.open(partition)
        }

        fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
            (self.before)();
            let outcome = self.inner.submit(lease, commit).wait();
            (self.behind)();
            Receipt::ready(outcome)
        }

        fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
            self.inner.snapshot(partition)
        }

        fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
            self.inner.destroy(partition)
        }

        fn sync(&self) -> Result<(), StoreError> {
            self.inner.sync()
        }

        fn capabilities(&self) -> Capabilities {
            self.inner.capabilities()
        }

        fn approximate_bytes(&self) -> u64 {
            self.inner.approximate_bytes()
        }
    }

    impl TestNode {
        fn new(number: u64) -> TestNode {
            let node = Node {
                name: format!("node-{number}"),
                address: String::new(),
            };
            TestNode {
                clock: Arc::new(SeededWorld::new(1_000_000, number)),
                claim: Claim::new(node, number, TTL_MS),
                holding: None,
            }
        }

        fn is_valid(&self) -> bool {
            let holding = self.holding.as_ref();
            holding.is_some_and(|holding| holding.validity().is_valid())
        }

        fn attempt(&mut self, store: &dyn Store) -> Attempt {
            let world: Arc<dyn World> = self.clock.clone();
            self.claim.attempt(store, &world).expect("a row")
        }

        /// Looks at the row of another leaseholder. Returns the milliseconds until its lease is
        /// free.
        fn left_ms(&mut self, store: &MemoryStore) -> u64 {
            match self.attempt(store) {
                Attempt::Waiting { left_ms, .. } => left_ms,
                Attempt::Held(_) => panic!("the lease was free"),
                Attempt::Refused(reason) => panic!("{reason}"),
            }
        }

        /// Renews the lease or attempts to get it.
        fn step(&mut self, store: &dyn Store) {
            match &mut self.holding {
                None => {
                    if let Attempt::Held(holding) = self.attempt(store) {
                        self.holding = Some(holding);
                    }
                }
                Some(holding) => {
                    if let Renewal::Lost(_) = holding.renew(store) {
                        self.holding = None;
                    }
                }
            }
        }

        /// Gives the lease back.
        fn release(&mut self, store: &MemoryStore, successor: Option<&str>) {
            let mut holding = self.holding.take().expect("it holds the lease");
            assert!(holding.release(store, successor.map(str::to_owned)));
        }
    }

    #[test]
    fn a_silent_leaseholder_is_replaced_after_the_ttl_and_a_fifth() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        assert!(first.is_valid());
        for _ in 0..=(TTL_MS + TTL_MS / 5) / LOOK_MS {
            second.step(&store);
            assert!(second.holding.is_none());
            second.clock.advance_ms(LOOK_MS);
        }
        second.step(&store);
        assert!(second.is_valid());
        first.step(&store);
        assert!(!first.is_valid() && first.holding.is_none());
    }

    #[test]
    fn a_leaseholder_that_renews_keeps_the_lease_although_a_claimer_opens_the_partition() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        for _ in 0..10 {
            second.step(&store);
            store.open(LEASE_PARTITION).expect("it opens");
            first.clock.advance_ms(TTL_MS / 3);
            second.clock.advance_ms(TTL_MS / 3);
            first.step(&store);
            assert!(first.is_valid() && second.holding.is_none());
        }
    }

    #[test]
    fn a_claimer_knows_when_the_lease_of_a_silent_leaseholder_is_free() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        for _ in 0..10 {
            assert!(second.left_ms(&store) > LOOK_MS);
            second.clock.advance_ms(LOOK_MS);
        }
        let left_ms = second.left_ms(&store);
        assert_eq!(left_ms, TTL_MS + TTL_MS / 5 + 1 - 10 * LOOK_MS);
        for _ in 0..left_ms / LOOK_MS {
            second.clock.advance_ms(LOOK_MS);
            assert!(second.left_ms(&store) > 0);
        }
        let left_ms = second.left_ms(&store);
        second.clock.advance_ms(left_ms);
        second.step(&store);
        assert!(second.is_valid());
    }

    #[test]
    fn a_leaseholder_gets_time_to_renew_after_a_cluster_was_away() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        second.step(&store);
        for _ in 0..3 {
            // No node reads or writes the row meanwhile.
            first.clock.advance_ms(10 * TTL_MS);
            second.clock.advance_ms(10 * TTL_MS);
            assert_eq!(second.left_ms(&store), (TTL_MS + TTL_MS / 5) / 3 + 1);
            assert!(!first.is_valid());
            first.step(&store);
            assert!(first.is_valid());
            second.step(&store);
        }
        // It gets the time once, and may have died.
        for passed_ms in [10 * TTL_MS, (TTL_MS + TTL_MS / 5) / 3 + 1] {
            assert!(second.holding.is_none());
            second.clock.advance_ms(passed_ms);
            second.step(&store);
        }
        assert!(second.is_valid());
    }

    /// Each commit becomes visible at the end of its time, and a claimer looks all the time.
    #[test]
    fn a_leaseholder_with_slow_commits_keeps_the_lease() {
        for (longest_ms, stays_valid) in [(TTL_MS / 2, true), (TTL_MS + 1, false)] {
            let random = SeededWorld::new(0, longest_ms);
            let store = MemoryStore::new();
            let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
            let clock = first.clock.clone();
            first.step(&store);
            let pass = Mutex::new(|time_ms: u64| {
                for passed_ms in 0..time_ms {
                    if passed_ms % LOOK_MS == 0 {
                        second.step(&store);
                        assert!(second.holding.is_none(), "commits of {longest_ms} ms");
                    }
                    clock.advance_ms(1);
                    second.clock.advance_ms(1);
                }
            });
            let pass = |time_ms: u64| (lock(&pass))(time_ms);
            let terms = Terms { ttl_ms: TTL_MS };
            let was_valid = AtomicBool::new(true);
            pass(terms.pause_ms(0));
            for _ in 0..300 {
                let took_ms = random.random() % longest_ms;
                let holding = first.holding.as_mut().expect("it holds");
                let validity = holding.validity().clone();
                let wait = || {
                    pass(took_ms);
                    was_valid.fetch_and(validity.is_valid(), Ordering::SeqCst);
                };
                let slow = Slow {
                    inner: &store,
                    before: &wait,
                    behind: &|| (),
                };
                assert_eq!(holding.renew(&slow), Renewal::Renewed);
                pass(terms.pause_ms(took_ms));
            }
            let was_valid = was_valid.load(Ordering::SeqCst);
            assert_eq!(was_valid, stays_valid, "commits of {longest_ms} ms");
        }
    }

    #[test]
    fn a_released_lease_is_claimed_at_once() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        assert_eq!(
            crate::lease::leaseholder(&store)
                .expect("a row")
                .expect("a node")
                .name,
            "node-1"
        );
        first.release(&store, None);
        assert_eq!(crate::lease::leaseholder(&store).expect("a row"), None);
        second.step(&store);
        assert!(second.is_valid());
    }

    #[test]
    fn a_lease_released_to_a_node_is_left_to_that_node_for_two_seconds() {
        let store = MemoryStore::new();
        let mut nodes: Vec<TestNode> = (1..=3).map(TestNode::new).collect();
        for successor in [1, 2] {
            nodes[0].step(&store);
            let name = nodes[successor].claim.row.node.name.clone();
            nodes[0].release(&store, Some(&name));

            // The others wait, and the successor does not.
            let other = 3 - successor;
            nodes[other].step(&store);
            nodes[0].step(&store);
            assert!(nodes[other].holding.is_none() && nodes[0].holding.is_none());
            nodes[successor].step(&store);
            nodes[successor].release(&store, None);
        }

        // A successor that does not come loses its right.
        nodes[0].step(&store);
        nodes[0].release(&store, Some("gone"));
        for _ in 0..=SUCCESSOR_MS / LOOK_MS {
            nodes[1].step(&store);
            assert!(nodes[1].holding.is_none());
            nodes[1].clock.advance_ms(LOOK_MS);
        }
        nodes[1].step(&store);
        assert!(nodes[1].holding.is_some());
    }

    #[test]
    fn the_key_of_the_first_leaseholder_is_the_key_of_all() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        let key = first.holding.as_ref().expect("it holds").key().clone();
        match second.attempt(&store) {
            Attempt::Waiting {
                leaseholder: Some((leaseholder, ttl_ms)),
                ..
            } => {
                assert_eq!(leaseholder.key.as_ref(), Some(&key));
                assert_eq!(ttl_ms, TTL_MS);
            }
            _ => panic!("the first node holds the lease"),
        }
        first.release(&store, None);
        second.step(&store);
        assert_eq!(second.holding.expect("the second holds").key(), &key);
    }

    #[test]
    fn a_lease_whose_row_has_gone_is_not_claimed() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store);
        second.step(&store);
        match second.attempt(&MemoryStore::new()) {
            Attempt::Refused(reason) => assert!(reason.contains("Restore"), "{reason}"),
            _ => panic!("an empty store has no lease for a node that has seen one"),
        }
    }

    #[test]
    fn an_older_copy_of_the_cluster_is_not_claimed() {
        let (store, copy) = (MemoryStore::new(), MemoryStore::new());
        let (mut first, mut other) = (TestNode::new(1), TestNode::new(3));
        let mut waiting = TestNode::new(2);
        other.step(&copy);
        for _ in 0..3 {
            first.step(&store);
            waiting.step(&store);
        }
        // Much later, so that the lease of the copy is free.
        waiting.clock.advance_ms(10 * TTL_MS);
        for _ in 0..2 {
            match waiting.attempt(&copy) {
                Attempt::Refused(reason) => assert!(
                    reason.contains("the lease is at commit 1 and was at commit 3"),
                    "{reason}"
                ),
                _ => panic!("the lease of the copy is older"),
            }
        }
        // The same number of commits, and another history.
        other.step(&copy);
        other.step(&copy);
        assert!(matches!(waiting.attempt(&copy), Attempt::Refused(_)));
        // The present state is accepted again.
        assert!(matches!(waiting.attempt(&store), Attempt::Waiting { .. }));
        first.step(&store);
        assert!(waiting.left_ms(&store) > 0);
        // A process that has just started cannot know.
        TestNode::new(4).left_ms(&copy);
    }

    /// Clocks that differ by up to a tenth in speed, pauses, and delayed answers of the store.
    #[test]
    fn the_lease_is_never_valid_at_two_nodes() {
        let (mut held, mut taken) = (0, 0);
        for seed in 0..300 {
            let random = SeededWorld::new(0, seed);
            let store = MemoryStore::new();
            let mut nodes: Vec<TestNode> = (1..=3).map(TestNode::new).collect();
            let clocks: Vec<_> = nodes.iter().map(|node| node.clock.clone()).collect();
            let speeds: Vec<u64> = clocks.iter().map(|_| 92 + random.random() % 17).collect();
            let pass = |ms: u64| {
                for (clock, speed) in clocks.iter().zip(&speeds) {
                    clock.advance_ms(ms * speed / 100);
                }
            };
            for _ in 0..300 {
                pass(random.random() % (TTL_MS / 2));
                let node = (random.random() % 3) as usize;
                let delay = random.random() % (TTL_MS * 2);
                let had_it = nodes[node].holding.is_some();
                let slow = Slow {
                    inner: &store,
                    before: &|| (),
                    behind: &|| pass(delay),
                };
                nodes[node].step(&slow);
                if nodes[node].holding.is_none() {
                    pass(delay);
                }
                taken += u64::from(!had_it && nodes[node].holding.is_some());
                let valid = nodes.iter().filter(|node| node.is_valid()).count();
                assert!(valid <= 1, "{valid} nodes hold the lease, seed {seed}");
                held += valid;
            }
        }
        assert!(held > 10_000, "the lease was valid after {held} steps only");
        assert!(taken > 3_000, "the lease was taken {taken} times only");
    }
}
