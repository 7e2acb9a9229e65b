//! Connections that are kept for the next use, with a bound on how many there are.
//!
//! Callers that find all connections in use wait in the order of their requests. A connection that
//! becomes free goes to the first of them, and never to a caller that came later. The connections
//! of a new pool are made by few callers at the same time, and meanwhile serve those that wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use orrery_model::sync::lock;
use orrery_storage::PartitionId;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connector::{Connector, Purpose, Session};
use crate::head::HeadRow;

/// The first connections to a primary that a pool makes at the same time. A new connection costs
/// the server as much as many requests do: many at once delay the requests for which they are made.
/// Places whose connections have broken connect again without this limit.
const MAKING: usize = 2;

/// Connections of one purpose.
pub(crate) struct Pool {
    connector: Arc<Connector>,
    purpose: Purpose,
    idle: Mutex<Vec<Session>>,
    queue: Mutex<Queue>,
}

/// The places of a pool, and the callers that wait for one.
struct Queue {
    /// Places that no caller has, and that had a connection before. While a caller waits there are
    /// none.
    free: usize,
    /// Places that no caller has, and that never had a connection.
    new: usize,
    /// Callers that make the first connection of a place, and the most that may do so.
    making: usize,
    most_making: usize,
    /// The caller that waits longest is the first.
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to one connection of a pool. Dropping the place gives the right to the next caller.
pub(crate) struct Place {
    pool: Arc<Pool>,
    /// The place never had a connection.
    is_new: AtomicBool,
}

/// An open transaction that shows partitions.
pub(crate) struct OpenSnapshot {
    pub(crate) place: Place,
    pub(crate) session: Session,
    /// The only partition that the transaction shows; `None` if there are several.
    pub(crate) partition: Option<PartitionId>,
    /// The head of the first partition.
    pub(crate) row: HeadRow,
    /// Before the transaction was started.
    pub(crate) begun: Instant,
    /// After the transaction had its view.
    pub(crate) seen: Instant,
}

/// A place that a caller has waited for.
pub(crate) enum Turn {
    Place(Place),
    /// The place with its connection, whose transaction is still open.
    Open(Box<OpenSnapshot>),
}

/// A caller that waits for a place. Dropping the value gives the turn to the next caller.
pub(crate) struct Waiting(oneshot::Receiver<Turn>);

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>, purpose: Purpose, most: usize) -> Arc<Pool> {
        Arc::new(Pool {
            connector,
            purpose,
            idle: Mutex::new(Vec::new()),
            queue: Mutex::new(Queue {
                free: 0,
                new: most,
                making: 0,
                // A read that gets no connection to a standby at once goes elsewhere.
                most_making: match purpose {
                    Purpose::Follow(_) => most,
                    Purpose::Read | Purpose::Write => MAKING,
                },
                waiting: VecDeque::new(),
            }),
        })
    }

    /// Waits until there are fewer connections in use than the pool may have.
    pub(crate) async fn place(self: &Arc<Self>) -> Result<Place, String> {
        let waiting = match self.ask() {
            Ok(place) => return Ok(place),
            Err(waiting) => waiting,
        };
        match waiting.turn().await? {
            Turn::Place(place) => Ok(place),
            Turn::Open(open) => Ok(open.place),
        }
    }

    /// Returns a place if one is free, or if a further connection may be made now. Otherwise makes
    /// the caller the last of those that wait.
    pub(crate) fn ask(self: &Arc<Self>) -> Result<Place, Waiting> {
        let mut queue = lock(&self.queue);
        if let Some(is_new) = queue.take() {
            return Ok(self.place_of(is_new));
        }
        let (sender, receiver) = oneshot::channel();
        queue.waiting.push_back(sender);
        Err(Waiting(receiver))
    }

    /// Returns a place if one is free, or if a further connection may be made now.
    pub(crate) fn free_place(self: &Arc<Self>) -> Option<Place> {
        let is_new = lock(&self.queue).take()?;
        Some(self.place_of(is_new))
    }

    fn place_of(self: &Arc<Self>, is_new: bool) -> Place {
        Place {
            pool: self.clone(),
            is_new: AtomicBool::new(is_new),
        }
    }

    /// Changes the queue, and gives the places that became free by that to the callers that wait
    /// longest. A caller that asks meanwhile comes after them.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Queue)) {
        let mut served = Vec::new();
        {
            let mut queue = lock(&self.queue);
            change(&mut queue);
            while let Some((caller, is_new)) = queue.serve() {
                served.push((caller, self.place_of(is_new)));
            }
        }
        for (caller, place) in served {
            // A caller that has just given up leaves the place, whose drop serves the next one.
            drop(caller.send(Turn::Place(place)));
        }
    }

    fn idle_session(&self) -> Option<Session> {
        while let Some(session) = lock(&self.idle).pop() {
            if self.connector.is_trusted(&session) {
                return Some(session);
            }
        }
        None
    }

    /// Returns true if a connection in no use can be used.
    pub(crate) fn has_idle(&self) -> bool {
        let idle = lock(&self.idle);
        idle.iter()
            .any(|session| self.connector.is_trusted(session))
    }

    /// Makes a connection for later use. The next caller hears of a failure.
    pub(crate) async fn prepare_session(self: &Arc<Self>) {
        if let Some(place) = self.free_place()
            && let Ok(session) = place.session().await
        {
            place.give_back(session);
        }
    }

    /// Closes the connections in no use that do not answer within a time, and those to servers that
    /// are not `wanted`.
    pub(crate) async fn test_idle(&self, limit: Duration, wanted: impl Fn(usize) -> bool) {
        let mut idle = std::mem::take(&mut *lock(&self.idle));
        idle.retain(|session| wanted(session.host));
        let tests = idle.into_iter().map(|session| async move {
            let answer = session.run(session.client.simple_query("SELECT 1"));
            let answers = matches!(timeout(limit, answer).await, Ok(Ok(_)));
            answers.then_some(session)
        });
        let sound = join_all(tests).await.into_iter().flatten();
        lock(&self.idle).extend(sound);
    }

    /// Returns true if a caller waits for a place.
    pub(crate) fn is_waited_for(&self) -> bool {
        let queue = lock(&self.queue);
        queue.waiting.iter().any(|caller| !caller.is_closed())
    }
}

impl Queue {
    /// Takes a place that no caller has. Returns true for one that never had a connection.
    fn take(&mut self) -> Option<bool> {
        if self.free > 0 {
            self.free -= 1;
            return Some(false);
        }
        if self.making >= self.most_making {
            return None;
        }
        self.new = self.new.checked_sub(1)?;
        self.making += 1;
        Some(true)
    }

    /// Takes a place for the caller that waits longest.
    fn serve(&mut self) -> Option<(oneshot::Sender<Turn>, bool)> {
        let caller = self.first()?;
        match self.take() {
            Some(is_new) => Some((caller, is_new)),
            None => {
                self.waiting.push_front(caller);
                None
            }
        }
    }

    /// Removes the caller that waits longest, and those before it that have given up.
    fn first(&mut self) -> Option<oneshot::Sender<Turn>> {
        loop {
            let caller = self.waiting.pop_front()?;
            if !caller.is_closed() {
                return Some(caller);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let is_new = *self.is_new.get_mut();
        self.pool.change(|queue| match is_new {
            true => {
                queue.new += 1;
                queue.making -= 1;
            }
            false => queue.free += 1,
        });
    }
}

impl Waiting {
    /// Waits for the turn of this caller.
    ///
    /// # Errors
    /// If the store was closed.
    pub(crate) async fn turn(self) -> Result<Turn, String> {
        self.0.await.map_err(|_| "the store was closed".to_owned())
    }
}

impl OpenSnapshot {
    /// Gives the connection, with its transaction, to the caller that waits longest. Returns the
    /// snapshot if no caller waits.
    pub(crate) fn hand_on(self) -> Option<OpenSnapshot> {
        let mut open = Box::new(self);
        loop {
            let caller = lock(&open.place.pool.queue).first();
            let Some(caller) = caller else {
                return Some(*open);
            };
            // A caller that has just given up returns the turn, which goes to the next one.
            match caller.send(Turn::Open(open)) {
                Err(Turn::Open(back)) => open = back,
                _ => return None,
            }
        }
    }
}

impl Place {
    /// Returns a connection that was used before, or a new one.
    ///
    /// # Errors
    /// A sentence with the reason of each server.
    pub(crate) async fn session(&self) -> Result<Session, String> {
        let session = match self.pool.idle_session() {
            Some(session) => session,
            None => self.pool.connector.connect(self.pool.purpose).await?,
        };
        if self.is_new.swap(false, Ordering::SeqCst) {
            self.pool.change(|queue| queue.making -= 1);
        }
        Ok(session)
    }

    /// Keeps a connection for the next use. The connection is in no transaction.
    pub(crate) fn give_back(&self, session: Session) {
        if self.pool.connector.is_trusted(&session) {
            lock(&self.pool.idle).push(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::runtime::{Builder, Runtime};

    use super::*;
    use crate::config::{ClusterConfig, HostConfig, Tls};
    use crate::identity::Expected;

    fn pool(runtime: &Runtime, most: usize) -> Arc<Pool> {
        let host = HostConfig {
            address: "127.0.0.1:1".to_owned(),
            patroni: None,
        };
        let mut config = ClusterConfig::new("test", vec![host], "user", "database");
        config.tls = Tls::Off;
        let connector = Connector::new(config, Expected::Any, runtime.handle().clone()).unwrap();
        Pool::new(Arc::new(connector), Purpose::Read, most)
    }

    fn place_of(turn: Option<Result<Turn, String>>) -> Option<Place> {
        match turn? {
            Ok(Turn::Place(place)) => Some(place),
            _ => None,
        }
    }

    #[test]
    fn few_callers_make_connections_and_the_next_ones_follow_them() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let pool = pool(&runtime, 5);
        let made = |place: &Place| {
            place.is_new.store(false, Ordering::SeqCst);
            pool.change(|queue| queue.making -= 1);
        };
        let [first, second] = [(); MAKING].map(|()| pool.ask().ok().unwrap());
        let [third, fourth] = [(); 2].map(|()| pool.ask().err().unwrap());
        let (mut third, mut fourth) = (Box::pin(third.turn()), Box::pin(fourth.turn()));
        assert!((&mut third).now_or_never().is_none());

        // A caller that has its connection lets the next one make one.
        made(&first);
        let third = place_of(third.now_or_never()).unwrap();
        assert!((&mut fourth).now_or_never().is_none());

        // A caller that got no connection leaves its place to be made by the next one.
        drop(second);
        let fourth = place_of(fourth.now_or_never()).unwrap();

        // A connection that is free is used before a further one is made.
        drop(first);
        let again = pool.free_place().unwrap();
        assert!(!again.is_new.load(Ordering::SeqCst));
        assert!(pool.free_place().is_none(), "two are being made");
        drop((third, fourth));
        let places: Vec<Place> = std::iter::from_fn(|| pool.free_place()).collect();
        assert_eq!(places.len(), MAKING);
    }

    #[test]
    fn callers_take_turns_in_the_order_of_their_requests() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let pool = pool(&runtime, 1);
        let place = pool.ask().ok().unwrap();
        let [first, gone, last] = [(); 3].map(|()| pool.ask().err().unwrap());
        let (mut first, mut last) = (Box::pin(first.turn()), Box::pin(last.turn()));
        assert!((&mut first).now_or_never().is_none());

        // The place goes to the first caller, and a later one does not get the place before.
        drop(place);
        assert!(pool.free_place().is_none());
        assert!((&mut last).now_or_never().is_none());
        let place = place_of(first.now_or_never()).unwrap();

        // Callers that have given up are passed over, also those that have a place already.
        drop(gone);
        let unused = pool.ask().err().unwrap();
        drop(place);
        let place = place_of(last.now_or_never()).unwrap();
        drop(place);
        assert!(!pool.is_waited_for());
        assert!(pool.free_place().is_none(), "the place is on its way");
        drop(unused);
        assert!(pool.free_place().is_some());
    }
}
