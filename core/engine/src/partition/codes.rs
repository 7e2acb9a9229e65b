//! The quantised vectors of a partition in memory, which queries compare.
//!
//! The codes of an index are read once, when the first query or the task that makes them asks, and
//! then follow the commits of that task (`index/approximate.rs`). A process that does not own the
//! partition reads them again when the state of a snapshot is newer.
//!
//! Promises: the codes are at least as new as the state that the caller has read. They may be
//! newer: the task takes its changes in before its commit is durable. Left out: the lists of
//! graphs, which are read from the store.

use super::{Partition, scan};
use crate::errors::damaged;
use crate::index::approximate::{ApproximateState, read_code, read_quantiser};
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
    codes: Codes,
}

/// The codes, locked for reading.
pub(crate) struct CodesRef<'a>(RwLockReadGuard<'a, Versioned>);

impl std::ops::Deref for CodesRef<'_> {
    type Target = Codes;
    fn deref(&self) -> &Codes {
        &self.0.codes
    }
}

/// The quantised vectors of all indexes of a partition.
#[derive(Default)]
pub(super) struct CodesByIndex(Mutex<HashMap<PathNumber, Arc<VectorCodes>>>);

impl VectorCodes {
    /// Locks the codes for reading.
    pub(crate) fn read(&self) -> CodesRef<'_> {
        CodesRef(read(&self.codes))
    }

    /// Returns true if the codes are those of a state, or newer.
    fn serves(&self, state: &ApproximateState) -> bool {
        self.began == state.began && read(&self.codes).version >= state.version
    }

    /// Takes in what a commit of the task changes: codes with their EPK prefixes, or `None` for
    /// codes that are removed.
    pub(crate) fn take_in(
        &self,
        version: u64,
        changes: &BTreeMap<ItemNumber, Option<(EpkPrefix, Vec<u8>)>>,
    ) {
        let mut versioned = write(&self.codes);
        versioned.version = version;
        for (number, change) in changes {
            match change {
                Some((epk_prefix, code)) => {
                    versioned.codes.insert(*number, &record(*epk_prefix, code));
                }
                None => versioned.codes.remove(*number),
            }
        }
        let bytes = memory_of(versioned.codes.len(), self.quantiser.code_bytes());
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

fn record(epk_prefix: EpkPrefix, code: &[u8]) -> Vec<u8> {
    [code, &epk_prefix[..]].concat()
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
        let kept = lock(&self.codes.0).get(&path).map(Arc::clone);
        if let Some(codes) = kept
            && codes.serves(state)
        {
            return Ok(Some(codes));
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

    /// Returns the number of codes of an index whose state in a snapshot is `state`, if they are in
    /// memory and no other thread reads them from the store now.
    pub(crate) fn kept_codes(&self, path: PathNumber, state: &ApproximateState) -> Option<u64> {
        let kept = self.codes.0.try_lock().ok()?;
        let codes = kept.get(&path)?;
        let versioned = read(&codes.codes);
        let is_current = codes.began == state.began && versioned.version >= state.version;
        is_current.then(|| versioned.codes.len() as u64)
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
    let mut codes = Codes::new(code_bytes + PREFIX_BYTES);
    for row in scan(snapshot, &keys::codes(path), Direction::Forward) {
        let (key, value) = row?;
        let number = keys::read_vector_number(&key).ok_or_else(|| damaged("a code"))?;
        let (epk_prefix, code) = read_code(&value)?;
        if code.len() != code_bytes {
            return Err(damaged("a code"));
        }
        if codes.len().is_multiple_of(4_096) {
            end_point()?;
            if !memory.grow_to(memory_of(codes.len() + 4_096, code_bytes)) {
                return Ok(None);
            }
        }
        codes.insert(number, &record(epk_prefix, code));
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
