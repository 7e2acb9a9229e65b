//! Fault rules of the management API: the requests to which a rule applies, and the responses that
//! clients get.

use crate::program::{Client, ITEMS, Manager, Request, Server, item, number, start, text};
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_model::Json;

fn start_with_item() -> (Server, Client, Manager) {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.make_posts();
    assert_eq!(client.call(&write("p1")).status, 201);
    (server, client, manager)
}

fn write(id: &str) -> Request {
    Request::new("POST", ITEMS)
        .key(id)
        .body(format!(r#"{{"id":"{id}","postId":"{id}"}}"#))
}

fn read(id: &str) -> Request {
    Request::new("GET", &item(id)).key(id)
}

fn rule(manager: &mut Manager, body: &str) -> String {
    number(&manager.ok("POST", "/faults", body).json(), "id").to_string()
}

#[test]
fn a_rule_names_the_operation_on_one_kind_of_resource() {
    let (_server, mut client, mut manager) = start_with_item();
    let create = |path: &str| Request::new("POST", path).body(r#"{"id":"x"}"#);
    let body = r#"{"operations":["create_user","create_trigger"],"status":503}"#;
    rule(&mut manager, body);
    assert_eq!(client.call(&create("/dbs/blog/users")).status, 503);
    // This request is refused because of its body, and not by the rule.
    let key = client.call(&create("/dbs/blog/clientencryptionkeys"));
    assert_eq!(key.status, 400);
    let rules = manager.ok("GET", "/faults", "").json().to_text();
    let names = r#""operations":["create_user","create_trigger"]"#;
    assert!(rules.contains(names), "{rules}");
    let metrics = manager.ok("GET", "/metrics", "").text().to_owned();
    let sample = "orrery_requests_total{op=\"create_user\",resource=\"users\",status=\"503\"";
    assert!(metrics.contains(sample), "{metrics}");
}

#[test]
fn each_status_of_a_rule_is_returned() {
    let (_server, mut client, mut manager) = start_with_item();
    for (words, code, retry_after) in [
        (r#""status":408"#, (408, 0), None),
        (r#""status":410"#, (410, 1002), None),
        (r#""status":410,"subStatus":1007"#, (410, 1007), None),
        (r#""status":410,"subStatus":1000"#, (410, 1000), None),
        (r#""status":429"#, (429, 3200), Some("10")),
        (
            r#""status":429,"retryAfterMilliseconds":77"#,
            (429, 3200),
            Some("77"),
        ),
        (r#""status":449"#, (449, 0), Some("10")),
        (r#""status":503,"subStatus":21008"#, (503, 21008), None),
    ] {
        rule(
            &mut manager,
            &format!(r#"{{"operations":["read_item"],"count":1,{words}}}"#),
        );
        let struck = client.call(&read("p1"));
        assert_eq!(
            (struck.code(), struck.header("x-ms-retry-after-ms")),
            (code, retry_after),
            "{words}"
        );
        assert!(struck.text().contains("fault rule"), "{}", struck.text());
        assert_eq!(client.call(&read("p1")).status, 200);
    }
}

#[test]
fn a_rule_applies_to_matching_requests_and_counts_them() {
    let (_server, mut client, mut manager) = start_with_item();
    let id = rule(
        &mut manager,
        r#"{"operations":["create_item"],"database":"blog","container":"posts","status":503}"#,
    );
    rule(&mut manager, r#"{"database":"another","status":408}"#);
    rule(&mut manager, r#"{"container":"another","status":408}"#);
    assert_eq!(client.call(&read("p1")).status, 200);
    assert_eq!(client.call(&write("p2")).status, 503);
    assert_eq!(client.call(&read("p2")).status, 404);
    // A path by resource id names the same container.
    let posts = client
        .call(&Request::new("GET", "/dbs/blog/colls/posts"))
        .json();
    let path = format!("/{}docs", text(&posts, "_self"));
    assert_eq!(
        client
            .call(
                &Request::new("POST", &path)
                    .by_rid()
                    .key("p3")
                    .body(r#"{"id":"p3","postId":"p3"}"#)
            )
            .status,
        503
    );
    let shown = manager.get(&format!("/faults/{id}")).json();
    assert_eq!((number(&shown, "seen"), number(&shown, "struck")), (2, 2));
    manager.ok("DELETE", &format!("/faults/{id}"), "");
    assert_eq!(client.call(&write("p2")).status, 201);
    let rules = manager.get("/faults").json();
    assert_eq!(
        rules.get("rules").and_then(Json::as_array).map(<[_]>::len),
        Some(2)
    );
    manager.ok("DELETE", "/faults", "");
    assert_eq!(manager.get("/faults").text(), r#"{"rules":[]}"#);
    assert!(
        manager
            .refused("DELETE", &format!("/faults/{id}"), "", 404)
            .contains(&id)
    );
}

#[test]
fn an_error_after_the_operation_leaves_its_effect() {
    let (_server, mut client, mut manager) = start_with_item();
    rule(
        &mut manager,
        r#"{"operations":["create_item"],"when":"after","count":1,"status":408}"#,
    );
    assert_eq!(client.call(&write("p2")).status, 408);
    assert_eq!(client.call(&read("p2")).status, 200);
    assert_eq!(client.call(&write("p2")).status, 409);
}

#[test]
fn a_lost_response_closes_the_connection_after_the_operation() {
    let (server, mut client, mut manager) = start_with_item();
    let id = rule(
        &mut manager,
        r#"{"operations":["create_item"],"when":"after","count":1,"answer":"none"}"#,
    );
    let lost = client
        .try_call(&write("p2"))
        .expect_err("there is no answer");
    assert_eq!(lost.kind(), std::io::ErrorKind::UnexpectedEof);
    let mut again = server.client();
    assert_eq!(again.call(&read("p2")).status, 200);
    assert_eq!(again.call(&write("p2")).status, 409);
    let shown = manager.get(&format!("/faults/{id}")).json();
    assert_eq!(
        (text(&shown, "answer"), number(&shown, "struck")),
        ("none".to_owned(), 1)
    );
    let counted = manager.get("/metrics").text();
    let sample = "orrery_requests_total{op=\"create_item\",resource=\"docs\",status=\"0\",substatus=\"0\"} 1";
    assert!(counted.lines().any(|line| line == sample), "{counted}");
}

#[test]
fn a_lost_request_closes_the_connection_without_any_effect() {
    let (server, mut client, mut manager) = start_with_item();
    rule(
        &mut manager,
        r#"{"operations":["create_item"],"count":1,"answer":"none"}"#,
    );
    let lost = client
        .try_call(&write("p2"))
        .expect_err("there is no answer");
    assert_eq!(lost.kind(), std::io::ErrorKind::UnexpectedEof);
    let mut again = server.client();
    assert_eq!(again.call(&read("p2")).status, 404);
    assert_eq!(again.call(&write("p2")).status, 201);
}

#[tokio::test]
async fn over_http2_a_lost_response_resets_only_its_stream() {
    let (server, _client, mut manager) = start_with_item();
    rule(
        &mut manager,
        r#"{"operations":["read_item"],"count":1,"answer":"none"}"#,
    );
    let stream = tokio::net::TcpStream::connect(&server.address)
        .await
        .expect("it listens");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    let request = || {
        let asked = read("p1");
        let uri = format!("http://{}{}", server.address, item("p1"));
        let mut request = hyper::Request::get(uri);
        for (name, value) in asked.signed_headers(&server.key) {
            request = request.header(name, value);
        }
        request
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .expect("a request")
    };
    let lost = sender
        .send_request(request())
        .await
        .expect_err("there is no answer");
    let reset = std::error::Error::source(&lost)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(reset.contains("stream error received"), "{lost}: {reset}");
    let answer = sender
        .send_request(request())
        .await
        .expect("the connection is open");
    assert_eq!(answer.status(), 200);
}

#[test]
fn a_delay_delays_the_response_and_changes_nothing_else() {
    let (_server, mut client, mut manager) = start_with_item();
    rule(
        &mut manager,
        r#"{"operations":["read_item"],"count":1,"delayMilliseconds":120}"#,
    );
    let slow = client.call(&read("p1"));
    let took: f64 = slow
        .header("x-ms-request-duration-ms")
        .and_then(|ms| ms.parse().ok())
        .expect("a duration");
    assert_eq!(slow.status, 200);
    assert!(took >= 120.0, "{took}");
}

#[test]
fn invalid_rules_are_refused_with_the_member_at_fault() {
    let (_server, mut client, mut manager) = start_with_item();
    for (body, part) in [
        (r#"{"status":503,"percent":5}"#, "'percent'"),
        (r#"{"status":500}"#, "500"),
        (r#"{"status":418}"#, "418"),
        (r#"{"status":"503"}"#, "'status'"),
        (r#"{"status":503,"share":2}"#, "'share'"),
        (r#"{"status":503,"when":"during"}"#, "before, after"),
        (
            r#"{"status":503,"operations":["read_itme"]}"#,
            "'read_itme'",
        ),
        (r#"{"subStatus":1002}"#, "'subStatus'"),
        (
            r#"{"operations":["read_item"]}"#,
            "a 'status', an 'answer' or a 'delayMilliseconds'",
        ),
        (
            r#"{"status":503,"answer":"none"}"#,
            "'answer' says there is none",
        ),
        (
            r#"{"answer":"none","retryAfterMilliseconds":5}"#,
            "'retryAfterMilliseconds'",
        ),
        (r#"{"answer":"late"}"#, "'answer'"),
        (r#"{"status":503"#, "not valid JSON"),
        ("[]", "object"),
    ] {
        let message = manager.refused("POST", "/faults", body, 400);
        assert!(message.contains(part), "{body}: {message}");
    }
    assert_eq!(client.call(&read("p1")).status, 200);
}

#[test]
fn the_partitions_of_a_container_are_listed() {
    let (_server, mut client, mut manager) = start_with_item();
    let body = r#"{"id":"wide","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    let wide = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "12000")
        .body(body);
    assert_eq!(client.call(&wide).status, 201);
    for id in ["a", "b", "c", "d", "e"] {
        let request = Request::new("POST", "/dbs/blog/colls/wide/docs").key(id);
        assert_eq!(
            client
                .call(&request.body(format!(r#"{{"id":"{id}","postId":"{id}"}}"#)))
                .status,
            201
        );
    }
    let listed = manager.get("/dbs/blog/colls/wide/partitions").json();
    let partitions = listed
        .get("partitions")
        .and_then(Json::as_array)
        .expect("a list")
        .to_vec();
    assert_eq!(partitions.len(), 2);
    assert_eq!(
        partitions.iter().map(|p| number(p, "items")).sum::<u64>(),
        5
    );
    assert_eq!(
        text(&partitions[0], "maxExclusive"),
        text(&partitions[1], "minInclusive")
    );
    assert!(
        manager
            .refused("GET", "/dbs/blog/colls/none/partitions", "", 404)
            .contains("'none'")
    );
    assert!(
        manager
            .refused("GET", "/dbs/none/colls/wide/partitions", "", 404)
            .contains("database 'none'")
    );
}
