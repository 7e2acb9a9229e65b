//! Locks in memory, one for each entity that a write operation touches.
//!
//! Locks are taken in the order of their names, so two operations cannot wait for each other. They
//! hold within one process; a second process relies on the transactions of the database alone.

use crate::sync::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::WriteOperation;

/// Entries above which unused locks are removed.
const UNUSED_MAX: usize = 1_000;

/// The locks of all entities in use.
#[derive(Default)]
pub(crate) struct Locks(Mutex<HashMap<String, Arc<RwLock<()>>>>);

/// A held lock. Dropping it releases the lock.
#[expect(dead_code, reason = "the guards are held, not read")]
pub(crate) enum Held {
    Shared(OwnedRwLockReadGuard<()>),
    Exclusive(OwnedRwLockWriteGuard<()>),
}

impl Locks {
    /// Waits for the lock `name`.
    pub(crate) async fn acquire(&self, name: &str, is_exclusive: bool) -> Held {
        let entity = {
            let mut entities = lock(&self.0);
            if entities.len() > UNUSED_MAX {
                // A lock that is held or awaited has a second owner.
                entities.retain(|_, entity| Arc::strong_count(entity) > 1);
            }
            entities.entry(name.to_owned()).or_default().clone()
        };
        if is_exclusive {
            Held::Exclusive(entity.write_owned().await)
        } else {
            Held::Shared(entity.read_owned().await)
        }
    }

    /// Waits for all locks of an operation.
    pub(crate) async fn acquire_for(&self, operation: &WriteOperation) -> Vec<Held> {
        let mut held = Vec::new();
        for (name, is_exclusive) in entities_of(operation) {
            held.push(self.acquire(&name, is_exclusive).await);
        }
        held
    }
}

/// Returns the entities of an operation in the order in which they are locked, each with true if
/// the lock is exclusive.
///
/// A rename excludes every write that shows the user's name, so that no item is written with a name
/// that is no longer current.
pub(crate) fn entities_of(operation: &WriteOperation) -> Vec<(String, bool)> {
    let user = format!("user {}", operation.user_id());
    let post = match operation.post_id() {
        Some(post_id) => format!("post {post_id}"),
        None => String::new(),
    };
    match operation {
        WriteOperation::SignUp { .. } | WriteOperation::Rename { .. } => vec![(user, true)],
        WriteOperation::CreatePost { .. } => vec![(post, true), (user, false)],
        WriteOperation::EditPost { .. } | WriteOperation::DeletePost { .. } => vec![(post, true)],
        WriteOperation::Comment { .. } | WriteOperation::Like { .. } => {
            vec![(post, false), (user, false)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entities_of_every_operation_are_in_the_order_of_their_names() {
        let like = WriteOperation::like("p", "u");
        let names = entities_of(&like);
        assert_eq!(
            names,
            [("post p".to_owned(), false), ("user u".to_owned(), false)]
        );
        assert!(names.is_sorted());
    }

    #[tokio::test]
    async fn a_rename_waits_for_the_writes_that_show_the_name() {
        let locks = Arc::new(Locks::default());
        let shared = locks.acquire_for(&WriteOperation::like("p", "u")).await;
        let also_shared = locks.acquire_for(&WriteOperation::like("q", "u")).await;
        let rename = WriteOperation::Rename {
            user_id: "u".into(),
            username: "dora".into(),
        };
        let other = locks.clone();
        let waiting = tokio::spawn(async move { other.acquire_for(&rename).await.len() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop((shared, also_shared));
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
