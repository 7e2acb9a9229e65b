//! The quantised vectors of a partition in memory, which queries compare.
//!
//! The codes of an index are read once, when the first query or the task that makes them asks, and
//! then follow the commits of that task (`index/approximate.rs`). A replica of a region reads them
//! again when the state of a snapshot is newer. Each shard of an index has codes of its own.
//!
//! Promises: the codes are at least as new as the state that the caller has read. They may be
//! newer: the task takes its changes in before its commit is durable. Left out: the lists of
//! graphs, which are read from the store.

use super::{Partition, scan};
use crate::errors::damaged;
use crate::index::approximate::{ApproximateState, VectorCode, read_quantiser};
use crate::index::vectors::Shard;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::size_limits::ApproximateSearch;
use orrery_ann::{Codes, Quantiser};
use orrery_model::Result;
use orrery_model::memory::Reservation;
use orrery_model::sync::{lock, read, write};
use orrery_storage::{Direction, Snapshot};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

/// Bytes of a code's record behind the code: the EPK prefix of the item.
const PREFIX_BYTES: usize = size_of::<EpkPrefix>();
/// Bytes of memory of a code beside its record: its node, and an entry in a hash table that is
/// half empty.
const OVERHEAD_BYTES: u64 = 56;
/// Bytes of memory of a code for its shard.
const SHARD_BYTES: u64 = 40;
/// Bytes of memory of a shard beside its codes.
const BYTES_PER_SHARD: u64 = 512;
/// Codes that are read between two checks of time and memory.
const CODES_PER_CHECK: usize = 4_096;

/// The quantised vectors of an index in memory.
pub(crate) struct VectorCodes {
    /// The LSN of the commit that brought the quantiser.
    began: u64,
    /// The quantiser.
    pub quantiser: Quantiser,
    codes: RwLock<Versioned>,
    memory: Mutex<Memory>,
}

/// The memory of codes: a part of that for queries, and of that for codes.
struct Memory {
    queries: Reservation,
    codes: Reservation,
}

impl Memory {
    fn grow_to(&mut self, bytes: u64) -> bool {
        self.codes.grow_to(bytes) && self.queries.grow_to(bytes)
    }
}

/// Codes after a number of commits of the task.
struct Versioned {
    version: u64,
    codes: ShardedCodes,
}

/// The codes, locked for reading.
pub(crate) struct CodesRef<'a>(RwLockReadGuard<'a, Versioned>);

impl std::ops::Deref for CodesRef<'_> {
    type Target = ShardedCodes;
    fn deref(&self) -> &ShardedCodes {
        &self.0.codes
    }
}

/// The codes of each shard of an index.
pub(crate) struct ShardedCodes {
    code_bytes: usize,
    shards: HashMap<Shard, Codes>,
    /// The number of codes.
    count: usize,
    /// The shards of the items; those in [`Shard::ONLY`] are left out.
    shard_of: HashMap<ItemNumber, Shard>,
    /// The codes of a shard that has none.
    none: Codes,
}

impl ShardedCodes {
    fn new(code_bytes: usize) -> Self {
        ShardedCodes {
            code_bytes,
            shards: HashMap::new(),
            count: 0,
            shard_of: HashMap::new(),
            none: Codes::new(code_bytes + PREFIX_BYTES),
        }
    }

    /// Returns the codes of a shard.
    pub(crate) fn of_shard(&self, shard: Shard) -> &Codes {
        self.shards.get(&shard).unwrap_or(&self.none)
    }

    /// Returns the codes of all shards that have some.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Shard, &Codes)> {
        self.shards.iter().map(|(shard, codes)| (*shard, codes))
    }

    /// Returns the shard of an item that has a code.
    pub(crate) fn shard_of(&self, number: ItemNumber) -> Option<Shard> {
        self.get(number)?;
        Some(self.known_shard(number))
    }

    /// Returns the record of an item: its code and its EPK prefix.
    pub(crate) fn get(&self, number: ItemNumber) -> Option<&[u8]> {
        self.of_shard(self.known_shard(number)).get(number)
    }

    /// Returns the shard in which the code of an item is, if there is one.
    fn known_shard(&self, number: ItemNumber) -> Shard {
        self.shard_of.get(&number).copied().unwrap_or(Shard::ONLY)
    }

    /// Returns the number of codes.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn insert(&mut self, number: ItemNumber, code: &VectorCode) {
        if self.shard_of(number).is_some_and(|old| old != code.shard) {
            self.remove(number);
        }
        if code.shard != Shard::ONLY {
            self.shard_of.insert(number, code.shard);
        }
        let record = [&code.code[..], &code.epk_prefix].concat();
        let record_bytes = self.code_bytes + PREFIX_BYTES;
        let codes = self.shards.entry(code.shard);
        let codes = codes.or_insert_with(|| Codes::new(record_bytes));
        let before = codes.len();
        codes.insert(number, &record);
        self.count += codes.len() - before;
    }

    fn remove(&mut self, number: ItemNumber) {
        let shard = self.shard_of.remove(&number).unwrap_or(Shard::ONLY);
        if let Some(codes) = self.shards.get_mut(&shard) {
            let before = codes.len();
            codes.remove(number);
            self.count -= before - codes.len();
            if codes.is_empty() {
                self.shards.remove(&shard);
            }
        }
    }

    /// Returns about how many bytes of memory the codes take with so many more.
    fn memory_with(&self, more: usize) -> u64 {
        let shards = self.shards.len() as u64;
        let with_shard = match self.shard_of.is_empty() {
            true => 0,
            false => self.shard_of.len() + more,
        };
        memory_of(self.len() + more, self.code_bytes)
            + with_shard as u64 * SHARD_BYTES
            + shards * BYTES_PER_SHARD
    }
}

/// Codes that have changed, by item; `None` for those that are removed.
pub(crate) type CodeChanges = BTreeMap<ItemNumber, Option<VectorCode>>;

/// The quantised vectors of all indexes of a partition.
#[derive(Default)]
pub(super) struct CodesByIndex(Mutex<HashMap<PathNumber, Arc<VectorCodes>>>);

impl VectorCodes {
    /// Locks the codes for reading.
    pub(crate) fn read(&self) -> CodesRef<'_> {
        CodesRef(read(&self.codes))
    }

    /// Returns true if the task has changed the codes since a state.
    pub(crate) fn is_newer(&self, state: &ApproximateState) -> bool {
        read(&self.codes).version > state.version
    }

    /// Returns true if the codes are those of a state, or newer.
    fn serves(&self, state: &ApproximateState) -> bool {
        self.began == state.began && read(&self.codes).version >= state.version
    }

    /// Takes in what a commit of the task changes: codes, or `None` for codes that are removed.
    pub(crate) fn take_in(&self, version: u64, changes: &CodeChanges) {
        let mut versioned = write(&self.codes);
        versioned.version = version;
        for (number, change) in changes {
            match change {
                Some(code) => versioned.codes.insert(*number, code),
                None => versioned.codes.remove(*number),
            }
        }
        let bytes = versioned.codes.memory_with(0);
        // The codes that are there stay, if the memory is short: those of a partition that is
        // opened later are not read then.
        let _ = lock(&self.memory).grow_to(bytes);
    }
}

impl fmt::Debug for VectorCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codes since {}", self.began)
    }
}

/// Returns the EPK prefix in the record of a code.
pub(crate) fn prefix_in_record(record: &[u8]) -> EpkPrefix {
    record.last_chunk().copied().unwrap_or_default()
}

fn memory_of(codes: usize, code_bytes: usize) -> u64 {
    // Records grow by doubling.
    codes as u64 * (2 * (code_bytes + PREFIX_BYTES) as u64 + OVERHEAD_BYTES)
}

impl Partition {
    /// Returns the codes of an index whose state in a snapshot is `state`. Returns `None` if there
    /// is no memory for them.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a row is damaged; those of `end_point`.
    pub(crate) fn codes_of(
        &self,
        snapshot: &dyn Snapshot,
        path: PathNumber,
        state: &ApproximateState,
        search: &ApproximateSearch,
        end_point: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<VectorCodes>>> {
        let kept = self.kept_codes(path, state);
        if kept.is_some() {
            return Ok(kept);
        }
        // Not locked here, so that one slow reader does not keep the others.
        let loaded = load(snapshot, path, state, search, end_point)?;
        let mut kept = lock(&self.codes.0);
        match (kept.get(&path), &loaded) {
            // Another thread has been faster.
            (Some(codes), _) if codes.serves(state) => return Ok(Some(Arc::clone(codes))),
            (_, Some(codes)) => _ = kept.insert(path, Arc::clone(codes)),
            (_, None) => _ = kept.remove(&path),
        }
        Ok(loaded)
    }

    /// Returns the codes of an index whose state in a snapshot is `state`, if they are in memory.
    pub(crate) fn kept_codes(
        &self,
        path: PathNumber,
        state: &ApproximateState,
    ) -> Option<Arc<VectorCodes>> {
        let kept = lock(&self.codes.0).get(&path).map(Arc::clone);
        kept.filter(|codes| codes.serves(state))
    }

    /// Forgets the codes of all indexes, which another process changes from now on, or whose last
    /// change may not have taken place.
    pub(crate) fn forget_codes(&self) {
        lock(&self.codes.0).clear();
    }
}

/// Reads the codes of an index.
fn load(
    snapshot: &dyn Snapshot,
    path: PathNumber,
    state: &ApproximateState,
    search: &ApproximateSearch,
    end_point: &dyn Fn() -> Result<()>,
) -> Result<Option<Arc<VectorCodes>>> {
    let quantiser = read_quantiser(snapshot, path)?;
    let code_bytes = quantiser.code_bytes();
    // Codes that would not fit are not read: the next query would read them again.
    let mut memory = Memory {
        queries: search.memory.reserve_nothing(),
        codes: search.codes.reserve_nothing(),
    };
    let expected = Partition::entries_of(snapshot, path)? as usize;
    if !memory.grow_to(memory_of(expected, code_bytes)) {
        return Ok(None);
    }
    let mut codes = ShardedCodes::new(code_bytes);
    let rows = scan(snapshot, &keys::codes(path), Direction::Forward);
    for (read, row) in rows.enumerate() {
        let (key, value) = row?;
        let number = keys::read_vector_number(&key).ok_or_else(|| damaged("a code"))?;
        let code = VectorCode::read(&value, code_bytes)?;
        if read.is_multiple_of(CODES_PER_CHECK) {
            end_point()?;
            if !memory.grow_to(codes.memory_with(CODES_PER_CHECK)) {
                return Ok(None);
            }
        }
        codes.insert(number, &code);
    }
    Ok(Some(Arc::new(VectorCodes {
        began: state.began,
        quantiser,
        codes: RwLock::new(Versioned {
            version: state.version,
            codes,
        }),
        memory: Mutex::new(memory),
    })))
}
