//! Users, permissions, keys and tokens through a restart.
//! `requests/permissions.txt` and `requests/resource_tokens.txt` have the requests and answers.

use crate::program::{Answer, Client, Request, start_on, text};
use orrery_model::Json;

const PERMISSIONS: &str = "/dbs/blog/users/ann/permissions";
const POSTS: &str = "/dbs/blog/colls/posts";
const KEYS: &str = "/dbs/blog/clientencryptionkeys";
const KEY: &str = r#"{"id":"cek","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
    "wrappedDataEncryptionKey":"AAEC","keyWrapMetadata":{"type":"AZURE_KEY_VAULT","name":"n",
    "value":"https://v/k","algorithm":"RSA-OAEP"}}"#;

/// Creates the container `posts` and the user `ann`.
fn create_resources(client: &mut Client) {
    client.make_posts();
    client.create("/dbs/blog/users", r#"{"id":"ann"}"#);
}

/// Returns the ids in a feed.
fn ids(answer: &Answer, rows: &str) -> Vec<String> {
    let rows = answer.members(rows);
    let count = answer.json().get("_count").and_then(Json::as_i64);
    assert_eq!(count, Some(rows.len() as i64));
    rows.iter().map(|row| text(row, "id")).collect()
}

/// Creates a permission to read the container and returns its token.
fn permit(client: &mut Client) -> String {
    let body = r#"{"id":"r","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#;
    let made = client.call(&Request::new("POST", PERMISSIONS).body(body));
    assert_eq!(made.status, 201, "{}", made.text());
    text(&made.json(), "_token")
}

#[test]
fn users_permissions_keys_and_tokens_survive_a_restart_and_go_with_their_database() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("the server starts");
    let mut client = server.client();
    create_resources(&mut client);
    let token = permit(&mut client);
    client.create(KEYS, KEY);
    assert_eq!(server.stop().code, Some(0));

    let server = start_on(directory.path()).expect("the server starts again");
    let mut client = server.client();
    let found = client.call(&Request::new("GET", PERMISSIONS));
    assert_eq!(ids(&found, "Permissions"), ["r"]);
    let found = client.call(&Request::new("GET", KEYS));
    assert_eq!(ids(&found, "ClientEncryptionKeys"), ["cek"]);
    let read = Request::new("GET", POSTS).token(&token);
    assert_eq!(client.call(&read).status, 200);
    assert_eq!(
        client.call(&Request::new("DELETE", "/dbs/blog")).status,
        204
    );
    create_resources(&mut client);
    let found = client.call(&Request::new("GET", PERMISSIONS));
    assert_eq!(ids(&found, "Permissions"), [""; 0]);
    let found = client.call(&Request::new("GET", KEYS));
    assert_eq!(ids(&found, "ClientEncryptionKeys"), [""; 0]);
    assert_eq!(client.call(&read).code(), (401, 0));
}
