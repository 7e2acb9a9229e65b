//! The stored form of the resources of the catalog.
//!
//! A record is one JSON object:
//!
//! ```text
//! {"kind":1,"rid":"…","ts":…,"etag":"16 hex digits","body":{…},"kept":{…}}
//! ```

use super::parse_stored;
use crate::errors::{damaged, etag_differs};
use crate::request::etag_matches;
use bytes::Bytes;
use orrery_model::{Error, Json, Object, Result, Rid, object};

/// The kinds of records. The number of an owner is lower than those of its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A database.
    Database = 0,
    /// A container.
    Container = 1,
    /// A stored procedure.
    Procedure = 2,
    /// A trigger.
    Trigger = 3,
    /// A user-defined function.
    Function = 4,
    /// An offer.
    Offer = 5,
    /// A user.
    User = 6,
    /// A permission of a user.
    Permission = 7,
    /// A client encryption key.
    EncryptionKey = 8,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    const ALL: [Kind; 9] = [
        Kind::Database,
        Kind::Container,
        Kind::Procedure,
        Kind::Trigger,
        Kind::Function,
        Kind::Offer,
        Kind::User,
        Kind::Permission,
        Kind::EncryptionKey,
    ];
}

/// The system properties that every resource has.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// The resource id, `_rid`.
    pub rid: Rid,
    /// The second of the last change since 1970, `_ts`.
    pub ts: u64,
    /// The random number in `_etag`.
    pub etag: u64,
}

impl Meta {
    /// Returns `_etag` with its quotes.
    pub fn etag_text(&self) -> String {
        let e = self.etag;
        format!(
            "\"{:08x}-{:04x}-{:04x}-0000-{:08x}0000\"",
            e >> 32,
            e >> 16 & 0xFFFF,
            e & 0xFFFF,
            self.ts & 0xFFFF_FFFF
        )
    }

    /// Checks the `If-Match` header of a request that changes the resource.
    ///
    /// # Errors
    /// 412 if the header names another etag.
    pub fn check_if_match(&self, if_match: Option<&str>) -> Result<()> {
        match if_match {
            Some(wanted) if !etag_matches(wanted, &self.etag_text()) => {
                Err(etag_differs(wanted, &self.etag_text()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the JSON text of a resource: `body`, then the system properties of all resources
    /// with those of its kind (`kind_properties`) before `_ts`.
    pub fn text(&self, body: &Object, self_link: &str, kind_properties: &[(&str, &str)]) -> Bytes {
        let mut shown = body.clone();
        shown.set("_rid", self.rid.to_string());
        shown.set("_self", self_link);
        shown.set("_etag", self.etag_text());
        for (name, value) in kind_properties {
            shown.set(*name, *value);
        }
        shown.set("_ts", self.ts);
        Bytes::from(Json::Object(shown).to_text())
    }
}

/// One resource as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The kind of the resource.
    pub kind: Kind,
    /// The system properties of the resource.
    pub meta: Meta,
    /// The members that the client set.
    pub body: Object,
    /// Members that only the engine reads; `kept` on disk.
    pub internal: Object,
}

/// Returns the key of a record.
pub(crate) fn key(kind: Kind, rid: Rid) -> Vec<u8> {
    [&[super::RECORD, kind as u8][..], rid.as_bytes()].concat()
}

impl Record {
    /// Returns the key of this record.
    pub(crate) fn key(&self) -> Vec<u8> {
        key(self.kind, self.meta.rid)
    }

    /// Returns the value of this record.
    pub(crate) fn text(&self) -> Vec<u8> {
        let record = object! {
            "kind" => self.kind as i64,
            "rid" => self.meta.rid.to_string(),
            "ts" => self.meta.ts,
            "etag" => format!("{:016x}", self.meta.etag),
            "body" => self.body.clone(),
            "kept" => self.internal.clone(),
        };
        Json::Object(record).to_text().into_bytes()
    }

    /// Reads the value of a record.
    ///
    /// # Errors
    /// 500 if the value is damaged.
    pub(crate) fn read(value: &[u8]) -> Result<Record> {
        let json = parse_stored(value)?;
        Self::from_json(&json).ok_or_else(Self::damaged)
    }

    fn from_json(json: &Json) -> Option<Record> {
        let kind = json.get("kind")?.as_i64()?;
        Some(Record {
            kind: *Kind::ALL.get(usize::try_from(kind).ok()?)?,
            meta: Meta {
                rid: Rid::parse(json.get("rid")?.as_str()?)?,
                ts: json.get("ts").and_then(as_u64)?,
                etag: u64::from_str_radix(json.get("etag")?.as_str()?, 16).ok()?,
            },
            body: json.get("body")?.as_object()?.clone(),
            internal: json.get("kept")?.as_object()?.clone(),
        })
    }

    /// Returns the millisecond since 1970 in which the resource was created, of kinds that store
    /// it.
    pub(crate) fn created(&self) -> Option<u64> {
        self.internal.get("created").and_then(as_u64)
    }

    /// Returns the error for a damaged row of the catalog.
    pub(crate) fn damaged() -> Error {
        damaged("a record of the catalog")
    }
}

/// Returns a stored number that is not negative.
pub(crate) fn as_u64(json: &Json) -> Option<u64> {
    u64::try_from(json.as_i64()?).ok()
}

/// Returns a stored number that is not negative and fits in 32 bits.
pub(crate) fn as_u32(json: &Json) -> Option<u32> {
    u32::try_from(json.as_i64()?).ok()
}
