//! The indexing policy that each item's index entries follow while a partition changes to a new
//! policy.
//!
//! Every policy that a container has had is a *generation*. A reindex reads the items of a
//! partition by number and gives them the entries of the newest generation. An item behind the
//! frontier of the reindex keeps the entries of the generation before, and writes to the item keep
//! to that generation. At any moment the generation of an item follows from its number. A path that
//! all generations index can be queried through the index at any time.
//!
//! ```text
//! row: ( first number·8  generation·4 )*      numbers ascend, the first is 0
//! ```

use super::policy::Policy;
use crate::partition::keys::{self, ItemNumber};
use std::sync::Arc;

/// Sequence number of an indexing policy of a container, from 0.
pub(crate) type Generation = u32;

/// Bytes of one entry in the stored row.
const ENTRY_BYTES: usize = 12;

/// Generations by item number, as pairs of the first number and the generation. Each pair holds up
/// to the first number of the next pair, and may hold no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGenerations(Vec<(ItemNumber, Generation)>);

impl Default for PolicyGenerations {
    /// All items follow the first policy of the container.
    fn default() -> Self {
        PolicyGenerations(vec![(0, 0)])
    }
}

impl PolicyGenerations {
    /// Returns the generation of an item.
    pub fn generation_of(&self, number: ItemNumber) -> Generation {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        self.0[after.saturating_sub(1)].1
    }

    /// Returns true if all items follow `generation`.
    pub fn are_all(&self, generation: Generation) -> bool {
        self.0.iter().all(|(_, other)| *other == generation)
    }

    /// Returns the generations that items may follow.
    pub fn generations(&self) -> Vec<Generation> {
        let mut generations = Vec::new();
        for (at, (first, generation)) in self.0.iter().enumerate() {
            let end = self.0.get(at + 1).map_or(ItemNumber::MAX, |next| next.0);
            if *first < end {
                generations.push(*generation);
            }
        }
        generations
    }

    /// Returns the first number whose item does not follow the generation `newest`: 0 if the
    /// reindex to `newest` has not begun, the maximum if it is complete.
    pub fn frontier(&self, newest: Generation) -> ItemNumber {
        match &self.0[..] {
            [(_, first), (next, _), ..] if *first == newest => *next,
            [(_, only)] if *only == newest => ItemNumber::MAX,
            _ => 0,
        }
    }

    /// Records that all items below `number` follow the generation `newest`.
    pub fn advance_frontier(&mut self, newest: Generation, number: ItemNumber) {
        if self.0[0].1 != newest {
            self.0.insert(0, (0, newest));
        }
        // Pairs that end below the frontier are dropped; the pair that holds the frontier begins
        // there.
        let across = self.0.partition_point(|(first, _)| *first <= number) - 1;
        if across > 0 {
            self.0.drain(1..across);
            self.0[1].0 = number;
        }
    }

    /// Records that all items follow `generation`.
    pub fn set_all(&mut self, generation: Generation) {
        self.0 = vec![(0, generation)];
    }

    /// Encodes the stored row.
    pub fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(self.0.len() * ENTRY_BYTES);
        for (first, generation) in &self.0 {
            row.extend_from_slice(&first.to_be_bytes());
            row.extend_from_slice(&generation.to_be_bytes());
        }
        row
    }

    /// Decodes the stored row, or returns `None` for a damaged row.
    pub fn decode(row: &[u8]) -> Option<Self> {
        let mut pairs: Vec<(ItemNumber, Generation)> = Vec::new();
        for entry in row.chunks(ENTRY_BYTES) {
            let first = keys::number(entry.get(..8)?)?;
            let generation = Generation::from_be_bytes(entry.get(8..)?.try_into().ok()?);
            pairs.push((first, generation));
        }
        let begins_at_zero = pairs.first()?.0 == 0;
        let ascends = pairs.is_sorted_by_key(|(first, _)| *first);
        (begins_at_zero && ascends).then_some(PolicyGenerations(pairs))
    }
}

/// The policies that the index entries of some item may follow.
#[derive(Clone, Debug)]
pub struct Policies {
    /// The newest policy and its generation.
    pub newest: (Generation, Arc<Policy>),
    /// Earlier policies that some item may still follow.
    pub older: Vec<(Generation, Arc<Policy>)>,
}

impl Policies {
    /// Returns the policy of a generation.
    pub fn get(&self, generation: Generation) -> Option<&Arc<Policy>> {
        let mut all = self.older.iter().chain([&self.newest]);
        let (_, policy) = all.find(|(known, _)| *known == generation)?;
        Some(policy)
    }

    /// Returns the policies of a partition's generations, or `None` if a generation is newer than
    /// all policies known here. The index cannot be used then.
    pub fn of(&self, generations: &PolicyGenerations) -> Option<Vec<Arc<Policy>>> {
        let mut policies = Vec::new();
        for generation in generations.generations() {
            policies.push(Arc::clone(self.get(generation)?));
        }
        Some(policies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reindex_moves_the_frontier() {
        let mut generations = PolicyGenerations::default();
        assert!(generations.are_all(0) && generations.frontier(1) == 0);
        generations.advance_frontier(1, 5);
        assert_eq!(
            (
                generations.generation_of(4),
                generations.generation_of(5),
                generations.frontier(1)
            ),
            (1, 0, 5)
        );
        generations.advance_frontier(1, 9);
        assert_eq!(
            (generations.generation_of(8), generations.generation_of(9)),
            (1, 0)
        );
        assert_eq!(generations.generations(), [1, 0]);
        generations.set_all(1);
        assert!(generations.are_all(1) && generations.frontier(1) == ItemNumber::MAX);
    }

    #[test]
    fn a_policy_may_change_during_a_reindex() {
        let mut generations = PolicyGenerations::default();
        generations.advance_frontier(1, 9);
        generations.advance_frontier(2, 4);
        let generations_of =
            |generations: &PolicyGenerations| [3, 4, 8, 9].map(|n| generations.generation_of(n));
        assert_eq!(generations_of(&generations), [2, 1, 1, 0]);
        generations.advance_frontier(2, 9);
        assert_eq!(generations_of(&generations), [2, 2, 2, 0]);
        generations.advance_frontier(2, 12);
        assert_eq!(generations_of(&generations), [2, 2, 2, 2]);
        assert_eq!(generations.generations(), [2, 0]);
    }

    #[test]
    fn stored_rows_decode_and_damaged_rows_are_refused() {
        let mut generations = PolicyGenerations::default();
        generations.advance_frontier(1, 9);
        assert_eq!(
            PolicyGenerations::decode(&generations.encode()),
            Some(generations)
        );
        for row in [&b""[..], &[0; 11], &[1; 12]] {
            assert_eq!(PolicyGenerations::decode(row), None);
        }
    }
}
