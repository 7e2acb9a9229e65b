//! `orrery restore --into`: containers of a backup in a server that runs.

use crate::program::{self, Client, Request, Server};
use orrery_test_wait::wait_for;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Two databases. The number of an item keeps its digits, and an item has no partition key.
const ACCOUNT: &str = r#"{"databases":[
  {"id":"shop","clientEncryptionKeys":[{"id":"cek",
     "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256","wrappedDataEncryptionKey":"AAEC",
     "keyWrapMetadata":{"type":"AZURE_KEY_VAULT","name":"n","value":"https://v/k",
       "algorithm":"RSA-OAEP"}}],
   "containers":[
    {"id":"orders","partitionKey":{"paths":["/customer"]},"throughput":{"autoscale":4000},
     "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/number"]}]},
     "storedProcedures":[{"id":"one","body":"function one() { return 1; }"}],
     "items":[{"id":"1","customer":"ada","number":1.50},{"id":"2","customer":"bob","number":2},
       {"id":"3","number":3}]},
    {"id":"people","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2},
     "clientEncryptionPolicy":{"policyFormatVersion":1,"includedPaths":[{"path":"/ssn",
       "clientEncryptionKeyId":"cek","encryptionType":"Deterministic",
       "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}]},
     "items":[{"id":"1","t":"x","u":7}]}]},
  {"id":"empty"}]}"#;

/// A server with the account, and a backup of it.
struct World {
    server: Server,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("account.json");
        std::fs::write(&file, ACCOUNT).expect("a file");
        let data = folder.path().join("data");
        let server = program::start(&["--data-dir", text(&data), "--init", text(&file)]);
        let world = World {
            server: server.expect("it starts"),
            folder,
        };
        let admin = format!("http://{}/", world.server.admin_address);
        let (code, printed) = program::run(&[
            "backup",
            "create",
            text(&world.backups()),
            "--data-dir",
            text(&data),
            "--admin-endpoint",
            &admin,
        ]);
        assert_eq!(code, Some(0), "{printed}");
        world
    }

    fn backups(&self) -> std::path::PathBuf {
        self.folder.path().join("backups")
    }

    /// Returns the command that restores into a server, with a directory for the restored backup.
    fn command(&self, target: &Server, work: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command
            .args(["restore", text(&self.backups()), "--into"])
            .arg(format!("http://{}", target.address))
            .args(["--work-dir", text(work)])
            .env("ORRERY_KEY", &target.key)
            // Settings of the user's server are none of the server that serves the backup.
            .envs([
                ("ORRERY_CONFIG", "/no/such/orrery.toml"),
                ("ORRERY_STORE", "postgres"),
                ("ORRERY_INIT", "/no/such/definition.json"),
                ("ORRERY_LISTEN", "127.0.0.1:1"),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Restores into a server. The directory for the restored backup is empty again at the end.
    fn restore(&self, target: &Server, arguments: &[&str]) -> Output {
        let work = tempfile::tempdir().expect("a directory");
        let mut command = self.command(target, work.path());
        let output = command.args(arguments).output().expect("it runs");
        assert_nothing_left(work.path(), &output);
        output
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Checks that neither files nor a server are left of a restore in `work`.
#[track_caller]
fn assert_nothing_left(work: &Path, output: &Output) {
    let left = std::fs::read_dir(work).expect("a directory");
    assert_eq!(left.count(), 0, "{output:?}");
    for process in std::fs::read_dir("/proc").expect("processes").flatten() {
        // A process may end meanwhile.
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        assert!(!command.contains(text(work)), "{command}");
    }
}

/// Returns the definition of a server with its items.
fn dump(server: &Server) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["dump", "--items", "--endpoint"])
        .arg(format!("http://{}", server.address))
        .env("ORRERY_KEY", &server.key)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[track_caller]
fn done(output: Output) -> String {
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{printed}");
    printed
}

#[track_caller]
fn refused(output: Output, code: i32, part: &str) {
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(printed.contains(part), "{printed}");
}

fn delete_item(client: &mut Client, container: &str, id: &str, key: &str) {
    let path = format!("{container}/docs/{id}");
    let answer = client.call(&Request::new("DELETE", &path).key(key));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

#[test]
fn a_whole_account_is_the_same_in_another_server() {
    let world = World::new();
    let other = program::start(&["--memory"]).expect("it starts");
    let printed = done(world.restore(&other, &[]));
    assert!(
        printed.contains("shop/orders is now shop/orders: 3 items"),
        "{printed}"
    );
    assert!(printed.contains("4 items copied into"), "{printed}");
    assert_eq!(dump(&other), dump(&world.server));
}

#[test]
fn a_container_comes_back_beside_the_one_that_has_lost_items() {
    let world = World::new();
    let mut client = world.server.client();
    delete_item(&mut client, "/dbs/shop/colls/orders", "1", "ada");
    let of_orders = ["--database", "shop", "--container", "orders"];
    // The container of the same name is not changed.
    let same = world.restore(&world.server, &of_orders);
    refused(same, 2, "the container shop/orders exists");

    let other_name = ["--as-container", "orders-before"];
    let arguments = [&of_orders[..], &other_name].concat();
    done(world.restore(&world.server, &arguments));
    let restored = dump(&world.server);
    // Item 1 with its digits, which the first container has lost.
    assert_eq!(restored.matches("1.50").count(), 1, "{restored}");
    assert_eq!(
        restored.matches("function one()").count(),
        2,
        "each has the procedure: {restored}"
    );

    // A database under another name.
    let database = ["--database", "shop", "--as-database", "shop-before"];
    done(world.restore(&world.server, &database));
    refused(
        world.restore(&world.server, &database),
        2,
        "shop-before/orders exists",
    );
}

#[test]
fn wrong_names_and_keys_are_refused_and_nothing_is_written() {
    let world = World::new();
    let other = program::start(&["--memory"]).expect("it starts");
    let before = dump(&other);
    refused(
        world.restore(&other, &["--database", "shops"]),
        2,
        "there is no database 'shops' to copy; there are: empty, shop",
    );
    // The manifest names the containers, so nothing is restored before this refusal.
    refused(
        world.restore(&other, &["--database", "shop", "--container", "order"]),
        2,
        "there is no container 'order' of the database 'shop' in the backup; there are: orders, \
         people",
    );
    let two = ["--container", "orders", "--container", "people"];
    let two = [&["--database", "shop", "--as-container", "x"][..], &two].concat();
    refused(world.restore(&other, &two), 2, "--as-container names one");
    for name in ["", "a/b"] {
        let named = ["--database", "shop", "--as-database", name];
        refused(world.restore(&other, &named), 2, "is no name of a database");
    }
    refused(world.restore(&other, &["--key", "AAAA"]), 1, "key");
    refused(
        world.restore(&other, &["--backup", "none"]),
        2,
        "has no backup 'none'",
    );
    assert_eq!(dump(&other), before);

    // Options of --into do nothing for a data directory, so they are refused there.
    let data = world.folder.path().join("new");
    for option in [
        &["--key", "AAAA"][..],
        &["--database", "shop"],
        &["--database", "shop", "--container", "orders"],
        &["--work-dir", "/tmp"],
        &["--skip-existing"],
        &["--insecure"],
        &["--ca-file", "/no/such/file"],
    ] {
        let backups = world.backups();
        let restore = ["restore", text(&backups), "--data-dir", text(&data)];
        let (code, printed) = program::run(&[&restore, option].concat());
        assert_eq!(code, Some(2), "{option:?}: {printed}");
    }
    assert!(!data.exists());
}

#[test]
fn items_whose_time_is_over_today_are_copied_as_of_the_moment() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().join("data");
    let server = program::start(&["--data-dir", text(&data)]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"shop"}"#);
    client.create(
        "/dbs/shop/colls",
        r#"{"id":"carts","defaultTtl":2,
            "partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#,
    );
    client.create("/dbs/shop/colls/carts/docs", r#"{"id":"a"}"#);
    let read = || {
        let read = Request::new("GET", "/dbs/shop/colls/carts/docs/a").key("a");
        server.client().call(&read).status
    };
    let backups = folder.path().join("backups");
    let admin = format!("http://{}/", server.admin_address);
    let (code, printed) = program::run(&[
        "backup",
        "create",
        text(&backups),
        "--data-dir",
        text(&data),
        "--admin-endpoint",
        &admin,
    ]);
    assert_eq!(code, Some(0), "{printed}");
    wait_for("the end of the item", read, |status| *status == 404);
    let other = program::start(&["--memory"]).expect("it starts");
    let world = World { server, folder };
    let printed = done(world.restore(&other, &[]));
    assert!(
        printed.contains("shop/carts is now shop/carts: 1 item\n"),
        "{printed}"
    );
}

#[test]
fn containers_that_exist_are_left_as_they_are_if_asked() {
    let world = World::new();
    let mut client = world.server.client();
    delete_item(&mut client, "/dbs/shop/colls/orders", "1", "ada");
    let deleted = client.call(&Request::new("DELETE", "/dbs/shop/colls/people"));
    assert_eq!(deleted.status, 204);
    let printed = done(world.restore(&world.server, &["--skip-existing"]));
    assert!(
        printed.contains("shop/orders exists and stays as it is"),
        "{printed}"
    );
    assert!(
        printed.contains("shop/people is now shop/people: 1 item\n"),
        "{printed}"
    );
    assert!(
        !dump(&world.server).contains("1.50"),
        "orders have not changed"
    );
}

/// Ends a restore by a signal while it writes items.
#[track_caller]
fn check_interruption(signal: &str) {
    let world = World::new();
    let other = program::start(&["--memory"]).expect("it starts");
    let throttled =
        r#"{"operations":["execute_batch"],"status":429,"retryAfterMilliseconds":60000}"#;
    other.manager().ok("POST", "/faults", throttled);
    let work = tempfile::tempdir().expect("a directory");
    let restore = world.command(&other, work.path()).spawn().expect("it runs");
    let mut client = other.client();
    let container = || {
        client
            .call(&Request::new("GET", "/dbs/shop/colls/orders"))
            .status
    };
    wait_for("the container", container, |status| *status == 200);
    let sent = Command::new("kill")
        .args([signal, &restore.id().to_string()])
        .status();
    assert!(sent.expect("kill exists").success());
    let output = restore.wait_with_output().expect("it ends");
    assert_nothing_left(work.path(), &output);
    refused(
        output,
        1,
        "interrupted\nshop/orders in the account is not complete",
    );
}

#[test]
fn a_stop_leaves_nothing_and_names_the_container_that_is_not_complete() {
    check_interruption("-TERM");
}

#[test]
fn the_end_of_the_terminal_leaves_nothing() {
    check_interruption("-HUP");
}

#[test]
fn another_client_encryption_key_of_the_same_name_is_not_mixed_up() {
    let world = World::new();
    let mut client = world.server.client();
    let key = r#"{"id":"cek","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256",
        "wrappedDataEncryptionKey":"AQID","keyWrapMetadata":{"type":"AZURE_KEY_VAULT","name":"n",
        "value":"https://v/k","algorithm":"RSA-OAEP"}}"#;
    client.create("/dbs", r#"{"id":"other"}"#);
    client.create("/dbs/other/clientencryptionkeys", key);
    let into_other = ["--database", "shop", "--as-database", "other"];
    refused(
        world.restore(&world.server, &into_other),
        2,
        "was wrapped anew since",
    );
    // Orders have no encryption policy, and need no key.
    let orders = ["--container", "orders"];
    done(world.restore(&world.server, &[&into_other[..], &orders].concat()));
}
