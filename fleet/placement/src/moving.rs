//! The move of a partition to another cluster, while it is read and written.
//!
//! ```text
//! begin    ledger: "moving". The source is opened, which decides every commit so far; from then on
//!          the keys of commits are noted (changes.rs)
//! pages    all rows are copied in key order, each page from a snapshot of its own
//! rounds   noted keys are copied again from a later snapshot, until few are left
//! finish   commits wait. The source is opened, which decides every commit; the last keys are
//!          copied; the copy gets the source's head. ledger: "leaving"; calls go to the copy
//! after    the source is removed; ledger: settled
//! ```
//! Until the commit of "leaving" the source is in force, whatever fails; from then on the copy is.
//! If the outcome of that commit is unknown, commits are refused until the ledger tells.
//!
//! The lease that the engine holds stays valid: the place exchanges the lease of the source for
//! that of the copy. Snapshots from before the move read on, since a removal leaves them as they
//! are (promise 9).

use orrery_model::sync::{lock, read, write};
use orrery_storage::{Direction, Head, PartitionId, Snapshot, Store, StoreError};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use crate::changes::{Changes, Settled};
use crate::cluster::{failed, for_now};
use crate::ledger::Change;
use crate::patience::Patience;
use crate::place::{Place, Target};
use crate::row::{Row, Step};
use crate::store::{PlacedStore, check_partition, moved_to};
use crate::target::{COMMIT_BYTES, CopyTarget};
use crate::writer::Tokens;

/// Rounds after which a move is finished, however many keys are left.
const MOST_ROUNDS: usize = 16;
/// Keys that are read from a snapshot at once.
const KEYS_AT_ONCE: usize = 256;
/// Rows of a page.
const PAGE_ROWS: usize = 10_000;

/// A move that is under way.
struct Move<'a> {
    store: &'a PlacedStore,
    partition: PartitionId,
    place: Arc<Place>,
    source: Target,
    to: Target,
    generation: u64,
    changes: Arc<Mutex<Changes>>,
    copy: CopyTarget<'a>,
}

impl PlacedStore {
    /// Moves a partition to another cluster while it is read and written. Commits of the partition
    /// wait at the end of the move. Leases stay valid, and snapshots read on. Does nothing if the
    /// partition is there already.
    ///
    /// # Errors
    /// For partition 0, a partition that does not exist or is being moved, and a cluster that does
    /// not exist; when a cluster fails for longer than [`crate::Options`] say. Unless the error
    /// says that the outcome is unknown, the partition is where it was.
    pub fn move_partition(&self, partition: PartitionId, to: &str) -> Result<(), StoreError> {
        check_partition(partition)?;
        let cluster = self.index_of(to)?;
        if partition == PartitionId(0) {
            let detail = "partition 0 is the catalog, which stays in the first cluster";
            return Err(failed(to, detail));
        }
        self.check_use(to)?;
        // The move sees the commits of this process only.
        let _kept = match self.before_move.get() {
            Some(call) => Some(call(partition)?),
            None => None,
        };
        let begun = self.places.in_turn(partition, |place| {
            self.begin_move(partition, place, cluster)
        })?;
        let Some(mut moving) = begun else {
            return Ok(());
        };
        let moved = moving.copy_rows().and_then(|()| moving.finish());
        if let Err(error) = moved {
            return Err(moving.abandon(error));
        }
        moving.clean();
        Ok(())
    }

    /// Writes the row, opens both copies and starts to note changes. Returns `None` if the
    /// partition is in the cluster already. The turn is held.
    fn begin_move(
        &self,
        partition: PartitionId,
        place: &Arc<Place>,
        cluster: usize,
    ) -> Result<Option<Move<'_>>, StoreError> {
        let name = &self.clusters[cluster].name;
        self.decide(partition, place)?;
        if read(&place.route).changes.is_some() {
            return Err(failed(
                name,
                format!("partition {partition} is being moved already"),
            ));
        }
        // What an earlier move left is removed first.
        self.complete(partition, place)?;
        let Some(source) = self.known_target(partition, place)? else {
            self.places.remove(partition);
            return Err(failed(name, format!("there is no partition {partition}")));
        };
        if source.cluster == cluster {
            return Ok(None);
        }

        self.remember_clusters()?;
        // The row names the copy before the copy exists.
        let (to, generation) = self.note_move(partition, cluster)?;
        let store: &dyn Store = &**self.store_of(to);
        let started = CopyTarget::open(store, name, to.number, Tokens::new()).and_then(|copy| {
            // Commits from before are decided by the open; those after it are noted.
            let mut route = write(&place.route);
            let lease = self.store_of(source).open(source.number)?;
            let changes = Arc::new(Mutex::new(Changes::default()));
            if route.epoch != 0 {
                route.lease = Some(lease);
            }
            route.changes = Some(changes.clone());
            Ok((copy, changes))
        });
        match started {
            Ok((copy, changes)) => Ok(Some(Move {
                store: self,
                partition,
                place: place.clone(),
                source,
                to,
                generation,
                changes,
                copy,
            })),
            Err(error) => {
                // The row stays if this fails, and the next move or open removes the copy.
                let _ = self.complete(partition, place);
                Err(error)
            }
        }
    }

    /// Returns the copy in force, also of a partition from the time before the ledger.
    fn known_target(
        &self,
        partition: PartitionId,
        place: &Place,
    ) -> Result<Option<Target>, StoreError> {
        if let Some(row) = self.row(partition)? {
            return self.target_of(&row.home).map(Some);
        }
        let first = &self.clusters[0].store;
        if first.snapshot(partition)?.head() == Head::default() {
            return Ok(None);
        }
        let target = self.place(partition)?;
        write(&place.route).target = Some(target);
        Ok(Some(target))
    }

    /// Writes into the ledger that a move has begun. Returns the place of the copy.
    fn note_move(
        &self,
        partition: PartitionId,
        cluster: usize,
    ) -> Result<(Target, u64), StoreError> {
        let mut ledger = self.ledger();
        let generation = ledger.next_generation()?;
        let to = moved_to(cluster, generation);
        let copy = self.copy_of(to);
        self.note_copy(&copy, partition);
        let Some(row) = ledger.row(partition).cloned() else {
            let name = &self.clusters[cluster].name;
            return Err(failed(name, format!("there is no partition {partition}")));
        };
        let row = Row {
            step: Step::Moving { to: copy },
            ..row
        };
        ledger.commit(Change {
            generation: Some(generation),
            ..Change::of(partition, Some(row))
        })?;
        Ok((to, generation))
    }
}

impl<'a> Move<'a> {
    fn patience(&self) -> Patience<'a> {
        Patience::of(self.store.options.copy_patience, &self.store.stop)
    }

    fn source_name(&self) -> &str {
        &self.store.clusters[self.source.cluster].name
    }

    fn source_store(&self) -> &'a dyn Store {
        &**self.store.store_of(self.source)
    }

    /// Fails if the move is to end.
    fn check(&self) -> Result<(), StoreError> {
        let partition = self.partition;
        if lock(&self.changes).is_cancelled {
            let detail = format!("partition {partition} was removed while it was moved");
            return Err(failed(self.source_name(), detail));
        }
        if self.store.stop.is_set() {
            let detail = format!("the move of partition {partition} ends, since moves are stopped");
            return Err(for_now(self.source_name(), detail));
        }
        Ok(())
    }

    /// Copies all rows, and then what changes meanwhile, until little is left.
    fn copy_rows(&mut self) -> Result<(), StoreError> {
        // Keys after the last one are of later commits, whose keys are noted. Without this end a
        // writer of ascending keys could stay ahead of the copy.
        let last = {
            let (store, number) = (self.source_store(), self.source.number);
            self.patience().repeat(|| {
                let snapshot = store.snapshot(number)?;
                let everything = (Bound::Unbounded, Bound::Unbounded);
                let last = snapshot.scan(everything, Direction::Reverse).next();
                last.transpose()
            })?
        };
        let end = last.map_or_else(Vec::new, |(key, _)| key.to_vec());
        let mut after: Option<Vec<u8>> = None;
        loop {
            self.check()?;
            // A page has a snapshot of its own, so that none is held for the whole copy. A page
            // that cannot be read to its end is read again.
            let patience = self.patience();
            let store = self.source_store();
            let number = self.source.number;
            let (head, page) = patience.repeat(|| {
                let snapshot = store.snapshot(number)?;
                let page = read_page(&*snapshot, after.as_deref(), Bound::Included(&end))?;
                Ok((snapshot.head(), page))
            })?;
            self.copy.set_source_lsn(head.lsn);
            let Some((last, _)) = page.last() else {
                break;
            };
            after = Some(last.to_vec());
            for (key, value) in page {
                self.copy.set(key.to_vec(), Some(value), &patience)?;
            }
        }
        for _ in 0..MOST_ROUNDS {
            self.check()?;
            let patience = self.patience();
            let store = self.source_store();
            let snapshot = patience.repeat(|| store.snapshot(self.source.number))?;
            self.copy.set_source_lsn(snapshot.head().lsn);
            let settled = lock(&self.changes).take_until(snapshot.head().lsn);
            let before = self.copy.written_bytes;
            copy_again(&mut self.copy, &*snapshot, settled, &patience)?;
            if self.copy.written_bytes - before < COMMIT_BYTES as u64 {
                break;
            }
        }
        Ok(())
    }

    /// Completes the copy while commits wait, and makes it the one in force.
    fn finish(&mut self) -> Result<(), StoreError> {
        let place = self.place.clone();
        let _turn = lock(&place.turn);
        let mut route = write(&place.route);
        self.check()?;
        let patience = Patience::of(self.store.options.short_patience, &self.store.stop);

        // The open decides every commit that was accepted. The owner goes on with the new lease if
        // the move fails.
        let source = self.source_store();
        let lease = patience.repeat(|| source.open(self.source.number))?;
        let head = lease.head();
        if route.epoch != 0 {
            route.lease = Some(lease);
        }
        let snapshot = patience.repeat(|| source.snapshot(self.source.number))?;
        if snapshot.head() != head {
            let detail = format!("another process writes partition {}", self.partition);
            return Err(failed(self.source_name(), detail));
        }

        // The last changes, and the head.
        self.copy.set_source_lsn(head.lsn);
        let settled = lock(&self.changes).take_until(u64::MAX);
        copy_again(&mut self.copy, &*snapshot, settled, &patience)?;
        self.copy.finish(head, &patience)?;

        // One commit of the ledger makes the copy the partition.
        let mut ledger = self.store.ledger();
        let switched = ledger.commit(Change::of(
            self.partition,
            Some(Row {
                home: self.store.copy_of(self.to),
                generation: self.generation,
                step: Step::Leaving {
                    from: self.store.copy_of(self.source),
                },
            }),
        ));
        if let Err(error) = switched {
            if ledger.is_in_doubt() {
                route.is_undecided = true;
                route.changes = None;
            }
            return Err(error);
        }
        route.target = Some(self.to);
        route.changes = None;
        if route.epoch != 0 {
            route.lease = Some(self.copy.writer().lease().clone());
        }
        Ok(())
    }

    /// Ends a move that failed: the source stays in force. Returns the error for the caller.
    fn abandon(self, error: StoreError) -> StoreError {
        let _turn = lock(&self.place.turn);
        {
            let mut route = write(&self.place.route);
            if route.is_undecided {
                return failed(
                    &self.store.clusters[0].name,
                    format!(
                        "the outcome of the move of partition {} is unknown, and is found out by \
                         the next call: {error}",
                        self.partition
                    ),
                );
            }
            let is_mine = route
                .changes
                .as_ref()
                .is_some_and(|changes| Arc::ptr_eq(changes, &self.changes));
            if is_mine {
                route.changes = None;
            }
        }
        // The copy is removed by the owner of the ledger only: another process may have found that
        // the move has happened. If this fails, the next move or open removes the copy.
        let copy = self.store.copy_of(self.to);
        let owned = self.store.ledger().verify();
        if owned.is_ok() && self.store.remove_copy(&copy).is_ok() {
            let row = self.store.ledger().row(self.partition).cloned();
            let settled = row.filter(|row| row.step == Step::Moving { to: copy });
            if let Some(row) = settled {
                let row = Row {
                    step: Step::Settled,
                    ..row
                };
                let change = Change::of(self.partition, Some(row));
                let _ = self.store.ledger().commit(change);
            }
        }
        error
    }

    /// Removes the source of a move that is complete. If that fails, the row keeps the source, and
    /// the next move or open removes it.
    fn clean(self) {
        let source = self.store.copy_of(self.source);
        // No turn is held: the removal of many rows takes long.
        let removed = self.store.remove_copy(&source);
        let _turn = lock(&self.place.turn);
        let row = self.store.ledger().row(self.partition).cloned();
        let left = row.filter(|row| row.step == Step::Leaving { from: source });
        let settled = match (removed, left) {
            (Ok(()), Some(row)) => {
                let row = Row {
                    step: Step::Settled,
                    ..row
                };
                let change = Change::of(self.partition, Some(row));
                self.store.ledger().commit(change)
            }
            (removed, _) => removed,
        };
        if let Err(error) = settled {
            let detail = format!("the source of the move could not be removed: {error}");
            self.store.failures.note(self.partition, detail);
        }
    }
}

/// Rows of a page, in key order.
pub(crate) type Page = Vec<(orrery_storage::Bytes, orrery_storage::Bytes)>;

/// Reads the rows after a key and before an end, up to the size of a commit.
pub(crate) fn read_page(
    snapshot: &dyn Snapshot,
    after: Option<&[u8]>,
    end: Bound<&[u8]>,
) -> Result<Page, StoreError> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut page = Page::new();
    let mut bytes = 0;
    for row in snapshot.scan((start, end), Direction::Forward) {
        let (key, value) = row?;
        bytes += key.len() + value.len();
        page.push((key, value));
        if bytes >= COMMIT_BYTES || page.len() >= PAGE_ROWS {
            break;
        }
    }
    Ok(page)
}

/// Copies changed keys and ranges from a snapshot.
fn copy_again(
    copy: &mut CopyTarget<'_>,
    snapshot: &dyn Snapshot,
    settled: Settled,
    patience: &Patience<'_>,
) -> Result<(), StoreError> {
    for range in &settled.ranges {
        copy.empty(range.clone(), patience)?;
    }
    for range in &settled.ranges {
        let bounds = (
            Bound::Included(range.start.as_slice()),
            Bound::Excluded(range.end.as_slice()),
        );
        // The range delete may have been refused, so the rows of the range are copied.
        for row in snapshot.scan(bounds, Direction::Forward) {
            let (key, value) = row?;
            copy.set(key.to_vec(), Some(value), patience)?;
        }
    }
    for keys in settled.keys.chunks(KEYS_AT_ONCE) {
        let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let values = snapshot.multi_get(&names)?;
        for (key, value) in keys.iter().zip(values) {
            copy.set(key.clone(), value, patience)?;
        }
    }
    Ok(())
}
