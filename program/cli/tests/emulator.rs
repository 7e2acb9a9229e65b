//! `orrery emulator`: the contract of the vendor's emulators, as the programs that wait for them
//! see it.

use crate::program::{self, Client, Request};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Options that let several emulators run on one machine.
const FREE_PORTS: &[&str] = &[
    "--listen",
    "127.0.0.1:0",
    "--explorer-port",
    "0",
    "--health-port",
    "0",
];

/// An emulator for one test; dropping it kills the process.
struct Emulator {
    process: Child,
    /// Standard output up to the line that tells that it is ready.
    printed: String,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let folder = std::env::temp_dir().join(format!("orrery-emulator-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command
        .arg("emulator")
        .args(FREE_PORTS)
        .args(arguments)
        .env(
            "ORRERY_EMULATOR_CERTIFICATE_FILE",
            folder.join("emulator.pem"),
        )
        .env("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "False")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts an emulator and waits until it prints a text.
fn start(arguments: &[&str], variables: &[(&str, &str)], last: &str) -> Emulator {
    let mut process = command(arguments, variables).spawn().expect("it starts");
    let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut printed = String::new();
    while !printed.contains(last) {
        let read = output.read_line(&mut printed).expect("text");
        assert_ne!(read, 0, "it ended: {printed}");
    }
    Emulator { process, printed }
}

fn start_json(arguments: &[&str], variables: &[(&str, &str)]) -> (Emulator, Json) {
    let arguments = [arguments, &["--ready-json"]].concat();
    let emulator = start(&arguments, variables, "\n");
    let json = parse(emulator.printed.as_bytes()).expect("JSON");
    (emulator, json)
}

/// Runs an emulator that refuses to start; returns what it prints on standard error.
fn refusal(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = command(arguments, variables).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "it must refuse");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// Returns host and port of a URL in the ready line.
fn address(json: &Json, member: &str) -> String {
    let url = json.get(member).and_then(Json::as_str).expect(member);
    let rest = url.split_once("://").expect("a URL").1;
    rest.split('/').next().expect("a host").to_owned()
}

/// Gets a path without credentials; returns head and body.
fn get(address: &str, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a socket");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn the_lines_that_modules_wait_for_are_printed() {
    let emulator = start(&[], &[], "Started\r\n");
    let printed = &emulator.printed;
    assert!(printed.ends_with("\nStarted\r\n"), "{printed}");
    assert!(
        printed.contains("Now listening on: https://127.0.0.1:"),
        "{printed}"
    );
    assert!(
        printed.contains("System is now fully ready to accept requests"),
        "{printed}"
    );
    assert!(
        printed.contains("well-known key, which is public"),
        "{printed}"
    );
    let emulator = start(&["--protocol", "http"], &[], "Started\r\n");
    let printed = &emulator.printed;
    assert!(
        printed.contains("Now listening on: http://127.0.0.1:"),
        "{printed}"
    );
    assert!(!printed.contains("https://"), "{printed}");
}

#[test]
fn health_certificate_and_explorer_need_no_signature() {
    let (_emulator, ready) = start_json(&[], &[]);
    let (data, health) = (
        address(&ready, "endpoint"),
        address(&ready, "health_endpoint"),
    );
    for address in [&data, &health] {
        for (path, part) in [
            ("/ready", "\"ready\": true"),
            ("/alive", "\"alive\": true"),
            ("/status", "\"status\": \"ready\""),
        ] {
            let answer = get(address, path, "emulator.internal");
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            assert!(answer.contains(part), "{path}: {answer}");
        }
    }
    let certificate = get(&data, "/_explorer/emulator.pem", "localhost");
    assert!(
        certificate.contains("\r\n\r\n-----BEGIN CERTIFICATE-----\n"),
        "{certificate}"
    );
    let page = get(&data, "/_explorer/index.html", "localhost");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

#[test]
fn the_explorer_opens_without_sign_in_but_not_for_other_hosts() {
    let (_emulator, ready) = start_json(&[], &[]);
    let explorer = address(&ready, "admin_endpoint");
    let session = get(&explorer, "/api/session", "localhost");
    assert!(session.starts_with("HTTP/1.1 200"), "{session}");
    assert!(session.contains("\"csrf\""), "{session}");
    let foreign = get(&explorer, "/api/session", "attacker.example");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
    let key = [(
        "AZURE_COSMOS_EMULATOR_KEY",
        "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=",
    )];
    let (_emulator, ready) = start_json(&[], &key);
    let session = get(
        &address(&ready, "admin_endpoint"),
        "/api/session",
        "localhost",
    );
    assert!(session.starts_with("HTTP/1.1 401"), "{session}");
}

#[test]
fn the_public_key_is_of_use_to_names_of_the_server_only() {
    let names = [
        "--gateway-endpoint",
        "https://cosmos.corp.example:8081",
        "--ip-address-override",
        "db.corp.example",
        "--allow-host",
        "more.example",
    ];
    let (_emulator, ready) = start_json(&names, &[]);
    let data = address(&ready, "endpoint_http");
    // A request that is answered is asked for its signature.
    for host in [
        "cosmos",
        "host.docker.internal:8081",
        "cosmos.corp.example:8081",
        "db.corp.example",
        "more.example",
    ] {
        let answer = get(&data, "/dbs", host);
        assert!(answer.starts_with("HTTP/1.1 401"), "{host}: {answer}");
    }
    let foreign = get(&data, "/dbs", "evil.example");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
    assert!(foreign.contains("--allow-host evil.example"), "{foreign}");
    // A probe of health needs no name, since its answer says nothing.
    let probe = get(&data, "/ready", "evil.example");
    assert!(probe.starts_with("HTTP/1.1 200"), "{probe}");

    let key = [(
        "AZURE_COSMOS_EMULATOR_KEY",
        "c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=",
    )];
    let (_emulator, ready) = start_json(&[], &key);
    let answer = get(&address(&ready, "endpoint_http"), "/dbs", "evil.example");
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[test]
fn every_container_has_all_versions_and_deletes() {
    let status = |arguments: &[&str], variables: &[(&str, &str)]| {
        let (_emulator, ready) = start_json(arguments, variables);
        let key = ready.get("key").and_then(Json::as_str).expect("a key");
        let mut client = Client::connect(&address(&ready, "endpoint"), key).expect("it listens");
        client.create("/dbs", r#"{"id":"d"}"#);
        client.create(
            "/dbs/d/colls",
            r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
        );
        let feed = Request::new("GET", "/dbs/d/colls/c/docs")
            .header("A-IM", "Full-Fidelity Feed")
            .header("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15")
            .header("If-None-Match", "*");
        client.call(&feed).status
    };
    let option = "--all-versions-and-deletes";
    let variable = "ORRERY_ALL_VERSIONS_AND_DELETES";
    assert_eq!(status(&[], &[]), 304);
    assert_eq!(status(&[option, "30m"], &[]), 304);
    assert_eq!(status(&[option, "off"], &[]), 400);
    assert_eq!(status(&[], &[(variable, "off")]), 400);
    let refused = refusal(&[option, "soon"], &[]);
    assert!(refused.contains("30m, 12h or 7d"), "{refused}");
}

#[test]
fn settings_of_the_vendor_change_the_account() {
    let variables = [
        (
            "AZURE_COSMOS_EMULATOR_ARGS",
            "/partitioncount=50 /Consistency=Strong /disableratelimiting",
        ),
        ("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "None"),
        ("GATEWAY_PUBLIC_ENDPOINT", "cosmos.test:9999"),
        ("ENABLE_TELEMETRY", "false"),
    ];
    let (_emulator, ready) = start_json(&["--enable-explorer", "false"], &variables);
    assert!(ready.get("admin_endpoint").is_none());
    let key = ready.get("key").and_then(Json::as_str).expect("a key");
    let mut client = Client::connect(&address(&ready, "endpoint"), key).expect("it listens");
    let account = client.call(&Request::new("GET", "/")).text();
    assert!(account.contains("\"id\":\"cosmosdev\""), "{account}");
    assert!(
        account.contains("\"defaultConsistencyLevel\":\"Strong\""),
        "{account}"
    );
    assert!(account.contains("http://cosmos.test:9999/"), "{account}");
}

#[test]
fn a_setting_that_cannot_be_honoured_is_refused_by_name() {
    for (arguments, variables, part) in [
        (
            &[][..],
            &[("ENABLE_CONSOLE_EXPORTER", "true")][..],
            "ENABLE_CONSOLE_EXPORTER",
        ),
        (
            &[],
            &[("AZURE_COSMOS_EMULATOR_ENABLE_MONGODB_ENDPOINT", "4.0")],
            "MONGODB_ENDPOINT",
        ),
        (&[], &[("PORT", "eighty")], "the variable PORT is 'eighty'"),
        (&[], &[("PROTOCOL", "gopher")], "expected http, https"),
        (&["--consistency", "None at all"], &[], "--consistency"),
        (&["/nosuchswitch"], &[], "/nosuchswitch"),
        (&["/key=c2VjcmV0"], &[], "AZURE_COSMOS_EMULATOR_KEY"),
        (
            &["--args", "/key=c2VjcmV0"],
            &[],
            "AZURE_COSMOS_EMULATOR_KEY",
        ),
        (
            &[],
            &[("DATA_PATH", "/x")],
            "data persistence is switched off",
        ),
    ] {
        let message = refusal(arguments, variables);
        assert!(message.contains(part), "{part}: {message}");
        assert!(
            !message.contains("c2VjcmV0"),
            "a secret is shown: {message}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_whose_name_is_no_text_does_not_leave_the_public_key() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let mut command = command(&[], &[]);
    command.env("KEY_FILE", OsStr::from_bytes(b"/run/secrets/k\xff"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        message.contains("the variable KEY_FILE is not UTF-8"),
        "{message}"
    );
}

/// Returns the rows of a query on a container of an emulator, as text.
fn rows(json: &Json, container: &str, text: &str) -> String {
    let key = json.get("key").and_then(Json::as_str).expect("a key");
    let mut client = Client::connect(&address(json, "endpoint_http"), key).expect("it listens");
    let path = format!("{container}/docs");
    let answer = client.call(&Request::query(&path, text));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[test]
fn the_first_data_comes_from_scripts_and_definitions_and_is_not_written_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    write(
        "01-create.csh",
        "mkdb MovieDB\nmkcon Movies /genre --database=MovieDB\ncd MovieDB\n",
    );
    write(
        "02-load.csh",
        "mkitem -container Movies '{\"id\":\"m1\",\"genre\":\"scifi\"}'\n\
         mkitem -container Movies '{\"id\":\"m2\",\"genre\":\"drama\"}'\n\
         query \"SELECT VALUE COUNT(1) FROM c\" --container=Movies\n",
    );
    write("notes.txt", "not read");
    let shop = r#"{"databases":[{"id":"shop","containers":[{"id":"orders",
        "partitionKey":{"paths":["/id"]},"items":[{"id":"1"}]}]}]}"#;
    write("shop.json", shop);
    let data = tempfile::tempdir().expect("a folder");
    let variables = [
        ("ENABLE_INIT_DATA", "true"),
        ("INIT_PATH", folder.path().to_str().expect("UTF-8")),
        ("AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE", "True"),
        ("DATA_PATH", data.path().to_str().expect("UTF-8")),
    ];
    let count = "SELECT VALUE COUNT(1) FROM c";
    {
        let (_emulator, json) = start_json(&[], &variables);
        let movies = rows(&json, "/dbs/MovieDB/colls/Movies", count);
        assert!(movies.contains("\"Documents\":[2]"), "{movies}");
        let orders = rows(&json, "/dbs/shop/colls/orders", count);
        assert!(orders.contains("\"Documents\":[1]"), "{orders}");
    }

    // The scripts would create more now, and the data directory has containers.
    write("03-more.csh", "mkcon Later /pk");
    let (_emulator, json) = start_json(&[], &variables);
    let key = json.get("key").and_then(Json::as_str).expect("a key");
    let mut client = Client::connect(&address(&json, "endpoint_http"), key).expect("it listens");
    let later = client.call(&Request::new("GET", "/dbs/MovieDB/colls/Later"));
    assert_eq!(later.status, 404, "{}", later.text());
}

#[test]
fn a_script_that_is_not_understood_ends_the_start_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "mkdb a\n\nfor $x in [1,2] { mkcon $x /pk }\n";
    std::fs::write(folder.path().join("01.csh"), script).expect("written");
    let path = folder.path().to_str().expect("UTF-8");
    let message = refusal(&["--enable-init-data", "--init-path", path], &[]);
    assert!(message.contains("01.csh: line 3: "), "{message}");
    let missing = folder.path().join("none");
    let variables = [("INIT_PATH", missing.to_str().expect("UTF-8"))];
    let message = refusal(&["--enable-init-data=true"], &variables);
    assert!(
        message.contains("there is no folder") && message.contains("INIT_PATH"),
        "{message}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn console_and_health_listen_where_clients_are_listened_to() {
    // Every address of 127.0.0.0/8 is this machine's.
    let (_emulator, ready) = start_json(&[], &[]);
    for member in ["admin_endpoint", "health_endpoint"] {
        let here = address(&ready, member);
        let port = here.rsplit_once(':').expect("a port").1;
        assert!(TcpStream::connect(&here).is_ok(), "{here}");
        let elsewhere = TcpStream::connect(format!("127.0.0.2:{port}"));
        assert!(
            elsewhere.is_err(),
            "{member} listens on more than 127.0.0.1"
        );
    }
}

#[test]
fn a_pfx_file_is_the_certificate_of_the_emulator() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (data, pfx) = (path("data"), path("own.pfx"));
    drop(program::start(&["--data-dir", &data]).expect("a server with a certificate"));
    let exported = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args([
            "cert",
            "export",
            "--format",
            "pfx",
            "--data-dir",
            &data,
            "--output",
            &pfx,
        ])
        .env("ORRERY_CERT_PASSWORD", "a secret")
        .status()
        .expect("it runs");
    assert!(exported.success());
    let variables = [("CERT_PATH", pfx.as_str()), ("CERT_SECRET", "a secret")];
    let (_emulator, ready) = start_json(&[], &variables);
    let shown = get(
        &address(&ready, "endpoint"),
        "/_explorer/emulator.pem",
        "localhost",
    );
    let body = shown.split_once("\r\n\r\n").expect("a body").1;
    let own = std::fs::read_to_string(folder.path().join("data/tls/cert.pem")).expect("a file");
    assert_eq!(body.replace('\r', ""), own.replace('\r', ""));
}
