//! The settings of a server: command line, environment and configuration file, in this order of
//! precedence; `orrery config`, completions and man pages; the slow-request log; messages to
//! systemd.

use crate::program::{ITEMS, Request, Server, start, start_on};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Exit code of wrong options.
const EXIT_USAGE: Option<i32> = Some(2);
/// Exit code of a data directory that cannot be opened.
const EXIT_DATA: Option<i32> = Some(4);

/// Runs the program to its end, without variables and files of the user who runs the tests.
fn orrery(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(arguments)
        .env_remove("ORRERY_CONFIG")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .output()
        .expect("it runs")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("orrery.toml");
    fs::write(&path, text).expect("it is written");
    (directory, path)
}

fn name(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Ends a server and returns its log.
fn log_of(server: Server) -> String {
    server.stop().stderr
}

#[test]
fn a_server_takes_its_settings_from_a_file() {
    let (_directory, path) = file("memory = true\nlog-level = \"debug\"\nlog-format = \"json\"\n");
    let server = start(&["--config", name(&path)]).expect("it starts");
    assert_eq!(server.client().call(&Request::new("GET", "/")).status, 200);
    let log = log_of(server);
    assert!(
        log.contains(&format!("settings read from {}", name(&path))),
        "{log}"
    );
    assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
}

#[test]
fn the_command_line_comes_before_the_environment_and_the_environment_before_the_file() {
    let (_directory, path) = file("spin = 1\nthroughput = 500\nscrub-rate = 7\nmemory = true\n");
    let config = [
        "config",
        "show",
        "--format",
        "json",
        "--config",
        name(&path),
    ];
    let variables = [("ORRERY_SPIN", "2"), ("ORRERY_THROUGHPUT", "600")];
    let output = orrery(&[&config[..], &["--spin", "3"]].concat(), &variables);
    let text = printed(&output);
    for setting in [
        r#"{"key":"spin","value":"3","source":"command line"}"#,
        concat!(
            r#"{"key":"throughput","value":"600","source":"environment","#,
            r#""variable":"ORRERY_THROUGHPUT"}"#
        ),
        r#"{"key":"scrub-rate","value":"7","source":"file","line":3}"#,
        r#"{"key":"memory","value":true,"source":"file","line":4}"#,
        r#"{"key":"log-level","value":"info","source":"default"}"#,
    ] {
        assert!(
            text.contains(setting),
            "{setting} is not in {text}{}",
            told(&output)
        );
    }
}

#[test]
fn a_setting_of_the_command_line_takes_those_of_the_file_away_that_it_excludes() {
    let (_directory, path) = file("data-dir = \"/nonexistent/data\"\n");
    let server = start(&["--config", name(&path), "--memory"]).expect("it starts");
    assert_eq!(server.client().call(&Request::new("GET", "/")).status, 200);
}

#[test]
fn a_file_with_faults_is_refused_with_the_line_of_each() {
    let (_directory, path) = file("memory = true\nspinn = 1\nthroughput = 450\n");
    for arguments in [
        ["start", "--config", name(&path)],
        ["config", "check", name(&path)],
    ] {
        let output = orrery(&arguments, &[]);
        let text = told(&output);
        assert_eq!(output.status.code(), EXIT_USAGE, "{text}");
        assert!(
            text.contains("line 2: there is no setting 'spinn'; did you mean 'spin'?"),
            "{text}"
        );
        assert!(text.contains("line 3: invalid value '450'"), "{text}");
    }
    // Settings that are valid one by one may exclude each other.
    let (_directory, path) = file("memory = true\ndata-dir = \"d\"\n");
    let output = orrery(&["config", "check", name(&path)], &[]);
    assert_eq!(output.status.code(), EXIT_USAGE);
    assert!(
        told(&output).contains("cannot be used with"),
        "{}",
        told(&output)
    );
    let output = orrery(&["config", "check", "/nonexistent/orrery.toml"], &[]);
    assert_eq!(output.status.code(), EXIT_USAGE);
    assert!(
        told(&output).contains("name an existing file"),
        "{}",
        told(&output)
    );
}

#[test]
fn the_printed_settings_are_a_configuration_file() {
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--effective"],
        &["config", "show", "--effective", "--memory"],
    ] {
        let output = orrery(arguments, &[]);
        let text = printed(&output);
        assert!(output.status.success(), "{}", told(&output));
        let (_directory, path) = file(&text);
        let output = orrery(&["config", "check", name(&path)], &[]);
        assert!(output.status.success(), "{}{text}", told(&output));
    }
}

#[test]
fn shells_get_completions_and_man_gets_pages() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = orrery(&["completions", shell], &[]);
        assert!(output.status.success(), "{shell}: {}", told(&output));
        let text = printed(&output);
        assert!(text.contains("slow-request-ms"), "{shell}");
        assert!(!text.contains("script-host"), "{shell}: a hidden command");
    }
    assert!(printed(&orrery(&["man"], &[])).contains(".TH orrery 1"));
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("man1");
    let output = orrery(&["man", "--dir", name(&pages)], &[]);
    assert!(output.status.success(), "{}", told(&output));
    let page = fs::read_to_string(pages.join("orrery-start.1")).expect("a page");
    assert!(page.contains("Exit codes"), "{page}");
}

#[test]
fn the_summary_of_the_options_fits_a_screen_and_the_long_help_has_groups() {
    let output = orrery(&["start", "-h"], &[]);
    assert!(output.status.success(), "{}", told(&output));
    let summary = printed(&output);
    assert!(summary.lines().count() <= 24, "{summary}");
    assert!(summary.lines().all(|line| line.len() <= 80), "{summary}");
    assert!(summary.contains("orrery start --help"), "{summary}");
    assert!(!summary.contains("ORRERY_"), "{summary}");

    let long = printed(&orrery(&["start", "--help"], &[]));
    for part in [
        "\nBasics:\n",
        "\nNetwork:\n",
        "\nTLS:\n",
        "\nLimits:\n",
        "\nLogs:\n",
        "\nFleet:\n",
        "[env: ORRERY_LISTEN=",
        "Exit codes:",
    ] {
        assert!(long.contains(part), "{part:?}: {long}");
    }
}

#[test]
fn a_first_start_among_files_of_others_is_refused_and_names_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |file: &str| directory.path().join(file);
    fs::create_dir(place("lost+found")).expect("a directory");
    fs::write(place(".DS_Store"), "").expect("it is written");
    fs::write(place("thesis.txt"), "ten years of work").expect("it is written");
    let exit = match start_on(directory.path()) {
        Err(exit) => exit,
        Ok(_) => panic!("it must not start"),
    };
    assert_eq!(exit.code, EXIT_DATA, "{}", exit.stderr);
    assert!(
        exit.stderr.contains("files of others: thesis.txt;"),
        "{}",
        exit.stderr
    );
    assert!(exit.stderr.contains("--data-dir"), "{}", exit.stderr);
    assert!(
        !place("store").exists() && !place("tls").exists(),
        "nothing is created"
    );

    // Files of the system are no obstacle, and neither is a note beside data that is there.
    fs::remove_file(place("thesis.txt")).expect("it is removed");
    drop(start_on(directory.path()).expect("it starts"));
    fs::write(place("note.txt"), "mine").expect("it is written");
    drop(start_on(directory.path()).expect("it starts again"));
}

#[test]
fn a_file_that_an_option_names_may_lie_in_the_new_data_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("orrery.toml");
    fs::write(&config, "spin = 0\n").expect("it is written");
    let data_dir = name(directory.path());
    let started = start(&["--config", name(&config), "--data-dir", data_dir]);
    drop(started.expect("it starts"));
}

#[test]
fn a_slow_query_is_logged_without_its_values_unless_asked() {
    let delay = r#"{"operations":["query_items"],"delayMilliseconds":60,"count":1}"#;
    for (is_shown, options) in [(false, &[][..]), (true, &["--log-parameters"][..])] {
        let arguments = [&["--memory", "--slow-request-ms", "50"][..], options].concat();
        let server = start(&arguments).expect("it starts");
        let mut client = server.client();
        client.make_posts();
        client.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
        server.manager().ok("POST", "/faults", delay);
        let query = r#"{"query":"SELECT * FROM c WHERE c.id = 'hidden1' OR c.n = @n",
                        "parameters":[{"name":"@n","value":"hidden2"}]}"#;
        let request = Request::new("POST", ITEMS)
            .header("x-ms-documentdb-isquery", "true")
            .header("content-type", "application/query+json")
            .key("p1");
        assert_eq!(client.call(&request.body(query)).status, 200);
        drop(client);
        let log = log_of(server);
        let line = log
            .lines()
            .find(|line| line.contains("slow request op=query_items"))
            .expect(&log);
        assert!(line.contains("SELECT"), "{line}");
        assert_eq!(line.contains("hidden1"), is_shown, "{line}");
        assert_eq!(line.contains("hidden2"), is_shown, "{line}");
    }
}

/// A socket that stands for that of systemd, and the messages that arrive at it.
#[cfg(unix)]
#[test]
fn systemd_is_told_when_a_server_is_ready_reloads_lives_and_stops() {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixDatagram;
    use std::process::Stdio;
    use std::time::Duration;

    let directory = tempfile::tempdir().expect("a directory");
    let address = directory.path().join("notify");
    let socket = UnixDatagram::bind(&address).expect("a socket");
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a timeout");
    let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args([
            "start",
            "--memory",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "off",
        ])
        .arg("--ready-json")
        .env("NOTIFY_SOCKET", &address)
        .env("WATCHDOG_USEC", "200000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let next = |wanted: &str| {
        // Signs of life come at any time.
        loop {
            let mut bytes = [0; 256];
            let length = socket.recv(&mut bytes).expect("a message");
            let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if text.contains(wanted) {
                return text;
            }
            assert!(text.contains("WATCHDOG=1"), "{text} instead of {wanted}");
        }
    };
    next("READY=1");
    let mut line = String::new();
    let mut stdout = BufReader::new(process.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).expect("the announcement");
    next("WATCHDOG=1");
    let signal = |name: &str| {
        let pid = process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    };
    signal("-HUP");
    assert!(next("RELOADING=1").contains("MONOTONIC_USEC="));
    next("READY=1");
    signal("-TERM");
    next("STOPPING=1");
    assert!(process.wait().expect("it ends").success());
    let mut log = String::new();
    let mut stderr = process.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut log).expect("a text");
}
