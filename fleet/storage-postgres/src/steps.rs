//! Steps of one partition at the server: its opening and its removal, and the look-up of a
//! transaction that was not answered.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_storage::{CommitOutcome, Lease, PartitionId};
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::connector::{Session, explain};
use crate::head::{DESTROYING, HeadRow, LOST};
use crate::history::{self, Opening};
use crate::identity::name_of;
use crate::partitions::CommitWork;
use crate::pool::{Place, Pool};
use crate::schema;
use crate::statements::head_row;
use crate::store::{RETRY_MS, Shared};

/// The pause between two attempts to reach a server.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The time between two looks whether the wait for a connection is over.
const LOOK: Duration = Duration::from_millis(250);
/// The time for the deletion of all rows of a partition.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(3_600);
/// The length of a key above all keys.
const ABOVE_ALL_KEYS: usize = 2_049;

/// A statement that changes a head and returns its row. Repeating it does no harm.
#[derive(Clone, Copy)]
enum Step {
    /// Raises the epoch; creates the partition if there is none.
    Open,
    /// Raises the epoch of a partition that exists, if the row is still in this epoch.
    Raise { incarnation: u64, epoch: u64 },
    /// Makes the partition read-only under this epoch.
    MarkLost(u64),
    /// Starts the removal of the partition.
    StartDestroy,
    /// Completes the removal that was started under this epoch.
    Destroy(u64),
}

/// The row after a step, and the openings of the partition if the step is one.
type Found = (HeadRow, Vec<Opening>);

/// Returns the outcome of a commit that was not sent, because the cluster is away.
pub(crate) fn unavailable() -> CommitOutcome {
    CommitOutcome::Unavailable {
        retry_after_ms: RETRY_MS,
    }
}

/// Waits for a connection to the primary: for the time of a commit at most, and shorter while the
/// cluster is away.
pub(crate) async fn session(shared: &Shared) -> Result<(Place, Session), String> {
    session_of(shared, &shared.writers, false).await
}

/// Waits for a connection of a pool, for the time of a commit at most. A caller that `is_patient`
/// waits for that time also while the cluster is away.
async fn session_of(
    shared: &Shared,
    pool: &Arc<Pool>,
    is_patient: bool,
) -> Result<(Place, Session), String> {
    let connector = &shared.connector;
    let limit = connector.config.commit_timeout();
    let began = Instant::now();
    let is_over = || {
        let waited = began.elapsed();
        waited > limit || (!is_patient && connector.outage.is_over(waited))
    };
    let mut turn = pin!(pool.place());
    let place = loop {
        match tokio::time::timeout(LOOK.min(limit), &mut turn).await {
            Ok(place) => break place?,
            Err(_) if is_over() => {
                let ms = began.elapsed().as_millis();
                let reason = connector.failure();
                let reason = reason.map_or(String::new(), |failure| format!(": {failure}"));
                return Err(format!("no connection was free for {ms} ms{reason}"));
            }
            Err(_) => {}
        }
    };
    loop {
        match place.session().await {
            Ok(session) => return Ok((place, session)),
            Err(reason) if is_over() => return Err(reason),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Finds out whether a transaction took place: under a newer epoch, so that it cannot take place
/// afterwards. The lease is over in any case.
pub(crate) async fn resolve(shared: &Shared, work: &CommitWork, why: &str) -> CommitOutcome {
    let id = work.id;
    let name = name_of(id);
    log::warn!("{name}: the outcome of a commit is unknown: {why}");
    shared.connector.search_for_commits(why);
    // Nothing more is accepted, and nothing that waits is sent.
    shared.partitions().end_lease(id);
    // The primary may show the rows although no standby has them.
    shared.partitions().set_in_doubt(id, true);
    // Without an answer the partition stays in doubt until the next open.
    let raise = Step::Raise {
        incarnation: work.from.incarnation,
        epoch: work.from.epoch,
    };
    let (row, openings) = match perform(shared, id, raise).await {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) => return CommitOutcome::Unknown,
    };
    shared.partitions().set_in_doubt(id, false);
    // The head is that of this history only if no commits were lost before.
    let opener = shared.partitions().opener(id);
    if history::is_overtaken(&work.from, opener, &openings) {
        return CommitOutcome::Unknown;
    }
    // The row of the store says more than the head can: another owner may have moved the head, or
    // commits were lost. The caller looks at its own record then.
    if row.is_older_than(&work.from) || row.incarnation != work.from.incarnation {
        return CommitOutcome::Unknown;
    }
    if row.head() == work.to.head() {
        shared.note_durable(id, row);
        shared.partitions().note_openings(id, openings);
        return CommitOutcome::Ok;
    }
    if row.head() == work.from.head() {
        shared.note_durable(id, row);
        shared.partitions().note_openings(id, openings);
        return CommitOutcome::Fenced;
    }
    CommitOutcome::Unknown
}

/// Opens a partition under a new epoch.
pub(crate) async fn open(shared: &Shared, id: PartitionId) -> Result<Lease, String> {
    loop {
        let (known, opener, told) = {
            let partitions = shared.partitions();
            (
                partitions.durable(id),
                partitions.opener(id),
                partitions.told(id),
            )
        };
        let Some((mut row, openings)) = perform(shared, id, Step::Open).await? else {
            return Err(format!("{} could not be opened", name_of(id)));
        };
        // Another process, or a crash, has left a removal unfinished.
        if row.state == DESTROYING {
            perform(shared, id, Step::Destroy(row.epoch)).await?;
            continue;
        }
        // An epoch that is not newer than one of before shows that the server forgot it.
        let least = HeadRow {
            epoch: known.epoch + 1,
            ..known
        };
        let mut is_older =
            row.is_older_than(&least) || history::is_overtaken(&known, opener, &openings);
        // Another process may know more than this one.
        let mut newest = known;
        if let Some(told) = told
            && (row.is_older_than(&told.row)
                || history::is_overtaken(&told.row, told.opener, &openings))
        {
            (is_older, newest) = (true, told.row);
        }
        let mut loss = None;
        if is_older || row.state == LOST {
            loss = Some(describe_loss(shared, id, &newest, &row));
        }
        if is_older {
            row.epoch = known.epoch.max(newest.epoch).max(row.epoch) + 1;
            log::error!("{}", loss.as_deref().unwrap_or_default());
            // The mark stays when this process ends; without the mark this process still refuses.
            perform(shared, id, Step::MarkLost(row.epoch)).await?;
        }
        shared.note_epoch(id, row, loss);
        let is_told_more = {
            let mut partitions = shared.partitions();
            partitions.note_openings(id, openings);
            partitions.end_told(id, told)
        };
        if !is_told_more {
            return Ok(Lease::new(id, row.epoch, row.head()));
        }
    }
}

fn describe_loss(shared: &Shared, id: PartitionId, known: &HeadRow, row: &HeadRow) -> String {
    let config = &shared.connector.config;
    let what = match known.epoch {
        // Only the mark of an earlier process tells.
        0 => format!(
            "an earlier process has found that, and its head is {} now",
            row.lsn
        ),
        _ => format!(
            "its head is {} in epoch {}, and {} in epoch {} was durable",
            row.lsn, row.epoch, known.lsn, known.epoch
        ),
    };
    format!(
        "the cluster '{}' has lost acknowledged commits of {}: {what}; it can only be read. \
         Restore the cluster, or accept the loss with: UPDATE {}.head SET state = 0 WHERE p = {}",
        config.name,
        name_of(id),
        config.schema,
        id.0 as i64
    )
}

/// Removes a partition.
pub(crate) async fn destroy(shared: &Shared, id: PartitionId) -> Result<(), String> {
    let Some((row, _)) = perform(shared, id, Step::StartDestroy).await? else {
        return Ok(());
    };
    shared.note_epoch(id, row, None);
    shared.partitions().end_lease(id);
    perform(shared, id, Step::Destroy(row.epoch)).await?;
    Ok(())
}

/// Completes a removal that an earlier process has started.
pub(crate) async fn complete_removal(shared: Arc<Shared>, id: PartitionId, epoch: u64) {
    if let Err(reason) = perform(&shared, id, Step::Destroy(epoch)).await {
        log::warn!("the removal of {} is not complete: {reason}", name_of(id));
    }
}

/// Performs a step on the primary, again if a server does not answer.
async fn perform(shared: &Shared, id: PartitionId, step: Step) -> Result<Option<Found>, String> {
    // One number for all attempts, which are one opening.
    let opener = history::new_opener();
    let limit = match step {
        Step::Destroy(_) => DESTROY_TIMEOUT,
        _ => shared.connector.config.commit_timeout(),
    };
    let deadline = Instant::now() + shared.connector.config.commit_timeout();
    // Removals take long, and commits do not wait for them.
    let pool = match step {
        Step::Destroy(_) => &shared.removers,
        _ => &shared.writers,
    };
    // A caller that opens the partition repeats that. An outcome that was not found out stays
    // unknown, and a removal that was begun waits for the next start.
    let is_patient = !matches!(step, Step::Open);
    loop {
        let (place, session) = session_of(shared, pool, is_patient).await?;
        session.take_warnings();
        let answer = tokio::time::timeout(limit, perform_on(&session, id, step, &opener)).await;
        let warnings = session.take_warnings();
        let host = session.host;
        let reason = match answer {
            // With a warning the change may be on this server only.
            Ok(Ok(_)) if !warnings.is_empty() => warnings.join("; "),
            Ok(Ok(row)) => {
                place.give_back(session);
                return Ok(row);
            }
            Ok(Err(error)) if is_lost_race(&error) && Instant::now() < deadline => {
                place.give_back(session);
                drop(place);
                tokio::time::sleep(PAUSE / 10).await;
                continue;
            }
            Ok(Err(error)) if is_refusal(&error) => {
                session.mark_broken();
                let detail = explain(&error);
                return Err(match error.code() {
                    Some(code) if *code == SqlState::DIVISION_BY_ZERO => {
                        schema::changed_format(&shared.connector.config.schema)
                    }
                    Some(code) => shared.connector.note_refusal(code, &detail),
                    None => detail,
                });
            }
            Ok(Err(error)) => explain(&error),
            Err(_) => format!("no answer within {} ms", limit.as_millis()),
        };
        session.mark_broken();
        drop((session, place));
        shared.connector.suspect(host);
        if Instant::now() > deadline {
            let address = &shared.connector.config.hosts[host].address;
            return Err(format!("{address}: {reason}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns true if the server undid the step because of another transaction.
fn is_lost_race(error: &tokio_postgres::Error) -> bool {
    let code = error.code().map(SqlState::code);
    code.is_some_and(|code| code == "40001" || code == "40P01")
}

/// Returns true if no other attempt can succeed.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        None => false,
        // Lost races, and servers that are not the primary or are being shut down.
        Some(code) => {
            let class = &code.code()[..2];
            *code != SqlState::READ_ONLY_SQL_TRANSACTION && !matches!(class, "40" | "57" | "08")
        }
    }
}

async fn perform_on(
    session: &Session,
    id: PartitionId,
    step: Step,
    opener: &[u8],
) -> Result<Option<Found>, tokio_postgres::Error> {
    let (client, statements) = (&session.client, &session.statements);
    let (number, no_token) = (id.0 as i64, [0u8; 16].as_slice());
    let row = match step {
        Step::Open => {
            let parameters: [&(dyn ToSql + Sync); 2] = [&number, &no_token];
            return open_on(session, &number, &statements.open, &parameters, opener).await;
        }
        Step::Raise { incarnation, epoch } => {
            let (incarnation, epoch) = (incarnation as i64, epoch as i64);
            let parameters: [&(dyn ToSql + Sync); 3] = [&number, &incarnation, &epoch];
            return open_on(session, &number, &statements.raise, &parameters, opener).await;
        }
        Step::StartDestroy => {
            let parameters: [&(dyn ToSql + Sync); 2] = [&number, &no_token];
            client
                .query_opt(&statements.start_destroy, &parameters)
                .await?
        }
        Step::MarkLost(epoch) => {
            let epoch = epoch as i64;
            client
                .execute(&statements.mark_lost, &[&number, &epoch])
                .await?;
            None
        }
        Step::Destroy(epoch) => {
            delete_rows(session, id, epoch as i64).await?;
            None
        }
    };
    let row = row.as_ref().map(head_row).transpose()?;
    Ok(row.map(|row| (row, Vec::new())))
}

/// Runs a statement that raises the epoch, and records the opening, as one transaction in one round
/// trip. If `BEGIN` fails, the statements are transactions of their own, which does no harm.
async fn open_on(
    session: &Session,
    number: &i64,
    statement: &Statement,
    parameters: &[&(dyn ToSql + Sync)],
    opener: &[u8],
) -> Result<Option<Found>, tokio_postgres::Error> {
    let (client, statements) = (&session.client, &session.statements);
    let record: [&(dyn ToSql + Sync); 2] = [number, &opener];
    let partition: [&(dyn ToSql + Sync); 1] = [number];
    // The first poll of each sends it, so the order here is the order at the server.
    let (_, _, row, _, _, openings, _) = tokio::try_join!(
        biased;
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
        // Another program may have changed the tables since this connection was made.
        client.query(&statements.format, &[]),
        client.query_opt(statement, parameters),
        client.execute(&statements.record, &record),
        client.execute(&statements.forget, &partition),
        client.query(&statements.openings, &partition),
        client.batch_execute("COMMIT"),
    )?;
    let Some(row) = row else { return Ok(None) };
    let openings: Result<Vec<_>, _> = openings.iter().map(Opening::of).collect();
    Ok(Some((head_row(&row)?, openings?)))
}

/// Deletes the rows of a partition in pieces, while its removal is the one of this epoch.
async fn delete_rows(
    session: &Session,
    id: PartitionId,
    epoch: i64,
) -> Result<(), tokio_postgres::Error> {
    let (client, statements, number) = (&session.client, &session.statements, id.0 as i64);
    let mut start = Vec::new();
    loop {
        let last = client
            .query_opt(&statements.destroy_until, &[&number, &start])
            .await?;
        let end: Option<Vec<u8>> = last.map(|row| row.try_get(0)).transpose()?;
        let is_last = end.is_none();
        let end = end.unwrap_or_else(|| vec![0xff; ABOVE_ALL_KEYS]);
        client
            .execute(&statements.destroy_piece, &[&number, &epoch, &start, &end])
            .await?;
        if is_last {
            break;
        }
        start = end;
    }
    client
        .execute(&statements.end_destroy, &[&number, &epoch])
        .await?;
    Ok(())
}
