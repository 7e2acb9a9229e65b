//! The way to the lease: a node watches the row until the leaseholder is silent for long enough.

use orrery_model::world::World;
use orrery_storage::{CommitOutcome, Lsn, Store, StoreError};

use super::holding::{Holding, commit_of};
use super::key::NodesKey;
use super::row::{Leaseholder, Row};
use super::{LEASE_PARTITION, RETRY_MS};

/// Milliseconds that a released lease is left to the successor that the last leaseholder has named.
const SUCCESSOR_MS: u64 = 2_000;

/// A node that wants the lease.
pub(crate) struct Claim {
    row: Row,
    /// The commit of the row that was seen last, and when it was seen first, in milliseconds of
    /// the monotonic clock.
    seen: Option<(Lsn, u64)>,
}

/// The outcome of an attempt to get the lease.
pub(crate) enum Attempt {
    /// This node holds the lease, which is valid from `since_ms` of the monotonic clock.
    Held {
        /// The lease.
        holding: Holding,
        /// The moment before the claim was sent.
        since_ms: u64,
    },
    /// Another node holds the lease, or has claimed it just now.
    Waiting(Option<Leaseholder>),
}

impl Claim {
    /// Creates the claim of a process for `row`.
    pub(crate) fn new(row: Row) -> Claim {
        Claim { row, seen: None }
    }

    /// Looks at the row, and claims the lease if it is free.
    ///
    /// # Errors
    /// That of the store.
    pub(crate) fn attempt(
        &mut self,
        store: &dyn Store,
        world: &dyn World,
    ) -> Result<Attempt, StoreError> {
        let snapshot = store.snapshot(LEASE_PARTITION)?;
        let (head, row) = (snapshot.head(), Row::read(snapshot.as_ref())?);
        drop(snapshot);
        // The key outlives the leaseholders.
        let key = row.as_ref().and_then(|row| row.key.clone());
        if let Some(row) = row {
            let now_ms = world.monotonic_ms();
            if !row.is_released {
                // A fifth more, since clocks do not run at the same speed.
                if !self.is_silent(head.lsn, row.ttl_ms + row.ttl_ms / 5, now_ms) {
                    let node = row.node;
                    return Ok(Attempt::Waiting(Some(Leaseholder { node, key })));
                }
            } else if let Some(successor) = row.successor
                && successor != self.row.node.name
                && !self.is_silent(head.lsn, SUCCESSOR_MS, now_ms)
            {
                return Ok(Attempt::Waiting(None));
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
            return Ok(Attempt::Waiting(None));
        }
        let since_ms = world.monotonic_ms();
        let (commit, new_head) = commit_of(&self.row, head, world);
        match store.submit(&lease, commit).wait() {
            CommitOutcome::Ok => Ok(Attempt::Held {
                holding: Holding::new(lease, new_head, self.row.clone(), key),
                since_ms,
            }),
            // A claim that took place without an answer has a leaseholder that does not know of it.
            // It expires like that of a leaseholder that has died.
            _ => Ok(Attempt::Waiting(None)),
        }
    }

    /// Returns true if the row has been the same for longer than a time.
    fn is_silent(&mut self, lsn: Lsn, time_ms: u64, now_ms: u64) -> bool {
        match self.seen {
            Some((seen, since_ms)) if seen == lsn => now_ms.saturating_sub(since_ms) > time_ms,
            _ => {
                self.seen = Some((lsn, now_ms));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::holding::Renewal;
    use crate::lease::row::Node;
    use crate::lease::validity::{Moment, Validity};
    use orrery_model::world::SeededWorld;
    use orrery_storage::MemoryStore;
    use std::sync::Arc;

    const TTL_MS: u64 = 6_000;

    /// A node with a clock of its own.
    struct TestNode {
        world: Arc<SeededWorld>,
        validity: Validity,
        claim: Claim,
        holding: Option<Holding>,
    }

    impl TestNode {
        fn new(number: u64) -> TestNode {
            let world = Arc::new(SeededWorld::new(1_000_000, number));
            TestNode {
                validity: Validity::ended(world.clone()),
                claim: Claim::new(Row {
                    node: Node {
                        name: format!("node-{number}"),
                        address: String::new(),
                    },
                    process: number,
                    ttl_ms: TTL_MS,
                    is_released: false,
                    successor: None,
                    key: None,
                }),
                world,
                holding: None,
            }
        }

        /// Renews the lease or attempts to get it, and calls `meanwhile` while the store works.
        fn step(&mut self, store: &MemoryStore, meanwhile: impl FnOnce()) {
            let before = Moment::now(self.world.as_ref());
            match &mut self.holding {
                None => {
                    let attempt = self.claim.attempt(store, self.world.as_ref());
                    meanwhile();
                    if let Ok(Attempt::Held { holding, since_ms }) = attempt {
                        assert!(since_ms >= before.monotonic_ms);
                        self.holding = Some(holding);
                        self.validity.extend(before, TTL_MS);
                    }
                }
                Some(holding) => {
                    let renewal = holding.renew(store, self.world.as_ref());
                    meanwhile();
                    match renewal {
                        Renewal::Renewed => self.validity.extend(before, TTL_MS),
                        Renewal::Failed(_) => {}
                        Renewal::Lost(_) => {
                            self.validity.end();
                            self.holding = None;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_silent_leaseholder_is_replaced_after_the_ttl_and_a_fifth() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store, || ());
        assert!(first.validity.is_valid());
        second.step(&store, || ());
        second.world.advance_ms(TTL_MS + TTL_MS / 5);
        second.step(&store, || ());
        assert!(second.holding.is_none());
        second.world.advance_ms(1);
        second.step(&store, || ());
        assert!(second.validity.is_valid());
        first.step(&store, || ());
        assert!(!first.validity.is_valid() && first.holding.is_none());
    }

    #[test]
    fn a_leaseholder_that_renews_keeps_the_lease_although_a_claimer_opens_the_partition() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store, || ());
        for _ in 0..10 {
            second.step(&store, || ());
            store.open(LEASE_PARTITION).expect("it opens");
            first.world.advance_ms(TTL_MS / 3);
            second.world.advance_ms(TTL_MS / 3);
            first.step(&store, || ());
            assert!(first.validity.is_valid() && second.holding.is_none());
        }
    }

    #[test]
    fn a_released_lease_is_claimed_at_once() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store, || ());
        assert_eq!(
            crate::lease::leaseholder(&store)
                .expect("a row")
                .expect("a node")
                .name,
            "node-1"
        );
        let mut holding = first.holding.take().expect("the first holds");
        holding.release(&store, first.world.as_ref(), None);
        assert_eq!(crate::lease::leaseholder(&store).expect("a row"), None);
        second.step(&store, || ());
        assert!(second.validity.is_valid());
    }

    #[test]
    fn a_lease_released_to_a_node_is_left_to_that_node_for_two_seconds() {
        let store = MemoryStore::new();
        let mut nodes: Vec<TestNode> = (1..=3).map(TestNode::new).collect();
        for successor in [1, 2] {
            nodes[0].step(&store, || ());
            let mut holding = nodes[0].holding.take().expect("the first holds");
            nodes[0].validity.end();
            let name = nodes[successor].claim.row.node.name.clone();
            let world = nodes[0].world.clone();
            holding.release(&store, world.as_ref(), Some(name));

            // The others wait, and the successor does not.
            let other = 3 - successor;
            nodes[other].step(&store, || ());
            nodes[0].step(&store, || ());
            assert!(nodes[other].holding.is_none() && nodes[0].holding.is_none());
            nodes[successor].step(&store, || ());
            let mut holding = nodes[successor]
                .holding
                .take()
                .expect("the successor holds");
            nodes[successor].validity.end();
            holding.release(&store, world.as_ref(), None);
        }

        // A successor that does not come loses its right.
        nodes[0].step(&store, || ());
        let mut holding = nodes[0].holding.take().expect("the first holds");
        holding.release(&store, nodes[0].world.as_ref(), Some("gone".to_owned()));
        for (passed_ms, holds) in [(0, false), (SUCCESSOR_MS, false), (1, true)] {
            nodes[1].world.advance_ms(passed_ms);
            nodes[1].step(&store, || ());
            assert_eq!(nodes[1].holding.is_some(), holds, "after {passed_ms} more");
        }
    }

    #[test]
    fn the_key_of_the_first_leaseholder_is_the_key_of_all() {
        let store = MemoryStore::new();
        let (mut first, mut second) = (TestNode::new(1), TestNode::new(2));
        first.step(&store, || ());
        let mut holding = first.holding.take().expect("the first holds");
        let key = holding.key().clone();
        let told = second.claim.attempt(&store, second.world.as_ref());
        match told.expect("a row") {
            Attempt::Waiting(Some(leaseholder)) => assert_eq!(leaseholder.key.as_ref(), Some(&key)),
            _ => panic!("the first node holds the lease"),
        }
        holding.release(&store, first.world.as_ref(), None);
        second.step(&store, || ());
        assert_eq!(second.holding.expect("the second holds").key(), &key);
    }

    /// Clocks that differ by up to a tenth in speed, pauses, and delayed answers of the store.
    #[test]
    fn the_lease_is_never_valid_at_two_nodes() {
        let mut held = 0;
        for seed in 0..300 {
            let random = SeededWorld::new(0, seed);
            let store = MemoryStore::new();
            let mut nodes: Vec<TestNode> = (1..=3).map(TestNode::new).collect();
            let clocks: Vec<_> = nodes.iter().map(|node| node.world.clone()).collect();
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
                nodes[node].step(&store, || pass(delay));
                let valid = nodes.iter().filter(|node| node.validity.is_valid()).count();
                assert!(valid <= 1, "{valid} nodes hold the lease, seed {seed}");
                held += valid;
            }
        }
        assert!(held > 10_000, "the lease was valid after {held} steps only");
    }
}
