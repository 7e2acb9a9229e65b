//! The workers of a store: they take the work of partitions that wait for the server, and bring it
//! there.
//!
//! The commits of several partitions go together as one transaction, so that one wait for the log
//! of the server serves all of them. There are few workers: while they wait for the server, further
//! commits gather. A transaction that takes long does not count. Other work of a partition is done
//! in a task of its own, in its turn among the commits of the partition.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use orrery_storage::{CommitOutcome, PartitionId};
use tokio::time::timeout;

use crate::connector::Session;
use crate::identity::name_of;
use crate::partitions::{Answer, CommitWork, Work};
use crate::pool::Place;
use crate::steps::{self, PAUSE, unavailable};
use crate::store::{RETRY_MS, Shared};
use crate::transaction::{self, Verdict};

/// Milliseconds that a caller is told to wait after a commit that a server has refused.
const REFUSED_RETRY_MS: u64 = 10_000;

/// The time after which a transaction does not count as one of those that gather commits: another
/// worker takes what waits.
const SLOW: Duration = Duration::from_millis(100);

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

    /// Takes the partitions of some work, which goes on elsewhere.
    fn split_off(&mut self, works: &[CommitWork]) -> UnderWay {
        let ids: Vec<PartitionId> = works.iter().map(|work| work.id).collect();
        self.ids.retain(|id| !ids.contains(id));
        UnderWay::of(&self.shared, ids)
    }

    /// Ends the work, and sees to the next work of the partitions.
    fn end(mut self) {
        for id in std::mem::take(&mut self.ids) {
            let start = self.shared.partitions().go_on(id);
            self.shared.start(start);
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

/// A worker that is counted. Dropping the value before the end of the worker starts another one if
/// partitions wait.
struct Counted {
    shared: Arc<Shared>,
    is_counted: bool,
}

impl Counted {
    /// Returns true if the worker ends, since no partition waits.
    fn has_ended(&mut self) -> bool {
        let has_ended = self.shared.partitions().end_worker();
        self.is_counted = !has_ended;
        has_ended
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_counted {
            let start = self.shared.partitions().replace_worker();
            self.shared.start(start);
        }
    }
}

/// Works until no commit waits.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut counted = Counted {
        shared: shared.clone(),
        is_counted: true,
    };
    while !counted.has_ended() {
        let found = steps::session(&shared).await;
        // Taken only now, so that all commits that came meanwhile go along.
        let (works, starts) = shared.partitions().take();
        starts
            .into_iter()
            .for_each(|start| shared.start(Some(start)));
        let ids = works.iter().map(|work| work.id).collect();
        let mut under_way = UnderWay::of(&shared, ids);
        let mut work = pin!(async {
            match found {
                Ok((place, session)) if works.is_empty() => place.give_back(session),
                Ok((place, session)) => {
                    let left = commit(&shared, works, place, session).await;
                    let under_way = under_way.split_off(&left);
                    for_each_alone(left, under_way);
                }
                Err(_) => refuse(&shared, &works, unavailable()),
            }
            under_way.end();
        });
        if timeout(SLOW, &mut work).await.is_err() {
            drop(counted);
            work.await;
            return shared.start_worker();
        }
    }
}

/// Starts a transaction for each partition.
fn for_each_alone(works: Vec<CommitWork>, mut all_under_way: UnderWay) {
    for work in works {
        let work = vec![work];
        let under_way = all_under_way.split_off(&work);
        let shared = under_way.shared.clone();
        shared.runtime.clone().spawn(async move {
            match steps::session(&shared).await {
                // A transaction of one partition leaves nothing.
                Ok((place, session)) => drop(commit(&shared, work, place, session).await),
                Err(_) => refuse(&shared, &work, unavailable()),
            }
            under_way.end();
            shared.start_worker();
        });
    }
}

/// Does work that is no commit.
pub(crate) async fn do_other(shared: Arc<Shared>, id: PartitionId, work: Work) {
    let under_way = UnderWay::of(&shared, vec![id]);
    match work {
        Work::Barrier(answer) => reply(answer, Ok(())),
        Work::Open(answer) => reply(answer, steps::open(&shared, id).await),
        Work::Destroy(answer) => reply(answer, steps::destroy(&shared, id).await),
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

/// Runs one transaction to an answer. Returns the commits that need a transaction of their own:
/// one partition must not wait for another one, nor fail because of it.
async fn commit(
    shared: &Shared,
    works: Vec<CommitWork>,
    mut place: Place,
    mut session: Session,
) -> Vec<CommitWork> {
    let limit = shared.connector.config.commit_timeout();
    let deadline = Instant::now() + limit;
    loop {
        let begun = Instant::now();
        let verdict = transaction::run(&session, &works, limit).await;
        let is_late = Instant::now() > deadline;
        let outcome = match verdict {
            Verdict::Done(moved) => {
                place.give_back(session);
                return answer_done(shared, works, &moved, begun);
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
                    Err(_) => {
                        refuse(shared, &works, unavailable());
                        return Vec::new();
                    }
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
                return Vec::new();
            }
            Verdict::Full(_) | Verdict::Failed(..) if works.len() > 1 => return works,
            Verdict::Full(reason) => {
                log::error!("{}: {reason}", name_of(works[0].id));
                CommitOutcome::StorageFull {
                    retry_after_ms: RETRY_MS,
                }
            }
            Verdict::Failed(code, detail) => {
                let reason = shared.connector.note_refusal(&code, &detail);
                let name = name_of(works[0].id);
                log::error!("{name}: the server refused a commit: {reason}");
                // The next attempt is likely to be refused as well.
                CommitOutcome::Unavailable {
                    retry_after_ms: REFUSED_RETRY_MS,
                }
            }
            Verdict::Repeat | Verdict::NotPrimary(_) => unavailable(),
        };
        refuse(shared, &works, outcome);
        return Vec::new();
    }
}

/// Answers the commits of a transaction that took place, in the partitions whose heads were moved.
/// Returns the others, if there were several partitions: their heads may only have been locked. A
/// head that was not moved by a transaction of its own is that of another owner.
fn answer_done(
    shared: &Shared,
    works: Vec<CommitWork>,
    moved: &[bool],
    begun: Instant,
) -> Vec<CommitWork> {
    let is_alone = works.len() == 1;
    let mut left = Vec::new();
    for (work, is_moved) in works.into_iter().zip(moved) {
        if *is_moved {
            shared.note_committed(&work, begun);
            work.answer(CommitOutcome::Ok);
        } else if is_alone {
            let mut partitions = shared.partitions();
            partitions.end_lease(work.id);
            partitions.answer(&work, CommitOutcome::Fenced);
        } else {
            left.push(work);
        }
    }
    left
}
