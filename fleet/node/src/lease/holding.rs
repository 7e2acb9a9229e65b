//! The held lease: its renewal and its release.

use std::sync::Arc;

use orrery_model::world::World;
use orrery_storage::{Commit, CommitOutcome, Head, Lease, Store};

use super::LEASE_PARTITION;
use super::claim::refusal;
use super::key::NodesKey;
use super::row::{Node, Row};
use super::validity::{Moment, Validity};

/// The lease in the hands of its leaseholder.
pub struct Holding {
    lease: Lease,
    head: Head,
    row: Row,
    key: NodesKey,
    world: Arc<dyn World>,
    validity: Arc<Validity>,
}

/// The outcome of a renewal.
#[derive(Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The renewal is durable.
    Renewed,
    /// Another process has the lease now.
    Lost(Node),
    /// The renewal is not known to be durable, for this reason; another attempt may be.
    Failed(String),
}

impl Holding {
    /// Creates the holding of a lease whose row was committed as `head`. The lease is valid from
    /// the moment before the commit was sent.
    pub(super) fn new(
        (lease, head): (Lease, Head),
        row: Row,
        key: NodesKey,
        world: &Arc<dyn World>,
        since: Moment,
    ) -> Holding {
        let validity = Arc::new(Validity::ended(world.clone()));
        validity.extend(since, row.ttl_ms);
        Holding {
            lease,
            head,
            row,
            key,
            world: world.clone(),
            validity,
        }
    }

    /// Returns the number of the last commit of the row: higher than any of an earlier leaseholder.
    pub fn lsn(&self) -> u64 {
        self.head.lsn
    }

    /// Returns the key of all nodes.
    pub fn key(&self) -> &NodesKey {
        &self.key
    }

    /// Returns the time until which the lease is valid.
    pub fn validity(&self) -> &Arc<Validity> {
        &self.validity
    }

    /// Writes the row again, and extends the validity of the lease from the moment before.
    ///
    /// A claimer that opened the partition and went no further has fenced the lease of the store.
    /// So a renewal that fails opens the partition again: the row tells the leaseholder.
    pub fn renew(&mut self, store: &dyn Store) -> Renewal {
        let before = Moment::now(self.world.as_ref());
        let renewal = self.write_or_reopen(store);
        match renewal {
            Renewal::Renewed => self.validity.extend(before, self.row.ttl_ms),
            Renewal::Lost(_) => self.validity.end(),
            Renewal::Failed(_) => {}
        }
        renewal
    }

    fn write_or_reopen(&mut self, store: &dyn Store) -> Renewal {
        let outcome = match self.write(store) {
            CommitOutcome::Ok => return Renewal::Renewed,
            outcome => outcome,
        };
        match self.reopen(store) {
            Ok(None) => {}
            Ok(Some(node)) => return Renewal::Lost(node),
            Err(detail) => return Renewal::Failed(detail),
        }
        match self.write(store) {
            CommitOutcome::Ok => Renewal::Renewed,
            CommitOutcome::Damaged => Renewal::Failed(refusal(store)),
            again => Renewal::Failed(format!("the store answered {outcome:?}, then {again:?}")),
        }
    }

    /// Ends the validity and gives the lease back; the node with the name `successor` may claim the
    /// lease first. Returns false if that fails: other nodes wait until the lease has expired.
    pub fn release(&mut self, store: &dyn Store, successor: Option<String>) -> bool {
        // No answer may follow the release.
        self.validity.end();
        self.row.is_released = true;
        self.row.successor = successor;
        let mut outcome = self.write(store);
        if outcome != CommitOutcome::Ok && self.reopen(store) == Ok(None) {
            outcome = self.write(store);
        }
        outcome == CommitOutcome::Ok
    }

    /// Commits the row.
    fn write(&mut self, store: &dyn Store) -> CommitOutcome {
        let (commit, head) = commit_of(&self.row, self.head, self.world.as_ref());
        let outcome = store.submit(&self.lease, commit).wait();
        if outcome == CommitOutcome::Ok {
            self.head = head;
        }
        outcome
    }

    /// Opens the partition again. Returns the leaseholder if the leaseholder is another process
    /// now.
    fn reopen(&mut self, store: &dyn Store) -> Result<Option<Node>, String> {
        let failed = |error: orrery_storage::StoreError| error.to_string();
        let lease = store.open(LEASE_PARTITION).map_err(failed)?;
        let snapshot = store.snapshot(LEASE_PARTITION).map_err(failed)?;
        let row = Row::read(snapshot.as_ref()).map_err(failed)?;
        match row {
            Some(row) if row.process == self.row.process => {
                self.head = lease.head();
                self.lease = lease;
                Ok(None)
            }
            Some(row) => Ok(Some(row.node)),
            None => Err("the row of the lease is gone".to_owned()),
        }
    }
}

/// Returns the commit of a row that follows `head`, and its own head.
pub(super) fn commit_of(row: &Row, head: Head, world: &dyn World) -> (Commit, Head) {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&row.process.to_be_bytes());
    token[8..].copy_from_slice(&world.random().to_be_bytes());
    let commit = Commit {
        expect_lsn: head.lsn,
        new_lsn: head.lsn + 1,
        token,
        puts: vec![row.put()],
        may_use_reserve: true,
        ..Commit::default()
    };
    let head = commit.new_head();
    (commit, head)
}
