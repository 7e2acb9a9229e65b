//! Users, permissions, resource tokens and client encryption keys, as seen by a client without a
//! library.

use crate::program::{Answer, Client, Request, Server, start, start_on};
use orrery_model::Json;

const USERS: &str = "/dbs/blog/users";
const PERMISSIONS: &str = "/dbs/blog/users/ann/permissions";
const POSTS: &str = "/dbs/blog/colls/posts";
const ITEMS: &str = "/dbs/blog/colls/posts/docs";

/// Starts a server with the container `posts`, two items in it and the user `ann`.
fn start_with_user() -> (Server, Client) {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    create_resources(&mut client);
    (server, client)
}

fn create_resources(client: &mut Client) {
    client.make_posts();
    for (id, key) in [("1", "p1"), ("2", "p2")] {
        let body = format!(r#"{{"id":"{id}","postId":"{key}"}}"#);
        assert_eq!(
            client
                .call(&Request::new("POST", ITEMS).key(key).body(body))
                .status,
            201
        );
    }
    client.create(USERS, r#"{"id":"ann"}"#);
}

fn member(json: &Json, name: &str) -> String {
    json.get(name)
        .and_then(Json::as_str)
        .unwrap_or_else(|| panic!("no {name} in {json}"))
        .to_owned()
}

fn ok(client: &mut Client, request: &Request) -> Json {
    let answer = client.call(request);
    assert!((200..=201).contains(&answer.status), "{}", answer.text());
    answer.json()
}

fn code(client: &mut Client, request: &Request) -> (u16, u32) {
    client.call(request).code()
}

/// Returns the ids in a feed.
fn ids(answer: &Answer, rows: &str) -> Vec<String> {
    let json = answer.json();
    let rows = json
        .get(rows)
        .and_then(Json::as_array)
        .unwrap_or_else(|| panic!("{}", answer.text()));
    assert_eq!(
        json.get("_count").and_then(Json::as_i64),
        Some(rows.len() as i64)
    );
    rows.iter().map(|row| member(row, "id")).collect()
}

/// Creates a permission and returns its token.
fn permit(client: &mut Client, body: &str) -> String {
    let made = ok(client, &Request::new("POST", PERMISSIONS).body(body));
    member(&made, "_token")
}

#[test]
fn users_are_created_read_listed_queried_renamed_and_deleted() {
    let (_server, mut client) = start_with_user();
    let ann = ok(&mut client, &Request::new("GET", "/dbs/blog/users/ann"));
    assert_eq!(member(&ann, "_permissions"), "permissions/");
    assert!(member(&ann, "_self").contains("/users/") && member(&ann, "_etag").starts_with('"'));
    assert_eq!(
        code(
            &mut client,
            &Request::new("POST", USERS).body(r#"{"id":"ann"}"#)
        ),
        (409, 0)
    );
    client.create(USERS, r#"{"id":"bob"}"#);
    assert_eq!(
        ids(&client.call(&Request::new("GET", USERS)), "Users"),
        ["ann", "bob"]
    );
    let query = Request::query(USERS, "SELECT * FROM root r WHERE r.id = 'bob'");
    assert_eq!(ids(&client.call(&query), "Users"), ["bob"]);

    let upserted = Request::new("POST", USERS)
        .header("x-ms-documentdb-is-upsert", "True")
        .body(r#"{"id":"ann"}"#);
    let answer = client.call(&upserted);
    assert_eq!(
        (answer.status, member(&answer.json(), "_rid")),
        (200, member(&ann, "_rid"))
    );

    let renamed = ok(
        &mut client,
        &Request::new("PUT", "/dbs/blog/users/ann").body(r#"{"id":"eve"}"#),
    );
    assert_eq!(
        (member(&renamed, "id"), member(&renamed, "_rid")),
        ("eve".into(), member(&ann, "_rid"))
    );
    assert_eq!(
        code(&mut client, &Request::new("GET", "/dbs/blog/users/ann")),
        (404, 0)
    );
    assert_eq!(
        code(
            &mut client,
            &Request::new("PUT", "/dbs/blog/users/eve").body(r#"{"id":"bob"}"#)
        ),
        (409, 0)
    );
    let stale =
        Request::new("DELETE", "/dbs/blog/users/eve").header("If-Match", member(&ann, "_etag"));
    assert_eq!(code(&mut client, &stale), (412, 0));
    assert_eq!(
        client
            .call(&Request::new("DELETE", "/dbs/blog/users/eve"))
            .status,
        204
    );
    assert_eq!(
        code(&mut client, &Request::new("DELETE", "/dbs/blog/users/eve")),
        (404, 0)
    );
    assert_eq!(
        code(&mut client, &Request::new("GET", "/dbs/none/users")),
        (404, 1003)
    );
    assert_eq!(
        code(
            &mut client,
            &Request::new("POST", USERS).body(r#"{"id":"x","wheels":4}"#)
        ),
        (400, 0)
    );
}

#[test]
fn users_and_permissions_are_addressed_by_resource_id_too() {
    let (_server, mut client) = start_with_user();
    permit(
        &mut client,
        r#"{"id":"reads","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
    );
    for path in [
        "/dbs/blog/users/ann".to_owned(),
        format!("{PERMISSIONS}/reads"),
    ] {
        let read = ok(&mut client, &Request::new("GET", &path));
        let by_rid = Request::new("GET", &format!("/{}", member(&read, "_self"))).by_rid();
        assert_eq!(member(&ok(&mut client, &by_rid), "id"), member(&read, "id"));
    }
}

#[test]
fn permissions_are_created_read_listed_queried_replaced_and_deleted() {
    let (_server, mut client) = start_with_user();
    let body = r#"{"id":"reads","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#;
    permit(&mut client, body);
    let again = body.replace("reads", "other");
    assert_eq!(
        code(&mut client, &Request::new("POST", PERMISSIONS).body(body)),
        (409, 0)
    );
    assert_eq!(
        code(&mut client, &Request::new("POST", PERMISSIONS).body(again)),
        (409, 0),
        "the same resource"
    );
    let in_key = r#"{"id":"one","permissionMode":"All","resource":"dbs/blog/colls/posts","resourcePartitionKey":["p1"]}"#;
    permit(&mut client, in_key);
    let one = ok(
        &mut client,
        &Request::new("GET", &format!("{PERMISSIONS}/one")),
    );
    assert_eq!(
        one.get("resourcePartitionKey").map(Json::to_text),
        Some(r#"["p1"]"#.into())
    );

    assert_eq!(
        ids(
            &client.call(&Request::new("GET", PERMISSIONS)),
            "Permissions"
        ),
        ["reads", "one"]
    );
    let query = Request::query(
        PERMISSIONS,
        "SELECT c.id, c._token FROM c WHERE c.permissionMode = 'All'",
    );
    let answer = client.call(&query);
    assert_eq!(ids(&answer, "Permissions"), ["one"]);
    assert!(answer.text().contains("type=resource&ver=1&sig="));

    let changed = body.replace("reads", "writes").replace("Read", "All");
    let replaced = ok(
        &mut client,
        &Request::new("PUT", &format!("{PERMISSIONS}/reads")).body(changed),
    );
    assert_eq!(
        (member(&replaced, "id"), member(&replaced, "permissionMode")),
        ("writes".into(), "All".into())
    );
    assert_eq!(
        client
            .call(&Request::new("DELETE", &format!("{PERMISSIONS}/writes")))
            .status,
        204
    );
    assert_eq!(
        code(
            &mut client,
            &Request::new("GET", &format!("{PERMISSIONS}/writes"))
        ),
        (404, 0)
    );
    assert_eq!(
        code(
            &mut client,
            &Request::new("GET", "/dbs/blog/users/none/permissions")
        ),
        (404, 1003)
    );
    for (what, body) in [
        (
            "a database",
            r#"{"id":"x","permissionMode":"Read","resource":"dbs/blog"}"#,
        ),
        (
            "a mode",
            r#"{"id":"x","permissionMode":"Write","resource":"dbs/blog/colls/posts"}"#,
        ),
        ("no resource", r#"{"id":"x","permissionMode":"Read"}"#),
    ] {
        assert_eq!(
            code(&mut client, &Request::new("POST", PERMISSIONS).body(body)),
            (400, 0),
            "{what}"
        );
    }
}

#[test]
fn a_token_of_a_container_does_what_its_mode_says_and_leaves_the_container() {
    let (_server, mut client) = start_with_user();
    let reads = permit(
        &mut client,
        r#"{"id":"r","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
    );
    client.make_procedure(
        "touch",
        "function f() { getContext().getResponse().setBody(1); }",
    );
    let read = [
        Request::new("GET", "/"),
        Request::new("GET", POSTS),
        Request::new("GET", "/dbs/blog/colls/posts/pkranges"),
        Request::new("GET", ITEMS),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("GET", "/dbs/blog/colls/posts/docs/1").key("p1"),
        Request::new("GET", "/dbs/blog/colls/posts/sprocs/touch"),
    ];
    for request in &read {
        ok(&mut client, &request.clone().token(&reads));
    }
    let item = |id: &str| format!(r#"{{"id":"{id}","postId":"p1"}}"#);
    let write = [
        Request::new("POST", ITEMS).key("p1").body(item("3")),
        Request::new("POST", ITEMS)
            .key("p1")
            .header("x-ms-documentdb-is-upsert", "True")
            .body(item("1")),
        Request::new("PUT", "/dbs/blog/colls/posts/docs/1")
            .key("p1")
            .body(item("1")),
        Request::new("DELETE", "/dbs/blog/colls/posts/docs/1").key("p1"),
        Request::new("POST", "/dbs/blog/colls/posts/sprocs/touch")
            .key("p1")
            .body("[]"),
        Request::new("DELETE", "/dbs/blog/colls/posts/sprocs/touch"),
    ];
    for request in &write {
        assert_eq!(
            code(&mut client, &request.clone().token(&reads)),
            (403, 0),
            "{request:?}"
        );
    }
    let beyond = [
        Request::new("GET", "/dbs"),
        Request::new("GET", "/dbs/blog"),
        Request::new("GET", "/dbs/blog/colls"),
        Request::new("GET", "/dbs/blog/colls/none"),
        Request::new("GET", PERMISSIONS),
        Request::new("GET", USERS),
        Request::new("PUT", POSTS).body(r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#),
        Request::new("DELETE", "/dbs/blog"),
    ];
    let all = r#"{"id":"r","permissionMode":"All","resource":"dbs/blog/colls/posts"}"#;
    let replaced = ok(
        &mut client,
        &Request::new("PUT", &format!("{PERMISSIONS}/r")).body(all),
    );
    let writes = member(&replaced, "_token");
    for request in &beyond {
        assert_eq!(
            code(&mut client, &request.clone().token(&writes)),
            (403, 0),
            "{request:?}"
        );
    }
    assert_eq!(
        code(&mut client, &read[1].clone().token(&reads)),
        (401, 0),
        "its permission says something else"
    );
    for request in &write {
        let answer = client.call(&request.clone().token(&writes));
        assert!(
            (200..300).contains(&answer.status),
            "{request:?}: {}",
            answer.text()
        );
    }
}

#[test]
fn only_a_token_of_mode_all_for_the_whole_container_deletes_it() {
    let (_server, mut client) = start_with_user();
    let other = r#"{"id":"other","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", other);
    let delete = Request::new("DELETE", POSTS);
    for body in [
        r#"{"id":"r","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
        r#"{"id":"k","permissionMode":"All","resource":"dbs/blog/colls/posts",
            "resourcePartitionKey":["p1"]}"#,
        r#"{"id":"i","permissionMode":"All","resource":"dbs/blog/colls/posts/docs/1"}"#,
        r#"{"id":"o","permissionMode":"All","resource":"dbs/blog/colls/other"}"#,
    ] {
        let token = permit(&mut client, body);
        assert_eq!(
            code(&mut client, &delete.clone().key("p1").token(&token)),
            (403, 0),
            "{body}"
        );
    }
    let replaced = ok(
        &mut client,
        &Request::new("PUT", &format!("{PERMISSIONS}/r"))
            .body(r#"{"id":"r","permissionMode":"All","resource":"dbs/blog/colls/posts"}"#),
    );
    let all = member(&replaced, "_token");
    assert_eq!(client.call(&delete.token(&all)).status, 204);
    assert_eq!(code(&mut client, &Request::new("GET", POSTS)), (404, 0));
    ok(&mut client, &Request::new("GET", "/dbs/blog/colls/other"));
}

#[test]
fn a_token_of_an_item_or_a_partition_key_reaches_no_further() {
    let (_server, mut client) = start_with_user();
    let of_item = permit(
        &mut client,
        r#"{"id":"i","permissionMode":"All","resource":"dbs/blog/colls/posts/docs/1"}"#,
    );
    let in_key = r#"{"id":"k","permissionMode":"Read","resource":"dbs/blog/colls/posts","resourcePartitionKey":["p2"]}"#;
    let in_key = permit(&mut client, in_key);
    let get = |id: &str, key: &str| Request::new("GET", &format!("{ITEMS}/{id}")).key(key);
    ok(&mut client, &Request::new("GET", POSTS).token(&of_item));
    ok(&mut client, &get("1", "p1").token(&of_item));
    assert_eq!(code(&mut client, &get("2", "p2").token(&of_item)), (403, 0));
    assert_eq!(
        code(&mut client, &Request::new("GET", ITEMS).token(&of_item)),
        (403, 0)
    );
    assert_eq!(
        code(
            &mut client,
            &Request::query(ITEMS, "SELECT * FROM c").token(&of_item)
        ),
        (403, 0)
    );

    ok(&mut client, &get("2", "p2").token(&in_key));
    assert_eq!(code(&mut client, &get("1", "p1").token(&in_key)), (403, 0));
    assert_eq!(
        code(&mut client, &Request::new("GET", ITEMS).token(&in_key)),
        (403, 0)
    );
    let query = Request::query(ITEMS, "SELECT * FROM c")
        .key("p2")
        .token(&in_key);
    assert_eq!(client.call(&query).rows().len(), 1);
    assert_eq!(
        client
            .call(
                &Request::new("DELETE", &format!("{ITEMS}/1"))
                    .key("p1")
                    .token(&of_item)
            )
            .status,
        204
    );
}

#[test]
fn a_token_lives_as_long_as_asked_within_the_bounds_of_the_service() {
    let (_server, mut client) = start_with_user();
    permit(
        &mut client,
        r#"{"id":"r","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
    );
    let read = |seconds: &str| {
        Request::new("GET", &format!("{PERMISSIONS}/r"))
            .header("x-ms-documentdb-expiry-seconds", seconds)
    };
    let shortest = member(&ok(&mut client, &read("10")), "_token");
    let longest = member(&ok(&mut client, &read("86400")), "_token");
    assert_ne!(shortest, longest, "each answer has a token of its own");
    ok(&mut client, &Request::new("GET", POSTS).token(&longest));
    for seconds in ["9", "86401", "-1", "soon"] {
        assert_eq!(code(&mut client, &read(seconds)), (400, 0), "{seconds}");
    }
}

#[test]
fn users_permissions_keys_and_tokens_survive_a_restart_and_go_with_their_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("the server starts");
    let mut client = server.client();
    create_resources(&mut client);
    let token = permit(
        &mut client,
        r#"{"id":"r","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
    );
    client.create("/dbs/blog/clientencryptionkeys", &key_body("cek", "AAEC"));
    assert_eq!(server.stop().code, Some(0));

    let server = start_on(directory.path()).expect("the server starts again");
    let mut client = server.client();
    assert_eq!(
        ids(
            &client.call(&Request::new("GET", PERMISSIONS)),
            "Permissions"
        ),
        ["r"]
    );
    assert_eq!(
        ids(
            &client.call(&Request::new("GET", KEYS)),
            "ClientEncryptionKeys"
        ),
        ["cek"]
    );
    ok(&mut client, &Request::new("GET", POSTS).token(&token));
    assert_eq!(
        client.call(&Request::new("DELETE", "/dbs/blog")).status,
        204
    );
    create_resources(&mut client);
    assert_eq!(
        ids(
            &client.call(&Request::new("GET", PERMISSIONS)),
            "Permissions"
        )
        .len(),
        0
    );
    assert_eq!(
        ids(
            &client.call(&Request::new("GET", KEYS)),
            "ClientEncryptionKeys"
        )
        .len(),
        0
    );
    assert_eq!(
        code(&mut client, &Request::new("GET", POSTS).token(&token)),
        (401, 0)
    );
}

const KEYS: &str = "/dbs/blog/clientencryptionkeys";

fn key_body(id: &str, wrapped: &str) -> String {
    format!(
        r#"{{"id":"{id}","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256","wrappedDataEncryptionKey":"{wrapped}",
            "keyWrapMetadata":{{"type":"AZURE_KEY_VAULT","name":"n","value":"https://v/k","algorithm":"RSA-OAEP"}}}}"#
    )
}

#[test]
fn client_encryption_keys_are_created_read_listed_queried_and_rewrapped() {
    let (_server, mut client) = start_with_user();
    client.create(KEYS, &key_body("cek", "AAEC"));
    assert_eq!(
        code(
            &mut client,
            &Request::new("POST", KEYS).body(key_body("cek", "AAEC"))
        ),
        (409, 0)
    );
    let path = format!("{KEYS}/cek");
    let key = ok(&mut client, &Request::new("GET", &path));
    assert_eq!(
        member(key.get("keyWrapMetadata").expect("metadata"), "algorithm"),
        "RSA-OAEP"
    );
    assert_eq!(
        ids(
            &client.call(&Request::new("GET", KEYS)),
            "ClientEncryptionKeys"
        ),
        ["cek"]
    );
    let query = Request::query(KEYS, "SELECT * FROM c WHERE c.id = 'cek'");
    assert_eq!(ids(&client.call(&query), "ClientEncryptionKeys"), ["cek"]);

    let rewrap = |etag: &str| {
        Request::new("PUT", &path)
            .header("If-Match", etag)
            .body(key_body("cek", "AwQF"))
    };
    assert_eq!(
        member(
            &ok(&mut client, &rewrap(&member(&key, "_etag"))),
            "wrappedDataEncryptionKey"
        ),
        "AwQF"
    );
    assert_eq!(
        code(&mut client, &rewrap(&member(&key, "_etag"))),
        (412, 0),
        "the etag is an old one"
    );
    assert_eq!(
        code(
            &mut client,
            &Request::new("PUT", &path).body(key_body("other", "AwQF"))
        ),
        (400, 0)
    );
    assert_eq!(
        code(&mut client, &Request::new("DELETE", &path)),
        (405, 0),
        "items would be lost with it"
    );
    for number in 1..20 {
        client.create(KEYS, &key_body(&format!("cek{number}"), "AAEC"));
    }
    assert_eq!(
        code(
            &mut client,
            &Request::new("POST", KEYS).body(key_body("cek20", "AAEC"))
        ),
        (403, 0)
    );
}

#[test]
fn an_encryption_policy_names_keys_that_exist_and_stays_as_it_is() {
    let (_server, mut client) = start_with_user();
    let container = |key: &str, kind: &str| {
        format!(
            r#"{{"id":"sealed","partitionKey":{{"paths":["/pk"]}},"clientEncryptionPolicy":{{"policyFormatVersion":2,
                "includedPaths":[{{"path":"/secret","clientEncryptionKeyId":"{key}","encryptionType":"{kind}",
                "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}}]}}}}"#
        )
    };
    let create = |body: String| Request::new("POST", "/dbs/blog/colls").body(body);
    let refused = client.call(&create(container("cek", "Randomized")));
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("'cek' does not exist"),
        "{}",
        refused.text()
    );
    client.create(KEYS, &key_body("cek", "AAEC"));
    let made = ok(&mut client, &create(container("cek", "Randomized")));
    let policy = made.get("clientEncryptionPolicy").expect("a policy");
    assert_eq!(
        policy.get("policyFormatVersion").and_then(Json::as_i64),
        Some(2)
    );

    let replace = |body: String| Request::new("PUT", "/dbs/blog/colls/sealed").body(body);
    ok(&mut client, &replace(container("cek", "Randomized")));
    for body in [
        container("cek", "Deterministic"),
        r#"{"id":"sealed","partitionKey":{"paths":["/pk"]}}"#.into(),
    ] {
        let refused = client.call(&replace(body));
        assert_eq!(refused.status, 400);
        assert!(
            refused
                .text()
                .contains("cannot be changed as part of collection replace operation")
        );
    }
}
