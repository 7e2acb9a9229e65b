//! Reads from the primary: the wait of a caller for its turn and its answer, and the check that the
//! server has all commits that are known to be durable.

use std::future::Future;
use std::time::Instant;

use orrery_storage::{PartitionId, StoreError};

use crate::connector::{Session, explain};
use crate::head::{HeadRow, LOST};
use crate::identity::name_of;
use crate::pool::{Place, Turn};
use crate::store::Shared;
use crate::wait::block_on_unless;

/// The answer of a primary.
pub(crate) struct Asked<T> {
    pub(crate) place: Place,
    pub(crate) session: Session,
    /// The heads of the partitions, as the answer shows them.
    pub(crate) rows: Vec<HeadRow>,
    pub(crate) answer: T,
    /// Before the server was asked.
    pub(crate) begun: Instant,
}

/// Waits while the outcome of the last transaction of a partition is unknown: rows that may still
/// be lost are not shown.
///
/// # Errors
/// If the outcome stays unknown.
pub(crate) fn await_certainty(shared: &Shared, partition: PartitionId) -> Result<(), StoreError> {
    if !shared.partitions().is_in_doubt(partition) {
        return Ok(());
    }
    let limit = shared.connector.config.read_timeout() / 2;
    let is_over = |waited| shared.is_over(waited);
    block_on_unless(certainty(shared, partition), limit, is_over).ok_or_else(|| {
        shared.unavailable(format!(
            "{} cannot be read: the outcome of its last commit is not known yet",
            name_of(partition)
        ))
    })
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

/// Waits for a read of these partitions, of which there is at least one.
///
/// # Errors
/// If the read fails or takes too long.
pub(crate) fn wait_for<T>(
    shared: &Shared,
    partitions: &[PartitionId],
    read: impl Future<Output = Result<(Vec<HeadRow>, T), String>>,
) -> Result<(Vec<HeadRow>, T), StoreError> {
    let limit = shared.connector.config.read_timeout();
    let is_over = |waited| shared.connector.outage.is_over(waited);
    match block_on_unless(read, limit, is_over) {
        Some(Ok(found)) => Ok(found),
        Some(Err(detail)) => Err(shared.unavailable(detail)),
        None => {
            let reason = shared.connector.failure().unwrap_or_else(|| {
                let most = shared.connector.config.read_connections;
                format!("all {most} connections that read are in use, or a server does not answer")
            });
            Err(shared.unavailable(format!(
                "no snapshot of {} could be taken within {} ms: {reason}",
                name_of(partitions[0]),
                limit.as_millis(),
            )))
        }
    }
}

/// Notes the heads of partitions that a caller is shown.
///
/// # Errors
/// If the outcome of a commit became unknown meanwhile.
pub(crate) fn note_shown(
    shared: &Shared,
    partitions: &[PartitionId],
    rows: &[HeadRow],
) -> Result<(), StoreError> {
    let mut states = shared.partitions();
    for (&partition, &row) in partitions.iter().zip(rows) {
        states.note_shown(partition, row);
        if states.is_in_doubt(partition) {
            return Err(shared.unavailable(format!(
                "{} cannot be read: the outcome of a commit became unknown",
                name_of(partition)
            )));
        }
    }
    Ok(())
}

/// Waits for the right to a connection. If all connections are in use, callers take turns in the
/// order of their requests, with the connections of idle snapshots first.
///
/// # Errors
/// If the store was closed.
pub(crate) async fn turn(shared: &Shared) -> Result<Turn, String> {
    match shared.readers.ask() {
        Ok(place) => Ok(Turn::Place(place)),
        Err(waiting) => {
            shared.serve_waiting();
            waiting.turn().await
        }
    }
}

/// Asks the primary for the heads of partitions and more, on another connection after each failure,
/// until the answer shows what is known to be durable. The first connection may be one that is kept
/// with an open transaction: `ask` then gets true, and ends the transaction first.
///
/// # Errors
/// A sentence with the reason of the last failure.
pub(crate) async fn ask_primary<T>(
    shared: &Shared,
    known: &[(PartitionId, HeadRow)],
    (place, mut kept): (Place, Option<Session>),
    ask: impl AsyncFn(&Session, bool) -> Result<(Vec<HeadRow>, T), tokio_postgres::Error>,
) -> Result<Asked<T>, String> {
    let limit = shared.connector.config.read_timeout() / 2;
    let started = Instant::now();
    let is_behind = |(row, (_, known)): (&HeadRow, &(PartitionId, HeadRow))| {
        row.state != LOST && row.is_older_than(known)
    };
    loop {
        let (session, in_transaction) = match kept.take() {
            Some(session) if shared.connector.is_trusted(&session) => (session, true),
            _ => (place.session().await?, false),
        };
        let begun = Instant::now();
        let asked = session.run(ask(&session, in_transaction)).await;
        let reason = match asked {
            // An old primary answers reads until it notices that it was replaced.
            Ok((rows, _)) if rows.iter().zip(known).any(is_behind) => {
                shared.connector.suspect(session.host);
                "it has not the commits that were acknowledged before".to_owned()
            }
            Ok((rows, answer)) => {
                return Ok(Asked {
                    place,
                    session,
                    rows,
                    answer,
                    begun,
                });
            }
            Err(error) => explain(&error),
        };
        session.mark_broken();
        if started.elapsed() > limit || shared.connector.outage.is_over(started.elapsed()) {
            let host = &shared.connector.config.hosts[session.host].address;
            return Err(format!("{host} gave no snapshot: {reason}"));
        }
    }
}
