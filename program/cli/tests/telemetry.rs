//! The export by OpenTelemetry, as a collector sees it: spans with their attributes and parents,
//! metrics with the values of `/metrics`, a collector that is down, slow or refuses, and the end of
//! the server.
//!
//! The receiver here decodes with the messages of the exporter; `conformance/sdk/telemetry` decodes
//! with the collector's own code.

use crate::program::{self, Client, ITEMS, Request, Server, item};
use crate::receiver::{Receiver, Reply};
use orrery_model::hex;
use orrery_telemetry::wire::{KeyValue, Metric, MetricData, Span, Value};
use std::collections::BTreeMap;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Starts a server in memory that exports to `receiver`, at the end of each of its batches.
fn start(receiver: &Receiver, variables: &[(&str, &str)]) -> (Server, Client) {
    let endpoint = receiver.endpoint();
    let mut all = vec![("OTEL_BSP_SCHEDULE_DELAY", "10")];
    all.extend_from_slice(variables);
    let arguments = ["--memory", "--otlp-endpoint", &endpoint];
    let server = program::start_with_variables(&arguments, &all).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    (server, client)
}

/// Returns the attributes by name, each value as a text.
fn texts(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().and_then(|any| any.value) {
        Some(Value::Text(text)) => text,
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Double(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes
        .iter()
        .map(|one| (one.key.as_str(), text(one)))
        .collect()
}

#[test]
fn a_span_continues_the_callers_trace_and_has_the_figures_of_the_answer() {
    let receiver = Receiver::start();
    let (server, mut client) = start(&receiver, &[("OTEL_SERVICE_NAME", "shop-db")]);
    let request = Request::new("POST", ITEMS)
        .key("p1")
        .header("traceparent", PARENT)
        .header("tracestate", "vendor=1")
        .header("user-agent", "test/1")
        .body(r#"{"id":"secret","postId":"p1"}"#);
    let answer = client.call(&request);
    assert_eq!(answer.status, 201);
    let span = receiver.span(|span| span.name == "create_item posts");

    assert_eq!(hex::encode(&span.trace_id), TRACE);
    assert_eq!(hex::encode(&span.parent_span_id), "b7ad6b7169203331");
    assert_eq!(
        (span.kind, span.trace_state.as_str(), &span.status),
        (2, "vendor=1", &None)
    );
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    let attributes = texts(&span.attributes);
    let charge: f64 = answer
        .header("x-ms-request-charge")
        .expect("a charge")
        .parse()
        .expect("RU");
    let body_bytes = r#"{"id":"secret","postId":"p1"}"#.len().to_string();
    for (key, expected) in [
        ("db.system.name", "azure.cosmosdb"),
        ("db.operation.name", "create_item"),
        ("db.namespace", "blog"),
        ("db.collection.name", "posts"),
        ("db.response.status_code", "201"),
        (
            "azure.cosmosdb.operation.request_charge",
            &charge.to_string(),
        ),
        ("azure.cosmosdb.consistency.level", "Session"),
        ("azure.cosmosdb.request.body.size", &body_bytes),
        ("user_agent.original", "test/1"),
        (
            "orrery.activity_id",
            answer.header("x-ms-activity-id").expect("an id"),
        ),
        ("orrery.partitions", "1"),
    ] {
        assert_eq!(
            attributes.get(key).map(String::as_str),
            Some(expected),
            "{key}"
        );
    }
    // Neither the item nor its id or key is exported.
    assert!(!format!("{span:?}").contains("secret"), "{span:?}");
    let resource = receiver.resource();
    let resource = texts(&resource.attributes);
    assert_eq!(
        resource.get("service.name").map(String::as_str),
        Some("shop-db")
    );
    assert!(resource.contains_key("service.instance.id"), "{resource:?}");
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn queries_and_refusals_have_their_own_attributes() {
    let receiver = Receiver::start();
    let (_server, mut client) = start(&receiver, &[]);
    for id in ["a", "b"] {
        client.create(ITEMS, &format!(r#"{{"id":"{id}","postId":"{id}"}}"#));
    }
    let text = "SELECT * FROM c WHERE c.id != 'hidden@example.com'";
    let query = client.call(&Request::query(ITEMS, text));
    assert_eq!(query.status, 200, "{}", query.text());
    let span = receiver.span(|span| span.name == "query_items posts");
    let attributes = texts(&span.attributes);
    assert_eq!(attributes["db.response.returned_rows"], "2");
    assert!(
        attributes["db.query.text"].starts_with("SELECT"),
        "{attributes:?}"
    );
    assert!(!format!("{span:?}").contains("hidden@"), "{span:?}");

    // A missing item is an answer; its parent decides that the next one is not recorded.
    let missing = Request::new("GET", &item("none")).key("none");
    assert_eq!(client.call(&missing).status, 404);
    let unsampled = PARENT.replace("-01", "-00");
    client.call(
        &Request::new("GET", &item("a"))
            .key("a")
            .header("traceparent", &unsampled),
    );
    client.call(&Request::new("GET", &item("b")).key("b"));
    let span = receiver.span(|span| texts(&span.attributes)["db.response.status_code"] == "404");
    assert_eq!(span.status, None);
    assert!(span.parent_span_id.is_empty() && span.trace_id.len() == 16);
    receiver.span(|span| {
        span.name == "read_item posts"
            && texts(&span.attributes)["http.response.status_code"] == "200"
    });
    let reads = receiver.spans();
    let reads = reads
        .iter()
        .filter(|span| span.name == "read_item posts")
        .count();
    assert_eq!(
        reads, 2,
        "the request of a trace that is not sampled has no span"
    );
}

/// Returns the samples of metrics as `/metrics` writes them.
fn samples(metrics: &[Metric]) -> BTreeMap<String, f64> {
    let name = |name: &str, attributes: &[KeyValue], end: Option<String>| {
        let mut labels: Vec<String> = Vec::new();
        for attribute in attributes {
            let value = texts(std::slice::from_ref(attribute));
            labels.push(format!(
                "{}=\"{}\"",
                attribute.key,
                value[attribute.key.as_str()]
            ));
        }
        labels.extend(end);
        match labels.is_empty() {
            true => name.to_owned(),
            false => format!("{name}{{{}}}", labels.join(",")),
        }
    };
    let mut all = BTreeMap::new();
    for metric in metrics {
        let numbers = match metric.data.as_ref().expect("data") {
            MetricData::Gauge(gauge) => &gauge.data_points,
            MetricData::Sum(sum) => {
                assert!(
                    sum.is_monotonic && sum.aggregation_temporality == 2,
                    "{metric:?}"
                );
                &sum.data_points
            }
            MetricData::Histogram(histogram) => {
                for point in &histogram.data_points {
                    let mut count = 0;
                    let bounds = point.explicit_bounds.iter().map(f64::to_string);
                    let bounds = bounds.chain(["+Inf".to_owned()]);
                    for (bound, in_bucket) in bounds.zip(&point.bucket_counts) {
                        count += in_bucket;
                        let bucket = format!("{}_bucket", metric.name);
                        let label = format!("le=\"{bound}\"");
                        let key = name(&bucket, &point.attributes, Some(label));
                        all.insert(key, count as f64);
                    }
                    let sum = name(&format!("{}_sum", metric.name), &point.attributes, None);
                    all.insert(sum, point.sum.expect("a sum"));
                    let count = name(&format!("{}_count", metric.name), &point.attributes, None);
                    all.insert(count, point.count as f64);
                }
                continue;
            }
        };
        for point in numbers {
            let value = point.as_double.expect("a value");
            all.insert(name(&metric.name, &point.attributes, None), value);
        }
    }
    all
}

#[test]
fn metrics_have_the_names_labels_and_values_of_the_management_api() {
    let receiver = Receiver::start();
    // The only export is the one at the end, when nothing counts any more.
    let (server, mut client) = start(&receiver, &[("OTEL_TRACES_EXPORTER", "none")]);
    client.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
    client.call(&Request::query(ITEMS, "SELECT * FROM c"));
    drop(client);
    let text = server.manager().get("/metrics").text();
    assert_eq!(server.stop().code, Some(0));
    assert!(receiver.spans().is_empty());

    let exported = samples(&receiver.metrics());
    let mut expected = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a sample");
        expected.insert(name.to_owned(), value.parse::<f64>().expect("a number"));
    }
    let names = |samples: &BTreeMap<String, f64>| samples.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&exported), names(&expected));
    // The process, the store and the connections go on; requests have ended.
    let requests = expected.iter().filter(|(name, _)| {
        name.starts_with("orrery_request") || name.starts_with("orrery_container_items")
    });
    let mut compared = 0;
    for (name, value) in requests {
        assert_eq!(exported.get(name), Some(value), "{name}");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn metrics_are_sent_at_the_interval() {
    let receiver = Receiver::start();
    let interval = [("OTEL_METRIC_EXPORT_INTERVAL", "20")];
    let (_server, _client) = start(&receiver, &interval);
    receiver.wait(|received| received.metrics.len() >= 3);
}

#[test]
fn a_full_queue_drops_spans_and_no_request_waits_for_a_collector_that_is_down() {
    let receiver = Receiver::start();
    receiver.answer(Reply::Status(503));
    let sizes = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    let (server, mut client) = start(&receiver, &sizes);
    // The exporter holds the first batch, of one to four spans; the queue has room for four more.
    receiver.wait(|received| received.requests >= 1);
    for _ in 0..50 {
        assert_eq!(
            client
                .call(&Request::new("GET", &item("none")).key("none"))
                .status,
            404
        );
    }
    let metrics = server.manager().get("/metrics").text();
    let counted = |outcome: &str| -> u64 {
        let name = format!("orrery_trace_spans_total{{outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("a counter").parse().expect("a number")
    };
    assert!(counted("dropped") >= 40, "{}", counted("dropped"));
    assert_eq!((counted("exported"), counted("refused")), (0, 0));

    // The collector is back: what was held arrives, and the log has one line for each change.
    receiver.wait(|received| received.requests >= 3);
    receiver.answer(Reply::Status(200));
    receiver.wait(|received| received.spans.len() >= 5);
    let log = server.stop().stderr;
    assert_eq!(log.matches("does not take spans").count(), 1, "{log}");
    assert_eq!(
        log.matches("the queue of spans is full").count(),
        1,
        "{log}"
    );
    assert_eq!(log.matches("takes spans again").count(), 1, "{log}");
    assert!(log.contains("HTTP 503"), "{log}");
}

#[test]
fn spans_in_the_queue_are_sent_when_the_server_stops() {
    let receiver = Receiver::start();
    let (server, mut client) = start(&receiver, &[("OTEL_BSP_SCHEDULE_DELAY", "3600000")]);
    for _ in 0..5 {
        client.call(&Request::new("GET", &item("none")).key("none"));
    }
    assert!(receiver.spans().is_empty());
    let exit = server.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let spans: Vec<Span> = receiver.spans();
    assert_eq!(
        spans
            .iter()
            .filter(|span| span.name == "read_item posts")
            .count(),
        5
    );
}

#[test]
fn a_collector_that_never_answers_does_not_keep_the_server_from_stopping() {
    let receiver = Receiver::start();
    receiver.answer(Reply::Silence);
    let (server, _client) = start(&receiver, &[]);
    receiver.wait(|received| received.requests >= 1);
    // The collector is still silent when the server has ended.
    let exit = server.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

#[test]
fn the_standard_variables_switch_the_export_on_and_off() {
    let receiver = Receiver::start();
    let endpoint = receiver.endpoint();
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str());
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=top%20secret");
    let quick = ("OTEL_BSP_SCHEDULE_DELAY", "10");
    let variables = [general, headers, quick];
    let server = program::start_with_variables(&["--memory"], &variables).expect("it starts");
    server.client().make_posts();
    receiver.span(|span| span.name == "create_database blog" || span.name == "create_database");
    assert_eq!(receiver.header("api-key").as_deref(), Some("top secret"));
    let log = server.stop().stderr;
    assert!(
        log.contains("traces are sent to http://127.0.0.1:"),
        "{log}"
    );
    assert!(!log.contains("top secret"), "{log}");

    let receiver = Receiver::start();
    let endpoint = receiver.endpoint();
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str());
    let variables = [general, ("OTEL_SDK_DISABLED", "true")];
    let server = program::start_with_variables(&["--memory"], &variables).expect("it starts");
    server.client().make_posts();
    assert_eq!(server.stop().code, Some(0));
    receiver.wait(|received| received.requests == 0);
}

#[test]
fn a_wrong_address_or_protocol_ends_the_start_before_any_file_is_created() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let data_dir = data.to_str().expect("UTF-8");
    for (endpoint, variable, part) in [
        (
            "localhost:4318",
            ("X", ""),
            "--otlp-endpoint is 'localhost:4318'",
        ),
        (
            "http://127.0.0.1:4317",
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'",
        ),
    ] {
        let arguments = ["--data-dir", data_dir, "--otlp-endpoint", endpoint];
        let exit = match program::start_with_variables(&arguments, &[variable]) {
            Err(exit) => exit,
            Ok(_) => panic!("it started with {endpoint}"),
        };
        assert_eq!(exit.code, Some(2), "{}", exit.stderr);
        assert!(exit.stderr.contains(part), "{}", exit.stderr);
    }
    assert!(!data.exists());
}
