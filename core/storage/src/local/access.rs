//! The view that readers get, and the exchange of the database below them.
//!
//! ```text
//! Serving ──▶ Draining ──▶ Closed ──▶ Serving (the database is open again)
//!    ▲            │
//!    └────────────┘ readers held their snapshots for too long
//! ```
//!
//! A snapshot holds the database that it reads, so the exchange waits until the last snapshot of
//! the old database is dropped. New readers wait meanwhile, with one exception: a thread that holds
//! a snapshot gets another one of the old database, since the exchange may be waiting for this
//! thread. The wait has an end on both sides, so neither can stop the other for good.
//!
//! Locks: `views` and `state` are taken last and never held while a reader or the exchange waits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock, Weak};
use std::time::{Duration, Instant};

use orrery_model::sync;

use super::database::OpenDatabase;
use super::keys::PREFIX_BYTES;
use crate::commit::{Head, PartitionId};

/// The longest time that a reader waits for the database to be open again.
const READER_WAIT_MAX: Duration = Duration::from_secs(10);
/// The time between two looks at the snapshots of the old database.
const DRAIN_POLL: Duration = Duration::from_millis(1);

/// The database, the durable view of it, and the heads in this view. They are replaced together.
struct Published {
    database: Arc<OpenDatabase>,
    view: Arc<fjall::Snapshot>,
    heads: HashMap<PartitionId, Head>,
}

enum State {
    Serving(Published),
    Draining(Published),
    Closed,
}

/// The place where readers find the database.
pub(super) struct Access {
    /// The views that readers may hold, the oldest first.
    views: Mutex<VecDeque<Weak<fjall::Snapshot>>>,
    state: RwLock<State>,
    /// An exchange is under way, for which it is worth waiting.
    is_reopening: AtomicBool,
    /// Locked by threads that wait for `reopened`.
    waiting: Mutex<()>,
    /// Notified when `is_reopening` ends.
    reopened: Condvar,
}

/// The part of a reader's snapshot that keeps the database: a durable view of it, and itself.
pub(super) struct View {
    pub(super) view: Arc<fjall::Snapshot>,
    pub(super) head: Head,
    pub(super) database: Arc<OpenDatabase>,
    /// The count of the thread that took this view.
    held: Arc<AtomicUsize>,
}

thread_local! {
    /// The views that this thread has taken and that still exist.
    static HELD: Arc<AtomicUsize> = Arc::default();
}

impl Drop for View {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Published {
    fn view(&self, partition: PartitionId, held: Arc<AtomicUsize>) -> View {
        held.fetch_add(1, Ordering::Relaxed);
        View {
            view: self.view.clone(),
            head: self.heads.get(&partition).copied().unwrap_or_default(),
            database: self.database.clone(),
            held,
        }
    }
}

impl Access {
    pub(super) fn new(database: OpenDatabase, heads: HashMap<PartitionId, Head>) -> Access {
        let published = published(database, heads);
        Access {
            views: Mutex::new(VecDeque::from([Arc::downgrade(&published.view)])),
            state: RwLock::new(State::Serving(published)),
            is_reopening: AtomicBool::new(false),
            waiting: Mutex::new(()),
            reopened: Condvar::new(),
        }
    }

    /// Returns the database for a write; `None` while it is exchanged.
    pub(super) fn database(&self) -> Option<Arc<OpenDatabase>> {
        match &*sync::read(&self.state) {
            State::Serving(published) => Some(published.database.clone()),
            State::Draining(_) | State::Closed => None,
        }
    }

    /// Returns the durable head of each partition with commits; `None` while the database is
    /// exchanged.
    pub(super) fn heads(&self) -> Option<BTreeMap<PartitionId, Head>> {
        match &*sync::read(&self.state) {
            State::Serving(published) => {
                let heads = published.heads.iter();
                Some(heads.map(|(id, head)| (*id, *head)).collect())
            }
            State::Draining(_) | State::Closed => None,
        }
    }

    /// Returns what readers may see of a partition now. Waits while the database is exchanged;
    /// returns `None` if that takes too long or has failed.
    pub(super) fn view(&self, partition: PartitionId) -> Option<View> {
        let held = HELD.with(Arc::clone);
        if let Some(view) = self.view_now(partition, &held) {
            return Some(view);
        }
        let deadline = Instant::now() + READER_WAIT_MAX;
        let mut waiting = sync::lock(&self.waiting);
        loop {
            // Read before the state: at the end of an exchange the state is final.
            let is_reopening = self.is_reopening.load(Ordering::SeqCst);
            if let Some(view) = self.view_now(partition, &held) {
                return Some(view);
            }
            if !is_reopening {
                return None;
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            waiting = sync::wait_timeout(&self.reopened, waiting, left);
        }
    }

    fn view_now(&self, partition: PartitionId, held: &Arc<AtomicUsize>) -> Option<View> {
        match &*sync::read(&self.state) {
            State::Serving(published) => Some(published.view(partition, held.clone())),
            State::Draining(published) if held.load(Ordering::Relaxed) > 0 => {
                Some(published.view(partition, held.clone()))
            }
            State::Draining(_) | State::Closed => None,
        }
    }

    /// Gives readers the new view and the changed heads, as one change.
    pub(super) fn publish(&self, heads: Vec<(PartitionId, Option<Head>)>) {
        let Some(database) = self.database() else {
            return;
        };
        let view = Arc::new(database.db.snapshot());
        self.remember_view(&view);
        let mut state = sync::write(&self.state);
        let State::Serving(published) = &mut *state else {
            return;
        };
        let old = std::mem::replace(&mut published.view, view);
        for (partition, head) in heads {
            match head {
                Some(head) => published.heads.insert(partition, head),
                None => published.heads.remove(&partition),
            };
        }
        // The old view is dropped without the lock, since that may free memory of fjall.
        drop(state);
        drop(old);
    }

    /// Lets readers wait while `exchange` runs.
    pub(super) fn exchange<T>(&self, exchange: impl FnOnce() -> T) -> T {
        self.is_reopening.store(true, Ordering::SeqCst);
        let done = exchange();
        self.is_reopening.store(false, Ordering::SeqCst);
        // The lock orders the change before the next wait of a reader that has just looked.
        drop(sync::lock(&self.waiting));
        self.reopened.notify_all();
        done
    }

    /// Takes the database away from readers, once the last snapshot of it is dropped. Returns
    /// `None`, and lets readers go on, if that takes longer than `limit`.
    pub(super) fn drain(&self, limit: Duration) -> Option<OpenDatabase> {
        self.change(|state| match state {
            State::Serving(published) => State::Draining(published),
            other => other,
        });
        let deadline = Instant::now() + limit;
        loop {
            if let Some(database) = self.take_unused() {
                return Some(database);
            }
            if Instant::now() >= deadline {
                self.change(|state| match state {
                    State::Draining(published) => State::Serving(published),
                    other => other,
                });
                return None;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a snapshot is dropped far more often than the database is exchanged"
            )]
            std::thread::sleep(DRAIN_POLL);
        }
    }

    /// Returns true if there is no database.
    pub(super) fn is_closed(&self) -> bool {
        matches!(&*sync::read(&self.state), State::Closed)
    }

    /// Gives the open database to readers.
    pub(super) fn reopen(&self, database: OpenDatabase, heads: HashMap<PartitionId, Head>) {
        let published = published(database, heads);
        // No view of the old database is left.
        sync::lock(&self.views).clear();
        self.remember_view(&published.view);
        self.change(|_| State::Serving(published));
    }

    /// Adds a view to those that readers may hold, and forgets those that are dropped.
    fn remember_view(&self, view: &Arc<fjall::Snapshot>) {
        let mut views = sync::lock(&self.views);
        if views.len() == views.capacity() {
            views.retain(|view| view.strong_count() > 0);
        }
        views.push_back(Arc::downgrade(view));
    }

    /// Returns the sequence number below which compactions may drop versions that newer ones
    /// replace: that of the oldest view that a reader may hold.
    pub(super) fn oldest_view(&self) -> u64 {
        let mut views = sync::lock(&self.views);
        while let Some(oldest) = views.front() {
            if let Some(view) = oldest.upgrade() {
                return view.seqno().saturating_sub(1);
            }
            views.pop_front();
        }
        0
    }

    /// Returns the partitions with commits that can have keys from `first` to `last`.
    pub(super) fn partitions_between(&self, first: &[u8], last: &[u8]) -> Vec<PartitionId> {
        let state = sync::read(&self.state);
        let (State::Serving(published) | State::Draining(published)) = &*state else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for partition in published.heads.keys() {
            let prefix = partition.0.to_be_bytes();
            let from = &first[..first.len().min(PREFIX_BYTES)];
            if &prefix[..] >= from && &prefix[..] <= last {
                found.push(*partition);
            }
        }
        found.sort_unstable();
        found
    }

    /// Takes the database if no view of it exists.
    fn take_unused(&self) -> Option<OpenDatabase> {
        let mut state = sync::write(&self.state);
        // The only other holders are views, which are made under this lock.
        let is_unused = matches!(
            &*state,
            State::Draining(published) if Arc::strong_count(&published.database) == 1
        );
        if !is_unused {
            return None;
        }
        match std::mem::replace(&mut *state, State::Closed) {
            State::Draining(published) => Arc::into_inner(published.database),
            State::Serving(_) | State::Closed => None,
        }
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        let mut state = sync::write(&self.state);
        let old = std::mem::replace(&mut *state, State::Closed);
        *state = change(old);
    }
}

fn published(database: OpenDatabase, heads: HashMap<PartitionId, Head>) -> Published {
    let view = Arc::new(database.db.snapshot());
    Published {
        database: Arc::new(database),
        view,
        heads,
    }
}
