//! Account keys that change while the server runs, and Entra ID identities.

#![cfg(unix)]

use crate::program::{self, Client, Request, start};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time limit for a log line; a test fails rather than hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server whose log is read while the server runs.
struct LoggedServer {
    process: Child,
    address: String,
    log: Receiver<String>,
}

impl LoggedServer {
    fn start(key_file: &Path) -> LoggedServer {
        let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args([
                "start",
                "--memory",
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "off",
                "--ready-json",
                "--key-file",
            ])
            .arg(key_file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("it says that it is ready");
        let ready = parse(line.as_bytes()).expect("the ready line is JSON");
        let address = ready
            .get("endpoint_http")
            .and_then(Json::as_str)
            .expect("an endpoint");
        let address = address
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
        let (lines, log) = channel();
        std::thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| lines.send(line))
        });
        LoggedServer {
            process,
            address,
            log,
        }
    }

    fn client(&self, key: &str) -> Client {
        Client::connect(&self.address, key).expect("the server listens")
    }

    /// Sends SIGHUP and returns the log line about the keys.
    fn send_sighup(&self) -> String {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-HUP", &id])
                .status()
                .expect("kill exists")
                .success()
        );
        loop {
            let line = self
                .log
                .recv_timeout(TIMEOUT)
                .expect("the log tells of the keys");
            if line.contains("account keys ") {
                return line;
            }
        }
    }
}

impl Drop for LoggedServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn keys(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command
        .arg("keys")
        .args(arguments)
        .arg("--key-file")
        .arg(file)
        .output()
        .expect("the program runs")
}

fn key(file: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(file).expect("a key file");
    let line = text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix(": ")
            .map(str::to_owned)
    });
    line.unwrap_or_else(|| panic!("no {name} in the key file"))
}

fn create_key_file(directory: &Path) -> PathBuf {
    let file = directory.join("account.key");
    assert!(keys(&["create"], &file).status.success());
    file
}

fn status(client: &mut Client, request: &Request) -> u16 {
    client.call(request).status
}

#[test]
fn a_replaced_key_and_the_tokens_made_with_it_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = create_key_file(directory.path());
    let server = LoggedServer::start(&file);
    let (primary, secondary) = (key(&file, "primary"), key(&file, "secondary"));
    let mut by_primary = server.client(&primary);
    let mut by_secondary = server.client(&secondary);
    by_primary.make_posts();
    by_primary.create("/dbs/blog/users", r#"{"id":"ann"}"#);
    let body = r#"{"id":"p","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#;
    by_primary.create("/dbs/blog/users/ann/permissions", body);
    let read = Request::new("GET", "/dbs/blog/users/ann/permissions/p");
    let token = |client: &mut Client| {
        client
            .call(&read)
            .json()
            .get("_token")
            .and_then(Json::as_str)
            .expect("a token")
            .to_owned()
    };
    let (of_primary, of_secondary) = (token(&mut by_primary), token(&mut by_secondary));
    let posts = || Request::new("GET", "/dbs/blog/colls/posts");

    assert!(
        keys(&["regenerate", "--kind", "secondary"], &file)
            .status
            .success()
    );
    assert_eq!(
        status(&mut by_secondary, &posts()),
        200,
        "the server has not read the new key"
    );
    assert!(server.send_sighup().contains("account keys reloaded"));
    assert_eq!(status(&mut by_secondary, &posts()), 401);
    assert_eq!(status(&mut by_primary, &posts().token(&of_secondary)), 401);
    assert_eq!(status(&mut by_primary, &posts()), 200);
    assert_eq!(status(&mut by_primary, &posts().token(&of_primary)), 200);
    assert_eq!(
        status(&mut server.client(&key(&file, "secondary")), &posts()),
        200
    );

    let mut reading = server.client(&key(&file, "primary-read-only"));
    assert_eq!(status(&mut reading, &posts()), 200);
    assert_eq!(
        status(&mut reading, &read),
        403,
        "its response would contain a token with write access"
    );
    assert_eq!(
        status(&mut reading, &Request::new("DELETE", "/dbs/blog")),
        403
    );
}

#[test]
fn a_broken_key_file_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = create_key_file(directory.path());
    let server = LoggedServer::start(&file);
    let mut client = server.client(&key(&file, "primary"));
    std::fs::write(&file, "secondary: nothing\n").expect("it is written");
    let message = server.send_sighup();
    assert!(
        message.contains("account keys not reloaded") && message.contains("is not usable"),
        "{message}"
    );
    assert_eq!(status(&mut client, &Request::new("GET", "/dbs")), 200);

    let refused = keys(&["regenerate", "--kind", "primary"], &file);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not usable"));
    assert_eq!(
        std::fs::read_to_string(&file).expect("it is there"),
        "secondary: nothing\n"
    );
}

/// Returns a token of the test's issuer and the arguments with which a server accepts the token.
fn identity(directory: &Path) -> (String, Vec<String>) {
    let json = parse(include_bytes!(
        "../../../core/gateway/src/auth/test_identity.json"
    ))
    .expect("JSON");
    let file = directory.join("jwks.json");
    std::fs::write(&file, json.get("jwks").expect("a key set").to_text()).expect("it is written");
    let token = json.get("token").and_then(Json::as_str).expect("a token");
    let mut arguments = vec![
        "--memory",
        "--entra",
        "verify",
        "--entra-issuer",
        "https://issuer.example/tenant/",
    ];
    arguments.extend(["--entra-audience", "https://orrery.example", "--entra-keys"]);
    let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
    arguments.push(file.to_str().expect("a path in UTF-8").to_owned());
    (format!("type=aad&ver=1.0&sig={token}"), arguments)
}

#[test]
fn an_identity_with_a_valid_token_may_access_items_but_not_containers() {
    let directory = tempfile::tempdir().expect("a directory");
    let (token, arguments) = identity(directory.path());
    let server = start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        .expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let item = Request::new("POST", "/dbs/blog/colls/posts/docs")
        .key("p")
        .body(r#"{"id":"1","postId":"p"}"#);
    assert_eq!(client.call(&item.token(&token)).status, 201);
    let read = Request::new("GET", "/dbs/blog/colls/posts/docs/1").key("p");
    assert_eq!(client.call(&read.clone().token(&token)).status, 200);
    assert_eq!(
        client
            .call(&Request::new("DELETE", "/dbs/blog/colls/posts").token(&token))
            .code(),
        (403, 5300)
    );
    let forged = format!("{}A", &token[..token.len() - 1]);
    assert_eq!(client.call(&read.token(&forged)).status, 401);
}

#[test]
fn without_the_option_an_identity_is_refused_by_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let (token, _) = identity(directory.path());
    let server = start(&["--memory"]).expect("the server starts");
    let refused = server
        .client()
        .call(&Request::new("GET", "/").token(&token));
    assert_eq!(refused.code(), (401, 5002));
    assert!(refused.text().contains("--entra"));
}

#[test]
fn contradicting_entra_options_are_refused() {
    for (arguments, named) in [
        (&["--memory", "--entra", "verify"][..], "--entra-issuer"),
        (
            &["--memory", "--entra", "accept-any", "--entra-issuer", "i"][..],
            "--entra verify",
        ),
    ] {
        let exit = start(arguments).map(|_| ()).expect_err("refused");
        assert_eq!(exit.code, Some(2));
        assert!(exit.stderr.contains(named), "{}", exit.stderr);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = create_key_file(directory.path());
    let file = file.to_str().expect("a path in UTF-8");
    let arguments = ["--memory", "--entra", "accept-any", "--key-file", file];
    let exit = program::start_at("0.0.0.0:0", &arguments)
        .map(|_| ())
        .expect_err("refused");
    assert!(exit.stderr.contains("127.0.0.1"), "{}", exit.stderr);
}
