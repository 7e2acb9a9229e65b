//! Cross-origin requests: the pages that may use the server from a browser.
//!
//! A browser asks before it sends a page's request to another origin: `OPTIONS` with the headers
//! `origin` and `access-control-request-method`, without credentials. Without the answer that
//! allows the origin, the browser does not send the request; without the headers of the answer to
//! the request itself, the page cannot read it.
//!
//! Promises: without a listed origin, no page of another origin gets an answer that it may read.
//! An answer to an allowed page exposes all its headers, since clients read charges, session tokens
//! and continuations from them.
//! Leaves out: credentials of the browser, such as cookies, which the protocol does not use.

use crate::reply::Reply;
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, Uri};
use orrery_model::words::shortened;
use orrery_model::{Error, Kind};
use std::fmt;

/// The methods that allowed pages may use: all of the protocol.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// The seconds for which a browser may keep the answer to a preflight.
const MAX_AGE_SECONDS: &str = "600";
/// The question of a browser before a page of the internet reaches a server of a local network,
/// and its answer.
const REQUEST_LOCAL: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_LOCAL: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The origins whose pages may use the server.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    /// Origins in lower case, such as `https://app.example`; `*` for all.
    origins: Vec<String>,
}

/// The error for a text that is no origin.
#[derive(Debug, PartialEq, Eq)]
pub struct CorsError;

impl fmt::Display for CorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an origin has the form http://HOST, https://HOST or https://HOST:PORT, without a \
             path; * stands for all origins",
        )
    }
}

impl std::error::Error for CorsError {}

impl Cors {
    /// Allows the pages of these origins; none if there are none.
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        Cors {
            origins: origins.into_iter().collect(),
        }
    }

    /// Parses an origin in the form in which browsers send it, or `*`.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse_origin(text: &str) -> Result<String, CorsError> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Ok(text);
        }
        let text = text.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| CorsError)?;
        let authority = uri.authority().ok_or(CorsError)?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_bare = uri.path() == "/" && uri.query().is_none();
        if !is_web || !is_bare || authority.as_str().contains(['@', '*']) {
            return Err(CorsError);
        }
        let host = authority.host();
        let port = &authority.as_str()[host.len()..];
        let is_port = port.is_empty() || authority.port_u16().is_some();
        if host.is_empty() || !is_port {
            return Err(CorsError);
        }
        // Browsers leave out the port that the scheme has anyway.
        let is_https = uri.scheme_str() == Some("https");
        match (is_https, authority.port_u16()) {
            (false, Some(80)) => Ok(format!("http://{host}")),
            (true, Some(443)) => Ok(format!("https://{host}")),
            _ => Ok(text.to_owned()),
        }
    }

    /// Returns the origin of a request, if its pages may use the server.
    fn allowed_origin<'a>(&self, head: &'a Parts) -> Option<&'a HeaderValue> {
        if self.origins.is_empty() {
            return None;
        }
        let value = head.headers.get(ORIGIN)?;
        let origin = value.to_str().ok()?;
        let is_listed = |listed: &String| listed == "*" || listed.eq_ignore_ascii_case(origin);
        self.origins.iter().any(is_listed).then_some(value)
    }

    /// Answers a preflight; returns `None` for another request.
    pub(crate) fn preflight(&self, head: &Parts) -> Option<Reply> {
        let headers = &head.headers;
        let is_preflight = head.method == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight {
            return None;
        }
        if self.allowed_origin(head).is_none() {
            return Some(Reply::failed(refused(&headers[ORIGIN])));
        }
        let mut reply = Reply::empty(204);
        let answer = &mut reply.headers;
        answer.insert(
            ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static(METHODS),
        );
        answer.insert(
            ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from_static(MAX_AGE_SECONDS),
        );
        if let Some(wanted) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        if headers.contains_key(REQUEST_LOCAL) {
            answer.insert(ALLOW_LOCAL, HeaderValue::from_static("true"));
        }
        Some(reply)
    }

    /// Lets the page that sent a request read the answer, if its origin is allowed.
    pub(crate) fn expose(&self, head: &Parts, response: &mut Response<Bytes>) {
        if self.origins.is_empty() {
            return;
        }
        // A cache must not give the answer for one origin to another.
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.allowed_origin(head) else {
            return;
        };
        let mut names = Vec::new();
        for name in headers.keys() {
            names.push(name.as_str());
        }
        names.sort_unstable();
        let names = HeaderValue::from_str(&names.join(", "));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        // The names of headers are text that a header may hold.
        if let Ok(names) = names {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, names);
        }
    }
}

/// Returns the refusal of a preflight, which the network view of a browser shows.
fn refused(origin: &HeaderValue) -> Error {
    let origin = shortened(&String::from_utf8_lossy(origin.as_bytes()));
    // Pages of files and of sandboxed frames have the origin `null`, which cannot be listed.
    let option = match Cors::parse_origin(&origin) {
        Ok(origin) => origin,
        Err(_) => "*".to_owned(),
    };
    Error::new(
        Kind::Forbidden,
        "CORS not enabled or no matching rule found for this request.",
    )
    .with_help(format!(
        "To let pages of the origin {origin} use this server, start the server with --cors \
         {option}, or set ORRERY_CORS."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri("/dbs");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn cors(origins: &[&str]) -> Cors {
        let parse = |text: &&str| Cors::parse_origin(text).expect("an origin");
        Cors::new(origins.iter().map(parse))
    }

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_no_path() {
        for (text, origin) in [
            ("https://App.example", "https://app.example"),
            ("https://app.example:443", "https://app.example"),
            ("http://app.example:80/", "http://app.example"),
            ("http://[::1]:443", "http://[::1]:443"),
            ("http://localhost:3000/", "http://localhost:3000"),
            ("*", "*"),
        ] {
            assert_eq!(Cors::parse_origin(text), Ok(origin.to_owned()));
        }
        for text in [
            "",
            "app.example",
            "ftp://app.example",
            "https://app.example/path",
            "https://app.example?query",
            "https://user@app.example",
            "http://localhost:99999",
            "http://:3000",
            "https://*.app.example",
            "null",
        ] {
            assert_eq!(Cors::parse_origin(text), Err(CorsError), "{text}");
        }
    }

    #[test]
    fn only_a_preflight_of_an_allowed_origin_is_allowed() {
        let cors = cors(&["https://app.example"]);
        let of = |origin: &str| {
            let asked = ("access-control-request-method", "POST");
            let wanted = ("access-control-request-headers", "authorization,x-ms-date");
            let head = head("OPTIONS", &[("origin", origin), asked, wanted]);
            cors.preflight(&head).expect("a preflight")
        };
        let allowed = of("https://app.example");
        assert_eq!(allowed.status, 204);
        let wanted = &allowed.headers[ACCESS_CONTROL_ALLOW_HEADERS];
        assert_eq!(wanted, "authorization,x-ms-date");
        for origin in ["https://evil.example", "http://app.example", "null"] {
            let refused = of(origin);
            assert_eq!(refused.status, 403, "{origin}");
            assert!(!refused.headers.contains_key(ACCESS_CONTROL_ALLOW_METHODS));
        }
        let no_preflight = head("OPTIONS", &[("origin", "https://app.example")]);
        assert!(cors.preflight(&no_preflight).is_none());
    }

    #[test]
    fn an_answer_exposes_all_its_headers_to_an_allowed_origin_only() {
        let exposed = |cors: &Cors, origin: &str| {
            let mut response = Response::new(Bytes::new());
            let name = HeaderName::from_static("x-ms-session-token");
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static("0:1"));
            cors.expose(&head("GET", &[("origin", origin)]), &mut response);
            response.headers().clone()
        };
        let listed = cors(&["https://app.example"]);
        let headers = exposed(&listed, "https://app.example");
        assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
        let names = headers[ACCESS_CONTROL_EXPOSE_HEADERS]
            .to_str()
            .expect("text");
        assert!(names.contains("x-ms-session-token"), "{names}");
        let foreign = exposed(&listed, "https://evil.example");
        assert!(!foreign.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
        assert_eq!(foreign[VARY], "origin");
        let any = exposed(&cors(&["*"]), "https://evil.example");
        assert_eq!(any[ACCESS_CONTROL_ALLOW_ORIGIN], "https://evil.example");
        let off = exposed(&Cors::default(), "https://app.example");
        assert!(!off.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) && !off.contains_key(VARY));
    }
}
