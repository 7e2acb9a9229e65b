//! A request as a span, by the conventions of OpenTelemetry for this database.
//!
//! The conventions are those for clients of the service; here they describe the server's side of a
//! request, so the kind of the span is SERVER and the status is an error from 500 on: a 404 or 409
//! is an answer, and not a failure of the server.

use crate::wire::{AnyValue, ArrayValue, KeyValue, Span, Status, Value};
use orrery_engine::query_form;
use orrery_gateway::{RequestKind, RequestSpan, Transport};

/// The kind of the span of a server.
const KIND_SERVER: i32 = 2;
/// The status of a failed request.
const STATUS_ERROR: i32 = 2;
/// The span is sampled, and it is known whether its parent is in another process.
const FLAGS: u32 = 0x101;
/// The parent is in another process.
const FLAG_REMOTE: u32 = 0x200;

/// Returns the message of a span.
pub(crate) fn message(span: &RequestSpan) -> Span {
    let operation = operation_name(span.kind);
    // The name has the most precise resource that does not depend on an item.
    let target = match (span.container.as_str(), span.database.as_str()) {
        ("", database) => database,
        (container, _) => container,
    };
    let name = match target {
        "" => operation.clone(),
        target => format!("{operation} {target}"),
    };
    let parent = span.parent_span_id.map(|id| id.to_vec());
    let flags = match parent {
        Some(_) => FLAGS | FLAG_REMOTE,
        None => FLAGS,
    };
    Span {
        trace_id: span.trace_id.to_vec(),
        span_id: span.span_id.to_vec(),
        trace_state: span.trace_state.clone(),
        parent_span_id: parent.unwrap_or_default(),
        name,
        kind: KIND_SERVER,
        start_time_unix_nano: span.start_ns,
        end_time_unix_nano: span.end_ns,
        attributes: attributes(span, operation),
        status: status(span),
        flags,
    }
}

/// Returns the name of an operation in the list of the conventions.
fn operation_name(kind: RequestKind) -> String {
    let name = kind.operation_name();
    match (name, name.strip_prefix("list_")) {
        ("read_items", _) => "read_all_items".to_owned(),
        (_, Some(resources)) => format!("read_all_{resources}"),
        _ => name.to_owned(),
    }
}

/// Returns true if the server failed to answer, or did not.
fn has_failed(span: &RequestSpan) -> bool {
    span.status == 0 || span.status >= 500
}

fn status(span: &RequestSpan) -> Option<Status> {
    if !has_failed(span) {
        return None;
    }
    let code = span.error.map_or("no answer", |kind| kind.code());
    Some(Status {
        message: code.to_owned(),
        code: STATUS_ERROR,
    })
}

/// Returns the attributes, those that are important for sampling in collectors first.
fn attributes(span: &RequestSpan, operation: String) -> Vec<KeyValue> {
    let mut all = vec![
        text("db.system.name", "azure.cosmosdb"),
        text("db.operation.name", operation),
    ];
    let named = [
        ("db.namespace", Some(&span.database)),
        ("db.collection.name", Some(&span.container)),
        ("db.stored_procedure.name", span.stored_procedure.as_ref()),
        ("user_agent.original", Some(&span.user_agent)),
    ];
    for (key, value) in named {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            all.push(text(key, value.as_str()));
        }
    }
    all.push(text("server.address", span.server.ip().to_string()));
    all.push(int("server.port", u64::from(span.server.port())));
    all.push(text("client.address", span.client.ip().to_string()));
    all.push(text("http.request.method", span.method.as_str()));

    // A request without an answer has no status.
    if span.status != 0 {
        let status = u64::from(span.status);
        all.push(text("db.response.status_code", status.to_string()));
        all.push(int("http.response.status_code", status));
    }
    if span.sub_status != 0 {
        let sub_status = u64::from(span.sub_status);
        all.push(int("azure.cosmosdb.response.sub_status_code", sub_status));
    }
    if has_failed(span) {
        let error = match span.status {
            0 => "no_answer".to_owned(),
            status => status.to_string(),
        };
        all.push(text("error.type", error));
    }

    let charge = Value::Double(span.charge_ru);
    all.push(attribute("azure.cosmosdb.operation.request_charge", charge));
    all.push(text("azure.cosmosdb.consistency.level", span.consistency));
    let mode = match span.transport {
        Transport::Http => "gateway",
        Transport::Direct => "direct",
    };
    all.push(text("azure.cosmosdb.connection.mode", mode));
    let region = AnyValue {
        value: Some(Value::Text(span.region.to_string())),
    };
    let regions = Value::Array(ArrayValue {
        values: vec![region],
    });
    all.push(attribute(
        "azure.cosmosdb.operation.contacted_regions",
        regions,
    ));
    if let Some(bytes) = span.body_bytes {
        all.push(int("azure.cosmosdb.request.body.size", bytes as u64));
    }
    if let Some(rows) = span.returned_rows {
        all.push(int("db.response.returned_rows", rows));
    }
    // The form has placeholders for all values. A text that cannot be parsed has no form.
    if let Some(form) = span.query.as_deref().and_then(query_form) {
        all.push(text("db.query.text", form));
    }
    all.push(text("orrery.activity_id", span.activity_id.as_str()));
    all.push(int("orrery.partitions", span.partitions));
    all
}

/// Returns an attribute with a text.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::Text(value.into()))
}

/// Returns an attribute with a whole number.
fn int(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_gateway::Operation;
    use std::net::SocketAddr;

    /// The operations that this server has and the list of the conventions does not.
    const OWN: [&str; 8] = [
        "query_plan",
        "read_partition_key_ranges",
        "read_account",
        "read_all_offers",
        "query_offers",
        "read_offer",
        "replace_offer",
        "unknown",
    ];

    fn span(name: &str) -> RequestSpan {
        let address = SocketAddr::from(([127, 0, 0, 1], 8081));
        RequestSpan {
            transport: Transport::Http,
            trace_id: [1; 16],
            span_id: [2; 8],
            parent_span_id: None,
            trace_state: String::new(),
            start_ns: 1,
            end_ns: 2,
            kind: Operation::from_name(name).map_or(RequestKind::Unknown, RequestKind::Operation),
            database: "shop".to_owned(),
            container: "orders".to_owned(),
            stored_procedure: None,
            status: 200,
            sub_status: 0,
            error: None,
            charge_ru: 1.0,
            consistency: "Session",
            region: "West".into(),
            body_bytes: None,
            returned_rows: None,
            partitions: 1,
            query: None,
            method: "GET".to_owned(),
            activity_id: "a".to_owned(),
            user_agent: String::new(),
            client: address,
            server: address,
        }
    }

    #[test]
    fn the_name_has_the_operation_and_the_container_or_database() {
        let mut span = span("list_containers");
        assert_eq!(message(&span).name, "read_all_containers orders");
        span.container.clear();
        assert_eq!(message(&span).name, "read_all_containers shop");
        span.database.clear();
        span.kind = RequestKind::Unknown;
        assert_eq!(message(&span).name, "unknown");
        assert!(OWN.contains(&"unknown"));
    }

    #[test]
    fn an_answer_is_no_failure_and_a_missing_answer_is_one() {
        let mut span = span("read_item");
        for status in [200, 404, 409, 429, 449] {
            span.status = status;
            assert_eq!(message(&span).status, None, "{status}");
        }
        for (status, error) in [(500, "500"), (503, "503"), (0, "no_answer")] {
            span.status = status;
            let message = message(&span);
            assert_eq!(message.status.map(|status| status.code), Some(2));
            assert!(message.attributes.contains(&text("error.type", error)));
        }
    }

    #[test]
    fn the_text_of_a_query_has_no_values() {
        let mut span = span("query_items");
        span.query = Some("SELECT * FROM c WHERE c.mail = 'ada@example.com'".to_owned());
        let shown = format!("{:?}", message(&span));
        assert!(
            shown.contains("db.query.text") && !shown.contains("ada@"),
            "{shown}"
        );
        span.query = Some("SELECT * FROM c WHERE c.mail = 'ada@example.com' AND (".to_owned());
        let shown = format!("{:?}", message(&span));
        assert!(!shown.contains("ada@"), "{shown}");
    }
}
