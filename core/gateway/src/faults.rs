//! Fault rules: the operator makes requests late or fail, to test clients.
//!
//! A rule states which requests it strikes (operations, database, container), how often (a share, a
//! number of requests, an end time) and with which effect (a delay, an error status, no reply).
//! Only the first rule that strikes a request has an effect. A rule takes effect before the
//! operation, which is then not carried out, or after the operation, whose effect then stays.
//! Together with no reply, the first is a request lost on the network, and the second a lost reply.
//!
//! A request that is refused for another reason, such as a wrong signature, is never struck. Random
//! decisions come from the [`World`], so equal worlds strike equal requests. Without any rule, a
//! request costs one atomic load.

use crate::operations::Operation;
use crate::route::Path;
use orrery_engine::Engine;
use orrery_model::sync::{read, write};
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// The statuses that a rule can answer with, and the kind of error that each becomes.
const STATUSES: [(u16, Kind); 5] = [
    (408, Kind::RequestTimeout),
    (410, Kind::PartitionKeyRangeGone),
    (429, Kind::Throttled),
    (449, Kind::RetryWith),
    (503, Kind::Unavailable),
];

/// The largest number of rules in force.
const RULES: usize = 1000;

/// The time at which a rule takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultTime {
    /// Before the operation, which is then not carried out.
    #[default]
    Before,
    /// After the operation, whose effect then stays.
    After,
}

/// The reply that the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The reply of the operation, delayed.
    OperationReply,
    /// This reply instead of that of the operation.
    Replacement(FaultAnswer),
    /// None: the connection is closed; in HTTP/2 the stream is reset.
    NoReply,
}

/// The reply of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAnswer {
    /// 408, 410, 429, 449 or 503.
    pub status: u16,
    /// `x-ms-substatus`; 0 omits the header, `None` sends the usual one of the status.
    pub sub_status: Option<u32>,
    /// `x-ms-retry-after-ms`; `None` sends the usual one of the status.
    pub retry_after_ms: Option<u64>,
}

/// A rule: the requests that it strikes, and its effect.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The operations; empty for all.
    pub operations: Vec<&'static Operation>,
    /// The id of the addressed database; `None` for any.
    pub database: Option<String>,
    /// The id of the addressed container; `None` for any.
    pub container: Option<String>,
    /// The share of these requests that the rule strikes, from 0 to 1.
    pub share: f64,
    /// The largest number of requests that the rule strikes.
    pub count: Option<u64>,
    /// The time from which on the rule strikes nothing, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// The time of the effect.
    pub time: FaultTime,
    /// The delay of the reply.
    pub delay: Duration,
    /// The reply.
    pub outcome: FaultOutcome,
}

/// A rule in force.
#[derive(Debug)]
pub struct ArmedFault {
    /// The number of the rule, which no other rule of this server has.
    pub id: u64,
    /// The rule.
    pub rule: FaultRule,
    seen: AtomicU64,
    struck: AtomicU64,
}

impl ArmedFault {
    /// Returns the number of requests of the operations, database and container of the rule.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Returns the number of requests that the rule struck.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

/// The rules in force.
pub struct Faults {
    world: Arc<dyn World>,
    rules: RwLock<Vec<Arc<ArmedFault>>>,
    /// The number of rules, which requests read without the lock.
    armed: AtomicUsize,
    last_id: AtomicU64,
    struck: AtomicU64,
}

/// The properties of a request that rules are compared with.
pub(crate) struct FaultTarget {
    operation: &'static Operation,
    database: Option<String>,
    container: Option<String>,
}

/// The effect of a rule on one request.
#[derive(Debug)]
pub(crate) struct InjectedFault {
    pub(crate) delay: Duration,
    pub(crate) reply: InjectedReply,
}

/// The reply after the delay of an [`InjectedFault`].
#[derive(Debug)]
pub(crate) enum InjectedReply {
    /// That of the operation.
    OperationReply,
    Error(Error),
    /// No reply.
    None,
}

/// The error of a request that gets no reply because of a fault rule.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered;

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fault rule of the management API leaves a request without an answer")
    }
}

impl std::error::Error for Unanswered {}

/// Returns the statuses that a rule can answer with.
pub fn known_statuses() -> impl Iterator<Item = u16> {
    STATUSES.iter().map(|(status, _)| *status)
}

impl Faults {
    /// Creates an empty set of rules.
    pub fn new(world: Arc<dyn World>) -> Self {
        Faults {
            world,
            rules: RwLock::default(),
            armed: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            struck: AtomicU64::new(0),
        }
    }

    /// Puts a rule in force, after the existing rules.
    ///
    /// # Errors
    /// A sentence that names a status that no rule can have, or states that there are too many
    /// rules.
    pub fn arm(&self, rule: FaultRule) -> Result<Arc<ArmedFault>, String> {
        if let FaultOutcome::Replacement(FaultAnswer { status, .. }) = rule.outcome
            && known_statuses().all(|known| known != status)
        {
            return Err(format!(
                "{status} is none of the statuses 408, 410, 429, 449 and 503"
            ));
        }
        let mut rules = write(&self.rules);
        if rules.len() >= RULES {
            return Err(format!(
                "there are {RULES} rules already, and no more are taken"
            ));
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let armed = Arc::new(ArmedFault {
            id,
            rule,
            seen: AtomicU64::new(0),
            struck: AtomicU64::new(0),
        });
        rules.push(armed.clone());
        self.armed.store(rules.len(), Ordering::Release);
        Ok(armed)
    }

    /// Returns all rules, those that strike nothing any more among them, the oldest first.
    pub fn rules(&self) -> Vec<Arc<ArmedFault>> {
        read(&self.rules).clone()
    }

    /// Removes the rule with this number, or all rules. Returns the number of removed rules.
    pub fn disarm(&self, id: Option<u64>) -> usize {
        let mut rules = write(&self.rules);
        let before = rules.len();
        rules.retain(|armed| id.is_some_and(|id| id != armed.id));
        self.armed.store(rules.len(), Ordering::Release);
        before - rules.len()
    }

    /// Returns the number of requests that were struck since the server started.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// Returns the properties of a request that rules are compared with; `None` if there are no
    /// rules.
    pub(crate) fn fault_target(
        &self,
        operation: &'static Operation,
        path: &Path,
        engine: &Engine,
    ) -> Option<FaultTarget> {
        if self.armed.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(FaultTarget {
            operation,
            database: path.database_name(engine),
            container: path.container_name(engine),
        })
    }

    /// Returns the effect of the first rule for `time` that strikes a request, if any does.
    pub(crate) fn injected_fault(
        &self,
        time: FaultTime,
        target: Option<&FaultTarget>,
    ) -> Option<InjectedFault> {
        let target = target?;
        let rules = read(&self.rules);
        let armed = rules
            .iter()
            .find(|armed| armed.rule.time == time && self.strikes(armed, target))?;
        self.struck.fetch_add(1, Ordering::Relaxed);
        let reply = match armed.rule.outcome {
            FaultOutcome::OperationReply => InjectedReply::OperationReply,
            FaultOutcome::Replacement(answer) => InjectedReply::Error(answer.error(armed.id)),
            FaultOutcome::NoReply => InjectedReply::None,
        };
        Some(InjectedFault {
            delay: armed.rule.delay,
            reply,
        })
    }

    /// Returns true if a rule strikes a request, and counts the request for the rule.
    fn strikes(&self, armed: &ArmedFault, target: &FaultTarget) -> bool {
        let rule = &armed.rule;
        let matches =
            |wanted: &Option<String>, id: &Option<String>| wanted.is_none() || wanted == id;
        if !rule.operations.is_empty() && !rule.operations.contains(&target.operation) {
            return false;
        }
        if !matches(&rule.database, &target.database)
            || !matches(&rule.container, &target.container)
        {
            return false;
        }
        if rule
            .expires_at_ms
            .is_some_and(|end| self.world.now_ms() >= end)
        {
            return false;
        }

        armed.seen.fetch_add(1, Ordering::Relaxed);
        if rule.share < 1.0 && unit_interval(self.world.random()) >= rule.share {
            return false;
        }
        // One step compares and counts, so that concurrent requests cannot exceed the count.
        let next = |struck: u64| match rule.count {
            Some(count) if struck >= count => None,
            _ => Some(struck + 1),
        };
        armed
            .struck
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }
}

/// Maps a random number to the range from 0 to below 1.
fn unit_interval(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

impl FaultAnswer {
    /// Returns the error that the client gets from `rule`.
    fn error(&self, rule: u64) -> Error {
        let known = STATUSES.iter().find(|(status, _)| *status == self.status);
        let kind = known.map_or(Kind::Unavailable, |(_, kind)| *kind);
        let message = format!(
            "The fault rule {rule} of the management API answers this request with {}.",
            self.status
        );
        let mut error = Error::new(kind, message);
        if let Some(sub_status) = self.sub_status {
            error = error.with_sub_status(sub_status);
        }
        match self.retry_after_ms {
            Some(milliseconds) => error.with_retry_after_ms(milliseconds),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::world::SeededWorld;

    fn operation(name: &str) -> &'static Operation {
        Operation::from_name(name).expect("an operation")
    }

    fn rule() -> FaultRule {
        FaultRule {
            operations: vec![operation("read_item")],
            database: Some("blog".into()),
            container: None,
            share: 1.0,
            count: None,
            expires_at_ms: None,
            time: FaultTime::Before,
            delay: Duration::ZERO,
            outcome: FaultOutcome::Replacement(FaultAnswer {
                status: 503,
                sub_status: None,
                retry_after_ms: None,
            }),
        }
    }

    fn fault_target(name: &str, database: &str) -> FaultTarget {
        FaultTarget {
            operation: operation(name),
            database: Some(database.into()),
            container: Some("posts".into()),
        }
    }

    fn strikes(faults: &Faults, fault_target: &FaultTarget, tries: usize) -> usize {
        (0..tries)
            .filter(|_| {
                faults
                    .injected_fault(FaultTime::Before, Some(fault_target))
                    .is_some()
            })
            .count()
    }

    #[test]
    fn a_rule_strikes_the_requests_that_it_names_as_often_as_it_states() {
        let world = Arc::new(SeededWorld::new(1000, 7));
        let faults = Faults::new(world.clone());
        let armed = faults
            .arm(FaultRule {
                count: Some(2),
                ..rule()
            })
            .expect("a rule");
        assert_eq!(strikes(&faults, &fault_target("create_item", "blog"), 3), 0);
        assert_eq!(strikes(&faults, &fault_target("read_item", "other"), 3), 0);
        assert!(
            faults
                .injected_fault(FaultTime::After, Some(&fault_target("read_item", "blog")))
                .is_none()
        );
        assert_eq!(strikes(&faults, &fault_target("read_item", "blog"), 5), 2);
        assert_eq!((armed.seen(), armed.struck(), faults.struck()), (5, 2, 2));
        assert_eq!(
            (faults.disarm(Some(armed.id)), faults.rules().len()),
            (1, 0)
        );
        faults
            .arm(FaultRule {
                expires_at_ms: Some(1500),
                ..rule()
            })
            .expect("a rule");
        assert_eq!(strikes(&faults, &fault_target("read_item", "blog"), 1), 1);
        world.advance_ms(500);
        assert_eq!(strikes(&faults, &fault_target("read_item", "blog"), 1), 0);
    }

    #[test]
    fn a_share_strikes_this_part_of_the_requests_and_the_same_ones_in_equal_worlds() {
        let struck = |seed| {
            let faults = Faults::new(Arc::new(SeededWorld::new(0, seed)));
            faults
                .arm(FaultRule {
                    share: 0.25,
                    ..rule()
                })
                .expect("a rule");
            let fault_target = fault_target("read_item", "blog");
            (0..1000)
                .map(|_| {
                    faults
                        .injected_fault(FaultTime::Before, Some(&fault_target))
                        .is_some()
                })
                .collect::<Vec<_>>()
        };
        let once = struck(3);
        assert_eq!(once, struck(3));
        let count = once.iter().filter(|struck| **struck).count();
        assert!((200..300).contains(&count), "{count}");
    }

    #[test]
    fn unknown_operations_and_statuses_are_refused() {
        let message = Operation::from_name("read_itme").expect_err("unknown");
        assert!(
            message.contains("'read_itme'") && message.contains("read_item,"),
            "{message}"
        );
        let faults = Faults::new(Arc::new(SeededWorld::new(0, 1)));
        let outcome = FaultOutcome::Replacement(FaultAnswer {
            status: 418,
            sub_status: None,
            retry_after_ms: None,
        });
        assert!(faults.arm(FaultRule { outcome, ..rule() }).is_err());
    }

    #[test]
    fn the_reply_has_the_sub_status_and_the_retry_time_of_the_rule() {
        let of = |status, sub_status, retry_after_ms| {
            FaultAnswer {
                status,
                sub_status,
                retry_after_ms,
            }
            .error(1)
        };
        assert_eq!(
            (
                of(410, Some(1007), None).status(),
                of(410, Some(1007), None).sub_status()
            ),
            (410, 1007)
        );
        assert_eq!(of(429, None, Some(77)).retry_after_ms(), Some(77));
        assert_eq!(of(429, None, None).sub_status(), 3200);
        assert_eq!(of(503, Some(0), None).sub_status(), 0);
    }
}
