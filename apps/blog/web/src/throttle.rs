//! Delays between attempts to sign in: an attacker cannot try passwords fast, and no owner of a
//! name is locked out.
//!
//! | attempts of | free | before the next one |
//! |---|---|---|
//! | one network with one name | 5 | the network waits 1, 2, 4, … s, at most 5 minutes |
//! | one network with any name | 20 | the same |
//! | any network with one name | 10 | the check is late by 0.25, 0.5, … s, at most 4 s |
//!
//! An attempt that must wait is refused and not counted. The last row never refuses, so that
//! strangers cannot keep the owner of a name out: the owner waits for seconds.
//!
//! Promises: an attempt counts from its beginning, so that attempts at the same time do not pass
//! together. Memory is bounded.
//! Leaves out: visitors who share an address with an attacker; they wait as the attacker does.

use orrery_blog::sync::lock;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Attempts without a delay.
const FREE_OF_PAIR: u32 = 5;
const FREE_OF_NETWORK: u32 = 20;
const FREE_OF_NAME: u32 = 10;
/// The first delay before an attempt that is refused, and the longest.
const WAIT: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The first delay of an attempt that is checked late, and the longest.
const LATE: Duration = Duration::from_millis(250);
const LATE_MAX: Duration = Duration::from_secs(4);
/// Time after which attempts are forgotten.
const MEMORY_TIME: Duration = Duration::from_secs(15 * 60);
/// Counters that are kept.
const COUNTERS_MAX: usize = 30_000;

/// The subject of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Pair(IpAddr, String),
    Network(IpAddr),
    Name(String),
}

/// The attempts of a subject that did not succeed.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    count: u32,
    last: Instant,
}

/// The decision about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The attempt is checked after this delay.
    CheckAfter(Duration),
    /// The attempt is refused for this time.
    Wait(Duration),
}

/// The attempts to sign in.
#[derive(Default)]
pub(crate) struct Throttle(Mutex<HashMap<Subject, Attempts>>);

impl Throttle {
    /// Begins an attempt of a network with a name. One that is checked counts as failed until
    /// [`Throttle::succeed`].
    pub(crate) fn begin(&self, network: IpAddr, name: &str, now: Instant) -> Decision {
        let mut counters = lock(&self.0);
        let pair = Subject::Pair(network, name.to_owned());
        let of_network = Subject::Network(network);
        let wait = wait_left(&counters, &pair, FREE_OF_PAIR, now).max(wait_left(
            &counters,
            &of_network,
            FREE_OF_NETWORK,
            now,
        ));
        if !wait.is_zero() {
            return Decision::Wait(wait);
        }
        let of_name = Subject::Name(name.to_owned());
        let others = count(&counters, &of_name, now).saturating_sub(FREE_OF_NAME);
        for subject in [pair, of_network, of_name] {
            add(&mut counters, subject, now);
        }
        Decision::CheckAfter(delay(LATE, LATE_MAX, others))
    }

    /// Takes an attempt back that has succeeded. The failures of others with the name stay.
    pub(crate) fn succeed(&self, network: IpAddr, name: &str) {
        let mut counters = lock(&self.0);
        counters.remove(&Subject::Pair(network, name.to_owned()));
        for subject in [Subject::Network(network), Subject::Name(name.to_owned())] {
            if let Some(attempts) = counters.get_mut(&subject) {
                attempts.count = attempts.count.saturating_sub(1);
            }
        }
    }
}

/// Returns the attempts of a subject that are not forgotten.
fn count(counters: &HashMap<Subject, Attempts>, subject: &Subject, now: Instant) -> u32 {
    match counters.get(subject) {
        Some(attempts) if is_remembered(attempts, now) => attempts.count,
        _ => 0,
    }
}

fn is_remembered(attempts: &Attempts, now: Instant) -> bool {
    now.saturating_duration_since(attempts.last) < MEMORY_TIME
}

/// Returns the time for which a subject with more than `free` attempts waits.
fn wait_left(
    counters: &HashMap<Subject, Attempts>,
    subject: &Subject,
    free: u32,
    now: Instant,
) -> Duration {
    let Some(attempts) = counters.get(subject) else {
        return Duration::ZERO;
    };
    let beyond = (count(counters, subject, now) + 1).saturating_sub(free);
    let since = now.saturating_duration_since(attempts.last);
    delay(WAIT, WAIT_MAX, beyond).saturating_sub(since)
}

/// Returns the delay of an attempt that is so many beyond the free ones: none at first, then
/// `first`, doubled by each further one.
fn delay(first: Duration, most: Duration, beyond: u32) -> Duration {
    match beyond.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => first
            .saturating_mul(2_u32.saturating_pow(doublings))
            .min(most),
    }
}

/// Counts an attempt.
fn add(counters: &mut HashMap<Subject, Attempts>, subject: Subject, now: Instant) {
    if counters.len() >= COUNTERS_MAX && !counters.contains_key(&subject) {
        make_room(counters, now);
    }
    let first = Attempts {
        count: 0,
        last: now,
    };
    let attempts = counters.entry(subject).or_insert(first);
    if !is_remembered(attempts, now) {
        attempts.count = 0;
    }
    attempts.count = attempts.count.saturating_add(1);
    attempts.last = now;
}

/// Removes the counters that are forgotten; if there are none, the one that was used least lately.
fn make_room(counters: &mut HashMap<Subject, Attempts>, now: Instant) {
    counters.retain(|_, attempts| is_remembered(attempts, now));
    if counters.len() < COUNTERS_MAX {
        return;
    }
    let oldest = counters.iter().min_by_key(|(_, attempts)| attempts.last);
    if let Some(oldest) = oldest.map(|(subject, _)| subject.clone()) {
        counters.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Decision = Decision::CheckAfter(Duration::ZERO);

    fn network(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_attacker_waits_twice_as_long_each_time_and_the_owner_does_not() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..5 {
            assert_eq!(throttle.begin(network(1), "dora", start), NOW);
        }
        let mut now = start;
        for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            let refused = Decision::Wait(seconds(wait));
            // Attempts that are refused make the wait no longer.
            assert_eq!(throttle.begin(network(1), "dora", now), refused);
            assert_eq!(throttle.begin(network(1), "dora", now), refused);
            now += seconds(wait);
            let checked = throttle.begin(network(1), "dora", now);
            assert!(matches!(checked, Decision::CheckAfter(_)), "{checked:?}");
        }
        let owner = throttle.begin(network(2), "dora", now);
        assert_eq!(owner, Decision::CheckAfter(LATE_MAX));
        // Another name is not concerned, and after a quarter of an hour no name is.
        assert_eq!(throttle.begin(network(2), "nora", now), NOW);
        assert_eq!(throttle.begin(network(1), "dora", now + MEMORY_TIME), NOW);
    }

    #[test]
    fn a_network_that_tries_many_names_waits() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for n in 0..20 {
            let name = format!("user-{n}");
            assert_eq!(throttle.begin(network(1), &name, now), NOW);
        }
        let refused = Decision::Wait(seconds(1));
        assert_eq!(throttle.begin(network(1), "another", now), refused);
        assert_eq!(throttle.begin(network(2), "another", now), NOW);
    }

    #[test]
    fn strangers_from_many_networks_delay_the_owner_by_seconds_only() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for n in 0..200 {
            let decision = throttle.begin(network(n), "dora", now);
            assert!(matches!(decision, Decision::CheckAfter(_)), "{decision:?}");
        }
        let owner = throttle.begin(network(201), "dora", now);
        assert_eq!(owner, Decision::CheckAfter(LATE_MAX));
    }

    #[test]
    fn success_takes_back_the_attempts_of_its_own_network_only() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..100 {
            assert_eq!(throttle.begin(network(1), "dora", now), NOW);
            throttle.succeed(network(1), "dora");
        }
        for n in 2..14 {
            throttle.begin(network(n), "dora", now);
        }
        throttle.begin(network(1), "dora", now);
        throttle.succeed(network(1), "dora");
        let late = throttle.begin(network(20), "dora", now);
        assert_eq!(late, Decision::CheckAfter(LATE * 2));
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_the_latest_attempts() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..5 {
            throttle.begin(network(1), "dora", start + seconds(60));
        }
        // Three counters for each attempt, all of them older.
        for n in 0..10_050_u32 {
            let many = IpAddr::from((n + (11 << 24)).to_be_bytes());
            throttle.begin(many, &format!("user-{n}"), start);
        }
        assert_eq!(lock(&throttle.0).len(), COUNTERS_MAX);
        let refused = throttle.begin(network(1), "dora", start + seconds(60));
        assert_eq!(refused, Decision::Wait(seconds(1)));
    }
}
