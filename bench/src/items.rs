//! The items of the HTTP and engine benchmarks, in two sizes, and the signed requests for them.

use crate::child::ServerProcess;
use crate::{Result, load};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use orrery_client::signature::{authorization, http_date};
use std::io::Write as _;

/// Bytes of an item to read.
pub(crate) const READ_BYTES: usize = 1024;
/// Bytes of an item to create.
pub(crate) const CREATE_BYTES: usize = 400;
/// Number of items that are read in turn.
pub(crate) const READ_ITEMS: u64 = 1000;
/// Number of logical partitions.
const KEYS: u64 = 64;
/// Definition of the container, with the default indexing policy.
pub(crate) const CONTAINER: &str =
    r#"{"id":"items","partitionKey":{"paths":["/key"],"kind":"Hash","version":2}}"#;
/// Definition of the database.
pub(crate) const DATABASE: &str = r#"{"id":"bench"}"#;

/// Link of the container.
pub(crate) const LINK: &str = "dbs/bench/colls/items";

/// Returns the id of item `n` of a kind. All ids have the same length.
pub(crate) fn id(kind: char, n: u64) -> String {
    format!("{kind}{n:010}")
}

/// Returns the partition key of item `n`. All keys have the same length.
pub(crate) fn key(n: u64) -> String {
    format!("key-{:03}", n % KEYS)
}

/// Returns an item of `bytes` bytes with eleven indexed paths, similar to a comment of a blog.
pub(crate) fn item(kind: char, n: u64, bytes: usize) -> Vec<u8> {
    let (id, key) = (id(kind, n), key(n));
    let author = n.wrapping_mul(0x9e37_79b9) % 100_000;
    let mut text = format!(
        concat!(
            r#"{{"id":"{id}","key":"{key}","type":"comment","author":"user-{author:06}","#,
            r#""created":"2026-01-{day:02}T12:{minute:02}:00Z","likes":{likes:05},"#,
            r#""rating":{rating:1}.5,"public":true,"tags":["red","green"],"#,
            r#""place":{{"country":"NZ","zone":{zone:02}}},"text":""#,
        ),
        id = id,
        key = key,
        author = author,
        day = n % 28 + 1,
        minute = n % 60,
        likes = n % 90_000 + 10_000,
        rating = n % 5,
        zone = n % 90 + 10,
    )
    .into_bytes();
    let words = b"and so the planets turn above the brass hills ";
    text.extend(
        words
            .iter()
            .cycle()
            .take(bytes.saturating_sub(text.len() + 2)),
    );
    text.extend_from_slice(b"\"}");
    text
}

/// Creates the database and the container.
pub(crate) fn create_container(server: &ServerProcess) -> Result<()> {
    create_container_with(server, "")
}

/// Creates the database and the container, with a further header line.
fn create_container_with(server: &ServerProcess, header: &str) -> Result<()> {
    create(server, "/dbs", ("dbs", ""), DATABASE.as_bytes(), "")?;
    let container = CONTAINER.as_bytes();
    let signed = ("colls", "dbs/bench");
    create(server, "/dbs/bench/colls", signed, container, header)
}

/// Creates a resource at a path.
fn create(
    server: &ServerProcess,
    path: &str,
    signed: (&str, &str),
    body: &[u8],
    header: &str,
) -> Result<()> {
    let mut request = head(server, "POST", path, signed, header)?;
    write!(request, "content-length: {}\r\n\r\n", body.len())?;
    request.extend_from_slice(body);
    load::exchange(&server.address, &request).map(drop)
}

/// Creates the database, the container and the items to read. Returns a read request for each item.
pub(crate) fn prepare(server: &ServerProcess) -> Result<Vec<Vec<u8>>> {
    prepare_with_throughput(server, None)
}

/// Does the same as [`prepare`] with RU/s of the container, which decide its physical partitions.
pub(crate) fn prepare_with_throughput(
    server: &ServerProcess,
    ru: Option<u32>,
) -> Result<Vec<Vec<u8>>> {
    let header = ru.map(|ru| format!("x-ms-offer-throughput: {ru}\r\n"));
    create_container_with(server, &header.unwrap_or_default())?;
    // A read is signed for its item, so each item has a request of its own.
    let mut reads = Vec::new();
    for n in 0..READ_ITEMS {
        let key = format!("x-ms-documentdb-partitionkey: [\"{}\"]\r\n", key(n));
        let path = format!("/{LINK}/docs");
        create(
            server,
            &path,
            ("docs", LINK),
            &item('r', n, READ_BYTES),
            &key,
        )?;
        let link = format!("{LINK}/docs/{}", id('r', n));
        let mut request = head(server, "GET", &format!("/{link}"), ("docs", &link), &key)?;
        request.extend_from_slice(b"\r\n");
        reads.push(request);
    }
    Ok(reads)
}

/// Returns the number of physical partitions of the container.
pub(crate) fn partition_count(server: &ServerProcess) -> Result<usize> {
    let path = format!("/{LINK}/pkranges");
    let mut request = head(server, "GET", &path, ("pkranges", LINK), "")?;
    request.extend_from_slice(b"\r\n");
    let response = load::exchange(&server.address, &request)?;
    let response = String::from_utf8(response)?;
    let count = response.matches("\"minInclusive\"").count();
    match count {
        0 => Err(format!("no partitions in {response}").into()),
        count => Ok(count),
    }
}

/// Requests that create one item each. All have the same signature, which covers the container and
/// not the item.
pub(crate) struct Creates {
    head: Vec<u8>,
}

impl Creates {
    pub(crate) fn new(server: &ServerProcess) -> Result<Creates> {
        Ok(Creates {
            head: head(server, "POST", &format!("/{LINK}/docs"), ("docs", LINK), "")?,
        })
    }

    /// Appends the request that creates item `n`.
    pub(crate) fn write(&self, n: u64, out: &mut Vec<u8>) {
        self.write_item(&key(n), &item('c', n, CREATE_BYTES), out);
    }

    /// Appends the request that creates an item with a partition key.
    pub(crate) fn write_item(&self, key: &str, item: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        // Writing to a vector cannot fail.
        let _ = write!(
            out,
            "x-ms-documentdb-partitionkey: [\"{key}\"]\r\ncontent-length: {}\r\n\r\n",
            item.len()
        );
        out.extend_from_slice(item);
    }
}

/// Items in one batch or bulk request.
pub(crate) const BATCH_ITEMS: u64 = 100;

/// Requests that create [`BATCH_ITEMS`] items each. Like those of [`Creates`], all have the same
/// signature.
pub(crate) struct Batches {
    head: Vec<u8>,
    kind: char,
    /// Difference between the numbers of two successive items. With [`KEYS`] all items of a request
    /// have the same partition key.
    step: u64,
}

impl Batches {
    /// Returns bulk requests: items with different partition keys and a commit for each item.
    pub(crate) fn bulk(server: &ServerProcess) -> Result<Batches> {
        let header = "x-ms-documentdb-partitionkeyrangeid: 0\r\n\
                      x-ms-cosmos-batch-continue-on-error: True\r\n";
        Ok(Batches {
            head: batch_head(server, "False", header)?,
            kind: 'b',
            step: 1,
        })
    }

    /// Returns transactional batches: all items have the partition key of item 0.
    pub(crate) fn atomic(server: &ServerProcess) -> Result<Batches> {
        let header = format!("x-ms-documentdb-partitionkey: [\"{}\"]\r\n", key(0));
        Ok(Batches {
            head: batch_head(server, "True", &header)?,
            kind: 't',
            step: KEYS,
        })
    }

    /// Appends request number `n`.
    pub(crate) fn write(&self, n: u64, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(BATCH_ITEMS as usize * (CREATE_BYTES + 64));
        for at in 0..BATCH_ITEMS {
            body.extend_from_slice(if at == 0 { b"[" } else { b"," });
            body.extend_from_slice(br#"{"operationType":"Create","resourceBody":"#);
            body.extend(item(
                self.kind,
                (n * BATCH_ITEMS + at) * self.step,
                CREATE_BYTES,
            ));
            body.push(b'}');
        }
        body.push(b']');
        out.extend_from_slice(&self.head);
        // Writing to a vector cannot fail.
        let _ = write!(out, "content-length: {}\r\n\r\n", body.len());
        out.extend_from_slice(&body);
    }
}

/// Requests that query the container. All have the same signature.
pub(crate) struct Queries {
    head: Vec<u8>,
}

impl Queries {
    pub(crate) fn new(server: &ServerProcess) -> Result<Queries> {
        let header = "x-ms-documentdb-isquery: True\r\n\
                      x-ms-documentdb-query-enablecrosspartition: True\r\n\
                      x-ms-max-item-count: 1000\r\n\
                      content-type: application/query+json\r\n";
        let path = format!("/{LINK}/docs");
        Ok(Queries {
            head: head(server, "POST", &path, ("docs", LINK), header)?,
        })
    }

    /// Appends the request for the first page of a query.
    pub(crate) fn write(&self, text: &str, out: &mut Vec<u8>) {
        let mut body = orrery_model::Object::new();
        body.push_new("query", text);
        let body = orrery_model::Json::Object(body).to_text();
        out.extend_from_slice(&self.head);
        // Writing to a vector cannot fail.
        let _ = write!(out, "content-length: {}\r\n\r\n{body}", body.len());
    }
}

fn batch_head(server: &ServerProcess, atomic: &str, header: &str) -> Result<Vec<u8>> {
    let header = format!(
        "x-ms-cosmos-is-batch-request: True\r\nx-ms-cosmos-batch-atomic: {atomic}\r\n{header}"
    );
    head(
        server,
        "POST",
        &format!("/{LINK}/docs"),
        ("docs", LINK),
        &header,
    )
}

/// Returns a request without a body that reads item `n`, for a gateway in this process.
pub(crate) fn read_request(account_key: &str, n: u64) -> Result<hyper::Request<Full<Bytes>>> {
    let link = format!("{LINK}/docs/{}", id('r', n));
    let (token, date) = signature(account_key, "GET", ("docs", &link))?;
    let request = hyper::Request::get(format!("/{link}"))
        .header("host", "127.0.0.1:8081")
        .header("authorization", token)
        .header("x-ms-date", date)
        .header("x-ms-version", "2020-07-15")
        .header("accept", "application/json")
        .header("user-agent", "orrery-bench")
        .header("x-ms-documentdb-partitionkey", format!("[\"{}\"]", key(n)));
    Ok(request.body(Full::default())?)
}

/// Returns the header `authorization` of a request, and the date that it covers.
pub(crate) fn signature(
    account_key: &str,
    verb: &str,
    signed: (&str, &str),
) -> Result<(String, String)> {
    let date = http_date(jiff::Timestamp::now());
    let (kind, link) = signed;
    let key = STANDARD.decode(account_key)?;
    Ok((authorization(&key, verb, kind, link, &date), date))
}

/// Returns the request line and headers. The signature has the current date and is valid for 15
/// minutes.
fn head(
    server: &ServerProcess,
    verb: &str,
    path: &str,
    signed: (&str, &str),
    header: &str,
) -> Result<Vec<u8>> {
    let (token, date) = signature(&server.key, verb, signed)?;
    let host = &server.address;
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n\
         x-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\naccept: application/json\r\n\
         user-agent: orrery-bench\r\n{header}"
    );
    Ok(head.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_json_of_the_given_size() {
        for n in [0, 1, 77, 123_456_789] {
            for bytes in [READ_BYTES, CREATE_BYTES] {
                let item = item('c', n, bytes);
                assert_eq!(item.len(), bytes);
                assert!(
                    orrery_model::json::parse(&item).is_ok(),
                    "{}",
                    String::from_utf8_lossy(&item)
                );
            }
        }
    }
}
