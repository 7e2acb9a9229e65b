//! The rows of a copy, in commits of bounded size.
//!
//! The last commit of a copy gives the copy the head of its source, and every commit raises the
//! head. So a copy has at most as many commits as the source's LSN. Commits have 1 MiB where the
//! source has many LSNs, and grow to the limit of a store where it has few; since each commit of
//! the source was within that limit, its rows fit.

use orrery_storage::{Bytes, Commit, Head, Limits, Lsn, PartitionId, Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;

use crate::cluster::failed;
use crate::patience::Patience;
use crate::writer::{Tokens, Writer};

/// Bytes of a commit of a copy.
pub(crate) const COMMIT_BYTES: usize = 1 << 20;
/// Keys of such a commit.
const COMMIT_KEYS: usize = 10_000;
/// LSNs of a source from which on small commits are used.
const MANY_LSNS: Lsn = 64;

/// A copy that is being written.
pub(crate) struct CopyTarget<'a> {
    store: &'a dyn Store,
    cluster: String,
    writer: Writer,
    tokens: Tokens,
    /// The LSN of the source, which the copy's commits stay below.
    source_lsn: Lsn,
    /// The new value of each key of the next commit, or `None` to delete the key.
    rows: BTreeMap<Vec<u8>, Option<Bytes>>,
    /// The ranges that the next commit empties first.
    ranges: Vec<Range<Vec<u8>>>,
    bytes: usize,
    /// Bytes and rows written so far.
    pub(crate) written_bytes: u64,
    pub(crate) written_rows: u64,
}

impl<'a> CopyTarget<'a> {
    /// Opens an empty partition.
    ///
    /// # Errors
    /// That of the store, and if the partition is not empty.
    pub(crate) fn open(
        store: &'a dyn Store,
        cluster: &str,
        number: PartitionId,
        tokens: Tokens,
    ) -> Result<CopyTarget<'a>, StoreError> {
        let writer = Writer::open(store, cluster, number)?;
        if writer.head() != Head::default() {
            let detail = format!("partition {number} is not empty, so nothing can be copied to it");
            return Err(failed(cluster, detail));
        }
        Ok(CopyTarget {
            store,
            cluster: cluster.to_owned(),
            writer,
            tokens,
            source_lsn: 0,
            rows: BTreeMap::new(),
            ranges: Vec::new(),
            bytes: 0,
            written_bytes: 0,
            written_rows: 0,
        })
    }

    /// Sets the LSN of the source, which only rises.
    pub(crate) fn set_source_lsn(&mut self, lsn: Lsn) {
        self.source_lsn = self.source_lsn.max(lsn);
    }

    /// Returns the writer of the copy.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Empties a range.
    pub(crate) fn empty(
        &mut self,
        range: Range<Vec<u8>>,
        patience: &Patience<'_>,
    ) -> Result<(), StoreError> {
        // A commit empties ranges before it writes rows, so rows that the range has go out first.
        let has_rows = self.rows.keys().any(|key| range.contains(key));
        if has_rows {
            let kept = std::mem::take(&mut self.rows).into_iter();
            self.rows = kept.filter(|(key, _)| !range.contains(key)).collect();
            self.bytes = self.rows.iter().map(|(k, v)| bytes_of(k, v.as_ref())).sum();
        }
        self.make_room(range.start.len() + range.end.len(), patience)?;
        self.ranges.push(range);
        Ok(())
    }

    /// Writes or deletes a key.
    pub(crate) fn set(
        &mut self,
        key: Vec<u8>,
        value: Option<Bytes>,
        patience: &Patience<'_>,
    ) -> Result<(), StoreError> {
        let bytes = bytes_of(&key, value.as_ref());
        if let Some(before) = self.rows.remove(&key) {
            self.bytes -= bytes_of(&key, before.as_ref());
        }
        self.make_room(bytes, patience)?;
        self.rows.insert(key, value);
        Ok(())
    }

    /// Counts the bytes of a change, after a commit if they do not fit into the present one.
    fn make_room(&mut self, bytes: usize, patience: &Patience<'_>) -> Result<(), StoreError> {
        let Limits {
            commit_bytes,
            commit_keys,
            ..
        } = self.store.limits();
        let used = self.writer.head().lsn;
        let is_small = self.source_lsn > MANY_LSNS && used < self.source_lsn / 8;
        let (most_bytes, most_keys) = match is_small {
            true => (COMMIT_BYTES.min(commit_bytes), COMMIT_KEYS.min(commit_keys)),
            false => (commit_bytes, commit_keys),
        };
        let keys = self.rows.len() + self.ranges.len();
        if keys > 0 && (self.bytes + bytes > most_bytes || keys >= most_keys) {
            if used + 1 >= self.source_lsn {
                let detail = format!(
                    "the rows of partition {} need more commits than the partition has had",
                    self.writer.lease().partition()
                );
                return Err(failed(&self.cluster, detail));
            }
            let head = Head {
                lsn: used + 1,
                token: self.tokens.next(),
            };
            self.commit(head, patience)?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Commits the changes that are left, and gives the copy the head of its source.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub(crate) fn finish(&mut self, head: Head, patience: &Patience<'_>) -> Result<(), StoreError> {
        if head == Head::default() {
            return Ok(());
        }
        self.commit(head, patience)
    }

    fn commit(&mut self, head: Head, patience: &Patience<'_>) -> Result<(), StoreError> {
        let mut commit = Commit {
            range_deletes: std::mem::take(&mut self.ranges),
            ..Commit::default()
        };
        self.written_rows += self.rows.len() as u64;
        self.written_bytes += self.bytes as u64;
        self.bytes = 0;
        for (key, value) in std::mem::take(&mut self.rows) {
            match value {
                Some(value) => commit.puts.push((key, value.to_vec())),
                None => commit.deletes.push(key),
            }
        }
        self.writer.commit(self.store, commit, head, patience)
    }
}

fn bytes_of(key: &[u8], value: Option<&Bytes>) -> usize {
    key.len() + value.map_or(0, |value| value.len())
}
