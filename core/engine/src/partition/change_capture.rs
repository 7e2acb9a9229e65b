//! The changes that commits make in a partition while the partition is copied for a split or merge.
//!
//! A copy reads one snapshot after the other; a commit that changes rows which are copied already
//! must be copied as well. The writer adds the rows of each commit here, in order, and the copy
//! takes them as far as they are durable. The capture is in memory only: a process that ends loses
//! the copy with it.

use orrery_model::{Error, Kind, Result};
use std::collections::VecDeque;

/// Bytes of rows that are captured at most. A copy takes them faster than they come; only a copy
/// that has stopped reaches the limit.
const BYTES_MOST: usize = 256 << 20;

/// The rows of one commit.
pub struct CapturedCommit {
    lsn: u64,
    /// Rows that were written. Of two rows with one key the later counts.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows that were removed, before any row was written.
    pub deletes: Vec<Vec<u8>>,
}

/// The commits since the capture began.
#[derive(Default)]
pub(crate) struct ChangeCapture {
    commits: VecDeque<CapturedCommit>,
    bytes: usize,
    is_incomplete: bool,
}

impl ChangeCapture {
    /// Adds an accepted commit.
    pub(crate) fn add(&mut self, lsn: u64, puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) {
        if self.is_incomplete {
            return;
        }
        self.bytes += weight(puts, deletes);
        self.commits.push_back(CapturedCommit {
            lsn,
            puts: puts.to_vec(),
            deletes: deletes.to_vec(),
        });
        if self.bytes > BYTES_MOST {
            self.mark_incomplete();
        }
    }

    /// Removes the newest commit again, which was refused.
    pub(crate) fn remove(&mut self, lsn: u64) {
        if self.commits.back().is_none_or(|commit| commit.lsn != lsn) {
            return;
        }
        if let Some(commit) = self.commits.pop_back() {
            self.bytes -= weight(&commit.puts, &commit.deletes);
        }
    }

    /// Marks that a commit is missing or wrong: the copy has to begin again.
    pub(crate) fn mark_incomplete(&mut self) {
        *self = ChangeCapture {
            is_incomplete: true,
            ..ChangeCapture::default()
        };
    }

    /// Takes the commits up to an LSN.
    ///
    /// # Errors
    /// 449 if a commit is missing.
    pub(crate) fn take(&mut self, up_to: u64) -> Result<Vec<CapturedCommit>> {
        if self.is_incomplete {
            return Err(Error::new(
                Kind::RetryWith,
                "The split or merge could not follow what was written meanwhile. Begin it again.",
            ));
        }
        let count = self.commits.partition_point(|commit| commit.lsn <= up_to);
        let taken: Vec<_> = self.commits.drain(..count).collect();
        self.bytes -= taken
            .iter()
            .map(|commit| weight(&commit.puts, &commit.deletes))
            .sum::<usize>();
        Ok(taken)
    }
}

fn weight(puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) -> usize {
    puts.iter()
        .map(|(key, value)| key.len() + value.len())
        .sum::<usize>()
        + deletes.iter().map(Vec::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_taken_in_order_and_once() {
        let mut change_capture = ChangeCapture::default();
        for lsn in 1..=3 {
            change_capture.add(lsn, &[(vec![1], vec![2; 10])], &[vec![3]]);
        }
        assert_eq!(change_capture.take(2).expect("whole").len(), 2);
        assert_eq!(change_capture.take(2).expect("whole").len(), 0);
        assert_eq!(change_capture.take(9).expect("whole").len(), 1);
        assert_eq!(change_capture.bytes, 0);
    }

    #[test]
    fn a_refused_commit_is_removed() {
        let mut change_capture = ChangeCapture::default();
        for lsn in 1..=2 {
            change_capture.add(lsn, &[(vec![1], vec![2; 10])], &[vec![3]]);
        }
        change_capture.remove(2);
        change_capture.remove(2);
        assert_eq!(change_capture.take(9).expect("whole").len(), 1);
        assert_eq!(change_capture.bytes, 0);
    }

    #[test]
    fn a_spoilt_recording_gives_nothing() {
        let mut change_capture = ChangeCapture::default();
        change_capture.add(1, &[], &[vec![1]]);
        change_capture.mark_incomplete();
        change_capture.add(2, &[], &[vec![1]]);
        assert!(change_capture.take(9).is_err());
    }
}
