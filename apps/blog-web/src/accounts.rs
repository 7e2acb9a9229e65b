//! Accounts: unique names and passwords.
//!
//! The container `accounts` has an item for each name, under the name in lower case, so two names
//! that differ in case only cannot exist together. Creating the item claims the name. A rename
//! claims the new name before the write and releases the old one after it; both steps may be
//! repeated. A seeded user has no account, but the name is taken all the same.
//!
//! Passwords are hashed with argon2id (19 MiB, two passes) on blocking threads, a few at a time.
//! Failed attempts to sign in are limited for each name.

use crate::cache::Cache;
use crate::sessions::SignedIn;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, PasswordHash};
use orrery_blog::{Blog, BlogError, Client, Control, Meter, Query};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Passwords that are hashed at the same time. Each takes 19 MiB of memory.
const CONCURRENT_HASHES: usize = 4;
/// Failed attempts to sign in with one name within [`ATTEMPTS_WITHIN`].
const ATTEMPTS_MAX: u32 = 10;
/// Time after which failed attempts are forgotten.
const ATTEMPTS_WITHIN: Duration = Duration::from_secs(300);
/// Names whose failed attempts are remembered.
const ATTEMPTS_NAMES_MAX: usize = 20_000;

/// The result of a claim of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The name belongs to the user.
    Ours,
    /// The name belongs to another user.
    Taken,
}

/// The result of an attempt to sign in.
pub(crate) enum SignIn {
    Accepted(SignedIn),
    /// There is no such name, or the password is another one.
    Refused,
    /// There were too many failed attempts; the time after which to try again.
    TooMany(Duration),
}

#[derive(Clone)]
struct Attempts {
    failed: u32,
    first: Instant,
}

pub(crate) struct Accounts {
    container: String,
    hashing: Semaphore,
    attempts: Cache<Attempts>,
}

impl Accounts {
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            container: control.accounts.clone(),
            hashing: Semaphore::new(CONCURRENT_HASHES),
            attempts: Cache::new(ATTEMPTS_NAMES_MAX),
        }
    }

    /// Claims `username` for a user. With a password hash, the hash is stored even if the user has
    /// the name already; without one, the hash of the name `previous` is taken over.
    pub(crate) async fn claim(
        &self,
        client: &Client,
        own: &Meter,
        home: &Blog,
        claimant: &SignedIn,
        secret: NameSecret<'_>,
    ) -> Result<Claim, BlogError> {
        let id = claimant.username.to_lowercase();
        let mut item = json!({
            "id": id,
            "userId": claimant.user_id,
            "username": claimant.username,
            "passwordHash": Value::Null,
        });
        match secret {
            NameSecret::Hash(hash) => item["passwordHash"] = hash.into(),
            NameSecret::Of(previous) => {
                let previous = previous.to_lowercase();
                match client
                    .read(own, &self.container, &previous, &previous)
                    .await
                {
                    Ok(account) if account["userId"] == claimant.user_id.as_str() => {
                        item["passwordHash"] = account["passwordHash"].clone();
                    }
                    Err(e) if !e.is_not_found() => return Err(e),
                    // A seeded user has no account yet.
                    _ => {}
                }
            }
        }
        match client.create(own, &self.container, &id, &item).await {
            Ok(()) => {}
            Err(BlogError::Refused { status: 409, .. }) => {
                let account = client.read(own, &self.container, &id, &id).await?;
                if account["userId"] != claimant.user_id.as_str() {
                    return Ok(Claim::Taken);
                }
                // A repeated rename finds the old name released; the password is here by then.
                if item["passwordHash"].is_null() {
                    item["passwordHash"] = account["passwordHash"].clone();
                }
                client
                    .upsert(own, &self.container, &id, &item, None)
                    .await?;
            }
            Err(e) => return Err(e),
        }
        if has_other_user(home, own, claimant).await? {
            self.release(client, own, claimant).await?;
            return Ok(Claim::Taken);
        }
        Ok(Claim::Ours)
    }

    /// Releases a name, if it belongs to the user.
    pub(crate) async fn release(
        &self,
        client: &Client,
        own: &Meter,
        claimant: &SignedIn,
    ) -> Result<(), BlogError> {
        let id = claimant.username.to_lowercase();
        let account = match client.read(own, &self.container, &id, &id).await {
            Err(e) if e.is_not_found() => return Ok(()),
            account => account?,
        };
        if account["userId"] != claimant.user_id.as_str() {
            return Ok(());
        }
        match client.delete(own, &self.container, &id, &id, None).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Checks a name and a password.
    pub(crate) async fn sign_in(
        &self,
        client: &Client,
        own: &Meter,
        username: &str,
        password: &str,
    ) -> Result<SignIn, BlogError> {
        let id = username.to_lowercase();
        if let Some(wait) = self.locked_for(&id) {
            return Ok(SignIn::TooMany(wait));
        }
        let account = match client.read(own, &self.container, &id, &id).await {
            Err(e) if e.is_not_found() => Value::Null,
            account => account?,
        };
        let text = |name: &str| account[name].as_str().unwrap_or_default().to_owned();
        // An unknown name takes as long as a wrong password.
        let hash = match account["passwordHash"].as_str() {
            Some(hash) => hash.to_owned(),
            None => {
                self.hash(String::from("no account has this password"))
                    .await?
            }
        };
        let is_right = self.verify(password.to_owned(), hash).await?;
        if !is_right || account["passwordHash"].is_null() {
            self.count_failure(&id);
            return Ok(SignIn::Refused);
        }
        self.attempts.remove(&id);
        Ok(SignIn::Accepted(SignedIn {
            user_id: text("userId"),
            username: text("username"),
        }))
    }

    /// Returns true if the user has a password.
    pub(crate) async fn has_password(
        &self,
        client: &Client,
        own: &Meter,
        user: &SignedIn,
    ) -> Result<bool, BlogError> {
        let id = user.username.to_lowercase();
        match client.read(own, &self.container, &id, &id).await {
            Ok(account) => {
                Ok(account["userId"] == user.user_id.as_str()
                    && account["passwordHash"].is_string())
            }
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns the argon2id hash of a password.
    pub(crate) async fn hash(&self, password: String) -> Result<String, BlogError> {
        self.compute(move || {
            let hash = Argon2::default().hash_password(password.as_bytes());
            hash.map(|hash| hash.to_string()).map_err(|e| e.to_string())
        })
        .await
    }

    async fn verify(&self, password: String, hash: String) -> Result<bool, BlogError> {
        self.compute(move || {
            let hash = PasswordHash::new(&hash).map_err(|e| e.to_string())?;
            let verified = Argon2::default().verify_password(password.as_bytes(), &hash);
            Ok(verified.is_ok())
        })
        .await
    }

    /// Runs a computation with a password on a blocking thread.
    async fn compute<T: Send + 'static>(
        &self,
        computation: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, BlogError> {
        let failed = |cause: String| BlogError::Unexpected {
            operation: "a password".into(),
            reason: cause,
        };
        let _permit = self
            .hashing
            .acquire()
            .await
            .map_err(|e| failed(e.to_string()))?;
        tokio::task::spawn_blocking(computation)
            .await
            .map_err(|e| failed(e.to_string()))?
            .map_err(failed)
    }

    /// Returns the time for which no further attempt is accepted.
    fn locked_for(&self, id: &str) -> Option<Duration> {
        let attempts = self.attempts.get(id)?;
        let rest = ATTEMPTS_WITHIN.checked_sub(attempts.first.elapsed())?;
        (attempts.failed >= ATTEMPTS_MAX).then_some(rest)
    }

    fn count_failure(&self, id: &str) {
        let fresh = || Attempts {
            failed: 0,
            first: Instant::now(),
        };
        self.attempts.update(id, fresh, |attempts| {
            if attempts.first.elapsed() >= ATTEMPTS_WITHIN {
                *attempts = fresh();
            }
            attempts.failed += 1;
        });
    }
}

/// The password that a claimed name gets.
pub(crate) enum NameSecret<'a> {
    /// The hash of a new password.
    Hash(&'a str),
    /// The password of the name that the user has had before.
    Of(&'a str),
}

/// Returns true if a user other than `claimant` has the name, in either case. Seeded users have
/// names in lower case and no account.
async fn has_other_user(home: &Blog, own: &Meter, claimant: &SignedIn) -> Result<bool, BlogError> {
    let query = Query::new(
        "SELECT VALUE c.id FROM c WHERE c.username IN (@username, @lower) AND c.id != @id",
    )
    .with("@username", claimant.username.as_str())
    .with("@lower", claimant.username.to_lowercase())
    .with("@id", claimant.user_id.as_str());
    let containers = home.containers();
    let users = containers.first().copied().unwrap_or_default();
    let others = home.client().query_all(own, users, &query).await?;
    Ok(!others.is_empty())
}
