//! The way of the console to the data while another node holds the lease of the account.
//!
//! The console has identified the person. Its request takes the way of a client's request to this
//! node: it is signed with a key of the account, which all nodes share, and handed to the service
//! of the client port, which answers it here, at the partition's owner or at the leaseholder.

use crate::context::ServerContext;
use crate::keys::AccountKeys;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request};
use jiff::Timestamp;
use orrery_client::signature::{authorization, http_date};
use orrery_console::{Access, RemoteAnswer, RemoteGateway};
use orrery_gateway::{Connection, RequestBody, Service, body, error_response, known_routes};
use orrery_model::{Error, Kind, Result};
use orrery_node::Forwarder;
use std::sync::Arc;

const DATE: HeaderName = HeaderName::from_static("x-ms-date");

/// Signs the requests of the console and hands them to the client port.
pub(crate) struct SignedRequests {
    pub(crate) context: ServerContext,
    /// The part of the client port that answers while the node forwards.
    pub(crate) forwarder: Arc<Forwarder>,
    /// Host and port of this node's port for clients.
    pub(crate) host: String,
    /// The keys, unless others have been read since.
    pub(crate) keys_of_start: AccountKeys,
}

impl RemoteGateway for SignedRequests {
    fn send<'a>(
        &'a self,
        request: Request<RequestBody>,
        connection: &'a Connection,
        access: Access,
    ) -> RemoteAnswer<'a> {
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            if let Err(error) = self.sign(&mut head, access) {
                body::discard(body).await;
                let world = self.context.world.as_ref();
                return Ok(error_response(error, world, false));
            }
            let request = Request::from_parts(head, body);
            self.forwarder.handle(request, connection).await
        })
    }
}

impl SignedRequests {
    /// Signs a request with the key that has the rights `access`, for this node's port.
    ///
    /// # Errors
    /// 403 if the account has no such key.
    fn sign(&self, head: &mut Parts, access: Access) -> Result<()> {
        let newest = self.context.key_users.newest();
        let keys = newest.as_ref().unwrap_or(&self.keys_of_start);
        let key = match access {
            Access::Full => Some(&keys.primary),
            Access::ReadOnly => keys.read_only.as_ref(),
        };
        let no_key = || {
            let message = "The console of this node is read-only, and reads data of other nodes \
                           with a read-only key, which the key file of this node does not have.";
            Error::new(Kind::Forbidden, message)
        };
        let key = key.and_then(|key| BASE64.decode(key).ok());
        let key = key.ok_or_else(no_key)?;

        let seconds = i64::try_from(self.context.world.now_ms() / 1_000).unwrap_or(i64::MAX);
        let date = http_date(Timestamp::from_second(seconds).unwrap_or_default());
        let (kind, link) = signed_parts(head.uri.path());
        let signature = authorization(&key, head.method.as_str(), kind, &link, &date);
        for (name, value) in [
            (DATE, date.as_str()),
            (AUTHORIZATION, signature.as_str()),
            (HOST, self.host.as_str()),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                head.headers.insert(name, value);
            }
        }
        Ok(())
    }
}

/// Returns the resource type and the link that the signature of a request covers. A path that no
/// route has gets its refusal from the node that answers.
fn signed_parts(path: &str) -> (&'static str, String) {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_match = |pattern: &[&str]| {
        pattern.len() == segments.len()
            && pattern
                .iter()
                .zip(&segments)
                .all(|(wanted, found)| *wanted == "*" || wanted == found)
    };
    let Some(route) = known_routes().find(|route| is_match(route.pattern)) else {
        return ("", String::new());
    };
    if route.signed_as == "offers" {
        // An offer is signed by its resource id alone.
        let id = segments.get(1).map(|id| id.to_lowercase());
        return ("offers", id.unwrap_or_default());
    }
    let link = segments[..route.link_segments].join("/");
    (route.signed_as, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_signs_its_parent_a_resource_itself_and_an_offer_its_id() {
        for (path, kind, link) in [
            ("/", "", ""),
            ("/dbs", "dbs", ""),
            ("/dbs/b/colls/p/docs", "docs", "dbs/b/colls/p"),
            (
                "/dbs/b/colls/p/docs/a%20b",
                "docs",
                "dbs/b/colls/p/docs/a%20b",
            ),
            (
                "/dbs/b/colls/p/operations/partitionkeydelete",
                "colls",
                "dbs/b/colls/p",
            ),
            ("/offers", "offers", ""),
            ("/offers/AbC=", "offers", "abc="),
            ("/nothing/here", "", ""),
        ] {
            assert_eq!(signed_parts(path), (kind, link.to_owned()), "{path}");
        }
    }
}
