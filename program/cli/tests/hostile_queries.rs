//! Hostile queries: texts that are deeply nested or very long, joins with too many combinations,
//! values that multiply, patterns that backtrack. Each is answered within the time limit of a
//! request and within bounded memory, with rows or with an error, and other requests are served
//! meanwhile. `docs/limits.md` has the figures; `cargo test -p orrery-cli --test cli
//! hostile_queries:: -- --nocapture` prints them.

use crate::program::{Answer, Client, ITEMS, Request, Server, item, start, text};
use orrery_model::Json;
use orrery_test_wait::wait_for;
use std::time::Instant;

/// Memory limit of the server while it answers one query, in MB: collected values, the response,
/// and the server itself.
const MEMORY_MB: u64 = 800;

/// Times that a query is sent again after a timeout.
const RETRIES: usize = 5;

fn server() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    create_posts(&mut client);
    (server, client)
}

/// Creates the container of the items.
fn create_posts(client: &mut Client) {
    client.create("/dbs", r#"{"id":"blog"}"#);
    // Items of this size have more index terms than one write may create.
    let excluded = ["wide", "names", "again"]
        .map(|name| format!(r#"{{"path":"/{name}/*"}}"#))
        .join(",");
    let policy = format!(r#"{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[{excluded}]}}"#);
    let key = r#"{"paths":["/postId"],"kind":"Hash","version":2}"#;
    client.create(
        "/dbs/blog/colls",
        &format!(r#"{{"id":"posts","partitionKey":{key},"indexingPolicy":{policy}}}"#),
    );
}

fn insert(client: &mut Client, id: &str, members: &str) {
    let body = format!(r#"{{"id":"{id}","postId":"p1",{members}}}"#);
    let answer = client.call(&Request::new("POST", ITEMS).key("p1").body(body));
    assert_eq!(answer.status, 201, "{id}: {}", answer.text());
}

/// Creates the items that the queries read, each as large as an item may be or as its name says.
fn insert_all(client: &mut Client) {
    let numbers = |count: usize| {
        (0..count)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(",")
    };
    insert(client, "hundred", &format!(r#""list":[{}]"#, numbers(100)));
    insert(
        client,
        "long",
        &format!(r#""s":"{}","ten":[{}]"#, "a".repeat(1_900_000), numbers(10)),
    );
    let noise: String = (0..1_000_000u64)
        .map(|n| {
            if orrery_model::world::split_mix(n) & 1 == 0 {
                'a'
            } else {
                'b'
            }
        })
        .collect();
    insert(client, "noise", &format!(r#""s":"{noise}""#));
    insert(client, "wide", &format!(r#""wide":[{}]"#, numbers(250_000)));
    let members = |offset: usize| {
        (0..30_000)
            .map(|n| format!(r#""name{}":{n}"#, (n + offset) % 30_000))
            .collect::<Vec<_>>()
    };
    insert(
        client,
        "names",
        &format!(
            r#""names":{{{}}},"again":{{{}}}"#,
            members(0).join(","),
            members(0).join(",")
        ),
    );
    insert(
        client,
        "deep",
        &format!(r#""deep":{}1{}"#, "[".repeat(120), "]".repeat(120)),
    );
}

/// Returns the peak memory of the server since the last call, in MB.
fn peak_memory_mb(server: &Server) -> u64 {
    let folder = format!("/proc/{}", server.process_id());
    let kilobytes = server.memory_kilobytes("VmHWM").unwrap_or(0);
    // Resets the peak; where this is not allowed, the peak is that of all queries together.
    let _ = std::fs::write(format!("{folder}/clear_refs"), "5");
    kilobytes / 1024
}

/// The expected result of a query.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// 200 with this number of rows on the first page, and no continuation.
    Rows(usize),
    /// 200 with some rows and a continuation.
    Continuation,
    /// 200 with any rows.
    Success,
    /// An error with this status whose message contains this text.
    Error(u16, &'static str),
    /// 408, or a page with a continuation: no machine completes the query in time.
    Timeout,
    /// 200 or 408, depending on the speed of the machine.
    SuccessOrTimeout,
}

fn check(name: &str, answer: &Answer, expected: Expected) {
    let excerpt = || answer.text().chars().take(300).collect::<String>();
    let has_continuation = answer.header("x-ms-continuation").is_some();
    match expected {
        Expected::Rows(count) => {
            // The rows are counted by a header, because some are nested too deeply for the parser.
            let counted = answer
                .header("x-ms-item-count")
                .and_then(|n| n.parse().ok());
            assert_eq!(
                (answer.status, counted, has_continuation),
                (200, Some(count), false),
                "{name}: {}",
                excerpt()
            );
        }
        Expected::Continuation => assert!(
            !answer.rows().is_empty() && has_continuation,
            "{name}: {}",
            excerpt()
        ),
        Expected::SuccessOrTimeout => assert!(
            answer.status == 200 || answer.status == 408,
            "{name}: {}",
            excerpt()
        ),
        Expected::Success => assert_eq!(answer.status, 200, "{name}: {}", excerpt()),
        Expected::Error(status, part) => {
            assert_eq!(answer.status, status, "{name}: {}", excerpt());
            assert!(
                text(&answer.json(), "message").contains(part),
                "{name}: {}",
                excerpt()
            );
            assert!(
                answer.body.len() < 100_000,
                "{name}: an error of {} bytes",
                answer.body.len()
            );
        }
        Expected::Timeout => {
            let stopped = answer.status == 200 && has_continuation;
            assert!(
                answer.status == 408 || stopped,
                "{name}: {} {}",
                answer.status,
                excerpt()
            );
        }
    }
}

/// Returns the answer to a query. A query with one outcome is sent again after a timeout, as
/// clients do: beside other load, a request has less of the processor in its time limit.
fn answer_of(client: &mut Client, request: &Request, expected: Expected) -> Answer {
    let may_time_out = matches!(expected, Expected::Timeout | Expected::SuccessOrTimeout);
    let mut answer = client.call(request);
    for _ in 0..RETRIES {
        if answer.status != 408 || may_time_out {
            break;
        }
        answer = client.call(request);
    }
    answer
}

/// Runs all queries and checks the answers, memory, and that the server still answers. Without its
/// limits a query would not end.
fn check_queries(queries: Vec<(&str, Request, Expected)>) {
    let (server, mut client) = server();
    insert_all(&mut client);
    peak_memory_mb(&server);
    for (name, request, expected) in queries {
        let begun = Instant::now();
        let answer = answer_of(&mut client, &request, expected);
        let (took, memory_mb) = (begun.elapsed(), peak_memory_mb(&server));
        eprintln!(
            "| {name} | {} | {:.2} s | {memory_mb} MB |",
            answer.status,
            took.as_secs_f64()
        );
        check(name, &answer, expected);
        assert!(memory_mb < MEMORY_MB, "{name} took {memory_mb} MB");
        assert_eq!(
            client
                .call(&Request::new("GET", &item("hundred")).key("p1"))
                .status,
            200,
            "after {name}"
        );
    }
}

fn query(text: impl AsRef<str>) -> Request {
    Request::query(ITEMS, text.as_ref())
}

/// Returns a query with parameters, whose values are JSON texts.
fn with_parameters(text: &str, parameters: &[(String, String)]) -> Request {
    let list: Vec<String> = parameters
        .iter()
        .map(|(n, v)| format!(r#"{{"name":"{n}","value":{v}}}"#))
        .collect();
    query(text).body(format!(
        r#"{{"query":{},"parameters":[{}]}}"#,
        Json::from(text).to_text(),
        list.join(",")
    ))
}

fn nested_text(count: usize, open: &str, middle: &str, close: &str) -> String {
    format!("{}{middle}{}", open.repeat(count), close.repeat(count))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each text")]
fn texts_that_nest_or_repeat_are_answered() {
    let too_deep = Expected::Error(400, "nested too deeply");
    let nested = |open: &str, close: &str| {
        query(format!(
            "SELECT VALUE {} FROM c",
            nested_text(30_000, open, "1", close)
        ))
    };
    let joined = |count: usize, part: &dyn Fn(usize) -> String, sign: &str| {
        (0..count).map(part).collect::<Vec<_>>().join(sign)
    };
    let filter = |filter: String| query(format!("SELECT VALUE c.id FROM c WHERE {filter}"));
    let padded = |bytes: usize| {
        let text = "SELECT VALUE c.id FROM c --";
        query(format!("{text}{}", "x".repeat(bytes - text.len())))
    };
    check_queries(vec![
        ("30,000 parentheses", nested("(", ")"), too_deep),
        ("30,000 arrays", nested("[", "]"), too_deep),
        ("30,000 subqueries", nested("(SELECT VALUE ", ")"), too_deep),
        ("30,000 times NOT", nested("NOT ", ""), too_deep),
        ("30,000 times minus", nested("- ", ""), too_deep),
        ("512 KiB of text", padded(512 * 1024), Expected::Rows(6)),
        (
            "512 KiB of text and one byte",
            padded(512 * 1024 + 1),
            Expected::Error(400, "at most 524288"),
        ),
        (
            "IN with 10,000 elements",
            filter(format!(
                "c.id IN ({})",
                joined(10_000, &|n| format!("'i{n}'"), ",")
            )),
            Expected::Rows(0),
        ),
        (
            "20,000 times OR",
            filter(joined(20_000, &|n| format!("c.n = {n}"), " OR ")),
            Expected::Rows(0),
        ),
        (
            "20,000 times AND",
            filter(joined(20_000, &|n| format!("c.n > {n}"), " AND ")),
            Expected::Rows(0),
        ),
        (
            "20,000 times ||",
            query(format!(
                "SELECT VALUE {} FROM c",
                joined(20_000, &|_| "c.id".into(), "||")
            )),
            Expected::Rows(6),
        ),
        (
            "100,000 names that do not exist",
            query(format!(
                "SELECT VALUE [{}]",
                joined(100_000, &|_| "x".into(), ",")
            )),
            Expected::Error(400, "SC2001"),
        ),
        (
            "50,000 members of an object",
            query(format!(
                "SELECT VALUE {{{}}}",
                joined(50_000, &|n| format!("a{n}:1"), ",")
            )),
            Expected::Rows(1),
        ),
        (
            "100,000 items of a SELECT list",
            query(format!("SELECT {}", joined(100_000, &|_| "1".into(), ","))),
            Expected::Rows(1),
        ),
        (
            "4,294,967,295 rows on top",
            query("SELECT TOP 4294967295 VALUE c.id FROM c"),
            Expected::Rows(6),
        ),
        (
            "a TOP beyond 32 bits",
            query("SELECT TOP 4294967296 VALUE c.id FROM c"),
            Expected::Error(400, "SC2060"),
        ),
        (
            "an OFFSET of 4,294,967,295",
            query("SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 4294967295 LIMIT 4294967295"),
            Expected::Rows(0),
        ),
        (
            "an OFFSET beyond 32 bits",
            query("SELECT VALUE c.id FROM c OFFSET 4294967296 LIMIT 1"),
            Expected::Error(400, "SC2062"),
        ),
    ]);
}

#[test]
fn parameters_that_are_many_large_or_deep_are_answered() {
    let many: Vec<_> = (0..10_000)
        .map(|n| (format!("@p{n}"), n.to_string()))
        .collect();
    let named = |count: usize| vec!["@p"; count].join(",");
    let large = [("@p".to_owned(), format!("\"{}\"", "x".repeat(1_000_000)))];
    let deep = |levels: usize| [("@p".to_owned(), nested_text(levels, "[", "1", "]"))];
    let all: Vec<String> = many.iter().map(|(name, _)| name.clone()).collect();
    check_queries(vec![
        (
            "10,000 parameters, all named",
            with_parameters(&format!("SELECT VALUE [{}]", all.join(",")), &many),
            Expected::Rows(1),
        ),
        (
            "1 MB of parameter named 100,000 times",
            with_parameters(&format!("SELECT VALUE [{}]", named(100_000)), &large),
            Expected::Error(400, "large parameters"),
        ),
        (
            "1 MB of parameter named 40 times",
            with_parameters(&format!("SELECT VALUE [{}]", named(40)), &large),
            Expected::Error(400, "bytes"),
        ),
        (
            "a parameter of 120 levels",
            with_parameters("SELECT VALUE @p", &deep(120)),
            Expected::Rows(1),
        ),
        (
            "a parameter of 200 levels",
            with_parameters("SELECT VALUE @p", &deep(200)),
            Expected::Error(400, "nested deeper"),
        ),
    ]);
}

#[test]
fn patterns_that_backtrack_are_answered() {
    let like = format!(
        "SELECT VALUE c.id FROM c WHERE c.s LIKE '%{}b'",
        "a".repeat(200_000)
    );
    let runs = format!(
        "SELECT VALUE c.id FROM c WHERE c.s LIKE '{}b'",
        "%a".repeat(2_000)
    );
    let parts: Vec<String> = (0..20_000)
        .map(|n| format!("'{}b'", "a".repeat(n % 10 + 1)))
        .collect();
    check_queries(vec![
        (
            "^(a+)+$",
            query("SELECT VALUE c.id FROM c WHERE REGEXMATCH(c.s, '^(a+)+$')"),
            Expected::Rows(1),
        ),
        (
            "(a|aa)+b on 1.9 MB",
            query("SELECT VALUE c.id FROM c WHERE REGEXMATCH(c.s, '(a|aa)+b') AND c.id = 'long'"),
            Expected::Rows(0),
        ),
        (
            "[ab]*a[ab]{2000}c on 1 MB",
            query("SELECT VALUE c.id FROM c WHERE REGEXMATCH(c.s, '[ab]*a[ab]{2000}c')"),
            Expected::Error(400, "regular expression"),
        ),
        (
            "a regular expression too large",
            query(r"SELECT VALUE c.id FROM c WHERE REGEXMATCH(c.s, '(\\w{1,500}){500}')"),
            Expected::Rows(0),
        ),
        (
            "all matches of an empty pattern in 1.9 MB",
            query("SELECT VALUE ARRAY_LENGTH(REGEXEXTRACTALL(c.s, '')) FROM c WHERE c.id = 'long'"),
            Expected::Success,
        ),
        (
            "LIKE '%a...ab' of 200,000 on 1.9 MB",
            query(like),
            Expected::SuccessOrTimeout,
        ),
        ("LIKE of 2,000 runs", query(runs), Expected::Success),
        (
            "CONTAINS_ANY_CI of 20,000 parts in 1.9 MB",
            query(format!(
                "SELECT VALUE CONTAINS_ANY_CI(c.s, {}) FROM c WHERE c.id = 'long'",
                parts.join(",")
            )),
            Expected::SuccessOrTimeout,
        ),
    ]);
}

#[test]
fn joins_that_explode_end_in_time() {
    let joins: String = (0..10).map(|n| format!(" JOIN j{n} IN c.list")).collect();
    let wide = " JOIN a IN c.wide JOIN b IN c.wide";
    check_queries(vec![
        ("COUNT over 10 joins of 100", query(format!("SELECT VALUE COUNT(1) FROM c{joins}")), Expected::Timeout),
        ("no row of 10 joins of 100", query(format!("SELECT VALUE 1 FROM c{joins} WHERE j0 + j9 < 0")), Expected::Timeout),
        ("rows of 10 joins of 100", query(format!("SELECT VALUE j9 FROM c{joins}")), Expected::Continuation),
        (
            "the last of 10 joins of 100",
            query(format!("SELECT VALUE j9 FROM c{joins} OFFSET 4000000000 LIMIT 1")),
            Expected::Timeout,
        ),
        (
            "DISTINCT of 10 joins of 100",
            query(format!("SELECT DISTINCT VALUE [j0,j1,j2,j3,j4,j5,j6,j7,j8,j9] FROM c{joins}")),
            Expected::Timeout,
        ),
        (
            "groups of 10 joins of 100",
            query(format!("SELECT j7, j8, j9, COUNT(1) AS n FROM c{joins} GROUP BY j7, j8, j9")),
            Expected::Timeout,
        ),
        ("the order of 10 joins of 100", query(format!("SELECT VALUE j9 FROM c{joins} ORDER BY c.id")), Expected::Timeout),
        (
            "EXISTS in 10 joins of 100",
            query(
                format!("SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM c{joins} WHERE j0 + j9 < 0)")
                    .replace("FROM c JOIN", "FROM j IN c.list JOIN"),
            ),
            Expected::Timeout,
        ),
        (
            "250,000 times 250,000 elements",
            query(format!("SELECT VALUE COUNT(1) FROM c{wide} WHERE a = b")),
            Expected::Timeout,
        ),
        (
            "long strings compared 10,000 times",
            query(
                "SELECT VALUE COUNT(1) FROM c JOIN a IN c.ten JOIN b IN c.ten JOIN d IN c.ten JOIN e IN c.ten WHERE REVERSE(c.s) = c.s",
            ),
            Expected::SuccessOrTimeout,
        ),
        (
            "objects of 30,000 members compared",
            query("SELECT VALUE c.names = c.again FROM c WHERE c.id = 'names'"),
            Expected::Rows(1),
        ),
        (
            "ARRAY_CONTAINS of all of 30,000 members",
            query("SELECT VALUE ARRAY_CONTAINS([c.names], c.again, true) FROM c WHERE c.id = 'names'"),
            Expected::Rows(1),
        ),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each query")]
fn values_that_multiply_end_in_bounded_memory() {
    let lists = "FROM a IN c.list JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list";
    let doubled = |call: &str, from: &str| {
        let text = (0..40).fold(from.to_owned(), |text, _| {
            format!("LET x = {text} IN {call}")
        });
        query(format!(
            "SELECT VALUE {text} FROM c WHERE c.id IN ('hundred', 'long', 'wide')"
        ))
    };
    let replaced = "REPLACE(REPLICATE('a', 9999), 'a', REPLICATE('b', 1600))";
    let nested_lets = (0..60).fold("1".to_owned(), |text, n| {
        format!("LET x{n} = ARRAY_CONCAT(c.wide, c.wide, [{n}]) IN [x{n}[0], {text}]")
    });
    check_queries(vec![
        (
            "ARRAY of 4 joins of 100",
            query(format!(
                "SELECT VALUE ARRAY(SELECT a, b, d, e {lists}) FROM c"
            )),
            Expected::Error(400, "memory"),
        ),
        (
            "the length of such an ARRAY",
            query(format!(
                "SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT a, b, d, e {lists})) FROM c"
            )),
            Expected::Error(400, "memory"),
        ),
        (
            "a string doubled 40 times",
            doubled("x || x", "c.s"),
            Expected::Success,
        ),
        (
            "CONCAT doubled 40 times",
            doubled("CONCAT(x, x)", "c.s"),
            Expected::Success,
        ),
        (
            "an array doubled 40 times",
            doubled("ARRAY_CONCAT(x, x)", "c.wide"),
            Expected::Success,
        ),
        (
            "an array in an array 40 times",
            doubled("[x, x]", "c.wide"),
            Expected::Error(400, "memory"),
        ),
        (
            "STRINGJOIN of joined strings",
            doubled("STRINGJOIN([x, x, x], x)", "c.s"),
            Expected::Success,
        ),
        (
            "REPLACE of 16 MB, 8,000 times",
            query(format!(
                "SELECT VALUE [{}]",
                vec![replaced; 8_000].join(",")
            )),
            Expected::Error(400, "memory"),
        ),
        (
            "60 arrays held at once",
            query(format!(
                "SELECT VALUE {nested_lets} FROM c WHERE c.id = 'wide'"
            )),
            Expected::Error(400, "memory"),
        ),
        (
            "OBJECTTOARRAY with a name of 1.9 MB",
            query(
                "SELECT VALUE OBJECTTOARRAY(c.names, REPLACE(REPLICATE('a', 9999), 'a', 'abcdefgh')) FROM c WHERE c.id = 'names'",
            ),
            Expected::Error(400, "memory"),
        ),
        (
            "REPLICATE beyond 10,000 characters",
            query("SELECT VALUE REPLICATE('a', 1000000000) FROM c"),
            Expected::Rows(0),
        ),
    ]);
}

#[test]
fn large_and_deep_rows_end_in_bounded_memory() {
    check_queries(vec![
        (
            "100 times the longest item in a row",
            query(format!(
                "SELECT VALUE [{}] FROM c WHERE c.id = 'long'",
                vec!["c"; 100].join(",")
            )),
            Expected::Error(400, "bytes"),
        ),
        (
            "MAKELIST of joined items",
            query("SELECT VALUE MAKELIST(c) FROM c JOIN a IN c.ten JOIN b IN c.ten"),
            Expected::Error(400, ""),
        ),
        (
            "an item of 120 levels, 100 more around it",
            query(format!(
                "SELECT VALUE {} FROM c WHERE c.id = 'deep'",
                nested_text(90, "[", "c", "]")
            )),
            Expected::Rows(1),
        ),
        (
            "DISTINCT of rows that are very deep",
            query(format!(
                "SELECT DISTINCT VALUE {} FROM c",
                nested_text(90, "[", "[c.deep, c.id]", "]")
            )),
            Expected::Rows(6),
        ),
    ]);
}

#[test]
fn other_requests_are_served_during_expensive_queries() {
    let (server, mut client) = server();
    insert_all(&mut client);
    let joins: String = (0..10).map(|n| format!(" JOIN j{n} IN c.list")).collect();
    let wild = query(format!("SELECT VALUE 1 FROM c{joins} WHERE j0 + j9 < 0"));
    std::thread::scope(|scope| {
        let spinners: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| server.client().call(&wild)))
            .collect();
        let mut manager = server.manager();
        let running = || manager.metric("orrery_queries_running");
        wait_for("a query that runs", running, |count| *count > 0.0);
        let read = Request::new("GET", &item("hundred")).key("p1");
        for _ in 0..10 {
            assert_eq!(client.call(&read).status, 200);
        }
        let has_ended = spinners.iter().all(|spinner| spinner.is_finished());
        assert!(!has_ended, "the reads were answered after all queries");
        for spinner in spinners {
            check(
                "an expensive query",
                &spinner.join().expect("an answer"),
                Expected::Timeout,
            );
        }
    });
}

#[test]
fn a_query_that_needs_more_memory_than_all_queries_have_is_400() {
    let server = start(&["--memory", "--memory-limit", "256MiB"]).expect("it starts");
    let mut client = server.client();
    create_posts(&mut client);
    for n in 0..14 {
        let text = "a".repeat(1_900_000);
        insert(&mut client, &n.to_string(), &format!(r#""s":"{n}{text}""#));
    }
    let groups = "SELECT COUNT(1) AS n, c.s FROM c GROUP BY c.s";
    let answer = client.call(&Request::query(ITEMS, groups));
    // Clients send a query again after 429, and this one would be refused again.
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(
        answer.text().contains("--memory-limit"),
        "{}",
        answer.text()
    );
    let one = "SELECT COUNT(1) AS n, c.s FROM c WHERE c.id = '1' GROUP BY c.s";
    assert_eq!(client.call(&Request::query(ITEMS, one)).rows().len(), 1);
}
