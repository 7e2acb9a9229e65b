//! Definitions: a server that starts with one, and dumps that give it back.

use crate::program::{self, Server};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A definition with every kind of resource. The number of the item keeps its digits.
const SHOP: &str = r#"{"databases":[{"id":"shop","throughput":{"manual":500},
  "clientEncryptionKeys":[{"id":"cek","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
    "wrappedDataEncryptionKey":"AAEC","keyWrapMetadata":{"type":"AZURE_KEY_VAULT","name":"n",
      "value":"https://v/k","algorithm":"RSA-OAEP"}}],
  "containers":[
  {"id":"orders","partitionKey":{"paths":["/customer"]},"defaultTtl":3600,
   "throughput":{"autoscale":4000},
   "indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/note/?"}]},
   "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/number"]}]},
   "computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.customer) FROM c"}],
   "storedProcedures":[{"id":"one","body":"function one() { return 1; }"}],
   "triggers":[{"id":"check","triggerType":"Pre","triggerOperation":"All",
     "body":"function check() {}"}],
   "userDefinedFunctions":[{"id":"vat","body":"function vat(x) { return x; }"}],
   "items":[{"id":"1","customer":"ada","number":1.50},{"id":"2","customer":"bob","number":2}]},
  {"id":"secret","partitionKey":{"paths":["/id"]},
   "clientEncryptionPolicy":{"policyFormatVersion":1,"includedPaths":[{"path":"/ssn",
     "clientEncryptionKeyId":"cek","encryptionType":"Deterministic",
     "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}]}},
  {"id":"a:b","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2},
   "items":[{"id":"1","t":"x","u":7}]}]}]}"#;

fn orrery(server: &Server, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}/", server.address);
    Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(arguments)
        .args(["--endpoint", &endpoint])
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn dump(server: &Server) -> String {
    let output = orrery(server, &["dump", "--items"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn start_with(path: &Path) -> Server {
    let path = path.to_str().expect("UTF-8");
    program::start(&["--memory", "--init", path]).expect("it starts")
}

#[test]
fn dumps_of_both_forms_start_equal_servers() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    fs::write(&file, SHOP).expect("a file");
    let first = start_with(&file);
    let state = dump(&first);
    assert!(state.contains("1.50"), "{state}");
    assert!(
        state.contains(r#""clientEncryptionKeyId": "cek""#),
        "{state}"
    );
    assert!(state.contains(r#""autoscale": 4000"#), "{state}");

    let dumped = home.path().join("dump.json");
    fs::write(&dumped, &state).expect("a file");
    assert_eq!(dump(&start_with(&dumped)), state);

    let folder = home.path().join("folder");
    let path = folder.to_str().expect("UTF-8");
    let output = orrery(
        &first,
        &["dump", "--items", "--format", "folder", "-o", path],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.join("shop/orders/triggers/check.js").exists());
    assert_eq!(dump(&start_with(&folder)), state);
}

#[test]
fn a_second_application_changes_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    fs::write(&file, SHOP).expect("a file");
    let server = start_with(&file);
    let before = dump(&server);
    let output = orrery(&server, &["init", file.to_str().expect("UTF-8")]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("0 resources created, 0 changed, 0 items written, 3 items"),
        "{told}"
    );
    assert_eq!(dump(&server), before);
}

#[test]
fn a_different_setting_is_refused_kept_or_replaced() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    fs::write(&file, SHOP).expect("a file");
    let server = start_with(&file);
    fs::write(&file, SHOP.replace("3600", "7200")).expect("a file");
    let path = file.to_str().expect("UTF-8");

    let output = orrery(&server, &["init", path]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("container shop/orders exists with another defaultTtl"),
        "{told}"
    );
    let output = orrery(&server, &["init", path, "--init-mode", "keep"]);
    assert!(output.status.success());
    assert!(dump(&server).contains("3600"));
    let output = orrery(&server, &["init", path, "--init-mode", "replace"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(dump(&server).contains("7200"));
}

#[test]
fn a_wrong_definition_ends_the_start_with_file_line_and_field() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("wrong.json");
    fs::write(&file, "{\"databases\":[\n{\"id\":\"d\",\"contaners\":[]}]}").expect("a file");
    let exit = program::start(&["--memory", "--init", file.to_str().expect("UTF-8")]);
    let exit = exit.err().expect("it refuses to start");
    assert_eq!(exit.code, Some(2));
    for part in ["wrong.json", "unknown field `contaners`", "line 2"] {
        assert!(exit.stderr.contains(part), "{}", exit.stderr);
    }
}

#[test]
fn an_item_that_breaks_a_unique_key_is_an_error_that_names_it() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    let twice = SHOP.replace(
        r#""id":"2","customer":"bob","number":2"#,
        r#""id":"2","customer":"ada","number":1.5"#,
    );
    fs::write(&file, twice).expect("a file");
    let exit = program::start(&["--memory", "--init", file.to_str().expect("UTF-8")]);
    let exit = exit.err().expect("it refuses to start");
    assert_eq!(exit.code, Some(1));
    assert!(
        exit.stderr.contains("of container shop/orders ('"),
        "{}",
        exit.stderr
    );
}

#[test]
fn a_dump_replaces_a_file_only_if_asked() {
    let server = program::start(&["--memory"]).expect("it starts");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.json");
    let name = path.to_str().expect("UTF-8");
    std::fs::write(&path, "mine").expect("it is written");
    let output = orrery(&server, &["dump", "--output", name]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&path).expect("text"), "mine");
    let output = orrery(&server, &["dump", "--output", name, "--overwrite"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let dumped = std::fs::read_to_string(&path).expect("text");
    assert!(dumped.contains("\"databases\""), "{dumped}");
}
