//! Snapshots that no caller holds and whose transactions are still open, for the next callers.
//!
//! Only a store whose process alone writes the partition keeps them. An idle snapshot is handed out
//! again only while its head is the newest durable head that this process knows, so a commit that
//! was answered before is never missed: a commit is noted as durable before it is answered. A new
//! transaction may show a commit before its answer has arrived; no later caller gets a snapshot
//! without that commit.
//!
//! An idle snapshot ends when its partition changes, after [`MOST_AGE`], when another caller needs
//! its connection, and with the store.
//!
//! No snapshot stays idle while a caller waits for a connection: the snapshot goes to the caller
//! that waits longest. That caller uses the transaction if it shows the partition that the caller
//! wants, and otherwise ends it in the round trip that starts the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orrery_model::sync::lock;
use orrery_storage::PartitionId;
use tokio::runtime::Handle;

use crate::pool::OpenSnapshot;
use crate::store::Shared;

/// The age after which a transaction is not used again: the server keeps old rows for it.
pub(crate) const MOST_AGE: Duration = Duration::from_secs(1);

impl OpenSnapshot {
    fn ends(&self) -> Instant {
        self.begun + MOST_AGE
    }
}

/// The idle snapshots of a store.
#[derive(Default)]
pub(crate) struct Idle {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last one of a partition is used first, so that those too many grow old.
    snapshots: HashMap<PartitionId, Vec<OpenSnapshot>>,
    /// A task ends snapshots that have become too old.
    has_keeper: bool,
    is_closed: bool,
}

impl Idle {
    /// Takes an idle snapshot of a partition.
    fn take(&self, id: PartitionId) -> Option<OpenSnapshot> {
        let mut state = lock(&self.state);
        let of_partition = state.snapshots.get_mut(&id)?;
        let snapshot = of_partition.pop();
        if of_partition.is_empty() {
            state.snapshots.remove(&id);
        }
        snapshot
    }

    /// Takes all idle snapshots of a partition.
    fn take_all(&self, id: PartitionId) -> Vec<OpenSnapshot> {
        let mut state = lock(&self.state);
        state.snapshots.remove(&id).unwrap_or_default()
    }

    /// Takes the oldest idle snapshot of any partition, for the sake of its connection.
    pub(crate) fn take_oldest(&self) -> Option<OpenSnapshot> {
        let mut state = lock(&self.state);
        let ends = |all: &Vec<OpenSnapshot>| all.iter().map(OpenSnapshot::ends).min();
        let (id, of_partition) = state
            .snapshots
            .iter_mut()
            .min_by_key(|(_, all)| ends(all))?;
        let oldest = (0..of_partition.len()).min_by_key(|&at| of_partition[at].ends())?;
        let snapshot = of_partition.remove(oldest);
        if of_partition.is_empty() {
            let id = *id;
            state.snapshots.remove(&id);
        }
        Some(snapshot)
    }

    /// Keeps a snapshot. Returns true if a keeper must be started. After the store was closed the
    /// snapshot ends with its connection.
    fn put(&self, id: PartitionId, snapshot: OpenSnapshot) -> bool {
        let mut state = lock(&self.state);
        if state.is_closed {
            return false;
        }
        state.snapshots.entry(id).or_default().push(snapshot);
        !std::mem::replace(&mut state.has_keeper, true)
    }

    /// Takes the snapshots that are too old, and returns when the next one will be. `None` ends the
    /// keeper: there are no snapshots.
    fn take_old(&self) -> (Vec<OpenSnapshot>, Option<Instant>) {
        let mut state = lock(&self.state);
        let (now, mut old) = (Instant::now(), Vec::new());
        for of_partition in state.snapshots.values_mut() {
            old.extend(of_partition.extract_if(.., |snapshot| snapshot.ends() <= now));
        }
        state.snapshots.retain(|_, all| !all.is_empty());
        let next = state.snapshots.values().flatten();
        let next = next.map(OpenSnapshot::ends).min();
        state.has_keeper = next.is_some();
        (old, next)
    }

    /// Ends all snapshots, and keeps none from now on.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.snapshots.clear();
    }
}

impl Shared {
    /// Returns an idle snapshot that holds every commit answered before this call.
    pub(crate) fn reuse(&self, id: PartitionId) -> Option<OpenSnapshot> {
        loop {
            let snapshot = self.idle.take(id)?;
            if self.is_newest(id, &snapshot) {
                return Some(snapshot);
            }
            self.end(snapshot);
        }
    }

    /// Keeps a snapshot that no caller holds any more for the next caller, or ends it.
    pub(crate) fn release(self: &Arc<Self>, id: PartitionId, snapshot: OpenSnapshot) {
        if self.readers.is_waited_for() || !self.is_newest(id, &snapshot) {
            return self.end(snapshot);
        }
        let row = snapshot.row;
        if self.idle.put(id, snapshot) {
            self.runtime.spawn(end_old(self.clone()));
        }
        // A change before this look is seen here, and one after it ends the snapshot itself.
        let is_newest = {
            let partitions = self.partitions();
            partitions.is_newest(id, &row) && self.may_reuse(&partitions, id)
        };
        if !is_newest {
            self.end_idle(id);
        }
        // A caller that came after the first look, and found no idle snapshot, waits.
        self.serve_waiting();
    }

    /// Gives the connections of idle snapshots to the callers that wait, in the order of their
    /// requests.
    ///
    /// Called after a caller was queued, and after a snapshot was kept. If both happen at the same
    /// time, the later of the two calls finds the caller and the snapshot.
    pub(crate) fn serve_waiting(&self) {
        while self.readers.is_waited_for()
            && let Some(snapshot) = self.idle.take_oldest()
        {
            self.end(snapshot);
        }
    }

    /// Ends the idle snapshots of a partition that has changed.
    pub(crate) fn end_idle(&self, id: PartitionId) {
        for snapshot in self.idle.take_all(id) {
            self.end(snapshot);
        }
    }

    /// Returns true if a snapshot shows the newest durable state, and is young.
    pub(crate) fn is_newest(&self, id: PartitionId, snapshot: &OpenSnapshot) -> bool {
        let is_newest = {
            let partitions = self.partitions();
            partitions.is_newest(id, &snapshot.row)
                && !partitions.is_in_doubt(id)
                && self.may_reuse(&partitions, id)
        };
        is_newest
            && snapshot.row.state == 0
            && snapshot.begun.elapsed() < MOST_AGE
            && self.connector.is_trusted(&snapshot.session)
    }

    /// Gives an open transaction to the caller that waits longest. Without such a caller, ends the
    /// transaction on the store's own threads; this thread does not wait for the end.
    pub(crate) fn end(&self, snapshot: OpenSnapshot) {
        end(
            &self.runtime,
            self.connector.config.read_timeout(),
            snapshot,
        );
    }
}

/// Gives an open transaction to the caller that waits longest. Without such a caller, ends the
/// transaction on the threads of a runtime, and keeps its connection.
pub(crate) fn end(runtime: &Handle, limit: Duration, snapshot: OpenSnapshot) {
    let Some(OpenSnapshot { place, session, .. }) = snapshot.hand_on() else {
        return;
    };
    runtime.spawn(async move {
        let end = session.client.batch_execute("COMMIT");
        match tokio::time::timeout(limit, end).await {
            Ok(Ok(())) if session.is_usable() => place.give_back(session),
            _ => session.mark_broken(),
        }
    });
}

/// Ends idle snapshots when they have become too old, until there are none.
async fn end_old(shared: Arc<Shared>) {
    loop {
        let (old, next) = shared.idle.take_old();
        for snapshot in old {
            shared.end(snapshot);
        }
        let Some(next) = next else { return };
        tokio::time::sleep_until(next.into()).await;
    }
}
