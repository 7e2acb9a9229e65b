//! The way of the messages between nodes: JSON in bodies of `POST`.
//!
//! The nodes' key signs each body with a word for its kind, and each answer with the signature of
//! the message that it answers. The size of a message is signed too, so that no body of a third
//! party is read. A third party can send a message a second time; `messages.rs` says why that does
//! no harm.

use crate::NodesKey;
use crate::forward::NodesClient;
use crate::signed::{self, empty, signature_of, verify};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use orrery_gateway::RequestBody;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;

/// The path at the leaseholder's client port.
pub(crate) const POLL_PATH: &str = "/_nodes/grants";
/// The path at an owner's client port.
pub(crate) const RECALL_PATH: &str = "/_nodes/recall";

/// The most bytes of a message: some kilobytes for each partition that changes its owner, and some
/// bytes for each partition that has one.
const MESSAGE_BYTES: usize = 32 << 20;
/// The header of a message with its size in bytes and the signature of the size, with a space
/// between.
const SIZE: HeaderName = HeaderName::from_static("x-orrery-size");
/// The time for the body of a message.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The signed request with a message of a kind for the node with an address. Returns the request
/// and its signature; `None` if the address cannot be used.
fn request_with(
    key: &NodesKey,
    (kind, address, path): (&str, &str, &str),
    message: &impl Serialize,
) -> Option<(Request<Full<Bytes>>, String)> {
    let text = serde_json::to_string(message).ok()?;
    let size = text.len().to_string();
    let signed_size = format!("{size} {}", key.sign(&["size", kind, &size]));
    let (request, signature) = signed::post(key, kind, format!("{address}{path}"), &text);
    let request = request.header(SIZE, signed_size);
    let request = request.body(Full::new(Bytes::from(text)));
    Some((request.ok()?, signature))
}

/// Reads a signed message of a kind. Returns the message and its signature.
///
/// # Errors
/// The answer to a request that no node has signed.
pub(super) async fn read_message<M: DeserializeOwned>(
    key: &NodesKey,
    kind: &str,
    headers: &HeaderMap,
    body: RequestBody,
) -> Result<(M, String), Response<Bytes>> {
    let Some(size) = signed_size(key, kind, headers) else {
        return Err(empty(StatusCode::UNAUTHORIZED));
    };
    if size > MESSAGE_BYTES {
        return Err(empty(StatusCode::PAYLOAD_TOO_LARGE));
    }
    let body = timeout(BODY_TIMEOUT, Limited::new(body, size).collect()).await;
    let Ok(Ok(body)) = body else {
        return Err(empty(StatusCode::BAD_REQUEST));
    };
    let body = body.to_bytes();
    let signature = signature_of(headers);
    if !verify(key, &[kind], &body, signature) {
        return Err(empty(StatusCode::UNAUTHORIZED));
    }
    match serde_json::from_slice(&body) {
        Ok(message) => Ok((message, signature.to_owned())),
        Err(_) => Err(empty(StatusCode::BAD_REQUEST)),
    }
}

/// Returns the size in bytes of a message of a kind; `None` if no node has signed it.
fn signed_size(key: &NodesKey, kind: &str, headers: &HeaderMap) -> Option<usize> {
    let (size, signature) = headers.get(SIZE)?.to_str().ok()?.split_once(' ')?;
    let is_signed = key.verify(&["size", kind, size], signature);
    is_signed.then(|| size.parse().ok()).flatten()
}

/// Returns the answer to a message with a signature.
pub(super) fn answer_with(
    key: &NodesKey,
    signature: &str,
    message: &impl Serialize,
) -> Response<Bytes> {
    let Ok(text) = serde_json::to_string(message) else {
        return empty(StatusCode::INTERNAL_SERVER_ERROR);
    };
    signed::answer(key, signature, StatusCode::OK, text)
}

/// Sends a message of a kind to the node with an address, and reads the answer; `None` if the node
/// does not answer, refuses, or has not signed the answer.
pub(super) async fn ask<M: DeserializeOwned>(
    client: &NodesClient,
    key: &NodesKey,
    to: (&str, &str, &str),
    message: &impl Serialize,
) -> Option<M> {
    let (request, signature) = request_with(key, to, message)?;
    let response = client.request(request).await.ok()?;
    if response.status() != StatusCode::OK {
        return None;
    }
    let (_, body) = signed::read_answer(key, &signature, response, MESSAGE_BYTES).await?;
    serde_json::from_slice(&body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_message_counts_if_a_node_has_signed_it() {
        let key = NodesKey::random().expect("a key");
        let to = ("poll", "http://127.0.0.1:1", POLL_PATH);
        let (request, _) = request_with(&key, to, &"text").expect("a request");
        let headers = request.headers();
        assert_eq!(signed_size(&key, "poll", headers), Some(6));
        assert_eq!(signed_size(&key, "recall", headers), None);
        let mut other = headers.clone();
        let value = headers[SIZE]
            .to_str()
            .expect("a text")
            .replacen('6', "7", 1);
        other.insert(SIZE, value.parse().expect("a value"));
        assert_eq!(signed_size(&key, "poll", &other), None);
        other.remove(SIZE);
        assert_eq!(signed_size(&key, "poll", &other), None);
    }
}
