//! Partial updates, in every form in which clients send them.

use crate::program::*;
use orrery_model::Json;

fn patch(body: &str) -> Request {
    Request::new("PATCH", &item("i")).key("p").body(body)
}

fn with_an_item() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"i","postId":"p","n":1}"#);
    (server, client)
}

#[test]
fn a_patch_comes_in_any_form_and_under_any_content_type() {
    let (_server, mut client) = with_an_item();
    let bare = r#"[{"op":"incr","path":"/n","value":1}]"#;
    let wrapped = format!(r#"{{"operations":{bare}}}"#);
    let mut n = 1;
    for body in [bare, &wrapped] {
        for content in [
            None,
            Some("application/json_patch+json"),
            Some("application/json"),
            Some("text/plain"),
        ] {
            let request = patch(body);
            let request = content.map_or(request.clone(), |content| {
                request.header("Content-Type", content)
            });
            let answer = client.call(&request);
            n += 1;
            assert_eq!(answer.status, 200, "{content:?} {}", answer.text());
            assert_eq!(answer.json().get("n"), Some(&Json::from(n)));
            assert_eq!(
                answer.json().get("_etag").and_then(Json::as_str),
                answer.header("etag")
            );
            assert!(answer.lsn() > 1);
        }
    }
}

#[test]
fn a_minimal_patch_response_has_no_body() {
    let (_server, mut client) = with_an_item();
    let answer = client.call(
        &patch(r#"[{"op":"incr","path":"/n","value":1}]"#).header("Prefer", "return=minimal"),
    );
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    let etag = answer.header("etag").expect("an etag").to_owned();
    let again =
        |etag: &str| patch(r#"[{"op":"incr","path":"/n","value":1}]"#).header("If-Match", etag);
    assert_eq!(client.call(&again(&etag)).status, 200);
    assert_eq!(client.call(&again(&etag)).code(), (412, 0));
}

#[test]
fn a_patch_whose_condition_fails_is_412_1110() {
    let (_server, mut client) = with_an_item();
    let body = r#"{"condition":"from c where c.n > 1","operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let answer = client.call(&patch(body));
    assert_eq!(answer.code(), (412, 1110));
    assert!(
        answer.text().contains("PreconditionFailed"),
        "{}",
        answer.text()
    );
}

#[test]
fn a_patch_that_cannot_be_done_is_400_in_the_services_words() {
    let (_server, mut client) = with_an_item();
    for (operation, message) in [
        (
            r#"{"op":"add","path":"/none/x","value":1}"#,
            "For Operation(1): Add Operation can only create a child object",
        ),
        (
            r#"{"op":"remove","path":"/none"}"#,
            "For Operation(1): Node(/none) to be removed is absent.",
        ),
        (
            r#"{"op":"set","path":"/_ts","value":1}"#,
            "Invalid patch request: Cannot patch system property '_ts'.",
        ),
        (
            r#"{"op":"copy","path":"/n"}"#,
            "Invalid patch request: check syntax of patch specification.",
        ),
    ] {
        let answer = client.call(&patch(&format!("[{operation}]")));
        assert_eq!(answer.code(), (400, 0));
        assert!(answer.text().contains(message), "{}", answer.text());
    }
    let moved = client.call(&patch(r#"[{"op":"set","path":"/postId","value":"q"}]"#));
    assert_eq!(moved.code(), (400, 1001));
    let operations = [r#"{"op":"incr","path":"/n","value":1}"#; 11].join(",");
    let too_many = client.call(&patch(&format!("[{operations}]")));
    assert!(
        too_many
            .text()
            .contains("The number of patch operations cannot exceed '10'."),
        "{}",
        too_many.text()
    );
    let keyless = Request::new("PATCH", &item("i")).body(r#"[{"op":"remove","path":"/n"}]"#);
    assert!(
        client
            .call(&keyless)
            .text()
            .contains("PartitionKey value must be supplied")
    );
    assert_eq!(client.call(&patch("")).status, 400);
    let missing = Request::new("PATCH", &item("none"))
        .key("p")
        .body(r#"[{"op":"remove","path":"/n"}]"#);
    assert_eq!(client.call(&missing).code(), (404, 0));
    let triggered = patch(r#"[{"op":"remove","path":"/n"}]"#)
        .header("x-ms-documentdb-pre-trigger-include", "t");
    assert_eq!(client.call(&triggered).status, 400);
}
