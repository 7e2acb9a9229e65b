//! Snapshots for reads of single rows, without a transaction: the rows that the caller names ahead
//! come from the cache, or from the server by one statement.
//!
//! A row that was not named is read by a further statement, together with all rows that the caller
//! has asked for. If these are unchanged, all rows are from the moment of this statement; otherwise
//! the read fails, and the caller begins anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use orrery_model::sync::lock;
use orrery_storage::{
    Direction, Head, KeyRange, Link, PartitionId, ReadAhead, Rows, Snapshot, StoreError,
};
use tokio_postgres::types::ToSql;

use crate::connector::Session;
use crate::head::{DESTROYING, HeadRow};
use crate::identity::name_of;
use crate::pool::Turn;
use crate::reads;
use crate::snapshot::{PostgresSnapshot, pair};
use crate::statements::head_row;
use crate::store::Shared;

/// The column of a key in the rows of the statement, which begin with a head.
const KEY_COLUMN: usize = 5;

/// Keys with their values; `None` for a key without a row.
pub(crate) type KnownRows = HashMap<Vec<u8>, Option<Bytes>>;

/// Some rows of a partition as of one moment.
pub(crate) struct RowSnapshot {
    shared: Arc<Shared>,
    partition: PartitionId,
    state: Mutex<State>,
    /// For scans.
    whole: OnceLock<PostgresSnapshot>,
}

struct State {
    /// At most that of the moment of the rows.
    row: HeadRow,
    known: KnownRows,
    /// The keys that the caller has asked for.
    asked: Vec<Vec<u8>>,
}

impl RowSnapshot {
    /// Takes a snapshot that holds every commit answered `Ok` before.
    ///
    /// # Errors
    /// If the cluster does not answer.
    pub(crate) fn take(
        shared: Arc<Shared>,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<RowSnapshot, StoreError> {
        reads::await_certainty(&shared, partition)?;
        let (row, known) = match shared.cached(partition, ahead) {
            Some(found) => found,
            None => show(&shared, partition, &ahead.keys, &ahead.links)?,
        };
        Ok(RowSnapshot {
            shared,
            partition,
            state: Mutex::new(State {
                row,
                known,
                asked: Vec::new(),
            }),
            whole: OnceLock::new(),
        })
    }

    fn changed_meanwhile(&self) -> StoreError {
        self.shared.unavailable(format!(
            "{} has changed while it was read",
            name_of(self.partition)
        ))
    }

    /// Reads rows that are not known yet.
    fn read_on(&self, state: &mut State, keys: &[&[u8]]) -> Result<(), StoreError> {
        let mut all = state.asked.clone();
        all.extend(keys.iter().map(|key| key.to_vec()));
        let (row, found) = show(&self.shared, self.partition, &all, &[])?;
        let is_same = |key: &Vec<u8>| found.get(key) == state.known.get(key);
        if !state.asked.iter().all(is_same) {
            return Err(self.changed_meanwhile());
        }
        // Rows that were not asked for may have changed.
        state.known = found;
        state.row = row;
        Ok(())
    }

    /// Returns the whole partition, if it is the one of the head.
    fn whole(&self) -> Result<&PostgresSnapshot, StoreError> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let whole = PostgresSnapshot::take(self.shared.clone(), self.partition)?;
        if whole.head() != self.head() {
            return Err(self.changed_meanwhile());
        }
        Ok(self.whole.get_or_init(|| whole))
    }
}

impl Snapshot for RowSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.multi_get(&[key])?.pop().flatten())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut state = lock(&self.state);
        if keys.iter().any(|key| !state.known.contains_key(*key)) {
            self.read_on(&mut state, keys)?;
        }
        state.asked.extend(keys.iter().map(|key| key.to_vec()));
        let value = |key: &&[u8]| state.known.get(*key).cloned().flatten();
        Ok(keys.iter().map(value).collect())
    }

    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_> {
        match self.whole() {
            Ok(whole) => whole.scan(range, direction),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn head(&self) -> Head {
        let row = lock(&self.state).row;
        match row.state {
            // A removal counts from its first step on.
            DESTROYING => Head::default(),
            _ => row.head(),
        }
    }
}

/// Reads rows into the cache, unless they are there.
///
/// # Errors
/// If the cluster does not answer.
pub(crate) fn read_ahead(
    shared: &Shared,
    partition: PartitionId,
    ahead: &ReadAhead,
) -> Result<(), StoreError> {
    if shared.cached(partition, ahead).is_none() {
        read(shared, partition, &ahead.keys, &ahead.links)?;
    }
    Ok(())
}

/// Reads rows that a caller is shown.
fn show(
    shared: &Shared,
    partition: PartitionId,
    keys: &[Vec<u8>],
    links: &[Link],
) -> Result<(HeadRow, KnownRows), StoreError> {
    let (row, found) = read(shared, partition, keys, links)?;
    reads::note_shown(shared, &[partition], &[row])?;
    Ok((row, found))
}

/// Reads rows by one statement, and keeps them in the cache if they are the newest durable ones.
fn read(
    shared: &Shared,
    partition: PartitionId,
    keys: &[Vec<u8>],
    links: &[Link],
) -> Result<(HeadRow, KnownRows), StoreError> {
    let known = shared.known_of(&[partition]);
    let found = async {
        let turn = match reads::turn(shared).await? {
            Turn::Place(place) => (place, None),
            Turn::Open(open) => (open.place, Some(open.session)),
        };
        let asked = reads::ask_primary(shared, &known, turn, async |session, is_open| {
            let (row, found) = rows_on(session, partition, keys, links, is_open).await?;
            Ok((vec![row], found))
        });
        let asked = asked.await?;
        asked.place.give_back(asked.session);
        Ok((asked.rows, (asked.answer, asked.begun)))
    };
    let (rows, (found, begun)) = reads::wait_for(shared, &[partition], found)?;
    let found = found.map_err(|reason| shared.unavailable(reason))?;
    let found = complete(keys, links, found);
    let row = rows[0];
    if row.state == DESTROYING {
        let none = keys.iter().map(|key| (key.clone(), None)).collect();
        return Ok((row, none));
    }
    shared.keep(partition, row, &found, begun);
    Ok((row, found))
}

/// Adds the keys that have no row, the linked ones among them.
fn complete(keys: &[Vec<u8>], links: &[Link], mut found: KnownRows) -> KnownRows {
    for link in links {
        if let Some(Some(value)) = found.get(&link.from) {
            let key = [&link.prefix, &value[..]].concat();
            found.entry(key).or_insert(None);
        }
    }
    for key in keys {
        found.entry(key.clone()).or_insert(None);
    }
    found
}

/// Sends the statement, after the end of a transaction that is open, in one round trip.
async fn rows_on(
    session: &Session,
    partition: PartitionId,
    keys: &[Vec<u8>],
    links: &[Link],
    in_transaction: bool,
) -> Result<(HeadRow, Result<KnownRows, String>), tokio_postgres::Error> {
    let end = async {
        match in_transaction {
            true => session.client.batch_execute("COMMIT").await,
            false => Ok(()),
        }
    };
    let number = partition.0 as i64;
    let from: Vec<&[u8]> = links.iter().map(|link| link.from.as_slice()).collect();
    let prefixes: Vec<&[u8]> = links.iter().map(|link| link.prefix.as_slice()).collect();
    let parameters: [&(dyn ToSql + Sync); 4] = [&number, &keys, &from, &prefixes];
    let query = session.client.query(&session.statements.rows, &parameters);
    // The first poll of each sends it, so the order here is the order at the server.
    let ((), rows) = tokio::try_join!(biased; end, query)?;

    let mut head = HeadRow::default();
    let mut found = KnownRows::with_capacity(rows.len());
    for row in &rows {
        let key: Option<&[u8]> = row.try_get(KEY_COLUMN)?;
        if key.is_none() {
            head = head_row(row)?;
            continue;
        }
        match pair(row, KEY_COLUMN) {
            Ok((key, value)) => found.insert(key.to_vec(), Some(value)),
            Err(reason) => return Ok((head, Err(reason))),
        };
    }
    Ok((head, Ok(found)))
}
