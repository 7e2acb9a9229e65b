//! Stored procedures, triggers and user-defined functions as resources, and the execution of stored
//! procedures.

use super::metadata::{self, deleted, resource};
use super::{Progress, feeds, queries};
use crate::call::Call;
use crate::feed::FeedKind;
use crate::reply::{Reply, percent_encode};
use orrery_engine::request::{ExecuteOptions, Outcome, ProcedureReply, ScriptKind};
use orrery_engine::{Container, Engine, Feed};
use orrery_model::Result;

/// The number of bytes of a script's log that the log header contains at most, before encoding.
const LOG_BYTES: usize = 4096;

pub(super) fn list(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let outcome = engine.list(Feed::Scripts(container, kind), &call.page());
    let reply = feeds::page(Some(container.rid()), FeedKind::Scripts(kind), outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn query(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let request = queries::request(call)?;
    let outcome = engine.query_feed(Feed::Scripts(container, kind), &request);
    let owner = Some(container.rid());
    let reply = queries::page(call, owner, FeedKind::Scripts(kind), outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn create(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let outcome = engine.create_script(container, kind, &call.object()?, call.headers.is_upsert);
    let reply = resource(outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn read(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let outcome = engine.read_script(container, kind, call.child_id(engine)?);
    let reply = metadata::read(call, outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn replace(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let id = call.child_id(engine)?;
    let if_match = call.headers.if_match.as_deref();
    let outcome = engine.replace_script(container, kind, id, &call.object()?, if_match);
    let reply = resource(outcome);
    Ok(Progress::Complete(reply))
}

pub(super) fn delete(
    engine: &Engine,
    call: &Call,
    container: &Container,
    kind: ScriptKind,
) -> Result<Progress> {
    let id = call.child_id(engine)?;
    let if_match = call.headers.if_match.as_deref();
    let outcome = engine.delete_script(container, kind, id, if_match);
    let reply = deleted(outcome);
    Ok(Progress::Complete(reply))
}

/// Executes a stored procedure.
pub(super) fn execute(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let key = call.required_key(container)?;
    let id = call.child_id(engine)?;
    let options = ExecuteOptions {
        logging: call.headers.wants_script_log,
        admission: call.headers.admission,
        answer: Some(&call.answer),
    };
    let pending = engine.execute(container, id, &key, &call.body, options);
    Ok(Progress::Procedure(pending))
}

/// Returns the reply to an execution: the response body of the stored procedure, and its log if the
/// request asked for the log.
pub(super) fn finish(call: &Call, outcome: Outcome<ProcedureReply>) -> Reply {
    Reply::of(outcome, |reply| {
        let log = match reply.log {
            Some(log) if call.headers.wants_script_log => {
                percent_encode(truncated(&log, LOG_BYTES))
            }
            Some(_) | None => String::new(),
        };
        Reply::json(200, reply.body).with("x-ms-documentdb-script-log-results", &log)
    })
}

/// Returns the longest prefix of `text` of at most `bytes` bytes that ends between characters.
fn truncated(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_between_characters() {
        assert_eq!(truncated("aüb", 2), "a");
        assert_eq!(truncated("aüb", 3), "aü");
        assert_eq!(truncated("ab", 9), "ab");
    }
}
