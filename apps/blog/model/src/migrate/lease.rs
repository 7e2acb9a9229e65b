//! The lease of the migrator: one process at a time migrates a site.
//!
//! The lease is the item `migrator` in the container `state`. It expires by its time to live unless
//! the owner renews it, and also shows the progress to other processes. The owner works only while
//! its last renewal is so recent that the item cannot have expired ([`Lease::check`]). After
//! `kill -9` the next migrator waits until the item has expired.

use super::{MigrationStatus, Options};
use crate::site::presence::{etag_of, random_id, replace_item};
use crate::sync::lock;
use crate::{BlogError, Control, Meter};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The id of the item, which is also its partition key.
const LEASE_ID: &str = "migrator";
/// Time between two attempts to get a lease that another process has.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(200);

/// The lease of this process.
pub(super) struct Lease {
    control: Control,
    owner: String,
    time_to_live_seconds: u64,
    renewal: Mutex<Renewal>,
    status: Mutex<MigrationStatus>,
}

/// The task that renews a lease.
pub(super) struct Keeper(JoinSet<BlogError>);

impl Keeper {
    /// Waits until the lease is lost, and returns the reason.
    pub(super) async fn lost(&mut self) -> BlogError {
        match self.0.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(_)) | None => lost(),
        }
    }
}

struct Renewal {
    etag: String,
    /// Start of the last renewal.
    started: Instant,
}

impl Lease {
    /// Waits for the lease.
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] if another process keeps renewing it.
    pub(super) async fn acquire(control: &Control, options: &Options) -> Result<Self, BlogError> {
        let owner = random_id();
        let seconds = options.lease_seconds.max(1);
        // A dead owner's lease is gone after its time to live, which is as long as ours.
        let limit = Duration::from_secs(2 * seconds + 10);
        let began = Instant::now();
        loop {
            let started = Instant::now();
            let status = MigrationStatus::default();
            let item = lease_item(&owner, seconds, &status);
            let meter = Meter::new();
            let created = control
                .client
                .create(&meter, &control.state, LEASE_ID, &item)
                .await;
            match created {
                Ok(()) => {
                    let item = read_item(control).await?.unwrap_or_default();
                    if item["owner"] == owner.as_str() {
                        return Ok(Self {
                            control: control.clone(),
                            owner,
                            time_to_live_seconds: seconds,
                            renewal: Mutex::new(Renewal {
                                etag: etag_of(&item)?,
                                started,
                            }),
                            status: Mutex::new(status),
                        });
                    }
                }
                Err(e) if e.is_conflict() => {}
                Err(e) => return Err(e),
            }
            if began.elapsed() > limit {
                return Err(BlogError::InvalidOption(
                    "another process is migrating this blog; wait until it ends or stop it".into(),
                ));
            }
            tokio::time::sleep(ATTEMPT_INTERVAL).await;
        }
    }

    /// Returns the progress that the lease shows.
    pub(super) fn status(&self) -> MigrationStatus {
        lock(&self.status).clone()
    }

    /// Changes the progress that the lease shows from the next renewal on.
    pub(super) fn set_status(&self, status: MigrationStatus) {
        *lock(&self.status) = status;
    }

    /// Returns an error if the lease may have expired.
    pub(super) fn check(&self) -> Result<(), BlogError> {
        // The server counts whole seconds, so the item may live up to a second shorter.
        let margin = Duration::from_millis(1_200).min(self.lifetime() / 2);
        if lock(&self.renewal).started.elapsed() + margin < self.lifetime() {
            Ok(())
        } else {
            Err(lost())
        }
    }

    /// Starts a task that renews the lease, however long the steps of the migration take. The task
    /// ends with the returned value.
    pub(super) fn keep(self: &Arc<Self>) -> Keeper {
        let lease = self.clone();
        let mut task = JoinSet::new();
        task.spawn(async move { lease.renew_until_lost().await });
        Keeper(task)
    }

    /// Renews the lease until that fails, and returns the reason.
    async fn renew_until_lost(&self) -> BlogError {
        loop {
            tokio::time::sleep(self.lifetime() / 6).await;
            match timeout(self.lifetime() / 3, self.renew()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return lost(),
                // A slow, throttled or broken request is repeated as long as the lease is valid.
                Ok(Err(e)) if self.check().is_err() => return e,
                Err(_) if self.check().is_err() => return lost(),
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Gives the lease up.
    pub(super) async fn release(&self) {
        let etag = lock(&self.renewal).etag.clone();
        let control = &self.control;
        // A lease that cannot be deleted expires.
        let _ = control
            .client
            .delete(
                &Meter::new(),
                &control.state,
                LEASE_ID,
                LEASE_ID,
                Some(&etag),
            )
            .await;
    }

    async fn renew(&self) -> Result<bool, BlogError> {
        let started = Instant::now();
        let mut item = lease_item(&self.owner, self.time_to_live_seconds, &self.status());
        item["_etag"] = lock(&self.renewal).etag.clone().into();
        let control = &self.control;
        let etag = match replace_item(&control.client, &control.state, &item).await? {
            Some(etag) => etag,
            None => match read_item(control).await? {
                // The answer to an earlier renewal was lost on the way.
                Some(item) if item["owner"] == self.owner.as_str() => etag_of(&item)?,
                _ => return Ok(false),
            },
        };
        *lock(&self.renewal) = Renewal { etag, started };
        Ok(true)
    }

    /// Returns the time to live.
    pub(super) fn lifetime(&self) -> Duration {
        Duration::from_secs(self.time_to_live_seconds)
    }
}

/// Reads the item of the lease, if a process has it.
pub(super) async fn read_item(control: &Control) -> Result<Option<Value>, BlogError> {
    let read = control
        .client
        .read(&Meter::new(), &control.state, LEASE_ID, LEASE_ID)
        .await;
    match read {
        Ok(item) => Ok(Some(item)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

fn lease_item(owner: &str, ttl: u64, status: &MigrationStatus) -> Value {
    json!({
        "id": LEASE_ID,
        "type": LEASE_ID,
        "owner": owner,
        "ttl": ttl,
        "status": status.to_json(),
    })
}

fn lost() -> BlogError {
    BlogError::unexpected(
        "migration",
        "the migrator did not renew its lease in time, so another process may have it; \
         start the migration again to continue",
    )
}
