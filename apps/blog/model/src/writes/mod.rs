//! Write operations of an application: each is stored, applied to every present model, and repeated
//! until it is applied everywhere.
//!
//! ```text
//! form token ─> gate of the site ─> locks of user and post ─> journal: pending
//!            ─> unfinished operations on the same entities are completed
//!            ─> home model ─> the other models, concurrently ─> journal: done
//! ```
//! Promises:
//! 1. An operation is applied once, however often its form is sent: the journal finds the token and
//!    returns the first answer.
//! 2. An operation in the journal is applied to every present model in the end: at the next write
//!    to the same user or post, by a retry in the background, or at the next start.
//! 3. An item never gets a name that is not the user's current name: a rename excludes the writes
//!    that show the name, and these read the name under the lock.
//! 4. Counts are exact: a comment or like and the count of its post change in one transaction.
//!
//! The outcome in the home model is the outcome of the operation. The requests to each model have a
//! meter of their own; those to the journal are in the caller's.
//!
//! Left out: order between several processes that write the same post at the same time. Each
//! process locks in its own memory, and the database's transactions and etags keep items whole.

mod journal;
mod locks;
mod operation;

pub use journal::{ModelCost, Receipt};
pub use operation::{Outcome, WriteOperation, date_now, derived_id};

use crate::models::{Blog, Model};
use crate::site::{Site, WriteTurn};
use crate::sync::lock;
use crate::{BlogError, Client, Meter};
use futures_util::future::join_all;
use journal::{Begun, Journal, State};
use locks::{Locks, entities_of};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pauses before the retries in the background of an operation that is incomplete.
const RETRY_PAUSES_MS: [u64; 6] = [200, 1_000, 3_000, 10_000, 30_000, 60_000];

/// Time for which the requests of a retry in the background are repeated if they are throttled.
const RETRY_PATIENCE: Duration = Duration::from_secs(3);

/// The reason for which a write operation has no receipt.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteError {
    /// A request failed. The operation may be in the journal; sending the form again completes it
    /// and does not apply it twice.
    Failed(BlogError),
    /// The same form was sent before with other contents, and that operation was applied.
    SentBefore,
}

impl From<BlogError> for WriteError {
    fn from(error: BlogError) -> Self {
        Self::Failed(error)
    }
}

/// Submits and completes the write operations of one application. Clones share their state.
#[derive(Clone)]
pub struct Writes(Arc<Inner>);

struct Inner {
    site: Site,
    journal: Journal,
    locks: Locks,
    /// Operations of which this process knows that they are incomplete, by entity.
    unfinished: Mutex<HashMap<String, Vec<String>>>,
    /// Ids of the operations that a task tries again.
    retried: Mutex<HashSet<String>>,
}

/// Returns the id under which the operation of a form is stored. The id may be shown; the token may
/// not, since a second submission needs it.
pub fn receipt_id(token: &str) -> String {
    derived_id(&["receipt", token])
}

impl Writes {
    /// Creates the service for the models of `site`.
    pub fn new(site: Site) -> Self {
        Self(Arc::new(Inner {
            journal: Journal::new(site.control()),
            site,
            locks: Locks::default(),
            unfinished: Mutex::default(),
            retried: Mutex::default(),
        }))
    }

    /// Applies the operation of the form with the secret `token`. Throttled requests are repeated
    /// until `deadline`. The requests to the journal are added to `own`.
    ///
    /// The operation goes on if the caller stops waiting.
    ///
    /// # Errors
    /// [`WriteError::Failed`] if the outcome in the home model is unknown, and
    /// [`WriteError::SentBefore`] if the token belongs to an operation with other contents.
    pub async fn submit(
        &self,
        token: &str,
        operation: WriteOperation,
        own: &Meter,
        deadline: Instant,
    ) -> Result<Receipt, WriteError> {
        let (writes, token, own) = (self.clone(), token.to_owned(), own.clone());
        // A browser may close the connection; the operation is then completed without it.
        let task =
            tokio::spawn(
                async move { writes.submit_here(&token, operation, &own, deadline).await },
            );
        match task.await {
            Ok(result) => result,
            Err(e) => Err(BlogError::unexpected("a write operation", e.to_string()).into()),
        }
    }

    async fn submit_here(
        &self,
        token: &str,
        operation: WriteOperation,
        own: &Meter,
        deadline: Instant,
    ) -> Result<Receipt, WriteError> {
        let id = receipt_id(token);
        // Two submissions of one form wait for each other.
        let _form = self.0.locks.acquire(&format!("form {id}"), true).await;
        let form = FormWrite {
            id: &id,
            operation: &operation,
            own,
            deadline,
        };
        let mut is_new = false;
        loop {
            if let Some(receipt) = self.submit_in_turn(&form, &mut is_new).await? {
                return answer(receipt, &operation, is_new);
            }
        }
    }

    /// Applies the operation of a form under one turn. `None` if home has changed meanwhile; the
    /// operation must then be applied again. Turn and locks are released before that, since other
    /// writers may hold a turn and wait for the locks. `is_new` is set if the journal did not
    /// contain the form.
    async fn submit_in_turn(
        &self,
        form: &FormWrite<'_>,
        is_new: &mut bool,
    ) -> Result<Option<Receipt>, BlogError> {
        let turn = self.0.site.begin_write().await?;
        let _entities = self.0.locks.acquire_for(form.operation).await;
        let patience = |client: &Client| client.with_deadline(form.deadline);
        let begun = self
            .0
            .journal
            .begin(form.own, form.id, form.operation, &patience)
            .await?;
        let stored = match begun {
            Begun::New => {
                *is_new = true;
                form.operation.clone()
            }
            Begun::Before(state) => match *state {
                State::Done(receipt) => return Ok(Some(receipt)),
                State::Pending(stored) => stored,
            },
        };
        // The locks are those of the form's entities, which another content may change.
        if entities_of(&stored) != entities_of(form.operation) {
            let reason = "the form was sent before for another entity";
            return Err(BlogError::unexpected("a write operation", reason));
        }
        let is_current = self
            .complete_unfinished(&turn, &stored, form.id, form.own, &patience)
            .await?;
        if !is_current {
            return Ok(None);
        }
        self.complete(&turn, form.id, &stored, form.own, &patience)
            .await
    }

    /// Returns the operation that an earlier submission of the form with the secret `token` stored,
    /// with true if the operation is complete. `None` if the form was not sent before.
    ///
    /// # Errors
    /// Every error of reading the journal.
    pub async fn sent_before(
        &self,
        own: &Meter,
        token: &str,
    ) -> Result<Option<(WriteOperation, bool)>, BlogError> {
        let stored = self.0.journal.read(own, &receipt_id(token)).await?;
        Ok(stored.map(|state| match state {
            State::Pending(operation) => (operation, false),
            State::Done(receipt) => (receipt.operation, true),
        }))
    }

    /// Returns the receipt of an operation, `None` if there is none or the operation is incomplete.
    pub async fn receipt(&self, own: &Meter, id: &str) -> Result<Option<Receipt>, BlogError> {
        match self.0.journal.read(own, id).await? {
            Some(State::Done(receipt)) => Ok(Some(receipt)),
            _ => Ok(None),
        }
    }

    /// Completes the operations that an earlier process left in the journal, oldest first. Returns
    /// the number of completed operations. An operation that fails is tried again in the background
    /// and before the next write to the same user or post.
    ///
    /// # Errors
    /// Every error of reading the journal.
    pub async fn recover(&self) -> Result<usize, BlogError> {
        let own = Meter::new();
        let pending = self.0.journal.pending(&own).await?;
        for (id, operation) in &pending {
            self.note_unfinished(id, operation);
        }
        let mut completed = 0;
        for (id, operation) in &pending {
            match self.complete_alone(id, operation).await {
                Ok(()) => completed += 1,
                Err(_) => self.retry_later(id, operation),
            }
        }
        Ok(completed)
    }

    /// Completes one stored operation under its locks.
    async fn complete_alone(&self, id: &str, operation: &WriteOperation) -> Result<(), BlogError> {
        let own = Meter::new();
        loop {
            let turn = self.0.site.begin_write().await?;
            let _entities = self.0.locks.acquire_for(operation).await;
            // Another write to the same entity may have completed the operation meanwhile.
            if !self.is_unfinished(id, operation) {
                return Ok(());
            }
            // The locks must not be held for long: a visitor may wait for them.
            let deadline = Instant::now() + RETRY_PATIENCE;
            let patience = |client: &Client| client.with_deadline(deadline);
            let completed = self.complete(&turn, id, operation, &own, &patience).await?;
            if let Some(receipt) = completed {
                return receipt.failure().map_or(Ok(()), Err);
            }
        }
    }

    /// Completes the unfinished operations on the entities of `operation`, which are locked. False
    /// if home has changed meanwhile.
    async fn complete_unfinished(
        &self,
        turn: &WriteTurn,
        operation: &WriteOperation,
        own_id: &str,
        own: &Meter,
        patience: &(dyn Fn(&Client) -> Client + Sync),
    ) -> Result<bool, BlogError> {
        let mut ids = Vec::new();
        {
            let unfinished = lock(&self.0.unfinished);
            for (entity, _) in entities_of(operation) {
                for id in unfinished.get(&entity).into_iter().flatten() {
                    if id != own_id && !ids.contains(id) {
                        ids.push(id.clone());
                    }
                }
            }
        }
        for id in ids {
            let stored = match self.0.journal.read(own, &id).await? {
                Some(State::Pending(stored)) => stored,
                // Expired or completed: nothing is left to do.
                _ => {
                    self.forget_unfinished(&id);
                    continue;
                }
            };
            let completed = self.complete(turn, &id, &stored, own, patience).await?;
            let Some(receipt) = completed else {
                return Ok(false);
            };
            if let Some(e) = receipt.failure() {
                return Err(e);
            }
        }
        Ok(true)
    }

    /// Applies a stored operation to the home model, then to the others, and marks it as done.
    /// `None` if home has changed meanwhile: the operation is pending and must be applied again
    /// under a new turn.
    async fn complete(
        &self,
        turn: &WriteTurn,
        id: &str,
        operation: &WriteOperation,
        own: &Meter,
        patience: &(dyn Fn(&Client) -> Client + Sync),
    ) -> Result<Option<Receipt>, BlogError> {
        let applied = self.apply_everywhere(turn, id, operation, own, patience);
        let (applied, is_current) = match applied.await {
            Ok(receipt) => (Ok(receipt), turn.is_current().await),
            Err(e) => (Err(e), Ok(true)),
        };
        let receipt = match (applied, is_current) {
            (Ok(receipt), Ok(true)) => receipt,
            (Ok(_), Ok(false)) => return Ok(None),
            (Err(e), _) | (_, Err(e)) => {
                self.retry_later(id, operation);
                return Err(e);
            }
        };
        let is_complete = receipt.failure().is_none();
        let is_marked = is_complete
            && self
                .0
                .journal
                .finish(own, operation, &receipt, patience)
                .await
                .is_ok();
        if is_marked {
            self.forget_unfinished(id);
        } else {
            self.retry_later(id, operation);
        }
        Ok(Some(receipt))
    }

    async fn apply_everywhere(
        &self,
        turn: &WriteTurn,
        id: &str,
        operation: &WriteOperation,
        own: &Meter,
        patience: &(dyn Fn(&Client) -> Client + Sync),
    ) -> Result<Receipt, BlogError> {
        let blog = |model: Model| {
            let blog = self.0.site.blog(model);
            let client = patience(blog.client());
            blog.with_client(client)
        };
        let home = blog(turn.home);
        let mut receipt = Receipt {
            id: id.to_owned(),
            operation: operation.clone(),
            outcome: Outcome::Done,
            started: date_now(),
            is_repeated: false,
            models: Vec::new(),
        };
        let username = match current_username(&home, own, operation).await? {
            Ok(username) => username,
            Err(outcome) => {
                receipt.outcome = outcome;
                return Ok(receipt);
            }
        };

        let (cost, outcome) = measured(&home, operation, &username).await;
        receipt.outcome = outcome?;
        receipt.models.push(cost);
        // The home model decides: an operation without effect there has none elsewhere.
        if receipt.outcome != Outcome::Done {
            return Ok(receipt);
        }
        let others: Vec<Blog> = turn
            .models
            .iter()
            .filter(|model| **model != turn.home)
            .map(|model| blog(*model))
            .collect();
        let applications = others
            .iter()
            .map(|other| measured(other, operation, &username));
        for (mut cost, outcome) in join_all(applications).await {
            cost.failure = outcome.err();
            receipt.models.push(cost);
        }
        receipt.models.sort_by_key(|cost| cost.model);
        Ok(receipt)
    }

    /// Remembers an incomplete operation and tries it again in the background.
    fn retry_later(&self, id: &str, operation: &WriteOperation) {
        self.note_unfinished(id, operation);
        if !lock(&self.0.retried).insert(id.to_owned()) {
            return;
        }
        let (writes, id, operation) = (self.clone(), id.to_owned(), operation.clone());
        tokio::spawn(async move {
            for pause_ms in RETRY_PAUSES_MS {
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                if writes.complete_alone(&id, &operation).await.is_ok() {
                    break;
                }
            }
            lock(&writes.0.retried).remove(&id);
        });
    }

    fn note_unfinished(&self, id: &str, operation: &WriteOperation) {
        let mut unfinished = lock(&self.0.unfinished);
        for (entity, _) in entities_of(operation) {
            let ids = unfinished.entry(entity).or_default();
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
    }

    fn is_unfinished(&self, id: &str, operation: &WriteOperation) -> bool {
        let unfinished = lock(&self.0.unfinished);
        entities_of(operation).iter().any(|(entity, _)| {
            let ids = unfinished.get(entity);
            ids.is_some_and(|ids| ids.iter().any(|known| known == id))
        })
    }

    fn forget_unfinished(&self, id: &str) {
        lock(&self.0.unfinished).retain(|_, ids| {
            ids.retain(|known| known != id);
            !ids.is_empty()
        });
    }
}

/// The operation of a form that was sent.
struct FormWrite<'a> {
    id: &'a str,
    operation: &'a WriteOperation,
    /// The meter of the requests to the journal.
    own: &'a Meter,
    deadline: Instant,
}

/// Returns the receipt as the answer to `operation`, which may have been sent before.
fn answer(
    mut receipt: Receipt,
    operation: &WriteOperation,
    is_new: bool,
) -> Result<Receipt, WriteError> {
    receipt.is_repeated = !is_new;
    if receipt.operation.has_same_intent(operation) {
        Ok(receipt)
    } else {
        Err(WriteError::SentBefore)
    }
}

/// Returns the current name of the user if the items of the operation show it, or the outcome that
/// prevents the operation.
///
/// The read is a request of the application itself. In V1 the write of a comment or like does not
/// look at the post, so the application does.
async fn current_username(
    home: &Blog,
    own: &Meter,
    operation: &WriteOperation,
) -> Result<Result<String, Outcome>, BlogError> {
    if !operation.shows_username() {
        return Ok(Ok(String::new()));
    }
    let is_reaction = matches!(
        operation,
        WriteOperation::Comment { .. } | WriteOperation::Like { .. }
    );
    if let Some(post_id) = operation.post_id()
        && is_reaction
        && home.model == Model::V1
    {
        match home.stored_post(own, post_id).await {
            Err(e) if e.is_not_found() => return Ok(Err(Outcome::PostGone)),
            post => drop(post?),
        }
    }
    let user = match home.user(own, operation.user_id()).await {
        Err(e) if e.is_not_found() => return Ok(Err(Outcome::UserGone)),
        user => user?,
    };
    match &user["username"] {
        Value::String(username) => Ok(Ok(username.clone())),
        _ => Ok(Err(Outcome::UserGone)),
    }
}

/// Applies the operation to one model and measures it.
async fn measured(
    blog: &Blog,
    operation: &WriteOperation,
    username: &str,
) -> (ModelCost, Result<Outcome, BlogError>) {
    let meter = Meter::recording();
    let started = Instant::now();
    let outcome = operation.apply(blog, &meter, username).await;
    let cost = ModelCost {
        model: blog.model,
        measurement: meter.measurement(started.elapsed()),
        records: meter.records(),
        failure: None,
    };
    (cost, outcome)
}
