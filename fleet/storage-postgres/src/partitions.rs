//! The queues of the partitions: which commits are accepted, in which order they go to the server,
//! and what is known to be durable.
//!
//! One worker at a time has the work of a partition, so its commits reach the server one after
//! another. All state of a partition is behind one lock, so that comparing the head and moving it
//! forward are one step. Nothing here waits for the server.

mod told;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use orrery_storage::{Commit, CommitOutcome, Head, Lease, Limits, PartitionId, ReadAhead, Token};
use tokio::sync::{Notify, oneshot};
use told::Told;

use crate::batch::Batch;
use crate::head::HeadRow;
use crate::history::Opening;
use crate::idle::MOST_AGE;
use crate::recent_keys::RecentKeys;
use crate::row_cache::RowCache;
use crate::row_snapshot::KnownRows;
use crate::slot::Slot;

/// The workers of a store. Few of them gather more commits in each transaction; with one, nothing
/// is sent while the server writes its log.
const MOST_WORKERS: usize = 3;
/// The most partitions, bytes and keys of a transaction for several partitions. The commits of one
/// partition may be larger.
const GROUP_PARTITIONS: usize = 32;
const GROUP_BYTES: usize = 1 << 20;
const GROUP_KEYS: usize = 4_096;
/// The bytes of commits that may wait for the server.
const MOST_QUEUED_BYTES: usize = 64 << 20;
/// Milliseconds that a refused caller is told to wait.
const BUSY_RETRY_MS: u64 = 100;

/// The answer to a task that is no commit; an error is a sentence.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, String>>;

/// Work of a partition that is no commit.
pub(crate) enum Work {
    Open(Answer<Lease>),
    Destroy(Answer<()>),
    Barrier(Answer<()>),
}

/// A task that must be started.
pub(crate) enum Start {
    /// A worker, which takes commits until none wait.
    Worker,
    /// Work of a partition that is no commit. Such work waits for no worker: the outcome of a
    /// commit may take long to find out.
    Other(PartitionId, Work),
}

/// Commits of one partition that are sent together.
pub(crate) struct CommitWork {
    pub(crate) id: PartitionId,
    pub(crate) from: HeadRow,
    pub(crate) to: HeadRow,
    pub(crate) batch: Batch,
    pub(crate) slots: Vec<Arc<Slot>>,
}

enum Task {
    Commit {
        epoch: u64,
        commit: Commit,
        bytes: usize,
        slot: Arc<Slot>,
    },
    Other(Work),
}

/// The way of a partition's work to the server.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// There is no work.
    #[default]
    Idle,
    /// Commits wait for a worker.
    Ready,
    /// The first of the work is being done.
    UnderWay,
}

#[derive(Default)]
struct Partition {
    /// The epoch whose commits are accepted.
    lease: Option<u64>,
    /// The head that the next commit must expect.
    accepted: Head,
    /// The newest row that is known to be durable.
    durable: HeadRow,
    /// The newest row that a snapshot has shown: that of a commit whose answer is on its way.
    shown: HeadRow,
    /// The number of the opening of an epoch.
    opener: Option<(u64, Token)>,
    /// The last openings, as the last opening of this process found them.
    openings: Vec<Opening>,
    /// A head that another process has told since.
    told: Option<Told>,
    /// Acknowledged commits are gone, as this sentence says.
    loss: Option<String>,
    queue: VecDeque<Task>,
    stage: Stage,
    /// The server may show rows of a transaction that is not known to be durable.
    is_in_doubt: bool,
    /// Another process may write the partition until it is opened again.
    is_released: bool,
    /// The keys of the last commits that were sent.
    recent: RecentKeys,
    /// The generation of the rows in the cache.
    generation: u64,
    /// The newest moment at which the primary is known to have had the durable row.
    confirmed: Option<Instant>,
}

/// All partitions that were used.
pub(crate) struct Partitions {
    partitions: HashMap<PartitionId, Partition>,
    cache: RowCache,
    /// The partitions whose commits wait for a worker.
    ready: VecDeque<PartitionId>,
    workers: usize,
    most_workers: usize,
    queued_bytes: usize,
    /// The number of accepted commits that are not known to be durable, and never will be.
    failed: u64,
    /// Told when a partition comes into doubt or out of doubt.
    doubts: Arc<Notify>,
}

impl Partitions {
    /// Creates a state without partitions, for a cache of this many bytes and as many workers as
    /// there may be `connections`.
    pub(crate) fn new(cache_bytes: u64, connections: usize) -> Partitions {
        Partitions {
            partitions: HashMap::new(),
            cache: RowCache::new(cache_bytes),
            ready: VecDeque::new(),
            workers: 0,
            most_workers: connections.min(MOST_WORKERS),
            queued_bytes: 0,
            failed: 0,
            doubts: Arc::default(),
        }
    }

    /// Accepts a commit. Returns its slot, and what must be started.
    pub(crate) fn submit(
        &mut self,
        lease: &Lease,
        commit: Commit,
    ) -> Result<(Arc<Slot>, Option<Start>), CommitOutcome> {
        let refusal = self.refusal();
        let Some(partition) = self.partitions.get_mut(&lease.partition()) else {
            return Err(CommitOutcome::Fenced);
        };
        let is_at_head = partition.accepted.lsn == commit.expect_lsn;
        let rises = commit.new_lsn > commit.expect_lsn;
        if partition.lease != Some(lease.epoch()) || !is_at_head || !rises {
            return Err(CommitOutcome::Fenced);
        }
        if !Limits::ENVELOPE.admit(&commit) {
            return Err(CommitOutcome::TooLarge);
        }
        if partition.loss.is_some() {
            return Err(CommitOutcome::Damaged);
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        partition.accepted = commit.new_head();
        let (slot, bytes) = (Arc::new(Slot::default()), commit.bytes());
        self.queued_bytes += bytes;
        partition.queue.push_back(Task::Commit {
            epoch: lease.epoch(),
            commit,
            bytes,
            slot: slot.clone(),
        });
        Ok((slot, self.wake(lease.partition())))
    }

    /// Returns the answer to a commit while too many bytes wait.
    pub(crate) fn refusal(&self) -> Option<CommitOutcome> {
        (self.queued_bytes > MOST_QUEUED_BYTES).then_some(CommitOutcome::Busy {
            retry_after_ms: BUSY_RETRY_MS,
        })
    }

    /// Queues a task behind the commits that were accepted. Returns what must be started.
    pub(crate) fn push(&mut self, id: PartitionId, work: Work) -> Option<Start> {
        let partition = self.partitions.entry(id).or_default();
        if !matches!(work, Work::Barrier(_)) {
            // From here on no commit of an earlier lease is accepted.
            partition.lease = None;
        }
        partition.queue.push_back(Task::Other(work));
        self.wake(id)
    }

    /// Sees to the work of a partition that may have been idle. Returns what must be started.
    fn wake(&mut self, id: PartitionId) -> Option<Start> {
        let partition = self.partitions.get(&id)?;
        match partition.stage {
            Stage::Idle => self.go_on(id).or_else(|| self.needs_worker()),
            Stage::Ready | Stage::UnderWay => None,
        }
    }

    /// Sees to the next work of a partition none of whose work is under way. Returns what must be
    /// started, other than a worker.
    pub(crate) fn go_on(&mut self, id: PartitionId) -> Option<Start> {
        let partition = self.partitions.get_mut(&id)?;
        match partition.queue.pop_front() {
            None => {
                partition.stage = Stage::Idle;
                None
            }
            Some(Task::Other(work)) => {
                partition.stage = Stage::UnderWay;
                Some(Start::Other(id, work))
            }
            Some(commit) => {
                partition.queue.push_front(commit);
                partition.stage = Stage::Ready;
                self.ready.push_back(id);
                None
            }
        }
    }

    /// Counts a further worker, if one is needed, which must be started.
    pub(crate) fn needs_worker(&mut self) -> Option<Start> {
        let is_needed = !self.ready.is_empty() && self.workers < self.most_workers;
        self.workers += usize::from(is_needed);
        is_needed.then_some(Start::Worker)
    }

    /// Returns the partitions that have commits on their way.
    pub(crate) fn busy(&self) -> Vec<PartitionId> {
        let busy = self
            .partitions
            .iter()
            .filter(|(_, p)| p.stage != Stage::Idle);
        busy.map(|(id, _)| *id).collect()
    }

    /// Ends a worker if no partition waits. Returns true if the worker ends.
    pub(crate) fn end_worker(&mut self) -> bool {
        let is_ended = self.ready.is_empty();
        self.workers -= usize::from(is_ended);
        is_ended
    }

    /// Ends a worker that was broken off, or that goes on beside the others. Returns what must be
    /// started in its place.
    pub(crate) fn replace_worker(&mut self) -> Option<Start> {
        self.workers -= 1;
        self.needs_worker()
    }

    /// Takes the commits of the partitions that wait, as far as they fit one transaction, and at
    /// least those of one. Also returns what must be started.
    pub(crate) fn take(&mut self) -> (Vec<CommitWork>, Vec<Start>) {
        let (mut group, mut starts) = (Vec::new(), Vec::new());
        let mut space = Space {
            bytes: Limits::ENVELOPE.commit_bytes,
            keys: Limits::ENVELOPE.commit_keys,
        };
        // Partitions whose commits do not go along stay in their order.
        let mut left = VecDeque::new();
        while group.len() < GROUP_PARTITIONS
            && let Some(id) = self.ready.pop_front()
        {
            if !group.is_empty() && !self.fits(id, &space) {
                left.push_back(id);
                continue;
            }
            match self.take_commits(id, &mut space) {
                Some(work) => {
                    space.bytes = space.bytes.min(GROUP_BYTES);
                    space.keys = space.keys.min(GROUP_KEYS);
                    group.push(work);
                }
                // All of its commits were fenced.
                None => starts.extend(self.go_on(id)),
            }
        }
        left.append(&mut self.ready);
        self.ready = left;
        (group, starts)
    }

    /// Returns true if there is space for the next commit of a partition.
    fn fits(&self, id: PartitionId, space: &Space) -> bool {
        let partition = self.partitions.get(&id);
        match partition.and_then(|partition| partition.queue.front()) {
            Some(Task::Commit { commit, bytes, .. }) => space.has(commit, *bytes),
            // The commits were refused meanwhile.
            _ => true,
        }
    }

    /// Takes the next commits of a partition, as many as there is space for, but at least one.
    fn take_commits(&mut self, id: PartitionId, space: &mut Space) -> Option<CommitWork> {
        let partition = self.partitions.get_mut(&id)?;
        let mut taken: Option<CommitWork> = None;
        while let Some(task) = partition.queue.pop_front() {
            let (epoch, commit, bytes, slot) = match task {
                Task::Commit {
                    epoch,
                    commit,
                    bytes,
                    slot,
                } => (epoch, commit, bytes, slot),
                other => {
                    partition.queue.push_front(other);
                    break;
                }
            };
            // The lease was replaced after the commit was accepted.
            if partition.durable.epoch != epoch {
                self.queued_bytes -= bytes;
                self.failed += 1;
                slot.answer(CommitOutcome::Fenced);
                continue;
            }
            if taken.is_some() && !space.has(&commit, bytes) {
                partition.queue.push_front(Task::Commit {
                    epoch,
                    commit,
                    bytes,
                    slot,
                });
                break;
            }
            space.fill(&commit, bytes);
            self.queued_bytes -= bytes;
            let from = partition.durable;
            let work = taken.get_or_insert_with(|| CommitWork::after(id, from));
            (work.to.lsn, work.to.token) = (commit.new_lsn, commit.token);
            work.batch.add(commit);
            work.slots.push(slot);
        }
        if let Some(work) = &taken {
            partition.stage = Stage::UnderWay;
            partition
                .recent
                .add(work.from.lsn, work.to.lsn, &work.batch);
        }
        taken
    }

    /// Notes a row that is durable. Commits go on under the same lease.
    pub(crate) fn note_durable(&mut self, id: PartitionId, row: HeadRow) {
        let partition = self.partitions.entry(id).or_default();
        partition.durable = row;
        partition.forget_rows();
    }

    /// Notes that commits are durable, which were sent after `begun`. The rows in the cache follow.
    pub(crate) fn note_committed(&mut self, work: &CommitWork, begun: Instant) {
        let id = work.id;
        let partition = self.partitions.entry(id).or_default();
        partition.durable = work.to;
        partition.confirmed = Some(begun);
        if !self.cache.follow(id, partition.generation, &work.batch) {
            partition.forget_rows();
        }
    }

    /// Returns rows from the cache, with the newest durable head, if all are known. The rows count
    /// for a short time only, unless the cluster has shown the head again.
    pub(crate) fn cached(
        &self,
        id: PartitionId,
        ahead: &ReadAhead,
    ) -> Option<(HeadRow, KnownRows)> {
        let partition = self.partitions.get(&id)?;
        let row = partition.durable;
        let confirmed = partition.confirmed?;
        let is_newest = ahead.is_for_writer || self.is_newest(id, &row);
        if !is_newest || !partition.has_sound_rows() || confirmed.elapsed() >= MOST_AGE {
            return None;
        }
        let mut found = KnownRows::new();
        for key in &ahead.keys {
            let value = self.cache.get(id, partition.generation, key)?;
            found.insert(key.clone(), value);
        }
        for link in &ahead.links {
            if let Some(value) = found.get(&link.from)?.clone() {
                let key = [&link.prefix, &value[..]].concat();
                let value = self.cache.get(id, partition.generation, &key)?;
                found.insert(key, value);
            }
        }
        Some((row, found))
    }

    /// Keeps rows that were read after `begun`, together with this head. Commits between this head
    /// and the newest durable one, in either direction, must be known: rows that they touch are
    /// left out.
    pub(crate) fn keep(
        &mut self,
        id: PartitionId,
        row: HeadRow,
        found: &KnownRows,
        begun: Instant,
    ) {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let durable = partition.durable;
        let is_same_epoch =
            row.state == 0 && (row.incarnation, row.epoch) == (durable.incarnation, durable.epoch);
        if !is_same_epoch || !partition.has_sound_rows() {
            return;
        }
        let (low, high) = (row.lsn.min(durable.lsn), row.lsn.max(durable.lsn));
        let is_same = row == durable;
        if !is_same && (low == high || !partition.recent.cover(low, high)) {
            return;
        }
        // The cluster has shown the durable head or a later one.
        if row.lsn >= durable.lsn {
            partition.confirmed = partition.confirmed.max(Some(begun));
        }
        for (key, value) in found {
            if is_same || !partition.recent.may_have_touched(key, low, high) {
                self.cache
                    .insert(id, partition.generation, key, value.clone());
            }
        }
    }

    /// Notes the number of the opening of the newest epoch, if it is recorded.
    pub(crate) fn note_openings(&mut self, id: PartitionId, openings: Vec<Opening>) {
        let partition = self.partitions.entry(id).or_default();
        let epoch = partition.durable.epoch;
        let opening = openings.iter().find(|opening| opening.epoch == epoch);
        partition.opener = opening.map(|opening| (epoch, opening.opener));
        partition.openings = openings;
    }

    /// Returns the number of the opening of the newest epoch that is known.
    pub(crate) fn opener(&self, id: PartitionId) -> Option<Token> {
        let partition = self.partitions.get(&id)?;
        let (epoch, opener) = partition.opener?;
        (epoch == partition.durable.epoch).then_some(opener)
    }

    /// Notes the row of a newer epoch, and accepts commits under this epoch.
    pub(crate) fn note_epoch(&mut self, id: PartitionId, row: HeadRow, loss: Option<String>) {
        let partition = self.partitions.entry(id).or_default();
        partition.lease = Some(row.epoch);
        partition.accepted = row.head();
        partition.durable = row;
        partition.loss = loss;
        partition.is_released = false;
        // No transaction of an earlier epoch can take place any more.
        self.set_in_doubt(id, false);
    }

    /// Ends the lease of a partition: every commit that waits, and every later one, is fenced.
    pub(crate) fn end_lease(&mut self, id: PartitionId) {
        let partition = self.partitions.entry(id).or_default();
        partition.lease = None;
        partition.forget_rows();
        self.refuse_queued(id, CommitOutcome::Fenced);
    }

    /// Ends the lease of a partition that another process may write from now on.
    pub(crate) fn release(&mut self, id: PartitionId) {
        self.end_lease(id);
        self.partitions.entry(id).or_default().is_released = true;
    }

    /// Returns true if this process has opened a partition, and no commit of another process was
    /// seen since.
    pub(crate) fn is_opened(&self, id: PartitionId) -> bool {
        let partition = self.partitions.get(&id);
        partition.is_some_and(|p| p.lease.is_some())
    }

    /// Ends the work of a partition that was broken off: nothing that waits is sent, and the lease
    /// is over.
    pub(crate) fn abandon_work(&mut self, id: PartitionId) {
        self.end_lease(id);
        let partition = self.partitions.entry(id).or_default();
        // The callers of other tasks learn of it because their answers are dropped.
        partition.queue.clear();
        partition.stage = Stage::Idle;
        // The worker may have sent a transaction.
        self.set_in_doubt(id, true);
    }

    /// Notes that a transaction has no answer yet, or that its outcome is found out.
    pub(crate) fn set_in_doubt(&mut self, id: PartitionId, is_in_doubt: bool) {
        let partition = self.partitions.entry(id).or_default();
        partition.is_in_doubt = is_in_doubt;
        partition.forget_rows();
        self.doubts.notify_waiters();
    }

    /// Returns what tells that a partition came into doubt, or is in doubt no longer.
    pub(crate) fn doubts(&self) -> Arc<Notify> {
        self.doubts.clone()
    }

    /// Returns true while the outcome of a partition's last transaction is unknown.
    pub(crate) fn is_in_doubt(&self, id: PartitionId) -> bool {
        self.partitions.get(&id).is_some_and(|p| p.is_in_doubt)
    }

    /// Takes all commits of a partition back that are not sent.
    pub(crate) fn take_back(&mut self, id: PartitionId, outcome: CommitOutcome) {
        let partition = self.partitions.entry(id).or_default();
        partition.accepted = partition.durable.head();
        self.refuse_queued(id, outcome);
    }

    fn refuse_queued(&mut self, id: PartitionId, outcome: CommitOutcome) {
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        for task in std::mem::take(&mut partition.queue) {
            match task {
                Task::Commit { bytes, slot, .. } => {
                    self.queued_bytes -= bytes;
                    self.failed += 1;
                    slot.answer(outcome);
                }
                other => partition.queue.push_back(other),
            }
        }
    }

    /// Returns the newest row of a partition that is known to be durable.
    pub(crate) fn durable(&self, id: PartitionId) -> HeadRow {
        self.partitions
            .get(&id)
            .map_or_else(HeadRow::default, |p| p.durable)
    }

    /// Notes the row of a new snapshot.
    pub(crate) fn note_shown(&mut self, id: PartitionId, row: HeadRow) {
        let partition = self.partitions.entry(id).or_default();
        if partition.shown.is_older_than(&row) {
            partition.shown = row;
        }
    }

    /// Returns true for a row that is the newest durable one, and not older than any that a
    /// snapshot has shown. No other snapshot may be given to a later reader.
    pub(crate) fn is_newest(&self, id: PartitionId, row: &HeadRow) -> bool {
        let partition = self.partitions.get(&id);
        partition
            .is_some_and(|p| p.durable == *row && !row.is_older_than(&p.shown) && !p.is_released)
    }

    /// Answers the commits of a transaction, and counts those that failed.
    pub(crate) fn answer(&mut self, work: &CommitWork, outcome: CommitOutcome) {
        if outcome != CommitOutcome::Ok {
            self.failed += work.slots.len() as u64;
        }
        work.answer(outcome);
    }

    /// Returns the number of accepted commits that failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    /// Returns a sentence about partitions that lost commits; `None` if there are none.
    pub(crate) fn loss(&self) -> Option<String> {
        self.partitions.values().find_map(|p| p.loss.clone())
    }
}

impl Partition {
    /// Returns true if rows in the cache can be used.
    fn has_sound_rows(&self) -> bool {
        let is_sound = self.durable.state == 0 && self.loss.is_none();
        is_sound && !self.is_in_doubt && !self.is_released
    }

    /// Makes the rows in the cache unknown.
    fn forget_rows(&mut self) {
        self.generation += 1;
        self.confirmed = None;
        self.recent.forget();
    }
}

/// The space that is left in a transaction.
struct Space {
    bytes: usize,
    keys: usize,
}

fn keys_of(commit: &Commit) -> usize {
    commit.puts.len() + commit.deletes.len() + commit.range_deletes.len()
}

impl Space {
    fn has(&self, commit: &Commit, bytes: usize) -> bool {
        bytes <= self.bytes && keys_of(commit) <= self.keys
    }

    fn fill(&mut self, commit: &Commit, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.keys = self.keys.saturating_sub(keys_of(commit));
    }
}

impl CommitWork {
    fn after(id: PartitionId, from: HeadRow) -> CommitWork {
        CommitWork {
            id,
            from,
            to: from,
            batch: Batch::default(),
            slots: Vec::new(),
        }
    }

    /// Answers all commits; [`Partitions::answer`] counts those that failed as well.
    pub(crate) fn answer(&self, outcome: CommitOutcome) {
        for slot in &self.slots {
            slot.answer(outcome);
        }
    }
}

impl Drop for CommitWork {
    fn drop(&mut self) {
        // The work was broken off between the transaction and its answer.
        self.answer(CommitOutcome::Unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_storage::Receipt;

    use crate::slot::Ticket;

    const P: PartitionId = PartitionId(1);

    fn opened() -> (Partitions, Lease) {
        let mut partitions = Partitions::new(1 << 20, 8);
        let row = HeadRow {
            epoch: 1,
            ..HeadRow::default()
        };
        partitions.note_epoch(P, row, None);
        (partitions, Lease::new(P, 1, row.head()))
    }

    fn submit(partitions: &mut Partitions, lease: &Lease, lsn: u64) -> Receipt {
        let commit = Commit {
            expect_lsn: lsn - 1,
            new_lsn: lsn,
            ..Commit::default()
        };
        let (slot, _) = partitions.submit(lease, commit).expect("accepted");
        Receipt::pending(Ticket(slot))
    }

    #[test]
    fn commits_whose_work_was_broken_off_are_answered() {
        let (mut partitions, lease) = opened();
        let sent = submit(&mut partitions, &lease, 1);
        let work = partitions.take();
        let queued = submit(&mut partitions, &lease, 2);
        let (sender, mut barrier) = oneshot::channel();
        partitions.push(P, Work::Barrier(sender));
        partitions.abandon_work(P);
        drop(work);
        assert_eq!(sent.wait(), CommitOutcome::Unknown);
        assert_eq!(queued.wait(), CommitOutcome::Fenced);
        assert!(barrier.try_recv().is_err(), "the barrier has no answer");
        assert_eq!(partitions.queued_bytes, 0);
        assert!(partitions.is_in_doubt(P));
        // The next task is started again.
        let (sender, _receiver) = oneshot::channel();
        let start = partitions.push(P, Work::Open(sender));
        assert!(matches!(start, Some(Start::Other(P, Work::Open(_)))));
    }

    /// Returns rows with values of some bytes together.
    fn rows_of(bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let values = vec![0; bytes];
        let values = values.chunks(1 << 15).map(<[u8]>::to_vec);
        let keys = (0..u32::MAX).map(|n| n.to_be_bytes().to_vec());
        keys.zip(values).collect()
    }

    /// Opens some partitions, and submits a commit of some bytes to each.
    fn submitted(bytes_of_each: &[usize]) -> Partitions {
        let mut partitions = Partitions::new(0, 8);
        for (n, &bytes) in (1..).zip(bytes_of_each) {
            let (id, row) = (
                PartitionId(n),
                HeadRow {
                    epoch: 1,
                    ..HeadRow::default()
                },
            );
            partitions.note_epoch(id, row, None);
            let commit = Commit {
                new_lsn: 1,
                puts: rows_of(bytes),
                ..Commit::default()
            };
            let submitted = partitions.submit(&Lease::new(id, 1, row.head()), commit);
            assert!(submitted.is_ok());
        }
        partitions
    }

    /// Returns the numbers of the partitions whose commits a worker takes.
    fn take_commits(partitions: &mut Partitions) -> Vec<u64> {
        let (works, starts) = partitions.take();
        assert!(starts.is_empty());
        works.iter().map(|work| work.id.0).collect()
    }

    #[test]
    fn commits_of_partitions_go_together_as_far_as_they_fit_one_transaction() {
        let most = GROUP_BYTES;
        let mut partitions = submitted(&[1, most, 2, most + most / 2, 3]);
        assert_eq!(take_commits(&mut partitions), [1, 3, 5]);
        assert_eq!(take_commits(&mut partitions), [2]);
        // A commit that is larger than a group goes alone.
        assert_eq!(take_commits(&mut partitions), [4]);
        assert_eq!(take_commits(&mut partitions), [0u64; 0]);

        let mut partitions = submitted(&[1; GROUP_PARTITIONS + 2]);
        assert_eq!(take_commits(&mut partitions).len(), GROUP_PARTITIONS);
        assert_eq!(take_commits(&mut partitions).len(), 2);
    }

    #[test]
    fn a_partition_under_way_waits_and_other_work_needs_no_worker() {
        let mut partitions = submitted(&[1, 1]);
        assert_eq!(take_commits(&mut partitions), [1, 2]);
        let lease = Lease::new(PartitionId(1), 1, Head::default());
        let next = Commit {
            expect_lsn: 1,
            new_lsn: 2,
            ..Commit::default()
        };
        assert!(partitions.submit(&lease, next).is_ok());
        let (sender, _receiver) = oneshot::channel();
        let id = PartitionId(2);
        assert!(partitions.push(id, Work::Barrier(sender)).is_none());
        // The next work of a partition waits for the end of the work before.
        assert_eq!(take_commits(&mut partitions), [0u64; 0]);
        assert!(
            partitions.go_on(PartitionId(1)).is_none(),
            "a worker is there"
        );
        let start = partitions.go_on(id);
        assert!(matches!(start, Some(Start::Other(_, Work::Barrier(_)))));
        assert_eq!(take_commits(&mut partitions), [1]);
        assert!(partitions.go_on(PartitionId(1)).is_none());
        assert_eq!(partitions.busy(), [id]);
        assert!(partitions.go_on(id).is_none());
        assert!(partitions.busy().is_empty());
    }

    #[test]
    fn commits_that_were_refused_make_way_for_the_work_behind_them() {
        let mut partitions = submitted(&[1, 1]);
        let id = PartitionId(1);
        let (sender, _receiver) = oneshot::channel();
        assert!(partitions.push(id, Work::Open(sender)).is_none());
        partitions.end_lease(id);
        let (works, starts) = partitions.take();
        assert_eq!(works.len(), 1);
        assert!(matches!(starts[..], [Start::Other(_, Work::Open(_))]));
    }

    #[test]
    fn no_more_workers_are_started_than_there_may_be() {
        let mut partitions = Partitions::new(0, 8);
        let mut started = 0;
        for n in 1..20 {
            let id = PartitionId(n);
            let row = HeadRow {
                epoch: 1,
                ..HeadRow::default()
            };
            partitions.note_epoch(id, row, None);
            let commit = Commit {
                new_lsn: 1,
                ..Commit::default()
            };
            let submitted = partitions.submit(&Lease::new(id, 1, row.head()), commit);
            started += usize::from(submitted.is_ok_and(|(_, start)| start.is_some()));
        }
        assert_eq!((started, partitions.workers), (MOST_WORKERS, MOST_WORKERS));
        assert!(!partitions.end_worker(), "partitions wait");
        // A worker that takes long is replaced while partitions wait.
        assert!(matches!(partitions.replace_worker(), Some(Start::Worker)));
        assert_eq!(partitions.workers, MOST_WORKERS);
        while !partitions.take().0.is_empty() {}
        assert!(partitions.replace_worker().is_none());
        for left in (0..MOST_WORKERS - 1).rev() {
            assert!(partitions.end_worker());
            assert_eq!(partitions.workers, left);
        }
    }
}
