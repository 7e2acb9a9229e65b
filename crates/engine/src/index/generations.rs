//! Which policy made the index entries of which items, while an index follows a new policy.
//!
//! Every policy that a container has had is a *generation*. A rebuild goes through a partition's items by number and
//! gives them the entries of the newest generation; an item that it has not reached keeps those of the generation
//! before, and writes keep to that, so at any moment the generation of an item follows from its number. That makes every
//! path that all generations index answerable throughout.
//!
//! ```text
//! row: ( first number·8  generation·4 )*      numbers ascend, the first is 0
//! ```

use crate::partition::keys::{self, ItemNumber};
use std::sync::Arc;

use super::policy::Policy;

/// The how-manieth policy of a container.
pub type Generation = u32;

/// Generations by item number. Each stretch reaches up to where the next begins, and may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGenerations(Vec<(ItemNumber, Generation)>);

impl Default for PolicyGenerations {
    /// All items are as the container's first policy asks.
    fn default() -> Self {
        PolicyGenerations(vec![(0, 0)])
    }
}

impl PolicyGenerations {
    /// The generation of an item.
    pub fn generation_of(&self, number: ItemNumber) -> Generation {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        self.0[after.saturating_sub(1)].1
    }

    /// Whether all items are of one generation, and it is this.
    pub fn are_all(&self, generation: Generation) -> bool {
        self.0.iter().all(|(_, g)| *g == generation)
    }

    /// The generations that items may have.
    pub fn generations(&self) -> impl Iterator<Item = Generation> + '_ {
        let ends = self
            .0
            .iter()
            .skip(1)
            .map(|(first, _)| *first)
            .chain([ItemNumber::MAX]);
        self.0
            .iter()
            .zip(ends)
            .filter(|((first, _), end)| first < end)
            .map(|((_, generation), _)| *generation)
    }

    /// The first number that is not of the newest generation, if it is `newest` that is being made; else 0.
    pub fn frontier(&self, newest: Generation) -> ItemNumber {
        match &self.0[..] {
            [(_, first), (next, _), ..] if *first == newest => *next,
            [(_, only)] if *only == newest => ItemNumber::MAX,
            _ => 0,
        }
    }

    /// All items below `number` are of the newest generation by now.
    pub fn advance(&mut self, newest: Generation, number: ItemNumber) {
        if self.0[0].1 != newest {
            self.0.insert(0, (0, newest));
        }
        // What ended below the frontier is gone; what reaches across it begins there.
        let across = self.0.partition_point(|(first, _)| *first <= number) - 1;
        if across > 0 {
            self.0.drain(1..across);
            self.0[1].0 = number;
        }
    }

    /// All items are of this generation.
    pub fn settle(&mut self, generation: Generation) {
        self.0 = vec![(0, generation)];
    }

    /// The stored row.
    pub fn encode(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|(first, generation)| {
                [&first.to_be_bytes()[..], &generation.to_be_bytes()].concat()
            })
            .collect()
    }

    /// Reads the stored row.
    pub fn decode(row: &[u8]) -> Option<Self> {
        let one = |part: &[u8]| {
            Some((
                keys::number(part.get(..8)?)?,
                u32::from_be_bytes(part.get(8..)?.try_into().ok()?),
            ))
        };
        let all: Vec<_> = row.chunks(12).map(one).collect::<Option<_>>()?;
        let ascend = all.windows(2).all(|pair| pair[0].0 <= pair[1].0);
        (all.first()?.0 == 0 && ascend).then_some(PolicyGenerations(all))
    }
}

/// The policies that some item's entries still follow.
#[derive(Clone, Debug)]
pub struct Policies {
    /// The newest, and what it is called.
    pub newest: (Generation, Arc<Policy>),
    /// Those before it that are not yet out of use.
    pub older: Vec<(Generation, Arc<Policy>)>,
}

impl Policies {
    /// The policy of a generation.
    pub fn get(&self, generation: Generation) -> Option<&Arc<Policy>> {
        let found = self
            .older
            .iter()
            .chain([&self.newest])
            .find(|(g, _)| *g == generation);
        found.map(|(_, policy)| policy)
    }

    /// The policies by which the items of a partition are indexed; `None` if one is not known here, because it is
    /// newer: then the index cannot be asked.
    pub fn of(&self, generations: &PolicyGenerations) -> Option<Vec<Arc<Policy>>> {
        generations
            .generations()
            .map(|generation| self.get(generation).cloned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_moves_the_frontier() {
        let mut generations = PolicyGenerations::default();
        assert!(generations.are_all(0) && generations.frontier(1) == 0);
        generations.advance(1, 5);
        assert_eq!(
            (
                generations.generation_of(4),
                generations.generation_of(5),
                generations.frontier(1)
            ),
            (1, 0, 5)
        );
        generations.advance(1, 9);
        assert_eq!(
            (generations.generation_of(8), generations.generation_of(9)),
            (1, 0)
        );
        assert_eq!(generations.generations().collect::<Vec<_>>(), [1, 0]);
        generations.settle(1);
        assert!(generations.are_all(1) && generations.frontier(1) == ItemNumber::MAX);
    }

    #[test]
    fn a_policy_may_change_before_the_last_one_is_done() {
        let mut generations = PolicyGenerations::default();
        generations.advance(1, 9);
        generations.advance(2, 4);
        let of = |s: &PolicyGenerations| [3, 4, 8, 9].map(|n| s.generation_of(n));
        assert_eq!(of(&generations), [2, 1, 1, 0]);
        generations.advance(2, 9);
        assert_eq!(of(&generations), [2, 2, 2, 0]);
        generations.advance(2, 12);
        assert_eq!(of(&generations), [2, 2, 2, 2]);
        assert_eq!(generations.generations().collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn rows_read_back_and_others_are_refused() {
        let mut generations = PolicyGenerations::default();
        generations.advance(1, 9);
        assert_eq!(
            PolicyGenerations::decode(&generations.encode()),
            Some(generations)
        );
        for row in [&b""[..], &[0; 11], &[1; 12]] {
            assert_eq!(PolicyGenerations::decode(row), None);
        }
    }
}
