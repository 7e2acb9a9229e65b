//! The kinds of rows, for a check of a partition row by row: the name of each kind, and the item
//! from which a row follows.

use super::*;

/// A kind of row.
pub(crate) struct RowKind {
    tag: u8,
    /// The name for a person.
    pub name: &'static str,
    /// The place of the number of the item from which a row of this kind follows.
    number: NumberAt,
}

/// The place of the number of an item in a row.
#[derive(Clone, Copy)]
enum NumberAt {
    /// The row follows from no single item.
    None,
    /// At this byte of the key.
    Key(usize),
    /// At this distance from the end of the key.
    KeyEnd(usize),
    /// The value.
    Value,
}

/// Every kind of row, in the order of the keys.
const KINDS: [RowKind; 23] = [
    kind(ITEM, "item", NumberAt::Key(9)),
    kind(ITEM_REST, "further chunk of an item", NumberAt::Key(1)),
    kind(PRIMARY, "primary key", NumberAt::Value),
    kind(NATURAL, "natural order", NumberAt::Key(1)),
    kind(FEED, "change feed", NumberAt::Key(13)),
    kind(COUNTERS, "counters", NumberAt::None),
    kind(PATH, "path", NumberAt::None),
    kind(PATH_COUNTS, "counts of index entries", NumberAt::None),
    kind(LOG, "commit log", NumberAt::None),
    kind(EXPIRY, "time to live", NumberAt::Key(9)),
    kind(UNIQUE, "unique key", NumberAt::Value),
    kind(POLICY_GENERATIONS, "indexing policies", NumberAt::None),
    kind(
        KEY_DELETION,
        "deletion of a logical partition",
        NumberAt::None,
    ),
    kind(VERSION, "version of an item", NumberAt::None),
    kind(VERSIONS_AFTER, "beginning of versions", NumberAt::None),
    kind(KEY_SIZES, "size of a logical partition", NumberAt::None),
    kind(VECTOR, "vector", NumberAt::Key(13)),
    kind(CODE, "quantised vector", NumberAt::None),
    kind(NEIGHBOURS, "neighbours of a vector", NumberAt::None),
    kind(CHANGED_VECTOR, "changed vector", NumberAt::None),
    kind(APPROXIMATE, "state of quantised vectors", NumberAt::None),
    kind(TERM, "index term", NumberAt::KeyEnd(16)),
    kind(WORD, "word of a text", NumberAt::KeyEnd(16)),
];

const fn kind(tag: u8, name: &'static str, number: NumberAt) -> RowKind {
    RowKind { tag, name, number }
}

impl RowKind {
    /// Returns the kind of a row, or `None` for a key that is not in the drawing.
    pub(crate) fn of(key: &[u8]) -> Option<&'static RowKind> {
        let tag = key.first()?;
        KINDS.iter().find(|kind| kind.tag == *tag)
    }

    /// Returns every kind with the range of its rows, in the order of the keys.
    pub(crate) fn all() -> impl Iterator<Item = (&'static RowKind, (Vec<u8>, Vec<u8>))> {
        KINDS.iter().map(|kind| (kind, tagged(kind.tag)))
    }

    /// Returns true if each row of this kind follows from one item.
    pub(crate) fn follows_from_item(&self) -> bool {
        !matches!(self.number, NumberAt::None)
    }

    /// Returns the number of the item from which a row follows; `None` if the row follows from no
    /// single item, or has no number at its place.
    pub(crate) fn item(&self, key: &[u8], value: &[u8]) -> Option<ItemNumber> {
        let (bytes, at) = match self.number {
            NumberAt::None => return None,
            NumberAt::Key(at) => (key, at),
            NumberAt::KeyEnd(distance) => (key, key.len().checked_sub(distance)?),
            NumberAt::Value => (value, 0),
        };
        number(bytes.get(at..at + 8)?)
    }

    /// Returns true if a rebuild writes the rows of this kind anew from the items.
    pub(crate) fn is_rebuilt(&self) -> bool {
        let is_kept = matches!(
            self.tag,
            ITEM | ITEM_REST | KEY_DELETION | VERSION | VERSIONS_AFTER
        );
        !is_kept
    }
}

/// Returns the ranges of codes, lists of neighbours and marks of all indexes.
pub(crate) fn of_quantised_vectors() -> [(Vec<u8>, Vec<u8>); 3] {
    [CODE, NEIGHBOURS, CHANGED_VECTOR].map(tagged)
}

/// Reads the path number from the key of a code, a list of neighbours or a mark.
pub(crate) fn path_of_quantised(key: &[u8]) -> Option<PathNumber> {
    path_of_entry(key.get(1..)?)
}

/// Returns the ranges of rows that a rebuild copies as they are, beside the items.
pub(crate) fn kept_by_rebuild() -> [(Vec<u8>, Vec<u8>); 2] {
    [
        tagged(KEY_DELETION),
        (vec![VERSION], vec![VERSIONS_AFTER + 1]),
    ]
}

/// Returns the ranges of keys that are not in the drawing, in the order of the keys.
pub(crate) fn unknown_ranges() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut ranges = Vec::new();
    let mut from = Vec::new();
    for (_, (first, end)) in RowKind::all() {
        if from < first {
            ranges.push((from, first));
        }
        from = end;
    }
    ranges.push((from, vec![0xFF; 2 << 10]));
    ranges
}
