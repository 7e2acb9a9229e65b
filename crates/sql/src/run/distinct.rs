//! DISTINCT of rows that come ordered by what they are: whether a row was given before.
//!
//! Scalars that are equal come side by side, so the last row tells. Arrays and objects have no order among themselves:
//! all of a page are kept, and the last [`KEPT`] of them go on with the continuation. So an array that comes again
//! after more than that many others on another page is given twice.

use std::collections::HashSet;

/// Hashes of arrays and objects that a continuation holds; it has to stay small.
const KEPT: usize = 16;

/// What was given so far.
#[derive(Default)]
pub(super) struct Given {
    last: Option<u128>,
    structured: HashSet<u128>,
    /// The same, in the order in which they came.
    in_order: Vec<u128>,
}

impl Given {
    /// What a continuation brought: the hash of the last row, or those of the last arrays and objects.
    pub(super) fn restore(hashes: &[u128]) -> Self {
        Given {
            last: hashes.last().copied(),
            structured: hashes.iter().copied().collect(),
            in_order: hashes.to_vec(),
        }
    }

    /// What a continuation takes along.
    pub(super) fn save(&self) -> Vec<u128> {
        match self.in_order.as_slice() {
            [] => self.last.into_iter().collect(),
            hashes => hashes[hashes.len().saturating_sub(KEPT)..].to_vec(),
        }
    }

    pub(super) fn has(&self, hash: u128) -> bool {
        self.last == Some(hash) || self.structured.contains(&hash)
    }

    pub(super) fn note(&mut self, hash: u128, is_structured: bool) {
        self.last = Some(hash);
        if is_structured {
            self.structured.insert(hash);
            self.in_order.push(hash);
        } else {
            self.structured.clear();
            self.in_order.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_known_while_it_is_the_last() {
        let mut given = Given::default();
        given.note(1, false);
        assert!(given.has(1) && Given::restore(&given.save()).has(1));
        given.note(2, false);
        assert!(!given.has(1) && given.has(2));
    }

    #[test]
    fn arrays_and_objects_are_known_although_others_came_between_and_the_last_ones_on_the_next_page_too()
     {
        let mut given = Given::default();
        (0..40).for_each(|hash| given.note(hash, true));
        assert!((0..40).all(|hash| given.has(hash)));
        let next = Given::restore(&given.save());
        assert!((24..40).all(|hash| next.has(hash)) && !next.has(23));
    }
}
