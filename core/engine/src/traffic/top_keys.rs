//! The partition keys with the greatest sums, of any number of keys, in bounded memory.
//!
//! The method is Filtered Space-Saving (Homem and Carvalho, "Finding top-k elements in data
//! streams", 2010): a list of the greatest keys, and beside the list sums of all other keys by a
//! hash of the key. A key enters the list when the sum at its hash could make the key one of the
//! greatest; what other keys have added to that sum is its error. So a flood of keys with small
//! sums rarely touches the list, and costs one addition each.
//!
//! Promises: the true sum of a listed key is at most its amount and at least its amount less its
//! error; the true sum of an unlisted key is at most [`Sketch::others_at_most`]. Both still hold
//! after [`Sketch::merge`].
//!
//! Sums are kept for tens of seconds, which are merged into minutes, hours and days. Keys are told
//! apart by 64 bits of a hash of their EPK.

use crate::request::KeyWindow;
use orrery_model::partition_key::Epk;
use orrery_model::world::split_mix;
use std::cmp::Reverse;
use std::sync::Arc;

/// Keys in a list.
const LISTED: usize = 32;
/// Sums of unlisted keys.
const OTHERS: usize = 256;

/// The greatest keys of a time span, by a hash of their EPK.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranks {
    /// Milliseconds since 1970 from which on requests count.
    pub since_ms: u64,
    /// Hash, sum and error, the greatest sum first.
    pub keys: Vec<(Arc<Epk>, u64, u64)>,
    /// Upper bound of the sum of an unlisted key.
    pub others_at_most: u64,
    /// Sum over all keys.
    pub total: u64,
}

/// The greatest keys of a time span.
#[derive(Clone, Debug, Default)]
struct Sketch {
    hashes: Vec<u64>,
    amounts: Vec<u64>,
    errors: Vec<u64>,
    names: Vec<Arc<Epk>>,
    /// The index of the least key in the full list.
    least: usize,
    /// Upper bounds of the sums of unlisted keys, by hash.
    others: Vec<u64>,
    total: u64,
}

fn slot(hash: u64) -> usize {
    (hash >> 32) as usize % OTHERS
}

impl Sketch {
    fn add(&mut self, hash: u64, amount: u64, name: impl FnOnce() -> Arc<Epk>) {
        self.total += amount;
        if let Some(at) = self.hashes.iter().position(|known| *known == hash) {
            self.amounts[at] += amount;
            if at == self.least {
                self.find_least();
            }
            return;
        }
        if self.others.is_empty() {
            self.others = vec![0; OTHERS];
        }
        let before = self.others[slot(hash)];
        if self.hashes.len() == LISTED && before + amount < self.amounts[self.least] {
            self.others[slot(hash)] += amount;
            return;
        }
        self.put(hash, before + amount, before, name());
    }

    /// Adds a key to the list. In a full list the key replaces the least one.
    fn put(&mut self, hash: u64, amount: u64, error: u64, name: Arc<Epk>) {
        if self.hashes.len() < LISTED {
            self.hashes.push(hash);
            self.amounts.push(amount);
            self.errors.push(error);
            self.names.push(name);
        } else {
            let at = self.least;
            let left = slot(self.hashes[at]);
            self.others[left] = self.others[left].max(self.amounts[at]);
            (self.hashes[at], self.amounts[at], self.errors[at]) = (hash, amount, error);
            self.names[at] = name;
        }
        self.find_least();
    }

    fn find_least(&mut self) {
        self.least = (0..self.amounts.len())
            .min_by_key(|at| self.amounts[*at])
            .unwrap_or(0);
    }

    /// Returns an upper bound of the sum of an unlisted key.
    fn others_at_most(&self) -> u64 {
        self.others.iter().copied().max().unwrap_or(0)
    }

    /// Returns an upper bound of a key's sum, and its error.
    fn bound_of(&self, hash: u64) -> (u64, u64) {
        let listed = self.hashes.iter().position(|known| *known == hash);
        let other = self.others.get(slot(hash)).copied().unwrap_or(0);
        listed.map_or((other, other), |at| (self.amounts[at], self.errors[at]))
    }

    /// Adds the sums of another time span.
    fn merge(&mut self, more: &Sketch) {
        let mut sum = Sketch {
            total: self.total + more.total,
            others: vec![0; OTHERS],
            ..Sketch::default()
        };
        for (at, other) in sum.others.iter_mut().enumerate() {
            *other = [&self.others, &more.others]
                .iter()
                .filter_map(|others| others.get(at))
                .sum();
        }
        let names = [&*self, more]
            .into_iter()
            .flat_map(|one| one.hashes.iter().zip(&one.names));
        let mut all: Vec<(u64, u64, u64, &Arc<Epk>)> = Vec::new();
        for (hash, name) in names {
            if all.iter().all(|(known, ..)| known != hash) {
                let ((one, error), (other, error_of_other)) =
                    (self.bound_of(*hash), more.bound_of(*hash));
                all.push((*hash, one + other, error + error_of_other, name));
            }
        }
        all.sort_by_key(|(hash, amount, ..)| (Reverse(*amount), *hash));
        for (epk_prefix, (hash, amount, error, name)) in all.into_iter().enumerate() {
            if epk_prefix < LISTED {
                sum.put(hash, amount, error, Arc::clone(name));
            } else {
                let other = &mut sum.others[slot(hash)];
                *other = amount.max(*other);
            }
        }
        *self = sum;
    }

    fn ranks(&self, since_ms: u64) -> Ranks {
        let mut order: Vec<usize> = (0..self.hashes.len()).collect();
        order.sort_by_key(|at| (Reverse(self.amounts[*at]), self.hashes[*at]));
        let ranked = |at: usize| {
            (
                Arc::clone(&self.names[at]),
                self.amounts[at],
                self.errors[at],
            )
        };
        Ranks {
            since_ms,
            keys: order.into_iter().map(ranked).collect(),
            others_at_most: self.others_at_most(),
            total: self.total,
        }
    }
}

/// Milliseconds of the windows: ten seconds, a minute, an hour, a day.
const WIDTHS: [u64; 4] = [10_000, 60_000, 3_600_000, 86_400_000];

/// The greatest keys of the current and the last ten seconds, minute, hour and day.
#[derive(Debug, Default)]
pub(crate) struct RankedKeys {
    /// The starts of the current windows.
    starts: [u64; WIDTHS.len()],
    current: [Sketch; WIDTHS.len()],
    last: [Sketch; WIDTHS.len()],
}

impl RankedKeys {
    /// Adds to a key's sum.
    pub(crate) fn add(&mut self, now_ms: u64, epk: &Epk, amount: u64) {
        if now_ms >= self.starts[0] + WIDTHS[0] {
            self.turn(now_ms);
        }
        self.current[0].add(hash_of(epk), amount, || Arc::new(epk.clone()));
    }

    /// Closes the windows that are over: each is merged into the next wider one.
    fn turn(&mut self, now_ms: u64) {
        for (at, width) in WIDTHS.into_iter().enumerate() {
            let start = now_ms - now_ms % width;
            if start <= self.starts[at] {
                continue;
            }
            let over = std::mem::take(&mut self.current[at]);
            if let Some(wider) = self.current.get_mut(at + 1) {
                wider.merge(&over);
            }
            let is_the_last = self.starts[at] + width == start;
            self.last[at] = if is_the_last { over } else { Sketch::default() };
            self.starts[at] = start;
        }
    }

    /// Returns the greatest keys since the beginning of the last full window.
    pub(crate) fn top(&mut self, now_ms: u64, window: KeyWindow) -> Ranks {
        self.turn(now_ms);
        let at = match window {
            KeyWindow::Now => 0,
            KeyWindow::Minute => 1,
            KeyWindow::Hour => 2,
            KeyWindow::Day => 3,
        };
        let mut sum = self.last[at].clone();
        self.current[..=at]
            .iter()
            .rev()
            .for_each(|one| sum.merge(one));
        sum.ranks(self.starts[at].saturating_sub(WIDTHS[at]))
    }
}

/// Returns 64 bits of a hash of an EPK.
fn hash_of(epk: &Epk) -> u64 {
    let words = epk.as_bytes().chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(epk.as_bytes().len() as u64, |hash, word| {
        split_mix(hash ^ word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::partition_key::{Component, Hashing};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn name(hash: u64) -> Arc<Epk> {
        Arc::new(Epk::from_bytes(&hash.to_be_bytes()))
    }

    fn epk(n: u64) -> Epk {
        Epk::of(Hashing::V2, &[Component::Number(n as f64)])
    }

    /// A few keys with large sums, and many with small ones.
    fn stream() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let key = prop_oneof![0u64..5, 0u64..50, 0u64..5000].prop_map(split_mix);
        prop::collection::vec((key, 0u64..1000), 0..3000)
    }

    fn sums(stream: &[(u64, u64)]) -> HashMap<u64, u64> {
        let mut sums = HashMap::new();
        stream
            .iter()
            .for_each(|(key, amount)| *sums.entry(*key).or_default() += amount);
        sums
    }

    fn sketch(stream: &[(u64, u64)]) -> Sketch {
        let mut sketch = Sketch::default();
        stream
            .iter()
            .for_each(|(key, amount)| sketch.add(*key, *amount, || name(*key)));
        sketch
    }

    #[track_caller]
    fn check(sketch: &Sketch, truth: &HashMap<u64, u64>) {
        assert!(sketch.hashes.len() <= LISTED);
        assert_eq!(sketch.total, truth.values().sum::<u64>());
        for (key, sum) in truth {
            match sketch.hashes.iter().position(|hash| hash == key) {
                Some(at) => {
                    let (amount, error) = (sketch.amounts[at], sketch.errors[at]);
                    assert!(
                        amount - error <= *sum && *sum <= amount,
                        "{sum} in {amount} less {error}"
                    );
                    assert_eq!(*sketch.names[at], *name(*key));
                }
                None => assert!(
                    *sum <= sketch.others_at_most(),
                    "{sum} of {}",
                    sketch.others_at_most()
                ),
            }
        }
    }

    proptest! {
        #[test]
        fn sums_lie_within_the_stated_error(stream in stream()) {
            check(&sketch(&stream), &sums(&stream));
        }

        #[test]
        fn merging_keeps_the_bounds(one in stream(), other in stream()) {
            let mut sum = sketch(&one);
            sum.merge(&sketch(&other));
            check(&sum, &sums(&[one, other].concat()));
        }
    }

    #[test]
    fn a_hot_key_among_many_is_first_with_a_small_error() {
        let mut ranked = RankedKeys::default();
        for n in 0..20_000u64 {
            ranked.add(1_000_000, &epk(if n % 4 == 0 { 0 } else { n }), 100);
        }
        let top = ranked.top(1_000_000, KeyWindow::Minute);
        let (first, amount, error) = &top.keys[0];
        assert_eq!(**first, epk(0));
        assert!(
            amount - 500_000 <= *error && *error < 10_000,
            "{amount} with {error}"
        );
        assert_eq!(top.total, 2_000_000);
        assert!(top.others_at_most < 10_000, "{}", top.others_at_most);
    }

    #[test]
    fn windows_hold_the_current_and_the_last_of_their_kind() {
        let mut ranked = RankedKeys::default();
        let day = 20_000 * WIDTHS[3];
        let mut amount = |now: u64, add: u64, window: KeyWindow| {
            ranked.add(now, &epk(1), add);
            let top = ranked.top(now, window);
            (top.keys[0].1, now - top.since_ms)
        };
        assert_eq!(amount(day, 1, KeyWindow::Minute), (1, 60_000));
        assert_eq!(amount(day + 60_000, 10, KeyWindow::Minute), (11, 60_000));
        assert_eq!(amount(day + 120_000, 100, KeyWindow::Minute), (110, 60_000));
        assert_eq!(amount(day + 120_000, 0, KeyWindow::Hour), (111, 3_720_000));
        assert_eq!(
            amount(day + 3_600_000, 1000, KeyWindow::Hour),
            (1111, 3_600_000)
        );
        assert_eq!(
            amount(day + 7_200_000, 1, KeyWindow::Hour),
            (1001, 3_600_000)
        );
        assert_eq!(
            amount(day + 7_200_000, 0, KeyWindow::Day),
            (1112, 86_400_000 + 7_200_000)
        );
        assert_eq!(
            amount(day + 3 * WIDTHS[3], 1, KeyWindow::Day),
            (1, 86_400_000)
        );
    }
}
