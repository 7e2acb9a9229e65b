//! The translation of the head of a frame into the head of a request, by two tables: the operations
//! and the resources that frames name by numbers. The headers come from the table of tokens.
//!
//! Promises: a frame that names something that frames have not, or values that no request has, is
//! answered with an error of the service. Bytes that are no frame (`orrery-rntbd`), and a frame
//! that cannot be answered because it has no number, end their connection.

use super::{DirectRequest, FrameAnswer, answer};
use crate::operations::addresses::container_of_replica;
use crate::reply::Reply;
use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use orrery_engine::request::Position;
use orrery_model::{Error, Result, Rid};
use orrery_rntbd::tokens::request as tokens;
use orrery_rntbd::{Form, RequestHead, Token, Value, guid_text};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::LazyLock;

/// The header of the session token.
static SESSION_TOKEN: HeaderName = HeaderName::from_static("x-ms-session-token");
/// The version of the protocol that a client speaks if it names none that is known.
const VERSION: &str = "2020-07-15";

/// An operation that a frame may name.
struct OperationRow {
    number: u16,
    method: Method,
    /// True if the request addresses one resource, and not the feed that it belongs to.
    has_id: bool,
    /// True for a read, whose condition is that the resource has changed.
    is_read: bool,
    /// The header that distinguishes the operation from others of its method.
    header: Option<(&'static str, &'static str)>,
}

const fn row(number: u16, method: Method, has_id: bool, is_read: bool) -> OperationRow {
    OperationRow {
        number,
        method,
        has_id,
        is_read,
        header: None,
    }
}

const fn post(number: u16, name: &'static str, value: &'static str) -> OperationRow {
    OperationRow {
        number,
        method: Method::POST,
        has_id: false,
        is_read: false,
        header: Some((name, value)),
    }
}

/// The ids of the tokens with effective partition keys.
const EPK_START: u16 = tokens::START_EPK.id;
const EPK_END: u16 = tokens::END_EPK.id;
/// The numbers of the two operations of queries.
const JSON_QUERY: u16 = 0x0F;
const TEXT_QUERY: u16 = 0x09;
/// The header of a query.
const IS_QUERY: &str = "x-ms-documentdb-isquery";

/// The operations: number, method, one resource or a feed, read or not.
#[rustfmt::skip] // one row on one line
static OPERATIONS: &[OperationRow] = &[
    row(0x03, Method::GET, true, true),     // read
    row(0x01, Method::POST, false, false),  // create
    post(JSON_QUERY, IS_QUERY, "True"),     // query in JSON
    post(TEXT_QUERY, IS_QUERY, "True"),     // query as text, or in JSON
    row(0x04, Method::GET, false, true),    // read feed, change feed
    row(0x06, Method::PUT, true, false),    // replace
    post(0x13, "x-ms-documentdb-is-upsert", "True"),
    row(0x02, Method::PATCH, true, false),  // patch
    row(0x05, Method::DELETE, true, false), // delete
    post(0x25, "x-ms-cosmos-is-batch-request", "True"),
    row(0x08, Method::POST, true, false),   // execute a stored procedure
    row(0x11, Method::HEAD, true, true),    // head, for barriers
    row(0x12, Method::HEAD, false, true),   // head of a feed, for barriers
];

/// A level of a path: the word before an id, the token with the name, and the bytes of the resource
/// id.
type Level = (&'static str, &'static Token, usize);

static DATABASE: Level = ("dbs", &tokens::DATABASE_NAME, 4);
static CONTAINER: Level = ("colls", &tokens::COLLECTION_NAME, 8);
static USER: Level = ("users", &tokens::USER_NAME, 8);

/// The levels above items and scripts.
const IN_CONTAINER: &[&Level] = &[&DATABASE, &CONTAINER];

/// A type of resource that a frame may name.
struct ResourceRow {
    number: u16,
    /// The levels of the path above the resource.
    above: &'static [&'static Level],
    /// The level of the resource itself.
    own: Level,
    /// True for resources in a container, for which the client chooses the consistency level.
    is_data: bool,
}

/// Creates the row of a resource above items and scripts.
const fn metadata(
    number: u16,
    above: &'static [&'static Level],
    word: &'static str,
    name: &'static Token,
    rid_bytes: usize,
) -> ResourceRow {
    ResourceRow {
        number,
        above,
        own: (word, name, rid_bytes),
        is_data: false,
    }
}

/// Creates the row of a resource in a container.
const fn data(number: u16, word: &'static str, name: &'static Token) -> ResourceRow {
    ResourceRow {
        number,
        above: IN_CONTAINER,
        own: (word, name, 16),
        is_data: true,
    }
}

/// The resources that SDKs address with frames. All other types come over HTTP.
#[rustfmt::skip] // one row on one line
static RESOURCES: &[ResourceRow] = &[
    data(0x03, "docs", &tokens::DOCUMENT_NAME),
    metadata(0x01, &[], "dbs", &tokens::DATABASE_NAME, 4),
    metadata(0x02, &[&DATABASE], "colls", &tokens::COLLECTION_NAME, 8),
    metadata(0x05, &[&DATABASE], "users", &tokens::USER_NAME, 8),
    metadata(0x06, &[&DATABASE, &USER], "permissions", &tokens::PERMISSION_NAME, 16),
    data(0x07, "sprocs", &tokens::STORED_PROCEDURE_NAME),
    data(0x08, "conflicts", &tokens::CONFLICT_NAME),
    data(0x09, "triggers", &tokens::TRIGGER_NAME),
    data(0x0A, "udfs", &tokens::USER_DEFINED_FUNCTION_NAME),
];

/// The headers that tokens stand for, by the id of the token.
static HEADER_OF: LazyLock<Vec<Option<(HeaderName, Form)>>> = LazyLock::new(|| {
    let mut headers = Vec::new();
    for token in tokens::TABLE {
        let Some((name, form)) = &token.header else {
            continue;
        };
        let at = usize::from(token.id);
        if headers.len() <= at {
            headers.resize(at + 1, None);
        }
        headers[at] = Some((HeaderName::from_static(name), *form));
    }
    headers
});

/// The facts about a client that its connection states before the first request.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientContext {
    /// The user agent.
    user_agent: Option<HeaderValue>,
    /// The version of the protocol of requests that name none.
    version: Option<HeaderValue>,
}

impl ClientContext {
    /// Reads the context of a connection.
    pub(super) fn of(head: &RequestHead<'_>) -> ClientContext {
        use orrery_rntbd::tokens::context_request::{CLIENT_VERSION, USER_AGENT};
        let value = |text: &str| HeaderValue::from_str(text).ok();
        let version = head.text(&CLIENT_VERSION);
        let version = version.filter(|version| crate::headers::is_known_version(version));
        ClientContext {
            user_agent: head.text(&USER_AGENT).and_then(value),
            version: version.and_then(value),
        }
    }
}

/// A request that came as a frame.
#[derive(Debug)]
pub struct FrameRequest {
    /// The same request as one of HTTP.
    pub(crate) head: Parts,
    /// The number by which the client finds the answer.
    pub(super) number: u32,
    /// The activity id as the client sent it.
    pub(super) activity_id: [u8; 16],
    /// The error with which the request is answered, if it names something that frames have not.
    pub(super) refusal: Option<Error>,
    /// True if the payload was dropped, because the client is not known: the request is answered
    /// with the refusal of its sender.
    pub(super) is_of_stranger: bool,
    /// The form of the body, if it is a query.
    query: Option<QueryForm>,
}

/// The form of the body of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryForm {
    /// JSON with parameters.
    Json,
    /// JSON with parameters, or a text alone.
    JsonOrText,
}

impl FrameRequest {
    /// Reads the head of a frame.
    ///
    /// Returns `None` for a frame without a number: no answer can reach its request.
    pub(super) fn of(head: &RequestHead<'_>, context: &ClientContext) -> Option<FrameRequest> {
        let number = head.number(&tokens::TRANSPORT_REQUEST_ID)?;
        let number = u32::try_from(number).ok()?;
        let translated = translate(head, context);
        let (parts, refusal) = match translated {
            Ok(parts) => (parts, None),
            Err(error) => {
                let mut parts = Request::new(()).into_parts().0;
                parts.extensions.insert(DirectRequest::default());
                (parts, Some(error))
            }
        };
        let query = match head.operation {
            JSON_QUERY => Some(QueryForm::Json),
            TEXT_QUERY => Some(QueryForm::JsonOrText),
            _ => None,
        };
        Some(FrameRequest {
            is_of_stranger: false,
            query,
            head: parts,
            number,
            activity_id: head.activity_id,
            refusal,
        })
    }

    /// Returns the activity id as a header.
    pub(super) fn activity_header(&self) -> HeaderValue {
        let text = guid_text(self.activity_id);
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("none"))
    }

    /// States the type of the body: a query is JSON with parameters, or a text alone.
    pub(super) fn set_content(&mut self, body: &[u8]) {
        let Some(form) = self.query else {
            return;
        };
        let is_object = body.trim_ascii_start().first() == Some(&b'{');
        let content = match is_object || form == QueryForm::Json {
            true => "application/query+json",
            false => "application/sql",
        };
        let content = HeaderValue::from_static(content);
        self.head.headers.insert(CONTENT_TYPE, content);
    }

    /// Makes the request one that is answered with an error, whatever it asks for.
    pub(crate) fn refuse_with(&mut self, error: Error) {
        self.refusal = Some(error);
    }

    /// Returns true if the request is answered with an error, whatever it asks for.
    pub fn is_refused(&self) -> bool {
        self.refusal.is_some() || self.is_of_stranger
    }

    /// Returns the method that the request would have in HTTP.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// Returns the path that the request would have in HTTP.
    pub fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// Returns the head that the request would have in HTTP.
    pub fn head(&self) -> &Parts {
        &self.head
    }

    /// Returns the answer to a request at an address that serves its partition no longer: the
    /// client asks for the addresses again, and repeats the request.
    pub fn address_gone(&self) -> FrameAnswer {
        self.refuse(super::address_gone())
    }

    /// Returns the position that the session token of the request names. The answer to a request
    /// that was refused before its partition was looked up has this position: clients repeat a
    /// session read for 20 seconds whose answer is behind the token or has none, and the answer to
    /// a client without credentials must not tell the position of a partition.
    pub(super) fn position_of_session(&self) -> Option<Position> {
        let token = self.head.headers.get(&SESSION_TOKEN)?.to_str().ok()?;
        let (range, token) = token.split_once(':')?;
        let mut parts = token.split('#');
        let (version, lsn) = (parts.next()?, parts.next()?);
        Some(Position {
            range_id: range.parse().ok()?,
            version: version.parse().ok()?,
            lsn: lsn.parse::<i64>().ok()?.try_into().ok()?,
            item_lsn: None,
        })
    }

    /// Returns the answer to a request that is refused before anything was done for it.
    pub fn refuse(&self, error: Error) -> FrameAnswer {
        answer::write(&Reply::failed(error), self.position_of_session(), self)
    }
}

/// Returns the head of a request as HTTP would have it.
///
/// # Errors
/// 400 for an operation, a resource or a value that frames have not.
fn translate(head: &RequestHead<'_>, context: &ClientContext) -> Result<Parts> {
    let Some(operation) = OPERATIONS.iter().find(|row| row.number == head.operation) else {
        let number = head.operation;
        return Err(Error::unsupported(format!(
            "The operation {number:#04x} in a frame of the direct mode"
        )));
    };
    let Some(resource) = RESOURCES.iter().find(|row| row.number == head.resource) else {
        return Err(refused_resource(head.resource));
    };
    let mut parts = Request::new(()).into_parts().0;
    parts.method = operation.method.clone();
    parts.uri = uri(head, operation, resource)?;
    parts.headers = headers(head, operation, resource, context)?;
    // Clients of before 2024 do not name the container that they have read, but an address of it.
    let cached_container = head
        .text(&tokens::COLLECTION_RID)
        .filter(|rid| !rid.is_empty());
    let of_address = head.text(&tokens::REPLICA_PATH);
    let of_address = of_address.and_then(container_of_replica);
    parts.extensions.insert(DirectRequest {
        cached_container: cached_container.or(of_address).map(str::to_owned),
    });
    Ok(parts)
}

/// Returns the refusal of a resource type that SDKs send over HTTP.
fn refused_resource(number: u16) -> Error {
    const NAMES: [(u16, &str); 7] = [
        (0x04, "attachment"),
        (0x0F, "offer"),
        (0x14, "account"),
        (0x16, "partition key range"),
        (0x18, "schema"),
        (0x20, "partition key"),
        (0x23, "client encryption key"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == number);
    let name = known.map_or("unknown", |(_, name)| name);
    Error::unsupported(format!(
        "The resource type {number:#04x} ({name}) in a frame of the direct mode"
    ))
}

/// Returns the path of a request: by names if the frame names the database, else by resource ids.
fn uri(head: &RequestHead<'_>, operation: &OperationRow, resource: &ResourceRow) -> Result<Uri> {
    let rid = head.bytes(&tokens::RESOURCE_ID).unwrap_or_default();
    let is_by_name = head.text(&tokens::DATABASE_NAME).is_some();
    let mut path = String::with_capacity(96);
    let mut add = |level: &Level, has_id: bool| -> Result<()> {
        let (word, name, rid_bytes) = level;
        path.push('/');
        path.push_str(word);
        if !has_id {
            return Ok(());
        }
        path.push('/');
        if is_by_name {
            let missing = || Error::bad(format!("The frame has no token {}.", name.name));
            let id = head.text(name).filter(|id| !id.is_empty());
            let id = id.ok_or_else(missing)?;
            path.extend(utf8_percent_encode(id, NON_ALPHANUMERIC));
        } else {
            let invalid = || Error::bad("The frame names no resource, by names or by ResourceId.");
            let bytes = rid.get(..*rid_bytes).ok_or_else(invalid)?;
            let id = Rid::from_bytes(bytes).ok_or_else(invalid)?.to_string();
            path.extend(utf8_percent_encode(&id, NON_ALPHANUMERIC));
        }
        Ok(())
    };
    for level in resource.above {
        add(level, true)?;
    }
    add(&resource.own, operation.has_id)?;
    Uri::try_from(path).map_err(|_| Error::bad("The names in the frame are too long."))
}

/// Returns the headers of a request.
fn headers(
    head: &RequestHead<'_>,
    operation: &OperationRow,
    resource: &ResourceRow,
    context: &ClientContext,
) -> Result<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(24);
    for (id, value) in head.tokens() {
        let Some(Some((name, form))) = HEADER_OF.get(usize::from(id)) else {
            continue;
        };
        // Clients ask for every metadata read with the strongest level, which most accounts refuse.
        if id == tokens::CONSISTENCY_LEVEL.id && !resource.is_data {
            continue;
        }
        let value = match (id, value) {
            (EPK_START | EPK_END, Value::Bytes(bytes)) => epk(name, bytes)?,
            _ => header_value(name, *form, value)?,
        };
        headers.insert(name.clone(), value);
    }
    if let Some(etag) = head.text(&tokens::MATCH) {
        let name = match operation.is_read {
            true => IF_NONE_MATCH,
            false => IF_MATCH,
        };
        let value = HeaderValue::from_bytes(etag.as_bytes());
        headers.insert(name.clone(), value.map_err(|_| invalid(name.as_str()))?);
    }

    if let Some((name, value)) = operation.header {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    // A frame has no leave to cross partitions: the client asks each partition for itself.
    if operation.header.is_some_and(|(name, _)| name == IS_QUERY) {
        let name = HeaderName::from_static("x-ms-documentdb-query-enablecrosspartition");
        headers.insert(name, HeaderValue::from_static("True"));
    }
    headers
        .entry(HeaderName::from_static("x-ms-version"))
        .or_insert_with(|| match &context.version {
            Some(version) => version.clone(),
            None => HeaderValue::from_static(VERSION),
        });
    if let Some(user_agent) = &context.user_agent {
        headers.insert(USER_AGENT, user_agent.clone());
    }
    Ok(headers)
}

/// Returns the value of a header that a token stands for.
///
/// # Errors
/// 400 for a number that stands for nothing, and a text that no header can have.
fn header_value(name: &HeaderName, form: Form, value: Value<'_>) -> Result<HeaderValue> {
    let text = form.header_value(value);
    let text = text.ok_or_else(|| invalid(name.as_str()))?;
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| invalid(name.as_str()))
}

/// Returns an effective partition key in hexadecimal digits: some clients send the digits, others
/// the bytes that they stand for.
fn epk(name: &HeaderName, bytes: &[u8]) -> Result<HeaderValue> {
    let is_text = bytes.iter().all(u8::is_ascii_hexdigit);
    let value = match is_text {
        true => HeaderValue::from_bytes(bytes),
        false => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            HeaderValue::from_str(&digits)
        }
    };
    value.map_err(|_| invalid(name.as_str()))
}

fn invalid(name: &str) -> Error {
    Error::bad(format!(
        "The token that stands for the header '{name}' has an invalid value."
    ))
}

#[cfg(test)]
mod tests;
