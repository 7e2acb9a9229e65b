//! Every key that a physical partition writes, in one drawing.
//!
//! ```text
//! tag  key after the tag                     value
//! 10   prefix·8 number·8                     item row (row.rs)
//! 11   number·8 chunk·4                      the rest of an item row beyond the store's value size
//! 12   epk length·1 epk id                   number·8        primary key
//! 13   number·8                              prefix·8        natural order: order of creation
//! 14   lsn·8 sequence·4 number·8             prefix·8        change feed, latest version
//! 15                                         counters (counts.rs)
//! 16   path·4                                parent·4 step   dictionary of paths
//! 17   block·4                               entries per path, 64 paths a block
//! 18   lsn mod 4096·2                        lsn·8 token·16  commit log, for unknown outcomes
//! 19   expiry second·8 number·8              prefix·8        time to live
//! 1A   policy·1 epk length·1 epk values      number·8        unique keys
//! 1B                                         policy generations (index/generations.rs)
//! 1C   epk                                   deletions of logical partitions (key_deletion.rs)
//! 1D   lsn·8 sequence·4 number·8 chunk·4     version of an item, in chunks (versions.rs)
//! 1E                                         lsn·8: versions of commits after it are kept; more
//!                                            in a merged partition (version_floors.rs)
//! 1F   00 epk                                bytes·8: size of a large logical partition
//! 1F   01                                    base·8 growth·8: bound of the others (key_sizes.rs)
//! 20   path·4 prefix·8 number·8              vector of an item (index/vectors.rs)
//! 21   path·4 number·8                       prefix·8 code shard  quantised vector
//! 22   path·4 number·8                       neighbours      list of a graph of vectors
//! 22   path·4 entry·8 shard                  neighbours      list of the entry of a graph
//! 23   path·4 lsn·8 number·8                 prefix·8        vector that a commit has changed
//! 24   00 path·4                             state           of quantised vectors and graph
//! 24   01 path·4 chunk·4                     quantiser       (index/approximate.rs)
//! 90   path·4 value number·8 prefix·8        (empty)         index term (index/value.rs)
//! A0   path·4 stem 00 number·8 prefix·8      places          word of a text (index/texts.rs)
//! ```
//!
//! Numbers are big-endian, so that bytes sort as numbers do. *number* is the number of the item in
//! its container, which is part of its `_rid`: index entries with one value are in the order of
//! `_rid`s, by which clients break ties. *prefix* is the EPK prefix, the first eight bytes of the
//! effective partition key: items of one logical partition lie side by side, and an index entry
//! leads to its item in one step.
//!
//! Tags from 90 up are index entries; the store keeps them apart (see `orrery_storage`).

mod kinds;

pub(crate) use kinds::{
    RowKind, kept_by_rebuild, of_quantised_vectors, path_of_quantised, unknown_ranges,
};

use crate::index::texts;
use orrery_model::partition_key::Epk;
use orrery_storage::PartitionId;

/// The partition of the store with the rows of the catalog.
pub(crate) const CATALOG_PARTITION: PartitionId = PartitionId(0);

/// The number of an item in its container.
pub(crate) type ItemNumber = u64;
/// The first eight bytes of an effective partition key.
pub(crate) type EpkPrefix = [u8; 8];
/// The number of a path in the dictionary of its partition.
pub(crate) type PathNumber = u32;

const ITEM: u8 = 0x10;
const ITEM_REST: u8 = 0x11;
const PRIMARY: u8 = 0x12;
const NATURAL: u8 = 0x13;
const FEED: u8 = 0x14;
const COUNTERS: u8 = 0x15;
const PATH: u8 = 0x16;
const PATH_COUNTS: u8 = 0x17;
const LOG: u8 = 0x18;
const EXPIRY: u8 = 0x19;
const UNIQUE: u8 = 0x1A;
const POLICY_GENERATIONS: u8 = 0x1B;
const KEY_DELETION: u8 = 0x1C;
const VERSION: u8 = 0x1D;
const VERSIONS_AFTER: u8 = 0x1E;
const KEY_SIZES: u8 = 0x1F;
const VECTOR: u8 = 0x20;
const CODE: u8 = 0x21;
const NEIGHBOURS: u8 = 0x22;
const CHANGED_VECTOR: u8 = 0x23;
const APPROXIMATE: u8 = 0x24;
const TERM: u8 = 0x90;
const WORD: u8 = 0xA0;

/// Commits that the commit log holds.
pub(crate) const LOG_LENGTH: u64 = 4096;

/// Returns the EPK prefix of an effective partition key, padded with zeros.
///
/// Prefixes sort as the keys do, up to the eighth byte.
pub(crate) fn epk_prefix(epk: &Epk) -> EpkPrefix {
    let bytes = epk.as_bytes();
    let mut epk_prefix = [0; 8];
    let kept = bytes.len().min(8);
    epk_prefix[..kept].copy_from_slice(&bytes[..kept]);
    epk_prefix
}

fn key(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + parts.iter().map(|p| p.len()).sum::<usize>());
    key.push(tag);
    parts.iter().for_each(|p| key.extend_from_slice(p));
    key
}

/// Returns the key of an item row.
pub(crate) fn item(epk_prefix: EpkPrefix, number: ItemNumber) -> Vec<u8> {
    key(ITEM, &[&epk_prefix, &number.to_be_bytes()])
}

/// Returns the beginning of the key of an item row, which goes on with the number as the primary
/// key row has it.
pub(crate) fn item_of_any_number(epk_prefix: EpkPrefix) -> Vec<u8> {
    key(ITEM, &[&epk_prefix])
}

/// Returns the range of all item rows.
pub(crate) fn items() -> (Vec<u8>, Vec<u8>) {
    tagged(ITEM)
}

/// Returns the key of the size of a large logical partition.
pub(crate) fn key_size(epk: &Epk) -> Vec<u8> {
    key(KEY_SIZES, &[&[0], epk.as_bytes()])
}

/// Returns the range of the sizes of all large logical partitions.
pub(crate) fn key_sizes() -> (Vec<u8>, Vec<u8>) {
    (vec![KEY_SIZES, 0], key_size_bound())
}

/// Reads the effective partition key from the key of a size.
pub(crate) fn read_key_size(key: &[u8]) -> Option<Epk> {
    key.strip_prefix(&[KEY_SIZES, 0]).map(Epk::from_bytes)
}

/// Returns the key of the bound for all logical partitions without a row of their own.
pub(crate) fn key_size_bound() -> Vec<u8> {
    vec![KEY_SIZES, 1]
}

/// Returns the range of the item rows with an EPK prefix and a number of at least `from`.
pub(crate) fn items_of(epk_prefix: EpkPrefix, from: ItemNumber) -> (Vec<u8>, Vec<u8>) {
    let mut end = item(epk_prefix, ItemNumber::MAX);
    end.push(0);
    (item(epk_prefix, from), end)
}

/// Reads EPK prefix and number from the key of an item row.
pub(crate) fn read_item(key: &[u8]) -> Option<(EpkPrefix, ItemNumber)> {
    let rest = key.strip_prefix(&[ITEM])?;
    Some((array(rest.get(..8)?)?, number(rest.get(8..)?)?))
}

/// Returns the key of a further chunk of an item row.
pub(crate) fn item_rest(number: ItemNumber, chunk: u32) -> Vec<u8> {
    key(ITEM_REST, &[&number.to_be_bytes(), &chunk.to_be_bytes()])
}

/// Returns the key of the primary key row of an id in a logical partition.
pub(crate) fn primary(epk: &Epk, id: &str) -> Vec<u8> {
    let epk = epk.as_bytes();
    key(PRIMARY, &[&[epk.len() as u8], epk, id.as_bytes()])
}

/// Reads the id from the key of a primary key row.
pub(crate) fn read_primary(key: &[u8]) -> Option<String> {
    let rest = key.strip_prefix(&[PRIMARY])?;
    let (epk_length, rest) = rest.split_first()?;
    let id = rest.get(usize::from(*epk_length)..)?;
    String::from_utf8(id.to_vec()).ok()
}

/// Returns the range of all primary key rows.
pub(crate) fn primaries() -> (Vec<u8>, Vec<u8>) {
    tagged(PRIMARY)
}

/// Returns the key of the natural order row of an item.
pub(crate) fn natural(number: ItemNumber) -> Vec<u8> {
    key(NATURAL, &[&number.to_be_bytes()])
}

/// Returns the range of the natural order rows from number `from` on.
pub(crate) fn naturals_from(from: ItemNumber) -> (Vec<u8>, Vec<u8>) {
    (natural(from), vec![NATURAL + 1])
}

/// Reads the number from the key of a natural order row.
pub(crate) fn read_natural(key: &[u8]) -> Option<ItemNumber> {
    number(key.strip_prefix(&[NATURAL])?)
}

/// Returns the key of a change feed row. The number tells rows of merged histories apart.
pub(crate) fn feed(lsn: u64, sequence: u32, number: ItemNumber) -> Vec<u8> {
    key(
        FEED,
        &[
            &lsn.to_be_bytes(),
            &sequence.to_be_bytes(),
            &number.to_be_bytes(),
        ],
    )
}

/// Returns the range of the change feed rows after `lsn`.
pub(crate) fn feed_after(lsn: u64) -> (Vec<u8>, Vec<u8>) {
    (feed(lsn.saturating_add(1), 0, 0), vec![FEED + 1])
}

/// Reads LSN and item number from the key of a change feed row.
pub(crate) fn read_feed(key: &[u8]) -> Option<(u64, ItemNumber)> {
    let rest = key.strip_prefix(&[FEED])?;
    Some((number(rest.get(..8)?)?, number(rest.get(12..)?)?))
}

/// Reads LSN and sequence number from the key of a change feed row.
pub(crate) fn read_feed_place(key: &[u8]) -> Option<(u64, u32)> {
    let rest = key.strip_prefix(&[FEED])?;
    let sequence = u32::from_be_bytes(array(rest.get(8..12)?)?);
    Some((number(rest.get(..8)?)?, sequence))
}

/// Returns the key of the counters row.
pub(crate) fn counters() -> Vec<u8> {
    vec![COUNTERS]
}

/// Returns the key of a row of the path dictionary.
pub(crate) fn path(path: PathNumber) -> Vec<u8> {
    key(PATH, &[&path.to_be_bytes()])
}

/// Returns the range of the rows of the path dictionary.
pub(crate) fn paths() -> (Vec<u8>, Vec<u8>) {
    tagged(PATH)
}

/// Reads the path number from the key of a dictionary row.
pub(crate) fn read_path(key: &[u8]) -> Option<PathNumber> {
    Some(u32::from_be_bytes(array(key.strip_prefix(&[PATH])?)?))
}

/// Returns the key of a block of entry counts.
pub(crate) fn path_counts(block: u32) -> Vec<u8> {
    key(PATH_COUNTS, &[&block.to_be_bytes()])
}

/// Returns the key of the commit log row of a commit.
pub(crate) fn log(lsn: u64) -> Vec<u8> {
    key(LOG, &[&((lsn % LOG_LENGTH) as u16).to_be_bytes()])
}

/// Returns the key of an expiry row.
pub(crate) fn expiry(second: u64, number: ItemNumber) -> Vec<u8> {
    key(EXPIRY, &[&second.to_be_bytes(), &number.to_be_bytes()])
}

/// Returns the range of the expiry rows up to and including `second`.
pub(crate) fn expiries_until(second: u64) -> (Vec<u8>, Vec<u8>) {
    (
        vec![EXPIRY],
        key(EXPIRY, &[&second.saturating_add(1).to_be_bytes()]),
    )
}

/// Reads the second and the item number from the key of an expiry row.
pub(crate) fn read_expiry(key: &[u8]) -> Option<(u64, ItemNumber)> {
    let rest = key.strip_prefix(&[EXPIRY])?;
    Some((number(rest.get(..8)?)?, number(rest.get(8..)?)?))
}

/// Returns the key of a unique key row. `values` is a digest, because values may be long.
pub(crate) fn unique(policy: u8, epk: &Epk, values: &[u8]) -> Vec<u8> {
    let epk = epk.as_bytes();
    key(UNIQUE, &[&[policy, epk.len() as u8], epk, values])
}

/// Returns the key of the row of policy generations.
pub(crate) fn policy_generations() -> Vec<u8> {
    vec![POLICY_GENERATIONS]
}

/// Returns the key of the row of a deletion of a logical partition.
pub(crate) fn key_deletion(epk: &Epk) -> Vec<u8> {
    key(KEY_DELETION, &[epk.as_bytes()])
}

/// Returns the range of the rows of deletions of logical partitions.
pub(crate) fn key_deletions() -> (Vec<u8>, Vec<u8>) {
    tagged(KEY_DELETION)
}

/// Reads the EPK from the key of the row of a deletion of a logical partition.
pub(crate) fn read_key_deletion(key: &[u8]) -> Option<Epk> {
    key.strip_prefix(&[KEY_DELETION]).map(Epk::from_bytes)
}

/// Returns the key of a chunk of a version.
pub(crate) fn version(lsn: u64, sequence: u32, number: ItemNumber, chunk: u32) -> Vec<u8> {
    key(
        VERSION,
        &[
            &lsn.to_be_bytes(),
            &sequence.to_be_bytes(),
            &number.to_be_bytes(),
            &chunk.to_be_bytes(),
        ],
    )
}

/// Returns the range of the versions after `lsn`.
pub(crate) fn versions_after(lsn: u64) -> (Vec<u8>, Vec<u8>) {
    (version(lsn.saturating_add(1), 0, 0, 0), vec![VERSION + 1])
}

/// The position of a version: LSN of the commit, sequence number in the commit, item number.
pub(crate) type VersionAt = (u64, u32, ItemNumber);

/// Reads the position of a version and the chunk from the key.
pub(crate) fn read_version(key: &[u8]) -> Option<(VersionAt, u32)> {
    let rest = key.strip_prefix(&[VERSION])?;
    let short = |range: std::ops::Range<usize>| Some(u32::from_be_bytes(array(rest.get(range)?)?));
    Some((
        (
            number(rest.get(..8)?)?,
            short(8..12)?,
            number(rest.get(12..20)?)?,
        ),
        short(20..24)?,
    ))
}

/// Returns the key of the row with the LSNs after which versions are kept.
pub(crate) fn versions_floor() -> Vec<u8> {
    vec![VERSIONS_AFTER]
}

/// Returns the key of the vector of an item in the vector index whose name has the number `path`.
pub(crate) fn vector(path: PathNumber, epk_prefix: EpkPrefix, number: ItemNumber) -> Vec<u8> {
    key(
        VECTOR,
        &[&path.to_be_bytes(), &epk_prefix, &number.to_be_bytes()],
    )
}

/// Returns the range of the vectors of an index, of the items with an EPK prefix if there is one.
pub(crate) fn vectors(path: PathNumber, epk_prefix: Option<EpkPrefix>) -> (Vec<u8>, Vec<u8>) {
    let mut first = key(VECTOR, &[&path.to_be_bytes()]);
    first.extend_from_slice(epk_prefix.as_ref().map_or(&[], |prefix| &prefix[..]));
    let end = after(&first);
    (first, end)
}

/// Reads the path number from the key of a vector.
pub(crate) fn path_of_vector(key: &[u8]) -> Option<PathNumber> {
    path_of_entry(key.strip_prefix(&[VECTOR])?)
}

/// Returns the key of the code of a vector.
pub(crate) fn code(path: PathNumber, number: ItemNumber) -> Vec<u8> {
    key(CODE, &[&path.to_be_bytes(), &number.to_be_bytes()])
}

/// Returns the range of the codes of an index.
pub(crate) fn codes(path: PathNumber) -> (Vec<u8>, Vec<u8>) {
    of_path(CODE, path)
}

/// Returns the key of the list of neighbours of a vector.
pub(crate) fn neighbours(path: PathNumber, number: ItemNumber) -> Vec<u8> {
    key(NEIGHBOURS, &[&path.to_be_bytes(), &number.to_be_bytes()])
}

/// Returns the key of the list of the entry of a graph. The entry has the number `entry` in the
/// graphs of all shards, and `shard` has the bytes of the shard.
pub(crate) fn neighbours_of_entry(path: PathNumber, entry: u64, shard: &[u8]) -> Vec<u8> {
    let mut key = neighbours(path, entry);
    key.extend_from_slice(shard);
    key
}

/// Returns the range of the lists of neighbours of an index.
pub(crate) fn all_neighbours(path: PathNumber) -> (Vec<u8>, Vec<u8>) {
    of_path(NEIGHBOURS, path)
}

/// Returns the key of the mark of a vector that the commit `lsn` has changed.
pub(crate) fn changed_vector(path: PathNumber, lsn: u64, number: ItemNumber) -> Vec<u8> {
    key(
        CHANGED_VECTOR,
        &[
            &path.to_be_bytes(),
            &lsn.to_be_bytes(),
            &number.to_be_bytes(),
        ],
    )
}

/// Returns the range of the marks of vectors of an index that the commit `lsn` or a later one has
/// changed.
pub(crate) fn changed_vectors(path: PathNumber, lsn: u64) -> (Vec<u8>, Vec<u8>) {
    let (_, end) = of_path(CHANGED_VECTOR, path);
    (changed_vector(path, lsn, 0), end)
}

/// Reads LSN and item number from the key of the mark of a changed vector.
pub(crate) fn read_changed_vector(key: &[u8]) -> Option<(u64, ItemNumber)> {
    let rest = key.strip_prefix(&[CHANGED_VECTOR])?.get(4..)?;
    Some((number(rest.get(..8)?)?, number(rest.get(8..)?)?))
}

/// Reads the item number from the key of a code or a list of neighbours.
pub(crate) fn read_vector_number(key: &[u8]) -> Option<ItemNumber> {
    number(key.get(5..)?)
}

/// Returns the key of the state of the quantised vectors of an index.
pub(crate) fn approximate_state(path: PathNumber) -> Vec<u8> {
    key(APPROXIMATE, &[&[0], &path.to_be_bytes()])
}

/// Returns the range of the states of quantised vectors.
pub(crate) fn approximate_states() -> (Vec<u8>, Vec<u8>) {
    (vec![APPROXIMATE, 0], vec![APPROXIMATE, 1])
}

/// Reads the path number from the key of a state of quantised vectors.
pub(crate) fn read_approximate_state(key: &[u8]) -> Option<PathNumber> {
    path_of_entry(key.strip_prefix(&[APPROXIMATE, 0])?)
}

/// Returns the key of a chunk of a quantiser.
pub(crate) fn quantiser(path: PathNumber, chunk: u32) -> Vec<u8> {
    key(
        APPROXIMATE,
        &[&[1], &path.to_be_bytes(), &chunk.to_be_bytes()],
    )
}

/// Returns the range of the chunks of a quantiser.
pub(crate) fn quantisers(path: PathNumber) -> (Vec<u8>, Vec<u8>) {
    let first = key(APPROXIMATE, &[&[1], &path.to_be_bytes()]);
    let end = after(&first);
    (first, end)
}

fn of_path(tag: u8, path: PathNumber) -> (Vec<u8>, Vec<u8>) {
    let first = key(tag, &[&path.to_be_bytes()]);
    let end = after(&first);
    (first, end)
}

/// Returns the key of the entry of a stem for the text of an item, in the full-text index whose
/// name has the number `path`.
pub(crate) fn word(
    path: PathNumber,
    stem: &[u8],
    number: ItemNumber,
    epk_prefix: EpkPrefix,
) -> Vec<u8> {
    key(
        WORD,
        &[
            &path.to_be_bytes(),
            stem,
            &[0],
            &number.to_be_bytes(),
            &epk_prefix,
        ],
    )
}

/// Returns the range of the entries of a stem.
pub(crate) fn words(path: PathNumber, stem: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let first = key(WORD, &[&path.to_be_bytes(), stem, &[0]]);
    let end = after(&first);
    (first, end)
}

/// Returns the range of the entries of all stems and words of a full-text index, without those of
/// whole texts.
pub(crate) fn all_words(path: PathNumber) -> (Vec<u8>, Vec<u8>) {
    let path = path.to_be_bytes();
    (
        key(WORD, &[&path, &[1]]),
        key(WORD, &[&path, texts::LEFT_OUT]),
    )
}

/// Returns the key of the entry of an item in a full-text index, or in a vector index if there is
/// no stem.
pub(crate) fn search_entry(
    path: PathNumber,
    stem: Option<&[u8]>,
    number: ItemNumber,
    epk_prefix: EpkPrefix,
) -> Vec<u8> {
    match stem {
        Some(stem) => word(path, stem, number, epk_prefix),
        None => vector(path, epk_prefix, number),
    }
}

/// Returns the number of entries that a row of the index stands for in the counts of its path: the
/// words of a text, or one.
pub(crate) fn entries_counted(key: &[u8], value: &[u8]) -> i64 {
    match read_stem(key) {
        Some((stem, _)) => texts::words_of(stem, value),
        None => 1,
    }
}

/// Reads the stem from the key of an entry of a full-text index, and its end in the key.
pub(crate) fn read_stem(key: &[u8]) -> Option<(&[u8], usize)> {
    let end = key.len().checked_sub(17)?;
    let stem = key.get(..end)?.strip_prefix(&[WORD])?.get(4..)?;
    Some((stem, end))
}

/// Reads EPK prefix and item number from the key of a vector.
pub(crate) fn read_vector(key: &[u8]) -> Option<(EpkPrefix, ItemNumber)> {
    let rest = key.strip_prefix(&[VECTOR])?.get(4..)?;
    Some((array(rest.get(..8)?)?, number(rest.get(8..)?)?))
}

/// Returns the key of an index term.
pub(crate) fn term(
    path: PathNumber,
    value: &[u8],
    number: ItemNumber,
    epk_prefix: EpkPrefix,
) -> Vec<u8> {
    key(
        TERM,
        &[
            &path.to_be_bytes(),
            value,
            &number.to_be_bytes(),
            &epk_prefix,
        ],
    )
}

/// Returns the prefix of the keys of all index terms of a path whose encoded value begins with
/// `value`.
pub(crate) fn terms(path: PathNumber, value: &[u8]) -> Vec<u8> {
    key(TERM, &[&path.to_be_bytes(), value])
}

/// Returns true if a key is that of an index term.
pub(crate) fn is_term(key: &[u8]) -> bool {
    key.first() == Some(&TERM)
}

/// Returns true if a key is that of an entry of the index: a term, a word or a vector.
pub(crate) fn is_index_entry(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(TERM | WORD | VECTOR)))
}

/// Reads encoded value, item number and EPK prefix from the key of an index term, or of a word of a
/// text: the value is then the stem with a byte 0.
pub(crate) fn read_term(key: &[u8]) -> Option<(&[u8], ItemNumber, EpkPrefix)> {
    let (TERM | WORD, rest) = key.split_first().map(|(tag, rest)| (*tag, rest))? else {
        return None;
    };
    let rest = rest.get(4..)?;
    let (value, tail) = rest.split_at_checked(rest.len().checked_sub(16)?)?;
    Some((value, number(&tail[..8])?, array(&tail[8..])?))
}

/// The kind of a row, for a copy of a partition row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept<'a> {
    /// An item row.
    Item(EpkPrefix, ItemNumber),
    /// A further chunk of an item row.
    ItemRest(ItemNumber),
    /// A row of one logical partition.
    OfKey(&'a [u8]),
    /// The natural order, feed or expiry row of an item, with the EPK prefix in the value.
    OfItem(ItemNumber),
    /// A chunk of a version of an item.
    Version(VersionAt, u32),
    /// An entry of the index: a term, a word, or a vector.
    IndexEntry(PathNumber, EpkPrefix, ItemNumber),
    /// A row of the path dictionary.
    Path(PathNumber),
    /// A row for the partition as a whole, with a fixed key.
    Whole,
    /// Counters, and quantised vectors with their graph, which a copy makes anew.
    Own,
}

/// Returns the kind of a row, or `None` for a key that is not in the drawing.
pub(crate) fn kept(key: &[u8]) -> Option<Kept<'_>> {
    let (tag, rest) = key.split_first()?;
    let sized = |at: usize| {
        rest.get(at + 1..at + 1 + usize::from(*rest.get(at)?))
            .map(Kept::OfKey)
    };
    match *tag {
        ITEM => read_item(key).map(|(epk_prefix, number)| Kept::Item(epk_prefix, number)),
        ITEM_REST => number(rest.get(..8)?).map(Kept::ItemRest),
        PRIMARY => sized(0),
        UNIQUE => sized(1),
        KEY_DELETION => Some(Kept::OfKey(rest)),
        NATURAL => read_natural(key).map(Kept::OfItem),
        FEED => read_feed(key).map(|(_, number)| Kept::OfItem(number)),
        EXPIRY => read_expiry(key).map(|(_, number)| Kept::OfItem(number)),
        VERSION => read_version(key).map(|(at, chunk)| Kept::Version(at, chunk)),
        PATH => read_path(key).map(Kept::Path),
        POLICY_GENERATIONS | VERSIONS_AFTER => Some(Kept::Whole),
        COUNTERS | PATH_COUNTS | LOG | KEY_SIZES => Some(Kept::Own),
        CODE | NEIGHBOURS | CHANGED_VECTOR | APPROXIMATE => Some(Kept::Own),
        TERM | WORD => {
            let (_, number, epk_prefix) = read_term(key)?;
            Some(Kept::IndexEntry(path_of_entry(rest)?, epk_prefix, number))
        }
        VECTOR => {
            let (epk_prefix, number) = read_vector(key)?;
            Some(Kept::IndexEntry(path_of_entry(rest)?, epk_prefix, number))
        }
        _ => None,
    }
}

/// Reads the path number from the key of an entry of the index without its tag.
fn path_of_entry(rest: &[u8]) -> Option<PathNumber> {
    Some(u32::from_be_bytes(array(rest.get(..4)?)?))
}

/// Returns the key of an entry of the index under another path number.
pub(crate) fn with_path(entry: &[u8], path: PathNumber) -> Vec<u8> {
    let mut key = entry.to_vec();
    key[1..5].copy_from_slice(&path.to_be_bytes());
    key
}

/// Returns the range of all keys that begin with a tag. The tag is not the highest one.
pub(crate) fn tagged(tag: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![tag], vec![tag + 1])
}

/// Returns the lowest key after all keys that begin with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xFF {
            end.push(last + 1);
            return end;
        }
    }
    // Only a prefix of FF bytes has no end, and no tag is FF.
    vec![0xFF; 8]
}

/// Reads a number from eight big-endian bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(array(bytes)?))
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        let epk_prefix = *b"abcdefgh";
        assert_eq!(read_item(&item(epk_prefix, 7)), Some((epk_prefix, 7)));
        assert_eq!(read_natural(&natural(7)), Some(7));
        assert_eq!(read_feed(&feed(9, 1, 7)), Some((9, 7)));
        assert_eq!(read_expiry(&expiry(9, 1)), Some((9, 1)));
        assert_eq!(read_path(&path(3)), Some(3));
        assert_eq!(
            read_term(&term(3, b"value", 7, epk_prefix)),
            Some((&b"value"[..], 7, epk_prefix))
        );
        let epk = Epk::from_bytes(b"abc");
        assert_eq!(read_key_deletion(&key_deletion(&epk)), Some(epk));
        assert_eq!(read_version(&version(9, 2, 7, 1)), Some(((9, 2, 7), 1)));
    }

    #[test]
    fn every_key_says_what_it_is() {
        let (epk_prefix, epk) = (*b"abcdefgh", Epk::from_bytes(b"abc"));
        assert_eq!(kept(&item(epk_prefix, 7)), Some(Kept::Item(epk_prefix, 7)));
        assert_eq!(kept(&item_rest(7, 0)), Some(Kept::ItemRest(7)));
        assert_eq!(kept(&primary(&epk, "id")), Some(Kept::OfKey(b"abc")));
        assert_eq!(kept(&unique(0, &epk, b"x")), Some(Kept::OfKey(b"abc")));
        assert_eq!(kept(&key_deletion(&epk)), Some(Kept::OfKey(b"abc")));
        for of_item in [natural(7), feed(1, 2, 7), expiry(1, 7)] {
            assert_eq!(kept(&of_item), Some(Kept::OfItem(7)));
        }
        assert_eq!(
            kept(&version(1, 2, 7, 3)),
            Some(Kept::Version((1, 2, 7), 3))
        );
        assert_eq!(kept(&path(4)), Some(Kept::Path(4)));
        assert_eq!(
            kept(&term(4, b"v", 7, epk_prefix)),
            Some(Kept::IndexEntry(4, epk_prefix, 7))
        );
        assert_eq!(
            with_path(&term(4, b"v", 7, epk_prefix), 5),
            term(5, b"v", 7, epk_prefix)
        );
        assert!(
            [policy_generations(), versions_floor()]
                .iter()
                .all(|key| kept(key) == Some(Kept::Whole))
        );
        assert!(
            [
                counters(),
                path_counts(0),
                log(3),
                key_size(&epk),
                key_size_bound(),
                code(4, 7),
                neighbours(4, 7),
                changed_vector(4, 9, 7),
                approximate_state(4),
                quantiser(4, 0),
            ]
            .iter()
            .all(|key| kept(key) == Some(Kept::Own))
        );
        assert_eq!(
            (kept(b""), kept(b"\x7F"), kept(b"\x12\x09a")),
            (None, None, None)
        );
    }

    #[test]
    fn foreign_bytes_are_refused_and_never_panic() {
        for bytes in [&b""[..], b"\x10", b"\x90abc", b"\x13\x00", &[0x90; 12]] {
            assert!(
                read_item(bytes).is_none()
                    && read_natural(bytes).is_none()
                    && read_term(bytes).is_none()
            );
        }
    }

    #[test]
    fn ranges_hold_what_they_name() {
        let within = |(from, to): (Vec<u8>, Vec<u8>), key: Vec<u8>| from <= key && key < to;
        let epk_prefix = *b"abcdefgh";
        assert!(within(items_of(epk_prefix, 3), item(epk_prefix, 3)));
        assert!(within(items_of(epk_prefix, 3), item(epk_prefix, u64::MAX)));
        assert!(!within(items_of(epk_prefix, 3), item(epk_prefix, 2)));
        assert!(!within(items_of(epk_prefix, 3), item(*b"abcdefgi", 4)));
        assert!(within(feed_after(4), feed(5, 0, 0)) && !within(feed_after(4), feed(4, 9, 9)));
        assert!(
            within(versions_after(4), version(5, 0, 0, 0))
                && !within(versions_after(4), version(4, 9, 9, 9))
        );
        assert!(
            within(expiries_until(4), expiry(4, 9)) && !within(expiries_until(4), expiry(5, 0))
        );
        assert_eq!(after(b"a\xFF"), b"b");
    }
}
