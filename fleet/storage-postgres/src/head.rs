//! The head of a partition as its row holds it, and the comparison that notices lost commits.

use orrery_storage::{Head, Token};

/// The partition takes no commits: a removal is under way.
pub(crate) const DESTROYING: i16 = 1;
/// The partition takes no commits: acknowledged commits were lost.
pub(crate) const LOST: i16 = 2;

/// A row of the table `head`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeadRow {
    /// Rises when the partition is destroyed.
    pub(crate) incarnation: u64,
    pub(crate) epoch: u64,
    pub(crate) lsn: u64,
    pub(crate) token: Token,
    pub(crate) state: i16,
}

impl HeadRow {
    pub(crate) fn head(&self) -> Head {
        Head {
            lsn: self.lsn,
            token: self.token,
        }
    }

    /// Returns true if the row is older than `known`, a row that was durable: the server has lost
    /// commits, or is not the primary any more.
    pub(crate) fn is_older_than(&self, known: &HeadRow) -> bool {
        if self.incarnation != known.incarnation {
            return self.incarnation < known.incarnation;
        }
        let is_forked = self.lsn == known.lsn && self.token != known.token;
        self.epoch < known.epoch || self.lsn < known.lsn || is_forked
    }
}

/// Returns a token as a literal of bytea.
pub(crate) fn hex(token: &Token) -> String {
    format!("\\x{}", orrery_model::hex::encode(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_row_is_one_that_lacks_something_durable() {
        let row = |incarnation, epoch, lsn, token| HeadRow {
            incarnation,
            epoch,
            lsn,
            token: [token; 16],
            state: 0,
        };
        let known = row(2, 5, 10, 1);
        for newer in [known, row(2, 6, 10, 1), row(2, 5, 11, 2), row(3, 6, 0, 0)] {
            assert!(!newer.is_older_than(&known), "{newer:?}");
        }
        let older = [
            row(2, 4, 10, 1),
            row(2, 6, 9, 1),
            row(2, 6, 10, 2),
            row(1, 9, 90, 1),
        ];
        for older in older {
            assert!(older.is_older_than(&known), "{older:?}");
        }
    }

    #[test]
    fn a_token_is_written_as_bytea() {
        assert_eq!(hex(&[0xa1; 16]), format!("\\x{}", "a1".repeat(16)));
    }
}
