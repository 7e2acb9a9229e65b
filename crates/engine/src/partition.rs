//! One physical partition: a stretch of the hash space, its history, and its one writer.
//!
//! A write is ordered under the writer's lock and durable later: [`Writer::submit`] hands the commit to the store and
//! returns at once, so the lock is held for computing and never for a sync. Until a commit is durable, its rows wait in
//! `pending`, where the next write of this partition sees them and nobody else does; readers take snapshots, which hold
//! durable commits only.
//!
//! A partition that is split or merged goes through three phases: it serves, it is completing (a moment in which nobody
//! may use it), it is gone and others have taken its place. Whoever holds one that is gone is told so by
//! [`Partition::lock`] and [`Partition::snapshot`], and looks again which partition there is.
//!
//! If the store does not know what became of a commit, the writer is dropped; the next one opens a newer lease and asks
//! the commit log which of the unresolved commits took place (`resolve`).

use crate::index::paths::Paths;
use crate::index::stretches::Stretches;
use crate::index::terms::Terms;
use crate::keys::{self, Number, PathNumber, Place};
use crate::recording::Recording;
use crate::request::Position;
use crate::throughput::Meter;
use bytes::Bytes;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Error, Kind, Result};
use orrery_storage::{Commit, Direction, Lease, Outcome, PartitionId, Receipt, Snapshot, Store, StoreError, Token};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A physical partition.
pub struct Partition {
    /// The partition key range id that clients see.
    pub id: u32,
    /// All ranges that it came from, oldest first.
    pub parents: Vec<u32>,
    /// Its stretch of the hash space.
    pub range: EpkRange,
    /// Its place in the store.
    pub home: PartitionId,
    /// Which life of its container it belongs to: the millisecond of the container's creation.
    pub version: u64,
    /// Changes up to this LSN stand in the order of several histories that were merged, not in that of time.
    pub mixed_until: u64,
    /// Its budget, and the account of what it served.
    pub(crate) meter: Arc<Meter>,
    store: Arc<dyn Store>,
    writer: Mutex<Option<Writer>>,
    paths: RwLock<Option<Paths>>,
    phase: AtomicU8,
    recording: Mutex<Option<Recording>>,
}

/// Whether a partition may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It is read and written.
    Serving = 0,
    /// Others are about to take its place; for now nobody may use it.
    Completing = 1,
    /// Others have taken its place.
    Gone = 2,
}

/// Counts that are kept with every commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items.
    pub items: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Bytes of the index entries' rows.
    pub index_bytes: u64,
    /// Above every item number used so far.
    pub next_number: Number,
}

/// The one who writes a partition. There is at most one in a process, and the store fences all others.
pub struct Writer {
    lease: Lease,
    /// LSN of the last accepted commit.
    pub lsn: u64,
    /// As of the last accepted commit.
    pub counters: Counters,
    /// As of the last accepted commit.
    pub stretches: Stretches,
    /// The LSN after which versions are kept, if they are; as of the last accepted commit.
    pub versions_after: Option<u64>,
    counts: Vec<u64>,
    pending: Pending,
    recent: Recent,
}

/// Rows of commits that are accepted and not yet durable.
#[derive(Default)]
pub struct Pending {
    rows: BTreeMap<Vec<u8>, (u64, Option<Bytes>)>,
    order: VecDeque<(u64, Vec<Vec<u8>>)>,
}

/// Which logical partitions were written lately, so that a script that ran on a snapshot can tell whether it is stale.
#[derive(Default)]
struct Recent {
    last_write: HashMap<Place, u64>,
    /// Writes up to here are forgotten.
    floor: u64,
}

/// What one commit changes.
#[derive(Default)]
pub struct Changes {
    /// Rows to write.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows to remove.
    pub deletes: Vec<Vec<u8>>,
    /// Index entries gained and lost, by path.
    pub entries: HashMap<PathNumber, i64>,
    /// Logical partitions touched.
    pub places: Vec<Place>,
    /// Counters after it.
    pub counters: Counters,
    /// Which items follow which policy after it, if that changes.
    pub stretches: Option<Stretches>,
    /// Since when versions are kept after it (`None`: they are not), if that changes.
    pub versions_after: Option<Option<u64>>,
}

impl Changes {
    /// An item has these terms instead of those.
    pub fn replace_terms(&mut self, before: &Terms, after: &Terms, number: Number, place: Place) {
        for (path, value) in before.without(after) {
            let key = keys::term(path, value, number, place);
            self.counters.index_bytes = self.counters.index_bytes.saturating_sub(key.len() as u64);
            self.deletes.push(key);
            *self.entries.entry(path).or_default() -= 1;
        }
        for (path, value) in after.without(before) {
            let key = keys::term(path, value, number, place);
            self.counters.index_bytes += key.len() as u64;
            self.puts.push((key, Vec::new()));
            *self.entries.entry(path).or_default() += 1;
        }
    }
}

/// A commit in the store's hands.
pub struct Ordered {
    /// Answers when it is durable.
    pub receipt: Receipt,
    /// Its LSN.
    pub lsn: u64,
    /// Its name in the commit log.
    pub token: Token,
}

/// Paths whose counts share a row.
const COUNT_BLOCK: u32 = 64;
/// Logical partitions that are remembered as lately written.
const RECENT_PLACES: usize = 8192;

impl Partition {
    /// A partition that exists in the store, or is about to.
    pub fn new(
        store: Arc<dyn Store>,
        id: u32,
        parents: Vec<u32>,
        range: EpkRange,
        home: PartitionId,
        version: u64,
    ) -> Self {
        Partition {
            id,
            parents,
            range,
            home,
            version,
            mixed_until: 0,
            meter: Arc::default(),
            store,
            writer: Mutex::new(None),
            paths: RwLock::new(None),
            phase: AtomicU8::new(Phase::Serving as u8),
            recording: Mutex::new(None),
        }
    }

    /// The same with changes of merged histories.
    pub fn mixed_until(self, lsn: u64) -> Self {
        Partition { mixed_until: lsn, ..self }
    }

    /// Writes the first commit of a new partition, LSN 1, which holds nothing.
    pub fn create(&self) -> Result<Receipt> {
        let mut writer = self.lock()?;
        Ok(writer.submit(self, Changes::default(), 0).receipt)
    }

    /// A place in this partition's history.
    pub fn position(&self, lsn: u64, item_lsn: Option<u64>) -> Position {
        Position { range_id: self.id, version: self.version, lsn, item_lsn }
    }

    /// The end of what is durable; the beginning if nobody can say.
    pub fn position_now(&self) -> Position {
        self.position(self.snapshot().map_or(0, |snapshot| snapshot.head().lsn), None)
    }

    /// What is durable now.
    ///
    /// # Errors
    /// 410 if others have taken the partition's place, or are about to.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.stored()?;
        // Asked afterwards: what is taken before a partition is gone has all that was ever written to it.
        self.check_phase()?;
        Ok(snapshot)
    }

    /// What is durable now, for whoever only asks how much there is: also while the partition is completing.
    ///
    /// # Errors
    /// 410/1002 if others have taken the partition's place.
    pub fn survey(&self) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.stored()?;
        match self.check_phase() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => Err(error),
            _ => Ok(snapshot),
        }
    }

    /// What is durable now, for whoever is taking its place.
    pub fn stored(&self) -> Result<Box<dyn Snapshot>> {
        self.store.snapshot(self.home).map_err(storage_failure)
    }

    /// Whether it may be used.
    ///
    /// # Errors
    /// 410/1007 while it is completing, 410/1002 when it is gone.
    fn check_phase(&self) -> Result<()> {
        match self.phase.load(Ordering::Acquire) {
            serving if serving == Phase::Serving as u8 => Ok(()),
            gone if gone == Phase::Gone as u8 => Err(gone_error(self.id)),
            _ => Err(Error::new(
                Kind::CompletingSplit,
                format!("The partition key range {} is completing a split or merge. Retry the request.", self.id),
            )),
        }
    }

    /// Goes over into a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Begins to remember what commits change.
    ///
    /// # Errors
    /// 409 if somebody does so already; 410 and what the store reports.
    pub fn record(&self) -> Result<()> {
        let _writer = self.lock()?;
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        if recording.is_some() {
            return Err(Error::new(
                Kind::Conflict,
                format!("The partition key range {} is being split or merged already.", self.id),
            ));
        }
        *recording = Some(Recording::default());
        Ok(())
    }

    /// Takes what was remembered of commits up to an LSN.
    ///
    /// # Errors
    /// 449 if something is missing from it.
    pub fn recorded(&self, up_to: u64) -> Result<Vec<crate::recording::Recorded>> {
        let mut recording = self.recording.lock().unwrap_or_else(PoisonError::into_inner);
        recording.as_mut().map_or_else(|| Ok(Vec::new()), |recording| recording.take(up_to))
    }

    /// Remembers no more.
    pub fn stop_recording(&self) {
        *self.recording.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is durable, commit `lsn` included; waits for it if need be.
    pub fn snapshot_with(&self, lsn: u64) -> Result<Box<dyn Snapshot>> {
        let snapshot = self.snapshot()?;
        if snapshot.head().lsn >= lsn {
            return Ok(snapshot);
        }
        drop(snapshot);
        self.sync()?;
        self.snapshot()
    }

    /// Waits until everything accepted so far is durable.
    pub fn sync(&self) -> Result<()> {
        self.store.sync().map_err(storage_failure)
    }

    /// Counters as a snapshot has them.
    pub fn counters(snapshot: &dyn Snapshot) -> Result<Counters> {
        let Some(row) = snapshot.get(&keys::counters()).map_err(storage_failure)? else {
            return Ok(Counters::default());
        };
        Counters::decode(&row).ok_or_else(|| Error::internal("the row of counters is damaged"))
    }

    /// Which items follow which policy in a snapshot.
    pub fn stretches(snapshot: &dyn Snapshot) -> Result<Stretches> {
        let Some(row) = snapshot.get(&keys::stretches()).map_err(storage_failure)? else {
            return Ok(Stretches::default());
        };
        Stretches::decode(&row).ok_or_else(|| Error::internal("the row of index stretches is damaged"))
    }

    /// The LSN after which versions are kept in a snapshot, if they are.
    pub fn versions_after(snapshot: &dyn Snapshot) -> Result<Option<u64>> {
        let Some(row) = snapshot.get(&keys::versions_floor()).map_err(storage_failure)? else { return Ok(None) };
        keys::number(&row).map(Some).ok_or_else(|| Error::internal("the row of kept versions is damaged"))
    }

    /// How many index entries a path has in a snapshot.
    pub fn entries_of(snapshot: &dyn Snapshot, path: PathNumber) -> Result<u64> {
        let row = snapshot.get(&keys::path_counts(path / COUNT_BLOCK)).map_err(storage_failure)?;
        let at = (path % COUNT_BLOCK) as usize * 8;
        Ok(row.and_then(|row| keys::number(row.get(at..at + 8)?)).unwrap_or(0))
    }

    /// The writer; opened if need be.
    ///
    /// # Errors
    /// 503 if the store cannot be written now, 410 if others have taken the partition's place, or are about to.
    pub fn lock(&self) -> Result<WriterGuard<'_>> {
        let guard = self.hold()?;
        self.check_phase()?;
        Ok(guard)
    }

    /// The writer in any phase, for whoever is taking the partition's place.
    ///
    /// # Errors
    /// As for [`Partition::lock`], but for 410.
    pub fn hold(&self) -> Result<WriterGuard<'_>> {
        let mut guard = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(self.open_writer()?);
        }
        Ok(WriterGuard(guard))
    }

    /// Keeps everybody from writing until the result is gone. Opens no writer for it.
    pub fn still(&self) -> Still<'_> {
        Still { _writer: self.writer.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Gives the writer up after an outcome that is not known; the next write opens a new one.
    pub fn abandon_writer(&self) {
        if let Some(recording) = &mut *self.recording.lock().unwrap_or_else(PoisonError::into_inner) {
            // What was remembered may never have taken place.
            recording.spoil();
        }
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn open_writer(&self) -> Result<Writer> {
        let lease = self.store.open(self.home).map_err(storage_failure)?;
        let snapshot = self.stored()?;
        let mut counts = Vec::new();
        for block in 0.. {
            let Some(row) = snapshot.get(&keys::path_counts(block)).map_err(storage_failure)? else { break };
            counts.extend(row.chunks_exact(8).filter_map(keys::number));
        }
        let lsn = lease.head().lsn;
        let recent = Recent { floor: lsn, ..Recent::default() };
        let counters = Self::counters(snapshot.as_ref())?;
        // Transactions under way use numbers of the dictionary in memory, so it stays; what the store lacks of it, because
        // a commit never took place, goes along with the next one.
        let stored = load_paths(snapshot.as_ref())?;
        match &mut *self.paths.write().unwrap_or_else(PoisonError::into_inner) {
            Some(paths) => paths.saved_are(&stored),
            none => *none = Some(stored),
        }
        let stretches = Self::stretches(snapshot.as_ref())?;
        let versions_after = Self::versions_after(snapshot.as_ref())?;
        Ok(Writer { lease, lsn, counters, stretches, versions_after, counts, pending: Pending::default(), recent })
    }

    /// The dictionary of paths, to look up.
    pub fn paths(&self) -> Result<PathsRef<'_>> {
        let guard = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() {
            return Ok(PathsRef(guard));
        }
        drop(guard);
        self.paths_mut()?;
        Ok(PathsRef(self.paths.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The dictionary of paths, to extend.
    pub fn paths_mut(&self) -> Result<PathsMut<'_>> {
        let mut guard = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = Some(load_paths(self.snapshot()?.as_ref())?);
        }
        Ok(PathsMut(guard))
    }

    /// Whether the commit that carried `token` as LSN `lsn` took place, decided with a lease newer than its own.
    pub fn took_place(&self, lsn: u64, token: Token) -> Result<bool> {
        self.abandon_writer();
        // Of one that is gone nothing can be told any more, and a client that is sent elsewhere would do it twice.
        drop(self.lock().map_err(|_| Error::internal("the outcome of a commit is not known"))?);
        let row = self.stored()?.get(&keys::log(lsn)).map_err(storage_failure)?;
        Ok(row.is_some_and(|row| row[..] == log_row(lsn, token)[..]))
    }
}

impl Writer {
    /// A row as the next write must see it.
    pub fn get(&mut self, snapshot: &dyn Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some((_, row)) = self.pending.rows.get(key) {
            return Ok(row.clone());
        }
        snapshot.get(key).map_err(storage_failure)
    }

    /// Whether a logical partition was written after `lsn`, as far as is remembered; forgotten counts as written.
    pub fn written_since(&self, place: Place, lsn: u64) -> bool {
        lsn < self.recent.floor || self.recent.last_write.get(&place).is_some_and(|&last| last > lsn)
    }

    /// Orders a commit. `token` is a number that no other commit has.
    pub fn submit(&mut self, partition: &Partition, changes: Changes, token: u64) -> Ordered {
        let lsn = self.lsn + 1;
        let token_bytes = token_of(lsn, token);
        let Changes { mut puts, mut deletes, entries, places, counters, stretches, versions_after } = changes;
        puts.push((keys::counters(), counters.encode()));
        puts.push((keys::log(lsn), log_row(lsn, token_bytes).to_vec()));
        if let Some(stretches) = stretches {
            puts.push((keys::stretches(), stretches.encode()));
            self.stretches = stretches;
        }
        if let Some(after) = versions_after {
            match after {
                Some(lsn) => puts.push((keys::versions_floor(), lsn.to_be_bytes().to_vec())),
                None => deletes.push(keys::versions_floor()),
            }
            self.versions_after = after;
        }
        self.count(entries, &mut puts);
        let unsaved = partition.paths.write().unwrap_or_else(PoisonError::into_inner).as_mut().map(Paths::take_unsaved);
        puts.extend(unsaved.into_iter().flatten().map(|(number, row)| (keys::path(number), row)));
        self.pending.add(lsn, &puts, &deletes);
        if let Some(recording) = &mut *partition.recording.lock().unwrap_or_else(PoisonError::into_inner) {
            recording.add(lsn, &puts, &deletes);
        }
        self.counters = counters;
        self.recent.add(lsn, places);
        let commit =
            Commit { expect_lsn: self.lsn, new_lsn: lsn, token: token_bytes, puts, deletes, range_deletes: Vec::new() };
        self.lsn = lsn;
        Ordered { receipt: partition.store.submit(&self.lease, commit), lsn, token: token_bytes }
    }

    /// Forgets pending rows that snapshots have by now.
    pub fn forget_durable(&mut self, durable_lsn: u64) {
        self.pending.forget(durable_lsn);
    }

    fn count(&mut self, entries: HashMap<PathNumber, i64>, puts: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let mut blocks: Vec<u32> = Vec::new();
        for (path, change) in entries.into_iter().filter(|(_, change)| *change != 0) {
            let block = path / COUNT_BLOCK;
            let length = ((block + 1) * COUNT_BLOCK) as usize;
            if self.counts.len() < length {
                self.counts.resize(length, 0);
                // Rows are read back block by block until one is missing: leave no gap.
                let missing: Vec<u32> = (0..block).filter(|b| !blocks.contains(b)).collect();
                blocks.extend(missing);
            }
            let count = &mut self.counts[path as usize];
            *count = count.saturating_add_signed(change);
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        puts.extend(blocks.into_iter().map(|block| count_row(&self.counts, block)));
    }
}

/// The row of a block of entry counts, which are by path.
fn count_row(counts: &[u64], block: u32) -> (Vec<u8>, Vec<u8>) {
    let from = (block * COUNT_BLOCK) as usize;
    let row = (from..from + COUNT_BLOCK as usize).map(|path| counts.get(path).copied().unwrap_or(0));
    (keys::path_counts(block), row.flat_map(u64::to_be_bytes).collect())
}

/// The rows that say what a partition holds: its counters and how many index entries each path has.
pub fn summary_rows(counters: Counters, counts: &[u64]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let blocks = 0..(counts.len() as u32).div_ceil(COUNT_BLOCK);
    blocks.map(|block| count_row(counts, block)).chain([(keys::counters(), counters.encode())]).collect()
}

impl Pending {
    fn add(&mut self, lsn: u64, puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) {
        let mut touched = Vec::new();
        let kept = |key: &[u8]| !keys::is_term(key);
        // As in the store: what a commit both removes and writes is written.
        for key in deletes.iter().filter(|key| kept(key)) {
            self.rows.insert(key.clone(), (lsn, None));
            touched.push(key.clone());
        }
        for (key, value) in puts.iter().filter(|(key, _)| kept(key)) {
            self.rows.insert(key.clone(), (lsn, Some(Bytes::copy_from_slice(value))));
            touched.push(key.clone());
        }
        self.order.push_back((lsn, touched));
    }

    fn forget(&mut self, durable_lsn: u64) {
        while self.order.front().is_some_and(|(lsn, _)| *lsn <= durable_lsn) {
            let (lsn, touched) = self.order.pop_front().expect("just seen");
            for key in touched {
                if self.rows.get(&key).is_some_and(|(newest, _)| *newest == lsn) {
                    self.rows.remove(&key);
                }
            }
        }
    }
}

impl Recent {
    fn add(&mut self, lsn: u64, places: Vec<Place>) {
        if self.last_write.len() + places.len() > RECENT_PLACES {
            self.last_write.clear();
            self.floor = lsn;
        }
        self.last_write.extend(places.into_iter().map(|place| (place, lsn)));
    }
}

impl Counters {
    /// The row.
    pub fn encode(self) -> Vec<u8> {
        [self.items, self.bytes, self.index_bytes, self.next_number].iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let at = |i: usize| keys::number(row.get(i * 8..i * 8 + 8)?);
        Some(Counters { items: at(0)?, bytes: at(1)?, index_bytes: at(2)?, next_number: at(3)? })
    }
}

/// A partition that nobody writes to.
pub struct Still<'a> {
    _writer: MutexGuard<'a, Option<Writer>>,
}

/// The writer, held.
pub struct WriterGuard<'a>(MutexGuard<'a, Option<Writer>>);

impl std::ops::Deref for WriterGuard<'_> {
    type Target = Writer;
    fn deref(&self) -> &Writer {
        self.0.as_ref().expect("opened by Partition::lock")
    }
}

impl std::ops::DerefMut for WriterGuard<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.0.as_mut().expect("opened by Partition::lock")
    }
}

/// The dictionary, held for reading.
pub struct PathsRef<'a>(RwLockReadGuard<'a, Option<Paths>>);

impl std::ops::Deref for PathsRef<'_> {
    type Target = Paths;
    fn deref(&self) -> &Paths {
        self.0.as_ref().expect("loaded by Partition::paths")
    }
}

/// The dictionary, held for writing.
pub struct PathsMut<'a>(RwLockWriteGuard<'a, Option<Paths>>);

impl std::ops::Deref for PathsMut<'_> {
    type Target = Paths;
    fn deref(&self) -> &Paths {
        self.0.as_ref().expect("loaded by Partition::paths_mut")
    }
}

impl std::ops::DerefMut for PathsMut<'_> {
    fn deref_mut(&mut self) -> &mut Paths {
        self.0.as_mut().expect("loaded by Partition::paths_mut")
    }
}

/// The dictionary as a snapshot has it.
pub fn load_paths(snapshot: &dyn Snapshot) -> Result<Paths> {
    let mut paths = Paths::default();
    for row in scan(snapshot, &keys::paths(), Direction::Forward) {
        let (key, value) = row?;
        let loaded = keys::read_path(&key).and_then(|number| paths.load(number, &value));
        loaded.ok_or_else(|| Error::internal("a row of the path dictionary is damaged"))?;
    }
    Ok(paths)
}

/// The name of an attempt to commit. `random` is a number that no other has.
pub fn token_of(lsn: u64, random: u64) -> Token {
    let mut token: Token = [0; 16];
    token[..8].copy_from_slice(&lsn.to_be_bytes());
    token[8..].copy_from_slice(&random.to_be_bytes());
    token
}

/// The row of a commit in the log.
fn log_row(lsn: u64, token: Token) -> [u8; 24] {
    let mut row = [0; 24];
    row[..8].copy_from_slice(&lsn.to_be_bytes());
    row[8..].copy_from_slice(&token);
    row
}

/// The rows of a range of keys.
pub fn scan<'a>(
    snapshot: &'a dyn Snapshot,
    range: &(Vec<u8>, Vec<u8>),
    direction: Direction,
) -> impl Iterator<Item = Result<(Bytes, Bytes)>> + use<'a> {
    let bounds = (Bound::Included(&range.0[..]), Bound::Excluded(&range.1[..]));
    snapshot.scan(bounds, direction).map(|row| row.map_err(storage_failure))
}

/// Tries of an operation whose partitions are gone each time it comes to use them.
const TRIES: usize = 20;

/// Does an operation, and again if the partition that it had found was gone when it came to use it: others have taken
/// its place then, and are found next time. What names a range that is gone fails each time.
///
/// # Errors
/// What the operation says.
pub fn again<T>(mut operation: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match operation() {
            Err(error) if error.kind() == Kind::PartitionKeyRangeGone => {}
            done => return done,
        }
    }
    operation()
}

/// Work beside requests that found its partition gone, or about to be: it is for those that take its place.
///
/// # Errors
/// Every other one.
pub fn unless_gone<T: Default>(done: Result<T>) -> Result<T> {
    match done {
        Err(error) if matches!(error.kind(), Kind::PartitionKeyRangeGone | Kind::CompletingSplit) => Ok(T::default()),
        done => done,
    }
}

/// The error for a partition whose place others have taken.
pub fn gone_error(id: u32) -> Error {
    Error::new(
        Kind::PartitionKeyRangeGone,
        format!("The partition key range {id} is gone: it does not exist or was split."),
    )
}

/// A store's failure as a client's error: 503 where waiting may help, else 500.
pub fn storage_failure(error: StoreError) -> Error {
    Error::internal(error)
}

/// Waits for a commit of work beside requests. If it failed the writer is given up: it believes in what may not have
/// taken place, and the next one looks.
///
/// # Errors
/// What the store reports.
pub fn settled(partition: &Partition, ordered: Ordered) -> Result<()> {
    let Some(error) = outcome_error(&ordered.receipt.wait()) else { return Ok(()) };
    partition.abandon_writer();
    Err(error)
}

/// What a commit's outcome means for the client that waits for it. `None`: it is durable.
pub fn outcome_error(outcome: &Outcome) -> Option<Error> {
    match outcome {
        Outcome::Ok => None,
        Outcome::TooLarge => Some(Error::new(
            Kind::RequestEntityTooLarge,
            "The request changes more than one transaction may hold. Split it into smaller ones.",
        )),
        Outcome::Fenced | Outcome::Unknown => Some(Error::internal("the outcome of a commit is not known")),
        // Clients come back to a server that is busy, and keep away from one that is unavailable.
        Outcome::Busy { retry_after_ms } => Some(
            Error::new(Kind::Throttled, "Too many writes wait to become durable. Retry later.")
                .with_retry_after_ms(*retry_after_ms),
        ),
        Outcome::Unavailable { retry_after_ms } => Some(
            Error::new(Kind::Unavailable, "The store cannot take writes now.").with_retry_after_ms(*retry_after_ms),
        ),
    }
}
