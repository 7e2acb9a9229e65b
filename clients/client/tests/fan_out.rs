//! The requests of a query over several physical partitions, and what an observer sees of them,
//! against a server that answers from a script.

use orrery_client::{
    Answer, Client, ClientError, Connection, Observer, QueryText, Request, Secret, Trust,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const CONTAINER: &str = "dbs/shop/colls/orders";
const QUERY: &str = "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC";
const PLAN: &str = r#"{"queryInfo":{"top":3,"orderBy":["Descending"],"rewrittenQuery":"REWRITTEN"},
    "queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]}"#;
const RANGES: &str = r#"{"PartitionKeyRanges":[
    {"id":"0","minInclusive":"","maxExclusive":"1F"},
    {"id":"1","minInclusive":"1F","maxExclusive":"FF"}]}"#;

/// The answer of the server to a request: the first lines without `HTTP/1.1`, and the body. `None`
/// closes the connection.
type Script = dyn Fn(&str) -> Option<(String, String)> + Send + Sync;

/// Starts a server; returns a client and the requests so far, each by a short name.
async fn server(script: Arc<Script>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, script.clone(), requests.clone()));
        }
    });
    let client = Client::new(&Connection {
        endpoint,
        key: Secret::new("a2V5"),
        key_source: "the test".into(),
        trust: Trust::System,
        connections: 4,
        database: None,
        container: None,
    });
    (client.unwrap(), seen)
}

async fn serve(stream: TcpStream, script: Arc<Script>, seen: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        // A request: its first line and headers, and a body of the given length.
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();

        let name = name_of(&head);
        seen.lock().unwrap().push(name.clone());
        let Some((lines, body)) = script(&name) else {
            return;
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {lines}\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (given, value) = line.split_once(": ")?;
        given.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Returns `ranges`, `plan`, or the range of a query page with its size and continuation.
fn name_of(head: &str) -> String {
    if head.contains("/pkranges ") {
        return "ranges".into();
    }
    if header(head, "x-ms-cosmos-is-query-plan-request").is_some() {
        return "plan".into();
    }
    let text = |name: &str| header(head, name).unwrap_or("-").to_owned();
    let range = text("x-ms-documentdb-partitionkeyrangeid");
    let (size, token) = (text("x-ms-max-item-count"), text("x-ms-continuation"));
    format!("page {range} {size} {token}")
}

fn ok(body: &str) -> Option<(String, String)> {
    Some(("200 OK".into(), body.into()))
}

/// Returns a page of an ordered query.
fn page(rows: &[u32], token: Option<&str>) -> Option<(String, String)> {
    let rows: Vec<String> = rows
        .iter()
        .map(|n| format!(r#"{{"orderByItems":[{{"item":{n}}}],"payload":{n}.0}}"#))
        .collect();
    let lines = match token {
        Some(token) => format!("200 OK\r\nx-ms-continuation: {token}"),
        None => "200 OK".into(),
    };
    Some((lines, format!(r#"{{"Documents":[{}]}}"#, rows.join(","))))
}

/// Keeps the statuses that it sees.
#[derive(Default)]
struct Statuses(Mutex<Vec<u16>>);

impl Observer for Statuses {
    fn answered(&self, _: &Request, answer: &Answer) -> Result<(), ClientError> {
        self.0.lock().unwrap().push(answer.status);
        Ok(())
    }
}

fn sorted(requests: &Arc<Mutex<Vec<String>>>, count: usize) -> Vec<String> {
    // The first pages are requested at the same time.
    let mut requests: Vec<String> = requests.lock().unwrap().drain(..).collect();
    assert_eq!(requests.len(), count, "{requests:?}");
    requests.sort();
    requests
}

fn texts(rows: &[Box<serde_json::value::RawValue>]) -> Vec<&str> {
    rows.iter().map(|row| row.get()).collect()
}

#[tokio::test]
async fn a_page_is_requested_when_the_merge_needs_it_and_an_observer_sees_the_pages_only() {
    let (client, requests) = server(Arc::new(|name: &str| match name {
        "plan" => ok(PLAN),
        "ranges" => ok(RANGES),
        "page 0 3 -" => page(&[9], Some("next")),
        "page 0 3 next" => page(&[4], Some("unused")),
        "page 1 3 -" => page(&[8, 1], None),
        other => panic!("{other}"),
    }))
    .await;
    let statuses = Arc::new(Statuses::default());
    let client = client.with_observer(statuses.clone());
    let query = QueryText::new(QUERY);

    let rows = client.query_all(CONTAINER, &query, &[]).await.unwrap();
    assert_eq!(texts(&rows), ["9.0", "8.0", "4.0"], "with their digits");
    let pages = ["page 0 3 -", "page 0 3 next", "page 1 3 -"];
    assert_eq!(
        sorted(&requests, 5),
        [&pages[..], &["plan", "ranges"]].concat()
    );
    assert_eq!(*statuses.0.lock().unwrap(), [200, 200, 200]);

    // Plan and ranges are kept.
    client.query_all(CONTAINER, &query, &[]).await.unwrap();
    assert_eq!(sorted(&requests, 3), pages);
}

#[tokio::test]
async fn a_query_starts_again_after_a_split_with_a_new_plan_and_new_ranges() {
    let firsts = Mutex::new(VecDeque::from([Some((
        "410 Gone\r\nx-ms-substatus: 1002".to_owned(),
        "{}".to_owned(),
    ))]));
    let (client, requests) = server(Arc::new(move |name: &str| match name {
        "plan" => ok(PLAN),
        "ranges" => ok(RANGES),
        "page 0 3 -" => {
            let first = firsts.lock().unwrap().pop_front();
            first.unwrap_or_else(|| page(&[1], None))
        }
        _ => page(&[2], None),
    }))
    .await;
    let query = QueryText::new(QUERY);
    let rows = client.query_all(CONTAINER, &query, &[]).await.unwrap();
    assert_eq!(texts(&rows), ["2.0", "1.0"]);
    let requests = requests.lock().unwrap();
    for name in ["plan", "ranges", "page 0 3 -"] {
        let times = requests.iter().filter(|given| *given == name).count();
        assert_eq!(times, 2, "{name}: {requests:?}");
    }
}

#[tokio::test]
async fn a_broken_connection_is_repeated_unless_the_client_is_told_not_to() {
    let answers = Mutex::new(VecDeque::from([None, None, ok("{}")]));
    let (client, requests) = server(Arc::new(move |_: &str| {
        answers.lock().unwrap().pop_front().expect("an answer")
    }))
    .await;
    let refused = client.without_reconnection().read(CONTAINER).await;
    assert!(matches!(refused, Err(ClientError::Unreachable { .. })));
    assert_eq!(requests.lock().unwrap().len(), 1);
    assert_eq!(client.read(CONTAINER).await.unwrap().status, 200);
    assert_eq!(requests.lock().unwrap().len(), 3);
}
