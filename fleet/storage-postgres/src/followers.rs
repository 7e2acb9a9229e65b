//! Reads from standbys: a snapshot is a transaction on a server in recovery.
//!
//! A standby applies the log of the primary in order, and every commit of a partition rewrites its
//! head, so a transaction sees a partition after one of its commits, with nothing missing. The head
//! is read in the same transaction. A standby may end a transaction whose old rows it has to
//! remove; the read then fails and may be tried again.
//!
//! Partitions that are read together are read in one transaction, so they show one moment.
//!
//! With `follower_delay_ms` the store serves transactions that have been open for that long. Such
//! transactions are kept ready while followers are read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use orrery_model::sync::lock;
use orrery_storage::{FollowerLag, PartitionId, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::ToSql;

use crate::config::ClusterConfig;
use crate::connector::{Connector, Purpose, Session, explain};
use crate::head::{DESTROYING, HeadRow};
use crate::idle::end;
use crate::pool::{OpenSnapshot, Pool};
use crate::snapshot::PostgresSnapshot;
use crate::statements::head_row;
use crate::store::Shared;
use crate::wait::block_on;

/// The time after which a server that gave no snapshot is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The time for the question how far a standby is behind.
const LAG_TIMEOUT: Duration = Duration::from_secs(2);
/// The transactions that are started within one delay.
const STEPS: u32 = 4;
/// The least time between two such transactions.
const LEAST_STEP: Duration = Duration::from_millis(5);
/// The time without a reader after which no transactions are kept ready, beside two delays.
const UNUSED: Duration = Duration::from_secs(10);

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_is_in_recovery()";

/// The servers of a cluster as standbys.
pub(crate) struct Followers {
    hosts: Vec<Host>,
    /// The server that is asked first by the next caller, so that callers spread.
    next: AtomicUsize,
    delay: Duration,
    /// There while a delay is wanted and callers ask.
    line: Mutex<Option<Line>>,
    /// Told when the line changes.
    changed: Notify,
}

struct Host {
    pool: Arc<Pool>,
    /// The moment at which the server last gave no snapshot.
    failed: Mutex<Option<Instant>>,
}

impl Host {
    fn has_failed(&self) -> bool {
        lock(&self.failed).is_some()
    }

    /// Returns true after the pause, to one caller.
    fn may_be_tried(&self) -> bool {
        let mut failed = lock(&self.failed);
        let may = failed.is_some_and(|at| at.elapsed() >= PAUSE);
        if may {
            *failed = Some(Instant::now());
        }
        may
    }
}

/// The transactions that are kept ready, the oldest first.
struct Line {
    transactions: Vec<Arc<FollowerTransaction>>,
    /// The moment at which a caller last asked.
    used: Instant,
}

/// An open transaction on a standby, which ends with its last reader.
pub(crate) struct FollowerTransaction {
    /// There until the transaction is dropped.
    open: Option<OpenSnapshot>,
    runtime: Handle,
    limit: Duration,
}

impl FollowerTransaction {
    pub(crate) fn open(&self) -> Option<&OpenSnapshot> {
        self.open.as_ref()
    }

    /// Returns true if the transaction shows a state that is at least this old.
    fn is_old(&self, delay: Duration) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.session.is_usable() && open.seen.elapsed() >= delay)
    }
}

impl Drop for FollowerTransaction {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            end(&self.runtime, self.limit, open);
        }
    }
}

/// Returns the number of the last commit that a row shows. A removal counts from its first step on.
fn shown(row: &HeadRow) -> u64 {
    match row.state {
        DESTROYING => 0,
        _ => row.lsn,
    }
}

impl Followers {
    pub(crate) fn new(connector: &Arc<Connector>, config: &ClusterConfig) -> Followers {
        let most = config.read_connections;
        let host = |host| Host {
            pool: Pool::new(connector.clone(), Purpose::Follow(host), most),
            failed: Mutex::new(None),
        };
        Followers {
            hosts: (0..config.hosts.len()).map(host).collect(),
            next: AtomicUsize::new(0),
            delay: Duration::from_millis(config.follower_delay_ms),
            line: Mutex::new(None),
            changed: Notify::new(),
        }
    }

    /// Returns true if the cluster may have a standby.
    pub(crate) fn are_possible(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Ends all transactions that are kept ready.
    pub(crate) fn close(&self) {
        lock(&self.line).take();
    }

    /// Notes a caller, and returns the newest transaction that is old enough, or the moment at
    /// which there is one. The last result is true if a keeper must be started.
    fn look(&self) -> (Option<Arc<FollowerTransaction>>, Option<Instant>, bool) {
        let mut kept = lock(&self.line);
        let is_new = kept.is_none();
        let line = kept.get_or_insert_with(|| Line {
            transactions: Vec::new(),
            used: Instant::now(),
        });
        line.used = Instant::now();
        let mut from_the_newest = line.transactions.iter().rev();
        let old = from_the_newest.find(|transaction| transaction.is_old(self.delay));
        let oldest = line.transactions.iter().find_map(|transaction| {
            let open = transaction.open.as_ref()?;
            open.session.is_usable().then_some(open.seen + self.delay)
        });
        (old.cloned(), oldest, is_new)
    }

    /// Adds a transaction to the line, and removes those of no more use. Returns false if the line
    /// has ended.
    fn extend(&self, next: Option<Arc<FollowerTransaction>>) -> bool {
        let mut kept = lock(&self.line);
        let Some(line) = kept.as_mut() else {
            return false;
        };
        let is_used = line.used.elapsed() < self.delay * 2 + UNUSED;
        match next {
            Some(next) if is_used => line.transactions.push(next),
            _ => {
                *kept = None;
                return false;
            }
        }
        // The newest that is old enough serves all callers; older ones are of no use.
        let newest = line
            .transactions
            .iter()
            .rposition(|transaction| transaction.is_old(self.delay));
        line.transactions.drain(..newest.unwrap_or(0));
        true
    }
}

/// A partition, and the least commit that a snapshot of it must have.
pub(crate) type Wanted = (PartitionId, u64);
/// A transaction on a standby, with the heads of the wanted partitions in it.
type Found = (Arc<FollowerTransaction>, Vec<HeadRow>);

/// Returns partitions as one standby has them at one moment; `None` if no standby has all of the
/// wanted commits.
pub(crate) fn snapshots(
    shared: &Arc<Shared>,
    wanted: &[Wanted],
) -> Result<Option<Vec<PostgresSnapshot>>, StoreError> {
    if !shared.followers.are_possible() {
        return Ok(None);
    }
    let (delay, limit) = (
        shared.followers.delay,
        shared.connector.config.read_timeout(),
    );
    let (this, partitions) = (shared.clone(), wanted.to_vec());
    // On the store's own threads, which have timers.
    let found = shared.runtime.spawn(async move {
        match delay.is_zero() {
            true => find(&this, &partitions).await,
            false => delayed(&this, &partitions).await,
        }
    });
    let Some(Ok(found)) = block_on(found, limit + delay) else {
        return Err(shared.unavailable(format!(
            "no standby gave a snapshot within {} ms",
            (limit + delay).as_millis()
        )));
    };
    let Some((transaction, rows)) = found else {
        return Ok(None);
    };
    let mut snapshots = Vec::with_capacity(rows.len());
    for (&(id, _), row) in wanted.iter().zip(rows) {
        let transaction = transaction.clone();
        let snapshot = PostgresSnapshot::of_follower(shared.clone(), id, row, transaction);
        snapshots.push(snapshot);
    }
    Ok(Some(snapshots))
}

/// Starts a transaction on a standby that has the wanted commits.
async fn find(shared: &Arc<Shared>, wanted: &[Wanted]) -> Option<Found> {
    let followers = &shared.followers;
    let first = followers.next.fetch_add(1, Ordering::Relaxed);
    let limit = shared.connector.config.read_timeout();
    for at in 0..followers.hosts.len() {
        let number = (first + at) % followers.hosts.len();
        let host = &followers.hosts[number];
        // Callers do not wait for a standby that is busy: there is the primary.
        let Some(place) = host.pool.free_place() else {
            continue;
        };
        if host.has_failed() {
            // One caller tries the server again, and does not wait for that either.
            if host.may_be_tried() {
                let shared = shared.clone();
                shared.runtime.clone().spawn(async move {
                    if let Ok(session) = place.session().await {
                        place.give_back(session);
                        *lock(&shared.followers.hosts[number].failed) = None;
                    }
                });
            }
            continue;
        }
        let Ok(session) = place.session().await else {
            *lock(&host.failed) = Some(Instant::now());
            continue;
        };
        let begun = Instant::now();
        let answer = tokio::time::timeout(limit, session.run(begin_on(&session, wanted))).await;
        let Ok(Ok(Some(rows))) = answer else {
            session.mark_broken();
            *lock(&host.failed) = Some(Instant::now());
            continue;
        };
        let transaction = FollowerTransaction {
            open: Some(OpenSnapshot {
                place,
                session,
                partition: None,
                row: HeadRow::default(),
                begun,
                seen: Instant::now(),
            }),
            runtime: shared.runtime.clone(),
            limit,
        };
        if are_shown(shared, wanted, &rows) {
            return Some((Arc::new(transaction), rows));
        }
    }
    None
}

/// Returns true if rows of a standby show the wanted commits.
fn are_shown(shared: &Shared, wanted: &[Wanted], rows: &[HeadRow]) -> bool {
    let mut both = wanted.iter().zip(rows);
    both.all(|((id, at_least), row)| {
        shown(row) >= *at_least && is_of_history(&shared.known(*id), row)
    })
}

/// Returns false if a row of a standby is of another history than `known`, a row that was durable:
/// of a partition that was destroyed since, or of a server that has not noticed a loss.
fn is_of_history(known: &HeadRow, row: &HeadRow) -> bool {
    let is_forked = row.lsn == known.lsn && row.token != known.token;
    row.incarnation > known.incarnation || (row.incarnation == known.incarnation && !is_forked)
}

/// Starts a transaction and reads heads in one round trip; `None` if the server is no standby.
async fn begin_on(
    session: &Session,
    wanted: &[Wanted],
) -> Result<Option<Vec<HeadRow>>, tokio_postgres::Error> {
    let (messages, rows) = tokio::try_join!(
        biased;
        session.client.simple_query(BEGIN),
        heads(session, wanted),
    )?;
    Ok((first_row(&messages) == ["t"]).then_some(rows))
}

/// Reads the heads of partitions in a transaction. A partition without a row never had a commit.
async fn heads(
    session: &Session,
    wanted: &[Wanted],
) -> Result<Vec<HeadRow>, tokio_postgres::Error> {
    let read = async |id: PartitionId| {
        let number = id.0 as i64;
        let parameters: [&(dyn ToSql + Sync); 1] = [&number];
        let head = &session.statements.head;
        let row = session.client.query_opt(head, &parameters).await?;
        row.map_or(Ok(HeadRow::default()), |row| head_row(&row))
    };
    try_join_all(wanted.iter().map(|(id, _)| read(*id))).await
}

/// Returns the columns of the first row of an answer as text.
fn first_row(messages: &[SimpleQueryMessage]) -> Vec<&str> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.map_or_else(Vec::new, |row| {
        (0..row.len())
            .map(|column| row.get(column).unwrap_or_default())
            .collect()
    })
}

/// Waits for a transaction that is old enough.
async fn delayed(shared: &Arc<Shared>, wanted: &[Wanted]) -> Option<Found> {
    let mut is_first = true;
    let found = loop {
        // Made before the look, so that no change between the look and the wait is missed.
        let changed = shared.followers.changed.notified();
        let (found, next, is_new) = shared.followers.look();
        if is_new && is_first {
            shared.runtime.spawn(keep_line(shared.clone()));
        } else if is_new {
            // The keeper has found no standby.
            shared.followers.extend(None);
            shared.followers.changed.notify_waiters();
            return None;
        }
        is_first = false;
        if let Some(found) = found {
            break found;
        }
        match next {
            Some(next) => tokio::time::sleep_until(next.into()).await,
            None => changed.await,
        }
    };
    let session = &found.open()?.session;
    let limit = shared.connector.config.read_timeout();
    let answer = tokio::time::timeout(limit, session.run(heads(session, wanted))).await;
    let Ok(Ok(rows)) = answer else {
        session.mark_broken();
        return None;
    };
    are_shown(shared, wanted, &rows).then_some((found, rows))
}

/// Starts transactions on standbys at regular times, until no caller has asked for a while.
async fn keep_line(shared: Arc<Shared>) {
    loop {
        let next = find(&shared, &[]).await;
        let goes_on = shared
            .followers
            .extend(next.map(|(transaction, _)| transaction));
        shared.followers.changed.notify_waiters();
        if !goes_on {
            return;
        }
        tokio::time::sleep((shared.followers.delay / STEPS).max(LEAST_STEP)).await;
    }
}

/// Returns the distance of each standby that answers from the primary.
pub(crate) fn lag(shared: &Arc<Shared>) -> Vec<FollowerLag> {
    if !shared.followers.are_possible() {
        return Vec::new();
    }
    let this = shared.clone();
    let measured = shared.runtime.spawn(async move {
        let end = tokio::time::timeout(LAG_TIMEOUT, end_of_log(&this)).await;
        let end = end.ok().flatten();
        let mut questions = Vec::new();
        for at in 0..this.followers.hosts.len() {
            let (this, end) = (this.clone(), end.clone());
            questions.push(tokio::spawn(async move {
                let answer = lag_of(&this, at, end.as_deref());
                tokio::time::timeout(LAG_TIMEOUT, answer).await.ok()?
            }));
        }
        let mut lags = Vec::new();
        for question in questions {
            lags.extend(question.await.ok().flatten());
        }
        lags
    });
    let measured = block_on(measured, LAG_TIMEOUT * 3);
    measured.and_then(Result::ok).unwrap_or_default()
}

/// Returns the end of the log of the primary; `None` without a primary.
async fn end_of_log(shared: &Shared) -> Option<String> {
    let place = shared.writers.place().await.ok()?;
    let session = place.session().await.ok()?;
    let question = session.client.simple_query("SELECT pg_current_wal_lsn()");
    let messages = session.run(question).await.ok()?;
    let end = first_row(&messages).first()?.to_string();
    place.give_back(session);
    Some(end)
}

/// Returns the distance of one server from the end of the log; `None` if it is no standby.
async fn lag_of(shared: &Shared, at: usize, end: Option<&str>) -> Option<FollowerLag> {
    let place = shared.followers.hosts[at].pool.free_place()?;
    let session = place.session().await.ok()?;
    let end = end.map_or("NULL".to_owned(), |end| format!("'{end}'"));
    let question = format!(
        "SELECT pg_is_in_recovery(), \
         greatest(pg_wal_lsn_diff(coalesce({end}::pg_lsn, pg_last_wal_receive_lsn()), \
         pg_last_wal_replay_lsn()), 0)::bigint, \
         greatest(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000, \
         0)::bigint"
    );
    let answer = session.run(session.client.simple_query(&question)).await;
    let messages = match answer {
        Ok(messages) => messages,
        Err(error) => {
            log::debug!("a standby does not tell its delay: {}", explain(&error));
            session.mark_broken();
            return None;
        }
    };
    let row = first_row(&messages);
    let ["t", bytes, ms] = row.as_slice() else {
        session.mark_broken();
        return None;
    };
    let bytes: u64 = bytes.parse().ok()?;
    let lag = FollowerLag {
        host: shared.connector.config.hosts[at].address.clone(),
        bytes,
        // Without a new commit the age of the last one says nothing.
        ms: if bytes == 0 {
            0
        } else {
            ms.parse().unwrap_or(0)
        },
    };
    place.give_back(session);
    Some(lag)
}
