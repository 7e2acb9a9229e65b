//! Accounts: unique names and passwords.
//!
//! The container `accounts` has two kinds of items:
//! ```text
//! {id: "user-<user id>", userId, username, nextUsername, passwordHash}   an account
//! {id: "name-<name in lower case>", userId}                              a claim of a name
//! ```
//! The account is the one source of truth: a user has a password if the account of the user's id
//! has one. A claim is valid while the account of its user has the name, as the current one or as
//! the one that a rename in progress gives. A claim that is not valid admits nobody, and the next
//! user who wants the name replaces the claim. An account is stored before its claim, and every
//! change of a claim is guarded by its etag, so of two users who want one name only one gets it.
//!
//! A seeded user has no account, or one without a password after a rename; the names of seeded
//! users are taken all the same.
//!
//! Passwords are hashed with argon2id (19 MiB, two passes) on blocking threads, a few at a time. An
//! attempt to sign in with an unknown name makes the same requests and computes as much as an
//! attempt with a wrong password, so that its time does not tell which names exist. Attempts are
//! slowed down as [`crate::throttle`] says. The order of the steps of a sign-up and a rename is in
//! [`crate::registration`].

use crate::application::network;
use crate::sessions::SignedIn;
use crate::throttle::{Decision, Throttle};
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, PasswordHash};
use orrery_blog::{Blog, BlogError, Client, Control, Meter, Query};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};

/// Attempts to change an item that other writers change at the same time.
const CHANGE_ATTEMPTS_MAX: usize = 10;
/// Passwords that are hashed at the same time. Each takes 19 MiB of memory.
const CONCURRENT_HASHES: usize = 4;

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

pub(crate) struct Accounts {
    container: String,
    hashing: Arc<Semaphore>,
    /// Passwords that were hashed or compared since the start.
    hashed: AtomicU64,
    /// The hash that is compared if there is no account.
    absent: OnceCell<String>,
    throttle: Throttle,
}

impl Accounts {
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            container: control.accounts.clone(),
            hashing: Arc::new(Semaphore::new(CONCURRENT_HASHES)),
            hashed: AtomicU64::new(0),
            absent: OnceCell::new(),
            throttle: Throttle::default(),
        }
    }

    /// Returns the account of a user, if there is one.
    pub(crate) async fn account(
        &self,
        client: &Client,
        own: &Meter,
        user_id: &str,
    ) -> Result<Option<Account>, BlogError> {
        let stored = self.read(client, own, &account_id(user_id)).await?;
        Ok(stored.map(Account))
    }

    /// Stores an account. An account that was read before is replaced if it has not changed since;
    /// a new one is created if there is none.
    pub(crate) async fn store(
        &self,
        client: &Client,
        own: &Meter,
        account: &Account,
    ) -> Result<(), BlogError> {
        let (container, item) = (&self.container, &account.0);
        let id = item["id"].as_str().unwrap_or_default();
        match item["_etag"].is_string() {
            true => client.replace(own, container, id, item).await,
            false => client.create(own, container, id, item).await,
        }
    }

    /// Removes the account of a user who was not created.
    pub(crate) async fn remove(
        &self,
        client: &Client,
        own: &Meter,
        user_id: &str,
    ) -> Result<(), BlogError> {
        let id = account_id(user_id);
        absent_is_fine(client.delete(own, &self.container, &id, &id, None).await)
    }

    /// Claims `username` for a user, whose account has the name already.
    pub(crate) async fn claim(
        &self,
        client: &Client,
        own: &Meter,
        home: &Blog,
        claimant: &SignedIn,
    ) -> Result<Claim, BlogError> {
        if self.write_claim(client, own, claimant).await? == Claim::Taken {
            return Ok(Claim::Taken);
        }
        if has_other_user(home, own, claimant).await? {
            self.release(client, own, claimant).await?;
            return Ok(Claim::Taken);
        }
        Ok(Claim::Ours)
    }

    async fn write_claim(
        &self,
        client: &Client,
        own: &Meter,
        claimant: &SignedIn,
    ) -> Result<Claim, BlogError> {
        let id = claim_id(&claimant.username);
        let item = json!({"id": id, "userId": claimant.user_id});
        for _ in 0..CHANGE_ATTEMPTS_MAX {
            match client.create(own, &self.container, &id, &item).await {
                Err(e) if e.is_conflict() => {}
                created => return created.map(|()| Claim::Ours),
            }
            let Some(mut stored) = self.read(client, own, &id).await? else {
                continue;
            };
            let is_ours = stored["userId"] == claimant.user_id.as_str();
            // The claim is read before the account: a claim that is renewed has another etag.
            if !is_ours
                && self
                    .valid_account(client, own, &id, &stored)
                    .await?
                    .is_some()
            {
                return Ok(Claim::Taken);
            }
            stored["userId"] = claimant.user_id.as_str().into();
            match client.replace(own, &self.container, &id, &stored).await {
                Err(e) if e.is_conflict() || e.is_not_found() => {}
                replaced => return replaced.map(|()| Claim::Ours),
            }
        }
        Ok(Claim::Taken)
    }

    /// Releases a name, if the claim is the user's and does not change meanwhile.
    pub(crate) async fn release(
        &self,
        client: &Client,
        own: &Meter,
        claimant: &SignedIn,
    ) -> Result<(), BlogError> {
        let id = claim_id(&claimant.username);
        let Some(claim) = self.read(client, own, &id).await? else {
            return Ok(());
        };
        if claim["userId"] != claimant.user_id.as_str() {
            return Ok(());
        }
        let etag = claim["_etag"].as_str();
        match client.delete(own, &self.container, &id, &id, etag).await {
            Err(e) if e.is_conflict() => Ok(()),
            deleted => absent_is_fine(deleted),
        }
    }

    /// Returns the account to which the claim `id` gives a name, `None` if the claim is not valid.
    async fn valid_account(
        &self,
        client: &Client,
        own: &Meter,
        id: &str,
        claim: &Value,
    ) -> Result<Option<Account>, BlogError> {
        let user_id = claim["userId"].as_str().unwrap_or_default();
        let account = self.account(client, own, user_id).await?;
        Ok(account.filter(|account| account.has_claim(id)))
    }

    async fn read(
        &self,
        client: &Client,
        own: &Meter,
        id: &str,
    ) -> Result<Option<Value>, BlogError> {
        match client.read(own, &self.container, id, id).await {
            Ok(item) => Ok(Some(item)),
            Err(e) if e.is_item_missing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Checks a name and a password, which a visitor has typed.
    pub(crate) async fn sign_in(
        &self,
        client: &Client,
        own: &Meter,
        visitor: IpAddr,
        (username, password): (&str, &str),
    ) -> Result<SignIn, BlogError> {
        let id = claim_id(username);
        let network = network(visitor);
        match self.throttle.begin(network, &id, Instant::now()) {
            Decision::Wait(wait) => return Ok(SignIn::TooMany(wait)),
            Decision::CheckAfter(delay) => tokio::time::sleep(delay).await,
        }
        // Without a claim the account of no user is read, which is not there.
        let claim = self.read(client, own, &id).await?.unwrap_or(Value::Null);
        let account = self.valid_account(client, own, &id, &claim).await?;
        let is_right = self.is_password(account.as_ref(), password).await?;
        match account {
            Some(account) if is_right => {
                self.throttle.succeed(network, &id);
                Ok(SignIn::Accepted(account.user()))
            }
            _ => Ok(SignIn::Refused),
        }
    }

    /// Returns true if the account has the password. Each call compares one hash, whether there is
    /// an account or not.
    pub(crate) async fn is_password(
        &self,
        account: Option<&Account>,
        password: &str,
    ) -> Result<bool, BlogError> {
        // Made before the first comparison, so that this comparison tells nothing either.
        let make = || self.hash(String::from("no account has this password"));
        let absent = self.absent.get_or_try_init(make).await?;
        let stored = account.and_then(Account::password_hash);
        let hash = stored.unwrap_or(absent).to_owned();
        let is_right = self.verify(password.to_owned(), hash).await?;
        Ok(is_right && stored.is_some())
    }

    /// Returns the number of passwords that were hashed or compared since the start.
    pub(crate) fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    /// Returns those of `user_ids` who have a password.
    pub(crate) async fn with_password(
        &self,
        client: &Client,
        own: &Meter,
        user_ids: &[&str],
    ) -> Result<HashSet<String>, BlogError> {
        let query = Query::new(
            "SELECT VALUE c.userId FROM c \
             WHERE ARRAY_CONTAINS(@ids, c.userId) AND IS_STRING(c.passwordHash)",
        )
        .with("@ids", json!(user_ids));
        let mut found = HashSet::new();
        for user_id in client.query_all(own, &self.container, &query).await? {
            found.insert(user_id.as_str().unwrap_or_default().to_owned());
        }
        Ok(found)
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

    /// Runs a computation with a password on a blocking thread. The computation keeps its place to
    /// its end, also if the visitor has left.
    async fn compute<T: Send + 'static>(
        &self,
        computation: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, BlogError> {
        let failed = |cause: String| BlogError::Unexpected {
            operation: "a password".into(),
            reason: cause,
        };
        let place = self.hashing.clone().acquire_owned().await;
        let place = place.map_err(|e| failed(e.to_string()))?;
        self.hashed.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            let result = computation();
            drop(place);
            result
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|e| failed(e.to_string()))?
            .map_err(failed)
    }
}

/// The account of a user: the stored item, with its etag if it was read.
#[derive(Debug, Clone)]
pub(crate) struct Account(Value);

impl Account {
    /// Creates an account that is not stored yet. A user without a password has no hash.
    pub(crate) fn new(user: &SignedIn, password_hash: Option<&str>) -> Self {
        Self(json!({
            "id": account_id(&user.user_id),
            "userId": user.user_id,
            "username": user.username,
            "nextUsername": Value::Null,
            "passwordHash": password_hash,
        }))
    }

    /// Returns the user with the current name.
    pub(crate) fn user(&self) -> SignedIn {
        let text = |name: &str| self.0[name].as_str().unwrap_or_default().to_owned();
        SignedIn {
            user_id: text("userId"),
            username: text("username"),
        }
    }

    /// Returns the hash of the password, if the user has one.
    pub(crate) fn password_hash(&self) -> Option<&str> {
        self.0["passwordHash"].as_str()
    }

    /// Returns the name that a rename in progress gives.
    pub(crate) fn next_username(&self) -> Option<&str> {
        self.0["nextUsername"].as_str()
    }

    pub(crate) fn set_password_hash(&mut self, hash: &str) {
        self.0["passwordHash"] = hash.into();
    }

    pub(crate) fn set_names(&mut self, username: &str, next: Option<&str>) {
        self.0["username"] = username.into();
        self.0["nextUsername"] = next.into();
    }

    /// Returns true if one of the names of the account is claimed by the item `claim`.
    fn has_claim(&self, claim: &str) -> bool {
        let names = [self.0["username"].as_str(), self.next_username()];
        names.iter().flatten().any(|name| claim_id(name) == claim)
    }
}

/// Returns the id of the account of a user.
fn account_id(user_id: &str) -> String {
    format!("user-{user_id}")
}

/// Returns the id of the claim of a name.
fn claim_id(username: &str) -> String {
    format!("name-{}", username.to_lowercase())
}

/// Turns the absence of an item that is deleted into success.
fn absent_is_fine(deleted: Result<(), BlogError>) -> Result<(), BlogError> {
    match deleted {
        Err(e) if !e.is_item_missing() => Err(e),
        _ => Ok(()),
    }
}

/// Returns true if a user other than `claimant` has the name, in either case. Seeded users have no
/// account. Their names have a space or letters that no form accepts; those of earlier versions are
/// in lower case.
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
