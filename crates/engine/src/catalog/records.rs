//! The stored form of a catalog entry.

use super::own_json;
use bytes::Bytes;
use orrery_model::{Error, Json, Object, Result, Rid, object};

/// Kinds of record, owners before what they own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
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

/// What every resource has.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// `_rid`
    pub rid: Rid,
    /// `_ts`: second of the last change.
    pub ts: u64,
    /// What `_etag` is made of.
    pub etag: u64,
}

impl Meta {
    /// `_etag`, with its quotes.
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

    /// A resource's text: its members, then the system properties every resource has, then those of its kind.
    pub fn text(&self, body: &Object, self_link: &str, own: &[(&str, &str)]) -> Bytes {
        let mut shown = body.clone();
        shown.set("_rid", self.rid.to_string());
        shown.set("_self", self_link);
        shown.set("_etag", self.etag_text());
        for (name, value) in own {
            shown.set(*name, *value);
        }
        shown.set("_ts", self.ts);
        Bytes::from(Json::Object(shown).to_text())
    }
}

/// A catalog entry.
#[derive(Clone, Debug)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// Ids and times.
    pub meta: Meta,
    /// The resource's own members.
    pub body: Object,
    /// What the engine keeps beside them.
    pub kept: Object,
}

/// The key of a record.
pub fn key(kind: Kind, rid: Rid) -> Vec<u8> {
    [&[super::RECORD, kind as u8][..], rid.as_bytes()].concat()
}

impl Record {
    /// Its key.
    pub fn key(&self) -> Vec<u8> {
        key(self.kind, self.meta.rid)
    }

    /// Its value.
    pub fn text(&self) -> Vec<u8> {
        let record = object! {
            "kind" => self.kind as i64,
            "rid" => self.meta.rid.to_string(),
            "ts" => self.meta.ts,
            "etag" => format!("{:016x}", self.meta.etag),
            "body" => self.body.clone(),
            "kept" => self.kept.clone(),
        };
        Json::Object(record).to_text().into_bytes()
    }

    /// Reads a value.
    ///
    /// # Errors
    /// 500 if it is damaged.
    pub fn read(text: &[u8]) -> Result<Record> {
        let json = own_json(text)?;
        Self::from_json(&json).ok_or_else(Self::damaged)
    }

    fn from_json(json: &Json) -> Option<Record> {
        let kind = json.get("kind")?.as_i64()?;
        Some(Record {
            kind: *Kind::ALL.get(usize::try_from(kind).ok()?)?,
            meta: Meta {
                rid: Rid::parse(json.get("rid")?.as_str()?)?,
                ts: u64::try_from(json.get("ts")?.as_i64()?).ok()?,
                etag: u64::from_str_radix(json.get("etag")?.as_str()?, 16).ok()?,
            },
            body: json.get("body")?.as_object()?.clone(),
            kept: json.get("kept")?.as_object()?.clone(),
        })
    }

    /// The error for a record that makes no sense.
    pub fn damaged() -> Error {
        Error::internal("a record of the catalog is damaged")
    }
}
