//! DISTINCT of rows whose only value is the key of ORDER BY: the memory of rows returned before.
//!
//! Equal scalars come next to each other, so the digest of the last row is enough. Arrays and
//! objects have no order among themselves; all of a page are remembered, and the continuation keeps
//! the last [`MAX_KEPT`] of them.
//!
//! Left out: an array or object that comes again on a later page, after more than [`MAX_KEPT`]
//! others, is returned twice.

use std::collections::HashSet;

/// Largest number of digests of arrays and objects in a continuation, which has to stay small.
const MAX_KEPT: usize = 16;

/// Digests of the rows returned so far, as far as DISTINCT needs them.
#[derive(Default)]
pub(super) struct ReturnedRows {
    last: Option<u128>,
    /// The arrays and objects since the last scalar.
    structured: HashSet<u128>,
    /// The same digests in the order of the rows.
    structured_in_order: Vec<u128>,
}

impl ReturnedRows {
    /// Restores the digests that [`ReturnedRows::save`] returned.
    pub(super) fn restore(digests: &[u128]) -> Self {
        ReturnedRows {
            last: digests.last().copied(),
            structured: digests.iter().copied().collect(),
            structured_in_order: digests.to_vec(),
        }
    }

    /// Returns the digests for a continuation: of the last arrays and objects if there are any,
    /// otherwise of the last row.
    pub(super) fn save(&self) -> Vec<u128> {
        match self.structured_in_order.as_slice() {
            [] => self.last.into_iter().collect(),
            digests => digests[digests.len().saturating_sub(MAX_KEPT)..].to_vec(),
        }
    }

    /// Returns true if a row with this digest was returned.
    pub(super) fn contains(&self, digest: u128) -> bool {
        self.last == Some(digest) || self.structured.contains(&digest)
    }

    /// Records a returned row. A scalar sorts after or before all arrays and objects, so it ends
    /// their memory.
    pub(super) fn record(&mut self, digest: u128, is_structured: bool) {
        self.last = Some(digest);
        if is_structured {
            self.structured.insert(digest);
            self.structured_in_order.push(digest);
        } else {
            self.structured.clear();
            self.structured_in_order.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_known_while_it_is_the_last_row() {
        let mut rows = ReturnedRows::default();
        rows.record(1, false);
        assert!(rows.contains(1) && ReturnedRows::restore(&rows.save()).contains(1));
        rows.record(2, false);
        assert!(!rows.contains(1) && rows.contains(2));
    }

    #[test]
    fn all_arrays_and_objects_of_a_page_and_the_last_16_of_the_page_before_are_known() {
        let mut rows = ReturnedRows::default();
        for digest in 0..40 {
            rows.record(digest, true);
        }
        assert!((0..40).all(|digest| rows.contains(digest)));
        let next_page = ReturnedRows::restore(&rows.save());
        assert!((24..40).all(|digest| next_page.contains(digest)) && !next_page.contains(23));
    }
}
