//! Requests and responses as bytes. The signature of a request follows from its path.

use super::item_keys;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{self, BufRead};

/// A request, which is signed when it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    resource_type: &'static str,
    resource_link: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    age: SignedDuration,
    is_signed: bool,
}

/// The resource types that a path can contain.
const RESOURCE_TYPES: &[&str] = &[
    "dbs",
    "colls",
    "docs",
    "sprocs",
    "triggers",
    "udfs",
    "pkranges",
    "conflicts",
    "offers",
    "users",
    "permissions",
    "clientencryptionkeys",
];

impl Request {
    /// Creates a request. The signature covers the last resource type in `path` and the link up to
    /// the last id.
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        // An operation on a container is signed as the container.
        let link = path
            .trim_matches('/')
            .split("/operations/")
            .next()
            .unwrap_or_default();
        let above = |text: &str| match text.rsplit_once('/') {
            Some((above, _)) => above.to_owned(),
            None => String::new(),
        };
        let (resource_type, resource_link) = match last_resource_type(link) {
            // A feed is signed with the link of its owner.
            Some(resource_type) => (resource_type, above(link)),
            None => (
                last_resource_type(&above(link)).unwrap_or(""),
                link.to_owned(),
            ),
        };
        Request {
            method,
            path: path.to_owned(),
            resource_type,
            resource_link,
            headers: Vec::new(),
            body: Vec::new(),
            age: SignedDuration::ZERO,
            is_signed: true,
        }
    }

    /// Signs for a time that is so many seconds ago.
    pub(crate) fn signed_seconds_ago(mut self, seconds: i64) -> Self {
        self.age = SignedDuration::from_secs(seconds);
        self
    }

    /// Signs for another resource than the path names.
    pub(crate) fn signed_as(mut self, resource_type: &'static str, resource_link: &str) -> Self {
        self.resource_type = resource_type;
        self.resource_link = resource_link.to_owned();
        self
    }

    /// Signs as paths by resource id are signed: only the last id of the link, in lower case.
    pub(crate) fn by_rid(mut self) -> Self {
        self.resource_link = self
            .resource_link
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .replace("%3D", "=")
            .to_lowercase();
        self
    }

    /// Signs as paths with percent signs are signed: without them.
    pub(crate) fn signed_decoded(mut self) -> Self {
        let decoded = percent_encoding::percent_decode_str(&self.resource_link).decode_utf8();
        self.resource_link = decoded.expect("a path in UTF-8").into_owned();
        self
    }

    /// Sends no signature.
    pub(crate) fn unsigned(mut self) -> Self {
        self.is_signed = false;
        self
    }

    /// Adds a header.
    pub(crate) fn header(self, name: &'static str, value: impl Into<String>) -> Self {
        self.any_header(name, value)
    }

    /// Adds a header whose name is known when the test runs.
    pub(crate) fn any_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds the header with the partition key.
    pub(crate) fn key(self, key: &str) -> Self {
        let header = Json::Array(vec![key.into()]).to_text();
        self.header("x-ms-documentdb-partitionkey", header)
    }

    /// Sends a token instead of a signature.
    pub(crate) fn token(self, token: &str) -> Self {
        let encoded =
            percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC)
                .to_string();
        self.header("authorization", encoded)
    }

    /// Sets the body.
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds a member to the JSON object in the body; `value` is a JSON text.
    pub(crate) fn with_member(mut self, name: &str, value: &str) -> Self {
        let Some((_, open)) = self.body.split_last() else {
            panic!("the request has no body")
        };
        self.body = [open, format!(",\"{name}\":{value}}}").as_bytes()].concat();
        self
    }

    /// Creates a query over all partitions.
    pub(crate) fn query(path: &str, text: &str) -> Self {
        Request::new("POST", path)
            .header("Content-Type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-documentdb-query-enablecrosspartition", "True")
            .body(format!("{{\"query\":{}}}", Json::from(text).to_text()))
    }

    /// Returns the headers with a signature by `key` for the current time.
    pub(crate) fn signed_headers(&self, key: &str) -> Vec<(String, String)> {
        let date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&(Timestamp::now() - self.age));
        let date = date.expect("a date");
        let text = format!(
            "{}\n{}\n{}\n{}\n\n",
            self.method.to_lowercase(),
            self.resource_type,
            self.resource_link,
            date.to_lowercase()
        );
        let key = STANDARD.decode(key).expect("base64");
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&key)
            .expect("a key")
            .chain_update(text)
            .finalize()
            .into_bytes();
        let token = format!("type=master&ver=1.0&sig={}", STANDARD.encode(mac));
        let token =
            percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC)
                .to_string();
        let mut headers = vec![("x-ms-date".to_owned(), date)];
        for (name, usual) in [
            ("x-ms-version", "2020-07-15".into()),
            ("authorization", token),
        ] {
            let is_sent = self.is_signed || name != "authorization";
            if is_sent && self.headers.iter().all(|(given, _)| given != name) {
                headers.push((name.to_owned(), usual));
            }
        }
        headers.extend(self.headers.iter().cloned());
        item_keys::note_container(self);
        if let Some((name, value)) = item_keys::header_of_new_item(self) {
            headers.push((name.to_owned(), value));
        }
        headers
    }

    /// Returns method, path and body.
    pub(super) fn parts(&self) -> (&'static str, &str, &[u8]) {
        (self.method, &self.path, &self.body)
    }

    /// Returns the names of the headers that the test has set.
    pub(super) fn header_names(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(name, _)| name.as_str())
    }

    /// Reads the response, which has no body if the method is HEAD.
    pub(crate) fn read_answer(&self, stream: &mut impl BufRead) -> io::Result<Answer> {
        if self.method == "HEAD" {
            Answer::read_head(stream)
        } else {
            Answer::read(stream)
        }
    }

    /// Returns the body.
    pub(crate) fn body_bytes(&self) -> Vec<u8> {
        self.body.clone()
    }

    /// Returns the bytes of the request. The host is the address, unless a header names another.
    pub(crate) fn bytes(&self, address: &str, key: &str) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if self.header_names().all(|name| name != "host") {
            text.push_str(&format!("Host: {address}\r\n"));
        }
        for (name, value) in self.signed_headers(key) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        [text.as_bytes(), &self.body].concat()
    }
}

/// Returns the resource type with which a path ends, if it ends with one.
fn last_resource_type(path: &str) -> Option<&'static str> {
    let last = path.rsplit('/').next();
    RESOURCE_TYPES
        .iter()
        .find(|resource_type| last == Some(**resource_type))
        .copied()
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads one response.
    pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut answer = Self::read_head(stream)?;
        let length = answer.header("content-length").map_or(Ok(0), str::parse);
        answer
            .body
            .resize(length.map_err(|_| io::ErrorKind::InvalidData)?, 0);
        stream.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    /// Reads the response to a HEAD request, which has no body whatever its headers say.
    pub(crate) fn read_head(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        Ok(Answer {
            status,
            head,
            body: Vec::new(),
        })
    }

    /// Returns the lines of the head after the status line.
    pub(crate) fn head_lines(&self) -> impl Iterator<Item = &str> {
        self.head.lines().skip(1)
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head_lines().find_map(|line| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Json {
        parse(&self.body).expect("the body is JSON")
    }

    /// Returns the status and the sub-status, 0 if there is none.
    pub(crate) fn code(&self) -> (u16, u32) {
        (
            self.status,
            self.header("x-ms-substatus")
                .map_or(0, |text| text.parse().expect("a number")),
        )
    }

    /// Checks the properties of every error and returns its message.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, sub_status: Option<&str>, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("x-ms-substatus"), sub_status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(
            self.header("content-length"),
            Some(self.body.len().to_string().as_str())
        );
        assert!(self.header("x-ms-request-charge").is_some());
        let body = self.json();
        assert_eq!(body.get("code").and_then(Json::as_str), Some(code));
        let message = body
            .get("message")
            .and_then(Json::as_str)
            .expect("a message")
            .to_owned();
        assert!(
            message.contains(self.header("x-ms-activity-id").expect("an activity id")),
            "{message}"
        );
        message
    }

    /// Returns the LSN of the session token.
    pub(crate) fn lsn(&self) -> u64 {
        let token = self.header("x-ms-session-token").expect("a session token");
        token
            .rsplit('#')
            .next()
            .and_then(|lsn| lsn.parse().ok())
            .expect("a session token ends in a number")
    }

    /// Returns the rows of a feed of items or of a query for items.
    pub(crate) fn rows(&self) -> Vec<Json> {
        self.members("Documents")
    }

    /// Returns the rows of a feed, which are in this member.
    pub(crate) fn members(&self, member: &str) -> Vec<Json> {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
            .get(member)
            .and_then(Json::as_array)
            .expect("a feed has rows")
            .to_vec()
    }
}
