//! The committer over a sink that a test can pause and fail.

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::receipt::Receipt;
use orrery_test_wait::wait_for;
use std::sync::atomic::AtomicU32;

/// A sink that keeps its groups in a list. With a gate, `write` reports that a group began and
/// waits until the test lets the group pass.
#[derive(Default)]
struct GroupLog {
    groups: Mutex<Vec<Vec<u32>>>,
    gate: Option<Gate>,
    fail_from: Option<usize>,
    /// The cause of the failure, and what happens then.
    exhausted: Option<Exhausted>,
    reopened: AtomicU32,
    can_reopen: AtomicBool,
    has_resource: AtomicBool,
}

struct Gate {
    began: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Sink for GroupLog {
    type Task = u32;

    fn write(&self, group: Vec<u32>) -> Result<(), Failure> {
        if let Some(gate) = &self.gate {
            gate.began.send(()).unwrap();
            gate.go.lock().unwrap().recv().unwrap();
        }
        let mut groups = self.groups.lock().unwrap();
        groups.push(group);
        match self.fail_from {
            Some(n) if groups.len() >= n => Err(Failure {
                detail: "the disk said no".to_owned(),
                exhausted: self.exhausted,
                is_written: true,
            }),
            _ => Ok(()),
        }
    }

    fn reopen(&self, accepted: &OwnershipTable) -> Result<Reopened, String> {
        self.reopened.fetch_add(1, Ordering::SeqCst);
        if !self.can_reopen.load(Ordering::SeqCst) {
            return Err("readers hold it".to_owned());
        }
        Ok(Reopened {
            ownership: accepted.clone(),
            is_group_cut: true,
        })
    }

    fn has_resource(&self, _: Exhausted) -> bool {
        self.has_resource.load(Ordering::SeqCst)
    }
}

fn committer(log: GroupLog) -> Arc<Committer<GroupLog>> {
    Arc::new(Committer::new(log, OwnershipTable::default()))
}

fn submit(committer: &Arc<Committer<GroupLog>>, task: u32) -> Receipt {
    match committer.submit(1, |_| Ok(task)) {
        Ok(slot) => Receipt::pending(Ticket::new(committer.clone(), slot)),
        Err(refusal) => Receipt::ready(refusal),
    }
}

fn groups(committer: &Committer<GroupLog>) -> Vec<Vec<u32>> {
    committer.sink().groups.lock().unwrap().clone()
}

/// A log with a gate, the receiver that hears of each begun group, and the sender that lets a group
/// pass.
fn gated_log() -> (GroupLog, Receiver<()>, Sender<()>) {
    let (began, on_begin) = channel();
    let (go, on_go) = channel();
    let gate = Gate {
        began,
        go: Mutex::new(on_go),
    };
    let log = GroupLog {
        gate: Some(gate),
        ..GroupLog::default()
    };
    (log, on_begin, go)
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_lone_waiter_writes_all_queued_tasks_itself_and_no_thread_is_started() {
    let committer = committer(GroupLog::default());
    let receipts = [1, 2, 3].map(|n| submit(&committer, n));
    assert!(groups(&committer).is_empty());
    for receipt in receipts {
        assert_eq!(receipt.wait(), CommitOutcome::Ok);
    }
    assert_eq!(groups(&committer), vec![vec![1, 2, 3]]);
    assert!(committer.thread.lock().unwrap().is_none());
}

#[test]
fn a_polled_receipt_is_written_by_the_background_thread() {
    let committer = committer(GroupLog::default());
    assert_eq!(block_on(submit(&committer, 7)), CommitOutcome::Ok);
    assert_eq!(block_on(submit(&committer, 8)), CommitOutcome::Ok);
    assert_eq!(groups(&committer), vec![vec![7], vec![8]]);
    committer.close();
}

#[test]
fn the_commit_of_a_dropped_receipt_is_written() {
    let (log, began, go) = gated_log();
    let committer = committer(log);
    drop(submit(&committer, 1));
    began.recv().unwrap();
    go.send(()).unwrap();
    committer.close();
    assert_eq!(groups(&committer), vec![vec![1]]);
}

#[test]
fn the_next_group_gathers_while_one_is_written_and_its_waiter_leads_it() {
    let (log, began, go) = gated_log();
    let committer = committer(log);
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        began.recv().unwrap();
        let second = submit(&committer, 2);
        let third = submit(&committer, 3);
        let follower = scope.spawn(move || second.wait());
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Ok);
        began.recv().unwrap();
        go.send(()).unwrap();
        assert_eq!(follower.join().unwrap(), CommitOutcome::Ok);
        assert_eq!(third.wait(), CommitOutcome::Ok);
    });
    assert_eq!(groups(&committer), vec![vec![1], vec![2, 3]]);
}

/// The first future may be polled while a thread leads and the background thread does not exist
/// yet.
#[test]
fn a_leading_thread_hands_over_to_a_background_thread_started_meanwhile() {
    let (log, began, go) = gated_log();
    let committer = committer(log);
    let first = submit(&committer, 1);
    std::thread::scope(|scope| {
        let leader = scope.spawn(move || first.wait());
        began.recv().unwrap();
        drop(submit(&committer, 2));
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Ok);
        began
            .recv_timeout(Duration::from_secs(60))
            .expect("the second group is led");
        go.send(()).unwrap();
    });
    committer.close();
    assert_eq!(groups(&committer), vec![vec![1], vec![2]]);
}

#[test]
fn after_a_failed_group_nothing_is_acknowledged_or_accepted() {
    let (log, began, go) = gated_log();
    let committer = committer(GroupLog {
        fail_from: Some(1),
        ..log
    });
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        began.recv().unwrap();
        let queued = submit(&committer, 2);
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Unknown);
        assert_eq!(
            queued.wait(),
            CommitOutcome::Unavailable {
                retry_after_ms: RETRY_POISONED_MS
            },
            "a task that was not written has not happened"
        );
    });
    assert_eq!(
        submit(&committer, 3).wait(),
        CommitOutcome::Unavailable {
            retry_after_ms: RETRY_POISONED_MS
        }
    );
    assert_eq!(committer.failure().unwrap().detail, "the disk said no");
    assert_eq!(groups(&committer), vec![vec![1]]);
    assert_eq!(committer.sink().reopened.load(Ordering::SeqCst), 0);
}

#[test]
fn a_group_that_failed_for_want_of_space_did_not_happen_once_the_sink_is_reopened() {
    let committer = committer(GroupLog {
        fail_from: Some(1),
        exhausted: Some(Exhausted::Disk),
        can_reopen: true.into(),
        ..GroupLog::default()
    });
    let full = CommitOutcome::StorageFull {
        retry_after_ms: RETRY_EXHAUSTED_MS,
    };
    assert_eq!(submit(&committer, 1).wait(), full);
    assert_eq!(submit(&committer, 2).wait(), full);
    assert_eq!(groups(&committer), vec![vec![1]]);
    assert_eq!(committer.sink().reopened.load(Ordering::SeqCst), 1);
    committer.close();
}

#[test]
fn writing_resumes_without_a_call_when_the_sink_can_be_reopened_and_has_the_resource() {
    let committer = committer(GroupLog {
        fail_from: Some(1),
        exhausted: Some(Exhausted::Descriptors),
        ..GroupLog::default()
    });
    assert_eq!(submit(&committer, 1).wait(), CommitOutcome::Unknown);
    let refusal = CommitOutcome::Unavailable {
        retry_after_ms: RETRY_EXHAUSTED_MS,
    };
    assert_eq!(submit(&committer, 2).wait(), refusal);
    committer.sink().can_reopen.store(true, Ordering::SeqCst);
    let reopened = || committer.sink().reopened.load(Ordering::SeqCst);
    let needs_reopening = || {
        let queue = committer.lock_queue();
        queue
            .stopped
            .as_ref()
            .map(|stopped| stopped.needs_reopening)
    };
    wait_for("the sink is reopened", needs_reopening, |needs| {
        *needs == Some(false)
    });
    let attempts = reopened();
    assert_eq!(submit(&committer, 3).wait(), refusal);
    committer.sink().has_resource.store(true, Ordering::SeqCst);
    wait_for(
        "commits are accepted",
        || committer.refusal(),
        Option::is_none,
    );
    assert_eq!(reopened(), attempts, "the sink is reopened once");
    committer.close();
}

#[test]
fn unknown_failures_that_follow_one_another_end_in_a_state_that_only_a_restart_leaves() {
    let committer = committer(GroupLog {
        fail_from: Some(1),
        exhausted: Some(Exhausted::Unknown),
        can_reopen: true.into(),
        has_resource: true.into(),
        ..GroupLog::default()
    });
    for _ in 0..=UNKNOWN_FAILURES_MAX {
        wait_for(
            "commits are accepted",
            || committer.refusal(),
            Option::is_none,
        );
        let outcome = submit(&committer, 1).wait();
        assert_ne!(outcome, CommitOutcome::Ok);
    }
    assert_eq!(committer.failure().unwrap().exhausted, None);
    committer.close();
}

#[test]
fn a_full_queue_answers_busy_until_it_is_written() {
    let (log, began, go) = gated_log();
    let committer = committer(log);
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        began.recv().unwrap();
        let large = committer
            .submit(QUEUE_BYTES_MAX + 1, |_| Ok(2))
            .expect("a task is accepted until the limit is passed");
        let refused = committer.submit(1, |_| panic!("a refused task is not examined"));
        assert_eq!(
            refused.err(),
            Some(CommitOutcome::Busy {
                retry_after_ms: RETRY_FULL_MS
            })
        );
        go.send(()).unwrap();
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Ok);
        assert_eq!(committer.wait(&large), CommitOutcome::Ok);
    });
    assert_eq!(submit(&committer, 3).wait(), CommitOutcome::Ok);
    assert_eq!(groups(&committer), vec![vec![1], vec![2], vec![3]]);
    committer.close();
}

#[test]
fn threads_and_futures_together_are_all_answered_in_order_of_acceptance() {
    let committer = committer(GroupLog::default());
    std::thread::scope(|scope| {
        for writer in 0..8u32 {
            let committer = &committer;
            scope.spawn(move || {
                for n in 0..500 {
                    let receipt = submit(committer, writer * 1000 + n);
                    let outcome = match (writer + n) % 3 {
                        0 => receipt.wait(),
                        1 => block_on(receipt),
                        _ => {
                            drop(receipt);
                            CommitOutcome::Ok
                        }
                    };
                    assert_eq!(outcome, CommitOutcome::Ok);
                }
            });
        }
    });
    assert_eq!(submit(&committer, u32::MAX).wait(), CommitOutcome::Ok);
    let written: Vec<u32> = groups(&committer).concat();
    assert_eq!(written.len(), 8 * 500 + 1);
    for writer in 0..8 {
        assert!(written.iter().filter(|n| *n / 1000 == writer).is_sorted());
    }
    committer.close();
}

/// The answer may arrive after a thread was made leader and before it leads. The thread must then
/// lead once and hand over.
#[test]
fn a_leader_whose_answer_arrived_already_hands_over() {
    let committer = committer(GroupLog::default());
    let slot = committer.submit(1, |_| Ok(1)).unwrap();
    committer.lock_queue().has_leader = true;
    slot.lock().must_lead = true;
    slot.lock().outcome = Some(CommitOutcome::Ok);
    assert_eq!(committer.wait(&slot), CommitOutcome::Ok);
    assert!(!committer.lock_queue().has_leader);
}
