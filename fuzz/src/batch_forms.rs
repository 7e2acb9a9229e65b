//! Writers of the operations of a batch, in both forms in which clients send them. They share no
//! code with the readers of the gateway.

use bytes::Bytes;
use orrery_engine::request::{
    BatchAction, BatchOperation, Body, IndexingDirective, WriteOperation,
};
use orrery_gateway::fuzzing::batch_operations;
use orrery_model::Json;
use orrery_model::object;

const SEGMENT: u32 = 2_147_473_648;
const RECORD: u32 = 2_147_473_649;
const BATCH_OPERATION: u32 = 2_145_473_648;
/// The first byte of a row.
const ROW: u8 = 0x81;
/// Types of sparse members.
const TRUE: u8 = 3;
const UTF8: u8 = 20;
/// The `resourceType` of items.
const ITEM: i32 = 2;

/// Checks that operations mean the same when they are written in either form and read again.
pub(crate) fn check_both_forms(operations: &[BatchOperation]) {
    let expected: Vec<String> = operations.iter().map(meaning).collect();
    let mut forms = vec![in_rows(operations)];
    forms.extend(in_json(operations));
    for form in forms {
        let read = match batch_operations(&form) {
            Ok(read) => read,
            Err(error) => panic!("{error}: {operations:?}"),
        };
        let read: Vec<String> = read.iter().map(meaning).collect();
        assert_eq!(read, expected);
    }
}

/// Returns an operation as a text that is the same for a body that is parsed and for its text.
fn meaning(operation: &BatchOperation) -> String {
    let mut operation = operation.clone();
    if let Some(Body::Json(json)) = &operation.body {
        operation.body = Some(Body::Text(json.to_text().into()));
    }
    format!("{operation:?}")
}

/// Returns the name of an operation in JSON, its number in rows, and the id that it names.
fn action(operation: &BatchOperation) -> (&'static str, i32, Option<&str>) {
    match &operation.action {
        BatchAction::Read(id) => ("Read", 2, Some(&id[..])),
        BatchAction::Write(write) => match write {
            WriteOperation::Create => ("Create", 0, None),
            WriteOperation::Upsert => ("Upsert", 20, None),
            WriteOperation::Replace(id) => ("Replace", 5, Some(&id[..])),
            WriteOperation::Patch(id) => ("Patch", 1, Some(&id[..])),
            WriteOperation::Delete(id) => ("Delete", 4, Some(&id[..])),
        },
    }
}

fn directive(operation: &BatchOperation) -> Option<&'static str> {
    match operation.indexing {
        IndexingDirective::Default => None,
        IndexingDirective::Include => Some("Include"),
        IndexingDirective::Exclude => Some("Exclude"),
    }
}

fn body(operation: &BatchOperation) -> Option<Bytes> {
    operation.body.as_ref().map(|body| match body {
        Body::Text(text) => text.clone(),
        Body::Json(json) => json.to_text().into(),
    })
}

/// Returns operations as JSON; `None` if a body is no UTF-8.
fn in_json(operations: &[BatchOperation]) -> Option<Bytes> {
    let mut entries = Vec::with_capacity(operations.len());
    for operation in operations {
        let (name, _, id) = action(operation);
        let mut entry = object! { "operationType" => name };
        if let Some(id) = id {
            entry.set("id", id);
        }
        if let Some(key) = &operation.partition_key {
            entry.set("partitionKey", key.to_json().to_text());
        }
        let texts = [
            ("ifMatch", operation.if_match.as_deref()),
            ("ifNoneMatch", operation.if_none_match.as_deref()),
            ("indexingDirective", directive(operation)),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                entry.set(name, text);
            }
        }
        if operation.minimal {
            entry.set("minimalReturnPreference", true);
        }
        if let Some(body) = body(operation) {
            let text = String::from_utf8(body.to_vec()).ok()?;
            entry.set("resourceBody", text);
        }
        entries.push(Json::Object(entry));
    }
    Some(Json::Array(entries).to_text().into())
}

/// Returns operations in HybridRow form.
fn in_rows(operations: &[BatchOperation]) -> Bytes {
    let rows: Vec<Vec<u8>> = operations.iter().map(row).collect();
    stream(rows.iter().map(Vec::as_slice))
}

/// Returns the stream of rows, each with its checksum.
pub(crate) fn stream<'a>(rows: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut stream = vec![ROW];
    stream.extend(SEGMENT.to_le_bytes());
    stream.push(1);
    stream.extend(10u32.to_le_bytes());
    for row in rows {
        stream.push(ROW);
        stream.extend(RECORD.to_le_bytes());
        stream.extend((row.len() as u32).to_le_bytes());
        stream.extend(crc32fast::hash(row).to_le_bytes());
        stream.extend(row);
    }
    stream.into()
}

fn row(operation: &BatchOperation) -> Vec<u8> {
    let (_, number, id) = action(operation);
    let key = operation.partition_key.as_ref();
    let key = key.map(|key| key.to_json().to_text());
    let body = body(operation);
    // Bits 3 and 5 are of members that the gateway refuses.
    let mut mask = 0b11;
    let mut variable: Vec<&[u8]> = Vec::new();
    let members = [
        (2, key.as_ref().map(|key| key.as_bytes())),
        (4, id.map(str::as_bytes)),
        (6, body.as_deref()),
    ];
    for (bit, bytes) in members {
        if let Some(bytes) = bytes {
            mask |= 1u8 << bit;
            variable.push(bytes);
        }
    }

    let mut row = vec![ROW];
    row.extend(BATCH_OPERATION.to_le_bytes());
    row.push(mask);
    row.extend(number.to_le_bytes());
    row.extend(ITEM.to_le_bytes());
    for bytes in variable {
        put_bytes(bytes, &mut row);
    }
    let sparse = [
        (8, directive(operation)),
        (9, operation.if_match.as_deref()),
        (10, operation.if_none_match.as_deref()),
    ];
    for (path, text) in sparse {
        if let Some(text) = text {
            row.extend([UTF8, path]);
            put_bytes(text.as_bytes(), &mut row);
        }
    }
    if operation.minimal {
        row.extend([TRUE, 12]);
    }
    row
}

/// Appends bytes behind their length as a varint.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
}
