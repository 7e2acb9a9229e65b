//! Resource ids: the `_rid` of every resource, as bytes and as the text in responses.
//!
//! ```text
//! database   dddd                      4 bytes
//! container  dddd cccc                 8 bytes; bit 0x80 of the fifth byte is set
//! child      dddd cccc nnnnnnnn       16 bytes; the number is little-endian, its top nibble is the
//!                                     kind of child
//! user       dddd uuuu                 8 bytes; bit 0x80 of the fifth byte is clear, the number is
//!                                     not 0
//! permission dddd uuuu pppppppp       16 bytes
//! client encryption key
//!            dddd 0000 kkkk 2000      16 bytes
//! offer      ooo                       3 bytes
//! ```
//! The text is base64 with `-` instead of `/`, always padded. Clients derive the id of a database
//! from the id of its container, and break ties of ORDER BY by the numbers of items. Numbers
//! therefore increase and are never reused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A resource id of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rid {
    bytes: [u8; 16],
    length: u8,
}

/// The kind of a child of a container. The value is the top nibble of the last byte of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// An item.
    Item = 0x0,
    /// A partition key range.
    Range = 0x5,
    /// A user-defined function.
    Function = 0x6,
    /// A trigger.
    Trigger = 0x7,
    /// A stored procedure.
    Procedure = 0x8,
}

/// Exclusive upper bound for the numbers of items and other children of a container.
pub const CHILD_NUMBERS: u64 = 1 << 60;

impl Rid {
    /// Creates the id of a database from its number.
    pub fn database(number: u32) -> Self {
        Self::from_parts(&[&number.to_be_bytes()])
    }

    /// Creates the id of a container from the id of its database and its own number.
    pub fn container(database: Rid, number: u32) -> Self {
        Self::from_parts(&[&database.bytes[..4], &(number | 0x8000_0000).to_be_bytes()])
    }

    /// Creates the id of a child of a container. `number` must be below [`CHILD_NUMBERS`].
    pub fn child(container: Rid, kind: ChildKind, number: u64) -> Self {
        debug_assert!(number < CHILD_NUMBERS);
        let tagged = (number & (CHILD_NUMBERS - 1)) | (kind as u64) << 60;
        Self::from_parts(&[&container.bytes[..8], &tagged.to_le_bytes()])
    }

    /// Creates the id of a user from the id of its database and its own number. A clear bit 0x80 of
    /// the fifth byte distinguishes the id from that of a container.
    pub fn user(database: Rid, number: u32) -> Self {
        let number = (number & 0x7FFF_FFFF).max(1); // 0 marks client encryption keys
        Self::from_parts(&[&database.bytes[..4], &number.to_be_bytes()])
    }

    /// Creates the id of a permission from the id of its user and its own number.
    pub fn permission(user: Rid, number: u64) -> Self {
        Self::from_parts(&[&user.bytes[..8], &number.to_be_bytes()])
    }

    /// Creates the id of a client encryption key from the id of its database and its own number.
    pub fn encryption_key(database: Rid, number: u32) -> Self {
        const KIND: u32 = 2;
        Self::from_parts(&[
            &database.bytes[..4],
            &[0; 4],
            &number.to_be_bytes(),
            &KIND.to_le_bytes(),
        ])
    }

    /// Creates the id of an offer from its number, of which three bytes are used.
    pub fn offer(number: u32) -> Self {
        Self::from_parts(&[&number.to_be_bytes()[1..]])
    }

    fn from_parts(parts: &[&[u8]]) -> Self {
        let (mut bytes, mut length) = ([0; 16], 0);
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        Rid {
            bytes,
            length: length as u8,
        }
    }

    /// Parses the text form; `None` if the text is not a resource id.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > 24 || text.contains('/') {
            return None;
        }
        let bytes = STANDARD.decode(text.replace('-', "/")).ok()?;
        matches!(bytes.len(), 3 | 4 | 8 | 16).then(|| Self::from_parts(&[&bytes]))
    }

    /// Returns the 3, 4, 8 or 16 bytes of the id.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Restores an id from its bytes; `None` if no kind of id has this length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        matches!(bytes.len(), 3 | 4 | 8 | 16).then(|| Self::from_parts(&[bytes]))
    }

    /// Returns true for the id of a database.
    pub fn is_database(&self) -> bool {
        self.length == 4
    }

    /// Returns true for the id of a container.
    pub fn is_container(&self) -> bool {
        self.length == 8 && self.bytes[4] & 0x80 != 0
    }

    /// Returns true for the id of a user.
    pub fn is_user(&self) -> bool {
        self.length == 8 && self.bytes[4] & 0x80 == 0
    }

    /// Returns true for the id of a permission.
    pub fn is_permission(&self) -> bool {
        self.length == 16 && self.bytes[4] & 0x80 == 0 && self.bytes[4..8] != [0; 4]
    }

    /// Returns true for the id of a client encryption key.
    pub fn is_encryption_key(&self) -> bool {
        self.length == 16 && self.bytes[4..8] == [0; 4]
    }

    /// Returns the id of the user of a permission.
    pub fn user_part(&self) -> Rid {
        Self::from_parts(&[&self.bytes[..8]])
    }

    /// Returns the id of the database that owns the resource.
    pub fn database_part(&self) -> Rid {
        Self::from_parts(&[&self.bytes[..4]])
    }

    /// Returns the id of the container that owns a child.
    pub fn container_part(&self) -> Rid {
        Self::from_parts(&[&self.bytes[..8]])
    }

    /// Returns kind and number of a child of a container; `None` for other ids.
    pub fn child_number(&self) -> Option<(ChildKind, u64)> {
        if self.length != 16 || self.bytes[4] & 0x80 == 0 {
            return None;
        }
        let tagged = u64::from_le_bytes(self.bytes[8..16].try_into().expect("eight bytes"));
        let kinds = [
            ChildKind::Item,
            ChildKind::Range,
            ChildKind::Function,
            ChildKind::Trigger,
            ChildKind::Procedure,
        ];
        let kind = kinds.into_iter().find(|k| *k as u64 == tagged >> 60)?;
        Some((kind, tagged & (CHILD_NUMBERS - 1)))
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.as_bytes()).replace('/', "-"))
    }
}

impl fmt::Debug for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples come from the published description of the protocol.
    #[test]
    fn published_ids_round_trip() {
        let container = Rid::parse("hy5tAOrJ4DU=").expect("a container");
        assert!(container.is_container());
        let child = |kind| Rid::child(container, kind, 1).to_string();
        assert_eq!(child(ChildKind::Item), "hy5tAOrJ4DUBAAAAAAAAAA==");
        assert_eq!(child(ChildKind::Range), "hy5tAOrJ4DUBAAAAAAAAUA==");
        assert_eq!(child(ChildKind::Function), "hy5tAOrJ4DUBAAAAAAAAYA==");
        assert_eq!(child(ChildKind::Trigger), "hy5tAOrJ4DUBAAAAAAAAcA==");
        assert_eq!(child(ChildKind::Procedure), "hy5tAOrJ4DUBAAAAAAAAgA==");
        assert_eq!(
            Rid::child(container, ChildKind::Item, 256).to_string(),
            "hy5tAOrJ4DUAAQAAAAAAAA=="
        );
        assert_eq!(
            Rid::parse("XP0mAJ3H-AA=")
                .expect("a container")
                .database_part()
                .to_string(),
            "XP0mAA=="
        );
    }

    #[test]
    fn a_child_id_contains_the_ids_of_its_owners() {
        let database = Rid::database(77);
        let container = Rid::container(database, 12);
        let item = Rid::child(container, ChildKind::Item, 1 << 40);
        assert_eq!(
            (item.database_part(), item.container_part()),
            (database, container)
        );
        assert_eq!(item.child_number(), Some((ChildKind::Item, 1 << 40)));
        assert_eq!(Rid::parse(&item.to_string()), Some(item));
    }

    #[test]
    fn ids_of_users_permissions_and_encryption_keys_are_distinct_from_containers() {
        let database = Rid::database(77);
        for number in [0, 1, 0x8000_0000, u32::MAX] {
            let user = Rid::user(database, number);
            assert!(user.is_user() && !user.is_container(), "{user}");
            let permission = Rid::permission(user, u64::MAX);
            assert!(permission.is_permission() && !permission.is_encryption_key());
            assert_eq!(
                (permission.user_part(), permission.database_part()),
                (user, database)
            );
            let key = Rid::encryption_key(database, number);
            assert!(key.is_encryption_key() && !key.is_permission());
            assert_eq!(
                (permission.child_number(), key.child_number()),
                (None, None)
            );
            assert_eq!(Rid::parse(&key.to_string()), Some(key));
        }
    }

    #[test]
    fn other_texts_are_not_ids() {
        for text in [
            "",
            "posts",
            "a/bc",
            "AAAAAAA",
            "éééé",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(Rid::parse(text), None, "{text}");
        }
    }
}
