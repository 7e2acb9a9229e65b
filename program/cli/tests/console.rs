//! The console without a browser: sign-in, sessions, and requests that must not pass.
//!
//! The pages are tested in a browser by `conformance/pages/console`.

use crate::fleet::Fleet;
use crate::program::{Answer, Request, Server, start};
use orrery_model::Json;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Requests of a browser: each on a connection of its own.
struct Browser {
    address: String,
    /// Path of the console on the port.
    base: &'static str,
    host: String,
    cookie: String,
    token: String,
}

impl Browser {
    /// Opens the console on the management port.
    fn new(server: &Server) -> Self {
        Browser {
            address: server.admin_address.clone(),
            base: "/",
            host: server.admin_address.clone(),
            cookie: String::new(),
            token: String::new(),
        }
    }

    /// Opens the console on the port for clients.
    fn on_client_port(server: &Server) -> Self {
        Browser {
            address: server.address.clone(),
            base: "/_explorer/",
            host: server.address.clone(),
            cookie: String::new(),
            token: String::new(),
        }
    }

    /// Sends a request for a path below the console's, with the cookie, the token and `headers`.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut head = format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
            self.base,
            self.host,
            body.len()
        );
        let own = [("cookie", &*self.cookie), ("x-orrery-csrf", &*self.token)];
        for (name, value) in own.iter().chain(headers) {
            if !value.is_empty() {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        let limit = Some(Duration::from_secs(30));
        stream.set_read_timeout(limit).expect("a socket");
        let mut stream = BufReader::new(stream);
        let request = format!("{head}\r\n{body}");
        let sent = stream.get_mut().write_all(request.as_bytes());
        sent.expect("the request is sent");
        Answer::read(&mut stream).expect("a response")
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "")
    }

    /// Keeps the cookie of an answer.
    fn keep_cookie(&mut self, answer: &Answer) {
        let cookie = answer.header("set-cookie").expect("a cookie");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(
            cookie.contains(&format!("; Path={};", self.base)),
            "{cookie}"
        );
        let (cookie, _) = cookie.split_once(';').expect("attributes");
        self.cookie = cookie.to_owned();
    }

    /// Signs in with the admin key.
    fn signed_in(mut self, server: &Server) -> Self {
        let body = format!(r#"{{"key":"{}"}}"#, server.admin_key);
        let answer = self.send("POST", "api/session", &[], &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.keep_cookie(&answer);
        let token = answer
            .json()
            .get("csrf")
            .and_then(Json::as_str)
            .map(str::to_owned);
        self.token = token.expect("a token");
        self
    }
}

fn code(answer: &Answer) -> (u16, String) {
    let json = answer.json();
    let code = json.get("code").and_then(Json::as_str).unwrap_or_default();
    (answer.status, code.to_owned())
}

/// Requests that read data or change something.
const DOORS: [(&str, &str, &str); 5] = [
    ("GET", "api/data/dbs", ""),
    ("POST", "api/data/dbs", r#"{"id":"intruder"}"#),
    ("GET", "api/manage/status", ""),
    ("POST", "api/manage/reset", ""),
    ("DELETE", "api/session", ""),
];

#[test]
fn a_browser_without_a_session_gets_pages_and_no_data() {
    let server = start(&["--memory"]).expect("it starts");
    for browser in [Browser::new(&server), Browser::on_client_port(&server)] {
        let page = browser.get("index.html");
        assert_eq!(page.status, 200);
        assert!(!page.text().contains(&server.admin_key));
        assert_eq!(
            code(&browser.get("api/session")),
            (401, "SignInRequired".into())
        );
        for (method, path, body) in DOORS {
            let answer = browser.send(method, path, &[], body);
            assert_eq!(code(&answer), (401, "SignInRequired".into()), "{path}");
        }
        let keyed = browser.send(
            "GET",
            "api/manage/status",
            &[("authorization", &format!("Bearer {}", server.admin_key))],
            "",
        );
        assert_eq!(
            keyed.status, 401,
            "the keys of programs open no door of browsers"
        );
    }
    assert!(
        !server
            .manager()
            .get("/status")
            .text()
            .contains(r#""databases":1"#)
    );
}

#[test]
fn a_browser_that_signed_in_uses_both_interfaces() {
    let server = start(&["--memory"]).expect("it starts");
    for browser in [Browser::new(&server), Browser::on_client_port(&server)] {
        let browser = browser.signed_in(&server);
        let id = format!("d{}", browser.base.len());
        let body = format!(r#"{{"id":"{id}"}}"#);
        let created = browser.send("POST", "api/data/dbs", &[], &body);
        assert_eq!(created.status, 201, "{}", created.text());
        assert!(created.header("x-ms-request-charge").is_some());
        let read = browser.get(&format!("api/data/dbs/{id}"));
        assert_eq!(
            (read.status, read.header("cache-control")),
            (200, Some("no-store"))
        );
        let status = browser.get("api/manage/status");
        assert_eq!(status.status, 200, "{}", status.text());
        let session = browser.get("api/session").json();
        assert_eq!(
            session.get("csrf").and_then(Json::as_str),
            Some(&*browser.token)
        );
        assert_eq!(browser.send("DELETE", "api/session", &[], "").status, 204);
        assert_eq!(browser.get("api/data/dbs").status, 401);
    }
}

#[test]
fn requests_of_the_console_are_marked_in_the_log_of_requests() {
    let server = start(&["--memory"]).expect("it starts");
    let browser = Browser::new(&server).signed_in(&server);
    assert_eq!(browser.get("api/data/dbs/of-browser").status, 404);
    let read = Request::new("GET", "/dbs/of-client");
    assert_eq!(server.client().call(&read).status, 404);
    for (database, is_from_console) in [("of-browser", true), ("of-client", false)] {
        let found = browser
            .get(&format!("api/manage/requests?db={database}"))
            .json();
        let requests = found.get("requests").and_then(Json::as_array);
        let request = &requests.expect("a list")[0];
        let mark = request.get("fromConsole").and_then(Json::as_bool);
        assert_eq!(mark, Some(is_from_console), "{database}");
    }
}

#[test]
fn a_session_without_its_token_opens_nothing() {
    let server = start(&["--memory"]).expect("it starts");
    let mut browser = Browser::new(&server).signed_in(&server);
    let other = Browser::new(&server).signed_in(&server);
    for token in [String::new(), "0".repeat(64), other.token.clone()] {
        browser.token = token;
        for (method, path, body) in DOORS {
            let answer = browser.send(method, path, &[], body);
            assert_eq!(code(&answer), (403, "WrongToken".into()), "{path}");
        }
    }
    browser.token = other.token.clone();
    let last = other.cookie.chars().last().expect("a cookie");
    let changed = if last == '0' { "1" } else { "0" };
    browser.cookie = format!("{}{changed}", &other.cookie[..other.cookie.len() - 1]);
    assert_eq!(browser.get("api/data/dbs").status, 401);
}

#[test]
fn pages_of_other_origins_and_other_hosts_are_refused_with_the_cookie_and_the_token() {
    let server = start(&["--memory"]).expect("it starts");
    let mut browser = Browser::new(&server).signed_in(&server);
    let foreign = [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    for (method, path, body) in DOORS {
        for header in foreign {
            let answer = browser.send(method, path, &[header], body);
            assert_eq!(
                code(&answer),
                (403, "WrongOrigin".into()),
                "{header:?} {path}"
            );
        }
    }
    let own = format!("http://{}", server.admin_address);
    let headers = [("origin", &*own), ("sec-fetch-site", "same-origin")];
    assert_eq!(
        browser.send("GET", "api/data/dbs", &headers, "").status,
        200
    );

    browser.host = "evil.example".into();
    for path in [
        "",
        "index.html",
        "api/session",
        "api/data/dbs",
        "api/manage/status",
    ] {
        assert_eq!(
            code(&browser.get(path)),
            (403, "WrongHost".into()),
            "{path}"
        );
    }
    let mut on_client_port = Browser::on_client_port(&server);
    on_client_port.host = "evil.example:8081".into();
    assert_eq!(code(&on_client_port.get("")), (403, "WrongHost".into()));
}

#[test]
fn a_host_name_of_the_operator_is_accepted() {
    // The second option is the earlier name of the first.
    for option in ["--allow-host", "--console-host"] {
        let server = start(&["--memory", option, "db.example"]).expect("it starts");
        let consoles = [Browser::new(&server), Browser::on_client_port(&server)];
        for mut browser in consoles.map(|browser| browser.signed_in(&server)) {
            browser.host = "db.example:80".into();
            for path in ["", "api/manage/status", "api/data/dbs"] {
                assert_eq!(browser.get(path).status, 200, "{option}: {path}");
            }
        }
    }
}

#[test]
fn the_address_of_the_start_signs_in_once_and_is_then_without_its_token() {
    let server = start(&["--memory"]).expect("it starts");
    let mut browser = Browser::new(&server);
    let (_, query) = server.console.split_once("/?").expect("a query");
    let address = format!("?{query}");
    let forged = browser.get("?token=0123");
    assert_eq!(forged.header("location"), Some("/#/sign-in?address=used"));
    assert_eq!(forged.header("set-cookie"), None);
    let first = browser.get(&address);
    assert_eq!((first.status, first.header("location")), (303, Some("/")));
    browser.keep_cookie(&first);
    assert_eq!(browser.get("api/session").status, 200);
    let second = Browser::new(&server).get(&address);
    assert_eq!(second.header("set-cookie"), None);
}

#[test]
fn wrong_keys_and_bodies_without_a_key_are_refused() {
    let server = start(&["--memory"]).expect("it starts");
    let browser = Browser::new(&server);
    for body in ["", "[]", "{}", r#"{"key":1}"#, "{"] {
        let answer = browser.send("POST", "api/session", &[], body);
        assert_eq!(code(&answer), (400, "BadRequest".into()), "{body}");
    }
    let wrong = r#"{"key":"0123456789abcdef"}"#;
    let refused = browser.send("POST", "api/session", &[], wrong);
    assert_eq!(code(&refused), (401, "WrongKey".into()));
    assert_eq!(refused.header("set-cookie"), None);
}

#[test]
fn the_page_allows_scripts_of_the_server_only_and_no_frames() {
    let server = start(&["--memory"]).expect("it starts");
    let browser = Browser::new(&server);
    let page = browser.get("");
    let policy = page.header("content-security-policy").expect("a policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let (_, nonce) = policy.split_once("'nonce-").expect("a nonce");
    let (nonce, _) = nonce.split_once('\'').expect("a nonce");
    assert!(page.text().contains(&format!("content=\"{nonce}\"")));
    let again = browser.get("");
    assert!(!again.text().contains(nonce), "a nonce serves one page");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    assert_eq!(browser.send("POST", "index.html", &[], "").status, 405);
}

#[test]
fn a_read_only_console_reads_everything_and_changes_nothing() {
    let server = start(&["--memory", "--console", "read-only"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let browser = Browser::new(&server).signed_in(&server);
    assert_eq!(
        browser
            .get("api/session")
            .json()
            .get("readOnly")
            .and_then(Json::as_bool),
        Some(true)
    );
    assert_eq!(browser.get("api/data/dbs/blog/colls").status, 200);
    assert_eq!(browser.get("api/manage/status").status, 200);
    let refused = browser.send("POST", "api/data/dbs", &[], r#"{"id":"a"}"#);
    assert_eq!(refused.status, 403, "{}", refused.text());
    let changes = [
        ("POST", "api/manage/reset"),
        ("PUT", "api/manage/requests/settings"),
        ("DELETE", "api/manage/faults"),
        ("POST", "api/manage/dbs/blog/colls/posts/partitions/0/split"),
        ("POST", "api/manage/nowhere"),
    ];
    for (method, path) in changes {
        let refused = browser.send(method, path, &[], "{}");
        assert_eq!(code(&refused), (403, "ReadOnly".into()), "{path}");
    }
    let question = r#"{"text":"SELECT * FROM c"}"#;
    let path = "api/manage/dbs/blog/colls/posts/prediction/why";
    let answer = browser.send("POST", path, &[], question);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_console_that_is_off_does_not_exist() {
    let server = start(&["--memory", "--console", "off"]).expect("it starts");
    assert_eq!(server.console, "");
    assert_eq!(Browser::new(&server).get("").status, 401);
    let explorer = Browser::on_client_port(&server).get("index.html");
    assert!((400..500).contains(&explorer.status), "{}", explorer.status);
    let server = start(&["--memory", "--admin-listen", "off"]).expect("it starts");
    assert_eq!(server.console, "");
}

#[test]
fn the_interfaces_of_programs_are_not_changed_by_the_console() {
    let server = start(&["--memory"]).expect("it starts");
    let browser = Browser::new(&server).signed_in(&server);
    // The cookie and the token of a browser are no key of the management API.
    let answer = Browser {
        base: "/",
        ..browser
    };
    assert_eq!(answer.get("status").status, 401);
    assert_eq!(server.manager().get("/alive").status, 200);
}

/// The keys of an account, with and without one that only reads.
const KEYS: &str = "primary: c29tZSBrZXkgb2YgbXkgb3duIGhlcmU=\n";
const READ_ONLY_KEY: &str = "primary-read-only: YW5vdGhlciBrZXkgb2YgbXkgb3duIQ==\n";

/// Starts a leaseholder and another node with a key file, the latter with further options.
fn two_nodes(keys: &str, options: &[&str]) -> (Fleet, Server, Server) {
    let fleet = Fleet::new(&["only"]);
    let file = fleet.path("account.key");
    std::fs::write(&file, keys).expect("written");
    let leaseholder = fleet.start_with("a", &["--key-file", &file]);
    let leaseholder = leaseholder.expect("it starts");
    let options = [&["--key-file", &file], options].concat();
    let other = fleet.start_with("b", &options).expect("it starts");
    (fleet, leaseholder, other)
}

#[test]
fn a_node_without_the_lease_shows_and_changes_the_data() {
    let (_fleet, leaseholder, other) = two_nodes(KEYS, &[]);
    let at_leaseholder = Browser::new(&leaseholder).signed_in(&leaseholder);
    let browser = Browser::new(&other).signed_in(&other);
    let session = browser.get("api/session").json();
    let endpoint = session.get("endpoint").and_then(Json::as_str);
    assert_eq!(
        endpoint,
        Some(format!("http://{}/", other.address).as_str())
    );

    let sent = |path: &str, body: &str| browser.send("POST", path, &[], body);
    let made = sent("api/data/dbs", r#"{"id":"a b"}"#);
    assert_eq!(made.status, 201, "{}", made.text());
    let container = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    let made = sent("api/data/dbs/a%20b/colls", container);
    assert_eq!(made.status, 201, "{}", made.text());
    for path in [
        "api/data/dbs",
        "api/data/dbs/a%20b/colls/c",
        "api/data/dbs/a%20b/colls/c/docs",
        "api/data/offers",
        "api/manage/dbs/a%20b/colls/c/partitions",
    ] {
        let answers = [&browser, &at_leaseholder].map(|one| {
            let answer = one.get(path);
            (answer.status, answer.text())
        });
        assert_eq!(answers[0], answers[1], "{path}");
        assert_eq!(answers[0].0, 200, "{path}");
    }
    assert_eq!(browser.get("api/data/dbs/none").status, 404);
    assert_eq!(browser.get("api/data/nothing/here").status, 404);
}

#[test]
fn a_read_only_console_of_such_a_node_reads_with_a_read_only_key() {
    let options = ["--console", "read-only"];
    let (_fleet, _leaseholder, other) = two_nodes(&[KEYS, READ_ONLY_KEY].concat(), &options);
    let browser = Browser::new(&other).signed_in(&other);
    assert_eq!(browser.get("api/data/dbs").status, 200);
    let refused = browser.send("POST", "api/data/dbs", &[], r#"{"id":"intruder"}"#);
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[test]
fn a_read_only_console_of_such_a_node_without_such_a_key_is_refused() {
    let (_fleet, _leaseholder, other) = two_nodes(KEYS, &["--console", "read-only"]);
    let refused = Browser::new(&other).signed_in(&other).get("api/data/dbs");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused.text().contains("read-only key"),
        "{}",
        refused.text()
    );
}
