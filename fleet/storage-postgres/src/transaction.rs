//! One commit as one transaction, and what became of it.
//!
//! All statements are sent in one go: the head is moved if it is the expected one, and every other
//! statement changes rows only if the head was moved. So a commit costs one round trip, and a
//! fenced commit changes nothing.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use orrery_storage::PartitionId;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, SimpleQueryMessage, Statement};

use crate::batch::Batch;
use crate::connector::{Session, explain};
use crate::head::HeadRow;

/// The fate of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Durable.
    Done,
    /// The head was not the expected one. Nothing was changed.
    Fenced,
    /// Nothing was changed, and the same transaction may be sent again.
    Repeat,
    /// Nothing was changed: this server takes no writes.
    NotPrimary(String),
    /// Nothing was changed: the disk of the server is full.
    Full(String),
    /// Nothing was changed.
    Failed(String),
    /// The transaction may or may not take place.
    Unknown(String),
}

/// Runs the transaction that moves the head of a partition from `from` to `to`.
pub(crate) async fn run(
    session: &Session,
    partition: PartitionId,
    (from, to): (&HeadRow, &HeadRow),
    batch: &Batch,
    limit: Duration,
) -> Verdict {
    let sent = listen(session, partition, (from, to), batch);
    let Ok((answers, doubts)) = tokio::time::timeout(limit, sent).await else {
        session.mark_broken();
        return Verdict::Unknown(format!("no answer within {} ms", limit.as_millis()));
    };
    let verdict = judge(answers);
    // A server that gave up waiting for its standbys answers success with a warning.
    if verdict == Verdict::Done && !doubts.is_empty() {
        session.mark_broken();
        return Verdict::Unknown(doubts.join("; "));
    }
    if !matches!(verdict, Verdict::Done | Verdict::Fenced | Verdict::Repeat) {
        session.mark_broken();
    }
    verdict
}

/// The answers to the statements of a commit.
struct Answers {
    /// True if the head was moved.
    head: Result<bool, Error>,
    changes: [Result<(), Error>; 3],
    commit: Result<(), Error>,
}

/// Sends all statements, and returns all answers and the warnings that came with `COMMIT`.
async fn listen(
    session: &Session,
    partition: PartitionId,
    heads: (&HeadRow, &HeadRow),
    batch: &Batch,
) -> (Answers, Vec<String>) {
    let mut listener = session.listen();
    let (is_at_commit, mut doubts) = (AtomicBool::new(false), Vec::new());
    let mut sent = pin!(send(session, partition, heads, batch, &is_at_commit));
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
                "partition {partition}: a commit had a warning: {}",
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
async fn send(
    session: &Session,
    partition: PartitionId,
    (from, to): (&HeadRow, &HeadRow),
    batch: &Batch,
    is_at_commit: &AtomicBool,
) -> Answers {
    let (client, statements) = (&session.client, &session.statements);
    let (number, epoch, lsn) = (partition.0 as i64, from.epoch as i64, to.lsn as i64);
    let token = to.token.as_slice();
    let move_head = statements.move_head(partition, from, to);
    let execute = async |statement: &Statement, is_needed: bool, lists: &[&Vec<&[u8]>]| {
        if !is_needed {
            return Ok(());
        }
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&number, &epoch, &lsn, &token];
        for list in lists {
            parameters.push(*list);
        }
        client.execute(statement, &parameters).await.map(|_| ())
    };
    let (starts, ends) = batch.ranges();
    let deletes = batch.deletes();
    let (keys, values) = batch.puts();
    let (range_lists, delete_lists, put_lists) = ([&starts, &ends], [&deletes], [&keys, &values]);
    // The first poll of each sends it, so the order here is the order at the server.
    let changes = async {
        let answers = tokio::join!(
            biased;
            client.simple_query(&move_head),
            execute(&statements.delete_ranges, !starts.is_empty(), &range_lists),
            execute(&statements.delete, !deletes.is_empty(), &delete_lists),
            execute(&statements.put, !keys.is_empty(), &put_lists),
        );
        is_at_commit.store(true, Ordering::Relaxed);
        answers
    };
    let ((head, ranges, deleted, put), commit) =
        tokio::join!(biased; changes, client.batch_execute("COMMIT"));
    Answers {
        head: head.map(|messages| has_moved(&messages)),
        changes: [ranges, deleted, put],
        commit,
    }
}

/// Returns true if the update of the head found its row.
fn has_moved(messages: &[SimpleQueryMessage]) -> bool {
    let last = messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
        _ => None,
    });
    last == Some(1)
}

/// Returns the verdict on a transaction. An error before COMMIT proves that nothing was changed
/// only if COMMIT was answered as well: a connection pooler may report an error of its own.
fn judge(answers: Answers) -> Verdict {
    let Answers {
        head,
        changes,
        commit,
    } = answers;
    match commit {
        Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => Verdict::Repeat,
        Err(error) => Verdict::Unknown(explain(&error)),
        Ok(()) => match (head, changes.into_iter().find_map(Result::err)) {
            (Err(error), _) | (Ok(_), Some(error)) => match error.code() {
                Some(code) => refusal(code, &error),
                None => Verdict::Unknown(explain(&error)),
            },
            (Ok(true), None) => Verdict::Done,
            (Ok(false), None) => Verdict::Fenced,
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
        _ => Verdict::Failed(detail),
    }
}
