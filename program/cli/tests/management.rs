//! The management API: authentication, status, description, keys, and error messages.

use crate::program::{self, Manager, number, start, start_on, text};
use orrery_admin::known_routes;
use orrery_model::Json;
use orrery_test_wait::wait_until;

#[test]
fn health_needs_no_key_and_everything_else_does() {
    let server = start(&["--memory"]).expect("it starts");
    let mut stranger = server.manager().with_key("");
    for path in ["/alive", "/livez", "/ready", "/readyz", "/healthz"] {
        assert_eq!(stranger.call("GET", path, "").status, 200, "{path}");
    }
    for route in known_routes().filter(|route| !route.is_public) {
        let path = route.path.replace(['{', '}'], "x");
        let answer = stranger.call(route.method, &path, "");
        assert_eq!(
            (answer.status, answer.header("www-authenticate")),
            (401, Some("Bearer")),
            "{path}"
        );
    }
    assert_eq!(stranger.call("GET", "/nowhere", "").status, 401);
    let altered = server.admin_key.replace('a', "b") + "0";
    let mut guesser = server.manager().with_key(&altered);
    let message = guesser.refused("GET", "/status", "", 401);
    assert!(message.contains("no admin key"), "{message}");
    assert_eq!(
        guesser
            .with_key(&server.key)
            .call("GET", "/status", "")
            .status,
        401
    );
}

#[test]
fn a_server_with_one_store_says_that_it_has_no_clusters() {
    let directory = tempfile::tempdir().expect("a directory");
    let in_directory = start_on(directory.path()).expect("it starts");
    let in_memory = start(&["--memory"]).expect("it starts");
    for (server, store) in [(in_directory, "one directory"), (in_memory, "one store")] {
        let mut manager = server.manager();
        for (method, path, body) in [
            ("GET", "/clusters", ""),
            ("GET", "/placements", ""),
            ("POST", "/clusters/a/drain", ""),
            ("DELETE", "/clusters/a/drain", ""),
            (
                "POST",
                "/dbs/d/colls/c/partitions/0/move",
                r#"{"cluster":"a"}"#,
            ),
        ] {
            let message = manager.refused(method, path, body, 409);
            assert!(message.contains(store), "{path}: {message}");
        }
    }
}

#[test]
fn a_host_name_that_resolves_to_the_loopback_is_refused() {
    let server = start(&["--memory"]).expect("it starts");
    let mut page = server.manager().with_host("evil.example:8082");
    for path in ["/alive", "/status", "/nowhere"] {
        let message = page.refused("GET", path, "", 403);
        assert!(message.contains("'evil.example:8082'"), "{message}");
    }
    assert_eq!(
        server
            .manager()
            .with_host("localhost")
            .call("GET", "/status", "")
            .status,
        200
    );
}

#[test]
fn the_status_counts_databases_containers_partitions_and_items() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let body = r#"{"id":"p1","postId":"p1"}"#;
    assert_eq!(
        client
            .call(
                &program::Request::new("POST", program::ITEMS)
                    .key("p1")
                    .body(body)
            )
            .status,
        201
    );
    let status = server.manager().get("/status").json();
    for (name, count) in [
        ("databases", 1),
        ("containers", 1),
        ("partitions", 1),
        ("items", 1),
    ] {
        assert_eq!(number(&status, name), count, "{name}");
    }
    assert!(number(&status, "bytes") >= body.len() as u64);
    assert_eq!(text(&status, "version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(
        text(&status, "dataDirectory"),
        directory.path().to_str().expect("a path in UTF-8")
    );
}

#[test]
fn an_error_names_the_defect_of_a_request() {
    let server = start(&["--memory"]).expect("it starts");
    let mut manager = server.manager();
    for (method, path, body, status, part) in [
        ("GET", "/nowhere", "", 404, "'/nowhere'"),
        ("DELETE", "/status", "", 405, "only GET"),
        ("GET", "/status?verbose=true", "", 400, "'verbose'"),
        ("GET", "/status", "{}", 400, "no body"),
    ] {
        let message = manager.refused(method, path, body, status);
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(manager.call("HEAD", "/status", "").status, 200);
}

#[test]
fn every_route_is_described_and_every_description_is_served() {
    let server = start(&["--memory"]).expect("it starts");
    let mut manager = server.manager();
    let description = manager.get("/openapi.json").json();
    assert_eq!(text(&description, "openapi"), "3.1.0");
    let paths = description
        .get("paths")
        .and_then(Json::as_object)
        .expect("paths");
    let mut described = Vec::new();
    for (path, methods) in paths.iter() {
        for (method, operation) in methods.as_object().expect("methods").iter() {
            described.push((method.to_uppercase(), path.to_owned()));
            let is_public = operation.get("security").is_some();
            assert!(
                known_routes().any(|r| (r.path, r.is_public) == (path, is_public)
                    && r.method.eq_ignore_ascii_case(method))
            );
            // The parameters name nothing, so the response may be an error; but the route must
            // exist.
            let answer = manager.call(&method.to_uppercase(), &path.replace(['{', '}'], "x"), "");
            let text = answer.text();
            assert!(
                !text.contains("there is no path") && answer.status != 405,
                "{method} {path}: {text}"
            );
        }
    }
    assert_eq!(described.len(), known_routes().count());
}

#[test]
fn the_key_of_a_data_directory_stays_and_off_opens_no_port() {
    let directory = tempfile::tempdir().expect("a directory");
    let key = start_on(directory.path())
        .expect("it starts")
        .admin_key
        .clone();
    let again = start_on(directory.path()).expect("it starts");
    assert_eq!(again.admin_key, key);
    assert!(
        std::fs::read_to_string(directory.path().join("admin.key"))
            .expect("a file")
            .contains(&key)
    );
    let file = directory.path().join("own.key");
    std::fs::write(&file, "an-admin-key-of-my-own\n").expect("written");
    let own = start(&[
        "--memory",
        "--admin-key-file",
        file.to_str().expect("a path"),
    ])
    .expect("it starts");
    assert_eq!(own.admin_key, "an-admin-key-of-my-own");
    assert_eq!(own.manager().call("GET", "/status", "").status, 200);
    let off = start(&["--memory", "--admin-listen", "off"]).expect("it starts");
    assert_eq!(
        (off.admin_address.as_str(), off.admin_key.as_str()),
        ("", "")
    );
}

#[test]
fn a_port_in_use_is_reported_with_the_option_that_changes_it() {
    let server = start(&["--memory"]).expect("it starts");
    let exit = start(&["--memory", "--admin-listen", &server.admin_address])
        .err()
        .expect("the port is taken");
    assert_eq!(exit.code, Some(1));
    assert!(
        exit.stderr.contains("--admin-listen") && exit.stderr.contains(&server.admin_address),
        "{}",
        exit.stderr
    );
}

#[test]
fn a_stopping_server_is_not_ready_and_reports_draining() {
    let server = start(&["--memory"]).expect("it starts");
    // A request whose body is incomplete keeps the server from stopping at once.
    let mut stream = server.stream();
    let head = program::Request::new("POST", "/dbs")
        .body("x")
        .bytes(&server.address, &server.key);
    std::io::Write::write_all(&mut stream, &head[..head.len() - 1]).expect("it is sent");
    let mut manager = Manager::connect(&server.admin_address, "");
    assert_eq!(manager.call("GET", "/ready", "").status, 200);
    let mut other = server.client();
    assert_eq!(
        other.call(&program::Request::new("GET", "/dbs")).status,
        200
    );
    let id = server.process_id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("kill exists")
            .success()
    );
    // The server handles the signal some time later; from then on every response is the same.
    let draining = wait_until("a server that drains", || {
        let answer = manager.call("GET", "/ready", "");
        if answer.status == 200 {
            Err(answer.status)
        } else {
            Ok(answer)
        }
    });
    assert_eq!(
        (draining.status, text(&draining.json(), "code")),
        (503, "Draining".to_owned())
    );
    assert_eq!(manager.call("GET", "/alive", "").status, 200);
    std::io::Write::write_all(&mut stream, b"x").expect("the server waits for it");
    let exit = server.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}
