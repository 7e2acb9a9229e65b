//! The JSON object around the rows of feeds and queries: `{"_rid":…,"Documents":[…],"_count":n}`.

use bytes::Bytes;
use orrery_engine::request::{AccessResourceKind, ScriptKind};
use orrery_model::Rid;

/// The type of the resources in a feed. It determines the name of the member with the rows, which
/// clients look up by its exact name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedKind {
    Databases,
    Containers,
    Items,
    Ranges,
    Offers,
    Conflicts,
    Scripts(ScriptKind),
    AccessResources(AccessResourceKind),
}

impl FeedKind {
    fn member(self) -> &'static str {
        match self {
            FeedKind::Databases => "Databases",
            FeedKind::Containers => "DocumentCollections",
            FeedKind::Items => "Documents",
            FeedKind::Ranges => "PartitionKeyRanges",
            FeedKind::Offers => "Offers",
            FeedKind::Conflicts => "Conflicts",
            FeedKind::AccessResources(AccessResourceKind::User) => "Users",
            FeedKind::AccessResources(AccessResourceKind::Permission) => "Permissions",
            FeedKind::AccessResources(AccessResourceKind::EncryptionKey) => "ClientEncryptionKeys",
            FeedKind::Scripts(ScriptKind::Procedure) => "StoredProcedures",
            FeedKind::Scripts(ScriptKind::Trigger) => "Triggers",
            FeedKind::Scripts(ScriptKind::Function) => "UserDefinedFunctions",
        }
    }
}

/// Returns the object around `rows`, each of which is a JSON text. Feeds of the account have no
/// `owner`.
pub(crate) fn envelope(owner: Option<Rid>, kind: FeedKind, rows: &[Bytes]) -> Bytes {
    let row_bytes: usize = rows.iter().map(|row| row.len() + 1).sum();
    let mut text = Vec::with_capacity(row_bytes + 96);
    text.extend_from_slice(b"{\"_rid\":\"");
    if let Some(owner) = owner {
        text.extend_from_slice(owner.to_string().as_bytes());
    }
    text.extend_from_slice(b"\",\"");
    text.extend_from_slice(kind.member().as_bytes());
    text.extend_from_slice(b"\":[");
    for (n, row) in rows.iter().enumerate() {
        if n > 0 {
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
    fn rows_are_in_the_member_of_their_type() {
        let rid = Rid::parse("XP0mAJ3H-AA=");
        let rows = [Bytes::from("{\"id\":\"a\"}"), Bytes::from("1")];
        let text = envelope(rid, FeedKind::Items, &rows);
        assert_eq!(
            text,
            "{\"_rid\":\"XP0mAJ3H-AA=\",\"Documents\":[{\"id\":\"a\"},1],\"_count\":2}"
        );
        assert_eq!(
            envelope(None, FeedKind::Databases, &[]),
            "{\"_rid\":\"\",\"Databases\":[],\"_count\":0}"
        );
        assert!(
            envelope(None, FeedKind::Scripts(ScriptKind::Function), &[])
                .starts_with(b"{\"_rid\":\"\",\"UserDefined")
        );
    }
}
