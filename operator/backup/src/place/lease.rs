//! The lock of a place in a bucket: an object that its holder writes again every ten seconds.
//!
//! ```text
//! {"process":17,"host":"a","holder":"…","token":"9f0c…","renewals":3}
//! ```
//!
//! Each writing names the version that it replaces, so one of two writers fails; a service that
//! ignores these conditions is refused. A process that wants the lock watches the object: one that
//! changes has a holder; one that stays as it is for [`Times::expiry`] was left by a process that
//! is gone, and is replaced. No clock of another machine counts. The lock of a process of this
//! machine that has ended is replaced at once by the same holder.
//!
//! The answer to a writing may be lost. The token tells whether the object is one's own.
//!
//! Promised: the lock of a process that cannot renew it ends on its side, [`Lock::is_held`], before
//! another process can take it, as long as both clocks run.
//! Left out: a fence for requests that are under way when the lock ends.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
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
    /// The address, for messages.
    path: PathBuf,
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

impl Held {
    fn new(version: UpdateVersion, since: Instant) -> Held {
        Held {
            version,
            since,
            is_lost: false,
        }
    }
}

/// The end of an attempt to write a lock again.
enum Renewal {
    Written,
    /// The writing has failed, or its answer was lost.
    Unclear,
    /// Another process has written or removed the lock.
    Lost,
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
    token: Option<String>,
    /// True if its process was one of this machine and has ended.
    has_ended: bool,
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
        let failed = |error| BackupError::io("lock", &path)(error);
        let held = match taken.and_then(|taken| taken.map_err(io_error)) {
            Ok(Taken::Held(held)) => Arc::new(Mutex::new(held)),
            Ok(Taken::Refused(holder)) => {
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
            path,
            renewals,
        })
    }
}

impl Lock for Lease {
    fn check(&self) -> Result<(), BackupError> {
        let held = lock(&self.held);
        match !held.is_lost && held.since.elapsed() < self.place.times.trust {
            true => Ok(()),
            false => Err(BackupError::LockLost {
                path: self.path.clone(),
            }),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewals.abort();
        if !self.is_held() {
            return;
        }
        let place = self.place.clone();
        // A lock that stays is taken over after its time.
        let _ = run(async move { timeout(RELEASE_MAX, place.release()).await });
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
        let mut is_free = true;
        let mut written = Instant::now();
        loop {
            if is_free {
                written = Instant::now();
                match self.write(PutMode::Create, 0).await {
                    Ok(held) => return self.checked(held).await.map(Taken::Held),
                    Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(found) = self.look().await? else {
                is_free = true;
                continue;
            };
            is_free = false;
            if found.token.as_deref() == Some(&*self.token()) {
                // The answer to the last writing was lost.
                return Ok(Taken::Held(Held::new(found.version, written)));
            }
            let is_left = match &watched {
                Some((version, since)) if *version == found.version => {
                    since.elapsed() >= self.times.expiry
                }
                // The holder has renewed it, or another process has taken it.
                Some(_) => return Ok(Taken::Refused(found.described)),
                None => {
                    watched = Some((found.version.clone(), Instant::now()));
                    self.holder.is_some() && found.holder == self.holder && found.has_ended
                }
            };
            if !is_left {
                sleep(self.times.look).await;
                continue;
            }
            written = Instant::now();
            match self.write(PutMode::Update(found.version), 0).await {
                Ok(held) => return Ok(Taken::Held(held)),
                // The next look tells who has it.
                Err(Error::Precondition { .. } | Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Fails if the service lets a second process create a lock that exists.
    async fn checked(&self, held: Held) -> object_store::Result<Held> {
        match self.write(PutMode::Create, 0).await {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(held),
            Err(error) => Err(error),
            Ok(_) => {
                let reason = "it ignores the condition If-None-Match of a write, which the lock \
                              needs";
                Err(Error::NotSupported {
                    source: reason.into(),
                })
            }
        }
    }

    /// Writes the lock again and again, until it is lost.
    async fn renew(self, held: Arc<Mutex<Held>>) {
        let mut renewals = 0;
        loop {
            sleep(self.times.renewal).await;
            renewals += 1;
            // A request that hangs must not cost the lock: another one is sent in time.
            loop {
                match self.renew_once(&held, renewals).await {
                    Renewal::Written => break,
                    Renewal::Unclear => sleep(self.times.look).await,
                    Renewal::Lost => {
                        lock(&held).is_lost = true;
                        return;
                    }
                }
            }
        }
    }

    async fn renew_once(&self, held: &Mutex<Held>, renewals: u64) -> Renewal {
        let version = lock(held).version.clone();
        let limit = self.times.renewal / 2;
        let written = timeout(limit, self.write(PutMode::Update(version), renewals)).await;
        if let Ok(Ok(renewed)) = written {
            *lock(held) = renewed;
            return Renewal::Written;
        }
        let Ok(Ok(found)) = timeout(limit, self.look()).await else {
            return Renewal::Unclear;
        };
        match found {
            // The writing may have taken place: the next one replaces this version. The time of the
            // last one that is known to have succeeded stays.
            Some(found) if found.token.as_deref() == Some(&*self.token()) => {
                lock(held).version = found.version;
                Renewal::Unclear
            }
            _ => Renewal::Lost,
        }
    }

    async fn write(&self, mode: PutMode, renewals: u64) -> object_store::Result<Held> {
        let since = Instant::now();
        let text = self.text(renewals).into_bytes();
        let put = self
            .store
            .put_opts(&self.key, PutPayload::from(text), mode.into());
        let PutResult { e_tag, version, .. } = put.await?;
        Ok(Held::new(UpdateVersion { e_tag, version }, since))
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
        let has_ended = host.is_some() && host == host_name() && process.is_some_and(has_ended);
        let described = process.map(|process| match host {
            Some(host) => format!("process {process} of {host}"),
            None => format!("process {process}"),
        });
        Ok(Some(Found {
            version,
            holder: text_of(&members, "holder"),
            token: text_of(&members, "token"),
            has_ended,
            described,
        }))
    }

    /// Removes the lock if it is one's own.
    async fn release(&self) -> object_store::Result<()> {
        match self.look().await? {
            Some(found) if found.token.as_deref() == Some(&*self.token()) => {
                self.store.delete(&self.key).await
            }
            _ => Ok(()),
        }
    }

    fn token(&self) -> String {
        format!("{:016x}", self.token)
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
        members.set("token", self.token());
        members.set("renewals", number(renewals));
        Json::Object(members).to_text()
    }
}

/// Returns true if no process of this machine has an id, as far as the system tells. A lock with
/// the id of this process was left by an earlier one, as the first process of a container is.
fn has_ended(process: u64) -> bool {
    let processes = Path::new("/proc");
    let is_own = process == u64::from(std::process::id());
    is_own || (processes.join("self").exists() && !processes.join(process.to_string()).exists())
}

/// Returns the name of this machine, where the system tells it in a file.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name: io::Result<String> = name.map(|name| name.trim().to_owned());
    name.ok().filter(|name| !name.is_empty())
}
