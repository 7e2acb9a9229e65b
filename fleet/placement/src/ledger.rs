//! The ledger: the rows that say where partitions live, in a partition of the first cluster.
//!
//! ```text
//! 'f'                    the format, "1"
//! 'g'                    number·8: the highest generation
//! 'd' name of a cluster  (empty): an operator drained the cluster
//! 'p' partition·8        the home of a partition (row.rs)
//! 'c' name of a cluster  the id of the cluster
//! ```
//! All rows are in memory. A process takes the ledger over when it opens it: it commits at once, so
//! the process before finds another head and writes nothing more. A change whose outcome is unknown
//! is kept until the outcome is found out; no other change passes it.

use orrery_storage::{Commit, Direction, Head, PartitionId, Snapshot, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::failed;
use crate::patience::Patience;
use crate::row::{MOST_GENERATIONS, Row};
use crate::store::LEDGER;
use crate::writer::{Tokens, Writer};

const FORMAT_KEY: &[u8] = b"f";
const FORMAT: &[u8] = b"1";
const GENERATION_KEY: &[u8] = b"g";
const DRAINED: u8 = b'd';
const PARTITION: u8 = b'p';
const CLUSTER: u8 = b'c';

/// The id of a cluster, as its store has it.
pub type ClusterKey = [u8; 16];

/// A change of the ledger, made by one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// The new row of each partition, or `None` to delete the row.
    pub(crate) rows: Vec<(PartitionId, Option<Row>)>,
    /// A cluster, and if it is drained from now on.
    pub(crate) drained: Option<(String, bool)>,
    /// The highest generation after the change, if it rises.
    pub(crate) generation: Option<u64>,
    /// The id of each cluster, or `None` to forget the id.
    pub(crate) ids: Vec<(String, Option<ClusterKey>)>,
}

impl Change {
    /// Creates the change of one row.
    pub(crate) fn of(partition: PartitionId, row: Option<Row>) -> Change {
        Change {
            rows: vec![(partition, row)],
            ..Change::default()
        }
    }

    fn commit(&self) -> Commit {
        let mut commit = Commit::default();
        for (partition, row) in &self.rows {
            let key = [&[PARTITION][..], &partition.0.to_be_bytes()].concat();
            match row {
                Some(row) => commit.puts.push((key, row.text())),
                None => commit.deletes.push(key),
            }
        }
        if let Some((cluster, is_drained)) = &self.drained {
            let key = [&[DRAINED][..], cluster.as_bytes()].concat();
            if *is_drained {
                commit.puts.push((key, Vec::new()));
            } else {
                commit.deletes.push(key);
            }
        }
        for (cluster, id) in &self.ids {
            let key = [&[CLUSTER][..], cluster.as_bytes()].concat();
            match id {
                Some(id) => commit.puts.push((key, id.to_vec())),
                None => commit.deletes.push(key),
            }
        }
        if let Some(generation) = self.generation {
            let value = generation.to_be_bytes().to_vec();
            commit.puts.push((GENERATION_KEY.to_vec(), value));
        }
        commit
    }
}

/// The ledger, as its only writer has it.
pub(crate) struct Ledger {
    store: Arc<dyn Store>,
    cluster: String,
    writer: Writer,
    tokens: Tokens,
    /// The time for a commit while the cluster is away for a moment.
    patience: Duration,
    rows: BTreeMap<PartitionId, Row>,
    drained: BTreeSet<String>,
    ids: BTreeMap<String, ClusterKey>,
    generation: u64,
    /// The change whose outcome is unknown, with its head.
    pending: Option<(Change, Head)>,
}

impl Ledger {
    /// Takes the ledger of a cluster over and reads it.
    ///
    /// # Errors
    /// That of the store; a format that this program does not know; a damaged row.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        cluster: &str,
        patience: Duration,
    ) -> Result<Ledger, StoreError> {
        let writer = Writer::open(&*store, cluster, LEDGER)?;
        let found = store.snapshot(LEDGER)?.get(FORMAT_KEY)?;
        if let Some(format) = found.filter(|format| format != FORMAT) {
            let format = String::from_utf8_lossy(&format).into_owned();
            let detail =
                format!("the list of partitions has format '{format}', and this program knows '1'");
            return Err(failed(cluster, detail));
        }
        let mut ledger = Ledger {
            store,
            cluster: cluster.to_owned(),
            writer,
            tokens: Tokens::new(),
            patience,
            rows: BTreeMap::new(),
            drained: BTreeSet::new(),
            ids: BTreeMap::new(),
            generation: 0,
            pending: None,
        };
        // From this commit on no other process changes the rows.
        ledger.verify()?;
        ledger.read()?;
        Ok(ledger)
    }

    fn read(&mut self) -> Result<(), StoreError> {
        let snapshot = self.store.snapshot(LEDGER)?;
        self.rows = partition_rows(snapshot.as_ref(), &self.cluster)?;
        self.ids = cluster_ids(snapshot.as_ref(), &self.cluster)?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        for row in snapshot.scan(all, Direction::Forward) {
            let (key, value) = row?;
            let damaged = || failed(&self.cluster, "the list of partitions has a damaged row");
            match key.split_first() {
                Some((&DRAINED, name)) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.drained.insert(name);
                }
                _ if &key[..] == GENERATION_KEY => {
                    let number = value[..].try_into().map_err(|_| damaged())?;
                    self.generation = u64::from_be_bytes(number);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns all rows.
    pub(crate) fn rows(&self) -> &BTreeMap<PartitionId, Row> {
        &self.rows
    }

    /// Returns the row of a partition.
    pub(crate) fn row(&self, partition: PartitionId) -> Option<&Row> {
        self.rows.get(&partition)
    }

    /// Returns true if an operator drained the cluster.
    pub(crate) fn is_drained(&self, cluster: &str) -> bool {
        self.drained.contains(cluster)
    }

    /// Returns the ids of the clusters that are remembered.
    pub(crate) fn ids(&self) -> &BTreeMap<String, ClusterKey> {
        &self.ids
    }

    /// Returns a generation above all that were used.
    ///
    /// # Errors
    /// When all are used up, after four billion placements.
    pub(crate) fn next_generation(&self) -> Result<u64, StoreError> {
        if self.generation >= MOST_GENERATIONS {
            let detail = "the list of partitions has no number left for a placement";
            return Err(failed(&self.cluster, detail));
        }
        Ok(self.generation + 1)
    }

    /// Returns true if the outcome of the last change is not known: not yet, or never in this
    /// process, because another one has taken the ledger over.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.writer.is_in_doubt() || self.writer.is_taken()
    }

    /// Proves that this process still owns the ledger.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub(crate) fn verify(&mut self) -> Result<(), StoreError> {
        // The format is written each time: a commit without a change would prove the same.
        self.commit(Change::default())
    }

    /// Makes a change.
    ///
    /// # Errors
    /// Nothing was changed, unless [`Ledger::is_in_doubt`]: then [`Ledger::resolve`] tells.
    pub(crate) fn commit(&mut self, change: Change) -> Result<(), StoreError> {
        self.resolve()?;
        let mut commit = change.commit();
        commit.puts.push((FORMAT_KEY.to_vec(), FORMAT.to_vec()));
        let head = Head {
            lsn: self.writer.head().lsn + 1,
            token: self.tokens.next(),
        };
        self.pending = Some((change, head));
        let patience = Patience::alone(self.patience);
        let done = self.writer.commit(&*self.store, commit, head, &patience);
        self.settle();
        done
    }

    /// Finds out the outcome of the last change if it is not known.
    ///
    /// # Errors
    /// When the cluster does not answer, or another process has taken the ledger over.
    pub(crate) fn resolve(&mut self) -> Result<(), StoreError> {
        let patience = Patience::alone(self.patience);
        let resolved = self.writer.resolve(&*self.store, &patience);
        self.settle();
        resolved
    }

    /// Brings the rows in memory up to the writer's head, once the outcome is known.
    fn settle(&mut self) {
        if self.writer.is_in_doubt() {
            return;
        }
        let Some((change, head)) = self.pending.take() else {
            return;
        };
        if self.writer.is_taken() || self.writer.head() != head {
            return;
        }
        for (partition, row) in change.rows {
            match row {
                Some(row) => self.rows.insert(partition, row),
                None => self.rows.remove(&partition),
            };
        }
        match change.drained {
            Some((cluster, true)) => {
                self.drained.insert(cluster);
            }
            Some((cluster, false)) => {
                self.drained.remove(&cluster);
            }
            None => {}
        }
        for (cluster, id) in change.ids {
            match id {
                Some(id) => self.ids.insert(cluster, id),
                None => self.ids.remove(&cluster),
            };
        }
        self.generation = change.generation.unwrap_or(self.generation);
    }
}

/// Reads the rows of the partitions in a snapshot of the ledger of a cluster.
///
/// # Errors
/// That of the store; a damaged row.
pub(crate) fn partition_rows(
    ledger: &dyn Snapshot,
    cluster: &str,
) -> Result<BTreeMap<PartitionId, Row>, StoreError> {
    let (first, end) = ([PARTITION], [PARTITION + 1]);
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    let mut rows = BTreeMap::new();
    for row in ledger.scan(range, Direction::Forward) {
        let (key, value) = row?;
        let damaged = || failed(cluster, "the list of partitions has a damaged row");
        let number = key[1..].try_into().map_err(|_| damaged())?;
        let row = Row::read(&value).ok_or_else(damaged)?;
        rows.insert(PartitionId(u64::from_be_bytes(number)), row);
    }
    Ok(rows)
}

/// Reads the ids of the clusters in a snapshot of the ledger of a cluster.
///
/// # Errors
/// As [`partition_rows`].
pub(crate) fn cluster_ids(
    ledger: &dyn Snapshot,
    cluster: &str,
) -> Result<BTreeMap<String, ClusterKey>, StoreError> {
    let (first, end) = ([CLUSTER], [CLUSTER + 1]);
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    let mut ids = BTreeMap::new();
    for row in ledger.scan(range, Direction::Forward) {
        let (key, value) = row?;
        let damaged = |_| failed(cluster, "the list of partitions has a damaged row");
        let name = String::from_utf8_lossy(&key[1..]).into_owned();
        ids.insert(name, value[..].try_into().map_err(damaged)?);
    }
    Ok(ids)
}
