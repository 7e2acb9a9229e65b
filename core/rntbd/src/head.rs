//! Heads of requests and answers: the length, the fixed fields, and the tokens in wire order.
//!
//! A head is read in one pass. Values are checked against the table while they are read; an id that
//! the table does not have is skipped by its type, because clients add tokens every few months.

use crate::error::{FrameError, Place};
use crate::token::{Token, Type, Value};
use crate::tokens::{context_request, request};
use std::fmt;

/// The bytes of a head without tokens, of a request or an answer.
pub const HEAD_BYTES_MIN: usize = 24;

/// The most tokens of a head. Clients send up to 30, and the tables have some 200 ids.
pub const TOKENS_MAX: usize = 512;

/// The tokens for which a reader takes memory at first: requests have 12 to 30.
const TOKENS_EXPECTED: usize = 32;

/// Returns the length of a head in bytes, from its first four bytes, which it counts too.
///
/// # Errors
/// The length is below [`HEAD_BYTES_MIN`] or above `max`.
pub fn head_length(first: [u8; 4], max: usize) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(first);
    match usize::try_from(length) {
        Ok(bytes) if bytes < HEAD_BYTES_MIN => Err(FrameError::LengthBelowMin { length }),
        Ok(bytes) if bytes <= max => Ok(bytes),
        _ => Err(FrameError::LengthAboveMax { length, max }),
    }
}

/// The head of a request, which refers to the bytes that were read.
#[derive(Clone)]
pub struct RequestHead<'a> {
    /// The kind of resource: 1 database, 2 container, 3 document, 7 procedure, and so on.
    pub resource: u16,
    /// The operation: 1 create, 2 patch, 3 read, and so on; 0 with resource 0 is the context.
    pub operation: u16,
    /// The GUID of the request, in the order of the frame.
    pub activity_id: [u8; 16],
    tokens: Tokens<'a>,
}

/// The head of an answer, which refers to the bytes that were read.
#[derive(Clone)]
pub struct AnswerHead<'a> {
    /// The status of HTTP.
    pub status: u32,
    /// The GUID of the request, in the order of the frame.
    pub activity_id: [u8; 16],
    tokens: Tokens<'a>,
}

/// Defines how both kinds of heads give out their tokens.
macro_rules! accessors {
    () => {
        /// Returns the text of a token; `None` if the head does not have it.
        pub fn text(&self, token: &Token) -> Option<&'a str> {
            debug_assert!(token.kind.is_text(), "{} is no text", token.name);
            match self.value(token) {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            }
        }

        /// Returns the bytes of a token; `None` if the head does not have it.
        pub fn bytes(&self, token: &Token) -> Option<&'a [u8]> {
            debug_assert!(token.kind.is_bytes(), "{} has no bytes", token.name);
            match self.value(token) {
                Some(Value::Bytes(bytes)) => Some(bytes),
                _ => None,
            }
        }

        /// Returns the whole number of a token; `None` if the head does not have it, and for a
        /// number below zero.
        pub fn number(&self, token: &Token) -> Option<u64> {
            debug_assert!(token.kind.is_integer(), "{} is no number", token.name);
            self.value(token)?.number()
        }

        /// Returns true if the head has a token and its number is not 0.
        pub fn flag(&self, token: &Token) -> bool {
            self.number(token).is_some_and(|number| number != 0)
        }

        /// Returns the value of a token, of two with one id the last; `None` if the head does not
        /// have it.
        pub fn value(&self, token: &Token) -> Option<Value<'a>> {
            self.tokens.last(token.id)
        }

        /// Returns the ids and values of all tokens in wire order, also of those that the table
        /// does not have.
        pub fn tokens(&self) -> impl Iterator<Item = (u16, Value<'a>)> {
            self.tokens.0.iter().copied()
        }
    };
}

impl<'a> RequestHead<'a> {
    /// Parses a whole head with its length field: by the table [`context_request`] if resource and
    /// operation are 0, else by [`request`].
    ///
    /// # Errors
    /// The length is not that of `head`; a token of the table has another type; a type is unknown;
    /// a value ends behind the head; a text is not UTF-8.
    pub fn parse(head: &'a [u8]) -> Result<Self, FrameError> {
        let fixed = fixed_part(head)?;
        let [.., r0, r1, o0, o1] = fixed.kind;
        let resource = u16::from_le_bytes([r0, r1]);
        let operation = u16::from_le_bytes([o0, o1]);
        let table = match (resource, operation) {
            (0, 0) => context_request::TABLE,
            _ => request::TABLE,
        };
        Ok(RequestHead {
            resource,
            operation,
            activity_id: fixed.activity_id,
            tokens: Tokens::parse(head, table)?,
        })
    }

    /// Returns true for the first frame of a connection.
    pub fn is_context(&self) -> bool {
        self.resource == 0 && self.operation == 0
    }

    /// Returns true if a payload follows the head; false for a context.
    pub fn has_payload(&self) -> bool {
        !self.is_context() && self.flag(&request::PAYLOAD_PRESENT)
    }

    accessors!();
}

impl<'a> AnswerHead<'a> {
    /// Parses a whole head with its length field by a table: [`crate::tokens::answer`], or
    /// [`crate::tokens::context_answer`] for the first frame of a connection.
    ///
    /// # Errors
    /// As [`RequestHead::parse`].
    pub fn parse(head: &'a [u8], table: &'static [Token]) -> Result<Self, FrameError> {
        let fixed = fixed_part(head)?;
        Ok(AnswerHead {
            status: u32::from_le_bytes(fixed.kind),
            activity_id: fixed.activity_id,
            tokens: Tokens::parse(head, table)?,
        })
    }

    accessors!();
}

// The values can be signatures, so neither head shows them.
impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("resource", &self.resource)
            .field("operation", &self.operation)
            .field("activity_id", &crate::guid_text(self.activity_id))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AnswerHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerHead")
            .field("status", &self.status)
            .field("activity_id", &crate::guid_text(self.activity_id))
            .finish_non_exhaustive()
    }
}

/// The fields that every head has, but the length.
struct Fixed {
    /// Resource and operation of a request, the status of an answer.
    kind: [u8; 4],
    activity_id: [u8; 16],
}

/// Reads the fixed fields of a head, and compares its length with the bytes that were given.
fn fixed_part(head: &[u8]) -> Result<Fixed, FrameError> {
    let given = head.len();
    let cut = FrameError::HeadCut { given };
    let (first, rest) = head.split_first_chunk().ok_or(cut)?;
    let (kind, rest) = rest.split_first_chunk().ok_or(cut)?;
    let (activity_id, _) = rest.split_first_chunk().ok_or(cut)?;
    match head_length(*first, given) {
        Ok(length) if length == given => Ok(Fixed {
            kind: *kind,
            activity_id: *activity_id,
        }),
        Err(error @ FrameError::LengthBelowMin { .. }) => Err(error),
        _ => Err(FrameError::LengthDiffers {
            length: u32::from_le_bytes(*first),
            given,
        }),
    }
}

/// The ids and values of a head, in wire order.
#[derive(Clone)]
struct Tokens<'a>(Vec<(u16, Value<'a>)>);

impl<'a> Tokens<'a> {
    /// Reads the tokens of a head behind its fixed fields.
    fn parse(head: &'a [u8], table: &'static [Token]) -> Result<Self, FrameError> {
        let mut tokens = Vec::with_capacity(TOKENS_EXPECTED);
        let mut rest = head.get(HEAD_BYTES_MIN..).unwrap_or_default();
        while !rest.is_empty() {
            if tokens.len() == TOKENS_MAX {
                return Err(FrameError::TooManyTokens);
            }
            let offset = head.len() - rest.len();
            let (&[low, high, number], after) = rest
                .split_first_chunk()
                .ok_or(FrameError::TokenCut { offset })?;
            let id = u16::from_le_bytes([low, high]);
            let row = row_of(table, id);
            let place = Place {
                id,
                name: row.map(|row| row.name),
                offset,
            };
            let found = Type::from_wire(number).ok_or(FrameError::UnknownType(place, number))?;
            if let Some(row) = row
                && !row.kind.allows(found)
            {
                let expected = row.kind;
                return Err(FrameError::OtherType {
                    place,
                    expected,
                    found,
                });
            }
            let (value, after) = read_value(found, after, place)?;
            tokens.push((id, value));
            rest = after;
        }
        Ok(Tokens(tokens))
    }

    fn last(&self, id: u16) -> Option<Value<'a>> {
        let found = self.0.iter().rev().find(|(at, _)| *at == id)?;
        Some(found.1)
    }
}

/// Returns the row of an id. Tables ascend by id.
fn row_of(table: &'static [Token], id: u16) -> Option<&'static Token> {
    let at = table.binary_search_by_key(&id, |token| token.id).ok()?;
    table.get(at)
}

/// Reads a value from the front of `rest`, and returns it with the bytes behind it.
fn read_value<'a>(
    kind: Type,
    rest: &'a [u8],
    place: Place,
) -> Result<(Value<'a>, &'a [u8]), FrameError> {
    let (value, rest) = read_raw(kind, rest).ok_or(FrameError::ValueCut(place))?;
    match value {
        Value::Bytes(bytes) if kind.is_text() => match std::str::from_utf8(bytes) {
            Ok(text) => Ok((Value::Text(text), rest)),
            // Nothing is known of the values of an unknown id.
            Err(_) if place.name.is_none() => Ok((Value::Bytes(bytes), rest)),
            Err(_) => Err(FrameError::NotUtf8(place)),
        },
        value => Ok((value, rest)),
    }
}

/// Reads a value, a text as its bytes. Returns `None` if `rest` ends before the value.
fn read_raw(kind: Type, rest: &[u8]) -> Option<(Value<'_>, &[u8])> {
    Some(match kind {
        Type::Byte => {
            let ([byte], rest) = rest.split_first_chunk()?;
            (Value::Byte(*byte), rest)
        }
        Type::UShort => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::UShort(u16::from_le_bytes(*number)), rest)
        }
        Type::ULong => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::ULong(u32::from_le_bytes(*number)), rest)
        }
        Type::Long => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::Long(i32::from_le_bytes(*number)), rest)
        }
        Type::ULongLong => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::ULongLong(u64::from_le_bytes(*number)), rest)
        }
        Type::LongLong => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::LongLong(i64::from_le_bytes(*number)), rest)
        }
        Type::Guid => {
            let (bytes, rest) = rest.split_first_chunk()?;
            (Value::Guid(*bytes), rest)
        }
        Type::SmallString | Type::SmallBytes => {
            let ([length], rest) = rest.split_first_chunk()?;
            split_bytes(rest, usize::from(*length))?
        }
        Type::String | Type::Bytes => {
            let (length, rest) = rest.split_first_chunk()?;
            split_bytes(rest, usize::from(u16::from_le_bytes(*length)))?
        }
        Type::ULongString | Type::ULongBytes => {
            let (length, rest) = rest.split_first_chunk()?;
            split_bytes(rest, usize::try_from(u32::from_le_bytes(*length)).ok()?)?
        }
        Type::Float => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::Float(f32::from_le_bytes(*number)), rest)
        }
        Type::Double => {
            let (number, rest) = rest.split_first_chunk()?;
            (Value::Double(f64::from_le_bytes(*number)), rest)
        }
    })
}

fn split_bytes(rest: &[u8], length: usize) -> Option<(Value<'_>, &[u8])> {
    let (bytes, rest) = rest.split_at_checked(length)?;
    Some((Value::Bytes(bytes), rest))
}
