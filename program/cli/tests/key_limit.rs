//! The limit on the size of a logical partition, as clients and operators see it.

use crate::program::{Answer, Client, ITEMS, Request, item, number, start, text};
use orrery_model::Json;

/// Creates an item of 100 kB.
fn create(client: &mut Client, key: &str, id: usize) -> Answer {
    let pad = "x".repeat(100 << 10);
    let body = format!(r#"{{"id":"{id}","postId":"{key}","x":"{pad}"}}"#);
    client.call(&Request::new("POST", ITEMS).key(key).body(body))
}

#[test]
fn writes_beyond_the_limit_are_403_with_1014_and_the_operator_is_warned_before() {
    let options = ["--memory", "--logical-partition-limit", "1MB"];
    let server = start(&options).expect("the server starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    client.make_posts();
    let mut created = 0;
    let refused = loop {
        let answer = create(&mut client, "full", created);
        if answer.status != 201 {
            break answer;
        }
        created += 1;
    };
    assert_eq!(created, 10);
    let message = refused.error(403, Some("1014"), "Forbidden");
    assert!(
        message.contains("Partition key reached maximum size of 1 MB"),
        "{message}"
    );
    assert_eq!(create(&mut client, "other", 0).status, 201);

    // The operator finds the logical partition in the management API, the metrics and the log.
    let listed = manager.get("/dbs/blog/colls/posts/partitions").json();
    let partitions = listed.get("partitions").and_then(Json::as_array);
    let large = partitions.and_then(|list| list.first()?.get("largestKeys")?.as_array());
    let large = &large.expect("a list")[0];
    assert_eq!(text(large, "key"), r#"["full"]"#);
    assert!(number(large, "bytes") > 1_000_000, "{}", large.to_text());
    let metrics = manager.get("/metrics").text();
    for line in [
        "orrery_logical_partition_warnings_total 1",
        "orrery_logical_partition_refusals_total 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}");
    }

    // What is deleted makes room.
    let delete = Request::new("DELETE", &item("0")).key("full");
    assert_eq!(client.call(&delete).status, 204);
    assert_eq!(create(&mut client, "full", 20).status, 201);
    let log = server.stop().stderr;
    let warning = "a logical partition of blog/posts (EPK ";
    assert!(log.contains(warning) && !log.contains("full"), "{log}");
}

#[test]
fn the_limit_is_a_size_of_at_least_a_megabyte() {
    for limit in ["0", "-1", "20 apples"] {
        let refused = start(&["--memory", "--logical-partition-limit", limit]);
        assert_eq!(refused.err().and_then(|exit| exit.code), Some(2), "{limit}");
    }
}
