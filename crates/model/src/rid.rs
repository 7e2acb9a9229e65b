//! Resource ids: the `_rid` of every resource, as bytes and as the text that clients see.
//!
//! ```text
//! database   dddd                      4 bytes
//! container  dddd cccc                 8 bytes, bit 0x80 of the fifth set
//! child      dddd cccc nnnnnnnn       16 bytes, the number little-endian, its top nibble the kind of child
//! user       dddd uuuu                 8 bytes, bit 0x80 of the fifth clear, the number not 0
//! permission dddd uuuu pppppppp       16 bytes
//! client encryption key
//!            dddd 0000 kkkk 2000      16 bytes
//! offer      ooo                       3 bytes
//! ```
//! Text is base64 with `-` for `/`, always padded. Clients take a container's id apart to find its database's, and
//! compare the numbers of items to break ties of ORDER BY; so numbers grow and are never used twice.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A resource id of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rid {
    bytes: [u8; 16],
    length: u8,
}

/// What a child of a container is; the value is the top nibble of its id's last byte.
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

/// Items of a container and other children have numbers below this.
pub const CHILD_NUMBERS: u64 = 1 << 60;

impl Rid {
    /// The id of a database from its number.
    pub fn database(number: u32) -> Self {
        Self::of(&[&number.to_be_bytes()])
    }

    /// The id of a container from its database's id and its own number.
    pub fn container(database: Rid, number: u32) -> Self {
        Self::of(&[&database.bytes[..4], &(number | 0x8000_0000).to_be_bytes()])
    }

    /// The id of a container's child. Numbers stay below [`CHILD_NUMBERS`].
    pub fn child(container: Rid, kind: ChildKind, number: u64) -> Self {
        debug_assert!(number < CHILD_NUMBERS);
        let tagged = (number & (CHILD_NUMBERS - 1)) | (kind as u64) << 60;
        Self::of(&[&container.bytes[..8], &tagged.to_le_bytes()])
    }

    /// The id of a user from its database's id and its own number; a clear bit tells it from a container.
    pub fn user(database: Rid, number: u32) -> Self {
        let number = (number & 0x7FFF_FFFF).max(1); // 0 is where client encryption keys stand
        Self::of(&[&database.bytes[..4], &number.to_be_bytes()])
    }

    /// The id of a permission from its user's id and its own number.
    pub fn permission(user: Rid, number: u64) -> Self {
        Self::of(&[&user.bytes[..8], &number.to_be_bytes()])
    }

    /// The id of a client encryption key from its database's id and its own number.
    pub fn encryption_key(database: Rid, number: u32) -> Self {
        const KIND: u32 = 2;
        Self::of(&[
            &database.bytes[..4],
            &[0; 4],
            &number.to_be_bytes(),
            &KIND.to_le_bytes(),
        ])
    }

    /// The id of an offer.
    pub fn offer(number: u32) -> Self {
        Self::of(&[&number.to_be_bytes()[1..]])
    }

    fn of(parts: &[&[u8]]) -> Self {
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

    /// Reads the text form; `None` if it is not a resource id.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > 24 || text.contains('/') {
            return None;
        }
        let bytes = STANDARD.decode(text.replace('-', "/")).ok()?;
        matches!(bytes.len(), 3 | 4 | 8 | 16).then(|| Self::of(&[&bytes]))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Reads the bytes back; `None` if no kind of id has that length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        matches!(bytes.len(), 3 | 4 | 8 | 16).then(|| Self::of(&[bytes]))
    }

    /// Whether this is the id of a database.
    pub fn is_database(&self) -> bool {
        self.length == 4
    }

    /// Whether this is the id of a container.
    pub fn is_container(&self) -> bool {
        self.length == 8 && self.bytes[4] & 0x80 != 0
    }

    /// Whether this is the id of a user.
    pub fn is_user(&self) -> bool {
        self.length == 8 && self.bytes[4] & 0x80 == 0
    }

    /// Whether this is the id of a permission.
    pub fn is_permission(&self) -> bool {
        self.length == 16 && self.bytes[4] & 0x80 == 0 && self.bytes[4..8] != [0; 4]
    }

    /// Whether this is the id of a client encryption key.
    pub fn is_encryption_key(&self) -> bool {
        self.length == 16 && self.bytes[4..8] == [0; 4]
    }

    /// The id of the user above a permission.
    pub fn user_part(&self) -> Rid {
        Self::of(&[&self.bytes[..8]])
    }

    /// The id of the database above.
    pub fn database_part(&self) -> Rid {
        Self::of(&[&self.bytes[..4]])
    }

    /// The id of the container above a child.
    pub fn container_part(&self) -> Rid {
        Self::of(&[&self.bytes[..8]])
    }

    /// The number of a container's child, and what it is; `None` for other ids.
    pub fn child_number(&self) -> Option<(ChildKind, u64)> {
        if self.length != 16 || self.bytes[4] & 0x80 == 0 {
            return None;
        }
        let tagged = u64::from_le_bytes(self.bytes[8..16].try_into().expect("eight bytes"));
        let kind = [
            ChildKind::Item,
            ChildKind::Range,
            ChildKind::Function,
            ChildKind::Trigger,
            ChildKind::Procedure,
        ]
        .into_iter()
        .find(|k| *k as u64 == tagged >> 60)?;
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

    /// Samples published with the protocol's description.
    #[test]
    fn known_ids_read_and_print() {
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
    fn children_lead_back_to_their_owners() {
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
    fn users_and_what_is_beside_containers_are_told_from_them() {
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
    fn other_texts_are_no_ids() {
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
