//! One record as an item that is ready to be sent: checked, with its id, partition key and place in
//! the hash space.
//!
//! The text of the record is sent as it stands, so that numbers keep their digits. An item without
//! an `id` gets one that follows from the name of the file, the number of the record and its text:
//! a second import of the same file gives the same ids.

use super::input::Record;
use crate::fault;
use bytes::Bytes;
use orrery_client::PartitionKey as KeyText;
use orrery_model::json::parse;
use orrery_model::partition_key::{Component, Definition, Epk, murmur3_128};
use orrery_model::{Json, hex, limits};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The rules by which records become items.
#[derive(Debug)]
pub(super) struct Rules {
    /// Partition key definition of the container.
    pub(super) definition: Definition,
    /// True if items without a property of the partition key are imported.
    pub(super) allows_missing_key: bool,
}

/// The place of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordPlace {
    /// Number of the file or partition, from 0.
    pub(super) part: usize,
    /// Record in the part, from 1, counted from `mark`.
    pub(super) number: u64,
    /// Line of the record; 0 without lines.
    pub(super) line: u64,
    /// Position in a part without record numbers.
    pub(super) mark: Option<String>,
}

/// An item that is ready to be sent.
#[derive(Debug)]
pub(super) struct Item {
    /// Place among all records of the import, counted from 1; 0 until the ledger knows the item.
    pub(super) ordinal: u64,
    pub(super) id: String,
    pub(super) key: KeyText,
    pub(super) epk: Epk,
    /// Hash of partition key and id: equal for the same item.
    pub(super) identity: u128,
    /// JSON text of the item.
    pub(super) text: Bytes,
    /// True if the id was made here.
    pub(super) has_made_id: bool,
    /// Name of the file.
    pub(super) name: Arc<str>,
    /// RecordPlace of the record.
    pub(super) place: RecordPlace,
    /// Room of the item in the memory of the import.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

/// The reason for which a record cannot be imported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: String,
    /// Lines that show the place in the record; empty if there is no such place.
    pub(super) mark: String,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        let mark = String::new();
        Self { reason, mark }
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

/// Returns the place of a record in part `part` of the input.
pub(super) fn place_of(part: usize, record: &Record) -> RecordPlace {
    RecordPlace {
        part,
        number: record.number,
        line: record.line,
        mark: record.mark.as_deref().map(str::to_owned),
    }
}

/// Returns the item of a record of the file `name`, which is part `part` of the input.
///
/// # Errors
/// The reason for which the record cannot be imported.
pub(super) fn prepare(
    rules: &Rules,
    name: &Arc<str>,
    part: usize,
    record: &Record,
) -> Result<Item, Fault> {
    if let Some(fault) = &record.fault {
        return Err(fault.as_str().into());
    }
    if let Err(e) = std::str::from_utf8(&record.text) {
        return Err(Fault {
            reason: format!("no UTF-8 at byte {} of the record", e.valid_up_to() + 1),
            mark: fault::marked_byte(&record.text, e.valid_up_to()),
        });
    }
    // The text is sent as it stands. A tree of values takes many times its bytes, so that the size
    // is checked first.
    check_size(record.text.len())?;
    let json = parse(&record.text).map_err(|e| Fault {
        reason: format!("no JSON: {e}"),
        mark: fault::marked_byte(&record.text, e.offset),
    })?;
    let Json::Object(object) = json else {
        return Err("the record is no JSON object".into());
    };
    let (id, has_made_id) = match object.get("id") {
        None => (made_id(name, record), true),
        Some(Json::String(id)) => (id.clone(), false),
        Some(_) => return Err("the id is no string".into()),
    };
    check_id(&id)?;

    // The partition key decides which physical partition gets the item.
    let key = rules
        .definition
        .extract(&object)
        .map_err(|e| e.to_string())?;
    let is_missing = |component: &Component| matches!(component, Component::Undefined);
    if !rules.allows_missing_key
        && !rules.definition.is_system_key()
        && let Some(index) = key.components().iter().position(is_missing)
    {
        let path = rules.definition.paths()[index].join("/");
        return Err(Fault::from(format!(
            "the item has no usable partition key: /{path} is missing, an object or an array \
             (--allow-missing-key imports it)"
        )));
    }
    let key_json = key.to_json().to_text();
    let text = if has_made_id {
        with_id(&record.text, &id)
    } else {
        record.text.clone()
    };
    check_size(text.len())?;
    let epk = rules.definition.epk(&key);
    Ok(Item {
        ordinal: 0,
        identity: identity(&epk, &key_json, &id),
        id,
        key: KeyText::from_json(&key_json),
        epk,
        text: text.into(),
        has_made_id,
        name: name.clone(),
        place: place_of(part, record),
        room: None,
    })
}

/// Returns the hash of partition key and id.
fn identity(epk: &Epk, key_json: &str, id: &str) -> u128 {
    let mut text = epk.as_bytes().to_vec();
    text.push(0);
    text.extend_from_slice(key_json.as_bytes());
    text.push(0);
    text.extend_from_slice(id.as_bytes());
    u128::from_le_bytes(murmur3_128(&text))
}

fn check_size(bytes: usize) -> Result<(), String> {
    let most = limits::ITEM_BYTES;
    match bytes > most {
        true => Err(format!(
            "the item has {bytes} bytes; an item has at most {most}"
        )),
        false => Ok(()),
    }
}

/// Checks the rules for ids that hold in every server.
fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() {
        return Err("the id is empty".into());
    }
    if id.len() > limits::ITEM_ID_BYTES {
        return Err(format!(
            "the id has {} bytes; an id has at most {}",
            id.len(),
            limits::ITEM_ID_BYTES
        ));
    }
    if let Some(found) = id.chars().find(|c| matches!(c, '/' | '\\')) {
        return Err(format!(
            "the id contains '{found}', which the service does not allow"
        ));
    }
    Ok(())
}

/// Returns the id of an item without one: a hash of the place and the text of its record.
fn made_id(name: &str, record: &Record) -> String {
    let mut seed = name.as_bytes().to_vec();
    seed.push(0);
    seed.extend_from_slice(&record.number.to_le_bytes());
    seed.extend_from_slice(&record.text);
    hex::encode(&murmur3_128(&seed))
}

/// Inserts the id as the first member. `text` is a JSON object, `id` needs no escapes.
fn with_id(text: &[u8], id: &str) -> Vec<u8> {
    let rest = text[1..].trim_ascii_start();
    let comma = if rest.starts_with(b"}") { "" } else { "," };
    let mut with_id = format!("{{\"id\":\"{id}\"{comma}").into_bytes();
    with_id.extend_from_slice(rest);
    with_id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let json = parse(br#"{"paths":["/pk"],"kind":"Hash","version":2}"#).unwrap();
        Rules {
            definition: Definition::from_json(&json).unwrap(),
            allows_missing_key: false,
        }
    }

    fn prepared(text: &[u8]) -> Result<Item, Fault> {
        let record = Record {
            number: 3,
            text: text.to_vec(),
            ..Record::default()
        };
        prepare(&rules(), &"a.jsonl".into(), 0, &record)
    }

    #[test]
    fn an_item_keeps_its_text() {
        let text = br#"{"id":"1", "pk":"x","n":9007199254740993.10}"#;
        let item = prepared(text).unwrap();
        assert_eq!(&item.text[..], text);
        assert_eq!((item.id.as_str(), item.key.as_str()), ("1", r#"["x"]"#));
    }

    #[test]
    fn an_item_without_an_id_gets_the_same_one_each_time() {
        let first = prepared(br#"{"pk":"x"}"#).unwrap();
        assert!(first.has_made_id);
        assert_eq!(first.id, prepared(br#"{"pk":"x"}"#).unwrap().id);
        assert_ne!(first.id, prepared(br#"{"pk":"y"}"#).unwrap().id);
        assert_eq!(with_id(b"{ }", "7"), br#"{"id":"7"}"#);
        assert_eq!(with_id(b"{ \"a\":1}", "7"), br#"{"id":"7","a":1}"#);
    }

    #[test]
    fn a_record_that_is_no_item_is_refused_with_the_reason() {
        let long = format!(r#"{{"id":"1","pk":"x","text":"{}"}}"#, "x".repeat(2 << 20));
        let deep = format!("{}1", "[0,".repeat(limits::ITEM_BYTES));
        for (text, part) in [
            (
                &b"{\"id\":\"1\",\"pk\":\"\xff\"}"[..],
                "no UTF-8 at byte 17",
            ),
            (b"{\"id\":\"1\"", "no JSON"),
            (b"[1]", "no JSON object"),
            (br#"{"id":1,"pk":"x"}"#, "no string"),
            (br#"{"id":"","pk":"x"}"#, "empty"),
            (br#"{"id":"a/b","pk":"x"}"#, "'/'"),
            (br#"{"id":"1"}"#, "/pk is missing"),
            (br#"{"id":"1","pk":{}}"#, "/pk is missing"),
            (long.as_bytes(), "at most 2097152"),
            (deep.as_bytes(), "at most 2097152"),
        ] {
            let reason = prepared(text).map(|item| item.id).unwrap_err().reason;
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn the_place_of_a_fault_in_the_text_is_marked() {
        let fault = prepared(br#"{"id":"1","pk" "x"}"#).unwrap_err();
        let lines: Vec<&str> = fault.mark.lines().collect();
        assert_eq!(lines[1], r#"  {"id":"1","pk" "x"}"#, "{fault:?}");
        assert_eq!(lines[2].trim_start(), "^", "{fault:?}");
        assert!(prepared(br#"{"id":"1"}"#).unwrap_err().mark.is_empty());
    }
}
