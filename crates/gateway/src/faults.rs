//! Faults on demand: rules by which requests are delayed or fail, so that clients can be seen to bear it.
//!
//! A rule says which requests it strikes (operation, database, container), how often (a share, a number of times, a time
//! that it ends) and with what (a delay, a status, no answer at all). The first rule that strikes a request is the only
//! one. It strikes before the operation is carried out, so that nothing is done; or after it, so that what was done stays
//! done. With no answer at all the first is a request that was lost on its way, the second an answer that was.
//!
//! Requests that are refused for other reasons, a wrong signature among them, are never struck. Chance comes from the
//! world, so that equal worlds strike equal requests. While there are no rules a request pays for one look at a number.

use crate::operations;
use crate::route::Path;
use orrery_engine::Engine;
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The statuses that a rule can answer with.
const STATUSES: [(u16, Kind); 5] = [
    (408, Kind::RequestTimeout),
    (410, Kind::PartitionKeyRangeGone),
    (429, Kind::Throttled),
    (449, Kind::RetryWith),
    (503, Kind::Unavailable),
];

/// Rules at a time.
const RULES: usize = 1000;

/// When a rule strikes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultTime {
    /// Before the operation is carried out: nothing is done.
    #[default]
    Before,
    /// After it: what was done stays done.
    After,
}

/// What comes back to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The operation's own answer, held back.
    OperationReply,
    /// This answer in its place.
    Replacement(FaultAnswer),
    /// No answer: the connection is closed, of HTTP/2 the stream is reset.
    NoReply,
}

/// What is answered instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultAnswer {
    /// 408, 410, 429, 449 or 503.
    pub status: u16,
    /// `x-ms-substatus`; 0 sends none, `None` the usual one of the status.
    pub sub_status: Option<u32>,
    /// `x-ms-retry-after-ms`; `None` says what the server says by itself.
    pub retry_after_ms: Option<u64>,
}

/// Which requests suffer what.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// The operations it strikes; all if there is none. See [`known_operations`].
    pub operations: Vec<String>,
    /// The id of the database that is addressed; any if there is none.
    pub database: Option<String>,
    /// The id of the container that is addressed; any if there is none.
    pub container: Option<String>,
    /// The share of these requests that it strikes, from 0 to 1.
    pub share: f64,
    /// How many requests it strikes at most.
    pub count: Option<u64>,
    /// The millisecond since 1970 from which on it strikes nothing.
    pub expires_at_ms: Option<u64>,
    /// When it strikes.
    pub time: FaultTime,
    /// How long the answer is held back.
    pub delay: Duration,
    /// What the client gets.
    pub outcome: FaultOutcome,
}

/// A rule in force.
#[derive(Debug)]
pub struct ArmedFault {
    /// Its number, which no other rule has.
    pub id: u64,
    /// What it says.
    pub rule: FaultRule,
    seen: AtomicU64,
    struck: AtomicU64,
}

impl ArmedFault {
    /// Requests that were of the rule's operation, database and container.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Requests that it struck.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

/// The rules in force.
pub struct Faults {
    world: Arc<dyn World>,
    rules: RwLock<Vec<Arc<ArmedFault>>>,
    armed: AtomicUsize,
    last_id: AtomicU64,
    struck: AtomicU64,
}

/// A request, as rules look at it.
pub(crate) struct FaultTarget {
    operation: &'static str,
    database: Option<String>,
    container: Option<String>,
}

/// What a rule does to a request.
#[derive(Debug)]
pub(crate) struct Strike {
    pub(crate) delay: Duration,
    pub(crate) end: StrikeEnd,
}

/// What comes after the delay of a [`Strike`].
#[derive(Debug)]
pub(crate) enum StrikeEnd {
    Own,
    Instead(Error),
    Nothing,
}

/// A request that is not answered, because a fault rule says so.
#[derive(Clone, Copy, Debug)]
pub struct Unanswered;

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a fault rule of the management API leaves a request without an answer")
    }
}

impl std::error::Error for Unanswered {}

/// The names of all operations that a rule can name.
pub fn known_operations() -> impl Iterator<Item = &'static str> {
    operations::ALL.iter().map(|operation| operation.name)
}

/// The statuses that a rule can answer with.
pub fn known_statuses() -> impl Iterator<Item = u16> {
    STATUSES.iter().map(|(status, _)| *status)
}

impl Faults {
    /// No rules yet.
    pub fn new(world: Arc<dyn World>) -> Self {
        let (armed, last_id, struck) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Faults {
            world,
            rules: RwLock::default(),
            armed,
            last_id,
            struck,
        }
    }

    /// Puts a rule in force, behind those there are.
    ///
    /// # Errors
    /// A sentence that says which of its words nobody knows, or that there are too many rules.
    pub fn arm(&self, rule: FaultRule) -> Result<Arc<ArmedFault>, String> {
        if let Some(unknown) = rule
            .operations
            .iter()
            .find(|name| known_operations().all(|known| known != **name))
        {
            let known: Vec<_> = known_operations().collect();
            return Err(format!(
                "there is no operation '{unknown}'; known are {}",
                known.join(", ")
            ));
        }
        if let FaultOutcome::Replacement(FaultAnswer { status, .. }) = rule.outcome
            && known_statuses().all(|known| known != status)
        {
            return Err(format!(
                "{status} is none of the statuses 408, 410, 429, 449 and 503"
            ));
        }
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
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

    /// The rules in force, and those that are spent or over, the oldest first.
    pub fn rules(&self) -> Vec<Arc<ArmedFault>> {
        self.rules
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes the rules of this number, or all, out of force; how many there were.
    pub fn disarm(&self, id: Option<u64>) -> usize {
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        let before = rules.len();
        rules.retain(|armed| id.is_some_and(|id| id != armed.id));
        self.armed.store(rules.len(), Ordering::Release);
        before - rules.len()
    }

    /// Requests that were struck since the server began.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }

    /// A request as rules look at it; `None` if there are no rules.
    pub(crate) fn fault_target(
        &self,
        operation: &'static str,
        path: &Path,
        engine: &Engine,
    ) -> Option<FaultTarget> {
        if self.armed.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (database, container) = path.owners(engine);
        Some(FaultTarget {
            operation,
            database,
            container,
        })
    }

    /// What the rules of this time do to a request.
    pub(crate) fn strike(
        &self,
        time: FaultTime,
        fault_target: Option<&FaultTarget>,
    ) -> Option<Strike> {
        let fault_target = fault_target?;
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let armed = rules
            .iter()
            .find(|armed| armed.rule.time == time && self.strikes(armed, fault_target))?;
        self.struck.fetch_add(1, Ordering::Relaxed);
        let end = match armed.rule.outcome {
            FaultOutcome::OperationReply => StrikeEnd::Own,
            FaultOutcome::Replacement(answer) => StrikeEnd::Instead(answer.error(armed.id)),
            FaultOutcome::NoReply => StrikeEnd::Nothing,
        };
        Some(Strike {
            delay: armed.rule.delay,
            end,
        })
    }

    fn strikes(&self, armed: &ArmedFault, fault_target: &FaultTarget) -> bool {
        let rule = &armed.rule;
        let names =
            |wanted: &Option<String>, named: &Option<String>| wanted.is_none() || wanted == named;
        let is_prey = (rule.operations.is_empty()
            || rule
                .operations
                .iter()
                .any(|name| name == fault_target.operation))
            && names(&rule.database, &fault_target.database)
            && names(&rule.container, &fault_target.container);
        let is_over = rule
            .expires_at_ms
            .is_some_and(|end| self.world.now_ms() >= end);
        if !is_prey || is_over {
            return false;
        }
        armed.seen.fetch_add(1, Ordering::Relaxed);
        if rule.share < 1.0 && unit(self.world.random()) >= rule.share {
            return false;
        }
        let left = |struck: u64| {
            rule.count
                .is_none_or(|count| struck < count)
                .then_some(struck + 1)
        };
        armed
            .struck
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok()
    }
}

/// A random number as one from 0 to below 1.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

impl FaultAnswer {
    fn error(&self, rule: u64) -> Error {
        let kind = STATUSES
            .iter()
            .find(|(status, _)| *status == self.status)
            .map_or(Kind::Unavailable, |(_, kind)| *kind);
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

    fn rule() -> FaultRule {
        FaultRule {
            operations: vec!["read_item".into()],
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

    fn fault_target(operation: &'static str, database: &str) -> FaultTarget {
        FaultTarget {
            operation,
            database: Some(database.into()),
            container: Some("posts".into()),
        }
    }

    fn strikes(faults: &Faults, fault_target: &FaultTarget, tries: usize) -> usize {
        (0..tries)
            .filter(|_| {
                faults
                    .strike(FaultTime::Before, Some(fault_target))
                    .is_some()
            })
            .count()
    }

    #[test]
    fn a_rule_strikes_what_it_names_and_as_often_as_it_says() {
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
                .strike(FaultTime::After, Some(&fault_target("read_item", "blog")))
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
    fn a_share_is_a_share_and_the_same_in_equal_worlds() {
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
                        .strike(FaultTime::Before, Some(&fault_target))
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
    fn words_that_nobody_knows_are_refused() {
        let faults = Faults::new(Arc::new(SeededWorld::new(0, 1)));
        let message = faults
            .arm(FaultRule {
                operations: vec!["read_itme".into()],
                ..rule()
            })
            .expect_err("unknown");
        assert!(
            message.contains("'read_itme'") && message.contains("read_item,"),
            "{message}"
        );
        let outcome = FaultOutcome::Replacement(FaultAnswer {
            status: 418,
            sub_status: None,
            retry_after_ms: None,
        });
        assert!(faults.arm(FaultRule { outcome, ..rule() }).is_err());
    }

    #[test]
    fn the_answer_has_the_sub_status_and_time_that_the_rule_names() {
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
