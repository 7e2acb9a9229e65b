//! Where a query stands in its candidates, as continuation tokens carry it.
//!
//! ```text
//! 0                                                        the beginning
//! 1  range·4 number·8                                      natural order: behind this item
//! 2  range·4 number·8 along·4  0                           along an index: behind this item, which lacks the path
//! 2  range·4 number·8 along·4  1 value                     behind this item with this value
//! 2  range·4 number·8 along·4  2 digest·8                  the same, the value to be read from the item
//! 3  range·4                                               before all items of this range
//! 4  length·1 epk  one of 1 to 3                           the same in what lies from this point of the range on
//! ```
//! A range may be gone by the time; those that took its place are then read as it was, see `Reach::go_on`. The last form
//! is for a range that holds, through a merge, what an earlier page gave already.
//!
//! `along` names the index. Long values are left to the item only for clients that limit their tokens: an item that
//! changed in between makes such a position worthless.

use super::walk::IndexPosition;
use crate::partition::keys::{self, ItemNumber};
use orrery_model::partition_key::{Epk, murmur3_128};
use orrery_model::{Error, Result};

/// Bytes of a value that a short position still carries.
const SHORT_VALUE: usize = 256;

/// What a position is in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RangePart {
    /// A range, that may be gone.
    pub range: u32,
    /// Where in it the stretch begins, if not where the range does.
    pub from: Option<Epk>,
}

/// The place behind a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryPosition {
    /// The stretch that it is in.
    pub stretch: RangePart,
    /// Its number.
    pub number: ItemNumber,
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

impl RangePart {
    /// What comes before a position in it.
    fn prefix(&self) -> Vec<u8> {
        match &self.from {
            None => Vec::new(),
            Some(epk) => [&[4, epk.as_bytes().len() as u8], epk.as_bytes()].concat(),
        }
    }
}

impl QueryPosition {
    /// Before all candidates.
    pub const BEGINNING: [u8; 1] = [0];

    /// Before all items of a stretch, as bytes.
    pub fn start_of(stretch: &RangePart) -> Vec<u8> {
        let mut out = stretch.prefix();
        out.push(3);
        out.extend_from_slice(&stretch.range.to_be_bytes());
        out
    }

    /// The place behind a spot.
    pub fn of(stretch: RangePart, along: Option<u32>, spot: IndexPosition) -> Self {
        QueryPosition {
            stretch,
            number: spot.number,
            along,
            value: spot.value,
            ..QueryPosition::default()
        }
    }

    /// A few bytes that tell values apart.
    pub fn digest_of(value: Option<&[u8]>) -> u64 {
        value.map_or(0, |value| {
            keys::number(&murmur3_128(value)[..8]).unwrap_or(0)
        })
    }

    /// The bytes.
    pub fn write(&self, short: bool) -> Vec<u8> {
        if self.is_start {
            return Self::start_of(&self.stretch);
        }
        let mut out = self.stretch.prefix();
        out.push(if self.along.is_some() { 2 } else { 1 });
        out.extend_from_slice(&self.stretch.range.to_be_bytes());
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
                let stretch = RangePart { range, from: None };
                Ok(Some(QueryPosition {
                    stretch,
                    is_start: true,
                    ..QueryPosition::default()
                }))
            }
            [4, length, rest @ ..] => {
                let (epk, rest) = rest
                    .split_at_checked(usize::from(*length))
                    .ok_or_else(Self::foreign)?;
                if rest.first() == Some(&4) {
                    return Err(Self::foreign());
                }
                let mut position = Self::read(rest)?.ok_or_else(Self::foreign)?;
                position.stretch.from = Some(Epk::from_bytes(epk));
                Ok(Some(position))
            }
            [kind @ (1 | 2), rest @ ..] => Self::parse(*kind == 2, rest)
                .map(Some)
                .ok_or_else(Self::foreign),
            _ => Err(Self::foreign()),
        }
    }

    fn parse(is_along: bool, bytes: &[u8]) -> Option<Self> {
        let range = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
        let number = u64::from_be_bytes(bytes.get(4..12)?.try_into().ok()?);
        let position = QueryPosition {
            stretch: RangePart { range, from: None },
            number,
            ..QueryPosition::default()
        };
        if !is_along {
            return (bytes.len() == 12).then_some(position);
        }
        let along = Some(u32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?));
        match bytes.get(16..)? {
            [0] => Some(QueryPosition { along, ..position }),
            [1, value @ ..] => Some(QueryPosition {
                along,
                value: Some(value.to_vec()),
                ..position
            }),
            [2, digest @ ..] => {
                let digest = u64::from_be_bytes(digest.try_into().ok()?);
                Some(QueryPosition {
                    along,
                    is_short: true,
                    digest,
                    ..position
                })
            }
            _ => None,
        }
    }

    /// The error for a position that makes no sense here.
    pub fn foreign() -> Error {
        Error::bad(
            "The continuation token is invalid: it does not belong to this container or query.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back() {
        let stretch = RangePart {
            range: 3,
            from: None,
        };
        let natural = QueryPosition {
            stretch: stretch.clone(),
            number: 9,
            ..QueryPosition::default()
        };
        let lacking = QueryPosition {
            along: Some(7),
            ..natural.clone()
        };
        let valued = QueryPosition {
            value: Some(vec![1; 300]),
            ..lacking.clone()
        };
        let start = QueryPosition {
            stretch,
            is_start: true,
            ..QueryPosition::default()
        };
        for position in [natural, lacking, valued.clone(), start] {
            for from in [None, Some(Epk::from_bytes(b"abc"))] {
                let mut position = position.clone();
                position.stretch.from = from;
                assert_eq!(
                    QueryPosition::read(&position.write(false)).expect("ours"),
                    Some(position)
                );
            }
        }
        let short = valued.write(true);
        assert!(short.len() < 30);
        let read = QueryPosition::read(&short)
            .expect("ours")
            .expect("an EPK prefix");
        assert_eq!((read.is_short, read.value), (true, None));
        assert_eq!(
            read.digest,
            QueryPosition::digest_of(valued.value.as_deref())
        );
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [
            &[1][..],
            &[3, 0],
            &[3; 6],
            &[4, 0],
            &[4, 9, 1],
            &[4, 0, 4, 0, 3, 0, 0, 0, 0],
            &[4, 0, 0],
            &[1; 12],
            &[1; 14],
            &[2; 13],
            &[2; 17],
            &[0, 0],
        ] {
            assert!(QueryPosition::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
