//! The item row: the stored form of an item, and the text that clients read.
//!
//! ```text
//! version·1 flags·1 lsn·8 sequence·4 ts·8 etag·8 ttl·4 epk length·1 epk  body
//! ```
//!
//! The body is the compact JSON of the item without system properties. The system properties follow
//! from the header and are appended when the item is answered, so a point read copies bytes and
//! parses nothing. A row longer than the store's largest value goes on in further chunks, see
//! [`split`].

use crate::errors::damaged;
use crate::partition::keys::{self, ItemNumber};
use crate::request::IndexingDirective;
use crate::request::properties::{Property, is_server_set, server_set, stored};
use bytes::Bytes;
use orrery_model::partition_key::{Epk, KeyAddress};
use orrery_model::rid::ChildKind;
use orrery_model::{Object, Result, Rid};

/// The properties of an item that mean something to the server. Every other property is the
/// client's.
const PROPERTIES: &[Property] = &[
    stored("id", "kept: text of 1 to 1,023 bytes without `\\`"),
    stored("ttl", "kept: -1, or 1 to 2,147,483,647 seconds"),
    server_set("_rid", "the server's own: a client's value is dropped"),
    server_set("_self", "the server's own: a client's value is dropped"),
    server_set("_etag", "the server's own: a client's value is dropped"),
    server_set(
        "_attachments",
        "the server's own: a client's value is dropped",
    ),
    server_set("_ts", "the server's own: a client's value is dropped"),
];

/// Returns true if the server owns this property of items, so that a client's value is dropped.
pub(crate) fn is_system(name: &str) -> bool {
    name.starts_with('_') && is_server_set(PROPERTIES, name)
}

const VERSION: u8 = 1;
/// Bits of the flags: the indexing directive of the last write, if it was not the default.
const EXCLUDED: u8 = 1;
const INCLUDED: u8 = 2;
/// Bit of the flags: the item was stored without `_self` and `_attachments`.
const NO_LINKS: u8 = 4;
const HEADER: usize = 35;
/// The place of the second in a row.
pub(crate) const TS_AT: usize = 14;
/// Bytes of a row in the first value and in each further chunk. The store's limit is 64 KiB.
const CHUNK: usize = 60 * 1024;

/// The LSN of a row that is not committed yet. It is higher than every other LSN.
pub(crate) const UNCOMMITTED: u64 = u64::MAX;

/// The stored form of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// LSN of the last write.
    pub lsn: u64,
    /// Sequence number among the items that one commit wrote.
    pub sequence: u32,
    /// `_ts`: second of the last write.
    pub ts: u64,
    /// The random part of `_etag`.
    pub etag: u64,
    /// `ttl` of the item in seconds: -1 for never, 0 if the item has none.
    pub ttl: i32,
    /// The indexing directive of the last write.
    pub indexing: IndexingDirective,
    /// True if the last write stored the item without `_self` and `_attachments`: an answer may
    /// leave them out.
    pub has_no_links: bool,
    /// The effective partition key.
    pub epk: Epk,
    /// Compact JSON, an object, without system properties.
    pub body: Bytes,
}

/// Returns the second of a row from its first value.
///
/// # Errors
/// 500 for bytes that are no row.
pub(crate) fn ts_of(first: &[u8]) -> Result<u64> {
    let ts = first.get(TS_AT..TS_AT + 8).and_then(keys::number);
    ts.ok_or_else(|| damaged("an item row"))
}

impl Row {
    /// Encodes the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let epk = self.epk.as_bytes();
        let mut out = Vec::with_capacity(HEADER + epk.len() + self.body.len());
        out.push(VERSION);
        let mut flags = match self.indexing {
            IndexingDirective::Default => 0,
            IndexingDirective::Include => INCLUDED,
            IndexingDirective::Exclude => EXCLUDED,
        };
        if self.has_no_links {
            flags |= NO_LINKS;
        }
        out.push(flags);
        out.extend_from_slice(&self.lsn.to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.ts.to_be_bytes());
        out.extend_from_slice(&self.etag.to_be_bytes());
        out.extend_from_slice(&self.ttl.to_be_bytes());
        out.push(epk.len() as u8);
        out.extend_from_slice(epk);
        out.extend_from_slice(&self.body);
        out
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// 500 for bytes that are no row: the data file is damaged.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Row> {
        Self::read(bytes).ok_or_else(|| damaged("an item row"))
    }

    fn read(bytes: &Bytes) -> Option<Row> {
        let number = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if *bytes.first()? != VERSION {
            return None;
        }
        let flags = *bytes.get(1)?;
        let indexing = match (flags & EXCLUDED != 0, flags & INCLUDED != 0) {
            (true, _) => IndexingDirective::Exclude,
            (false, true) => IndexingDirective::Include,
            (false, false) => IndexingDirective::Default,
        };
        let epk_end = HEADER + usize::from(*bytes.get(HEADER - 1)?);
        Some(Row {
            lsn: number(2)?,
            sequence: u32::from_be_bytes(bytes.get(10..14)?.try_into().ok()?),
            ts: number(TS_AT)?,
            etag: number(22)?,
            ttl: i32::from_be_bytes(bytes.get(30..34)?.try_into().ok()?),
            indexing,
            has_no_links: flags & NO_LINKS != 0,
            epk: Epk::from_bytes(bytes.get(HEADER..epk_end)?),
            body: bytes.slice(epk_end..),
        })
    }

    /// Returns true if the item belongs to a logical partition.
    pub(crate) fn is_of(&self, address: &KeyAddress) -> bool {
        address.has(&self.epk, &self.body)
    }

    /// Returns the seconds that the item lives in a container with this `defaultTtl`, or `None` if
    /// the item never expires.
    pub(crate) fn ttl_in(&self, default_ttl: Option<i32>) -> Option<u64> {
        let default_ttl = default_ttl?;
        let ttl = if self.ttl == 0 { default_ttl } else { self.ttl };
        u64::try_from(ttl).ok()
    }

    /// Returns `_etag` with its quotes.
    pub(crate) fn etag_text(&self) -> String {
        format!("\"{}\"", self.etag_inner())
    }

    fn etag_inner(&self) -> String {
        let e = self.etag;
        format!(
            "{:08x}-{:04x}-{:04x}-0000-{:08x}0000",
            e >> 32,
            e >> 16 & 0xFFFF,
            e & 0xFFFF,
            self.ts & 0xFFFF_FFFF
        )
    }

    /// Returns the text that clients read: the body and the system properties.
    pub(crate) fn text(&self, container: Rid, number: ItemNumber) -> Bytes {
        self.text_with(container, number, true, None)
    }

    /// Returns the text for a client that wants no links in items that were stored so.
    pub(crate) fn text_for(
        &self,
        container: Rid,
        number: ItemNumber,
        leaves_out_links: bool,
    ) -> Bytes {
        let has_links = !(leaves_out_links && self.has_no_links);
        self.text_with(container, number, has_links, None)
    }

    /// Returns the text with `_lsn`, as the change feed shows it.
    pub(crate) fn feed_text(&self, container: Rid, number: ItemNumber) -> Bytes {
        self.text_with(container, number, true, Some(self.lsn))
    }

    fn text_with(
        &self,
        container: Rid,
        number: ItemNumber,
        has_links: bool,
        lsn: Option<u64>,
    ) -> Bytes {
        let rid = Rid::child(container, ChildKind::Item, number);
        let mut out = Vec::with_capacity(self.body.len() + 256);
        out.extend_from_slice(self.body.strip_suffix(b"}").unwrap_or(&self.body));
        if out.len() > 1 {
            out.push(b',');
        }
        let (etag, ts) = (self.etag_inner(), self.ts);
        let system = if has_links {
            let database = container.database_part();
            format!(
                "\"_rid\":\"{rid}\",\"_self\":\"dbs/{database}/colls/{container}/docs/{rid}/\",\
                 \"_etag\":\"\\\"{etag}\\\"\",\"_attachments\":\"attachments/\",\"_ts\":{ts}"
            )
        } else {
            format!("\"_rid\":\"{rid}\",\"_etag\":\"\\\"{etag}\\\"\",\"_ts\":{ts}")
        };
        out.extend_from_slice(system.as_bytes());
        if let Some(lsn) = lsn {
            out.extend_from_slice(format!(",\"_lsn\":{lsn}").as_bytes());
        }
        out.push(b'}');
        Bytes::from(out)
    }

    /// Returns the bytes of the text that clients read: the size that is charged and limited.
    pub(crate) fn size(&self) -> usize {
        // The system properties have a fixed length, except for the digits of `_ts`.
        const SYSTEM: usize = 194;
        let comma = usize::from(self.body.len() > "{}".len());
        self.body.len() + comma + SYSTEM + self.ts.checked_ilog10().unwrap_or(0) as usize + 1
    }
}

/// Returns the members of an item as compact JSON, without system properties.
pub(crate) fn body_text(item: &Object) -> Bytes {
    let mut out = vec![b'{'];
    for (name, value) in item.iter().filter(|(name, _)| !is_system(name)) {
        if out.len() > 1 {
            out.push(b',');
        }
        orrery_model::json::write_string(name, &mut out);
        out.push(b':');
        orrery_model::json::write_json(value, &mut out);
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Returns the size in bytes that an item has once it is stored, system properties included.
pub(crate) fn size_once_stored(item: &Object) -> usize {
    const SYSTEM_PROPERTIES: usize = 205;
    body_text(item).len() + SYSTEM_PROPERTIES
}

/// Cuts an encoded row into the first value and the further chunks.
pub(crate) fn split(encoded: Vec<u8>) -> (Vec<u8>, Vec<Vec<u8>>) {
    if encoded.len() <= CHUNK {
        return (encoded, Vec::new());
    }
    let rest = encoded[CHUNK..].chunks(CHUNK).map(<[u8]>::to_vec).collect();
    (encoded[..CHUNK].to_vec(), rest)
}

/// Returns the number of further chunks of a row of `length` encoded bytes.
pub(crate) fn chunks_of(length: usize) -> u32 {
    (length.saturating_sub(1) / CHUNK) as u32
}

/// Returns true if a first value may have chunks after it.
pub(crate) fn may_go_on(first: &[u8]) -> bool {
    first.len() == CHUNK
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn row(body: &str) -> Row {
        Row {
            lsn: 7,
            sequence: 1,
            ts: 1_767_225_600,
            etag: 0x1234_5678_9ABC_DEF0,
            ttl: -1,
            indexing: IndexingDirective::Exclude,
            has_no_links: true,
            epk: Epk::from_hex("0102").expect("hex"),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    #[test]
    fn rows_read_back() {
        let row = row(r#"{"id":"a"}"#);
        assert_eq!(Row::decode(&Bytes::from(row.encode())).expect("a row"), row);
    }

    #[test]
    fn damaged_rows_are_an_error_at_every_cut() {
        let bytes = Bytes::from(row("").encode());
        for end in 0..bytes.len() {
            assert!(
                Row::decode(&bytes.slice(..end)).is_err(),
                "{end} bytes were taken for a row"
            );
        }
    }

    #[test]
    fn the_text_is_the_body_with_system_properties_and_has_the_size_that_is_charged() {
        let container = Rid::container(Rid::database(1), 1);
        for body in [r#"{"id":"a","x":1.0}"#, "{}"] {
            let row = row(body);
            let text = row.text(container, 5);
            let json = parse(&text).expect("JSON");
            assert_eq!(
                json.get("_etag").and_then(orrery_model::Json::as_str),
                Some(row.etag_text().as_str())
            );
            assert_eq!(
                json.get("_rid").and_then(orrery_model::Json::as_str),
                Some("AAAAAYAAAAEFAAAAAAAAAA==")
            );
            assert_eq!(text.len(), row.size(), "{}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn only_an_item_that_was_stored_without_links_is_answered_without_them() {
        let container = Rid::container(Rid::database(1), 1);
        for (is_stored_so, is_asked_so) in [(true, true), (true, false), (false, true)] {
            let mut row = row(r#"{"id":"a"}"#);
            row.has_no_links = is_stored_so;
            let text = row.text_for(container, 5, is_asked_so);
            let json = parse(&text).expect("JSON");
            let has_links = !(is_stored_so && is_asked_so);
            for (name, is_there) in [
                ("_self", has_links),
                ("_attachments", has_links),
                ("_rid", true),
                ("_etag", true),
                ("_ts", true),
            ] {
                assert_eq!(json.get(name).is_some(), is_there, "{name}");
            }
            assert_eq!(row.text(container, 5).len(), row.size());
        }
    }

    #[test]
    fn a_clients_system_properties_are_dropped() {
        let item = parse(br#"{"id":"a","_ts":1,"_mine":2,"_etag":"x"}"#).expect("JSON");
        assert_eq!(
            &body_text(item.as_object().expect("object"))[..],
            br#"{"id":"a","_mine":2}"#
        );
    }

    #[test]
    fn long_rows_are_cut_and_come_together_again() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5] {
            let encoded: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let (first, rest) = split(encoded.clone());
            assert_eq!(rest.len() as u32, chunks_of(length), "{length}");
            assert_eq!([vec![first], rest].concat().concat(), encoded);
        }
    }
}
