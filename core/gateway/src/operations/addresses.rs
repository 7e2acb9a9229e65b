//! The addresses of replicas, which clients of the direct mode ask for over HTTP.
//!
//! A physical partition has one copy here. It is answered as two addresses of one place, a primary
//! and a secondary: without a secondary, clients ask for the addresses again before each read of
//! strong consistency.

use super::Progress;
use crate::call::Call;
use crate::direct::{DirectMode, DirectPlaces};
use crate::hosts::authority_of_url;
use crate::reply::Reply;
use crate::route::{Path, query_parameter};
use orrery_engine::Engine;
use orrery_engine::request::Charge;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Result, object};
use std::borrow::Cow;

/// The name of the range of what is above containers, in addresses.
const MASTER: &str = "M";
/// The start of the path of an address, and the name in the place of a container for what is above
/// containers.
const SERVICES: &str = "apps/0/services/";
const NO_SERVICE: &str = "0";
/// The most ranges of one request; clients ask for up to 50.
const RANGES_MAX: usize = 1_000;
/// The port of a URL without one.
const HTTPS_PORT: u16 = 443;

/// Answers the addresses of the ranges that the query string names, or of the master, which serves
/// what is above containers. Ranges that do not exist are left out, as clients expect it after a
/// split.
///
/// # Errors
/// 400 where the direct mode is not offered, 404 for a container that does not exist.
pub(super) fn read(engine: &Engine, call: &Call) -> Result<Progress> {
    let places = Places::of(call)?;
    let query = call.query.as_deref().unwrap_or_default();
    let asked = Path::from_resolve_for(Some(query));
    let asked = asked.ok_or_else(|| Error::bad("The parameter $resolveFor is missing."))?;
    let mut addresses = Vec::new();
    if asked.is_in_container() {
        let container = asked.container(engine)?;
        let wanted = range_ids(query)?;
        let service = container.rid().to_string();
        for partition in container.partitions().iter() {
            let id = partition.id;
            if wanted.as_ref().is_none_or(|wanted| wanted.contains(&id)) {
                let (id, place) = (id.to_string(), places.of_partition(partition.storage_id.0)?);
                addresses.push(address(&place, &service, &id, true));
                addresses.push(address(&place, &service, &id, false));
            }
        }
    } else {
        addresses.push(address(&places.master, NO_SERVICE, MASTER, true));
        addresses.push(address(&places.master, NO_SERVICE, MASTER, false));
    }
    let body = object! {
        "_rid" => "",
        "_count" => addresses.len() as u64,
        "Addresss" => addresses, // as the service spells it
    };
    let mut reply = Reply::json(200, Json::Object(body).to_text());
    reply.charge = Charge::default();
    Ok(Progress::Complete(reply))
}

/// The places that clients connect to, as `host:port`.
struct Places<'a> {
    /// That of what is above containers.
    master: String,
    /// Those of partitions that other nodes of a fleet own.
    fleet: Option<&'a DirectPlaces>,
}

impl Places<'_> {
    /// Returns the places for a request.
    ///
    /// # Errors
    /// As [`place`].
    fn of(call: &Call) -> Result<Places<'_>> {
        let place = place(call)?;
        let fleet = call.places.as_ref();
        let master = match fleet {
            Some(fleet) => place_of_node(&fleet.leaseholder)?,
            None => place,
        };
        Ok(Places { master, fleet })
    }

    /// Returns the place of a partition, by the number of the partition in the store.
    fn of_partition(&self, partition: u64) -> Result<Cow<'_, str>> {
        let owner = self.fleet.and_then(|fleet| (fleet.owner)(partition));
        match owner {
            Some(owner) => place_of_node(&owner).map(Cow::Owned),
            None => Ok(Cow::Borrowed(&self.master)),
        }
    }
}

/// Returns the place at which clients reach a node.
///
/// # Errors
/// 500 for an address of a node without a port, and for one of IPv6.
fn place_of_node(url: &str) -> Result<String> {
    match authority_of_url(url) {
        Some((host, Some(port))) if !host.contains(':') => Ok(format!("{host}:{port}")),
        _ => Err(Error::internal(format!(
            "the address {url} of a node has no host name and port for clients of the direct mode"
        ))),
    }
}

/// Returns the host and port that clients connect to.
///
/// # Errors
/// 400 if the direct mode is off or the client has asked over plain HTTP, and for an address that
/// clients cannot connect to.
fn place(call: &Call) -> Result<String> {
    let account = &call.account;
    if call.scheme != "https" {
        return Err(not_offered(
            "it needs TLS, and this request came over http: use https:// in the client",
        ));
    }
    if account.direct == DirectMode::Off {
        return Err(not_offered(
            "it is off on this server: start the server with --direct on",
        ));
    }
    if let DirectMode::At(place) = &account.direct {
        return Ok(place.clone());
    }
    // The address of the account is that which clients use for all requests.
    let authority = match &account.endpoint {
        Some(endpoint) => authority_of_url(endpoint),
        None => call.host.as_deref().and_then(authority_of_url),
    };
    let (host, port) = authority.ok_or_else(|| Error::bad("The request names no host."))?;
    if host.contains(':') {
        return Err(not_offered(
            "its clients cannot use an address of IPv6: use a name such as localhost, or start \
             the server with --direct-advertise NAME:PORT",
        ));
    }
    let port = match account.direct {
        DirectMode::Port(port) => port,
        _ => port.unwrap_or(HTTPS_PORT),
    };
    Ok(format!("{host}:{port}"))
}

/// Returns the refusal of the direct mode. Clients show the text of a 400 to their users at once.
fn not_offered(reason: &str) -> Error {
    Error::unsupported(format!(
        "The direct connection mode (address resolution; {reason}; or choose the gateway mode in \
         the client, such as ConnectionMode.Gateway or gatewayMode())"
    ))
}

/// Returns the ids of the ranges that a query string names; `None` if it names none.
///
/// # Errors
/// 400 for ids that are no numbers, and too many of them.
fn range_ids(query: &str) -> Result<Option<Vec<u32>>> {
    let Some(text) = query_parameter(query, "$partitionKeyRangeIds") else {
        return Ok(None);
    };
    let mut ids = Vec::new();
    for id in text.split(',') {
        let id = id.parse().map_err(|_| {
            let id = shortened(id);
            Error::bad(format!(
                "'{id}' in $partitionKeyRangeIds is no id of a range."
            ))
        })?;
        ids.push(id);
        if ids.len() > RANGES_MAX {
            return Err(Error::bad(format!(
                "At most {RANGES_MAX} ranges may be asked for at once."
            )));
        }
    }
    Ok(Some(ids))
}

/// Returns the container that a frame was sent to, by the path of the address that the client used:
/// the resource id of the container, which another container of its name has not.
pub(crate) fn container_of_replica(path: &str) -> Option<&str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let service = path.strip_prefix(SERVICES)?.split('/').next()?;
    (service != NO_SERVICE).then_some(service)
}

/// Returns one address. Clients use the scheme, the host and the port; the path tells which
/// container, range and copy a frame was sent to.
fn address(place: &str, service: &str, range: &str, is_primary: bool) -> Json {
    let replica = match is_primary {
        true => "0p",
        false => "1s",
    };
    let uri = format!("rntbd://{place}/{SERVICES}{service}/partitions/{range}/replicas/{replica}/");
    Json::Object(object! {
        "_rid" => "",
        "isPrimary" => is_primary,
        "protocol" => "rntbd",
        "physcialUri" => uri, // as the service spells it
        "partitionKeyRangeId" => range,
        "partitionIndex" => format!("{range}@0"),
    })
}
