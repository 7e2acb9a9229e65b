//! Rows of the catalog that are larger than a value of the store.
//!
//! ```text
//! key                 the beginning of the value
//! key chunk·2         the rest, in chunks that are counted from 1
//! ```
//! Only records become that large: definitions with many paths, and scripts. All keys of one kind
//! of record have the same length, so the key of a chunk is never the key of another record.

use super::{Catalog, Row, RowChanges, StoredRow};
use crate::partition::keys;
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_storage::{Direction, Limits};
use std::iter::Peekable;

/// Bytes of a value in one row. The rest of the store's limit is left for later formats.
const CHUNK_BYTES: usize = Limits::ENVELOPE.value_bytes - (4 << 10);
/// Bytes of the number of a chunk in a key.
const NUMBER_BYTES: usize = 2;

/// Returns the rows in which a value is stored, the first with the key itself.
pub(super) fn split(key: Vec<u8>, value: Vec<u8>) -> Vec<Row> {
    if value.len() <= CHUNK_BYTES {
        return vec![(key, value)];
    }
    let mut rows = Vec::with_capacity(value.len() / CHUNK_BYTES + 1);
    for (number, chunk) in (0u16..).zip(value.chunks(CHUNK_BYTES)) {
        let mut row_key = key.clone();
        if number > 0 {
            row_key.extend(number.to_be_bytes());
        }
        rows.push((row_key, chunk.to_vec()));
    }
    rows
}

/// Returns true if `key` is that of a chunk of the row `first`.
fn is_chunk_of(first: &[u8], key: &[u8]) -> bool {
    key.len() == first.len() + NUMBER_BYTES && key.starts_with(first)
}

/// Rows with whole values, out of stored rows in the order of their keys.
pub(super) struct Joined<I: Iterator<Item = Result<StoredRow>>> {
    rows: Peekable<I>,
}

/// Puts the chunks of rows together.
pub(super) fn joined<I: Iterator<Item = Result<StoredRow>>>(rows: I) -> Joined<I> {
    Joined {
        rows: rows.peekable(),
    }
}

impl<I: Iterator<Item = Result<StoredRow>>> Iterator for Joined<I> {
    type Item = Result<StoredRow>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = match self.rows.next()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let is_rest = |row: &Result<StoredRow>| match row {
            Ok((other, _)) => is_chunk_of(&key, other),
            Err(_) => false,
        };
        let mut whole: Option<Vec<u8>> = None;
        while let Some(Ok((_, rest))) = self.rows.next_if(is_rest) {
            whole
                .get_or_insert_with(|| value.to_vec())
                .extend_from_slice(&rest);
        }
        let value = whole.map_or(value, Bytes::from);
        Some(Ok((key, value)))
    }
}

impl Catalog {
    /// Adds the deletion of chunks that the records of `changes` have in the store and will not
    /// have any more.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(super) fn delete_old_chunks(&self, changes: &mut RowChanges) -> Result<()> {
        let snapshot = self.partition.snapshot()?;
        let prefix = self.key_prefix();
        let records = std::mem::take(&mut changes.records);
        for record in records {
            let first = [&prefix[..], &record].concat();
            let after_first = [&first[..], &[0]].concat();
            let range = (after_first, keys::after(&first));
            for row in scan(snapshot.as_ref(), &range, Direction::Forward) {
                let (key, _) = row?;
                let own_key = key[prefix.len()..].to_vec();
                let is_written = changes.puts.iter().any(|(put, _)| *put == own_key);
                if is_chunk_of(&first, &key) && !is_written {
                    changes.deletes.push(own_key);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::Error;

    fn stored(rows: Vec<Row>) -> Vec<Result<StoredRow>> {
        let bytes = |row: Row| Ok((Bytes::from(row.0), Bytes::from(row.1)));
        rows.into_iter().map(bytes).collect()
    }

    #[test]
    fn values_of_every_size_are_cut_and_come_together_again() {
        let mut rows = Vec::new();
        let sizes = [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 200_000];
        for (size, number) in sizes.into_iter().zip(0u8..) {
            let value: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let split = split(vec![0x20, number], value);
            assert!(split.iter().all(|(_, chunk)| chunk.len() <= CHUNK_BYTES));
            rows.extend(split);
        }
        assert!(rows.is_sorted_by_key(|(key, _)| key.clone()));

        let whole: Vec<StoredRow> = joined(stored(rows).into_iter())
            .collect::<Result<_>>()
            .expect("rows");
        assert_eq!(whole.len(), sizes.len());
        for ((key, value), (size, number)) in whole.iter().zip(sizes.into_iter().zip(0u8..)) {
            assert_eq!(key[..], [0x20, number]);
            assert_eq!(value.len(), size);
            assert!(value.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        }
    }

    #[test]
    fn a_row_that_cannot_be_read_is_an_error_and_ends_no_value() {
        let first = split(b"a".to_vec(), vec![1; CHUNK_BYTES + 1]);
        let mut rows = stored(first);
        rows.insert(1, Err(Error::not_found()));
        let mut joined = joined(rows.into_iter());
        joined.next().expect("a row").expect("the first chunk");
        joined.next().expect("an error").expect_err("the next row");
    }
}
