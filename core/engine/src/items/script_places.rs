//! The places of scripts: what the caller that admits requests with scripts needs to know of them,
//! and the locks under which the scripts of one logical partition run one after the other.

use crate::Engine;
use crate::catalog::Container;
use crate::partition::keys::{self, EpkPrefix};
use orrery_model::partition_key::PartitionKey;
use orrery_model::sync::{lock, wait_timeout};
use orrery_model::{Error, Kind, Result, Rid, limits};
use orrery_script::{ScriptError, Ticket};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The time between two looks at the ticket of a request that waits for a lock.
const TICKET_INTERVAL: Duration = Duration::from_millis(50);

/// The place of a request with scripts among all such requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPlace {
    /// The database, whose requests have a fair part of the script processes.
    pub database: Rid,
    /// The name of the logical partition, whose scripts run one after the other; `None` if it is
    /// not known before the request runs, or if the request may run beside others.
    pub exclusive: Option<Vec<u8>>,
}

impl Container {
    /// Returns the place of a request that runs scripts, in the logical partition of `key` if that
    /// is known.
    pub fn script_place(&self, key: Option<&PartitionKey>) -> ScriptPlace {
        let definition = self.partition_key();
        let key = key.filter(|key| definition.check(key).is_ok());
        ScriptPlace {
            database: self.rid().database_part(),
            exclusive: key.map(|key| name(self.rid(), keys::epk_prefix(&definition.epk(key)))),
        }
    }
}

impl Engine {
    /// Returns the number of requests with scripts that may run at once.
    pub fn script_requests(&self) -> usize {
        self.scripts().max_requests()
    }
}

/// Returns the name of a logical partition among all containers.
fn name(container: Rid, epk_prefix: EpkPrefix) -> Vec<u8> {
    [container.as_bytes(), &epk_prefix].concat()
}

/// The logical partitions in which a script runs.
#[derive(Debug, Default)]
pub(crate) struct ScriptLocks {
    held: Mutex<BTreeSet<Vec<u8>>>,
    /// Notified when a lock is released.
    released: Condvar,
}

/// The lock of a logical partition, until it is dropped.
pub(crate) struct ScriptLock<'a> {
    locks: &'a ScriptLocks,
    name: Vec<u8>,
}

impl ScriptLocks {
    /// Waits until no other script runs in a logical partition.
    ///
    /// # Errors
    /// 429 if the lock is not free after the time of a request, or if the request was ended.
    pub(crate) fn lock(&self, container: Rid, epk_prefix: EpkPrefix) -> Result<ScriptLock<'_>> {
        let name = name(container, epk_prefix);
        let ticket = Ticket::current();
        let deadline = Instant::now() + Duration::from_millis(limits::REQUEST_TIME_MS);
        let mut held = lock(&self.held);
        while held.contains(&name) {
            if ticket.as_ref().is_some_and(Ticket::is_ended) {
                return Err(crate::errors::script_error(ScriptError::Evicted));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(
                    Kind::Throttled,
                    "Request rate is large: other scripts of the logical partition did not end in \
                     time. Please retry later.",
                )
                .with_retry_after_ms(100));
            }
            held = wait_timeout(&self.released, held, left.min(TICKET_INTERVAL));
        }
        held.insert(name.clone());
        Ok(ScriptLock { locks: self, name })
    }
}

impl Drop for ScriptLock<'_> {
    fn drop(&mut self) {
        lock(&self.locks.held).remove(&self.name);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_two_logical_partitions_do_not_wait_for_each_other() {
        let locks = ScriptLocks::default();
        let container = Rid::container(Rid::database(1), 1);
        let _one = locks.lock(container, [1; 8]).expect("it is free");
        let _other = locks.lock(container, [2; 8]).expect("it is free");
        let elsewhere = Rid::container(Rid::database(2), 1);
        let _elsewhere = locks.lock(elsewhere, [1; 8]).expect("it is free");
    }

    #[test]
    fn a_request_that_was_ended_does_not_wait_for_a_lock() {
        let locks = ScriptLocks::default();
        let container = Rid::container(Rid::database(1), 1);
        let _held = locks.lock(container, [1; 8]).expect("it is free");
        let ticket = Ticket::default();
        ticket.end();
        let waited = ticket.run(|| locks.lock(container, [1; 8]).map(drop));
        assert_eq!(waited.expect_err("it was ended").status(), 429);
    }
}
