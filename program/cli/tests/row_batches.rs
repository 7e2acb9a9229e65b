//! Batches in HybridRow form, as the .NET SDK sends them, with a separate codec in the test.

use crate::program::{Answer, ITEMS, Request, item, start_with_posts, text};
use orrery_model::Json;
use orrery_model::json::parse;

const CREATE: i32 = 0;
const PATCH: i32 = 1;
const READ: i32 = 2;
const DELETE: i32 = 4;
const REPLACE: i32 = 5;
const UPSERT: i32 = 20;

/// Returns the checksum of zlib, computed bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 }
        })
    })
}

/// An operation of a batch.
struct Operation {
    mask: u8,
    kind: i32,
    variable: Vec<u8>,
    sparse: Vec<u8>,
}

/// Returns bytes after their length as a variable-length integer.
fn length_prefixed(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut length) = (Vec::new(), bytes.len());
    while length >= 0x80 {
        out.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    [&out, bytes].concat()
}

/// Creates an operation; its parts are in the order of the schema: partition key, id, body.
fn operation(kind: i32, key: Option<&str>, id: Option<&str>, body: Option<&str>) -> Operation {
    let mut operation = Operation {
        mask: 3,
        kind,
        variable: Vec::new(),
        sparse: Vec::new(),
    };
    for (bit, part) in [(4, key), (16, id), (64, body)] {
        let Some(part) = part else { continue };
        operation.mask |= bit;
        operation.variable.extend(length_prefixed(part.as_bytes()));
    }
    operation
}

impl Operation {
    fn if_match(mut self, etag: &str) -> Self {
        self.sparse.extend([20, 9]);
        self.sparse.extend(length_prefixed(etag.as_bytes()));
        self
    }

    fn minimal(mut self) -> Self {
        self.sparse.extend([3, 12]);
        self
    }

    fn row(&self) -> Vec<u8> {
        let head = [
            &[0x81, 0x70, 0x54, 0xE1, 0x7F, self.mask][..],
            &self.kind.to_le_bytes(),
            &2i32.to_le_bytes(),
        ];
        [&head.concat()[..], &self.variable, &self.sparse].concat()
    }
}

fn batch_body(operations: &[Operation]) -> Vec<u8> {
    let mut out = vec![0x81, 0xF0, 0xD8, 0xFF, 0x7F, 0x01, 10, 0, 0, 0];
    for operation in operations {
        let row = operation.row();
        out.extend([0x81, 0xF1, 0xD8, 0xFF, 0x7F]);
        out.extend((row.len() as u32).to_le_bytes());
        out.extend(crc32(&row).to_le_bytes());
        out.extend(row);
    }
    out
}

/// The result of an operation, as a client reads it.
#[derive(Debug, Default)]
struct OperationResult {
    status: i32,
    sub_status: i32,
    etag: Option<String>,
    body: Option<Json>,
    charge: f64,
}

fn take<'a>(bytes: &mut &'a [u8], at: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(at);
    *bytes = rest;
    front
}

fn take_i32(bytes: &mut &[u8]) -> i32 {
    i32::from_le_bytes(take(bytes, 4).try_into().expect("four bytes"))
}

fn take_length_prefixed<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        length |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return take(bytes, length);
        }
    }
}

fn parse_results(answer: &Answer) -> Vec<OperationResult> {
    assert!(matches!(answer.status, 200 | 207), "{}", answer.text());
    assert_eq!(
        answer.header("content-type"),
        Some("application/octet-stream")
    );
    let mut bytes = &answer.body[..];
    assert_eq!(
        take(&mut bytes, 10),
        [0x81, 0xF0, 0xD8, 0xFF, 0x7F, 0x01, 10, 0, 0, 0]
    );
    let mut all = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(take(&mut bytes, 5), [0x81, 0xF1, 0xD8, 0xFF, 0x7F]);
        let length = take_i32(&mut bytes) as usize;
        let checksum = take_i32(&mut bytes) as u32;
        let mut row = take(&mut bytes, length);
        assert_eq!(crc32(row), checksum);
        assert_eq!(take(&mut row, 5), [0x81, 0x71, 0x54, 0xE1, 0x7F]);
        let mask = take(&mut row, 1)[0];
        let mut one = OperationResult {
            status: take_i32(&mut row),
            sub_status: take_i32(&mut row),
            ..OperationResult::default()
        };
        if mask & 4 != 0 {
            one.etag =
                Some(String::from_utf8(take_length_prefixed(&mut row).to_vec()).expect("UTF-8"));
        }
        if mask & 8 != 0 {
            one.body = Some(parse(take_length_prefixed(&mut row)).expect("JSON"));
        }
        while !row.is_empty() {
            match take(&mut row, 2) {
                [16, 6] => {
                    one.charge =
                        f64::from_le_bytes(take(&mut row, 8).try_into().expect("eight bytes"))
                }
                [11, 5] => _ = take_i32(&mut row),
                other => panic!("a member {other:?}"),
            }
        }
        all.push(one);
    }
    all
}

fn atomic(body: Vec<u8>) -> Request {
    Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-ordered", "True")
        .key("p")
        .body(body)
}

fn statuses(answer: &Answer) -> Vec<i32> {
    parse_results(answer).iter().map(|one| one.status).collect()
}

fn post(id: &str, n: u32) -> String {
    format!(r#"{{"id":"{id}","postId":"p","n":{n}}}"#)
}

#[test]
fn a_transactional_batch_is_read_and_answered_in_the_same_form() {
    let (_server, mut client) = start_with_posts();
    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":5}]}"#;
    let answer = client.call(&atomic(batch_body(&[
        operation(CREATE, None, None, Some(&post("a", 1))),
        operation(UPSERT, None, None, Some(&post("b", 1))),
        operation(REPLACE, None, Some("a"), Some(&post("a", 2))),
        operation(PATCH, None, Some("b"), Some(patch)),
        operation(READ, None, Some("b"), None),
        operation(DELETE, None, Some("a"), None),
        operation(CREATE, None, None, Some(&post("c", 1))).minimal(),
    ])));
    let all = parse_results(&answer);
    assert_eq!(
        all.iter().map(|one| one.status).collect::<Vec<_>>(),
        [201, 201, 200, 200, 200, 204, 201]
    );
    assert_eq!(answer.status, 200);
    assert!(
        all.iter()
            .all(|one| one.charge > 0.0 && one.sub_status == 0)
    );
    let body = |at: usize| all[at].body.as_ref().expect("an item");
    assert_eq!(text(body(0), "id"), "a");
    assert_eq!(
        body(4).get("n").map(Json::to_text),
        Some("6".into()),
        "it reads its own writes"
    );
    assert_eq!(
        all[4].etag.as_deref(),
        body(4).get("_etag").and_then(Json::as_str)
    );
    assert!(all[5].body.is_none() && all[6].body.is_none() && all[6].etag.is_some());
    assert_eq!(
        client
            .call(&Request::new("GET", &item("a")).key("p"))
            .status,
        404
    );
    assert_eq!(
        client
            .call(&Request::new("GET", &item("c")).key("p"))
            .status,
        200
    );
}

#[test]
fn a_batch_that_fails_says_which_operation_and_leaves_nothing() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&atomic(batch_body(&[
        operation(CREATE, None, None, Some(&post("a", 1))),
        operation(DELETE, None, Some("a"), None).if_match("\"another\""),
        operation(READ, None, Some("a"), None),
    ])));
    assert_eq!(
        (answer.status, statuses(&answer)),
        (207, vec![424, 412, 424])
    );
    assert_eq!(
        client
            .call(&Request::new("GET", &item("a")).key("p"))
            .status,
        404
    );
}

#[test]
fn bulk_carries_each_operation_out_by_itself() {
    let (_server, mut client) = start_with_posts();
    let key = Some(r#"["p"]"#);
    let request = Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", "0");
    let answer = client.call(&request.body(batch_body(&[
        operation(CREATE, key, None, Some(&post("a", 1))),
        operation(CREATE, key, None, Some(&post("a", 2))),
        operation(
            CREATE,
            Some(r#"["q"]"#),
            None,
            Some(r#"{"id":"a","postId":"q"}"#),
        ),
        operation(CREATE, key, None, Some("no JSON")),
    ])));
    assert_eq!(
        (answer.status, statuses(&answer)),
        (207, vec![201, 409, 201, 400])
    );
}

/// Creates an upsert whose body is binary JSON.
fn binary_upsert(body: &[u8]) -> Operation {
    let mut upsert = operation(UPSERT, None, None, None);
    upsert.mask |= 64;
    upsert.variable.extend(length_prefixed(body));
    upsert
}

#[test]
fn bodies_of_operations_in_binary_json_are_read_like_their_text() {
    let (_server, mut client) = start_with_posts();
    // {"id":"a","postId":"p","n":200}, with `id` from the dictionary.
    let item_a = [
        &[0x80, 0xEA, 0x10, 0x2C, 0x81, b'a', 0x86][..],
        b"postId",
        &[0x81, b'p', 0x81, b'n', 0xC8, 200],
    ]
    .concat();
    let answer = client.call(&atomic(batch_body(&[binary_upsert(&item_a)])));
    let results = parse_results(&answer);
    let body = results[0].body.as_ref().expect("the item");
    assert_eq!((answer.status, results[0].status), (200, 201));
    assert_eq!(body.get("n").and_then(Json::as_i64), Some(200));
}

#[test]
fn bodies_in_binary_json_that_are_broken_or_too_long_are_refused() {
    let (_server, mut client) = start_with_posts();
    let broken = client.call(&atomic(batch_body(&[binary_upsert(&[0x80, 0x12, 0x00])])));
    assert_eq!(broken.status, 400);
    assert!(broken.text().contains("binary JSON"), "{}", broken.text());
    // An array of a text of 60,000 bytes and of 20 references to the text is one body of a hundred.
    let mut repeating = vec![0x80, 0xE3];
    let mut elements = vec![0xC1];
    elements.extend(60_000_u16.to_le_bytes());
    elements.extend(vec![b'x'; 60_000]);
    // The text begins behind the first byte and the head of the array.
    elements.extend([0xC3, 4].repeat(20));
    repeating.extend((elements.len() as u16).to_le_bytes());
    repeating.extend(elements);
    let long = client.call(&atomic(batch_body(&[
        binary_upsert(&repeating),
        binary_upsert(&repeating),
        binary_upsert(&repeating),
        binary_upsert(&repeating),
    ])));
    assert_eq!(long.status, 413, "{}", long.text());
    assert!(long.text().contains("too long together"), "{}", long.text());
}

#[test]
fn an_invalid_row_batch_is_refused_with_the_reason() {
    let (_server, mut client) = start_with_posts();
    let good = batch_body(&[operation(CREATE, None, None, Some(&post("a", 1)))]);
    let mut damaged = good.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    let mut unknown = operation(CREATE, None, None, None);
    unknown.kind = 3;
    let mut hashed = operation(CREATE, None, None, None);
    hashed.mask |= 8;
    hashed.variable.extend(length_prefixed(b"\x01\x02"));
    let mut timed = operation(UPSERT, None, None, Some(&post("a", 1)));
    timed.sparse.extend([7, 11, 5, 0, 0, 0]);
    for (body, message) in [
        (damaged, "record 1 does not have its checksum"),
        (good[..30].to_vec(), "record 1 ends too early"),
        (
            batch_body(&[operation(READ, None, None, None)]),
            "The member 'id' of operation 1",
        ),
        (
            batch_body(&[unknown]),
            "The member 'operationType' of operation 1",
        ),
        (batch_body(&[hashed]), "effectivePartitionKey"),
        (batch_body(&[timed]), "timeToLiveInSeconds"),
        (batch_body(&[]), "Batch request has no operations"),
    ] {
        let answer = client.call(&atomic(body));
        assert_eq!(answer.status, 400, "{message}");
        assert!(answer.text().contains(message), "{}", answer.text());
    }
    assert_eq!(
        client.call(&atomic(good)).status,
        200,
        "the connection stays open"
    );
}
