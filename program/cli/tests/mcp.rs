//! `orrery mcp`: the protocol in lines, the bounds of a session, and a session that only reads.

use crate::program::{self, Server};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Two databases; `orders` has two physical partitions.
const SHOP: &str = r#"{"databases":[{"id":"other","containers":[]},{"id":"shop","containers":[
  {"id":"orders","partitionKey":{"paths":["/customer"]},"throughput":{"manual":12000},
   "items":[{"id":"1","customer":"ada","n":1.50},{"id":"2","customer":"bob","n":20},
            {"id":"3","customer":"cy","n":3}]}]}]}"#;

fn server(arguments: &[&str]) -> Server {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    std::fs::write(&file, SHOP).expect("a file");
    let init = ["--memory", "--init", file.to_str().expect("UTF-8")];
    program::start(&[&init, arguments].concat()).expect("it starts")
}

/// A session with a running `orrery mcp`.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Session {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        Self::at(&format!("http://{}/", server.address), arguments)
    }

    fn at(endpoint: &str, arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args(["mcp", "--endpoint", endpoint])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Self {
            process,
            input,
            output,
            id: 0,
        }
    }

    /// Starts a session that has agreed on a version.
    fn begun(server: &Server, arguments: &[&str]) -> Self {
        let mut session = Self::start(server, arguments);
        session.initialize("2025-11-25");
        session
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(line.as_bytes()).expect("it reads");
        input.write_all(b"\n").expect("it reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        self.send(&request.to_string());
        let answer = self.receive();
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    fn initialize(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let answer = self.ask("initialize", params)["result"].clone();
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    /// Calls a tool; returns the text, and true if it is an error.
    fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (text, result["isError"] == true)
    }

    fn done(&mut self, name: &str, arguments: Value) -> Value {
        let (text, is_error) = self.call(name, arguments);
        assert!(!is_error, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    fn refused(&mut self, name: &str, arguments: Value) -> String {
        let (text, is_error) = self.call(name, arguments);
        assert!(is_error, "{text}");
        text
    }

    fn tools(&mut self) -> Vec<Value> {
        let answer = self.ask("tools/list", json!({}));
        answer["result"]["tools"]
            .as_array()
            .expect("a list")
            .clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        // A session that hangs is ended; the test has its answer already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn orders() -> Value {
    json!({"database": "shop", "container": "orders"})
}

fn orders_with(more: Value) -> Value {
    let mut arguments = orders();
    for (name, value) in more.as_object().expect("an object") {
        arguments[name] = value.clone();
    }
    arguments
}

#[test]
fn wrong_lines_are_answered_and_end_nothing() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &[]);
    for (line, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"orders/pay"}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}"#,
            -32602,
        ),
    ] {
        session.send(line);
        let answer = session.receive();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    session.send(&"x".repeat(9 << 20));
    let answer = session.receive();
    assert_eq!(answer["error"]["code"], -32700);
    assert!(
        answer["error"]["message"]
            .as_str()
            .expect("a text")
            .contains("bytes")
    );
    // Notifications and answers to nothing stay without an answer.
    session.send(r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#);
    session.send(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    session.send("");
    assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_version_is_agreed_on_or_named_by_each_request() {
    let server = server(&[]);
    for (asked, agreed) in [("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")] {
        let answer = Session::start(&server, &[]).initialize(asked);
        assert_eq!(answer["protocolVersion"], agreed);
    }
    let mut session = Session::start(&server, &[]);
    let early = session.ask("tools/list", json!({}));
    assert_eq!(early["error"]["code"], -32600);

    let meta = |version: &str| {
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}})
    };
    let found = session.ask("server/discover", meta("2026-07-28"));
    let versions = found["result"]["supportedVersions"]
        .as_array()
        .expect("versions");
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let listed = session.ask("tools/list", meta("2026-07-28"));
    assert_eq!(listed["result"]["resultType"], "complete");
    assert_eq!(listed["result"]["ttlMs"], 0);
    let unknown = session.ask("tools/list", meta("2099-01-01"));
    assert_eq!(unknown["error"]["code"], -32022);
    assert_eq!(unknown["error"]["data"]["requested"], "2099-01-01");
}

#[test]
fn a_session_that_only_reads_has_no_tool_that_writes() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &[]);
    for tool in session.tools() {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["annotations"]["destructiveHint"], false, "{tool}");
    }
    let mut writer = Session::begun(&server, &["--allow-writes"]);
    let writing: Vec<Value> = writer
        .tools()
        .into_iter()
        .filter(|tool| tool["annotations"]["readOnlyHint"] == false)
        .collect();
    assert_eq!(writing.len(), 7);
    for tool in writing {
        let name = tool["name"].as_str().expect("a name");
        let arguments = orders_with(json!({"id": "1", "partition_key": "ada"}));
        let params = json!({"name": name, "arguments": arguments});
        let answer = session.ask("tools/call", params);
        let message = answer["error"]["message"].as_str().expect("a refusal");
        assert!(message.contains("--allow-writes"), "{message}");
    }
    let item = session.done(
        "get_item",
        orders_with(json!({"id": "1", "partition_key": "ada"})),
    );
    assert_eq!(item["item"]["n"], 1.5);
}

#[test]
fn writes_are_carried_out_if_they_are_allowed() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &["--allow-writes"]);
    let key = |more: Value| {
        let mut arguments = orders_with(more);
        arguments["partition_key"] = "dan".into();
        arguments
    };
    let item = json!({"item": {"id": "9", "customer": "dan", "n": 1}});
    assert_eq!(
        session.done("create_item", key(item.clone()))["done"],
        "created"
    );
    assert!(
        session
            .refused("create_item", key(item.clone()))
            .contains("409")
    );
    assert_eq!(session.done("upsert_item", key(item))["done"], "replaced");
    let steps = json!({"id": "9", "operations": [{"op": "incr", "path": "/n", "value": 4}]});
    session.done("patch_item", key(steps));
    let found = session.done("get_item", key(json!({"id": "9"})));
    assert_eq!(found["item"]["n"], 5);
    session.done("delete_item", key(json!({"id": "9"})));
    assert!(
        session
            .refused("get_item", key(json!({"id": "9"})))
            .contains("404")
    );

    session.done("create_database", json!({"database": "new"}));
    let new = json!({"database": "new", "container": "c", "partition_key_paths": ["/a", "/b"]});
    session.done("create_container", new.clone());
    let described = session.done(
        "describe_container",
        json!({"database": "new", "container": "c"}),
    );
    assert_eq!(described["partitionKey"]["kind"], "MultiHash");
    session.done(
        "delete_container",
        json!({"database": "new", "container": "c"}),
    );
}

#[test]
fn containers_are_listed_and_described() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &[]);
    let databases = session.done("list_databases", json!({}));
    assert_eq!(databases["databases"].as_array().map(Vec::len), Some(2));
    let containers = session.done("list_containers", json!({"database": "shop"}));
    let expected = json!([{"name": "orders", "partitionKeyPaths": ["/customer"]}]);
    assert_eq!(containers["containers"], expected);
    let described = session.done("describe_container", orders());
    assert_eq!(described["throughput"]["ruPerSecond"], 12000);
    assert_eq!(described["schema"]["sampledItems"], 3);
    let of_n = json!({"path": "/n", "frequency": 1.0, "types": {"integer": 2, "number": 1}});
    let properties = described["schema"]["properties"]
        .as_array()
        .expect("a list");
    assert!(properties.contains(&of_n), "{properties:?}");
    let partitions = session.done("partition_statistics", orders());
    let partitions = partitions["physicalPartitions"].as_array().expect("a list");
    assert_eq!(partitions.len(), 2);
    assert!(
        partitions.iter().all(|p| p["sizeInKB"].is_u64()),
        "{partitions:?}"
    );

    let resources = session.ask("resources/list", json!({}));
    let uri = resources["result"]["resources"][0]["uri"].clone();
    assert_eq!(uri, "orrery:///shop/orders/schema");
    let read = session.ask("resources/read", json!({"uri": uri}));
    let text = read["result"]["contents"][0]["text"]
        .as_str()
        .expect("a text");
    assert!(text.contains("\"sampledItems\":3"), "{text}");
    let missing = session.ask("resources/read", json!({"uri": "file:///etc/passwd"}));
    assert_eq!(missing["error"]["code"], -32002);
    let arguments = json!({"database": "shop", "container": "orders"});
    let prompt = json!({"name": "choose_partition_key", "arguments": arguments});
    let prompt = session.ask("prompts/get", prompt);
    assert!(
        prompt["result"]["messages"][0]["content"]["text"].is_string(),
        "{prompt}"
    );
}

#[test]
fn a_query_is_cut_at_its_bounds_and_continued_without_gaps() {
    // A server that merges, one that does not, and a bound of bytes that cuts pages.
    let (merging, refusing) = (
        server(&[]),
        server(&["--cross-partition-queries", "refuse"]),
    );
    for (server, arguments) in [
        (&merging, vec![]),
        (&refusing, vec![]),
        (&merging, vec!["--max-result-bytes", "30"]),
        (&refusing, vec!["--max-result-bytes", "30"]),
    ] {
        let mut session = Session::begun(server, &arguments);
        let mut asked = orders_with(json!({"query": "SELECT c.id, c.n FROM c", "max_rows": 2}));
        let (mut ids, mut answers) = (Vec::new(), 0);
        loop {
            let found = session.done("query", asked.clone());
            answers += 1;
            for row in found["rows"].as_array().expect("rows") {
                ids.push(row["id"].as_str().expect("an id").to_owned());
            }
            match &found["continuation"] {
                Value::Null => break,
                next => {
                    assert!(!found["notes"].is_null(), "{found}");
                    asked["continuation"] = next.clone();
                }
            }
            assert!(answers < 10, "{found}");
        }
        ids.sort();
        assert_eq!(ids, ["1", "2", "3"], "{arguments:?}");
        assert!(answers > 1);
    }
    let mut session = Session::begun(&merging, &[]);
    let narrow = json!({"query": "SELECT * FROM c WHERE c.n > @min",
        "parameters": {"min": 1}, "partition_key": "ada"});
    let (text, _) = session.call("query", orders_with(narrow));
    assert!(text.contains("\"n\":1.50,"), "digits are kept: {text}");
    let mut small = Session::begun(&merging, &["--max-result-bytes", "10"]);
    let found = small.done("query", orders_with(json!({"query": "SELECT * FROM c"})));
    assert!(found["notes"].to_string().contains("left out"), "{found}");
    let mut session = Session::begun(&refusing, &[]);
    let sorted = json!({"query": "SELECT * FROM c ORDER BY c.n"});
    assert!(
        session
            .refused("query", orders_with(sorted))
            .contains("ORDER BY")
    );
}

#[test]
fn a_query_is_explained() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &[]);
    let asked = json!({"query": "SELECT * FROM c WHERE c.n = 3"});
    let explained = session.done("explain_query", orders_with(asked));
    assert!(explained["requestCharge"].as_f64() > Some(0.0));
    for part in ["query metrics", "index", "plan", "clientPlan", "hint"] {
        assert!(!explained[part].is_null(), "{part}: {explained}");
    }
    let wrong = session.refused("explain_query", orders_with(json!({"query": "SELEKT"})));
    assert!(wrong.contains("400"), "{wrong}");
}

#[test]
fn a_session_sees_no_more_than_its_view() {
    let server = server(&[]);
    let view = [
        "--database",
        "shop",
        "--container",
        "orders",
        "--allow-writes",
    ];
    let mut session = Session::begun(&server, &view);
    assert_eq!(
        session.done("list_databases", json!({}))["databases"],
        json!(["shop"])
    );
    assert_eq!(
        session.done("describe_container", json!({}))["container"],
        "orders"
    );
    for (tool, arguments) in [
        ("list_containers", json!({"database": "other"})),
        ("create_database", json!({"database": "new"})),
        ("delete_container", json!({"container": "other"})),
        ("describe_container", json!({"container": "orders/../x"})),
    ] {
        let text = session.refused(tool, arguments);
        assert!(text.contains("limited to"), "{text}");
    }
    let uri = json!({"uri": "orrery:///other/orders/schema"});
    assert!(session.ask("resources/read", uri)["error"].is_object());
    let mut whole = Session::begun(&server, &[]);
    let text = whole.refused(
        "get_item",
        orders_with(json!({"id": "../x", "partition_key": 1})),
    );
    assert!(text.contains("no id"), "{text}");
    let text = whole.refused("list_databases", json!({"databse": 1}));
    assert!(text.contains("databse"), "{text}");
}

#[test]
fn a_spent_cap_refuses_further_requests_by_name() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &["--max-request-charge", "2"]);
    let asked = orders_with(json!({"query": "SELECT * FROM c"}));
    session.done("query", asked.clone());
    let text = session.refused("query", asked);
    assert!(text.contains("max-request-charge"), "{text}");
    assert!(
        session
            .refused("list_databases", json!({}))
            .contains("max-request-charge")
    );
}

#[test]
fn a_cap_holds_for_calls_that_are_sent_at_once() {
    let server = server(&[]);
    let mut session = Session::begun(&server, &["--max-request-charge", "2"]);
    let query = orders_with(json!({"query": "SELECT * FROM c"}));
    for id in 100..120 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "query", "arguments": query}});
        session.send(&call.to_string());
    }
    let answers: Vec<Value> = (0..20).map(|_| session.receive()).collect();
    let done = answers
        .iter()
        .filter(|answer| answer["result"]["isError"] == false);
    assert_eq!(done.count(), 1, "{answers:?}");
}

#[test]
fn a_cancelled_call_is_not_answered_and_others_go_on() {
    // A listener that never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut session = Session::at(&format!("http://{address}/"), &[]);
    session.initialize("2025-11-25");
    let call = json!({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
        "params": {"name": "list_databases"}});
    session.send(&call.to_string());
    let (mut connection, _) = silent.accept().expect("the call arrives");
    assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": "slow"}});
    session.send(&cancel.to_string());
    // The connection closes, because its request was dropped.
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut connection, &mut rest).expect("it closes");
    assert_eq!(session.ask("ping", json!({}))["result"], json!({}));
    drop(session.input.take());
    let mut line = String::new();
    session.output.read_line(&mut line).expect("the end");
    assert_eq!(line, "", "nothing is answered late");
}

#[test]
fn a_wrong_key_is_a_tool_error_without_the_key() {
    const KEY: &str = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQ=";
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("account.key");
    std::fs::write(&file, KEY).expect("a file");
    let server = server(&[]);
    let mut session = Session::begun(&server, &["--key-file", file.to_str().expect("UTF-8")]);
    let text = session.refused("list_databases", json!({}));
    assert!(text.contains("401"), "{text}");
    assert!(!text.contains(&KEY[..20]), "{text}");
}
