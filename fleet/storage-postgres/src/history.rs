//! The record of the openings of a partition, and the loss that only the record shows.
//!
//! A server that lost commits may be written to by another owner before this process looks again.
//! The head alone is then newer than every commit of this process. The table `history` has a row
//! for each of the last openings, with the head at that moment and a number of its own, so that the
//! point at which the histories part is found.

use std::hash::{BuildHasher, Hasher, RandomState};

use orrery_storage::Token;
use tokio_postgres::Row;

use crate::head::HeadRow;

/// One opening of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The number that no other opening has.
    pub(crate) opener: Token,
    pub(crate) incarnation: u64,
    /// The epoch that was opened.
    pub(crate) epoch: u64,
    /// The head when the epoch began.
    pub(crate) lsn: u64,
    pub(crate) token: Token,
}

impl Opening {
    /// Returns an opening as its row holds it.
    ///
    /// # Errors
    /// When the row has other columns than those of this format.
    pub(crate) fn of(row: &Row) -> Result<Opening, tokio_postgres::Error> {
        let number = |column: usize| row.try_get::<_, i64>(column).map(|number| number as u64);
        // Another length never occurs.
        let token = |column: usize| {
            let token: Result<&[u8], _> = row.try_get(column);
            token.map(|token| token.try_into().unwrap_or_default())
        };
        Ok(Opening {
            incarnation: number(0)?,
            epoch: number(1)?,
            lsn: number(2)?,
            token: token(3)?,
            opener: token(4)?,
        })
    }
}

/// Returns a number for an opening.
pub(crate) fn new_opener() -> Token {
    // The keys of such a state are from the operating system, and differ from one to the next.
    let half = || RandomState::new().build_hasher().finish().to_be_bytes();
    let mut opener = [0; 16];
    opener[..8].copy_from_slice(&half());
    opener[8..].copy_from_slice(&half());
    opener
}

/// Returns true if the openings show that the history of the partition is another one than that of
/// `known`, a row that was durable. `opener` is the number of the opening of its epoch, if this
/// process knows one. The openings are in the order of their epochs.
pub(crate) fn is_overtaken(known: &HeadRow, opener: Option<Token>, openings: &[Opening]) -> bool {
    let same = openings
        .iter()
        .filter(|opening| opening.incarnation == known.incarnation);
    let mut same = same
        .filter(|opening| opening.epoch >= known.epoch)
        .peekable();
    // The epoch was opened a second time, after the first time was forgotten.
    if let Some(first) = same.next_if(|opening| opening.epoch == known.epoch)
        && opener.is_some_and(|opener| opener != first.opener)
    {
        return true;
    }
    // The next owner must have found every commit of the epoch.
    same.next().is_some_and(|next| {
        next.lsn < known.lsn || (next.lsn == known.lsn && next.token != known.token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_another_one_where_an_opening_lacks_a_commit() {
        let known = HeadRow {
            incarnation: 1,
            epoch: 5,
            lsn: 10,
            token: [1; 16],
            state: 0,
        };
        let opening = |opener, epoch, lsn, token| Opening {
            opener: [opener; 16],
            incarnation: 1,
            epoch,
            lsn,
            token: [token; 16],
        };
        let own = opening(7, 5, 8, 9);
        let right = [own, opening(8, 6, 10, 1), opening(9, 7, 30, 2)];
        let overtaken = |openings: &[Opening]| is_overtaken(&known, Some([7; 16]), openings);
        assert!(!overtaken(&right) && !overtaken(&right[1..]) && !overtaken(&[]));
        assert!(!overtaken(&[own, opening(8, 6, 11, 3)]));
        // The next owner found an older head, or another commit under the same number.
        assert!(overtaken(&[own, opening(8, 6, 9, 1), opening(9, 7, 30, 2)]));
        assert!(overtaken(&[own, opening(8, 6, 10, 2)]));
        // The epoch was opened again by another owner.
        assert!(overtaken(&[opening(6, 5, 8, 9), opening(8, 6, 12, 2)]));
        assert!(!is_overtaken(&known, None, &[opening(6, 5, 8, 9)]));
        // A partition that was destroyed meanwhile has a history of its own.
        let other = Opening {
            incarnation: 2,
            ..opening(8, 6, 0, 0)
        };
        assert!(!overtaken(&[own, other]));
    }

    #[test]
    fn openers_differ() {
        assert_ne!(new_opener(), new_opener());
    }
}
