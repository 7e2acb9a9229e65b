//! Where a query stands in its candidates, as continuation tokens carry it.
//!
//! ```text
//! 0                                                        the beginning
//! 1  range·4 number·8                                      natural order: behind this item
//! 2  range·4 number·8 along·4  0                           along an index: behind this item, which lacks the path
//! 2  range·4 number·8 along·4  1 value                     behind this item with this value
//! 2  range·4 number·8 along·4  2 digest·8                  the same, the value to be read from the item
//! 3  range·4                                               before all items of this range
//! ```
//! `along` names the index. Long values are left to the item only for clients that limit their tokens: an item that
//! changed in between makes such a position worthless.

use super::walk::Spot;
use crate::keys::{self, Number};
use orrery_model::partition_key::murmur3_128;
use orrery_model::{Error, Result};

/// Bytes of a value that a short position still carries.
const SHORT_VALUE: usize = 256;

/// The place behind a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    /// The range that it is in.
    pub range: u32,
    /// Its number.
    pub number: Number,
    /// The index along which it was found; `None` in natural order.
    pub along: Option<u32>,
    /// Its value there.
    pub value: Option<Vec<u8>>,
    /// The value was left out.
    pub is_short: bool,
    /// What is left of it then.
    pub digest: u64,
    /// It is before all items of its range, not behind one.
    pub is_start: bool,
}

impl Position {
    /// Before all candidates.
    pub const BEGINNING: [u8; 1] = [0];

    /// Before all items of a range, as bytes.
    pub fn start_of(range: u32) -> Vec<u8> {
        let mut out = vec![3];
        out.extend_from_slice(&range.to_be_bytes());
        out
    }

    /// The place behind a spot.
    pub fn of(range: u32, along: Option<u32>, spot: Spot) -> Self {
        Position { range, number: spot.number, along, value: spot.value, ..Position::default() }
    }

    /// A few bytes that tell values apart.
    pub fn digest_of(value: Option<&[u8]>) -> u64 {
        value.map_or(0, |value| keys::number(&murmur3_128(value)[..8]).unwrap_or(0))
    }

    /// The bytes.
    pub fn write(&self, short: bool) -> Vec<u8> {
        if self.is_start {
            return Self::start_of(self.range);
        }
        let mut out = vec![if self.along.is_some() { 2 } else { 1 }];
        out.extend_from_slice(&self.range.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        let Some(along) = self.along else { return out };
        out.extend_from_slice(&along.to_be_bytes());
        match &self.value {
            None => out.push(0),
            Some(value) if short && value.len() > SHORT_VALUE => {
                out.push(2);
                out.extend_from_slice(&Self::digest_of(Some(value)).to_be_bytes());
            }
            Some(value) => {
                out.push(1);
                out.extend_from_slice(value);
            }
        }
        out
    }

    /// Reads the bytes; `None` for the beginning, and for none.
    ///
    /// # Errors
    /// 400 for others.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>> {
        match bytes {
            [] | [0] => Ok(None),
            [3, range @ ..] => {
                let range = u32::from_be_bytes(range.try_into().map_err(|_| Self::foreign())?);
                Ok(Some(Position { range, is_start: true, ..Position::default() }))
            }
            [kind @ (1 | 2), rest @ ..] => Self::parse(*kind == 2, rest).map(Some).ok_or_else(Self::foreign),
            _ => Err(Self::foreign()),
        }
    }

    fn parse(is_along: bool, bytes: &[u8]) -> Option<Self> {
        let range = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
        let number = u64::from_be_bytes(bytes.get(4..12)?.try_into().ok()?);
        let position = Position { range, number, ..Position::default() };
        if !is_along {
            return (bytes.len() == 12).then_some(position);
        }
        let along = Some(u32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?));
        match bytes.get(16..)? {
            [0] => Some(Position { along, ..position }),
            [1, value @ ..] => Some(Position { along, value: Some(value.to_vec()), ..position }),
            [2, digest @ ..] => {
                let digest = u64::from_be_bytes(digest.try_into().ok()?);
                Some(Position { along, is_short: true, digest, ..position })
            }
            _ => None,
        }
    }

    /// The error for a position that makes no sense here.
    pub fn foreign() -> Error {
        Error::bad("The continuation token is invalid: it does not belong to this container or query.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back() {
        let natural = Position { range: 3, number: 9, ..Position::default() };
        let lacking = Position { along: Some(7), ..natural.clone() };
        let valued = Position { value: Some(vec![1; 300]), ..lacking.clone() };
        let start = Position { range: 3, is_start: true, ..Position::default() };
        for position in [natural, lacking, valued.clone(), start] {
            assert_eq!(Position::read(&position.write(false)).expect("ours"), Some(position));
        }
        let short = valued.write(true);
        assert!(short.len() < 30);
        let read = Position::read(&short).expect("ours").expect("a place");
        assert_eq!((read.is_short, read.value), (true, None));
        assert_eq!(read.digest, Position::digest_of(valued.value.as_deref()));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [&[1][..], &[3, 0], &[3; 6], &[4, 0], &[1; 12], &[1; 14], &[2; 13], &[2; 17], &[0, 0]] {
            assert!(Position::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
