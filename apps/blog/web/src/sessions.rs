//! Signed-in browsers.
//!
//! A browser has a secret in a cookie. The container `sessions` has an item for each signed-in
//! secret, under the hash of the secret, with a time to live. A bounded cache in memory makes most
//! pages do without a request; another process's sign-out takes effect when the entry is a minute
//! old. The cost of all pages of a browser is summed in memory, also without sign-in.

use crate::cache::Cache;
use crate::secret;
use orrery_blog::{BlogError, Charge, Client, Control, Measurement, Meter};
use serde_json::json;
use std::time::{Duration, Instant};

/// Seconds for which a session lasts.
pub(crate) const LIFETIME_S: u64 = 30 * 86_400;
/// Age at which a cached session is read again.
const CACHED_FOR: Duration = Duration::from_secs(60);
/// Entries in each cache.
const ENTRIES_MAX: usize = 20_000;

/// The user of a signed-in browser.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SignedIn {
    pub(crate) user_id: String,
    pub(crate) username: String,
}

/// The cost of all pages of one browser since the start of the application.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RunningSum {
    pub(crate) pages: u64,
    pub(crate) requests: u64,
    pub(crate) charge: Charge,
}

#[derive(Clone)]
struct Cached {
    user: SignedIn,
    read: Instant,
}

pub(crate) struct Sessions {
    container: String,
    cache: Cache<Cached>,
    sums: Cache<RunningSum>,
}

impl Sessions {
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            container: control.sessions.clone(),
            cache: Cache::new(ENTRIES_MAX),
            sums: Cache::new(ENTRIES_MAX),
        }
    }

    /// Returns the user who is signed in with `secret`.
    pub(crate) async fn user(
        &self,
        client: &Client,
        own: &Meter,
        secret: &str,
    ) -> Result<Option<SignedIn>, BlogError> {
        let id = secret::stored(secret);
        if let Some(cached) = self.cache.get(&id)
            && cached.read.elapsed() < CACHED_FOR
        {
            return Ok(Some(cached.user));
        }
        let item = match client.read(own, &self.container, &id, &id).await {
            Err(e) if e.is_not_found() => {
                self.cache.remove(&id);
                return Ok(None);
            }
            item => item?,
        };
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let user = SignedIn {
            user_id: text("userId"),
            username: text("username"),
        };
        self.keep(&id, &user);
        Ok(Some(user))
    }

    /// Starts a session and returns its secret.
    pub(crate) async fn start(
        &self,
        client: &Client,
        own: &Meter,
        user: &SignedIn,
    ) -> Result<String, BlogError> {
        let secret = secret::random::<32>();
        self.store(client, own, &secret, user).await?;
        Ok(secret)
    }

    /// Stores the user of a session.
    pub(crate) async fn store(
        &self,
        client: &Client,
        own: &Meter,
        secret: &str,
        user: &SignedIn,
    ) -> Result<(), BlogError> {
        let id = secret::stored(secret);
        let item = json!({
            "id": id,
            "userId": user.user_id,
            "username": user.username,
            "ttl": LIFETIME_S,
        });
        client
            .upsert(own, &self.container, &id, &item, None)
            .await?;
        self.keep(&id, user);
        Ok(())
    }

    /// Ends a session.
    pub(crate) async fn end(
        &self,
        client: &Client,
        own: &Meter,
        secret: &str,
    ) -> Result<(), BlogError> {
        let id = secret::stored(secret);
        self.cache.remove(&id);
        match client.delete(own, &self.container, &id, &id, None).await {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Shows the new name of a user in all of the user's sessions of this process.
    pub(crate) fn rename(&self, user_id: &str, username: &str) {
        self.cache.for_each(|cached| {
            if cached.user.user_id == user_id {
                username.clone_into(&mut cached.user.username);
            }
        });
    }

    /// Adds a page to the running sum of a browser and returns the sum.
    pub(crate) fn add_page(&self, secret: &str, pages: u64, cost: &Measurement) -> RunningSum {
        let id = secret::stored(secret);
        self.sums.update(&id, RunningSum::default, |sum| {
            sum.pages += pages;
            sum.requests += cost.requests as u64;
            sum.charge.0 += cost.ru.0;
        })
    }

    /// Returns the running sum of a browser.
    pub(crate) fn sum(&self, secret: &str) -> RunningSum {
        self.sums.get(&secret::stored(secret)).unwrap_or_default()
    }

    fn keep(&self, id: &str, user: &SignedIn) {
        let cached = Cached {
            user: user.clone(),
            read: Instant::now(),
        };
        self.cache.insert(id, cached);
    }
}
