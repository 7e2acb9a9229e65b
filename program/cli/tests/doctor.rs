//! `orrery doctor`: each check with the fault that the check finds.

use crate::program;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

/// Variables of the machine that runs the test, which would change a report.
const FOREIGN: [&str; 14] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "COSMOS_ENDPOINT",
    "ACCOUNT_HOST",
    "ORRERY_ENDPOINT",
    "ORRERY_KEY",
    "AZURE_COSMOS_CONNECTION_STRING",
    "AZURE_COSMOS_ALLOW_INVALID_CERT",
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args(["doctor", "--json"]).args(arguments);
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
}

fn report(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn doctor(arguments: &[&str]) -> Value {
    report(&command(arguments).output().expect("it runs"))
}

/// Returns state, facts and remedy of the first line of a check.
fn line(report: &Value, check: &str) -> (String, String) {
    let checks = report["checks"].as_array().expect("a list");
    let found = checks.iter().find(|line| line["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no {check} in {report:#}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (
        text("state"),
        format!("{} -> {}", text("found"), text("remedy")),
    )
}

#[track_caller]
fn assert_line(report: &Value, check: &str, state: &str, part: &str) {
    let (found, text) = line(report, check);
    assert_eq!(found, state, "{check}: {text}");
    assert!(text.contains(part), "{check}: {text}");
}

fn endpoint(address: &str) -> Vec<String> {
    vec!["--endpoint".to_owned(), format!("http://{address}/")]
}

fn at(address: &str, more: &[&str]) -> Value {
    let mut arguments = endpoint(address);
    arguments.extend(more.iter().map(|text| (*text).to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    doctor(&arguments)
}

/// Answers every connection with `answer`, until the test ends.
fn answering(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            // A connection that only looks at the port sends nothing.
            if matches!(stream.read(&mut request), Ok(read) if read > 0) {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    address
}

fn http(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_healthy_server_has_no_problem() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    let server = program::start_on(&data).expect("it starts");
    let data = data.to_str().expect("UTF-8");
    let key = home.path().join("key");
    std::fs::write(&key, &server.key).expect("a file");
    let arguments = [
        "--data-dir",
        data,
        "--key-file",
        key.to_str().expect("UTF-8"),
    ];
    let address = format!("http://{}/", server.address);
    let mut command = command(&arguments);
    let output = command
        .args(["--endpoint", &address])
        .output()
        .expect("it runs");
    let report = report(&output);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["problems"], 0);
    assert_line(&report, "endpoint", "ok", "orrery/");
    assert_line(&report, "certificate", "warning", "orrery cert install");
    assert_line(&report, "clock", "ok", "same time");
    assert_line(&report, "key", "ok", "accepts");
    assert_line(&report, "data", "ok", "mode 0700");
    assert_line(&report, "data format", "ok", "version");
    let holder = format!("process {}", server.process_id());
    assert_line(&report, "data lock", "ok", &holder);
    assert_line(&report, "data sync", &line(&report, "data sync").0, "ms");
    assert!(!report.to_string().contains(&server.key));
}

#[test]
fn a_port_of_another_program_is_a_problem() {
    let web = answering(http("Server: nginx\r\n", "hello"));
    let report = at(&web.to_string(), &[]);
    assert_line(&report, "port", "problem", "another HTTP server (nginx)");
    let mute = answering("220 mail\r\n".to_owned());
    let report = at(&mute.to_string(), &[]);
    assert_line(&report, "port", "problem", "without HTTP");
    assert_line(&report, "key", "skipped", "");
}

#[test]
fn another_emulator_is_told_apart() {
    let headers = "x-ms-activity-id: 1\r\n";
    let other = answering(http(headers, "{}"));
    let report = at(&other.to_string(), &[]);
    assert_line(&report, "endpoint", "ok", "another emulator");
}

#[test]
fn a_free_port_is_fine_and_a_named_endpoint_must_answer() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    let report = at(&address, &[]);
    assert_line(&report, "port", "ok", "free");
    assert_line(&report, "endpoint", "problem", "orrery start");
    let mut unnamed = command(&[]);
    unnamed.env("ORRERY_ENDPOINT", &address);
    let report = self::report(&unnamed.output().expect("it runs"));
    assert_line(&report, "endpoint", "warning", "no server listens");
}

#[test]
fn a_wrong_key_is_a_problem_and_is_not_printed() {
    let server = program::start(&["--memory"]).expect("it starts");
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("key");
    let short = "c2VjcmV0LXNlY3JldA==";
    std::fs::write(&file, short).expect("a file");
    let file_name = file.to_str().expect("UTF-8");
    let report = at(&server.address, &["--key-file", file_name]);
    assert_line(&report, "key", "problem", "401");
    assert_line(&report, "key", "problem", "has 13 bytes");
    assert!(!report.to_string().contains("c2VjcmV0"), "{report}");
    std::fs::write(&file, "no base64!").expect("a file");
    let report = at(&server.address, &["--key-file", file_name]);
    assert_line(&report, "key", "problem", "base64");
    assert!(!report.to_string().contains("no base64!"), "{report}");
}

#[test]
fn a_public_key_on_an_open_port_is_a_warning() {
    let emulator = "x-ms-activity-id: 1\r\n";
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 4096];
            if matches!(stream.read(&mut request), Ok(read) if read > 0) {
                let _ = stream.write_all(http(emulator, "{}").as_bytes());
            }
        }
    });
    let report = at(&format!("127.0.0.1:{port}"), &[]);
    let warned = report["checks"]
        .as_array()
        .expect("a list")
        .iter()
        .any(|line| {
            let text = line["found"].as_str().unwrap_or_default();
            line["check"] == "key" && line["state"] == "warning" && text.contains("public key")
        });
    assert!(warned, "{report:#}");
}

#[test]
fn a_wrong_clock_is_a_problem() {
    let headers = "Server: orrery/0\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\n";
    let old = answering(http(headers, "{}"));
    let report = at(&old.to_string(), &[]);
    assert_line(&report, "clock", "problem", "NTP");
}

/// Starts a TLS server whose handshake shows this certificate.
fn shows(params: CertificateParams) -> SocketAddr {
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let der = CertificateDer::from(certificate.der().to_vec());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .expect("a configuration");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let connection = rustls::ServerConnection::new(config.clone()).expect("a connection");
            let mut tls = rustls::StreamOwned::new(connection, &mut stream);
            let mut request = [0; 4096];
            if matches!(tls.read(&mut request), Ok(read) if read > 0) {
                let answer = http("x-ms-activity-id: 1\r\n", "{}");
                let _ = tls.write_all(answer.as_bytes());
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        }
    });
    address
}

#[test]
fn certificates_that_clients_refuse_are_problems() {
    let named = |name: &str| CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let mut expired = named("localhost");
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    let mut future = named("localhost");
    future.not_before = date_time_ymd(2090, 1, 1);
    future.not_after = date_time_ymd(2091, 1, 1);
    for (params, part) in [
        (expired, "it ended at 2021"),
        (future, "it begins at 2090"),
        (
            named("localhost"),
            "orrery cert install --endpoint https://localhost",
        ),
    ] {
        let port = shows(params).port();
        let report = doctor(&["--endpoint", &format!("https://localhost:{port}/")]);
        assert_line(&report, "certificate", "problem", part);
        let any = doctor(&[
            "--insecure",
            "--endpoint",
            &format!("https://localhost:{port}/"),
        ]);
        assert_line(&any, "certificate", "warning", part);
    }
}

#[test]
fn a_certificate_is_judged_by_the_file_of_roots() {
    let home = tempfile::tempdir().expect("a directory");
    let data = home.path().join("data");
    // Other machines can reach this server, so that it needs a key of its own.
    let key = home.path().join("key");
    std::fs::write(&key, "b3duIGtleSBvZiB0aGlzIHRlc3QsIDMyIGJ5dGVzLi4=").expect("it is written");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (data_path, key_path) = (path(&data), path(&key));
    let arguments = ["--data-dir", &data_path, "--key-file", &key_path];
    let server = program::start_at("0.0.0.0:0", &arguments).expect("it starts");
    let roots = data.join("tls/cert.pem");
    let roots = roots.to_str().expect("UTF-8");
    let port = server.address.rsplit(':').next().expect("a port");
    let good = format!("https://localhost:{port}/");
    let report = doctor(&["--endpoint", &good, "--ca-file", roots]);
    assert_line(&report, "certificate", "ok", "trusted");
    // The certificate has 127.0.0.1 and no other address of the loopback.
    let other = format!("https://127.0.0.2:{port}/");
    let report = doctor(&["--endpoint", &other, "--ca-file", roots]);
    assert_line(&report, "certificate", "problem", "--cert-host");
}

#[test]
fn faults_of_a_data_directory_are_problems() {
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name).to_str().expect("UTF-8").to_owned();
    let data = |name: &str| doctor(&["--data-dir", &path(name)]);
    assert_line(&data("new"), "data", "ok", "a server creates it");
    std::fs::write(path("file"), "").expect("a file");
    assert_line(&data("file"), "data", "problem", "not a directory");

    std::fs::create_dir(path("foreign")).expect("a directory");
    std::fs::write(path("foreign/photo.jpg"), "").expect("a file");
    let report = data("foreign");
    assert_line(&report, "data files", "problem", "photo.jpg");
    std::fs::set_permissions(path("foreign"), PermissionsExt::from_mode(0o755)).expect("a mode");
    assert_line(&data("foreign"), "data", "warning", "chmod 700");

    std::fs::create_dir_all(path("newer/store")).expect("a directory");
    std::fs::write(path("newer/store/ORRERY"), "x\nformat: 999\nstage: ready\n").expect("a file");
    assert_line(&data("newer"), "data format", "problem", "version 999");
    let lost = path("lost");
    std::fs::create_dir(&lost).expect("a directory");
    std::fs::write(Path::new(&lost).join("HOLDS-DATA"), "").expect("a file");
    assert_line(&data("lost"), "data format", "problem", "backup");
}

#[test]
fn a_directory_without_the_right_to_write_is_a_problem() {
    use std::os::unix::process::CommandExt;
    let home = tempfile::tempdir().expect("a directory");
    let open = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), open).expect("a mode");
    let data = home.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o555)).expect("a mode");
    let mut command = command(&["--data-dir", data.to_str().expect("UTF-8")]);
    // The rights of files do not bind root, so the check runs as a user without rights.
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_root {
        command.uid(65534);
    }
    let output = command.output().expect("it runs");
    let report = report(&output);
    assert_line(&report, "data", "problem", "chown");
    assert_line(&report, "data sync", "problem", "cannot be written");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn too_few_open_files_are_a_problem() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 100; exec \"$0\" doctor --json"]);
    let output = shell
        .arg(env!("CARGO_BIN_EXE_orrery"))
        .output()
        .expect("it runs");
    assert_line(&report(&output), "open files", "problem", "LimitNOFILE");
}

#[test]
fn variables_that_redirect_clients_are_named_without_their_values() {
    let mut command = command(&[]);
    command
        .env("HTTPS_PROXY", "http://user:geheim@proxy:3128")
        .env("AZURE_COSMOS_ALLOW_INVALID_CERT", "true")
        .env("COSMOS_ENDPOINT", "http://127.0.0.1:9/")
        .env("COSMOS_KEY", "Z2VoZWltLWdlaGVpbQ==")
        .env("AZURE_COSMOS_EMULATOR_PARTITION_COUNT", "3");
    let report = report(&command.output().expect("it runs"));
    let text = report.to_string();
    for part in [
        "NO_PROXY=localhost",
        "COSMOS_KEY set",
        "AZURE_COSMOS_ALLOW_INVALID_CERT is set",
        "AZURE_COSMOS_EMULATOR_PARTITION_COUNT set",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("geheim") && !text.contains("Z2Vo"), "{text}");
    command.env("NO_PROXY", "localhost");
    let report = self::report(&command.output().expect("it runs"));
    assert!(report.to_string().contains("NO_PROXY has this machine"));
}

#[test]
fn the_report_is_aligned_text_without_the_option() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    let output = command
        .args(["doctor", "--endpoint", "ftp://x/"])
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("problem  account "), "{text}");
    assert!(
        text.contains("\n          ") && text.contains("-> correct the option"),
        "{text}"
    );
}
