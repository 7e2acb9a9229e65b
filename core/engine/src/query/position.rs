//! Positions of queries among their candidates, as continuation tokens hold them.
//!
//! ```text
//! 0                                        the beginning
//! 1  range·4 number·8                      natural order: behind this item
//! 2  range·4 number·8 index·4  0           along an index: behind this item, which lacks the path
//! 2  range·4 number·8 index·4  1 value     along an index: behind this item with this value
//! 2  range·4 number·8 index·4  2 digest·8  the same; the value is read from the item
//! 2  range·4 number·8 index·4  3 length·4 value values
//!                                          the same, in a run of equal encodings; the values are
//!                                          JSON, `[v]` for each and `[]` for a missing one
//! 3  range·4                               before all items of this range
//! 4  length·1 epk  one of 1 to 3           the same in the part of the range from this EPK on
//! ```
//! `range` is the id of a partition key range, `number` an item number. The range may be split or
//! merged before the next page; `Reach::continue_after` then finds its successors. The form 4 is
//! for a range that holds, because of a merge, items that an earlier page returned.
//!
//! `index` is the id of the index in whose order candidates come. A long value is replaced by its
//! digest only for clients that limit the length of their tokens, if the position does not fit
//! otherwise. Such a position is invalid if the item has changed. So is a position in a run whose
//! values are longer than [`RUN_VALUES_BYTES`] and so left out.

use super::posting::IndexPosition;
use crate::partition::keys::{self, ItemNumber};
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, murmur3_128};
use orrery_model::{Error, Json, Result};
use orrery_sql::{keys_from_json, keys_to_json};

/// Maximum length of a value in a short position, in bytes.
const SHORT_VALUE_BYTES: usize = 256;
/// Maximum length of the values of a run in a position, in bytes. Clients accept headers of 16 KiB
/// in all.
const RUN_VALUES_BYTES: usize = 4096;

/// A part of a partition key range.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RangePart {
    /// Id of the partition key range, which may be gone.
    pub range: u32,
    /// EPK at which the part begins, if not where the range begins.
    pub from: Option<Epk>,
}

/// The position behind a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueryPosition {
    /// The part of a range that holds the candidate.
    pub part: RangePart,
    /// The number of the item.
    pub number: ItemNumber,
    /// Id of the index in whose order candidates come; `None` in natural order.
    pub index: Option<u32>,
    /// The encoded value in the index; in a run, the encoding that all values of the run begin
    /// with.
    pub value: Option<Vec<u8>>,
    /// In a run: the values themselves, unless they are long.
    pub run_values: Option<Vec<Option<Json>>>,
    /// True if the digest replaces the value.
    pub is_short: bool,
    /// The digest of the value in a short position.
    pub digest: u64,
    /// True if the position is before all items of the part, not behind an item.
    pub is_start: bool,
}

impl RangePart {
    /// Returns the bytes before a position in the part.
    fn prefix(&self) -> Vec<u8> {
        match &self.from {
            None => Vec::new(),
            Some(epk) => [&[4, epk.as_bytes().len() as u8], epk.as_bytes()].concat(),
        }
    }
}

impl QueryPosition {
    /// The bytes of the position before all candidates.
    pub(crate) const BEGINNING: [u8; 1] = [0];

    /// Returns the bytes of the position before all items of a part.
    pub(crate) fn start_of(part: &RangePart) -> Vec<u8> {
        let mut out = part.prefix();
        out.push(3);
        out.extend_from_slice(&part.range.to_be_bytes());
        out
    }

    /// Returns the position behind a candidate.
    pub(crate) fn behind(part: RangePart, index: Option<u32>, position: IndexPosition) -> Self {
        QueryPosition {
            part,
            number: position.number,
            index,
            value: position.value,
            run_values: position
                .run_values
                .map(|values| values.into_iter().map(|(value, _)| value).collect()),
            ..QueryPosition::default()
        }
    }

    /// Returns the bytes of a position in a shorter form, whose value is read from the item.
    ///
    /// # Errors
    /// 400 for bytes that are no position.
    pub(crate) fn shortened(bytes: &[u8]) -> Result<Vec<u8>> {
        match Self::read(bytes)? {
            Some(position) => Ok(position.write(true)),
            None => Ok(bytes.to_vec()),
        }
    }

    /// Returns a hash of the value and of the values in a run; 0 for a missing value.
    pub(crate) fn value_digest(&self) -> u64 {
        let Some(value) = &self.value else { return 0 };
        let mut bytes = value.clone();
        if let Some(values) = self.run_values_text() {
            bytes.extend_from_slice(values.as_bytes());
        }
        keys::number(&murmur3_128(&bytes)[..8]).unwrap_or(0)
    }

    fn run_values_text(&self) -> Option<String> {
        Some(keys_to_json(self.run_values.as_ref()?).to_text())
    }

    /// Returns the bytes of the position. `is_short`: the digest replaces a long value.
    pub(crate) fn write(&self, is_short: bool) -> Vec<u8> {
        if self.is_start {
            return Self::start_of(&self.part);
        }
        let mut out = self.part.prefix();
        out.push(if self.index.is_some() { 2 } else { 1 });
        out.extend_from_slice(&self.part.range.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        let Some(index) = self.index else { return out };
        out.extend_from_slice(&index.to_be_bytes());
        match &self.value {
            // A short position stays short: it has no value to be read back.
            None if self.is_short => {
                out.push(2);
                out.extend_from_slice(&self.digest.to_be_bytes());
            }
            None => out.push(0),
            Some(value) if is_short && value.len() > SHORT_VALUE_BYTES => {
                out.push(2);
                out.extend_from_slice(&self.value_digest().to_be_bytes());
            }
            Some(value) => match self.run_values_text() {
                Some(values) if values.len() <= RUN_VALUES_BYTES => {
                    out.push(3);
                    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                    out.extend_from_slice(value);
                    out.extend_from_slice(values.as_bytes());
                }
                _ => {
                    out.push(1);
                    out.extend_from_slice(value);
                }
            },
        }
        out
    }

    /// Reads the bytes of a position. Returns `None` for the beginning and for no bytes.
    ///
    /// # Errors
    /// 400 for bytes that are no position.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>> {
        match bytes {
            [] | [0] => Ok(None),
            [3, range @ ..] => {
                let range = range.try_into().map_err(|_| Self::mismatch_error())?;
                Ok(Some(QueryPosition {
                    part: RangePart {
                        range: u32::from_be_bytes(range),
                        from: None,
                    },
                    is_start: true,
                    ..QueryPosition::default()
                }))
            }
            [4, length, rest @ ..] => {
                let (epk, rest) = rest
                    .split_at_checked(usize::from(*length))
                    .ok_or_else(Self::mismatch_error)?;
                // The form 4 is not nested.
                if rest.first() == Some(&4) {
                    return Err(Self::mismatch_error());
                }
                let mut position = Self::read(rest)?.ok_or_else(Self::mismatch_error)?;
                position.part.from = Some(Epk::from_bytes(epk));
                Ok(Some(position))
            }
            [kind @ (1 | 2), rest @ ..] => {
                let has_index = *kind == 2;
                let position = Self::parse(has_index, rest).ok_or_else(Self::mismatch_error)?;
                Ok(Some(position))
            }
            _ => Err(Self::mismatch_error()),
        }
    }

    /// Parses the bytes behind the form 1 or 2.
    fn parse(has_index: bool, bytes: &[u8]) -> Option<Self> {
        let range = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
        let number = u64::from_be_bytes(bytes.get(4..12)?.try_into().ok()?);
        let position = QueryPosition {
            part: RangePart { range, from: None },
            number,
            ..QueryPosition::default()
        };
        if !has_index {
            return (bytes.len() == 12).then_some(position);
        }
        let index = Some(u32::from_be_bytes(bytes.get(12..16)?.try_into().ok()?));
        // The value, its digest, or neither for an item that lacks the path.
        match bytes.get(16..)? {
            [0] => Some(QueryPosition { index, ..position }),
            [1, value @ ..] => Some(QueryPosition {
                index,
                value: Some(value.to_vec()),
                ..position
            }),
            [3, rest @ ..] => {
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
                let (value, values) = rest.split_at_checked(length)?;
                Some(QueryPosition {
                    index,
                    value: Some(value.to_vec()),
                    run_values: Some(keys_from_json(&parse(values).ok()?)?),
                    ..position
                })
            }
            [2, digest @ ..] => {
                let digest = u64::from_be_bytes(digest.try_into().ok()?);
                Some(QueryPosition {
                    index,
                    is_short: true,
                    digest,
                    ..position
                })
            }
            _ => None,
        }
    }

    /// Returns the error for a position that does not belong to the container or query.
    pub(crate) fn mismatch_error() -> Error {
        Error::bad("Invalid Continuation Token: it does not belong to this container or query.")
            .with_help(crate::errors::TOKEN_HELP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back() {
        let part = RangePart {
            range: 3,
            from: None,
        };
        let natural = QueryPosition {
            part: part.clone(),
            number: 9,
            ..QueryPosition::default()
        };
        let without_path = QueryPosition {
            index: Some(7),
            ..natural.clone()
        };
        let valued = QueryPosition {
            value: Some(vec![1; 300]),
            ..without_path.clone()
        };
        let start = QueryPosition {
            part,
            is_start: true,
            ..QueryPosition::default()
        };
        let in_run = QueryPosition {
            run_values: Some(vec![Some(Json::from("x")), None]),
            ..valued.clone()
        };
        assert_ne!(in_run.value_digest(), valued.value_digest());
        for position in [natural, without_path, valued.clone(), in_run, start] {
            for from in [None, Some(Epk::from_bytes(b"abc"))] {
                let mut position = position.clone();
                position.part.from = from;
                assert_eq!(
                    QueryPosition::read(&position.write(false)).expect("a position"),
                    Some(position)
                );
            }
        }
        let short = valued.write(true);
        assert!(short.len() < 30);
        let read = QueryPosition::read(&short)
            .expect("a position")
            .expect("not the beginning");
        assert_eq!((read.is_short, read.value), (true, None));
        assert_eq!(read.digest, valued.value_digest());
        assert_eq!(
            QueryPosition::shortened(&valued.write(false)).expect("a position"),
            short
        );
    }

    #[test]
    fn a_shortened_position_stays_as_it_is() {
        let long = QueryPosition {
            index: Some(7),
            value: Some(vec![1; 300]),
            ..QueryPosition::default()
        };
        let short = QueryPosition::shortened(&long.write(false)).expect("a position");
        assert_eq!(QueryPosition::shortened(&short).expect("a position"), short);
        let read = QueryPosition::read(&short).expect("a position");
        assert_eq!(read.expect("not the beginning").write(false), short);
    }

    #[test]
    fn bytes_that_are_no_position_are_refused() {
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
