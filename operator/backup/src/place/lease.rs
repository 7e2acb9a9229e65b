//! The lock of a place in a bucket: an object that its holder writes again every ten seconds.
//!
//! ```text
//! {"process":17,"host":"a","holder":"…","token":"9f0c…","renewals":3}
//! ```
//!
//! Each writing names the version that it replaces, so one of two writers fails. A process that
//! wants the lock watches the object: one that changes has a holder; one that stays as it is for
//! [`Times::expiry`] was left by a process that is gone, and is replaced. No clock of another machine
//! counts.
//!
//! Promised: the lock of a process that cannot renew it ends on its side, [`Lock::is_held`], before
//! another process can take it, as long as both clocks run.
//! Left out: a fence for requests that are under way when the lock ends.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use object_store::path::Path as Key;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, PutResult, UpdateVersion,
};
use orrery_model::json::{Json, Object, parse};
use orrery_model::sync::lock;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Lock;
use super::bucket::io_error;
use super::client::{run, runtime};
use crate::error::BackupError;
use crate::manifest::{number, text_of, u64_of};

/// The times of locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The time between two writings of a holder.
    pub(super) renewal: Duration,
    /// The time without a change after which a lock counts as left behind.
    pub(super) expiry: Duration,
    /// The time after the beginning of its last renewal for which a holder trusts its lock.
    pub(super) trust: Duration,
    /// The time between two looks at the lock of another process.
    pub(super) look: Duration,
}

/// The times of all programs that lock one place.
pub(super) const TIMES: Times = Times {
    renewal: Duration::from_secs(10),
    expiry: Duration::from_secs(45),
    trust: Duration::from_secs(30),
    look: Duration::from_secs(1),
};

/// The time for the removal of the lock at its end.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lease {
    held: Arc<Mutex<Held>>,
    place: LockObject,
    renewals: JoinHandle<()>,
}

/// The state of a lock.
#[derive(Debug)]
struct Held {
    version: UpdateVersion,
    /// The beginning of the last successful writing.
    since: Instant,
    is_lost: bool,
}

/// The object of a lock and its content.
#[derive(Clone, Debug)]
struct LockObject {
    store: Arc<dyn ObjectStore>,
    key: Key,
    holder: Option<String>,
    token: u64,
    times: Times,
}

/// The content of the lock of another process.
struct Found {
    version: UpdateVersion,
    holder: Option<String>,
    /// The words for a message.
    described: Option<String>,
}

impl Lease {
    /// Takes a lock. The lock of a process that is gone is taken after [`Times::expiry`], that of
    /// the same holder at once.
    ///
    /// # Errors
    /// [`BackupError::Locked`] when another process renews the lock meanwhile.
    pub(super) fn take(
        store: Arc<dyn ObjectStore>,
        key: Key,
        path: PathBuf,
        holder: Option<&str>,
        times: Times,
    ) -> Result<Lease, BackupError> {
        let place = LockObject {
            store,
            key,
            holder: holder.map(str::to_owned),
            token: RandomState::new().hash_one(std::process::id()),
            times,
        };
        let taker = place.clone();
        let taken = run(async move { taker.take().await });
        let failed = BackupError::io("lock", &path);
        let held = match taken.and_then(|taken| taken.map_err(io_error)) {
            Ok(Taken::Held(held)) => Arc::new(Mutex::new(held)),
            Ok(Taken::Refused(holder)) => {
                drop(failed);
                let path = path.parent().unwrap_or(&path).to_owned();
                return Err(BackupError::Locked { path, holder });
            }
            Err(error) => return Err(failed(error)),
        };
        let renewals = place.clone().renew(held.clone());
        let renewals = match runtime() {
            Ok(runtime) => runtime.spawn(renewals),
            Err(error) => return Err(failed(error)),
        };
        Ok(Lease {
            held,
            place,
            renewals,
        })
    }
}

impl Lock for Lease {
    fn is_held(&self) -> bool {
        let held = lock(&self.held);
        !held.is_lost && held.since.elapsed() < self.place.times.trust
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewals.abort();
        if !self.is_held() {
            return;
        }
        let (place, version) = (self.place.clone(), lock(&self.held).version.clone());
        // A lock that stays is taken over after its time.
        let _ = run(async move { timeout(RELEASE_MAX, place.release(version)).await });
    }
}

/// The end of the attempt to take a lock.
enum Taken {
    Held(Held),
    /// Another process holds the lock: its description.
    Refused(Option<String>),
}

impl LockObject {
    async fn take(self) -> object_store::Result<Taken> {
        // The lock that is being watched, and since when it has not changed.
        let mut watched: Option<(UpdateVersion, Instant)> = None;
        loop {
            match self.write(PutMode::Create, 0).await {
                Ok(held) => return Ok(Taken::Held(held)),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                Err(error) => return Err(error),
            }
            let Some(found) = self.look().await? else {
                continue;
            };
            let is_own = self.holder.is_some() && found.holder == self.holder;
            let is_left = match &watched {
                Some((version, since)) if *version == found.version => {
                    since.elapsed() >= self.times.expiry
                }
                // The holder has renewed it, or another process has taken it.
                Some(_) => return Ok(Taken::Refused(found.described)),
                None => {
                    watched = Some((found.version.clone(), Instant::now()));
                    false
                }
            };
            if is_own || is_left {
                match self.write(PutMode::Update(found.version), 0).await {
                    Ok(held) => return Ok(Taken::Held(held)),
                    Err(Error::Precondition { .. } | Error::NotFound { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            sleep(self.times.look).await;
        }
    }

    /// Writes the lock again and again, until it is lost.
    async fn renew(self, held: Arc<Mutex<Held>>) {
        let mut renewals = 0;
        loop {
            sleep(self.times.renewal).await;
            renewals += 1;
            let version = lock(&held).version.clone();
            match self.write(PutMode::Update(version), renewals).await {
                Ok(renewed) => *lock(&held) = renewed,
                // Another process has written or removed the lock.
                Err(Error::Precondition { .. } | Error::NotFound { .. }) => {
                    lock(&held).is_lost = true;
                    return;
                }
                // The service may answer again before the lock ends.
                Err(_) => {}
            }
        }
    }

    async fn write(&self, mode: PutMode, renewals: u64) -> object_store::Result<Held> {
        let since = Instant::now();
        let text = self.text(renewals).into_bytes();
        let put = self
            .store
            .put_opts(&self.key, PutPayload::from(text), mode.into());
        let PutResult { e_tag, version, .. } = put.await?;
        Ok(Held {
            version: UpdateVersion { e_tag, version },
            since,
            is_lost: false,
        })
    }

    /// Reads the lock; `None` if there is none.
    async fn look(&self) -> object_store::Result<Option<Found>> {
        let found = match self.store.get(&self.key).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let version = UpdateVersion {
            e_tag: found.meta.e_tag.clone(),
            version: found.meta.version.clone(),
        };
        let text = found.bytes().await?;
        let members = match parse(&text) {
            Ok(Json::Object(members)) => members,
            _ => Object::new(),
        };
        let process = members.get("process").and_then(u64_of);
        let host = text_of(&members, "host");
        let described = process.map(|process| match host {
            Some(host) => format!("process {process} of {host}"),
            None => format!("process {process}"),
        });
        Ok(Some(Found {
            version,
            holder: text_of(&members, "holder"),
            described,
        }))
    }

    /// Removes the lock if it is still the one that was written.
    async fn release(&self, version: UpdateVersion) -> object_store::Result<()> {
        match self.look().await? {
            Some(found) if found.version == version => self.store.delete(&self.key).await,
            _ => Ok(()),
        }
    }

    fn text(&self, renewals: u64) -> String {
        let mut members = Object::new();
        members.set("process", number(u64::from(std::process::id())));
        if let Some(host) = host_name() {
            members.set("host", host);
        }
        if let Some(holder) = &self.holder {
            members.set("holder", holder.as_str());
        }
        members.set("token", format!("{:016x}", self.token));
        members.set("renewals", number(renewals));
        Json::Object(members).to_text()
    }
}

/// Returns the name of this machine, where the system tells it in a file.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name: io::Result<String> = name.map(|name| name.trim().to_owned());
    name.ok().filter(|name| !name.is_empty())
}
