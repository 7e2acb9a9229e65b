//! The lease of this process, with the thread that renews it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use orrery_model::sync::lock;
use orrery_model::world::World;
use orrery_storage::{Store, StoreError};

use super::LEASE_PARTITION;
use super::claim::{Attempt, Claim};
use super::holding::{Holding, Renewal};
use super::key::NodesKey;
use super::row::{Leaseholder, Node, Row};
use super::validity::Validity;

/// The times of a lease.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Milliseconds for which a renewal is good. A renewal begins every sixth of them.
    pub ttl_ms: u64,
}

impl Terms {
    /// Returns the terms with a time to live in seconds.
    pub fn of_seconds(seconds: u64) -> Terms {
        Terms {
            ttl_ms: seconds.saturating_mul(1_000),
        }
    }

    /// Returns the milliseconds from the end of a renewal that took a time to the next one. The
    /// validity counts from before a renewal, so the next one after a slow one begins at once.
    pub fn pause_ms(self, took_ms: u64) -> u64 {
        (self.ttl_ms / 6).saturating_sub(took_ms)
    }
}

impl Default for Terms {
    /// Returns a time to live of 3 seconds.
    fn default() -> Terms {
        Terms { ttl_ms: 3_000 }
    }
}

/// The news of a node that waits for the lease, or holds it.
#[derive(Debug)]
pub enum Progress {
    /// Another node holds the lease, and its renewals are good for this number of milliseconds.
    Waiting(Leaseholder, u64),
    /// The store does not answer; the node tries again.
    Failed(String),
    /// The store answers again.
    Answered,
    /// This node has given the lease back.
    Released,
    /// Another node has taken the lease, so this node must not serve the account any more.
    Lost(Node),
}

/// Receives the news.
pub type Report = Arc<dyn Fn(Progress) + Send + Sync>;

/// The lease of this process. Dropping the lease gives it back.
pub struct NodeLease {
    validity: Arc<Validity>,
    key: NodesKey,
    term: u64,
    successor: Arc<Mutex<Option<String>>>,
    stop: Arc<Stop>,
    renewer: Option<JoinHandle<()>>,
}

/// A flag that ends waits.
#[derive(Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn set(&self) {
        *lock(&self.is_set) = true;
        self.changed.notify_all();
    }

    /// Waits for a time. Returns true if the flag is set.
    fn wait(&self, time: Duration) -> bool {
        let is_set = lock(&self.is_set);
        let waited = self
            .changed
            .wait_timeout_while(is_set, time, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl NodeLease {
    /// Waits until this node holds the lease, and renews the lease from then on. `store` is the
    /// cluster with the lease, best with connections of its own. `wait` waits between two attempts:
    /// for the given time, or less if the lease is expected to be free soon. Returns `None` if
    /// `wait` returns false, which ends the attempts.
    ///
    /// # Errors
    /// The store's error, if another attempt cannot pass.
    pub fn acquire(
        store: Arc<dyn Store>,
        node: Node,
        terms: Terms,
        world: Arc<dyn World>,
        report: Report,
        mut wait: impl FnMut(Duration) -> bool,
    ) -> Result<Option<NodeLease>, StoreError> {
        let mut claim = Claim::new(node, world.random(), terms.ttl_ms);
        let pause = Duration::from_millis((terms.ttl_ms / 60).clamp(1, 100));
        let mut last = None;
        let mut has_failed = false;
        loop {
            let mut next = pause;
            match claim.attempt(store.as_ref(), &world) {
                Ok(Attempt::Held(holding)) => {
                    if has_failed {
                        report(Progress::Answered);
                    }
                    let renewer = Renewer {
                        store,
                        world,
                        terms,
                        report,
                        stop: Arc::default(),
                        successor: Arc::default(),
                    };
                    return Ok(Some(renewer.start(holding)));
                }
                Ok(Attempt::Waiting {
                    leaseholder,
                    left_ms,
                }) => {
                    // Clients wait for the claim of the lease of a leaseholder that has died.
                    if left_ms > 0 {
                        next = pause.min(Duration::from_millis(left_ms));
                    }
                    if std::mem::take(&mut has_failed) {
                        report(Progress::Answered);
                    }
                    // The leaseholder is told once, and again when it changes.
                    if let Some((leaseholder, ttl_ms)) = leaseholder
                        && last.as_ref() != Some(&leaseholder)
                    {
                        report(Progress::Waiting(leaseholder.clone(), ttl_ms));
                        last = Some(leaseholder);
                    }
                }
                Ok(Attempt::Refused(reason)) => {
                    has_failed = true;
                    report(Progress::Failed(reason));
                }
                Err(error) if is_passing(&error) => {
                    has_failed = true;
                    report(Progress::Failed(error.to_string()));
                }
                Err(error) => return Err(error),
            }
            if !wait(next) {
                return Ok(None);
            }
        }
    }

    /// Names the node that may claim the lease first once this node has given the lease back. Other
    /// nodes wait two seconds for that node.
    pub fn set_successor(&self, name: &str) {
        *lock(&self.successor) = Some(name.to_owned());
    }

    /// Returns the key of all nodes.
    pub fn key(&self) -> &NodesKey {
        &self.key
    }

    /// Returns a number that is higher than that of every leaseholder before.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns the time until which the lease is valid.
    pub fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }
}

impl Drop for NodeLease {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(renewer) = self.renewer.take() {
            // A panic of the thread was reported when it happened.
            let _ = renewer.join();
        }
    }
}

/// Returns the leaseholder; `None` if the lease is free. The node may have died since
/// its last renewal.
///
/// # Errors
/// That of the store.
pub fn leaseholder(store: &dyn Store) -> Result<Option<Node>, StoreError> {
    let snapshot = store.snapshot(LEASE_PARTITION)?;
    let row = Row::read(snapshot.as_ref())?;
    Ok(row.filter(|row| !row.is_released).map(|row| row.node))
}

/// Returns true if another attempt may pass.
fn is_passing(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { .. } => true,
        StoreError::Cluster { retry_after_ms, .. } => retry_after_ms.is_some(),
        _ => false,
    }
}

/// The thread that renews.
struct Renewer {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    terms: Terms,
    report: Report,
    stop: Arc<Stop>,
    /// The name of the node that is to claim the lease after this one.
    successor: Arc<Mutex<Option<String>>>,
}

impl Renewer {
    fn start(self, holding: Holding) -> NodeLease {
        let stop = self.stop.clone();
        let (key, term) = (holding.key().clone(), holding.lsn());
        let validity = holding.validity().clone();
        let successor = self.successor.clone();
        let renewer = std::thread::Builder::new()
            .name("orrery-node-lease".to_owned())
            .spawn(move || self.run(holding))
            // Without the thread the lease expires, and the node answers nothing.
            .ok();
        NodeLease {
            validity,
            key,
            term,
            successor,
            stop,
            renewer,
        }
    }

    fn run(self, mut holding: Holding) {
        let soon = Duration::from_millis((self.terms.ttl_ms / 30).max(1));
        let mut pause = Duration::from_millis(self.terms.pause_ms(0));
        let mut has_failed = false;
        while !self.stop.wait(pause) {
            let before_ms = self.world.monotonic_ms();
            pause = match holding.renew(self.store.as_ref()) {
                Renewal::Renewed => {
                    if std::mem::take(&mut has_failed) {
                        (self.report)(Progress::Answered);
                    }
                    let took_ms = self.world.monotonic_ms() - before_ms;
                    Duration::from_millis(self.terms.pause_ms(took_ms))
                }
                Renewal::Lost(node) => return (self.report)(Progress::Lost(node)),
                Renewal::Failed(detail) => {
                    has_failed = true;
                    (self.report)(Progress::Failed(detail));
                    soon
                }
            };
        }
        let successor = lock(&self.successor).take();
        if holding.release(self.store.as_ref(), successor) {
            (self.report)(Progress::Released);
        }
    }
}
