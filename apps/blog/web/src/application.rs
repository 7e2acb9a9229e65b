//! The application behind a port: one request of a visitor and its answer.
//!
//! The port belongs to the program, which accepts connections, limits the time of slow clients and
//! reads bodies. This file names the visitor, lets the requests of one visitor wait for each other,
//! and limits the time of a page.
//!
//! Promises:
//! 1. A request gets an answer, also if its body could not be read or its page takes too long.
//! 2. At most [`TURNS`] requests of one network are answered at the same time; further ones wait in
//!    the order in which they came. One visitor with many connections does not keep others waiting.

use crate::state::AppState;
use crate::visit::Visitor;
use crate::{Options, router};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::response::IntoResponse;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use orrery_blog::sync::lock;
use orrery_blog::{BlogError, Site};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one network that are answered at the same time.
const TURNS: usize = 32;
/// Networks above which those without a request are forgotten.
const UNUSED_NETWORKS_MAX: usize = 1_000;
/// Time for a page, from the end of its request on.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// The reason for which the body of a request could not be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread(pub(crate) StatusCode);

/// The application.
pub struct Application {
    router: Router,
    turns: Turns,
    /// Addresses of proxies, whose header `x-forwarded-for` names the visitor.
    proxies: Vec<IpAddr>,
}

impl Application {
    /// Completes the writes that an earlier process left unfinished, and returns the application.
    pub async fn open(site: Site, options: Options) -> Self {
        let proxies = options.proxies.clone();
        let state = AppState::new(site, options);
        // A failure leaves the writes in the journal; they are completed before the next write to
        // the same post or user, and the pages are of use meanwhile.
        let recovered: Result<usize, BlogError> = state.writes.recover().await;
        drop(recovered);
        state.measure();
        Self {
            router: router(state),
            turns: Turns::default(),
            proxies,
        }
    }

    /// Answers a request that came from the address `peer`. `body` is the body of the request, or
    /// the status with which it is refused.
    pub async fn answer(
        &self,
        mut head: Parts,
        body: Result<Bytes, StatusCode>,
        peer: IpAddr,
    ) -> Response<Bytes> {
        let visitor = visitor(&head.headers, peer, &self.proxies);
        head.extensions.insert(Visitor(visitor));
        name_host(&mut head);
        let body = match body {
            Ok(body) => body,
            Err(status) => {
                head.extensions.insert(Unread(status));
                Bytes::new()
            }
        };
        let request = Request::from_parts(head, Body::from(body));
        let answering = async {
            let _turn = self.turns.wait(network(visitor)).await;
            self.route(request).await
        };
        match tokio::time::timeout(REQUEST_TIME_MAX, answering).await {
            Ok(response) => response,
            Err(_) => plain(
                StatusCode::REQUEST_TIMEOUT,
                "The request took too long. Send it again.",
            ),
        }
    }

    /// Answers a request by its route.
    async fn route(&self, request: Request<Body>) -> Response<Bytes> {
        let routes = TowerToHyperService::new(self.router.clone());
        let response = match routes.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        whole(response).await
    }
}

/// Returns an answer with its whole body.
async fn whole(response: Response<Body>) -> Response<Bytes> {
    let (head, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(body) => Response::from_parts(head, body),
        // Pages and files are whole in memory, so their bodies do not break.
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The page could not be made. Load it again.",
        ),
    }
}

/// Returns an answer that is one sentence.
fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let (head, _) = (status, text).into_response().into_parts();
    Response::from_parts(head, Bytes::from_static(text.as_bytes()))
}

/// Writes the host into its header: HTTP/2 has it in the address, and forms are checked by it.
fn name_host(head: &mut Parts) {
    if let (None, Some(authority)) = (head.headers.get(HOST), head.uri.authority())
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
}

/// Returns the address of the visitor: that of the peer, or the one that a known proxy names.
fn visitor(headers: &HeaderMap, peer: IpAddr, proxies: &[IpAddr]) -> IpAddr {
    let mut visitor = peer.to_canonical();
    let mut named = Vec::new();
    for value in headers.get_all("x-forwarded-for") {
        named.extend(value.to_str().unwrap_or_default().split(','));
    }
    // Each proxy appends the address that it saw, so all before the first unknown address may be
    // the visitor's invention.
    while proxies.contains(&visitor) {
        let last: Option<IpAddr> = named.pop().and_then(|text| text.trim().parse().ok());
        match last {
            Some(address) => visitor = address.to_canonical(),
            None => break,
        }
    }
    visitor
}

/// Returns the network of a visitor: of IPv6 the first half, all of which one visitor may have.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

/// The requests that are answered now, by network.
#[derive(Default)]
struct Turns(Mutex<HashMap<IpAddr, Arc<Semaphore>>>);

impl Turns {
    /// Waits for the turn of a request, which ends when the result is dropped.
    async fn wait(&self, network: IpAddr) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut networks = lock(&self.0);
            if networks.len() > UNUSED_NETWORKS_MAX {
                // A turn that is taken or awaited is a second owner.
                networks.retain(|_, turns| Arc::strong_count(turns) > 1);
            }
            let first = || Arc::new(Semaphore::new(TURNS));
            networks.entry(network).or_insert_with(first).clone()
        };
        // No semaphore is ever closed.
        turns.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn only_a_known_proxy_names_the_visitor() {
        let proxies = [address("10.0.0.1"), address("10.0.0.2")];
        let of = |peer: &str, forwarded: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", HeaderValue::from_static(value));
            }
            visitor(&headers, address(peer), &proxies).to_string()
        };
        assert_eq!(of("7.7.7.7", &["1.1.1.1"]), "7.7.7.7");
        assert_eq!(of("10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(of("::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        // The visitor may send the header too; the proxy appends to it.
        assert_eq!(of("10.0.0.1", &["9.9.9.9, 1.1.1.1"]), "1.1.1.1");
        assert_eq!(of("10.0.0.1", &["9.9.9.9", "1.1.1.1, 10.0.0.2"]), "1.1.1.1");
        assert_eq!(of("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(of("10.0.0.1", &["unknown"]), "10.0.0.1");
    }

    #[test]
    fn the_addresses_of_one_visitor_are_one_network() {
        let of = |text: &str| network(address(text));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[tokio::test]
    async fn requests_of_one_network_wait_for_each_other_and_for_no_others() {
        let turns = Turns::default();
        let (one, two) = (address("10.0.0.1"), address("10.0.0.2"));
        let mut taken = Vec::new();
        for _ in 0..TURNS {
            taken.push(turns.wait(one).await);
        }
        let mut waiting = Box::pin(turns.wait(one));
        let is_first = tokio::select! {
            biased;
            _ = &mut waiting => false,
            _ = turns.wait(two) => true,
        };
        assert!(is_first, "a request of the same network did not wait");
        taken.pop();
        assert!(waiting.await.is_some());
    }
}
