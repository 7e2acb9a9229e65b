//! The keys of the local engine in fjall, and the internal records of the store.
//!
//! ```text
//! keyspace rows   partition u64 BE | key, first byte below 80
//! keyspace index  partition u64 BE | key, first byte 80 and above
//! keyspace rows   ff*8 | 01 | partition u64 BE  -> epoch u64 | lsn u64 | token 16   head record
//!                 ff*8 | 03                     -> epoch u64                        epoch floor
//!                 ff*8 | 04 | partition u64 BE  -> nothing          destruction not finished
//! keyspace rows   ff*8 | 06                     -> second u64        (kept_journals.rs)
//! both keyspaces  ff*8 | 02 "orrery group"      -> group record (journal.rs)
//! ```
//!
//! Internal integers in values are little-endian. The prefix `ff*8` is the reserved partition
//! number, so no key of a caller begins with it.

use std::ops::Bound;

use crate::commit::{Head, PartitionId};
use crate::ownership::Ownership;

/// The lowest first byte of a key that is an index entry.
pub(super) const INDEX_TAG: u8 = 0x80;
/// Bytes of the partition number before each key.
pub(super) const PREFIX_BYTES: usize = 8;

/// Prefix of the head records.
pub(super) const HEAD_PREFIX: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x01";
/// Key of the epoch floor: the highest epoch of any destroyed partition.
pub(super) const EPOCH_FLOOR_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x03";
/// Prefix of the records of destructions that are not finished.
pub(super) const DESTRUCTION_PREFIX: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x04";

/// Key of the record that both keyspaces have all records of the store.
pub(super) const MIRRORED_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x05";

/// Returns true if a caller's key is an index entry.
pub(super) fn is_index_key(key: &[u8]) -> bool {
    key.first().is_some_and(|tag| *tag >= INDEX_TAG)
}

/// Returns a caller's key with the prefix of its partition.
pub(super) fn prefixed_key(partition: PartitionId, key: &[u8]) -> Vec<u8> {
    let mut prefixed = Vec::with_capacity(PREFIX_BYTES + key.len());
    prefixed.extend_from_slice(&partition.0.to_be_bytes());
    prefixed.extend_from_slice(key);
    prefixed
}

/// Returns the bounds of all keys of a partition.
pub(super) fn partition_range(partition: PartitionId) -> (Bound<[u8; 8]>, Bound<[u8; 8]>) {
    // No overflow: the highest number is reserved.
    let next = partition.0 + 1;
    (
        Bound::Included(partition.0.to_be_bytes()),
        Bound::Excluded(next.to_be_bytes()),
    )
}

/// Returns the key of a partition's head record.
pub(super) fn head_key(partition: PartitionId) -> Vec<u8> {
    [HEAD_PREFIX, &partition.0.to_be_bytes()].concat()
}

/// Returns the key of the record that the destruction of a partition is not finished.
pub(super) fn destruction_key(partition: PartitionId) -> Vec<u8> {
    [DESTRUCTION_PREFIX, &partition.0.to_be_bytes()].concat()
}

/// Returns the partition number that an internal key has behind `prefix`; `None` if the key has
/// another length.
pub(super) fn partition_behind(prefix: &[u8], key: &[u8]) -> Option<PartitionId> {
    let number = key.get(prefix.len()..)?.try_into().ok()?;
    Some(PartitionId(u64::from_be_bytes(number)))
}

/// Encodes the value of a head record.
pub(super) fn encode_ownership(ownership: Ownership) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&ownership.epoch.to_le_bytes());
    bytes[8..16].copy_from_slice(&ownership.head.lsn.to_le_bytes());
    bytes[16..].copy_from_slice(&ownership.head.token);
    bytes
}

/// Decodes the value of a head record; `None` if it has another length.
pub(super) fn decode_ownership(bytes: &[u8]) -> Option<Ownership> {
    let bytes: &[u8; 32] = bytes.try_into().ok()?;
    let epoch = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let lsn = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    let token = bytes[16..].try_into().ok()?;
    Some(Ownership {
        epoch,
        head: Head { lsn, token },
    })
}
