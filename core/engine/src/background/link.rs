//! Linking: vectors of indexes of the types `quantizedFlat` and `diskANN` are quantised, and those
//! of `diskANN` are linked to their neighbours, in the background.
//!
//! A step reads a snapshot, computes codes and lists without a lock, and commits them with the
//! progress (`index/approximate.rs`). Changed vectors come first, then those that the task has not
//! reached. One step of a partition runs at a time, and a step whose state is not the one that it
//! has read is dropped. A vector that was written while a step computes has a mark with a later
//! LSN, which the next step takes in. Each shard of an index has a graph of its own.
//!
//! Promises: a step that fails changes nothing. An index that the policy no longer has loses its
//! rows in steps. Left out: a second quantiser for an index that has grown; its codes stay those of
//! the first.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::index::approximate::{
    ApproximateState, ChangeMark, CodeKind, Progress, VectorCode, VectorPlace, metric_of,
    quantiser_rows,
};
use crate::index::vectors::{Shard, VectorIndex, VectorIndexKind};
use crate::partition::codes::{CodeChanges, VectorCodes};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::{CommitChanges, Partition, scan, wait_durable};
use orrery_ann::{Codes, ENTRY, GraphEdit, Lists, Quantiser, Shape, append_list, read_list};
use orrery_model::{Error, Result};
use orrery_storage::{Direction, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Vectors that a quantiser is trained on.
const SAMPLE_MAX: u64 = 10_000;
/// Bytes of the vectors that a quantiser is trained on.
const SAMPLE_BYTES_MAX: usize = 32 << 20;
/// Vectors that one step links.
const LINKS_PER_STEP: usize = 64;
/// Vectors that one step quantises where there is no graph.
const CODES_PER_STEP: usize = 1_000;
/// Marks that one step takes in.
const MARKS_PER_STEP: usize = 2_000;
/// Rows that one step of the removal of an index removes.
const REMOVED_PER_STEP: usize = 4_000;
/// Neighbours of a vector in a graph.
const DEGREE: usize = 32;
/// The subject of the error for a damaged row.
const ROW: &str = "a vector";

/// The state of a partition after a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linked {
    /// All vectors have been taken in.
    All,
    /// There is more to do.
    Some,
    /// There is more to do, and no memory for it now.
    Waits,
}

/// The lists of a graph in the store.
pub(crate) struct StoredLists<'a> {
    /// The snapshot that is read.
    pub snapshot: &'a dyn Snapshot,
    /// The number of the index.
    pub path: PathNumber,
    /// The shard whose graph is read.
    pub shard: Shard,
}

impl Lists for StoredLists<'_> {
    fn neighbours(&self, node: u64) -> Result<Vec<u64>> {
        let key = key_of_list(self.path, self.shard, node);
        match self.snapshot.get(&key).map_err(storage_failure)? {
            None => Ok(Vec::new()),
            Some(row) => read_list(&row).ok_or_else(|| damaged("a list of neighbours")),
        }
    }
}

/// Returns the key of the list of a node in the graph of a shard. An item is in one graph, and each
/// graph has an entry of its own.
fn key_of_list(path: PathNumber, shard: Shard, node: u64) -> Vec<u8> {
    match node {
        ENTRY => keys::neighbours_of_entry(path, node, &shard.bytes()),
        number => keys::neighbours(path, number),
    }
}

/// A vector that a step takes in.
struct Changed {
    number: ItemNumber,
    epk_prefix: EpkPrefix,
    /// The components and the shard; `None` if the item has no vector any more.
    vector: Option<(Vec<f32>, Shard)>,
}

/// The codes and lists that a step has computed.
#[derive(Default)]
struct StepChanges {
    /// Marks that are removed.
    marks: Vec<ChangeMark>,
    codes: CodeChanges,
    /// Keys of lists, and the lists; an empty one is removed.
    lists: BTreeMap<Vec<u8>, Vec<u64>>,
}

impl Engine {
    /// Brings all vectors into their indexes.
    ///
    /// # Errors
    /// 500 and 503 as the store reports.
    pub fn finish_linking(&self) -> Result<()> {
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                while self.link_some_of(&container, partition)? == Linked::Some {}
            }
        }
        Ok(())
    }

    /// Runs one step for each index of a partition that has work.
    ///
    /// # Errors
    /// 410 while the partition is split or merged; 500 and 503 as the store reports.
    pub(super) fn link_some_of(
        &self,
        container: &Container,
        partition: &Partition,
    ) -> Result<Linked> {
        // Two tasks may visit a partition at once: this one, and the survey after a start.
        let Some(_turn) = partition.begin_linking() else {
            return Ok(Linked::Waits);
        };
        let policies = container.policies();
        let newest = policies.newest.1.stored_vectors();
        let wanted: Vec<&VectorIndex> = newest
            .iter()
            .filter(|index| index.kind != VectorIndexKind::Flat)
            .collect();
        let snapshot = partition.snapshot_of_accepted()?;
        let snapshot = snapshot.as_ref();
        if self.remove_unwanted(partition, snapshot, &wanted)? {
            return Ok(Linked::Some);
        }
        let mut linked = Linked::All;
        // The vectors of an index are complete only when all items follow the newest policy; the
        // reindex enters this task when it ends.
        if !Partition::generations(snapshot)?.are_all(policies.newest.0) {
            return Ok(linked);
        }
        for index in wanted {
            let path = partition.paths(snapshot)?.find_derived(&index.text);
            let Some(path) = path else { continue };
            let step = LinkStep {
                engine: self,
                container,
                partition,
                snapshot,
                index,
                path,
            };
            match step.run()? {
                Linked::All => {}
                Linked::Some => linked = Linked::Some,
                Linked::Waits if linked == Linked::All => linked = Linked::Waits,
                Linked::Waits => {}
            }
        }
        Ok(linked)
    }

    /// Removes rows of indexes that are not among `wanted`, or were other ones, a bounded number in
    /// each step. Returns true if there were some.
    fn remove_unwanted(
        &self,
        partition: &Partition,
        snapshot: &dyn Snapshot,
        wanted: &[&VectorIndex],
    ) -> Result<bool> {
        for row in scan(snapshot, &keys::approximate_states(), Direction::Forward) {
            let (key, row) = row?;
            let path = keys::read_approximate_state(&key).ok_or_else(|| damaged(ROW))?;
            let state = ApproximateState::of_row(&row)?;
            let paths = partition.paths(snapshot)?;
            let is_wanted = |index: &&VectorIndex| {
                paths.find_derived(&index.text) == Some(path) && state.serves(index)
            };
            if wanted.iter().any(is_wanted) {
                continue;
            }
            drop(paths);
            self.remove_rows(partition, snapshot, path, state)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Removes some rows of an index, and its state with the last ones.
    fn remove_rows(
        &self,
        partition: &Partition,
        snapshot: &dyn Snapshot,
        path: PathNumber,
        state: ApproximateState,
    ) -> Result<()> {
        let mut deletes = Vec::new();
        for range in [
            keys::codes(path),
            keys::all_neighbours(path),
            keys::changed_vectors(path, 0),
            keys::quantisers(path),
        ] {
            let left = REMOVED_PER_STEP - deletes.len();
            for row in scan(snapshot, &range, Direction::Forward).take(left) {
                deletes.push(row?.0.to_vec());
            }
        }
        self.store.wait_for_compaction();
        let mut writer = partition.lock()?;
        // Writes add marks until the state is removed.
        let latest = partition.snapshot_with(writer.lsn)?;
        let marks = keys::changed_vectors(path, 0);
        let mut marks = scan(latest.as_ref(), &marks, Direction::Forward);
        let is_last = deletes.is_empty() && marks.next().transpose()?.is_none();
        let mut changes = CommitChanges {
            counters: writer.counters,
            may_use_reserve: true,
            deletes,
            ..CommitChanges::default()
        };
        let key = keys::approximate_state(path);
        // Queries must not use what is left.
        match is_last {
            true => {
                changes.deletes.push(key);
                changes.quantised.push((path, false));
            }
            false => {
                let removing = ApproximateState {
                    progress: Progress::Removing,
                    ..state.after_a_commit()
                };
                changes.puts.push((key, removing.encode()));
            }
        }
        let commit = writer.submit(partition, changes, self.world().random());
        drop(writer);
        partition.forget_codes();
        wait_durable(partition, commit)
    }
}

/// One step for one index of a partition.
struct LinkStep<'a> {
    engine: &'a Engine,
    container: &'a Container,
    partition: &'a Partition,
    snapshot: &'a dyn Snapshot,
    index: &'a VectorIndex,
    path: PathNumber,
}

impl LinkStep<'_> {
    fn run(&self) -> Result<Linked> {
        let Some(state) = ApproximateState::read(self.snapshot, self.path)? else {
            let vectors = Partition::entries_of(self.snapshot, self.path)?;
            if vectors < self.container.approximate().from {
                return Ok(Linked::All);
            }
            self.begin(vectors)?;
            return Ok(Linked::Some);
        };
        let search = self.container.approximate();
        let codes =
            self.partition
                .codes_of(self.snapshot, self.path, &state, search, &|| Ok(()))?;
        let Some(codes) = codes else {
            return Ok(Linked::Waits);
        };

        let (marks, mut changed, has_more_marks) = self.marked_vectors(state.marks_from)?;
        let mut progress = state.progress;
        if let Progress::From(place) = state.progress
            && changed.len() < self.vectors_per_step()
        {
            progress = self.add_unreached(place, &codes, &mut changed)?;
        }
        if marks.is_empty() && changed.is_empty() && progress == state.progress {
            return Ok(Linked::All);
        }
        let moved = match self.index.kind {
            VectorIndexKind::DiskAnn => self.moved(&codes, &changed),
            VectorIndexKind::QuantizedFlat | VectorIndexKind::Flat => Vec::new(),
        };
        if !moved.is_empty() {
            let changes = self.linked(&codes, &moved)?;
            self.commit(&codes, changes, state.after_a_commit())?;
            return Ok(Linked::Some);
        }
        // A commit may have more marks than a step takes.
        let marks_from = match marks.last() {
            Some(last) if has_more_marks => last.lsn,
            _ => self.snapshot.head().lsn + 1,
        };
        let changes = match self.index.kind {
            VectorIndexKind::DiskAnn => self.linked(&codes, &changed)?,
            VectorIndexKind::QuantizedFlat | VectorIndexKind::Flat => quantised(&codes, &changed),
        };
        let next = ApproximateState {
            marks_from,
            progress,
            ..state.after_a_commit()
        };
        self.commit(&codes, StepChanges { marks, ..changes }, next)?;
        Ok(Linked::Some)
    }

    fn vectors_per_step(&self) -> usize {
        match self.index.kind {
            VectorIndexKind::DiskAnn => LINKS_PER_STEP,
            VectorIndexKind::QuantizedFlat | VectorIndexKind::Flat => CODES_PER_STEP,
        }
    }

    /// Trains the quantiser, and commits it with the first state.
    fn begin(&self, vectors: u64) -> Result<()> {
        // The vectors of a sample lie in equal distances in the order of the index, which is that
        // of hashes.
        let bytes = (self.index.dimensions * size_of::<f32>()).max(1);
        let sample_max = SAMPLE_MAX.min((SAMPLE_BYTES_MAX / bytes) as u64).max(1);
        let distance = vectors.div_ceil(sample_max).max(1) as usize;
        let mut sample = Vec::new();
        let range = keys::vectors(self.path, None);
        let rows = scan(self.snapshot, &range, Direction::Forward);
        for row in rows.step_by(distance) {
            self.append(&row?.1, &mut sample)?;
        }
        let seed = u64::from(self.path);
        let quantiser = Quantiser::train(
            self.index.quantiser,
            metric_of(self.index.function),
            self.index.dimensions,
            self.index.code_bytes,
            &sample,
            seed,
            &mut || Ok(()),
        )?;

        let mut writer = self.partition.lock()?;
        let latest = self.partition.snapshot_with(writer.lsn)?;
        if ApproximateState::read(latest.as_ref(), self.path)?.is_some() {
            return Ok(());
        }
        let state = ApproximateState {
            began: writer.lsn + 1,
            version: 0,
            marks_from: writer.lsn + 1,
            codes: CodeKind::of(self.index),
            progress: Progress::From((EpkPrefix::default(), 0)),
        };
        let mut changes = CommitChanges {
            counters: writer.counters,
            quantised: vec![(self.path, true)],
            ..CommitChanges::default()
        };
        changes.puts.extend(quantiser_rows(self.path, &quantiser));
        let key = keys::approximate_state(self.path);
        changes.puts.push((key, state.encode()));
        let random = self.engine.world().random();
        let commit = writer.submit(self.partition, changes, random);
        drop(writer);
        let done = wait_durable(self.partition, commit);
        if done.is_err() {
            self.partition.forget_codes();
        }
        done
    }

    /// Returns marks from an LSN on with their vectors, and true if there are more.
    fn marked_vectors(&self, from: u64) -> Result<(Vec<ChangeMark>, Vec<Changed>, bool)> {
        let (mut marks, mut changed) = (Vec::new(), Vec::new());
        let mut numbers = BTreeSet::new();
        let range = keys::changed_vectors(self.path, from);
        let rows = scan(self.snapshot, &range, Direction::Forward);
        for row in rows {
            // An item that is written often has many marks.
            if changed.len() == self.vectors_per_step() || marks.len() == MARKS_PER_STEP {
                return Ok((marks, changed, true));
            }
            let (key, value) = row?;
            let mark = ChangeMark::read(&key, &value)?;
            marks.push(mark);
            if !numbers.insert(mark.number) {
                continue;
            }
            let vector = keys::vector(self.path, mark.epk_prefix, mark.number);
            let row = self.snapshot.get(&vector).map_err(storage_failure)?;
            let vector = match row {
                Some(row) => Some(self.read(&row)?),
                None => None,
            };
            changed.push(Changed {
                number: mark.number,
                epk_prefix: mark.epk_prefix,
                vector,
            });
        }
        Ok((marks, changed, false))
    }

    /// Adds vectors from a place on that have no code yet. Returns the progress after them.
    fn add_unreached(
        &self,
        (epk_prefix, number): VectorPlace,
        codes: &VectorCodes,
        changed: &mut Vec<Changed>,
    ) -> Result<Progress> {
        let marked: BTreeSet<ItemNumber> = changed.iter().map(|one| one.number).collect();
        let (_, end) = keys::vectors(self.path, None);
        let range = (keys::vector(self.path, epk_prefix, number), end);
        for row in scan(self.snapshot, &range, Direction::Forward) {
            let (key, vector) = row?;
            let place = keys::read_vector(&key).ok_or_else(|| damaged(ROW))?;
            if changed.len() >= self.vectors_per_step() {
                return Ok(Progress::From(place));
            }
            let (epk_prefix, number) = place;
            if !marked.contains(&number) && codes.read().get(number).is_none() {
                changed.push(Changed {
                    number,
                    epk_prefix,
                    vector: Some(self.read(&vector)?),
                });
            }
        }
        Ok(Progress::Complete)
    }

    /// Reads the components of a vector and its shard from the row.
    fn read(&self, row: &[u8]) -> Result<(Vec<f32>, Shard)> {
        let mut components = Vec::with_capacity(self.index.dimensions);
        let shard = self.append(row, &mut components)?;
        Ok((components, shard))
    }

    fn append(&self, row: &[u8], components: &mut Vec<f32>) -> Result<Shard> {
        let shard = self.index.append(row, components);
        shard.ok_or_else(|| damaged(ROW))
    }

    /// Returns the removals of those vectors that have moved to another shard. The next step, which
    /// finds their marks again, links them there.
    fn moved(&self, codes: &VectorCodes, changed: &[Changed]) -> Vec<Changed> {
        let known = codes.read();
        let mut moved = Vec::new();
        for one in changed {
            if let Some((_, shard)) = &one.vector
                && known.shard_of(one.number).is_some_and(|old| old != *shard)
            {
                moved.push(Changed {
                    vector: None,
                    ..*one
                });
            }
        }
        moved
    }

    /// Links changed vectors to their neighbours, in the graphs of their shards.
    fn linked(&self, codes: &VectorCodes, changed: &[Changed]) -> Result<StepChanges> {
        let known = codes.read();
        let mut by_shard: BTreeMap<Shard, Vec<&Changed>> = BTreeMap::new();
        for one in changed {
            let shard = match &one.vector {
                Some((_, shard)) => Some(*shard),
                None => known.shard_of(one.number),
            };
            // An item without a vector and without a code is in no graph.
            if let Some(shard) = shard {
                by_shard.entry(shard).or_default().push(one);
            }
        }
        let mut changes = StepChanges::default();
        for (shard, changed) in by_shard {
            let known = known.of_shard(shard);
            self.link_in_shard(shard, &codes.quantiser, known, &changed, &mut changes)?;
        }
        Ok(changes)
    }

    /// Links changed vectors of one shard.
    fn link_in_shard(
        &self,
        shard: Shard,
        quantiser: &Quantiser,
        known: &Codes,
        changed: &[&Changed],
        changes: &mut StepChanges,
    ) -> Result<()> {
        let lists = StoredLists {
            snapshot: self.snapshot,
            path: self.path,
            shard,
        };
        let shape = Shape {
            degree: DEGREE,
            build_list_size: self.index.build_list_size,
        };
        let mut edit = GraphEdit::new(quantiser, known, &lists, shape);
        let mut prefixes = BTreeMap::new();
        for one in changed {
            prefixes.insert(one.number, one.epk_prefix);
            match &one.vector {
                Some((components, _)) => edit.link(one.number, components)?,
                None => edit.unlink(one.number)?,
            }
        }
        let edited = edit.into_changes();
        for (node, list) in edited.lists {
            let key = key_of_list(self.path, shard, node);
            changes.lists.insert(key, list);
        }
        for (number, code) in edited.codes {
            // Only the vectors of this step have new codes.
            let epk_prefix = prefixes.get(&number).copied().unwrap_or_default();
            let code = code.map(|code| VectorCode {
                epk_prefix,
                shard,
                code,
            });
            changes.codes.insert(number, code);
        }
        Ok(())
    }

    /// Commits a step. The codes in memory follow before the commit is durable, so that no reader
    /// finds them older than the state of a snapshot.
    fn commit(&self, codes: &VectorCodes, step: StepChanges, next: ApproximateState) -> Result<()> {
        self.engine.store.wait_for_compaction();
        let mut writer = self.partition.lock()?;
        let latest = self.partition.snapshot_with(writer.lsn)?;
        let key = keys::approximate_state(self.path);
        let state = ApproximateState::read(latest.as_ref(), self.path)?;
        if state.is_none_or(|state| state.began != next.began || state.version + 1 != next.version)
        {
            return Err(Error::internal("another task has changed the codes"));
        }
        let mut changes = CommitChanges {
            counters: writer.counters,
            ..CommitChanges::default()
        };
        for mark in &step.marks {
            let key = keys::changed_vector(self.path, mark.lsn, mark.number);
            changes.deletes.push(key);
        }
        for (number, code) in &step.codes {
            let key = keys::code(self.path, *number);
            match code {
                Some(code) => changes.puts.push((key, code.encode())),
                None => changes.deletes.push(key),
            }
        }
        for (key, list) in step.lists {
            match &list[..] {
                [] => changes.deletes.push(key),
                list => {
                    let mut value = Vec::new();
                    append_list(list, &mut value);
                    changes.puts.push((key, value));
                }
            }
        }
        changes.puts.push((key, next.encode()));
        let random = self.engine.world().random();
        let commit = writer.submit(self.partition, changes, random);
        if commit.is_accepted() {
            codes.take_in(next.version, &step.codes);
        }
        drop(writer);
        let done = wait_durable(self.partition, commit);
        if done.is_err() {
            self.partition.forget_codes();
        }
        done
    }
}

/// Quantises changed vectors.
fn quantised(codes: &VectorCodes, changed: &[Changed]) -> StepChanges {
    let mut changes = StepChanges::default();
    for one in changed {
        let code = one.vector.as_ref().map(|(components, shard)| VectorCode {
            epk_prefix: one.epk_prefix,
            shard: *shard,
            code: codes.quantiser.encode(components),
        });
        changes.codes.insert(one.number, code);
    }
    changes
}
