//! Deletion of all items of a partition key: a POST without a body on the container, signed as the
//! container.

use crate::program::{Answer, Client, ITEMS, Request, item, start_with_posts};

const DELETE: &str = "/dbs/blog/colls/posts/operations/partitionkeydelete";

fn create(client: &mut Client, id: &str, post: &str) -> Answer {
    let body = format!(r#"{{"id":"{id}","postId":"{post}"}}"#);
    client.call(&Request::new("POST", ITEMS).key(post).body(body))
}

fn read(client: &mut Client, id: &str, post: &str) -> (u16, u32) {
    client
        .call(&Request::new("GET", &item(id)).key(post))
        .code()
}

#[test]
fn a_partition_key_is_emptied_at_once() {
    let (_server, mut client) = start_with_posts();
    for id in ["a", "b", "c"] {
        assert_eq!(create(&mut client, id, "p1").status, 201);
    }
    let other = create(&mut client, "a", "p2");
    let answer = client.call(&Request::new("POST", DELETE).key("p1"));
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, 0),
        "{}",
        answer.text()
    );
    assert_eq!(
        answer.lsn(),
        other.lsn() + 1,
        "it is one step of the partition's history"
    );
    assert_eq!(answer.header("x-ms-request-charge"), Some("4.95"));
    for id in ["a", "b", "c"] {
        assert_eq!(read(&mut client, id, "p1"), (404, 0));
    }
    assert_eq!(read(&mut client, "a", "p2"), (200, 0));
    let left = client
        .call(&Request::query(ITEMS, "SELECT * FROM c"))
        .rows();
    assert_eq!(left.len(), 1);
    let changes = client
        .call(&Request::new("GET", ITEMS).header("A-IM", "Incremental feed"))
        .rows();
    assert_eq!(changes.len(), 1);
    assert_eq!(create(&mut client, "a", "p1").status, 201, "the id is free");
    assert_eq!(read(&mut client, "a", "p1"), (200, 0));
    // A partition key without items.
    assert_eq!(
        client
            .call(&Request::new("POST", DELETE).key("nobody"))
            .status,
        200
    );
}

#[test]
fn a_deletion_needs_a_whole_key() {
    let (_server, mut client) = start_with_posts();
    assert_eq!(client.call(&Request::new("POST", DELETE)).code(), (400, 0));
    let two = Request::new("POST", DELETE).header("x-ms-documentdb-partitionkey", r#"["p1","p2"]"#);
    assert_eq!(client.call(&two).code(), (400, 1001));
    assert_eq!(
        client.call(&Request::new("GET", DELETE).key("p1")).status,
        405
    );
}

#[test]
fn emptying_a_container_is_refused_by_name() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&Request::new(
        "POST",
        "/dbs/blog/colls/posts/operations/collectiontruncate",
    ));
    assert_eq!(answer.code(), (400, 0));
    assert!(
        answer
            .text()
            .contains("Emptying a container (collectiontruncate) is not supported"),
        "{}",
        answer.text()
    );
}
