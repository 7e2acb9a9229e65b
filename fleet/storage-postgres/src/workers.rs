//! The workers of a store: they take the work of partitions that wait for the server, and bring it
//! there.
//!
//! The commits of several partitions go together as one transaction, so that one wait for the log
//! of the server serves all of them. There are few workers: while they wait for the server, further
//! commits gather. Other work of a partition is done in a task of its own.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use orrery_storage::{CommitOutcome, PartitionId};

use crate::connector::Session;
use crate::partitions::{Answer, CommitWork, Taken, Work};
use crate::pool::Place;
use crate::steps::{self, PAUSE, unavailable};
use crate::store::{RETRY_MS, Shared};
use crate::transaction::{self, Verdict};

/// Milliseconds that a caller is told to wait after a commit that a server has refused.
const REFUSED_RETRY_MS: u64 = 10_000;

/// Partitions whose work is under way. Dropping the value before the end of the work, because the
/// store ends, leaves no caller without an answer.
struct UnderWay {
    shared: Arc<Shared>,
    ids: Vec<PartitionId>,
}

impl UnderWay {
    fn of(shared: &Arc<Shared>, ids: Vec<PartitionId>) -> UnderWay {
        UnderWay {
            shared: shared.clone(),
            ids,
        }
    }

    /// Ends the work. Partitions that have more work wait for a worker again.
    fn end(mut self) {
        let mut partitions = self.shared.partitions();
        for id in std::mem::take(&mut self.ids) {
            partitions.end_work(id);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut partitions = self.shared.partitions();
        for &id in &self.ids {
            partitions.abandon_work(id);
        }
    }
}

/// Works until no partition waits.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        if shared.partitions().end_worker() {
            return;
        }
        let found = steps::session(&shared).await;
        // Taken only now, so that all commits that came meanwhile go along.
        let taken = shared.partitions().take();
        match (taken, found) {
            (None, Ok((place, session))) => place.give_back(session),
            (None, Err(_)) => {}
            (Some(Taken::Commits(works)), found) => {
                let ids = works.iter().map(|work| work.id).collect();
                let under_way = UnderWay::of(&shared, ids);
                match found {
                    Ok((place, session)) => commit(&shared, works, place, session).await,
                    Err(_) => refuse(&shared, &works, unavailable()),
                }
                under_way.end();
            }
            (Some(Taken::Other(id, work)), found) => {
                let reached = found.map(|(place, session)| place.give_back(session));
                shared
                    .runtime
                    .spawn(do_other(shared.clone(), id, work, reached));
            }
        }
    }
}

/// Does work that is no commit. `reached` tells if there was a connection.
async fn do_other(shared: Arc<Shared>, id: PartitionId, work: Work, reached: Result<(), String>) {
    let under_way = UnderWay::of(&shared, vec![id]);
    match (work, reached) {
        (Work::Barrier(answer), _) => reply(answer, Ok(())),
        (Work::Open(answer), Ok(())) => reply(answer, steps::open(&shared, id).await),
        (Work::Open(answer), Err(reason)) => reply(answer, Err(reason)),
        (Work::Destroy(answer), Ok(())) => reply(answer, steps::destroy(&shared, id).await),
        (Work::Destroy(answer), Err(reason)) => reply(answer, Err(reason)),
    }
    under_way.end();
    shared.start_worker();
}

fn reply<T>(answer: Answer<T>, result: Result<T, String>) {
    // A caller that waits no longer misses nothing.
    let _ = answer.send(result);
}

/// Answers commits that were not applied, and takes back those that count on them.
fn refuse(shared: &Shared, works: &[CommitWork], outcome: CommitOutcome) {
    let mut partitions = shared.partitions();
    for work in works {
        partitions.take_back(work.id, outcome);
        partitions.answer(work, outcome);
    }
}

/// Runs one transaction to an answer.
async fn commit(
    shared: &Arc<Shared>,
    works: Vec<CommitWork>,
    mut place: Place,
    mut session: Session,
) {
    let limit = shared.connector.config.commit_timeout();
    let deadline = Instant::now() + limit;
    loop {
        let begun = Instant::now();
        let verdict = transaction::run(&session, &works, limit).await;
        let is_late = Instant::now() > deadline;
        let outcome = match verdict {
            Verdict::Done(moved) => {
                place.give_back(session);
                return answer_done(shared, &works, &moved, begun);
            }
            Verdict::Repeat if !is_late => {
                tokio::time::sleep(PAUSE / 10).await;
                continue;
            }
            Verdict::NotPrimary(_) if !is_late => {
                shared.connector.suspect(session.host);
                // The connection is of no use, and its place is needed for the next one.
                drop((session, place));
                match steps::session(shared).await {
                    Ok(next) => (place, session) = next,
                    Err(_) => return refuse(shared, &works, unavailable()),
                }
                continue;
            }
            Verdict::Unknown(reason) => {
                shared.connector.suspect(session.host);
                drop((session, place));
                let resolved = works
                    .iter()
                    .map(|work| steps::resolve(shared, work, &reason));
                let outcomes = join_all(resolved).await;
                let mut partitions = shared.partitions();
                for (work, outcome) in works.iter().zip(outcomes) {
                    partitions.answer(work, outcome);
                }
                return;
            }
            // One partition must not fail because of another one.
            Verdict::Full(_) | Verdict::Failed(_) if works.len() > 1 => {
                drop((session, place));
                return commit_alone(shared, works).await;
            }
            Verdict::Full(reason) => {
                log::error!("partition {}: {reason}", works[0].id);
                CommitOutcome::StorageFull {
                    retry_after_ms: RETRY_MS,
                }
            }
            Verdict::Failed(reason) => {
                let id = works[0].id;
                log::error!("partition {id}: the server refused a commit: {reason}");
                // The next attempt is likely to be refused as well.
                CommitOutcome::Unavailable {
                    retry_after_ms: REFUSED_RETRY_MS,
                }
            }
            Verdict::Repeat | Verdict::NotPrimary(_) => unavailable(),
        };
        return refuse(shared, &works, outcome);
    }
}

/// Runs the commits of each partition as a transaction of their own.
async fn commit_alone(shared: &Arc<Shared>, works: Vec<CommitWork>) {
    for work in works {
        match steps::session(shared).await {
            Ok((place, session)) => Box::pin(commit(shared, vec![work], place, session)).await,
            Err(_) => refuse(shared, &[work], unavailable()),
        }
    }
}

/// Answers the commits of a transaction that took place, in the partitions whose heads were moved.
/// A head that was not the expected one is that of another owner.
fn answer_done(shared: &Shared, works: &[CommitWork], moved: &[bool], begun: Instant) {
    for (work, is_moved) in works.iter().zip(moved) {
        if *is_moved {
            shared.note_committed(work, begun);
            work.answer(CommitOutcome::Ok);
        } else {
            let mut partitions = shared.partitions();
            partitions.end_lease(work.id);
            partitions.answer(work, CommitOutcome::Fenced);
        }
    }
}
