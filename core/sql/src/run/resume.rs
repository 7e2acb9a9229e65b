//! The bytes of a [`ResumePoint`] in a continuation token.
//!
//! ```text
//! version (1 byte)
//! query hash (8 bytes)
//! rows done in item, rows skipped, rows returned (a varint each)
//! 0, or 1 and the item number (varints); not in version 3
//! number of row digests (varint), and 16 bytes for each
//! length (varint) and bytes of the position of the source
//! length (varint) and bytes of the state
//! checksum of all of this (4 bytes)
//! ```
//!
//! Integers are little-endian. A varint holds seven bits in each byte, the lowest ones first; the
//! high bit says that another byte follows. Any other bytes are refused.

use crate::error::QueryError;
use crate::seams::ResumePoint;
use xxhash_rust::xxh3::xxh3_64;

/// The version that is written.
const VERSION: u8 = 4;
/// The previous version, which has no [`ResumePoint::item_number`]. It is read, never written.
const VERSION_WITHOUT_ITEM: u8 = 3;

impl ResumePoint {
    /// Encodes the resume point for a continuation token.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.query_hash.to_le_bytes());
        put_varint(self.rows_done_in_item, &mut out);
        put_varint(self.rows_skipped, &mut out);
        put_varint(self.rows_returned, &mut out);
        put_varint(u64::from(self.item_number.is_some()), &mut out);
        if let Some(number) = self.item_number {
            put_varint(number, &mut out);
        }
        put_varint(self.recent_row_digests.len() as u64, &mut out);
        for digest in &self.recent_row_digests {
            out.extend_from_slice(&digest.to_le_bytes());
        }
        for bytes in [&self.position, &self.state] {
            put_varint(bytes.len() as u64, &mut out);
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out
    }

    /// Decodes the bytes of [`ResumePoint::encode`].
    ///
    /// # Errors
    /// [`QueryError::Resume`] for any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, QueryError> {
        read(bytes).ok_or_else(|| {
            QueryError::Resume("The continuation is not one of this service.".into())
        })
    }
}

fn read(bytes: &[u8]) -> Option<ResumePoint> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if checksum(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    // A correct checksum with an unknown version means another build.
    let (version, mut rest) = body.split_first()?;
    if ![VERSION_WITHOUT_ITEM, VERSION].contains(version) {
        return None;
    }
    let query_hash = u64::from_le_bytes(take(&mut rest)?);
    let rows_done_in_item = take_varint(&mut rest)?;
    let rows_skipped = take_varint(&mut rest)?;
    let rows_returned = take_varint(&mut rest)?;
    let has_item_number = match *version {
        VERSION_WITHOUT_ITEM => 0,
        _ => take_varint(&mut rest)?,
    };
    let item_number = match has_item_number {
        0 => None,
        1 => Some(take_varint(&mut rest)?),
        _ => return None,
    };
    // No capacity is reserved: the count is not trusted.
    let digest_count = take_varint(&mut rest)?;
    let mut recent_row_digests = Vec::new();
    for _ in 0..digest_count {
        recent_row_digests.push(u128::from_le_bytes(take(&mut rest)?));
    }
    let position = take_bytes(&mut rest)?;
    let state = take_bytes(&mut rest)?;
    // Bytes after the state mean that another format was read.
    rest.is_empty().then_some(ResumePoint {
        position,
        query_hash,
        rows_done_in_item,
        item_number,
        rows_skipped,
        rows_returned,
        recent_row_digests,
        state,
    })
}

fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take::<1>(rest)?;
        n |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (chunk, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*chunk)
}

fn take_bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes.to_vec())
}

/// Returns the lower half of XXH3, which is the same in every build: tokens outlive a build.
fn checksum(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_bytes_decode_and_cut_or_damaged_ones_do_not() {
        let resume = ResumePoint {
            position: vec![1, 2, 3],
            query_hash: 7,
            rows_done_in_item: 300,
            item_number: Some(1 << 40),
            rows_skipped: 0,
            rows_returned: u64::MAX,
            recent_row_digests: vec![9, 10],
            state: b"[]".to_vec(),
        };
        let bytes = resume.encode();
        assert_eq!(ResumePoint::decode(&bytes).expect("own bytes"), resume);
        for cut in 0..bytes.len() {
            assert!(ResumePoint::decode(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x55;
            assert!(ResumePoint::decode(&broken).is_err());
        }
    }

    #[test]
    fn bytes_of_the_version_before_are_read() {
        let resume = ResumePoint {
            position: vec![1],
            rows_done_in_item: 2,
            ..ResumePoint::default()
        };
        let mut bytes = resume.encode();
        bytes[0] = VERSION_WITHOUT_ITEM;
        // The flag of the item number follows the version, the hash and three counters of one byte.
        assert_eq!(bytes.remove(1 + 8 + 3), 0);
        let body = bytes.len() - 4;
        let sum = checksum(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        assert_eq!(
            ResumePoint::decode(&bytes).expect("bytes of the version before"),
            resume
        );
    }
}
