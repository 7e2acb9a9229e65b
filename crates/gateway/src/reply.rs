//! Answers: a status, a body, and the headers that clients read from every answer, good or bad.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use orrery_engine::Engine;
use orrery_engine::request::{Charge, ChargePart, Outcome, Position};
use orrery_model::json::write_string;
use orrery_model::work::Work;
use orrery_model::{Error, Json, Kind, Rid, object};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// What `encodeURIComponent` leaves as it is.
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
/// What cannot stand in a header value (and the escape itself).
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b'%');
/// Milliseconds to wait, where an error that passes names none.
const RETRY_AFTER_MS_DEFAULT: u64 = 10;

/// Headers that are the same on every answer.
const CONSTANT: &[(&str, &str)] = &[
    ("x-ms-serviceversion", "version=2.14.0.0"),
    ("x-ms-gatewayversion", "2.0.0"),
    ("x-ms-schemaversion", "1.18"),
    ("server", concat!("orrery/", env!("CARGO_PKG_VERSION"))),
];

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) charge: Charge,
    /// What is charged, as far as the engine did it.
    pub(crate) work: Work,
    pub(crate) position: Option<Position>,
    pub(crate) error: Option<Error>,
}

/// The resource above the one that was asked for; clients key their session tokens by it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// Its path by name.
    pub(crate) path: String,
    /// Its resource id.
    pub(crate) rid: Rid,
}

impl Reply {
    /// An answer without a body.
    pub(crate) fn empty(status: u16) -> Self {
        Reply::json(status, Bytes::new())
    }

    /// An answer with a JSON body.
    pub(crate) fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let (charge, work, position, error) = (Charge::default(), Work::default(), None, None);
        Reply {
            status,
            headers: HeaderMap::with_capacity(32),
            body: body.into(),
            charge,
            work,
            position,
            error,
        }
    }

    /// An answer with a body that is no text.
    pub(crate) fn bytes(status: u16, body: Bytes) -> Self {
        let mut reply = Reply::json(status, body);
        reply.headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        );
        reply
    }

    /// A failure before the engine did anything: it costs a look, unless the request was turned away at the door.
    pub(crate) fn failed(error: Error) -> Self {
        const A_LOOK: Charge = Charge(100);
        let mut reply = Reply::empty(error.status());
        reply.charge = if error.status() == 401 {
            Charge::default()
        } else {
            A_LOOK
        };
        reply.error = Some(error);
        reply
    }

    /// The answer to what the engine did: `good` makes it from the result.
    pub(crate) fn of<T>(outcome: Outcome<T>, good: impl FnOnce(T) -> Reply) -> Self {
        let mut reply = match outcome.result {
            Ok(result) => good(result),
            Err(error) => Reply::failed(error),
        };
        reply.charge = outcome.charge;
        reply.work = outcome.work;
        reply.position = outcome.position;
        reply
    }

    /// The same answer with a header; no header if the value is empty, since clients take an empty one as a value.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a header; see [`Reply::with`].
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        if !value.is_empty() {
            self.headers
                .insert(HeaderName::from_static(name), header_value(value));
        }
    }

    fn set_number(&mut self, name: &'static str, value: u64) {
        self.headers
            .insert(HeaderName::from_static(name), HeaderValue::from(value));
    }

    /// The same answer with an etag.
    pub(crate) fn with_etag(mut self, etag: &str) -> Self {
        self.headers.insert(ETAG, header_value(etag));
        self
    }

    /// The same answer as a page of `rows` rows.
    pub(crate) fn with_rows(mut self, rows: usize, continuation: Option<&str>) -> Self {
        self.set_number("x-ms-item-count", rows as u64);
        if let Some(continuation) = continuation {
            self.set("x-ms-continuation", continuation);
        }
        self
    }

    /// Adds the headers that name the owner of what was asked for.
    pub(crate) fn owned_by(&mut self, owner: &Owner) {
        self.set("x-ms-alt-content-path", &owner.path);
        self.set("x-ms-content-path", &owner.rid.to_string());
    }

    /// Says what was paid for what, in parts that add up to the charge:
    /// `{"charge":5.71,"parts":[{"what":"bodies written","count":1,"ru":4.9523},…]}`.
    pub(crate) fn explain_charge(&mut self, engine: &Engine) {
        let mut parts = engine.charge_parts(&self.work, self.charge);
        if let ([part], true) = (&mut parts[..], self.work.steps.is_empty()) {
            part.what = "requests turned away";
        }
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

    /// The answer as it goes out. `head` leaves out the body and keeps its length.
    pub(crate) fn render(mut self, activity: &HeaderValue, head: bool) -> Response<Full<Bytes>> {
        if let Some(error) = self.error.take() {
            let activity = activity.to_str().unwrap_or_default();
            self.describe(&error, activity);
        }
        for (name, value) in CONSTANT {
            self.headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        self.headers.insert(
            HeaderName::from_static("x-ms-activity-id"),
            activity.clone(),
        );
        self.set("x-ms-request-charge", &self.charge.to_string());
        if let Some(position) = self.position {
            self.place(position);
        }
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
            self.headers
                .entry(CONTENT_TYPE)
                .or_insert(HeaderValue::from_static("application/json"));
            self.headers
                .insert(CONTENT_LENGTH, HeaderValue::from(self.body.len()));
        } else {
            self.body.clear();
        }
        let body = if head { Bytes::new() } else { self.body };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        response
    }

    fn describe(&mut self, error: &Error, activity: &str) {
        self.body = error_body(error, activity);
        if error.sub_status() != 0 {
            self.set_number("x-ms-substatus", u64::from(error.sub_status()));
        }
        if let Some(milliseconds) = retry_after_ms(error) {
            self.set_number("x-ms-retry-after-ms", milliseconds);
        }
    }

    /// Says where in a partition's history the answer stands: one session token, and the numbers behind it.
    fn place(&mut self, position: Position) {
        let Position {
            range_id,
            version,
            lsn,
            item_lsn,
        } = position;
        self.set("x-ms-session-token", &format!("{range_id}:{version}#{lsn}"));
        for name in [
            "lsn",
            "x-ms-global-committed-lsn",
            "x-ms-quorum-acked-lsn",
            "x-ms-cosmos-llsn",
            "x-ms-cosmos-quorum-acked-llsn",
        ] {
            self.set_number(name, lsn);
        }
        if let Some(item_lsn) = item_lsn {
            self.set_number("x-ms-item-lsn", item_lsn);
            self.set_number("x-ms-cosmos-item-llsn", item_lsn);
        }
        self.set_number("x-ms-documentdb-partitionkeyrangeid", u64::from(range_id));
        self.set_number("x-ms-cosmos-physical-partition-id", u64::from(range_id));
        self.set_number("x-ms-current-replica-set-size", 1);
        self.set_number("x-ms-current-write-quorum", 1);
    }

    /// Names the methods that exist, on a 405.
    pub(crate) fn allowing(mut self, methods: &[&str]) -> Self {
        self.headers
            .insert(ALLOW, header_value(&methods.join(", ")));
        self
    }
}

/// When a client should come back, if that may help: always said where clients wait for it.
pub(crate) fn retry_after_ms(error: &Error) -> Option<u64> {
    let waits = matches!(error.kind(), Kind::Throttled | Kind::RetryWith);
    error
        .retry_after_ms()
        .or(waits.then_some(RETRY_AFTER_MS_DEFAULT))
}

/// Text as a header value; what cannot stand there is percent-encoded.
fn header_value(text: &str) -> HeaderValue {
    let plain = if text.is_ascii() {
        HeaderValue::from_str(text).ok()
    } else {
        None
    };
    plain.unwrap_or_else(|| {
        let encoded = utf8_percent_encode(text, UNPRINTABLE).to_string();
        HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static(""))
    })
}

/// Text as `encodeURIComponent` writes it.
pub(crate) fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Text in base64.
pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// The body of an error. What the engine says stands in a list inside the message, as the service's gateway passes on
/// what its back end said; queries and scripts bring that list themselves. Refusals of credentials are the gateway's
/// own sentences.
fn error_body(error: &Error, activity: &str) -> Bytes {
    let message = error.message();
    let message = match error.status() {
        401 => format!("{message}\r\nActivityId: {activity}"),
        _ if message.starts_with("{\"errors\":") || message.starts_with("{\"Errors\":") => {
            format!("Message: {message}\r\nActivityId: {activity}")
        }
        _ => {
            let mut quoted = Vec::new();
            write_string(message, &mut quoted);
            let quoted = String::from_utf8_lossy(&quoted);
            format!("Message: {{\"Errors\":[{quoted}]}}\r\nActivityId: {activity}")
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use orrery_model::json::parse;

    const ACTIVITY: HeaderValue = HeaderValue::from_static("a-b-c");

    fn header<'a>(response: &'a Response<Full<Bytes>>, name: &str) -> Option<&'a str> {
        response
            .headers()
            .get(name)
            .map(|v| v.to_str().expect("ASCII"))
    }

    async fn body(response: Response<Full<Bytes>>) -> Bytes {
        response
            .into_body()
            .collect()
            .await
            .expect("in memory")
            .to_bytes()
    }

    #[tokio::test]
    async fn an_error_is_json_with_the_words_and_the_activity() {
        let error = Error::new(Kind::CrossPartitionQueryNotServable, "no \"plan\"")
            .with_additional_info("{}");
        let response = Reply::failed(error).render(&ACTIVITY, false);
        assert_eq!(response.status(), 400);
        assert_eq!(header(&response, "x-ms-substatus"), Some("1004"));
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        let length = header(&response, "content-length").map(str::to_owned);
        let text = body(response).await;
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

    #[tokio::test]
    async fn errors_of_queries_and_scripts_stand_in_the_message_as_they_are() {
        for errors in [
            r#"{"errors":[{"code":"SC1001","message":"m"}]}"#,
            r#"{"Errors":["a script threw"]}"#,
        ] {
            let response = Reply::failed(Error::bad(errors)).render(&ACTIVITY, false);
            let json = parse(&body(response).await).expect("JSON");
            let message = json
                .get("message")
                .and_then(|m| m.as_str())
                .expect("a message")
                .to_owned();
            assert_eq!(message, format!("Message: {errors}\r\nActivityId: a-b-c"));
        }
    }

    #[test]
    fn a_throttled_client_is_always_told_when_to_come_back() {
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

    #[tokio::test]
    async fn no_content_and_not_modified_have_no_body_and_head_keeps_the_length() {
        let response = Reply::json(304, "{}")
            .with_etag("\"7\"")
            .with_rows(0, None)
            .render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-item-count"), Some("0"));
        assert_eq!(header(&response, "content-length"), None);
        assert!(body(response).await.is_empty());
        let response = Reply::json(200, "{}").render(&ACTIVITY, true);
        assert_eq!(header(&response, "content-length"), Some("2"));
        assert!(body(response).await.is_empty());
    }

    #[test]
    fn names_that_no_header_can_hold_are_percent_encoded() {
        let owner = Owner {
            path: "dbs/ü b/colls/c".into(),
            rid: Rid::parse("XP0mAJ3H-AA=").expect("a rid"),
        };
        let mut reply = Reply::empty(200);
        reply.owned_by(&owner);
        let response = reply.render(&ACTIVITY, false);
        assert_eq!(
            header(&response, "x-ms-alt-content-path"),
            Some("dbs/%C3%BC b/colls/c")
        );
        assert_eq!(header(&response, "x-ms-content-path"), Some("XP0mAJ3H-AA="));
    }

    #[test]
    fn empty_values_are_left_out() {
        let response = Reply::empty(200)
            .with("x-ms-continuation", "")
            .render(&ACTIVITY, false);
        assert_eq!(header(&response, "x-ms-continuation"), None);
        assert_eq!(percent_encode("The value is 1."), "The%20value%20is%201.");
    }
}
