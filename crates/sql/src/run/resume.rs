//! The bytes of a [`ResumePoint`]: a version, the query's hash, counters as variable-length integers, the source's place,
//! partial aggregates, and a checksum. Foreign bytes are refused, never believed.

use crate::error::QueryError;
use crate::seams::ResumePoint;
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u8 = 4;
/// The same without [`ResumePoint::item_number`].
const WITHOUT_ITEM: u8 = 3;

impl ResumePoint {
    /// The position as bytes for a continuation token.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.query_hash.to_le_bytes());
        for counter in [
            self.rows_done_in_item,
            self.rows_skipped,
            self.rows_returned,
            u64::from(self.item_number.is_some()),
        ] {
            put(counter, &mut out);
        }
        self.item_number
            .iter()
            .for_each(|number| put(*number, &mut out));
        put(self.recent_row_digests.len() as u64, &mut out);
        self.recent_row_digests
            .iter()
            .for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
        for bytes in [&self.position, &self.state] {
            put(bytes.len() as u64, &mut out);
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out
    }

    /// The position that `bytes` are.
    ///
    /// # Errors
    /// [`QueryError::Resume`] if they are anything else.
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
    let (version, mut rest) = body.split_first()?;
    if ![WITHOUT_ITEM, VERSION].contains(version) {
        return None;
    }
    let query_hash = u64::from_le_bytes(take(&mut rest)?);
    let (rows_done_in_item, rows_skipped, rows_returned) =
        (get(&mut rest)?, get(&mut rest)?, get(&mut rest)?);
    let item_number = match version {
        &WITHOUT_ITEM => None,
        _ => match get(&mut rest)? {
            0 => None,
            1 => Some(get(&mut rest)?),
            _ => return None,
        },
    };
    let recent_row_digests = (0..get(&mut rest)?)
        .map(|_| Some(u128::from_le_bytes(take(&mut rest)?)))
        .collect::<Option<_>>()?;
    let (position, state) = (piece(&mut rest)?, piece(&mut rest)?);
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

fn put(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn get(rest: &mut &[u8]) -> Option<u64> {
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

fn piece(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(get(rest)?).ok()?;
    let (piece, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(piece.to_vec())
}

/// The same in every build, so that tokens outlive it.
fn checksum(bytes: &[u8]) -> u32 {
    xxh3_64(bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_and_nothing_else_does() {
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
    fn what_an_older_build_wrote_is_read() {
        let resume = ResumePoint {
            position: vec![1],
            rows_done_in_item: 2,
            ..ResumePoint::default()
        };
        let mut bytes = resume.encode();
        bytes[0] = WITHOUT_ITEM;
        // Behind version, hash and three counters of one byte each.
        assert_eq!(bytes.remove(1 + 8 + 3), 0);
        let body = bytes.len() - 4;
        let sum = checksum(&bytes[..body]).to_le_bytes();
        bytes[body..].copy_from_slice(&sum);
        assert_eq!(
            ResumePoint::decode(&bytes).expect("bytes of the form before"),
            resume
        );
    }
}
