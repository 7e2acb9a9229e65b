//! The committer over a sink that a test can pause and fail.

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::receipt::Receipt;

/// A sink that keeps its groups in a list. With a gate, `write` reports that a group began and
/// waits until the test lets the group pass.
#[derive(Default)]
struct GroupLog {
    groups: Mutex<Vec<Vec<u32>>>,
    gate: Option<Gate>,
    fail_from: Option<usize>,
}

struct Gate {
    began: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Sink for GroupLog {
    type Task = u32;

    fn write(&self, group: Vec<u32>) -> Result<(), String> {
        if let Some(gate) = &self.gate {
            gate.began.send(()).map_err(|e| e.to_string())?;
            gate.go
                .lock()
                .map_err(|e| e.to_string())?
                .recv()
                .map_err(|e| e.to_string())?;
        }
        let mut groups = self.groups.lock().map_err(|e| e.to_string())?;
        groups.push(group);
        match self.fail_from {
            Some(n) if groups.len() >= n => Err("the disk said no".to_owned()),
            _ => Ok(()),
        }
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
            .recv_timeout(Duration::from_secs(10))
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
        assert_eq!(queued.wait(), CommitOutcome::Unknown);
    });
    assert_eq!(
        submit(&committer, 3).wait(),
        CommitOutcome::Unavailable {
            retry_after_ms: RETRY_POISONED_MS
        }
    );
    assert_eq!(committer.poisoned().as_deref(), Some("the disk said no"));
    assert_eq!(groups(&committer), vec![vec![1]]);
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
