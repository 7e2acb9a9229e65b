//! Reads: a snapshot is a transaction of its own connection, with the isolation REPEATABLE READ.
//!
//! When the snapshot is dropped, the transaction stays open for the next one or is ended, and its
//! connection goes back to the pool (`idle.rs`). Old rows are kept by the server while the
//! transaction is open.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use orrery_storage::{Direction, Head, KeyRange, PartitionId, Rows, Snapshot, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::connector::{Session, explain};
use crate::followers::FollowerTransaction;
use crate::head::{DESTROYING, HeadRow, LOST};
use crate::idle::OpenSnapshot;
use crate::pool::Place;
use crate::statements::head_row;
use crate::store::Shared;
use crate::wait::block_on;

/// Rows of the first page of a scan.
const FIRST_PAGE: i64 = 32;
/// The most rows of a page.
const MOST_ROWS: i64 = 1_000;
/// The size for which pages are planned, in bytes.
const PAGE_BYTES: usize = 1 << 20;
/// Longer than every key, so that every key is below this many bytes `0xff`.
const ABOVE_ALL_KEYS: usize = 2_049;
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A partition as of one moment.
pub(crate) struct PostgresSnapshot {
    shared: Arc<Shared>,
    partition: PartitionId,
    head: Head,
    /// There until the snapshot is dropped.
    held: Option<Held>,
}

/// The transaction of a snapshot.
enum Held {
    OnPrimary(Box<OpenSnapshot>),
    OnStandby(Arc<FollowerTransaction>),
}

impl PostgresSnapshot {
    /// Takes a snapshot that holds every commit answered `Ok` before.
    pub(crate) fn take(
        shared: Arc<Shared>,
        partition: PartitionId,
    ) -> Result<PostgresSnapshot, StoreError> {
        let limit = shared.connector.config.read_timeout();
        // Rows of a transaction that may still be lost are not shown.
        if block_on(certainty(&shared, partition), limit / 2).is_none() {
            return Err(shared.unavailable(format!(
                "partition {partition} cannot be read: the outcome of its last commit is not \
                 known yet"
            )));
        }
        if let Some(open) = shared.reuse(partition) {
            return Ok(PostgresSnapshot::of_primary(shared, partition, open));
        }
        let known = shared.known(partition);
        let open = match block_on(begin(&shared, partition, known), limit) {
            Some(Ok(open)) if shared.partitions().is_in_doubt(partition) => {
                open.session.mark_broken();
                return Err(shared.unavailable(format!(
                    "partition {partition} cannot be read: the outcome of a commit became unknown"
                )));
            }
            Some(Ok(open)) => open,
            Some(Err(detail)) => return Err(shared.unavailable(detail)),
            None => {
                let ms = limit.as_millis();
                return Err(shared.unavailable(format!(
                    "no snapshot of partition {partition} could be taken within {ms} ms: all \
                     {} connections that read are in use, or a server does not answer",
                    shared.connector.config.read_connections
                )));
            }
        };
        Ok(PostgresSnapshot::of_primary(shared, partition, open))
    }

    fn of_primary(
        shared: Arc<Shared>,
        partition: PartitionId,
        open: OpenSnapshot,
    ) -> PostgresSnapshot {
        PostgresSnapshot::of(shared, partition, Held::OnPrimary(Box::new(open)))
    }

    /// Returns the partition as a transaction on a standby shows it.
    pub(crate) fn of_follower(
        shared: Arc<Shared>,
        partition: PartitionId,
        transaction: Arc<FollowerTransaction>,
    ) -> PostgresSnapshot {
        PostgresSnapshot::of(shared, partition, Held::OnStandby(transaction))
    }

    fn of(shared: Arc<Shared>, partition: PartitionId, held: Held) -> PostgresSnapshot {
        let mut snapshot = PostgresSnapshot {
            shared,
            partition,
            head: Head::default(),
            held: Some(held),
        };
        snapshot.head = match snapshot.open() {
            // A removal counts from its first step on.
            Some(open) if open.row.state != DESTROYING => open.row.head(),
            _ => Head::default(),
        };
        snapshot
    }

    fn open(&self) -> Option<&OpenSnapshot> {
        match self.held.as_ref()? {
            Held::OnPrimary(open) => Some(open),
            Held::OnStandby(transaction) => transaction.open(),
        }
    }

    fn read(
        &self,
        statement: impl Fn(&Session) -> &tokio_postgres::Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let Some(OpenSnapshot { session, row, .. }) = self.open() else {
            return Ok(Vec::new());
        };
        if row.state == DESTROYING {
            return Ok(Vec::new());
        }
        let limit = self.shared.connector.config.read_timeout();
        let query = session.client.query(statement(session), parameters);
        let failure = match block_on(query, limit) {
            Some(Ok(rows)) => return Ok(rows),
            Some(Err(error)) => explain(&error),
            None => format!("no answer within {} ms", limit.as_millis()),
        };
        session.mark_broken();
        Err(self.shared.unavailable(format!(
            "partition {} could not be read: {failure}",
            self.partition
        )))
    }
}

/// Waits while the outcome of the last transaction is unknown.
async fn certainty(shared: &Shared, partition: PartitionId) {
    loop {
        let changes = shared.partitions().doubts();
        // Made before the look, so that no change between the look and the wait is missed.
        let changed = changes.notified();
        if !shared.partitions().is_in_doubt(partition) {
            return;
        }
        changed.await;
    }
}

/// Starts transactions until one sees what is known to be durable.
async fn begin(
    shared: &Shared,
    partition: PartitionId,
    known: HeadRow,
) -> Result<OpenSnapshot, String> {
    let (place, mut kept) = place(shared).await?;
    let limit = shared.connector.config.read_timeout() / 2;
    let started = Instant::now();
    loop {
        let (session, in_transaction) = match kept.take() {
            Some(session) if shared.connector.is_trusted(&session) => (session, true),
            _ => (place.session().await?, false),
        };
        let begun = Instant::now();
        let answer = session.run(begin_on(&session, partition, in_transaction));
        let reason = match answer.await {
            // An old primary answers reads until it notices that it was replaced.
            Ok(row) if row.state != LOST && row.is_older_than(&known) => {
                shared.connector.suspect(session.host);
                "it has not the commits that were acknowledged before".to_owned()
            }
            Ok(row) => {
                return Ok(OpenSnapshot {
                    place,
                    session,
                    row,
                    begun,
                    seen: Instant::now(),
                });
            }
            Err(error) => explain(&error),
        };
        session.mark_broken();
        if started.elapsed() > limit {
            let host = &shared.connector.config.hosts[session.host].address;
            return Err(format!("{host} gave no snapshot: {reason}"));
        }
    }
}

/// Waits for the right to a connection. If all connections are in use, takes the one of an idle
/// snapshot, which is in a transaction.
async fn place(shared: &Shared) -> Result<(Place, Option<Session>), String> {
    if let Some(place) = shared.readers.free_place() {
        return Ok((place, None));
    }
    // Counted before the look at the idle snapshots, so that no snapshot becomes idle unseen.
    let _waiting = shared.readers.wait_for_place();
    match shared.idle.take_oldest() {
        Some(idle) => Ok((idle.place, Some(idle.session))),
        None => Ok((shared.readers.place().await?, None)),
    }
}

/// Starts a transaction, after the end of the one that is open, and reads the head: all in one
/// round trip.
async fn begin_on(
    session: &Session,
    partition: PartitionId,
    in_transaction: bool,
) -> Result<HeadRow, tokio_postgres::Error> {
    let number = partition.0 as i64;
    let parameters: [&(dyn ToSql + Sync); 1] = [&number];
    let end = async {
        match in_transaction {
            true => session.client.batch_execute("COMMIT").await,
            false => Ok(()),
        }
    };
    let (_, _, row) = tokio::try_join!(
        biased;
        end,
        session.client.batch_execute(BEGIN),
        session.client.query_opt(&session.statements.head, &parameters),
    )?;
    match row {
        Some(row) => head_row(&row),
        None => Ok(HeadRow::default()),
    }
}

impl Snapshot for PostgresSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.multi_get(&[key])?.pop().flatten())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let number = self.partition.0 as i64;
        let rows = self.read(|session| &session.statements.get, &[&number, &keys])?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let (key, value) = pair(row).map_err(|error| self.shared.unavailable(error))?;
            found.insert(key, value);
        }
        Ok(keys.iter().map(|key| found.get(*key).cloned()).collect())
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        let after = |key: &[u8]| [key, &[0]].concat();
        let start = match range.0 {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Vec::new(),
        };
        let end = match range.1 {
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => key.to_vec(),
            Bound::Unbounded => vec![0xff; ABOVE_ALL_KEYS],
        };
        Box::new(Scan {
            snapshot: self,
            is_finished: start >= end,
            start,
            end,
            direction,
            limit: FIRST_PAGE,
            page: Vec::new().into_iter(),
        })
    }

    fn head(&self) -> Head {
        self.head
    }
}

impl Drop for PostgresSnapshot {
    fn drop(&mut self) {
        if let Some(Held::OnPrimary(open)) = self.held.take() {
            self.shared.release(self.partition, *open);
        }
    }
}

/// A scan, with the range that is not read yet.
struct Scan<'a> {
    snapshot: &'a PostgresSnapshot,
    /// The lowest key that is left.
    start: Vec<u8>,
    /// Above the highest key that is left.
    end: Vec<u8>,
    direction: Direction,
    /// Rows of the next page.
    limit: i64,
    page: std::vec::IntoIter<(Bytes, Bytes)>,
    is_finished: bool,
}

impl Scan<'_> {
    fn read_page(&mut self) -> Result<(), StoreError> {
        let number = self.snapshot.partition.0 as i64;
        let rows = self.snapshot.read(
            |session| match self.direction {
                Direction::Forward => &session.statements.scan_forward,
                Direction::Reverse => &session.statements.scan_reverse,
            },
            &[&number, &self.start, &self.end, &self.limit],
        )?;
        let pairs: Result<Vec<_>, _> = rows.iter().map(pair).collect();
        let pairs = pairs.map_err(|error| self.snapshot.shared.unavailable(error))?;
        self.is_finished = (pairs.len() as i64) < self.limit;
        if let Some((last, _)) = pairs.last() {
            match self.direction {
                Direction::Forward => self.start = [last, [0].as_slice()].concat(),
                Direction::Reverse => self.end = last.to_vec(),
            }
        }
        // Pages grow while they stay small.
        let bytes: usize = pairs.iter().map(|(k, v)| k.len() + v.len()).sum();
        let of_row = bytes / pairs.len().max(1) + 1;
        let fitting = (PAGE_BYTES / of_row).clamp(1, MOST_ROWS as usize) as i64;
        self.limit = fitting.min(self.limit * 4);
        self.page = pairs.into_iter();
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.page.next() {
                return Some(Ok(row));
            }
            if self.is_finished {
                return None;
            }
            if let Err(error) = self.read_page() {
                self.is_finished = true;
                return Some(Err(error));
            }
        }
    }
}

/// Returns key and value of a row.
fn pair(row: &Row) -> Result<(Bytes, Bytes), String> {
    let bytes = |column: usize| -> Result<Bytes, String> {
        let value: &[u8] = row.try_get(column).map_err(|error| explain(&error))?;
        Ok(Bytes::copy_from_slice(value))
    };
    Ok((bytes(0)?, bytes(1)?))
}
