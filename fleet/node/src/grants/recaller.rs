//! The way of recalls to the owners of partitions: a thread of the leaseholder.
//!
//! The engine recalls partitions from any of its threads and waits, so the messages are sent by a
//! thread with connections of its own: no caller needs a worker of the server for that.
//!
//! Promise: each recall ends, with what the owner has given back, or when the grants have expired.

use super::messages::{RecallText, Returned};
use super::wire::{RECALL_PATH, ask};
use crate::forward::{NodesClient, nodes_client};
use crate::{NodesKey, Recall};
use orrery_model::world::World;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

/// The time for the answer of an owner, after which it is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Sends recalls to the owners of partitions.
pub trait SendRecalls: Send + Sync {
    /// Takes partitions back from their owners. Waits until each recall has ended, and calls
    /// `ended` for each. Returns false if a recall could not be carried out.
    fn recall(&self, recalls: Vec<Recall>, ended: &mut dyn FnMut(Recall, Ended)) -> bool;
}

/// The end of a recall.
pub enum Ended {
    /// The owner has given the partitions back.
    Returned(Returned),
    /// The owner did not answer, and owns the partitions no longer.
    Expired,
}

/// A recall, and the caller that waits for its end.
struct Job {
    recall: Recall,
    end: mpsc::Sender<(Recall, Ended)>,
}

/// The thread. It ends when this value is dropped.
pub(crate) struct Recaller {
    jobs: UnboundedSender<Job>,
}

/// The parts that each recall needs.
struct Sender {
    key: NodesKey,
    term: u64,
    world: Arc<dyn World>,
    client: NodesClient,
}

impl Recaller {
    /// Starts the thread of the leaseholder of a term.
    pub(crate) fn start(key: NodesKey, term: u64, world: Arc<dyn World>) -> Recaller {
        let (jobs, receiver) = unbounded_channel();
        let started = std::thread::Builder::new()
            .name("orrery-recall".to_owned())
            .spawn(move || run(receiver, key, term, world));
        // Without the thread the queue is closed, and callers wait until the grants have expired.
        drop(started);
        Recaller { jobs }
    }
}

impl SendRecalls for Recaller {
    /// Takes partitions back. Returns false if the thread does not run.
    fn recall(&self, recalls: Vec<Recall>, ended: &mut dyn FnMut(Recall, Ended)) -> bool {
        let (end, ends) = mpsc::channel();
        let mut are_sent = true;
        for recall in recalls {
            let end = end.clone();
            are_sent &= self.jobs.send(Job { recall, end }).is_ok();
        }
        drop(end);
        for (recall, how) in ends {
            ended(recall, how);
        }
        are_sent
    }
}

/// Carries out jobs until the recaller is dropped.
fn run(mut jobs: UnboundedReceiver<Job>, key: NodesKey, term: u64, world: Arc<dyn World>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let sender = Arc::new(Sender {
            key,
            term,
            world,
            client: nodes_client(),
        });
        while let Some(Job { recall, end }) = jobs.recv().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let how = sender.carry_out(&recall).await;
                // A caller that waits no longer misses nothing.
                let _ = end.send((recall, how));
            });
        }
    });
}

impl Sender {
    /// Asks the owner until it answers or its grants have expired.
    async fn carry_out(&self, recall: &Recall) -> Ended {
        loop {
            // An owner that was silent for so long is not waited for.
            if self.world.monotonic_ms() > recall.until_ms {
                return Ended::Expired;
            }
            if let Ok(Some(returned)) = timeout(ANSWER_TIMEOUT, self.ask(recall)).await {
                return Ended::Returned(returned);
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self, recall: &Recall) -> Option<Returned> {
        let message = RecallText::of(self.term, recall);
        let to = ("recall", recall.owner.address.as_str(), RECALL_PATH);
        ask(&self.client, &self.key, to, &message).await
    }
}
