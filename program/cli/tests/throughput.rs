//! Throughput budgets as clients see them: the refusal and its headers; and no refusals unless
//! enforcement is on.

use crate::program::{Answer, Client, ITEMS, Request, start};
use orrery_model::Json;
use orrery_test_wait::wait_until;

/// Returns a batch of a hundred creates under one key, which costs more than a second of a small
/// container's budget.
fn expensive_batch(first: usize) -> Request {
    let operation = |n| {
        format!(
            r#"{{"operationType":"Create","resourceBody":{{"id":"i{n}","postId":"p","text":"some text"}}}}"#
        )
    };
    let body: Vec<String> = (first..first + 100).map(operation).collect();
    Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "true")
        .header("x-ms-cosmos-batch-atomic", "true")
        .header("x-ms-documentdb-partitionkey", "[\"p\"]")
        .body(format!("[{}]", body.join(",")))
}

fn read(client: &mut Client) -> Answer {
    let request = Request::new("GET", &format!("{ITEMS}/i7"))
        .header("x-ms-documentdb-partitionkey", "[\"p\"]");
    client.call(&request)
}

#[test]
fn a_request_beyond_the_budget_is_429_with_the_time_to_wait() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let mut first = 0;
    let (charge, refused) = wait_until("requests before the debt is paid", || {
        let batch = client.call(&expensive_batch(first));
        assert_eq!(
            batch.status,
            200,
            "it costs more than a second's budget and is served: {}",
            batch.text()
        );
        first += 100;
        let charge = batch.header("x-ms-request-charge").expect("a charge");
        let charge: f64 = charge.parse().expect("a number");
        assert!(charge > 600.0, "{charge}");
        // A machine that stands still for a second pays the debt meanwhile.
        let refused = read(&mut client);
        let next = client.call(&Request::new("DELETE", &format!("{ITEMS}/i1")).key("p"));
        match (refused.status, next.status) {
            (429, 429) => Ok((charge, refused)),
            statuses => Err(statuses),
        }
    });
    assert_eq!(refused.header("x-ms-substatus"), Some("3200"));
    assert_eq!(refused.header("x-ms-request-charge"), Some("0.38"));
    let wait: u64 = refused
        .header("x-ms-retry-after-ms")
        .expect("a wait")
        .parse()
        .expect("a number");
    let debt = charge - 400.0;
    let seconds = (debt / 400.0).floor() as u64 + 2;
    assert!(
        (1..=seconds * 1_000).contains(&wait),
        "{wait} ms for a debt of {debt} RU"
    );
    let body = refused.json();
    assert_eq!(
        body.get("code").and_then(Json::as_str),
        Some("TooManyRequests")
    );
    let message = body
        .get("message")
        .and_then(Json::as_str)
        .expect("a message");
    assert!(message.contains("Request rate is large."), "{message}");
    assert_eq!(
        client
            .call(&Request::new("GET", "/dbs/blog/colls/posts"))
            .status,
        200,
        "metadata requests are not limited"
    );
}

#[test]
fn without_the_switch_nothing_is_refused() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    for batch in 0..3 {
        assert_eq!(client.call(&expensive_batch(batch * 100)).status, 200);
    }
    assert_eq!(read(&mut client).status, 200);
}
