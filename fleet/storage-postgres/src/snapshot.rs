//! Reads: a snapshot is a transaction of its own connection, with the isolation REPEATABLE READ.
//!
//! Snapshots that are taken together share one transaction.
//!
//! When the snapshot is dropped, the caller that waits longest for a connection gets the connection
//! with its transaction. If no caller waits, the transaction stays open for the next snapshot or is
//! ended, and its connection goes back to the pool (`idle.rs`). Old rows are kept by the server
//! while the transaction is open.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use orrery_storage::{Direction, Head, KeyRange, PartitionId, Rows, Snapshot, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::connector::{Session, explain};
use crate::followers::FollowerTransaction;
use crate::head::{DESTROYING, HeadRow};
use crate::identity::name_of;
use crate::pool::{OpenSnapshot, Turn};
use crate::reads;
use crate::statements::head_row;
use crate::store::Shared;
use crate::wait::block_on_unless;

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
    row: HeadRow,
    /// There until the snapshot is dropped.
    held: Option<Held>,
}

/// The transaction of a snapshot.
enum Held {
    OnPrimary(Box<OpenSnapshot>),
    Together(Arc<SharedTransaction>),
    OnStandby(Arc<FollowerTransaction>),
}

impl PostgresSnapshot {
    /// Takes a snapshot that holds every commit answered `Ok` before.
    pub(crate) fn take(
        shared: Arc<Shared>,
        partition: PartitionId,
    ) -> Result<PostgresSnapshot, StoreError> {
        reads::await_certainty(&shared, partition)?;
        let open = match shared.reuse(partition) {
            Some(open) => open,
            None => begin_for(&shared, &[partition])?.0,
        };
        Ok(PostgresSnapshot {
            shared,
            partition,
            row: open.row,
            held: Some(Held::OnPrimary(Box::new(open))),
        })
    }

    /// Takes a snapshot of each partition in one transaction.
    pub(crate) fn take_together(
        shared: &Arc<Shared>,
        partitions: &[PartitionId],
    ) -> Result<Vec<PostgresSnapshot>, StoreError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        for &partition in partitions {
            reads::await_certainty(shared, partition)?;
        }
        let (open, rows) = begin_for(shared, partitions)?;
        let transaction = Arc::new(SharedTransaction {
            shared: shared.clone(),
            open: Some(open),
        });
        let mut snapshots = Vec::with_capacity(rows.len());
        for (&partition, row) in partitions.iter().zip(rows) {
            snapshots.push(PostgresSnapshot {
                shared: shared.clone(),
                partition,
                row,
                held: Some(Held::Together(transaction.clone())),
            });
        }
        Ok(snapshots)
    }

    /// Returns a partition, with its head, as a transaction on a standby shows it.
    pub(crate) fn of_follower(
        shared: Arc<Shared>,
        partition: PartitionId,
        row: HeadRow,
        transaction: Arc<FollowerTransaction>,
    ) -> PostgresSnapshot {
        PostgresSnapshot {
            shared,
            partition,
            row,
            held: Some(Held::OnStandby(transaction)),
        }
    }

    fn session(&self) -> Option<&Session> {
        let open = match self.held.as_ref()? {
            Held::OnPrimary(open) => open,
            Held::Together(transaction) => transaction.open.as_ref()?,
            Held::OnStandby(transaction) => transaction.open()?,
        };
        Some(&open.session)
    }

    fn read(
        &self,
        statement: impl Fn(&Session) -> &tokio_postgres::Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let Some(session) = self.session() else {
            return Ok(Vec::new());
        };
        if self.row.state == DESTROYING {
            return Ok(Vec::new());
        }
        let limit = self.shared.connector.config.read_timeout();
        let query = session.client.query(statement(session), parameters);
        let is_over = |waited| self.shared.connector.outage.is_over(waited);
        let failure = match block_on_unless(query, limit, is_over) {
            Some(Ok(rows)) => return Ok(rows),
            Some(Err(error)) => explain(&error),
            None => self.shared.connector.failure().unwrap_or_else(|| {
                let ms = limit.as_millis();
                format!("no answer within {ms} ms")
            }),
        };
        session.mark_broken();
        Err(self.shared.unavailable(format!(
            "{} could not be read: {failure}",
            name_of(self.partition)
        )))
    }
}

/// A transaction of snapshots that were taken together. The last of them ends it.
struct SharedTransaction {
    shared: Arc<Shared>,
    /// There until the value is dropped.
    open: Option<OpenSnapshot>,
}

impl Drop for SharedTransaction {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.shared.end(open);
        }
    }
}

/// Starts a transaction that sees every commit of these partitions answered before, of which there
/// is at least one. Returns it with the row of the first partition, and the rows of all.
fn begin_for(
    shared: &Shared,
    partitions: &[PartitionId],
) -> Result<(OpenSnapshot, Vec<HeadRow>), StoreError> {
    let single = match partitions {
        [partition] => Some(*partition),
        _ => None,
    };
    let known = shared.known_of(partitions);
    let begun = async {
        // A transaction that another caller leaves is used if it shows the partition.
        let (place, kept) = match reads::turn(shared).await? {
            Turn::Place(place) => (place, None),
            Turn::Open(open) => match single {
                Some(id) if open.partition == single && shared.is_newest(id, &open) => {
                    let row = open.row;
                    return Ok((vec![row], *open));
                }
                _ => (open.place, Some(open.session)),
            },
        };
        let asked = reads::ask_primary(shared, &known, (place, kept), async |session, is_open| {
            Ok((begin_on(session, &known, is_open).await?, ()))
        });
        let asked = asked.await?;
        let open = OpenSnapshot {
            place: asked.place,
            session: asked.session,
            partition: single,
            row: asked.rows[0],
            begun: asked.begun,
            seen: Instant::now(),
        };
        Ok((asked.rows, open))
    };
    let (rows, open) = reads::wait_for(shared, partitions, begun)?;
    // After an error the connection ends with the transaction.
    reads::note_shown(shared, partitions, &rows)?;
    Ok((open, rows))
}

/// Starts a transaction, after the end of the one that is open, and reads the heads: all in one
/// round trip.
async fn begin_on(
    session: &Session,
    partitions: &[(PartitionId, HeadRow)],
    in_transaction: bool,
) -> Result<Vec<HeadRow>, tokio_postgres::Error> {
    let end = async {
        match in_transaction {
            true => session.client.batch_execute("COMMIT").await,
            false => Ok(()),
        }
    };
    let head_of = async |partition: PartitionId| {
        let number = partition.0 as i64;
        let parameters: [&(dyn ToSql + Sync); 1] = [&number];
        let found = session
            .client
            .query_opt(&session.statements.head, &parameters);
        match found.await? {
            Some(row) => head_row(&row),
            None => Ok(HeadRow::default()),
        }
    };
    // The first poll of each sends it, so the order here is the order at the server.
    let (_, _, rows) = tokio::try_join!(
        biased;
        end,
        session.client.batch_execute(BEGIN),
        try_join_all(partitions.iter().map(|(partition, _)| head_of(*partition))),
    )?;
    Ok(rows)
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
            let (key, value) = pair(row, 0).map_err(|error| self.shared.unavailable(error))?;
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
        match self.row.state {
            // A removal counts from its first step on.
            DESTROYING => Head::default(),
            _ => self.row.head(),
        }
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
        let pairs: Result<Vec<_>, _> = rows.iter().map(|row| pair(row, 0)).collect();
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

/// Returns key and value of a row, which are in two columns from `first` on.
pub(crate) fn pair(row: &Row, first: usize) -> Result<(Bytes, Bytes), String> {
    let bytes = |column: usize| -> Result<Bytes, String> {
        let value: &[u8] = row.try_get(column).map_err(|error| explain(&error))?;
        Ok(Bytes::copy_from_slice(value))
    };
    Ok((bytes(first)?, bytes(first + 1)?))
}
