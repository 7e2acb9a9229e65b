//! Sign-ups and renames: a write operation together with the account and the claim of the name.
//!
//! ```text
//! form token ─> lock ─> journal: sent before? ─> account with the name ─> claim of the name
//!            ─> write operation ─> account: the name is current ─> claim of the old name released
//! ```
//! Promises:
//! 1. A form that was applied before changes neither names nor passwords.
//! 2. One sign-up of a form, and one rename of a user, is in progress at a time. The whole change
//!    goes on if the browser closes the connection.
//! 3. A change that is refused leaves no account and no claim. If its outcome is unknown, the names
//!    stay reserved for the user, and sending the form again completes the change.
//!
//! Left out: order between several processes that rename one user at the same time. The etags of
//! the account make all but one of them fail.

use crate::accounts::{Account, Claim};
use crate::sessions::SignedIn;
use crate::state::AppState;
use orrery_blog::sync::lock;
use orrery_blog::writes::{Outcome, Receipt, WriteError, WriteOperation};
use orrery_blog::{Blog, BlogError, Client, Meter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::OwnedMutexGuard;

/// Locks above which those that are not in use are removed.
const UNUSED_LOCKS_MAX: usize = 1_000;

/// The locks of sign-ups and renames in progress.
#[derive(Default)]
pub(crate) struct Registrations(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Registrations {
    async fn acquire(&self, name: &str) -> OwnedMutexGuard<()> {
        let mutex = {
            let mut locks = lock(&self.0);
            if locks.len() > UNUSED_LOCKS_MAX {
                // A lock that is held or awaited has a second owner.
                locks.retain(|_, mutex| Arc::strong_count(mutex) > 1);
            }
            locks.entry(name.to_owned()).or_default().clone()
        };
        mutex.lock_owned().await
    }
}

/// The result of a sign-up or rename.
pub(crate) enum Registered {
    /// The operation is applied; the user has the name.
    Applied(Box<Receipt>, SignedIn),
    /// The name belongs to another user.
    Taken,
    /// The form was sent before with another password.
    OtherPassword,
}

/// A sign-up or rename in progress.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) state: AppState,
    pub(crate) client: Client,
    pub(crate) home: Blog,
    /// The meter of the application's own requests.
    pub(crate) own: Meter,
    pub(crate) deadline: Instant,
    pub(crate) token: String,
}

impl Registration {
    /// Creates the user `user` with a password.
    ///
    /// # Errors
    /// Those of [`orrery_blog::writes::Writes::submit`] and of requests for the account.
    pub(crate) async fn sign_up(
        self,
        user: SignedIn,
        password: String,
    ) -> Result<Registered, WriteError> {
        let task = tokio::spawn(async move {
            let registrations = &self.state.registrations;
            let _form = registrations.acquire(&format!("form {}", self.token)).await;
            self.sign_up_here(user, password).await
        });
        joined(task.await)
    }

    async fn sign_up_here(
        &self,
        user: SignedIn,
        password: String,
    ) -> Result<Registered, WriteError> {
        let operation = WriteOperation::SignUp {
            user_id: user.user_id.clone(),
            username: user.username.clone(),
        };
        let was_sent = self.was_sent(&operation).await?;
        let accounts = &self.state.accounts;
        let known = accounts
            .account(&self.client, &self.own, &user.user_id)
            .await?;
        if let Some(account) = &known
            && (was_sent == Sent::Applied || self.is_user(&user.user_id).await?)
        {
            if !accounts.is_password(Some(account), &password).await? {
                return Ok(Registered::OtherPassword);
            }
            let receipt = self.submit(operation).await?;
            return Ok(Registered::Applied(Box::new(receipt), account.user()));
        }
        let hash = accounts.hash(password).await?;
        let account = match known {
            Some(mut account) => {
                account.set_password_hash(&hash);
                account
            }
            None => Account::new(&user, Some(&hash)),
        };
        accounts.store(&self.client, &self.own, &account).await?;
        let claim = accounts.claim(&self.client, &self.own, &self.home, &user);
        if claim.await? == Claim::Taken {
            self.undo_sign_up(&user).await?;
            return Ok(Registered::Taken);
        }
        let submitted = self.submit(operation).await;
        if is_refused(&submitted) {
            self.undo_sign_up(&user).await?;
        }
        Ok(Registered::Applied(Box::new(submitted?), user))
    }

    /// Removes the account of a user who was not created. The claim loses its validity with the
    /// account, so a failure to release it does no harm.
    async fn undo_sign_up(&self, user: &SignedIn) -> Result<(), BlogError> {
        let accounts = &self.state.accounts;
        accounts
            .remove(&self.client, &self.own, &user.user_id)
            .await?;
        accounts.release(&self.client, &self.own, user).await
    }

    /// Gives a user another name.
    ///
    /// # Errors
    /// Those of [`orrery_blog::writes::Writes::submit`] and of requests for the account.
    pub(crate) async fn rename(self, renamed: SignedIn) -> Result<Registered, WriteError> {
        let task = tokio::spawn(async move {
            let registrations = &self.state.registrations;
            let user = format!("user {}", renamed.user_id);
            let _user = registrations.acquire(&user).await;
            self.rename_here(renamed).await
        });
        joined(task.await)
    }

    async fn rename_here(&self, renamed: SignedIn) -> Result<Registered, WriteError> {
        let operation = WriteOperation::Rename {
            user_id: renamed.user_id.clone(),
            username: renamed.username.clone(),
        };
        let was_sent = self.was_sent(&operation).await?;
        let before = self.account_or_new(&renamed).await?;
        if was_sent == Sent::Applied {
            let receipt = self.submit(operation).await?;
            // The application may have ended between the write and the change of the account.
            let is_open = before.next_username() == Some(renamed.username.as_str());
            let user = match is_open {
                true => self.finish_rename(&renamed).await?,
                false => before.user(),
            };
            return Ok(Registered::Applied(Box::new(receipt), user));
        }
        let accounts = &self.state.accounts;
        let mut account = before.clone();
        account.set_names(&before.user().username, Some(&renamed.username));
        accounts.store(&self.client, &self.own, &account).await?;
        let claim = accounts.claim(&self.client, &self.own, &self.home, &renamed);
        if claim.await? == Claim::Taken {
            self.undo_rename(&renamed, &before).await?;
            return Ok(Registered::Taken);
        }
        let submitted = self.submit(operation).await;
        if is_refused(&submitted) {
            self.undo_rename(&renamed, &before).await?;
        }
        let receipt = submitted?;
        if receipt.outcome != Outcome::Done {
            return Ok(Registered::Applied(Box::new(receipt), before.user()));
        }
        let user = self.finish_rename(&renamed).await?;
        if let Some(open) = before.next_username() {
            self.release(&renamed, open).await?;
        }
        Ok(Registered::Applied(Box::new(receipt), user))
    }

    /// Returns the account of a user; one without a password for a seeded user.
    async fn account_or_new(&self, user: &SignedIn) -> Result<Account, BlogError> {
        let accounts = &self.state.accounts;
        let known = accounts
            .account(&self.client, &self.own, &user.user_id)
            .await?;
        if let Some(account) = known {
            return Ok(account);
        }
        let stored = self.home.user(&self.own, &user.user_id).await;
        let username = match stored {
            Ok(stored) => stored["username"].as_str().unwrap_or_default().to_owned(),
            Err(e) if e.is_not_found() => user.username.clone(),
            Err(e) => return Err(e),
        };
        let user_id = user.user_id.clone();
        Ok(Account::new(&SignedIn { user_id, username }, None))
    }

    /// Makes the new name the current one of the account and releases the old name.
    async fn finish_rename(&self, renamed: &SignedIn) -> Result<SignedIn, BlogError> {
        let old = self.set_names(renamed, &renamed.username, None).await?;
        self.release(renamed, &old.username).await?;
        Ok(renamed.clone())
    }

    /// Gives the account the names that it had before, and releases the new one.
    async fn undo_rename(&self, renamed: &SignedIn, before: &Account) -> Result<(), BlogError> {
        let current = before.user().username;
        let next = before.next_username();
        self.set_names(renamed, &current, next).await?;
        let keeps = [Some(current.as_str()), next];
        let is_kept = |name: &str| name.to_lowercase() == renamed.username.to_lowercase();
        if keeps.into_iter().flatten().any(is_kept) {
            return Ok(());
        }
        let accounts = &self.state.accounts;
        accounts.release(&self.client, &self.own, renamed).await
    }

    /// Changes the names of an account and returns the user with the name before.
    async fn set_names(
        &self,
        user: &SignedIn,
        username: &str,
        next: Option<&str>,
    ) -> Result<SignedIn, BlogError> {
        let mut account = self.account_or_new(user).await?;
        let before = account.user();
        account.set_names(username, next);
        let accounts = &self.state.accounts;
        accounts.store(&self.client, &self.own, &account).await?;
        Ok(before)
    }

    /// Releases a name that `user` had, unless it is the current one.
    async fn release(&self, user: &SignedIn, name: &str) -> Result<(), BlogError> {
        if name.to_lowercase() == user.username.to_lowercase() {
            return Ok(());
        }
        let old = SignedIn {
            user_id: user.user_id.clone(),
            username: name.to_owned(),
        };
        let accounts = &self.state.accounts;
        accounts.release(&self.client, &self.own, &old).await
    }

    async fn submit(&self, operation: WriteOperation) -> Result<Receipt, WriteError> {
        let writes = &self.state.writes;
        writes
            .submit(&self.token, operation, &self.own, self.deadline)
            .await
    }

    /// Returns the fate of an earlier submission of the form.
    async fn was_sent(&self, operation: &WriteOperation) -> Result<Sent, WriteError> {
        let sent = self
            .state
            .writes
            .sent_before(&self.own, &self.token)
            .await?;
        match sent {
            Some((stored, _)) if !stored.has_same_intent(operation) => Err(WriteError::SentBefore),
            Some((_, true)) => Ok(Sent::Applied),
            _ => Ok(Sent::NotApplied),
        }
    }

    async fn is_user(&self, user_id: &str) -> Result<bool, BlogError> {
        match self.home.user(&self.own, user_id).await {
            Ok(_) => Ok(true),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// The fate of an earlier submission of a form.
#[derive(PartialEq, Eq)]
enum Sent {
    /// The operation is applied everywhere.
    Applied,
    /// The form was not sent, or the operation is incomplete.
    NotApplied,
}

/// Returns true if the operation certainly had no effect and will have none.
fn is_refused(submitted: &Result<Receipt, WriteError>) -> bool {
    match submitted {
        Ok(receipt) => receipt.outcome != Outcome::Done,
        Err(WriteError::SentBefore) => true,
        Err(WriteError::Failed(_)) => false,
    }
}

fn joined(
    result: Result<Result<Registered, WriteError>, tokio::task::JoinError>,
) -> Result<Registered, WriteError> {
    result.unwrap_or_else(|e| {
        Err(WriteError::Failed(BlogError::Unexpected {
            operation: "a change of an account".into(),
            reason: e.to_string(),
        }))
    })
}
