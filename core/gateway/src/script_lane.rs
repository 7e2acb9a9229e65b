//! The lane of requests that run scripts: stored procedures, writes with triggers, and queries that
//! call user-defined functions.
//!
//! A request waits here without a thread and without a script process. [`FairQueue`] decides which
//! request runs next; this file adds the clock, the threads and the refusals:
//!
//! * A request that runs for more than [`YOUNG`] becomes long, if its processes have used processor
//!   time in the meantime, and its processes get a low priority. One that waited becomes long after
//!   [`YOUNG_IDLE`], and keeps its priority until its processes have worked.
//! * A request that runs for more than [`OLD`] is old, and may have to end for any group.
//! * A request that must end loses its processes. Its answer is 429, and nothing of it took effect.
//! * A request that waits for more than [`WAIT`], or finds the queue full, is answered with 429.

use crate::fair_queue::{FairQueue, Places, QueueEntry};
use crate::pools::{RETRY_AFTER_MS, on_thread};
use orrery_engine::{Engine, ScriptPlace, Ticket};
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result, Rid, limits};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// The time after which a request is long.
const YOUNG: Duration = Duration::from_millis(60);
/// The processor time that makes a request long after [`YOUNG`].
const WORK: Duration = Duration::from_millis(30);
/// The time after which a request is long whatever it did.
const YOUNG_IDLE: Duration = Duration::from_millis(180);
/// The time after which a request is old.
const OLD: Duration = Duration::from_secs(2);
/// The time that a request may wait for its turn.
const WAIT: Duration = Duration::from_millis(limits::REQUEST_TIME_MS);
/// The length of the queue, in requests.
const QUEUE_LENGTH: usize = 1024;

/// The lane of requests that run scripts.
#[derive(Clone)]
pub(crate) struct ScriptLane {
    state: Arc<Mutex<State>>,
}

struct State {
    /// The requests by database. A sender tells the waiting request that its turn has come.
    queue: FairQueue<Rid, oneshot::Sender<()>>,
    /// The tickets of the requests that run.
    tickets: BTreeMap<QueueEntry, Ticket>,
}

/// A request in the lane. Dropping the value takes the request out.
struct QueuedRequest {
    lane: ScriptLane,
    entry: QueueEntry,
    ticket: Ticket,
    /// Makes the request long after a time.
    aging: Option<tokio::task::AbortHandle>,
}

/// The effect of dropping the future of a request that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// The scripts of the request run to their end: what they write takes effect.
    Continue,
    /// The script processes of the request are ended.
    EndScripts,
}

/// Ends the script processes of a request when the value is dropped.
struct EndOnDrop(Option<Ticket>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(ticket) = &self.0 {
            ticket.end();
        }
    }
}

impl ScriptLane {
    /// Creates a lane for the script processes of an engine.
    pub(crate) fn new(engine: &Engine) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let places = Places::of(engine.script_requests(), cores, QUEUE_LENGTH);
        let state = State {
            queue: FairQueue::new(places),
            tickets: BTreeMap::new(),
        };
        ScriptLane {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Runs `work` on a thread when its turn has come. If the caller drops the future, `work` still
    /// runs to its end, with or without its script processes as `on_drop` says.
    ///
    /// # Errors
    /// 429 if the queue is full or the turn does not come in time; 500 if `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        place: ScriptPlace,
        on_drop: OnDrop,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (turn, has_turn) = oneshot::channel();
        let mut place = self.enter(place, turn)?;
        self.start_requests();
        if tokio::time::timeout(WAIT, has_turn).await.is_err() {
            return Err(refusal(
                "the scripts of other requests did not leave room in time",
            ));
        }
        let (lane, entry, ticket) = (self.clone(), place.entry, place.ticket.clone());
        let aging = tokio::spawn(async move {
            let mut age = Duration::ZERO;
            let mut is_long = false;
            let mut is_lowered = false;
            while age < OLD {
                tokio::time::sleep(YOUNG).await;
                age += YOUNG;
                // A process that waited for the processor needs it soon, and keeps its priority.
                let has_worked = ticket.processor_time().is_none_or(|time| time >= WORK);
                if has_worked && !is_lowered {
                    ticket.lower();
                    is_lowered = true;
                }
                if !is_long && (has_worked || age >= YOUNG_IDLE) {
                    lane.grow_long(entry);
                    is_long = true;
                }
            }
            lane.grow_old(entry);
        });
        place.aging = Some(aging.abort_handle());
        let mut end_on_drop = match on_drop {
            OnDrop::EndScripts => EndOnDrop(Some(place.ticket.clone())),
            OnDrop::Continue => EndOnDrop(None),
        };
        // The thread owns the place, so that the place is free only when the work has ended.
        let result = on_thread(move || {
            let result = place.ticket.run(work);
            drop(place);
            result
        })
        .await;
        end_on_drop.0 = None;
        result
    }

    /// Returns the numbers of requests that run and that wait.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        lock(&self.state).queue.lengths()
    }

    fn enter(&self, place: ScriptPlace, turn: oneshot::Sender<()>) -> Result<QueuedRequest> {
        let mut state = lock(&self.state);
        let entry = state
            .queue
            .enter(place.database, place.exclusive, turn)
            .ok_or_else(|| refusal("too many requests with scripts wait already"))?;
        let ticket = Ticket::default();
        state.tickets.insert(entry, ticket.clone());
        Ok(QueuedRequest {
            lane: self.clone(),
            entry,
            ticket,
            aging: None,
        })
    }

    /// Tells all requests that may run now, and ends a request if another one needs its place.
    fn start_requests(&self) {
        let mut state = lock(&self.state);
        while let Some((_, turn)) = state.queue.start_next() {
            // A request that does not wait any longer leaves by itself.
            let _ = turn.send(());
        }
        let victim = state.queue.choose_victim();
        if let Some(ticket) = victim.and_then(|entry| state.tickets.get(&entry)) {
            ticket.end();
        }
    }

    fn grow_old(&self, entry: QueueEntry) {
        lock(&self.state).queue.grow_old(entry);
        self.start_requests();
    }

    fn grow_long(&self, entry: QueueEntry) {
        lock(&self.state).queue.grow_long(entry);
        self.start_requests();
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        if let Some(aging) = &self.aging {
            aging.abort();
        }
        let mut state = lock(&self.lane.state);
        state.queue.leave(self.entry);
        state.tickets.remove(&self.entry);
        drop(state);
        self.lane.start_requests();
    }
}

/// Returns the refusal of a request with a script.
fn refusal(reason: &str) -> Error {
    let message = format!("Request rate is large: {reason}. Please retry later.");
    Error::new(Kind::Throttled, message).with_retry_after_ms(RETRY_AFTER_MS)
}
