//! Limits on partitions and on throughput that a learner sets low, so that they are met soon.

use crate::program::{Answer, Client, ITEMS, Request, Server, start};
use orrery_model::Json;

/// Creates an item of 100 kB in a logical partition of its own.
fn create(client: &mut Client, id: usize) -> Answer {
    let pad = "x".repeat(100 << 10);
    let body = format!(r#"{{"id":"{id}","postId":"{id}","x":"{pad}"}}"#);
    client.call(&Request::new("POST", ITEMS).key(&id.to_string()).body(body))
}

/// Creates a container with `body` in the database `blog`.
fn make_container(client: &mut Client, body: &str) {
    let request = Request::new("POST", "/dbs/blog/colls").body(body);
    let answer = client.call(&request);
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// Returns the RU/s of a container of the database `blog`.
fn throughput(server: &Server, container: &str) -> Option<i64> {
    let path = format!("/dbs/blog/colls/{container}/throughput");
    let shown = server.manager().get(&path).json();
    shown.get("ruPerSecond").and_then(Json::as_i64)
}

#[test]
fn a_physical_partition_beyond_its_limit_is_split() {
    let options = ["--memory", "--physical-partition-limit", "1MB"];
    let server = start(&options).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    // Splits happen in the background, so creates go on until the split is seen.
    let mut created = 0;
    while client.range_ids("/dbs/blog/colls/posts").len() < 2 {
        assert!(created < 2_000, "no split after {created} items");
        assert_eq!(create(&mut client, created).status, 201);
        created += 1;
    }
    assert!(created > 10, "a split after {created} items of 100 kB");
    let count = Request::query(ITEMS, "SELECT VALUE COUNT(1) FROM c");
    let rows = client.call(&count).rows();
    assert_eq!(rows[0].as_i64(), i64::try_from(created).ok());
}

#[test]
fn a_container_that_states_no_throughput_gets_that_of_the_option() {
    let server = start(&["--memory", "--throughput", "12000"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    assert_eq!(throughput(&server, "posts"), Some(12_000));
    assert_eq!(client.range_ids("/dbs/blog/colls/posts").len(), 2);

    // One physical partition carries no more than 10,000 RU/s.
    make_container(&mut client, r#"{"id":"keyless"}"#);
    assert_eq!(throughput(&server, "keyless"), Some(10_000));
}

#[test]
fn a_throughput_outside_the_limits_of_the_service_is_refused() {
    for ru in ["0", "399", "450", "1000100", "much"] {
        let refused = start(&["--memory", "--throughput", ru]);
        assert_eq!(refused.err().and_then(|exit| exit.code), Some(2), "{ru}");
    }
}
