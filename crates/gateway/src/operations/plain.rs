//! Users, permissions and client encryption keys.
//!
//! Every answer about a permission holds a token, minted at that moment with the key of the caller.

use super::Step;
use super::metadata::{deleted, resource};
use crate::auth::{Caller, check_link};
use crate::call::Call;
use crate::feed::FeedKind;
use crate::reply::Owner;
use crate::route::Target;
use orrery_engine::request::AccessResourceKind;
use orrery_engine::{AccessResource, Engine, Feed, TokenSigner};
use orrery_model::{Error, Json, Object, Result, limits};
use std::sync::Arc;

/// The database, or for permissions the user, that the path names.
///
/// # Errors
/// 404 if it is missing, 404/1003 if the user's database is.
pub(super) fn owner(engine: &Engine, call: &Call) -> Result<Owner> {
    let database = call.database(engine)?;
    let path = format!("dbs/{}", database.id());
    if kind(call)? != AccessResourceKind::Permission {
        return Ok(Owner {
            path,
            rid: database.rid(),
        });
    }
    let id = call.path.id_at(1, engine).ok_or_else(Error::not_found)?;
    let user = engine.access_resource(database.rid(), AccessResourceKind::User, id)?;
    Ok(Owner {
        path: format!("{path}/users/{}", user.id()),
        rid: user.meta.rid,
    })
}

pub(super) fn list(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let kind = kind(call)?;
    let outcome = minting(engine, call, |mint| {
        engine.list(Feed::AccessResources(kind, owner.rid, mint), &call.page())
    });
    Ok(Step::Reply(super::feeds::page(
        Some(owner.rid),
        FeedKind::Plains(kind),
        outcome,
    )))
}

pub(super) fn query(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let (kind, request) = (kind(call)?, super::queries::request(call)?);
    let outcome = minting(engine, call, |mint| {
        engine.query_feed(Feed::AccessResources(kind, owner.rid, mint), &request)
    });
    Ok(Step::Reply(super::queries::page(
        call,
        Some(owner.rid),
        FeedKind::Plains(kind),
        outcome,
    )))
}

pub(super) fn create(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let (kind, body) = (kind(call)?, checked(call)?);
    let upsert = call.headers.upsert;
    let outcome = minting(engine, call, |mint| {
        engine.create_access_resource(owner.rid, kind, &body, upsert, mint)
    });
    Ok(Step::Reply(resource(outcome)))
}

pub(super) fn read(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let plain = find(engine, call, owner)?;
    Ok(Step::Reply(resource(minting(engine, call, |mint| {
        engine.read_access_resource(&plain, mint)
    }))))
}

pub(super) fn replace(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let (plain, body) = (find(engine, call, owner)?, checked(call)?);
    let if_match = call.headers.if_match.as_deref();
    let outcome = minting(engine, call, |mint| {
        engine.replace_access_resource(&plain, &body, if_match, mint)
    });
    Ok(Step::Reply(resource(outcome)))
}

pub(super) fn delete(engine: &Engine, call: &Call, owner: &Owner) -> Result<Step> {
    let plain = find(engine, call, owner)?;
    Ok(Step::Reply(deleted(engine.delete_access_resource(
        &plain,
        call.headers.if_match.as_deref(),
    ))))
}

fn kind(call: &Call) -> Result<AccessResourceKind> {
    match call.target {
        Target::Plains(kind) | Target::Plain(kind) => Ok(kind),
        _ => Err(Error::not_found()),
    }
}

fn find(engine: &Engine, call: &Call, owner: &Owner) -> Result<Arc<AccessResource>> {
    let kind = kind(call)?;
    let last = if kind == AccessResourceKind::Permission {
        2
    } else {
        1
    };
    let id = call.path.id_at(last, engine).ok_or_else(Error::not_found)?;
    engine.access_resource(owner.rid, kind, id)
}

/// The body; the engine checks all but the form of a permission's link.
fn checked(call: &Call) -> Result<Object> {
    let body = call.object()?;
    if let (AccessResourceKind::Permission, Some(link)) =
        (kind(call)?, body.get("resource").and_then(Json::as_str))
    {
        check_link(link)?;
    }
    Ok(body)
}

/// Does what needs the caller's mint. Callers that have none see no permissions.
fn minting<T>(engine: &Engine, call: &Call, work: impl FnOnce(TokenSigner<'_>) -> T) -> T {
    let seconds = call
        .headers
        .token_seconds
        .unwrap_or(limits::TOKEN_SECONDS_DEFAULT);
    match &call.caller {
        Caller::FullKey(issuer) => work(TokenSigner(&|grant| issuer.issue(grant, engine, seconds))),
        Caller::ReadOnlyKey | Caller::ResourceToken(..) | Caller::DirectoryIdentity => {
            work(TokenSigner(&|_| String::new()))
        }
    }
}
