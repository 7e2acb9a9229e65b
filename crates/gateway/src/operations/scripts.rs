//! Stored procedures, triggers and user-defined functions as resources, and the execution of procedures.

use super::Step;
use super::metadata::{self, deleted, resource, with_script_quota};
use crate::call::Call;
use crate::reply::{Reply, percent_encode};
use crate::route::Target;
use orrery_engine::request::{ExecuteOptions, Outcome, ProcedureReply, ScriptKind};
use orrery_engine::{Container, Engine};
use orrery_model::{Error, Result};

/// Bytes of a script's log that fit a header.
const LOG_BYTES: usize = 4096;

pub(super) fn create(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let outcome =
        engine.create_script(container, kind(call)?, &call.object()?, call.headers.upsert);
    Ok(Step::Reply(with_script_quota(
        resource(outcome),
        engine,
        container,
    )))
}

pub(super) fn read(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let outcome = engine.read_script(container, kind(call)?, call.child_id(engine)?);
    Ok(Step::Reply(with_script_quota(
        metadata::read(call, outcome),
        engine,
        container,
    )))
}

pub(super) fn replace(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let (id, if_match) = (call.child_id(engine)?, call.headers.if_match.as_deref());
    let outcome = engine.replace_script(container, kind(call)?, id, &call.object()?, if_match);
    Ok(Step::Reply(with_script_quota(
        resource(outcome),
        engine,
        container,
    )))
}

pub(super) fn delete(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let (id, if_match) = (call.child_id(engine)?, call.headers.if_match.as_deref());
    let outcome = engine.delete_script(container, kind(call)?, id, if_match);
    Ok(Step::Reply(with_script_quota(
        deleted(outcome),
        engine,
        container,
    )))
}

pub(super) fn execute(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let key = call.required_key(container)?;
    let id = call.child_id(engine)?;
    let options = ExecuteOptions {
        logging: call.headers.script_logging,
        admission: call.headers.admission,
    };
    let pending = engine.execute(container, id, &key, &call.body, options);
    Ok(Step::Procedure(pending))
}

/// The answer to a procedure: its response body, and its log if the request asked for it.
pub(crate) fn finish(call: &Call, outcome: Outcome<ProcedureReply>) -> Reply {
    Reply::of(outcome, |reply| {
        let log = reply
            .log
            .filter(|_| call.headers.script_logging)
            .map(|log| percent_encode(cut(&log, LOG_BYTES)));
        Reply::json(200, reply.body).with(
            "x-ms-documentdb-script-log-results",
            log.as_deref().unwrap_or_default(),
        )
    })
}

/// The beginning of `text`, at most `bytes` long and whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn kind(call: &Call) -> Result<ScriptKind> {
    match call.target {
        Target::Scripts(kind) | Target::Script(kind) => Ok(kind),
        _ => Err(Error::not_found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_between_characters() {
        assert_eq!(cut("aüb", 2), "a");
        assert_eq!(cut("aüb", 3), "aü");
        assert_eq!(cut("ab", 9), "ab");
    }
}
