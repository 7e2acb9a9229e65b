//! Replies: a status, a body, and the headers that clients read from every reply, success or error.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use orrery_engine::request::{Charge, ChargePart, Outcome, Position};
use orrery_engine::{Container, Database, Engine};
use orrery_model::json::write_string;
use orrery_model::words::bounded;
use orrery_model::work::Work;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, Rid, object};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that `encodeURIComponent` encodes.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');
/// The characters that a header value cannot contain, and the escape character.
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b'%');
/// The header with the position that a client's session has reached.
const SESSION_TOKEN: &str = "x-ms-session-token";

/// The most characters of the message of an error.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// The milliseconds that a client is told to wait if an error does not state another time.
const RETRY_AFTER_MS_DEFAULT: u64 = 10;

/// Returns a header with a value that never changes.
const fn constant(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (
        HeaderName::from_static(name),
        HeaderValue::from_static(value),
    )
}

/// The version of the schema.
pub(crate) const SCHEMA_VERSION: &str = "1.18";
/// The headers that are the same on every reply. As all names in statics here, theirs are checked
/// when the program is built and not for every reply.
static CONSTANT: [(HeaderName, HeaderValue); 4] = [
    constant("x-ms-serviceversion", "version=2.14.0.0"),
    constant("x-ms-gatewayversion", "2.0.0"),
    constant("x-ms-schemaversion", SCHEMA_VERSION),
    constant("server", concat!("orrery/", env!("CARGO_PKG_VERSION"))),
];
/// The headers of a single replica, which every reply with a position has.
static REPLICA: [(HeaderName, HeaderValue); 2] = [
    constant("x-ms-current-replica-set-size", "1"),
    constant("x-ms-current-write-quorum", "1"),
];
/// The headers with the LSN of a physical partition.
static LSN: [HeaderName; 5] = [
    HeaderName::from_static("lsn"),
    HeaderName::from_static("x-ms-global-committed-lsn"),
    HeaderName::from_static("x-ms-quorum-acked-lsn"),
    HeaderName::from_static("x-ms-cosmos-llsn"),
    HeaderName::from_static("x-ms-cosmos-quorum-acked-llsn"),
];
/// The headers with the LSN of an item.
static ITEM_LSN: [HeaderName; 2] = [
    HeaderName::from_static("x-ms-item-lsn"),
    HeaderName::from_static("x-ms-cosmos-item-llsn"),
];
/// The headers with the id of a physical partition.
static RANGE_ID: [HeaderName; 2] = [
    HeaderName::from_static("x-ms-documentdb-partitionkeyrangeid"),
    HeaderName::from_static("x-ms-cosmos-physical-partition-id"),
];

/// A reply before it is rendered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) charge: Charge,
    /// The work of the engine that the charge covers.
    pub(crate) work: Work,
    pub(crate) position: Option<Position>,
    /// True if the session token has the short form.
    pub(crate) has_short_token: bool,
    /// The resource that contains the addressed one.
    pub(crate) owner: Option<Owner>,
    /// True for a transactional batch that failed.
    pub(crate) is_failed_batch: bool,
    pub(crate) error: Option<Error>,
}

/// The resource that contains the addressed one. Clients store session tokens under its names.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The path by names, without a leading slash.
    pub(crate) path: String,
    /// The resource id.
    pub(crate) rid: Rid,
}

impl Owner {
    /// Returns a database as the owner of a resource.
    pub(crate) fn database(database: &Database) -> Self {
        Owner {
            path: format!("dbs/{}", database.id()),
            rid: database.rid(),
        }
    }

    /// Returns the database of a container as the owner of this container.
    pub(crate) fn database_of(container: &Container) -> Self {
        Owner {
            path: format!("dbs/{}", container.database_id()),
            rid: container.rid().database_part(),
        }
    }

    /// Returns a container as the owner of a resource.
    pub(crate) fn container(container: &Container) -> Self {
        Owner {
            path: format!("dbs/{}/colls/{}", container.database_id(), container.id()),
            rid: container.rid(),
        }
    }
}

/// Returns the answer with an error to a request that no gateway has answered, in the form of all
/// errors. `is_head` leaves out the body.
pub fn error_response(error: Error, world: &dyn World, is_head: bool) -> Response<Bytes> {
    let activity = guid(world.random(), world.random());
    let activity = HeaderValue::from_str(&activity);
    let activity = activity.unwrap_or(HeaderValue::from_static("none"));
    Reply::failed(error).render(&activity, is_head)
}

impl Reply {
    /// Creates a reply without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Reply::json(status, Bytes::new())
    }

    /// Creates a reply with a JSON body.
    pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Reply {
            status,
            headers: HeaderMap::with_capacity(32),
            body: body.into(),
            charge: Charge::default(),
            work: Work::default(),
            position: None,
            has_short_token: false,
            owner: None,
            is_failed_batch: false,
            error: None,
        }
    }

    /// Creates a reply with a binary body.
    pub(crate) fn bytes(status: u16, body: Bytes) -> Self {
        let mut reply = Reply::json(status, body);
        reply.headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        reply
    }

    /// Creates the reply to a request that failed before the engine did anything. The request is
    /// charged 1 RU, and nothing if its credentials were refused with 401, or if its client has an
    /// old address or container in its cache, and repeats the request.
    pub(crate) fn failed(error: Error) -> Self {
        const FAILED_REQUEST: Charge = Charge(100);
        let mut reply = Reply::empty(error.status());
        let is_of_stale_client = matches!(error.kind(), Kind::AddressGone | Kind::NameCacheIsStale);
        let is_free = error.status() == 401 || is_of_stale_client;
        reply.charge = if is_free {
            Charge::default()
        } else {
            FAILED_REQUEST
        };
        reply.error = Some(error);
        reply
    }

    /// Creates the reply to an outcome of the engine: `success` makes the reply from the result,
    /// and an error becomes [`Reply::failed`], with the charge and the position of the outcome.
    pub(crate) fn of<T>(outcome: Outcome<T>, success: impl FnOnce(T) -> Reply) -> Self {
        let mut reply = match outcome.result {
            Ok(result) => success(result),
            Err(error) => Reply::failed(error),
        };
        reply.charge = outcome.charge;
        reply.work = outcome.work;
        reply.position = outcome.position;
        reply
    }

    /// Returns the reply with a header. An empty value adds no header, because clients take an
    /// empty header for a value.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a header; adds none if the value is empty, as [`Reply::with`].
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.headers
                .insert(HeaderName::from_static(name), header_value(value));
        }
    }

    /// Sets a header to a text that is not copied; sets none if the text is empty or has characters
    /// that no header has.
    pub(crate) fn set_shared(&mut self, name: &'static str, value: Bytes) {
        if !value.is_empty()
            && let Ok(value) = HeaderValue::from_maybe_shared(value)
        {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    fn set_number(&mut self, name: &'static str, value: u64) {
        self.headers
            .insert(HeaderName::from_static(name), HeaderValue::from(value));
    }

    /// Returns the reply with an etag.
    pub(crate) fn with_etag(mut self, etag: &str) -> Self {
        self.headers.insert(ETAG, header_value(etag));
        self
    }

    /// Returns the reply with the headers of a page of `rows` rows.
    pub(crate) fn with_rows(mut self, rows: usize, continuation: Option<&str>) -> Self {
        self.set_number("x-ms-item-count", rows as u64);
        if let Some(continuation) = continuation {
            self.set("x-ms-continuation", continuation);
        }
        self
    }

    /// Returns the parts of the charge, which add up to the charge.
    pub(crate) fn charge_parts(&self, engine: &Engine) -> Vec<ChargePart> {
        let mut parts = engine.charge_parts(&self.work, self.charge);
        // Without any work the single part is the charge of a failed request.
        if let ([part], true) = (&mut parts[..], self.work.steps.is_empty()) {
            part.what = "requests turned away";
        }
        parts
    }

    /// Adds the header with the parts of the charge, which add up to the charge:
    /// `{"charge":5.71,"parts":[{"what":"bodies written","count":1,"ru":4.9523},…]}`.
    pub(crate) fn explain_charge(&mut self, engine: &Engine) {
        let parts = self.charge_parts(engine);
        let part = |part: &ChargePart| {
            let ru = part.fine as f64 / 10_000.0;
            Json::Object(object! { "what" => part.what, "count" => part.count, "ru" => ru })
        };
        let parts: Vec<Json> = parts.iter().map(part).collect();
        let shown = object! { "charge" => self.charge.as_ru(), "parts" => parts };
        self.set(
            "x-orrery-charge-parts",
            &percent_encode(&Json::Object(shown).to_text()),
        );
    }

    /// Returns the reply with a session token of the short form, if `is_short` is true: a range and
    /// an LSN, which clients of old versions of the protocol read as a number.
    pub(crate) fn with_short_token(mut self, is_short: bool) -> Self {
        self.has_short_token = is_short;
        self
    }

    /// Returns the reply as a response of HTTP, with all headers that clients read from every
    /// reply. `head` omits the body and keeps its length.
    pub(crate) fn render(mut self, activity: &HeaderValue, head: bool) -> Response<Bytes> {
        let is_missing = self
            .error
            .as_ref()
            .is_some_and(|error| error.kind() == Kind::NotFound);
        // The body of an error quotes the activity id, so it is written only here.
        if let Some(error) = self.error.take() {
            let activity = activity.to_str().unwrap_or_default();
            self.describe(&error, activity);
        }

        // Headers of every reply.
        self.set_all(&CONSTANT);
        if let Some(owner) = self.owner.take() {
            self.set("x-ms-alt-content-path", &owner.path);
            if self.names_owner_rid() {
                self.set("x-ms-content-path", &owner.rid.to_string());
            }
        }
        self.headers.insert(
            HeaderName::from_static("x-ms-activity-id"),
            activity.clone(),
        );
        self.set("x-ms-request-charge", &self.charge.to_string());
        if let Some(position) = self.position {
            self.set_position(position);
            // Some clients take the token of every 404 into their session. A partition that was
            // never written has nothing to say there.
            if is_missing && position.is_of_unwritten_partition() {
                self.headers.remove(SESSION_TOKEN);
            }
        }

        // HTTP forbids a body and its length on 204 and 304. A 204 has a type all the same, as in
        // the service: some clients check the type of every success.
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status != StatusCode::NOT_MODIFIED {
            self.headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static("application/json"));
        }
        if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
            self.headers
                .insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        } else {
            self.body.clear();
        }
        let body = if head { Bytes::new() } else { self.body };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        response
    }

    /// Returns true if the reply has the resource id of the owner of the addressed resource. The
    /// answer about a missing resource has none, nor has a transactional batch that failed, as in
    /// the service.
    pub(crate) fn names_owner_rid(&self) -> bool {
        self.status != 404 && !self.is_failed_batch
    }

    /// Sets the body and the headers of an error.
    fn describe(&mut self, error: &Error, activity: &str) {
        self.body = error_body(error, activity);
        if error.sub_status() != 0 {
            self.set_number("x-ms-substatus", u64::from(error.sub_status()));
        }
        if let Some(milliseconds) = retry_after_ms(error) {
            self.set_number("x-ms-retry-after-ms", milliseconds);
        }
    }

    /// Sets the headers for the position in the history of a physical partition that the reply
    /// reflects: one session token, and the LSNs that it is made of.
    fn set_position(&mut self, position: Position) {
        let Position {
            range_id,
            lsn,
            item_lsn,
            ..
        } = position;
        self.set(
            SESSION_TOKEN,
            &format!("{range_id}:{}", self.session(position)),
        );
        self.set_numbers(&LSN, lsn);
        if let Some(item_lsn) = item_lsn {
            self.set_numbers(&ITEM_LSN, item_lsn);
        }
        self.set_numbers(&RANGE_ID, u64::from(range_id));
        self.set_all(&REPLICA);
    }

    /// Returns the session token of a position without its range.
    pub(crate) fn session(&self, position: Position) -> String {
        match self.has_short_token {
            true => position.lsn.to_string(),
            false => format!("{}#{}", position.version, position.lsn),
        }
    }

    /// Sets headers that all have the value `number`, which they share in memory.
    fn set_numbers(&mut self, names: &[HeaderName], number: u64) {
        let value = HeaderValue::from(number);
        for name in names {
            self.headers.insert(name.clone(), value.clone());
        }
    }

    /// Sets headers with constant values.
    fn set_all(&mut self, headers: &[(HeaderName, HeaderValue)]) {
        for (name, value) in headers {
            self.headers.insert(name.clone(), value.clone());
        }
    }

    /// Returns a 405 with the header that lists the methods of the path.
    pub(crate) fn allowing(mut self, methods: &[&str]) -> Self {
        self.headers
            .insert(ALLOW, header_value(&methods.join(", ")));
        self
    }
}

/// Returns the milliseconds after which the client should retry: the time of the error, or a
/// default for the kinds of errors where clients expect the header.
pub(crate) fn retry_after_ms(error: &Error) -> Option<u64> {
    if let Some(milliseconds) = error.retry_after_ms() {
        return Some(milliseconds);
    }
    match error.kind() {
        Kind::Throttled | Kind::RetryWith => Some(RETRY_AFTER_MS_DEFAULT),
        _ => None,
    }
}

/// Returns a text as a header value; characters that cannot stand in one are percent-encoded.
fn header_value(text: &str) -> HeaderValue {
    if text.is_ascii()
        && let Ok(value) = HeaderValue::from_str(text)
    {
        return value;
    }
    let encoded = utf8_percent_encode(text, UNPRINTABLE).to_string();
    HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static(""))
}

/// Percent-encodes a text as `encodeURIComponent` does.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Encodes a text in base64.
pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Returns the body of an error.
///
/// In the service, the gateway passes on a list of errors from its back end; the message has the
/// same form here: `Message: {"Errors":["…"]}`. Errors of queries and scripts contain the list
/// already. A refusal of credentials comes from the service's gateway itself, without a list.
///
/// A message that is no list is cut to [`MESSAGE_CHARS_MAX`] characters: a value of the request in
/// the message must not make the answer as large as the request. The messages in a list are cut
/// where the list is made.
fn error_body(error: &Error, activity: &str) -> Bytes {
    let message = if error.status() == 401 {
        let text = bounded(error.message(), MESSAGE_CHARS_MAX);
        format!("{text}\r\nActivityId: {activity}")
    } else {
        format!("Message: {}\r\nActivityId: {activity}", error_list(error))
    };
    let mut body = Vec::with_capacity(message.len() + 64);
    body.extend_from_slice(b"{\"code\":");
    write_string(error.kind().code(), &mut body);
    body.extend_from_slice(b",\"message\":");
    write_string(&message, &mut body);
    if let Some(detail) = error.additional_info() {
        body.extend_from_slice(b",\"additionalErrorInfo\":");
        write_string(detail, &mut body);
    }
    body.push(b'}');
    body.into()
}

/// Returns the list of errors as the service's back end answers it: `{"Errors":["…"]}`, or the
/// list that the message of a query or a script contains already.
pub(crate) fn error_list(error: &Error) -> String {
    let text = error.message();
    if text.starts_with("{\"errors\":") || text.starts_with("{\"Errors\":") {
        return text.to_owned();
    }
    let mut quoted = Vec::new();
    write_string(&bounded(text, MESSAGE_CHARS_MAX), &mut quoted);
    format!("{{\"Errors\":[{}]}}", String::from_utf8_lossy(&quoted))
}

/// Returns a random GUID (version 4) made of 128 random bits.
pub(crate) fn guid(high: u64, low: u64) -> String {
    let high = (high & !0xF000) | 0x4000;
    let low = (low & !(3 << 62)) | (1 << 63);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    const ACTIVITY: HeaderValue = HeaderValue::from_static("a-b-c");

    fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
        response
            .headers()
            .get(name)
            .map(|v| v.to_str().expect("ASCII"))
    }

    fn body(response: Response<Bytes>) -> Bytes {
        response.into_body()
    }

    #[test]
    fn an_error_is_json_with_its_message_and_the_activity_id() {
        let error = Error::new(Kind::CrossPartitionQueryNotServable, "no \"plan\"")
            .with_additional_info("{}");
        let response = Reply::failed(error).render(&ACTIVITY, false);
        assert_eq!(response.status(), 400);
        assert_eq!(header(&response, "x-ms-substatus"), Some("1004"));
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        let length = header(&response, "content-length").map(str::to_owned);
        let text = body(response);
        assert_eq!(length, Some(text.len().to_string()));
        let json = parse(&text).expect("JSON");
        assert_eq!(
            json.get("code").and_then(|c| c.as_str()),
            Some("BadRequest")
        );
        let message = "Message: {\"Errors\":[\"no \\\"plan\\\"\"]}\r\nActivityId: a-b-c";
        assert_eq!(json.get("message").and_then(|m| m.as_str()), Some(message));
        assert_eq!(
            json.get("additionalErrorInfo").and_then(|d| d.as_str()),
            Some("{}")
        );
    }

    #[test]
    fn errors_of_queries_and_scripts_are_not_wrapped_a_second_time() {
        for errors in [
            r#"{"errors":[{"code":"SC1001","message":"m"}]}"#,
            r#"{"Errors":["a script threw"]}"#,
        ] {
            let response = Reply::failed(Error::bad(errors)).render(&ACTIVITY, false);
            let json = parse(&body(response)).expect("JSON");
            let message = json
                .get("message")
                .and_then(|m| m.as_str())
                .expect("a message")
                .to_owned();
            assert_eq!(message, format!("Message: {errors}\r\nActivityId: a-b-c"));
        }
    }

    #[test]
    fn a_message_with_a_long_value_of_the_request_is_cut_before_its_remedy() {
        let error = Error::bad(format!("The id '{}' is odd.", "x".repeat(200_000)));
        let response = Reply::failed(error.with_help("Take another.")).render(&ACTIVITY, false);
        let body = body(response);
        assert!(body.len() < 5_000, "{} bytes", body.len());
        let text = String::from_utf8_lossy(&body);
        assert!(text.contains("is odd. Take another."), "{text}");
    }

    #[test]
    fn a_throttled_reply_always_states_when_to_retry() {
        let response = Reply::failed(Error::new(Kind::Throttled, "large")).render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-retry-after-ms"), Some("10"));
        let response = Reply::failed(Error::new(Kind::Throttled, "large").with_retry_after_ms(37));
        assert_eq!(
            header(&response.render(&ACTIVITY, false), "x-ms-retry-after-ms"),
            Some("37")
        );
    }

    #[test]
    fn a_position_becomes_exactly_one_session_token() {
        let position = Some(Position {
            range_id: 3,
            version: 9,
            lsn: 7,
            item_lsn: Some(5),
        });
        let outcome = Outcome {
            result: Ok(()),
            charge: Charge(285),
            work: Work::default(),
            position,
        };
        let response = Reply::of(outcome, |()| Reply::empty(200)).render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-session-token"), Some("3:9#7"));
        assert_eq!(header(&response, "x-ms-item-lsn"), Some("5"));
        assert_eq!(header(&response, "x-ms-request-charge"), Some("2.85"));
        assert_eq!(header(&response, "content-length"), Some("0"));
    }

    #[test]
    fn a_404_of_an_unwritten_partition_has_no_session_token() {
        let token = |error: Error, lsn| {
            let mut reply = Reply::failed(error);
            reply.position = Some(Position {
                range_id: 3,
                version: 9,
                lsn,
                item_lsn: None,
            });
            let response = reply.render(&ACTIVITY, false);
            header(&response, SESSION_TOKEN).map(str::to_owned)
        };
        assert_eq!(token(Error::not_found(), 1), None);
        assert_eq!(token(Error::not_found(), 2), Some("3:9#2".into()));
        let behind = Error::new(Kind::SessionNotReached, "behind");
        assert_eq!(token(behind, 1), Some("3:9#1".into()));
    }

    #[test]
    fn no_content_and_not_modified_have_no_body_and_head_keeps_the_length() {
        let response = Reply::json(304, "{}")
            .with_etag("\"7\"")
            .with_rows(0, None)
            .render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-item-count"), Some("0"));
        assert_eq!(header(&response, "content-length"), None);
        assert_eq!(header(&response, "content-type"), None);
        assert!(body(response).is_empty());
        let response = Reply::json(204, "{}").render(&ACTIVITY, false);
        assert_eq!(header(&response, "content-length"), None);
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        assert!(body(response).is_empty());
        let response = Reply::json(200, "{}").render(&ACTIVITY, true);
        assert_eq!(header(&response, "content-length"), Some("2"));
        assert!(body(response).is_empty());
    }

    #[test]
    fn characters_that_no_header_can_contain_are_percent_encoded() {
        let owner = Owner {
            path: "dbs/ü b/colls/c".into(),
            rid: Rid::parse("XP0mAJ3H-AA=").expect("a rid"),
        };
        let mut reply = Reply::empty(200);
        reply.owner = Some(owner);
        let response = reply.render(&ACTIVITY, false);
        assert_eq!(
            header(&response, "x-ms-alt-content-path"),
            Some("dbs/%C3%BC b/colls/c")
        );
        assert_eq!(header(&response, "x-ms-content-path"), Some("XP0mAJ3H-AA="));
    }

    #[test]
    fn empty_values_set_no_header() {
        let response = Reply::empty(200)
            .with("x-ms-continuation", "")
            .render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-continuation"), None);
        assert_eq!(percent_encode("The value is 1."), "The%20value%20is%201.");
    }

    #[test]
    fn a_new_activity_id_is_a_random_guid() {
        assert_eq!(guid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(
            guid(u64::MAX, u64::MAX),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
    }
}
