//! Signed messages between nodes, as bodies of `POST` at the client port.
//!
//! The nodes' key signs each body with a word for its kind, and each answer with the signature of
//! the message that it answers.
//!
//! Left out: what the messages say, the size up to which a message is read, and messages whose size
//! is signed too (`grants/wire.rs`).

use crate::NodesKey;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Builder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use orrery_gateway::RequestBody;

/// The header with the signature of a message or of its answer.
pub(crate) const SIGNATURE: HeaderName = HeaderName::from_static("x-orrery-signature");

/// Begins the request with a text of a kind. Returns the request and the signature of the text.
pub(crate) fn post(key: &NodesKey, kind: &str, uri: String, text: &str) -> (Builder, String) {
    let signature = key.sign(&[kind, text]);
    let request = Request::post(uri).header(SIGNATURE, signature.as_str());
    (request, signature)
}

/// Returns the answer to the message with a signature.
pub(crate) fn answer(
    key: &NodesKey,
    signature: &str,
    status: StatusCode,
    text: String,
) -> Response<Bytes> {
    let own = key.sign(&["answer", signature, &text]);
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(own) = HeaderValue::from_str(&own) {
        headers.insert(SIGNATURE, own);
    }
    answer
}

/// Reads the answer to the message with a signature, of at most so many bytes. Returns status and
/// body; `None` if no node has signed the answer.
pub(crate) async fn read_answer(
    key: &NodesKey,
    signature: &str,
    response: Response<Incoming>,
    most_bytes: usize,
) -> Option<(StatusCode, Bytes)> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, most_bytes).collect().await.ok()?;
    let body = body.to_bytes();
    let signed = ["answer", signature];
    verify(key, &signed, &body, signature_of(&head.headers)).then_some((head.status, body))
}

/// Reads a message of a kind, of at most so many bytes, that another node has sent to the holder of
/// the key. Returns the message and its signature.
///
/// # Errors
/// The refusal: 400 for a message that is too long, 401 for one that no node has signed.
pub(crate) async fn read_message(
    request: Request<RequestBody>,
    (key, kind): (&NodesKey, &str),
    most_bytes: usize,
) -> Result<(Bytes, String), Response<Bytes>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, most_bytes).collect().await;
    let body = body.map_err(|_| empty(StatusCode::BAD_REQUEST))?.to_bytes();
    let signature = signature_of(&head.headers);
    if head.method != Method::POST || !verify(key, &[kind], &body, signature) {
        return Err(empty(StatusCode::UNAUTHORIZED));
    }
    Ok((body, signature.to_owned()))
}

/// Returns the signature of a message or of its answer; an empty text if there is none.
pub(crate) fn signature_of(headers: &HeaderMap) -> &str {
    let value = headers.get(SIGNATURE);
    value.and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// Returns true if the nodes' key has signed some texts and a body of UTF-8.
pub(crate) fn verify(key: &NodesKey, texts: &[&str], body: &[u8], signature: &str) -> bool {
    match std::str::from_utf8(body) {
        Ok(body) => key.verify(&[texts, &[body]].concat(), signature),
        Err(_) => false,
    }
}

/// Returns an answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}
