//! The committer over a sink that a test can stop and break.

use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::receipt::Receipt;

/// Writes down its groups. With a gate, each group says that it began and waits to be let through.
#[derive(Default)]
struct Log {
    groups: Mutex<Vec<Vec<u32>>>,
    gate: Option<Gate>,
    fail_from: Option<usize>,
}

struct Gate {
    began: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Sink for Log {
    type Work = u32;

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

fn committer(log: Log) -> Arc<Committer<Log>> {
    Arc::new(Committer::new(log, Owners::default()))
}

fn submit(committer: &Arc<Committer<Log>>, work: u32) -> Receipt {
    match committer.submit(1, |_| Ok(work)) {
        Ok(slot) => Receipt::pending(Ticket::new(committer.clone(), slot)),
        Err(refusal) => Receipt::ready(refusal),
    }
}

fn groups(committer: &Committer<Log>) -> Vec<Vec<u32>> {
    committer.sink().groups.lock().unwrap().clone()
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is.
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
fn a_lone_waiter_writes_everything_queued_himself_and_no_thread_is_started() {
    let committer = committer(Log::default());
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
    let committer = committer(Log::default());
    assert_eq!(block_on(submit(&committer, 7)), CommitOutcome::Ok);
    assert_eq!(block_on(submit(&committer, 8)), CommitOutcome::Ok);
    assert_eq!(groups(&committer), vec![vec![7], vec![8]]);
    committer.close();
}

#[test]
fn a_dropped_receipt_is_written_all_the_same() {
    let (began, on_begin) = channel();
    let (go, gate) = channel();
    let committer = committer(Log {
        gate: Some(Gate {
            began,
            go: Mutex::new(gate),
        }),
        ..Log::default()
    });
    drop(submit(&committer, 1));
    on_begin.recv().unwrap();
    go.send(()).unwrap();
    committer.close();
    assert_eq!(groups(&committer), vec![vec![1]]);
}

#[test]
fn the_next_group_gathers_while_one_is_written_and_a_waiter_takes_it_over() {
    let (began, on_begin) = channel();
    let (go, gate) = channel();
    let committer = committer(Log {
        gate: Some(Gate {
            began,
            go: Mutex::new(gate),
        }),
        ..Log::default()
    });
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        on_begin.recv().unwrap();
        let second = submit(&committer, 2);
        let third = submit(&committer, 3);
        let follower = scope.spawn(move || second.wait());
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Ok);
        on_begin.recv().unwrap();
        go.send(()).unwrap();
        assert_eq!(follower.join().unwrap(), CommitOutcome::Ok);
        assert_eq!(third.wait(), CommitOutcome::Ok);
    });
    assert_eq!(groups(&committer), vec![vec![1], vec![2, 3]]);
}

/// The first future may come while a thread leads, when nobody has needed the background thread yet.
#[test]
fn a_leading_thread_hands_over_to_the_background_thread_although_there_was_none() {
    let (began, on_begin) = channel();
    let (go, gate) = channel();
    let committer = committer(Log {
        gate: Some(Gate {
            began,
            go: Mutex::new(gate),
        }),
        ..Log::default()
    });
    let first = submit(&committer, 1);
    std::thread::scope(|scope| {
        let leader = scope.spawn(move || first.wait());
        on_begin.recv().unwrap();
        drop(submit(&committer, 2));
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap(), CommitOutcome::Ok);
        on_begin
            .recv_timeout(Duration::from_secs(10))
            .expect("the second group is led");
        go.send(()).unwrap();
    });
    committer.close();
    assert_eq!(groups(&committer), vec![vec![1], vec![2]]);
}

#[test]
fn after_a_failed_group_nothing_is_acknowledged_or_accepted() {
    let (began, on_begin) = channel();
    let (go, gate) = channel();
    let gate = Some(Gate {
        began,
        go: Mutex::new(gate),
    });
    let committer = committer(Log {
        gate,
        fail_from: Some(1),
        ..Log::default()
    });
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        on_begin.recv().unwrap();
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
fn a_full_queue_is_busy_and_takes_more_when_it_is_written() {
    let (began, on_begin) = channel();
    let (go, gate) = channel();
    let gate = Some(Gate {
        began,
        go: Mutex::new(gate),
    });
    let committer = committer(Log {
        gate,
        ..Log::default()
    });
    std::thread::scope(|scope| {
        let first = submit(&committer, 1);
        let leader = scope.spawn(move || first.wait());
        on_begin.recv().unwrap();
        let large = committer
            .submit(QUEUE_BYTES_MAX + 1, |_| Ok(2))
            .expect("there is room until it is taken");
        let refused = committer.submit(1, |_| panic!("nobody looks at what is turned away"));
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
fn threads_and_futures_mixed_all_get_their_answer_in_order_of_acceptance() {
    let committer = committer(Log::default());
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

/// The answer may come between being made leader and leading: then the lead must still be taken and handed on.
#[test]
fn a_leader_whose_answer_came_meanwhile_does_not_keep_the_lead() {
    let committer = committer(Log::default());
    let slot = committer.submit(1, |_| Ok(1)).unwrap();
    committer.lock().led = true;
    slot.lock().lead = true;
    slot.lock().outcome = Some(CommitOutcome::Ok);
    assert_eq!(committer.wait(&slot), CommitOutcome::Ok);
    assert!(!committer.lock().led);
}
