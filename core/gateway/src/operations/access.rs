//! Users, permissions and client encryption keys.
//!
//! Every answer about a permission contains a resource token. The token is issued for this answer
//! with the key of the caller, and is not stored.

use super::metadata::{deleted, resource};
use super::{AccessResourceKind, Progress};
use crate::auth::{Caller, check_link};
use crate::call::Call;
use crate::feed::FeedKind;
use crate::reply::Owner;
use orrery_engine::{AccessResource, Engine, Feed, TokenSigner};
use orrery_model::{Error, Json, Object, Result, limits};
use std::sync::Arc;

/// Returns the owner of resources of `kind` that the path names: the user for permissions, else the
/// database.
///
/// # Errors
/// 404 if the owner is missing, 404/1003 if the database of the user is missing.
pub(super) fn owner(engine: &Engine, call: &Call, kind: AccessResourceKind) -> Result<Owner> {
    let database = call.database(engine)?;
    if kind != AccessResourceKind::Permission {
        return Ok(Owner::database(&database));
    }
    let id = call.path.id_at(1, engine).ok_or_else(Error::not_found)?;
    let user = engine.access_resource(database.rid(), AccessResourceKind::User, id)?;
    Ok(Owner {
        path: format!("dbs/{}/users/{}", database.id(), user.id()),
        rid: user.meta.rid,
    })
}

pub(super) fn list(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let outcome = with_signer(engine, call, |signer| {
        engine.list(Feed::AccessResources(kind, owner.rid, signer), &call.page())
    });
    Ok(Progress::Complete(super::feeds::page(
        Some(owner.rid),
        FeedKind::AccessResources(kind),
        outcome,
    )))
}

pub(super) fn query(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let _text = engine.hold_query_text(call.body.len())?;
    let request = super::queries::request(call)?;
    let outcome = with_signer(engine, call, |signer| {
        engine.query_feed(Feed::AccessResources(kind, owner.rid, signer), &request)
    });
    Ok(Progress::Complete(super::queries::page(
        call,
        Some(owner.rid),
        FeedKind::AccessResources(kind),
        outcome,
    )))
}

pub(super) fn create(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let body = checked_body(call, kind)?;
    let upsert = call.headers.is_upsert;
    let outcome = with_signer(engine, call, |signer| {
        engine.create_access_resource(owner.rid, kind, &body, upsert, signer)
    });
    Ok(Progress::Complete(resource(outcome)))
}

pub(super) fn read(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let found = find(engine, call, owner, kind)?;
    let outcome = with_signer(engine, call, |signer| {
        engine.read_access_resource(&found, signer)
    });
    Ok(Progress::Complete(resource(outcome)))
}

pub(super) fn replace(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let found = find(engine, call, owner, kind)?;
    let body = checked_body(call, kind)?;
    let if_match = call.headers.if_match.as_deref();
    let outcome = with_signer(engine, call, |signer| {
        engine.replace_access_resource(&found, &body, if_match, signer)
    });
    Ok(Progress::Complete(resource(outcome)))
}

pub(super) fn delete(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Progress> {
    let found = find(engine, call, owner, kind)?;
    let outcome = engine.delete_access_resource(&found, call.headers.if_match.as_deref());
    Ok(Progress::Complete(deleted(outcome)))
}

/// Returns the resource that the path names, below its owner.
fn find(
    engine: &Engine,
    call: &Call,
    owner: &Owner,
    kind: AccessResourceKind,
) -> Result<Arc<AccessResource>> {
    let last = if kind == AccessResourceKind::Permission {
        2
    } else {
        1
    };
    let id = call.path.id_at(last, engine).ok_or_else(Error::not_found)?;
    engine.access_resource(owner.rid, kind, id)
}

/// Returns the body of a create or replace. The form of the link in a permission is checked here,
/// because the engine does not know paths; the engine checks everything else.
fn checked_body(call: &Call, kind: AccessResourceKind) -> Result<Object> {
    let body = call.object()?;
    if kind == AccessResourceKind::Permission
        && let Some(link) = body.get("resource").and_then(Json::as_str)
    {
        check_link(link)?;
    }
    Ok(body)
}

/// Calls `work` with a signer that issues resource tokens with the key of the caller. Callers
/// without a full key get empty tokens; the access check lets none of them reach a permission.
fn with_signer<T>(engine: &Engine, call: &Call, work: impl FnOnce(TokenSigner<'_>) -> T) -> T {
    let seconds = call
        .headers
        .token_seconds
        .unwrap_or(limits::TOKEN_SECONDS_DEFAULT);
    match &call.caller {
        Caller::FullKey(issuer) => work(TokenSigner(&|permission| {
            issuer.issue(permission, engine, seconds)
        })),
        Caller::ReadOnlyKey | Caller::ResourceToken(..) | Caller::DirectoryIdentity => {
            work(TokenSigner(&|_| String::new()))
        }
    }
}
