//! The account, databases, containers and offers as single resources.

use super::Step;
use crate::account;
use crate::call::Call;
use crate::options::Account;
use crate::reply::Reply;
use orrery_engine::request::{OfferChange, Offered, Outcome, Resource};
use orrery_engine::{Container, Database, Engine, etag_matches};
use orrery_model::{Error, Result, Rid};
use std::sync::Arc;

/// The answer that carries a resource: 201 if this request made it.
pub(super) fn resource(outcome: Outcome<Resource>) -> Reply {
    Reply::of(outcome, |resource| {
        Reply::json(if resource.created { 201 } else { 200 }, resource.body)
            .with_etag(&resource.etag)
    })
}

/// The answer to a read: 304 without a body if the client has the resource as it is.
pub(super) fn read(call: &Call, outcome: Outcome<Resource>) -> Reply {
    let known = call.headers.if_none_match.as_deref();
    Reply::of(outcome, |found| {
        match known.is_some_and(|known| etag_matches(known, &found.etag)) {
            true => Reply::empty(304).with_etag(&found.etag),
            false => Reply::json(200, found.body).with_etag(&found.etag),
        }
    })
}

/// The answer to a deletion.
pub(super) fn deleted(outcome: Outcome<()>) -> Reply {
    Reply::of(outcome, |()| Reply::empty(204))
}

pub(super) fn read_account(_: &Engine, call: &Call) -> Result<Step> {
    let account: &Account = &call.account;
    let document = account::document(account, call.scheme, call.host.as_deref())?;
    Ok(Step::Reply(Reply::json(200, document)))
}

pub(super) fn create_database(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(resource(engine.create_database(
        &call.object()?,
        call.headers.throughput(),
    ))))
}

pub(super) fn read_database(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Step> {
    Ok(Step::Reply(read(call, engine.read_database(database))))
}

pub(super) fn delete_database(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Step> {
    Ok(Step::Reply(deleted(engine.delete_database(
        database,
        call.headers.if_match.as_deref(),
    ))))
}

pub(super) fn create_container(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Step> {
    Ok(Step::Reply(resource(engine.create_container(
        database,
        &call.object()?,
        call.headers.throughput(),
    ))))
}

pub(super) fn read_container(engine: &Engine, call: &Call, container: &Container) -> Result<Step> {
    let shown = match call.headers.statistics {
        true => engine.read_container_with_statistics(container),
        false => engine.read_container(container),
    };
    let mut reply = read(call, shown);
    if call.headers.quota && reply.error.is_none() {
        let progress = engine.index_progress(container)?;
        reply = with_quota(reply, engine, container);
        reply.set(
            "x-ms-documentdb-collection-index-transformation-progress",
            &progress.to_string(),
        );
    }
    Ok(Step::Reply(reply))
}

pub(super) fn replace_container(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Step> {
    let if_match = call.headers.if_match.as_deref();
    Ok(Step::Reply(resource(engine.replace_container(
        container,
        &call.object()?,
        if_match,
    ))))
}

pub(super) fn delete_container(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Step> {
    Ok(Step::Reply(deleted(engine.delete_container(
        container,
        call.headers.if_match.as_deref(),
    ))))
}

/// The same answer with the quota headers of a container.
pub(super) fn with_quota(reply: Reply, engine: &Engine, container: &Container) -> Reply {
    let (quota, usage) = engine.quota(container);
    reply
        .with("x-ms-resource-quota", &quota)
        .with("x-ms-resource-usage", &usage)
}

/// The same answer with the quota headers of a container's scripts.
pub(super) fn with_script_quota(reply: Reply, engine: &Engine, container: &Container) -> Reply {
    let (quota, usage) = engine.script_quota(container);
    reply
        .with("x-ms-resource-quota", &quota)
        .with("x-ms-resource-usage", &usage)
}

pub(super) fn read_offer(engine: &Engine, call: &Call) -> Result<Step> {
    Ok(Step::Reply(offer(
        engine.read_offer(offer_rid(call)?),
        |found| read(call, found),
    )))
}

/// A change of mode takes no numbers from the client, so its body is not read; see `crates/engine/src/catalog/offers.rs`.
pub(super) fn replace_offer(engine: &Engine, call: &Call) -> Result<Step> {
    let change = match &call.headers {
        headers if headers.to_autoscale => OfferChange::ToAutoscale,
        headers if headers.to_manual => OfferChange::ToManual,
        _ => OfferChange::To(call.object()?),
    };
    let replaced =
        engine.replace_offer(offer_rid(call)?, &change, call.headers.if_match.as_deref());
    Ok(Step::Reply(offer(replaced, resource)))
}

fn offer_rid(call: &Call) -> Result<Rid> {
    Rid::parse(call.path.id(0))
        .filter(|rid| rid.as_bytes().len() == 3)
        .ok_or_else(Error::not_found)
}

/// An offer's answer says how low it can go, and whether partitions are still split to carry it.
fn offer(outcome: Outcome<Offered>, answer: impl FnOnce(Outcome<Resource>) -> Reply) -> Reply {
    let least = outcome
        .result
        .as_ref()
        .map(|offered| offered.least.to_string())
        .unwrap_or_default();
    let is_pending = outcome
        .result
        .as_ref()
        .is_ok_and(|offered| offered.is_pending);
    answer(outcome.map(|offered| offered.resource))
        .with(
            "x-ms-offer-replace-pending",
            if is_pending { "true" } else { "false" },
        )
        .with("x-ms-cosmos-min-throughput", &least)
}
