//! The commits of one partition or several as one transaction, and what became of it.
//!
//! All statements are sent in one go: each head is moved if it is the expected one, and every other
//! statement changes rows only in partitions whose heads were moved. So a transaction costs one
//! round trip, and a fenced commit changes nothing, whatever becomes of the others.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::maybe_done;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, SimpleQueryMessage, Statement};

use crate::connector::{Session, explain};
use crate::identity::name_of;
use crate::partitions::CommitWork;

/// The fate of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Durable in the partitions with `true`. The heads of the others were not the expected ones,
    /// or among several locked, and nothing was changed there.
    Done(Vec<bool>),
    /// Nothing was changed, and the same transaction may be sent again.
    Repeat,
    /// Nothing was changed: this server takes no writes.
    NotPrimary(String),
    /// Nothing was changed: the disk of the server is full.
    Full(String),
    /// Nothing was changed, for the reason with this code.
    Failed(SqlState, String),
    /// The transaction may or may not take place.
    Unknown(String),
}

/// Runs the transaction that moves the heads of partitions, and changes their rows.
pub(crate) async fn run(session: &Session, works: &[CommitWork], limit: Duration) -> Verdict {
    let sent = listen(session, works);
    let Ok((answers, doubts)) = tokio::time::timeout(limit, sent).await else {
        session.mark_broken();
        return Verdict::Unknown(format!("no answer within {} ms", limit.as_millis()));
    };
    let verdict = judge(answers);
    // A server that gave up waiting for its standbys answers success with a warning.
    if matches!(&verdict, Verdict::Done(moved) if moved.contains(&true)) && !doubts.is_empty() {
        session.mark_broken();
        return Verdict::Unknown(doubts.join("; "));
    }
    if !matches!(verdict, Verdict::Done(_) | Verdict::Repeat) {
        session.mark_broken();
    }
    verdict
}

/// The answers to the statements of a transaction.
struct Answers {
    /// True for each partition whose head was moved.
    moved: Result<Vec<bool>, Error>,
    changes: Result<(), Error>,
    commit: Result<(), Error>,
}

/// Sends all statements, and returns all answers and the warnings that came with `COMMIT`.
async fn listen(session: &Session, works: &[CommitWork]) -> (Answers, Vec<String>) {
    let mut listener = session.listen();
    let (is_at_commit, mut doubts) = (AtomicBool::new(false), Vec::new());
    let mut sent = pin!(send(session, works, &is_at_commit));
    loop {
        let warning = tokio::select! {
            biased;
            answers = &mut sent => return (answers, doubts),
            warning = listener.next() => warning,
        };
        // Answers that came before the warning may lie ready, and none comes until the warning is
        // dropped: after this poll it is certain which statements are answered.
        let answers = poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await;
        match is_at_commit.load(Ordering::Relaxed) {
            true => doubts.push(warning.text.clone()),
            false => log::warn!(
                "{}: a commit had a warning: {}",
                name_of(works[0].id),
                warning.text
            ),
        }
        if let Poll::Ready(answers) = answers {
            return (answers, doubts);
        }
    }
}

/// Sends all statements, and returns all answers. Sets `is_at_commit` when every statement before
/// `COMMIT` is answered.
async fn send(session: &Session, works: &[CommitWork], is_at_commit: &AtomicBool) -> Answers {
    let client = &session.client;
    let move_heads = session.statements.move_heads(works);
    // The first poll of each sends it, so the order here is the order at the server.
    let changes = async {
        let answers = tokio::join!(
            biased;
            client.simple_query(&move_heads),
            delete_all(session, works),
            put_all(session, works),
        );
        is_at_commit.store(true, Ordering::Relaxed);
        answers
    };
    let ((moved, deleted, put), commit) =
        tokio::join!(biased; changes, client.batch_execute("COMMIT"));
    Answers {
        moved: moved.map(|messages| moved_heads(&messages, works)),
        changes: deleted.and(put),
        commit,
    }
}

/// The head of a partition as the statements of a commit compare it.
struct AtHead<'a> {
    number: i64,
    epoch: i64,
    lsn: i64,
    token: &'a [u8],
}

impl<'a> AtHead<'a> {
    fn of(work: &'a CommitWork) -> AtHead<'a> {
        AtHead {
            number: work.id.0 as i64,
            epoch: work.from.epoch as i64,
            lsn: work.to.lsn as i64,
            token: work.to.token.as_slice(),
        }
    }

    /// Runs a statement with lists of keys and values; nothing if the first list is empty.
    async fn execute(
        &self,
        session: &Session,
        statement: &Statement,
        lists: &[&Vec<&[u8]>],
    ) -> Result<(), Error> {
        if lists[0].is_empty() {
            return Ok(());
        }
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&self.number, &self.epoch, &self.lsn, &self.token];
        for list in lists {
            parameters.push(*list);
        }
        let done = session.client.execute(statement, &parameters).await;
        done.map(|_| ())
    }
}

/// Empties the ranges and deletes the keys of each partition: ranges first.
async fn delete_all(session: &Session, works: &[CommitWork]) -> Result<(), Error> {
    let statements = &session.statements;
    let deletions = works.iter().map(|work| async move {
        let head = AtHead::of(work);
        let (starts, ends) = work.batch.ranges();
        let deletes = work.batch.deletes();
        let (range_lists, delete_lists) = ([&starts, &ends], [&deletes]);
        let (emptied, deleted) = tokio::join!(
            biased;
            head.execute(session, &statements.delete_ranges, &range_lists),
            head.execute(session, &statements.delete, &delete_lists),
        );
        emptied.and(deleted)
    });
    in_order(deletions).await
}

/// Writes the rows of all partitions.
async fn put_all(session: &Session, works: &[CommitWork]) -> Result<(), Error> {
    let statements = &session.statements;
    if let [work] = works {
        let (keys, values) = work.batch.puts();
        let head = AtHead::of(work);
        return head
            .execute(session, &statements.put, &[&keys, &values])
            .await;
    }
    let heads: Vec<AtHead<'_>> = works.iter().map(AtHead::of).collect();
    let partitions: Vec<i64> = heads.iter().map(|head| head.number).collect();
    let epochs: Vec<i64> = heads.iter().map(|head| head.epoch).collect();
    let lsns: Vec<i64> = heads.iter().map(|head| head.lsn).collect();
    let tokens: Vec<&[u8]> = heads.iter().map(|head| head.token).collect();
    let (mut numbers, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for work in works {
        let (own_keys, own_values) = work.batch.puts();
        numbers.resize(numbers.len() + own_keys.len(), work.id.0 as i64);
        keys.extend(own_keys);
        values.extend(own_values);
    }
    if keys.is_empty() {
        return Ok(());
    }
    let parameters: [&(dyn ToSql + Sync); 7] = [
        &partitions,
        &epochs,
        &lsns,
        &tokens,
        &numbers,
        &keys,
        &values,
    ];
    let done = session.client.execute(&statements.put_many, &parameters);
    done.await.map(|_| ())
}

/// Runs futures together, and polls them first in their order. Returns the first error.
async fn in_order<F>(futures: impl Iterator<Item = F>) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    let mut all: Vec<_> = futures.map(|future| Box::pin(maybe_done(future))).collect();
    poll_fn(|cx| {
        let mut is_done = true;
        for future in &mut all {
            is_done &= future.as_mut().poll(cx).is_ready();
        }
        match is_done {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let outputs = all
        .iter_mut()
        .filter_map(|done| done.as_mut().take_output());
    outputs.collect()
}

/// Returns true for each partition whose head was moved, as the answer to the update names them.
fn moved_heads(messages: &[SimpleQueryMessage], works: &[CommitWork]) -> Vec<bool> {
    let mut moved = HashSet::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            moved.extend(row.get(0).and_then(|number| number.parse::<i64>().ok()));
        }
    }
    let is_moved = |work: &CommitWork| moved.contains(&(work.id.0 as i64));
    works.iter().map(is_moved).collect()
}

/// Returns the verdict on a transaction. An error before COMMIT proves that nothing was changed
/// only if COMMIT was answered as well: a connection pooler may report an error of its own.
fn judge(answers: Answers) -> Verdict {
    let Answers {
        moved,
        changes,
        commit,
    } = answers;
    match commit {
        Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => Verdict::Repeat,
        Err(error) => Verdict::Unknown(explain(&error)),
        Ok(()) => match (moved, changes) {
            (Err(error), _) | (Ok(_), Err(error)) => match error.code() {
                Some(code) => refusal(code, &error),
                None => Verdict::Unknown(explain(&error)),
            },
            (Ok(moved), Ok(())) => Verdict::Done(moved),
        },
    }
}

/// Returns the verdict on a transaction that the server refused before COMMIT.
fn refusal(code: &SqlState, error: &Error) -> Verdict {
    let detail = explain(error);
    match *code {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Verdict::Repeat,
        SqlState::READ_ONLY_SQL_TRANSACTION => Verdict::NotPrimary(detail),
        SqlState::DISK_FULL => Verdict::Full(detail),
        _ => Verdict::Failed(code.clone(), detail),
    }
}
