//! The presence of one process at a site: its permit to write, and its registration.
//!
//! A process writes under a *permit*. The permit is valid if the last read of the state began less
//! than [`PERMIT`] ago, if that read followed a registration, and if the gate was open. Clocks of
//! different machines are never compared: each time is measured by the process that uses it.
//!
//! ```text
//! register ──> read the state: gate open ──> writes begin, for 2 s at most
//!                              gate closed ─> no write begins; the last one ends
//!                                             ──> register with the gate's id: acknowledged
//! ```
//! The registration is the item `application-{id}` with a time to live. A migrator that has closed
//! the gate reads all registrations and waits until each has acknowledged the gate or has expired.
//! A process that registers later reads the state after its registration, and so sees the closed
//! gate. The registration expires later than any permit that began with it.
//!
//! A gate whose migrator is dead is opened by the processes: if the state has not changed for
//! [`GATE_SILENCE`], a process replaces it by one without gate. The migrator, should it be alive,
//! can then not change home any more: its etag is of the past.

use super::state::{SITE_ID, State};
use crate::sync::lock;
use crate::{BlogError, Client, Control, Meter};
use serde_json::{Value, json};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Time from the start of a read of the state in which writes may begin.
pub(crate) const PERMIT: Duration = Duration::from_secs(2);
/// Time from the start of a registration in which it counts for a permit.
const REGISTRATION: Duration = Duration::from_secs(3);
/// Time to live of a registration in seconds. It exceeds [`REGISTRATION`] and [`PERMIT`] together.
const REGISTRATION_TTL_SECONDS: u64 = 6;
/// Time after which a registration is renewed.
const REGISTRATION_RENEWAL: Duration = Duration::from_secs(1);
/// Time between two reads of the state.
const READ_INTERVAL: Duration = Duration::from_millis(300);
/// Time between two reads of the state while the gate is closed.
const CLOSED_READ_INTERVAL: Duration = Duration::from_millis(40);
/// Time without a renewal after which the gate of a dead migrator is opened.
pub(crate) const GATE_SILENCE: Duration = Duration::from_secs(5);

/// The presence of one process at one site.
pub(super) struct Presence {
    control: Control,
    /// Id of the item of the registration.
    id: String,
    known: Mutex<Known>,
    /// One refresh at a time: the steps of a refresh are in order.
    refreshing: tokio::sync::Mutex<()>,
    /// Notified after each refresh.
    refreshed: Notify,
    /// Notified if the last write of a closed gate has ended.
    idle: Notify,
}

/// The knowledge of a process about the site.
struct Known {
    state: State,
    etag: String,
    /// Start of the first read that returned this etag.
    unchanged_since: Instant,
    /// Start of the last read.
    read: Instant,
    /// Start of the last registration.
    registered: Option<Instant>,
    /// The registration as it was written last.
    registration: Value,
    /// True if the last read followed a registration.
    is_read_after_registration: bool,
    /// Number of writes in progress.
    turns: usize,
}

impl Known {
    /// Returns true if a write may begin now.
    fn has_permit(&self) -> bool {
        self.state.gate.is_none()
            && self.is_read_after_registration
            && self.read.elapsed() < PERMIT
            && self
                .registered
                .is_some_and(|at| at.elapsed() < REGISTRATION)
    }

    /// Returns the registration that the state asks for. A gate is acknowledged if no write is in
    /// progress.
    fn due_registration(&self, id: &str) -> Value {
        let acknowledged = match &self.state.gate {
            Some(gate) if self.turns == 0 => Some(gate.id.clone()),
            _ => None,
        };
        json!({
            "id": id,
            "type": "application",
            "epoch": self.state.epoch,
            "gate": acknowledged,
            "ttl": REGISTRATION_TTL_SECONDS,
        })
    }
}

impl Presence {
    /// Returns the presence at a site whose state has just been read.
    pub(super) fn new(control: Control, state: State, etag: String) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            control,
            id: format!("application-{}", random_id()),
            known: Mutex::new(Known {
                state,
                etag,
                unchanged_since: now,
                read: now,
                registered: None,
                registration: Value::Null,
                is_read_after_registration: false,
                turns: 0,
            }),
            refreshing: tokio::sync::Mutex::default(),
            refreshed: Notify::new(),
            idle: Notify::new(),
        })
    }

    /// Returns the state that was read last.
    pub(super) fn state(&self) -> State {
        lock(&self.known).state.clone()
    }

    /// Keeps the state fresh until all other owners of the presence are gone. Errors are left to
    /// the writes, which meet them as well.
    pub(super) async fn watch(weak: Weak<Self>) {
        loop {
            let Some(presence) = weak.upgrade() else {
                return;
            };
            let refreshed = presence.refresh().await;
            let is_closed = lock(&presence.known).state.gate.is_some();
            let pause = if is_closed && refreshed.is_ok() {
                CLOSED_READ_INTERVAL
            } else {
                READ_INTERVAL
            };
            // The pause ends early if the last write of a closed gate has ended.
            let _ = tokio::time::timeout(pause, presence.idle.notified()).await;
        }
    }

    /// Waits until a write may begin and counts it. Returns the state under which it begins.
    pub(super) async fn begin(&self) -> Result<State, BlogError> {
        loop {
            let refreshed = self.refreshed.notified();
            let is_closed = {
                let mut known = lock(&self.known);
                if known.has_permit() {
                    known.turns += 1;
                    return Ok(known.state.clone());
                }
                known.state.gate.is_some()
            };
            if !is_closed {
                self.refresh_if_stale().await?;
                continue;
            }
            // The gate is closed. The watch reads the state soon; without one it is read here.
            if tokio::time::timeout(READ_INTERVAL, refreshed)
                .await
                .is_err()
            {
                self.refresh().await?;
            }
        }
    }

    /// Ends a write that began.
    pub(super) fn end(&self) {
        let mut known = lock(&self.known);
        known.turns = known.turns.saturating_sub(1);
        if known.turns == 0 && known.state.gate.is_some() {
            self.idle.notify_one();
        }
    }

    /// Returns true if home and models are still those of `epoch`.
    pub(super) async fn is_current(&self, epoch: u64) -> Result<bool, BlogError> {
        let (is_fresh, known_epoch) = {
            let known = lock(&self.known);
            (known.read.elapsed() < PERMIT, known.state.epoch)
        };
        if !is_fresh {
            self.refresh().await?;
            return Ok(lock(&self.known).state.epoch == epoch);
        }
        Ok(known_epoch == epoch)
    }

    /// Refreshes unless another task has done so in the meantime.
    async fn refresh_if_stale(&self) -> Result<(), BlogError> {
        let guard = self.refreshing.lock().await;
        if lock(&self.known).has_permit() {
            return Ok(());
        }
        self.refresh_locked(&guard).await
    }

    /// Registers if due, reads the state, and acknowledges a closed gate.
    pub(super) async fn refresh(&self) -> Result<(), BlogError> {
        let guard = self.refreshing.lock().await;
        self.refresh_locked(&guard).await
    }

    async fn refresh_locked(
        &self,
        _guard: &tokio::sync::MutexGuard<'_, ()>,
    ) -> Result<(), BlogError> {
        self.register_if_due().await?;
        self.read_state().await?;
        self.open_silent_gate().await?;
        // The state may ask for another registration: an acknowledged gate, a new epoch.
        self.register_if_due().await?;
        self.refreshed.notify_waiters();
        Ok(())
    }

    async fn read_state(&self) -> Result<(), BlogError> {
        let started = Instant::now();
        let (state, etag) = read(&self.control).await?;
        let mut known = lock(&self.known);
        known.read = started;
        known.is_read_after_registration = known
            .registered
            .is_some_and(|at| at.elapsed() < REGISTRATION);
        if known.etag != etag {
            known.etag = etag;
            known.state = state;
            known.unchanged_since = started;
        }
        Ok(())
    }

    /// Opens a gate whose migrator is dead.
    async fn open_silent_gate(&self) -> Result<(), BlogError> {
        let (mut state, etag) = {
            let known = lock(&self.known);
            if known.state.gate.is_none() || known.unchanged_since.elapsed() < GATE_SILENCE {
                return Ok(());
            }
            (known.state.clone(), known.etag.clone())
        };
        state.gate = None;
        // Another process may have been first; the read shows the state in both cases.
        replace(&self.control, &state, &etag).await?;
        self.read_state().await
    }

    async fn register_if_due(&self) -> Result<(), BlogError> {
        let started = Instant::now();
        let due = {
            let known = lock(&self.known);
            let due = known.due_registration(&self.id);
            let is_recent = known
                .registered
                .is_some_and(|at| at.elapsed() < REGISTRATION_RENEWAL);
            if is_recent && known.registration == due {
                return Ok(());
            }
            due
        };
        let control = &self.control;
        control
            .client
            .upsert(&Meter::new(), &control.state, &self.id, &due, None)
            .await?;
        let mut known = lock(&self.known);
        known.registered = Some(started);
        known.registration = due;
        Ok(())
    }
}

/// Reads the state of the site with its etag.
pub(crate) async fn read(control: &Control) -> Result<(State, String), BlogError> {
    let item = control
        .client
        .read(&Meter::new(), &control.state, SITE_ID, SITE_ID)
        .await?;
    let state = State::from_json(&item)?;
    Ok((state, etag_of(&item)?))
}

/// Replaces the state of the site if its etag is still `etag`, and returns the new etag. `None` if
/// the state has changed.
pub(crate) async fn replace(
    control: &Control,
    state: &State,
    etag: &str,
) -> Result<Option<String>, BlogError> {
    let mut item = state.to_json();
    item["_etag"] = etag.into();
    replace_item(&control.client, &control.state, &item).await
}

/// Replaces an item whose partition key is its id, if its etag is still `_etag`. Returns the new
/// etag, or `None` if the item has changed or is gone.
pub(crate) async fn replace_item(
    client: &Client,
    container: &str,
    item: &Value,
) -> Result<Option<String>, BlogError> {
    let id = item["id"].as_str().unwrap_or_default();
    match client
        .replace_returning(&Meter::new(), container, id, item)
        .await
    {
        Ok(replaced) => Ok(Some(etag_of(&replaced)?)),
        Err(e) if e.is_conflict() || e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the etag of an item that was read.
pub(crate) fn etag_of(item: &Value) -> Result<String, BlogError> {
    match item["_etag"].as_str() {
        Some(etag) => Ok(etag.to_owned()),
        None => Err(BlogError::unexpected("an item", "the item has no _etag")),
    }
}

/// Returns an id that differs from all others: 32 hexadecimal digits.
pub(crate) fn random_id() -> String {
    // Each `RandomState` has random keys.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
