//! A block: some kilobytes of adjacent rows as one piece of bytes, which never changes.
//!
//! ```text
//! block   entry entry …                                  in the order of their keys
//! entry   shared suffix-length value-length suffix value
//! ```
//!
//! *shared* counts the bytes that the key has in common with the key before it; only the *suffix*
//! behind them is stored. Adjacent keys have much in common, so most bytes of a block are values.
//! The three numbers are in base 128, the low digit first; most take one byte.
//!
//! A search begins at the first entry, compares suffixes and builds no keys: an entry that shares
//! more with its predecessor than the wanted key does is below the wanted key, and an entry that
//! shares less is above it. The same counts tell how the entry after an inserted or removed one is
//! rewritten, so a change copies most of the block as it is.
//!
//! A block holds bytes that this program wrote and keeps in memory. A malformed block is an error
//! of the program.

use std::ops::{Bound, Range, RangeBounds};

use crate::store::{Bytes, KeyRange};

/// Rows in the order of their keys.
#[derive(Clone, Default)]
pub(super) struct Block {
    bytes: Bytes,
}

/// An entry of a block, as lengths and offsets.
#[derive(Clone)]
struct Entry {
    /// Bytes of the key that the key before it has as well.
    shared: usize,
    suffix: Range<usize>,
    value: Range<usize>,
}

/// The place of a key in a block: before the first entry whose key is not below the wanted key.
struct Place {
    /// Offset of that entry; the size of the block if there is none.
    offset: usize,
    /// Bytes that the wanted key shares with the key before the place.
    shared_before: usize,
    next: Option<Next>,
}

/// The entry after a place.
struct Next {
    entry: Entry,
    /// Bytes that its key shares with the wanted key.
    shared_with_wanted: usize,
    /// True if its key is the wanted one.
    is_wanted: bool,
}

impl Block {
    /// Returns the size of the block in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if the block has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the value of a key, as a slice of the block.
    pub(super) fn get(&self, key: &[u8]) -> Option<Bytes> {
        let next = self.find(key).next?;
        next.is_wanted.then(|| self.bytes.slice(next.entry.value))
    }

    /// Returns the block with a row, which replaces a row with the same key. Also returns true if
    /// the row is new and the last one.
    pub(super) fn with(&self, key: &[u8], value: &[u8]) -> (Block, bool) {
        let place = self.find(key);
        let is_appended = place.next.is_none();
        let mut writer = Writer::with_capacity(self.len() + key.len() + value.len());
        writer.copy(&self.bytes[..place.offset]);
        match place.next {
            None => writer.entry(place.shared_before, &[&key[place.shared_before..]], value),
            Some(next) if next.is_wanted => {
                let entry = next.entry;
                writer.entry(entry.shared, &[&self.bytes[entry.suffix]], value);
                writer.copy(&self.bytes[entry.value.end..]);
            }
            Some(next) => {
                writer.entry(place.shared_before, &[&key[place.shared_before..]], value);
                // The next entry loses the bytes that its key shares with the new key.
                let (shared, entry) = (next.shared_with_wanted, next.entry);
                let suffix = entry.suffix.start + shared - entry.shared..entry.suffix.end;
                writer.entry(
                    shared,
                    &[&self.bytes[suffix]],
                    &self.bytes[entry.value.clone()],
                );
                writer.copy(&self.bytes[entry.value.end..]);
            }
        }
        (writer.finish(), is_appended)
    }

    /// Returns the block without the row of a key; `None` if there is no such row.
    pub(super) fn without(&self, key: &[u8]) -> Option<Block> {
        let place = self.find(key);
        let removed = place.next.filter(|next| next.is_wanted)?.entry;
        let mut writer = Writer::with_capacity(self.len());
        writer.copy(&self.bytes[..place.offset]);
        if let Some(next) = self.entry_at(removed.value.end) {
            // The next entry gets back the bytes that its key shared with the removed key only.
            let shared = next.shared.min(removed.shared);
            let suffix = [&key[shared..next.shared], &self.bytes[next.suffix]];
            writer.entry(shared, &suffix, &self.bytes[next.value.clone()]);
            writer.copy(&self.bytes[next.value.end..]);
        }
        Some(writer.finish())
    }

    /// Returns the block without the rows of a range.
    pub(super) fn without_range(&self, range: KeyRange<'_>) -> Block {
        let mut builder = Builder::default();
        let mut rows = self.rows();
        while let Some((key, value)) = rows.next_row() {
            if !RangeBounds::<[u8]>::contains(&range, key) {
                builder.push(key, value);
            }
        }
        builder.finish()
    }

    /// Returns the rows below a key, and the other rows.
    pub(super) fn split_at(&self, key: &[u8]) -> (Block, Block) {
        let (mut low, mut high) = (Builder::default(), Builder::default());
        let mut rows = self.rows();
        while let Some((row_key, value)) = rows.next_row() {
            let half = if row_key < key { &mut low } else { &mut high };
            half.push(row_key, value);
        }
        (low.finish(), high.finish())
    }

    /// Returns the rows of this block followed by those of a block with higher keys.
    pub(super) fn followed_by(&self, higher: &Block) -> Block {
        let mut builder = Builder::default();
        for block in [self, higher] {
            let mut rows = block.rows();
            while let Some((key, value)) = rows.next_row() {
                builder.push(key, value);
            }
        }
        builder.finish()
    }

    /// Returns the shortest key that separates the rows before an offset from the others; each
    /// side has at least one row. `None` if the block has fewer than two rows.
    pub(super) fn separator(&self, offset: usize) -> Option<Vec<u8>> {
        let mut rows = self.rows();
        rows.next_row()?;
        loop {
            let entry = self.entry_at(rows.offset)?;
            rows.next_row()?;
            if entry.value.end > offset || entry.value.end == self.len() {
                rows.key.truncate(entry.shared + 1);
                return Some(rows.key);
            }
        }
    }

    /// Returns all rows, in ascending order.
    pub(super) fn rows(&self) -> BlockRows {
        BlockRows {
            block: self.clone(),
            offset: 0,
            key: Vec::new(),
        }
    }

    /// Returns the rows from a bound on, in ascending order.
    pub(super) fn rows_from(&self, start: Bound<&[u8]>) -> BlockRows {
        let (Bound::Included(key) | Bound::Excluded(key)) = start else {
            return self.rows();
        };
        let place = self.find(key);
        let mut rows = self.rows();
        rows.offset = place.offset;
        // The key before the place shares this many bytes with `key`, and the entry at the place
        // needs no more of them.
        rows.key.extend_from_slice(&key[..place.shared_before]);
        if let (Bound::Excluded(_), Some(next)) = (start, place.next)
            && next.is_wanted
        {
            rows.next_row();
        }
        rows
    }

    /// Returns the place of a key.
    fn find(&self, wanted: &[u8]) -> Place {
        let bytes = &self.bytes[..];
        let mut offset = 0;
        // Bytes that the wanted key shares with the key before `offset`, which is below it.
        let mut shared_before = 0;
        while let Some(entry) = read_entry(bytes, offset) {
            if entry.shared <= shared_before {
                let suffix = &bytes[entry.suffix.clone()];
                let rest = &wanted[entry.shared..];
                let common = common_length(suffix, rest);
                let is_below = entry.shared == shared_before
                    && match (suffix.get(common), rest.get(common)) {
                        (Some(byte), Some(wanted)) => byte < wanted,
                        (None, Some(_)) => true,
                        (_, None) => false,
                    };
                if !is_below {
                    return Place {
                        offset,
                        shared_before,
                        next: Some(Next {
                            shared_with_wanted: entry.shared + common,
                            is_wanted: common == suffix.len() && common == rest.len(),
                            entry,
                        }),
                    };
                }
                shared_before = entry.shared + common;
            }
            offset = entry.value.end;
        }
        Place {
            offset,
            shared_before,
            next: None,
        }
    }

    /// Reads the entry at an offset; `None` at the end of the block.
    fn entry_at(&self, offset: usize) -> Option<Entry> {
        read_entry(&self.bytes, offset)
    }
}

/// A position between two rows of a block, which moves towards higher keys.
pub(super) struct BlockRows {
    block: Block,
    /// Offset of the next entry.
    offset: usize,
    /// The key before the position, or the part of it that the next key has as well.
    key: Vec<u8>,
}

impl BlockRows {
    /// Returns true if there are no more rows.
    pub(super) fn is_at_end(&self) -> bool {
        self.offset == self.block.len()
    }

    /// Returns the key of the row before the position.
    pub(super) fn last_key(self) -> Vec<u8> {
        self.key
    }

    /// Returns the key of the row before the position.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the row before the position, whose value is at this place of the block.
    #[inline]
    pub(super) fn shared(&self, value: Range<usize>) -> (Bytes, Bytes) {
        let key = Bytes::copy_from_slice(&self.key);
        (key, self.block.bytes.slice(value))
    }

    /// Returns the next rows, as long as their keys are in a range, to be read from the last one.
    /// `None` if there is no such row.
    pub(super) fn backward(mut self, is_in_range: impl Fn(&[u8]) -> bool) -> Option<BackwardRows> {
        let mut keys = Vec::new();
        let mut rows = Vec::new();
        while let Some(value) = self.advance() {
            if !is_in_range(&self.key) {
                break;
            }
            let start = keys.len();
            keys.extend_from_slice(&self.key);
            rows.push((start..keys.len(), value));
        }
        (!rows.is_empty()).then_some(BackwardRows {
            block: self.block,
            keys,
            rows,
        })
    }

    /// Returns the next row.
    fn next_row(&mut self) -> Option<(&[u8], &[u8])> {
        let value = self.advance()?;
        Some((&self.key, &self.block.bytes[value]))
    }

    /// Moves over the next row, makes `key` its key and returns the place of its value.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<Range<usize>> {
        let entry = self.block.entry_at(self.offset)?;
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(&self.block.bytes[entry.suffix]);
        self.offset = entry.value.end;
        Some(entry.value)
    }
}

/// Rows of a block, which are read from the last one to the first. Keys of a block build on the
/// keys before them, so they are put together first.
pub(super) struct BackwardRows {
    block: Block,
    /// The keys of all rows, one after another.
    keys: Vec<u8>,
    /// The places of key and value of the rows that are left, in ascending order.
    rows: Vec<(Range<usize>, Range<usize>)>,
}

impl BackwardRows {
    /// Returns the lowest key of the rows that are left.
    pub(super) fn lowest_key(&self) -> Option<&[u8]> {
        let (key, _) = self.rows.first()?;
        Some(&self.keys[key.clone()])
    }

    /// Returns the last row that is left.
    pub(super) fn next_row(&mut self) -> Option<(Bytes, Bytes)> {
        let (key, value) = self.rows.pop()?;
        let key = Bytes::copy_from_slice(&self.keys[key]);
        Some((key, self.block.bytes.slice(value)))
    }

    /// Returns the key of the last row that is left.
    pub(super) fn next_key(&mut self) -> Option<&[u8]> {
        let (key, _) = self.rows.pop()?;
        Some(&self.keys[key])
    }
}

/// Builds a block from rows in ascending order.
#[derive(Default)]
struct Builder {
    writer: Writer,
    last_key: Vec<u8>,
}

impl Builder {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let shared = common_length(&self.last_key, key);
        self.writer.entry(shared, &[&key[shared..]], value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
    }

    fn finish(mut self) -> Block {
        self.writer.bytes.shrink_to_fit();
        self.writer.finish()
    }
}

/// Writes the bytes of a block.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates a writer with room for so many bytes and the numbers of two entries.
    fn with_capacity(bytes: usize) -> Writer {
        const NUMBERS: usize = 12;
        Writer {
            bytes: Vec::with_capacity(bytes + NUMBERS),
        }
    }

    /// Copies whole entries.
    fn copy(&mut self, entries: &[u8]) {
        self.bytes.extend_from_slice(entries);
    }

    /// Writes one entry. The suffix is given in pieces.
    fn entry(&mut self, shared: usize, suffix: &[&[u8]], value: &[u8]) {
        self.number(shared);
        self.number(suffix.iter().map(|piece| piece.len()).sum());
        self.number(value.len());
        for piece in suffix {
            self.bytes.extend_from_slice(piece);
        }
        self.bytes.extend_from_slice(value);
    }

    fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn finish(self) -> Block {
        Block {
            bytes: Bytes::from(self.bytes),
        }
    }
}

/// Reads the entry at an offset; `None` at the end of the block.
#[inline]
fn read_entry(bytes: &[u8], offset: usize) -> Option<Entry> {
    let [shared, suffix_length, value_length] = *bytes.get(offset..)?.first_chunk()?;
    let (shared, suffix_length, value_length, start) =
        if (shared | suffix_length | value_length) < 0x80 {
            let start = offset + 3;
            (
                usize::from(shared),
                usize::from(suffix_length),
                usize::from(value_length),
                start,
            )
        } else {
            read_numbers(bytes, offset)?
        };
    let suffix_end = start + suffix_length;
    Some(Entry {
        shared,
        suffix: start..suffix_end,
        value: suffix_end..suffix_end + value_length,
    })
}

/// Reads the three numbers of an entry and returns them with the offset behind them.
fn read_numbers(bytes: &[u8], offset: usize) -> Option<(usize, usize, usize, usize)> {
    let (shared, offset) = read_number(bytes, offset)?;
    let (suffix_length, offset) = read_number(bytes, offset)?;
    let (value_length, offset) = read_number(bytes, offset)?;
    Some((shared, suffix_length, value_length, offset))
}

/// Reads a number and returns it with the offset behind it.
fn read_number(bytes: &[u8], mut offset: usize) -> Option<(usize, usize)> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(offset)?;
        number |= usize::from(byte & 0x7f) << shift;
        (shift, offset) = (shift + 7, offset + 1);
        if byte < 0x80 {
            return Some((number, offset));
        }
    }
}

/// Returns the number of bytes that two texts have in common at their beginning.
#[inline]
fn common_length(a: &[u8], b: &[u8]) -> usize {
    let end = a.len().min(b.len());
    let (a, b) = (&a[..end], &b[..end]);
    let mut common = 0;
    while common < end && a[common] == b[common] {
        common += 1;
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Builds a block at once.
    fn built(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> Block {
        let mut builder = Builder::default();
        for (key, value) in rows {
            builder.push(key, value);
        }
        builder.finish()
    }

    fn rows_of(mut rows: BlockRows) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut found = BTreeMap::new();
        while let Some(value) = rows.advance() {
            let (key, value) = rows.shared(value);
            found.insert(key.to_vec(), value.to_vec());
        }
        found
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        // A long beginning makes numbers of two bytes.
        let start = prop_oneof![3 => Just(vec![]), 1 => Just(vec![7; 300])];
        let rest = proptest::collection::vec(0u8..3, 0..4);
        (start, rest).prop_map(|(start, rest)| [start, rest].concat())
    }

    fn changes() -> impl Strategy<Value = Vec<(Vec<u8>, Option<usize>)>> {
        let value = proptest::option::weighted(0.7, 0usize..200);
        proptest::collection::vec((key(), value), 0..60)
    }

    proptest! {
        #[test]
        fn a_block_changed_row_by_row_is_the_block_built_at_once(changes in changes()) {
            let (mut block, mut model) = (Block::default(), BTreeMap::new());
            for (key, change) in changes {
                match change {
                    Some(length) => {
                        let value = vec![b'v'; length];
                        let is_last = model.keys().next_back().is_none_or(|last| *last < key);
                        let (changed, is_appended) = block.with(&key, &value);
                        prop_assert_eq!(is_appended, is_last);
                        block = changed;
                        model.insert(key, value);
                    }
                    None => {
                        let changed = block.without(&key);
                        prop_assert_eq!(changed.is_some(), model.remove(&key).is_some());
                        block = changed.unwrap_or(block);
                    }
                }
                prop_assert_eq!(&block.bytes, &built(&model).bytes);
            }
        }

        #[test]
        fn the_parts_of_a_block_join_to_the_same_block(changes in changes(), at in key()) {
            let mut model = BTreeMap::new();
            for (key, length) in changes {
                model.insert(key, vec![b'v'; length.unwrap_or(0)]);
            }
            let block = built(&model);
            for at in block.separator(block.len() / 2).into_iter().chain([at]) {
                let (low, high) = block.split_at(&at);
                prop_assert_eq!(&low.followed_by(&high).bytes, &block.bytes);
                let upper = model.split_off(&at);
                prop_assert_eq!(&low.bytes, &built(&model).bytes);
                prop_assert_eq!(&high.bytes, &built(&upper).bytes);
                prop_assert_eq!(&rows_of(block.rows_from(Bound::Included(&at))), &upper);
                let range = (Bound::Unbounded, Bound::Excluded(at.as_slice()));
                prop_assert_eq!(&block.without_range(range).bytes, &high.bytes);
                model.extend(upper);
            }
        }

        #[test]
        fn a_separator_leaves_rows_on_both_sides(changes in changes(), offset in 0usize..9000) {
            let mut model = BTreeMap::new();
            for (key, length) in changes {
                model.insert(key, vec![b'v'; length.unwrap_or(0)]);
            }
            let block = built(&model);
            let separator = block.separator(offset);
            prop_assert_eq!(separator.is_some(), model.len() > 1);
            if let Some(separator) = separator {
                let (low, high) = block.split_at(&separator);
                prop_assert!(!low.is_empty() && !high.is_empty());
            }
        }
    }
}
