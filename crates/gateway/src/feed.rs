//! The envelope of feeds and queries: `{"_rid":…,"Documents":[…],"_count":n}`.

use bytes::Bytes;
use orrery_engine::request::{PlainKind, ScriptKind};
use orrery_model::Rid;

/// The member that holds the rows; fixed for each resource type, and clients look for exactly it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Databases,
    Containers,
    Items,
    Ranges,
    Offers,
    Conflicts,
    Scripts(ScriptKind),
    Plains(PlainKind),
}

impl Rows {
    fn member(self) -> &'static str {
        match self {
            Rows::Databases => "Databases",
            Rows::Containers => "DocumentCollections",
            Rows::Items => "Documents",
            Rows::Ranges => "PartitionKeyRanges",
            Rows::Offers => "Offers",
            Rows::Conflicts => "Conflicts",
            Rows::Plains(PlainKind::User) => "Users",
            Rows::Plains(PlainKind::Permission) => "Permissions",
            Rows::Plains(PlainKind::EncryptionKey) => "ClientEncryptionKeys",
            Rows::Scripts(ScriptKind::Procedure) => "StoredProcedures",
            Rows::Scripts(ScriptKind::Trigger) => "Triggers",
            Rows::Scripts(ScriptKind::Function) => "UserDefinedFunctions",
        }
    }
}

/// Writes the envelope around `rows`, which are JSON texts. The feeds of the account have no `owner`.
pub(crate) fn envelope(owner: Option<Rid>, kind: Rows, rows: &[Bytes]) -> Bytes {
    let rows_bytes: usize = rows.iter().map(|row| row.len() + 1).sum();
    let mut text = Vec::with_capacity(rows_bytes + 96);
    text.extend_from_slice(b"{\"_rid\":\"");
    if let Some(owner) = owner {
        text.extend_from_slice(owner.to_string().as_bytes());
    }
    text.extend_from_slice(b"\",\"");
    text.extend_from_slice(kind.member().as_bytes());
    text.extend_from_slice(b"\":[");
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            text.push(b',');
        }
        text.extend_from_slice(row);
    }
    text.extend_from_slice(format!("],\"_count\":{}}}", rows.len()).as_bytes());
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_envelope_of_their_type() {
        let rid = Rid::parse("XP0mAJ3H-AA=");
        let rows = [Bytes::from("{\"id\":\"a\"}"), Bytes::from("1")];
        let text = envelope(rid, Rows::Items, &rows);
        assert_eq!(
            text,
            "{\"_rid\":\"XP0mAJ3H-AA=\",\"Documents\":[{\"id\":\"a\"},1],\"_count\":2}"
        );
        assert_eq!(
            envelope(None, Rows::Databases, &[]),
            "{\"_rid\":\"\",\"Databases\":[],\"_count\":0}"
        );
        assert!(
            envelope(None, Rows::Scripts(ScriptKind::Function), &[])
                .starts_with(b"{\"_rid\":\"\",\"UserDefined")
        );
    }
}
