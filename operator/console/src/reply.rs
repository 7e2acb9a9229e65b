//! Responses of the console and the headers that they have in common.

use crate::refusal::Refusal;
use crate::service::Base;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use orrery_gateway::{Connection, Scheme};

/// Adds the headers that every response has.
pub(crate) fn complete(response: &mut Response<Bytes>) {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Returns a response with a JSON text.
pub(crate) fn json(status: u16, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns a redirection to the console, with a fragment.
pub(crate) fn redirect(base: Base, fragment: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(location) = HeaderValue::from_str(&format!("{}{fragment}", base.path())) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Returns the name of the cookie. Browsers send the cookies of a host to all its ports, so the
/// name has the port: two servers of one machine have two sessions.
pub(crate) fn cookie_name(connection: &Connection) -> String {
    format!("orrery-console-{}", connection.local.port())
}

/// Sets the cookie of a session; an empty secret removes the cookie.
pub(crate) fn set_cookie(
    response: &mut Response<Bytes>,
    secret: &str,
    connection: &Connection,
    base: Base,
) {
    let name = cookie_name(connection);
    let path = base.path();
    let mut cookie = format!("{name}={secret}; Path={path}; HttpOnly; SameSite=Strict");
    if connection.scheme == Scheme::Https {
        cookie.push_str("; Secure");
    }
    if secret.is_empty() {
        cookie.push_str("; Max-Age=0");
    }
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// Returns the refusal of a request that needs a secret.
pub(crate) fn no_randomness() -> Refusal {
    Refusal::new(
        500,
        "NoRandomness",
        "the system has no random numbers for a secret",
    )
}
