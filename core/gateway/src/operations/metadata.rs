//! The account, databases, containers and offers as single resources.

use super::{Progress, old_versions, quota};
use crate::account;
use crate::call::Call;
use crate::reply::Reply;
use orrery_engine::request::{OfferChange, Offered, Outcome, Resource};
use orrery_engine::{Container, Database, Engine, etag_matches};
use orrery_model::words::shortened;
use orrery_model::{Error, Result, Rid};
use std::sync::Arc;

/// Returns the reply that contains a resource: 201 if the request created the resource, else 200.
pub(super) fn resource(outcome: Outcome<Resource>) -> Reply {
    Reply::of(outcome, |resource| {
        let status = if resource.created { 201 } else { 200 };
        Reply::json(status, resource.body).with_etag(&resource.etag)
    })
}

/// Returns the reply to a read: 304 without a body if the client has the current resource.
pub(super) fn read(call: &Call, outcome: Outcome<Resource>) -> Reply {
    let known_etag = call.headers.if_none_match.as_deref();
    Reply::of(outcome, |found| {
        let is_current = known_etag.is_some_and(|known| etag_matches(known, &found.etag));
        let reply = if is_current {
            Reply::empty(304)
        } else {
            Reply::json(200, found.body)
        };
        reply.with_etag(&found.etag)
    })
}

/// Returns the reply to a deletion.
pub(super) fn deleted(outcome: Outcome<()>) -> Reply {
    Reply::of(outcome, |()| Reply::empty(204))
}

pub(super) fn read_account(_: &Engine, call: &Call) -> Result<Progress> {
    let (regions, host) = (call.regions.as_ref(), call.host.as_deref());
    let document = account::document(&call.account, regions, call.scheme, host)?;
    let mut reply = Reply::json(200, document);
    // The Java SDK reads both as numbers. There are no media, as attachments are not offered.
    reply.set("x-ms-max-media-storage-usage-mb", "0");
    reply.set("x-ms-media-storage-usage-mb", "0");
    Ok(Progress::Complete(reply))
}

pub(super) fn create_database(engine: &Engine, call: &Call) -> Result<Progress> {
    let outcome = engine.create_database(&call.object()?, call.headers.throughput());
    Ok(Progress::Complete(resource(outcome)))
}

pub(super) fn read_database(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Progress> {
    let reply = read(call, engine.read_database(database));
    Ok(Progress::Complete(reply))
}

pub(super) fn delete_database(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Progress> {
    let outcome = engine.delete_database(database, call.headers.if_match.as_deref());
    Ok(Progress::Complete(deleted(outcome)))
}

pub(super) fn create_container(
    engine: &Engine,
    call: &Call,
    database: &Arc<Database>,
) -> Result<Progress> {
    let throughput = call.headers.throughput();
    let outcome = engine.create_container(database, &call.object()?, throughput);
    let created = outcome.result.as_ref().ok();
    let is_sharing = created.is_some_and(|created| engine.shares_throughput(created.rid));
    let mut reply = resource(old_versions::shown(call, outcome));
    if is_sharing {
        reply.set("x-ms-share-throughput", "true");
    }
    Ok(Progress::Complete(reply))
}

pub(super) fn read_container(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    let outcome = if call.headers.wants_statistics {
        engine.read_container_with_statistics(container)
    } else {
        engine.read_container(container)
    };
    let mut reply = read(call, old_versions::shown(call, outcome));
    if call.headers.wants_quota && reply.error.is_none() {
        let progress = engine.index_progress(container)?;
        let (quota, usage) = engine.quota(container);
        quota::set(&mut reply, quota.into(), usage.into());
        reply.set(
            "x-ms-documentdb-collection-index-transformation-progress",
            &progress.to_string(),
        );
    }
    Ok(Progress::Complete(reply))
}

pub(super) fn replace_container(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    let if_match = call.headers.if_match.as_deref();
    let outcome = engine.replace_container(container, &call.object()?, if_match);
    Ok(Progress::Complete(resource(old_versions::shown(
        call, outcome,
    ))))
}

pub(super) fn delete_container(
    engine: &Engine,
    call: &Call,
    container: &Container,
) -> Result<Progress> {
    let outcome = engine.delete_container(container, call.headers.if_match.as_deref());
    Ok(Progress::Complete(deleted(outcome)))
}

pub(super) fn read_offer(engine: &Engine, call: &Call) -> Result<Progress> {
    let outcome = engine.read_offer(offer_rid(call)?);
    let reply = offer_reply(outcome, |found| read(call, found));
    Ok(Progress::Complete(reply))
}

/// Replaces an offer. The body of a change between manual throughput and autoscale is not read,
/// because such a change takes no numbers from the client; see
/// `core/engine/src/catalog/offers.rs`.
pub(super) fn replace_offer(engine: &Engine, call: &Call) -> Result<Progress> {
    let change = if call.headers.migrates_to_autoscale {
        OfferChange::ToAutoscale
    } else if call.headers.migrates_to_manual {
        OfferChange::ToManual
    } else {
        OfferChange::ByClient(call.object()?)
    };
    let if_match = call.headers.if_match.as_deref();
    let outcome = engine.replace_offer(offer_rid(call)?, &change, if_match);
    Ok(Progress::Complete(offer_reply(outcome, resource)))
}

/// Returns the resource id of the offer that the path names.
///
/// # Errors
/// 400 for a text that is no resource id of an offer.
fn offer_rid(call: &Call) -> Result<Rid> {
    let text = call.path.id(0);
    let rid = Rid::parse(text).filter(|rid| rid.as_bytes().len() == 3);
    rid.ok_or_else(|| {
        Error::bad(format!(
            "Failed to parse the value '{}' as ResourceId.",
            shortened(text)
        ))
        .with_help("The path of an offer is '/offers/' and its '_rid'; lists of offers show both.")
    })
}

/// Returns the reply about an offer, made by `reply`, with the headers for the lowest throughput
/// that the offer can be set to and for a change that is not complete (partitions are still split).
fn offer_reply(outcome: Outcome<Offered>, reply: impl FnOnce(Outcome<Resource>) -> Reply) -> Reply {
    let (minimum, is_pending) = match &outcome.result {
        Ok(offered) => (offered.ru_min.to_string(), offered.is_pending),
        Err(_) => (String::new(), false),
    };
    let pending = if is_pending { "true" } else { "false" };
    reply(outcome.map(|offered| offered.resource))
        .with("x-ms-offer-replace-pending", pending)
        .with("x-ms-cosmos-min-throughput", &minimum)
}
