//! Errors of frames: which token is wrong, and where. They are for the log; the connection that
//! sent such a frame ends, because nothing says where the next frame begins.

use crate::token::Type;
use std::fmt;

/// The token that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The id of the token.
    pub id: u16,
    /// The name of the token; `None` if the table does not have the id.
    pub name: Option<&'static str>,
    /// The position of the token's id in the head, in bytes.
    pub offset: usize,
}

/// A reason why bytes are no frame. No error contains a value of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The length of a head is below [`crate::HEAD_BYTES_MIN`].
    LengthBelowMin {
        /// The length that the frame states, in bytes.
        length: u32,
    },
    /// The length of a head is above the limit of the reader.
    LengthAboveMax {
        /// The length that the frame states, in bytes.
        length: u32,
        /// The limit, in bytes.
        max: usize,
    },
    /// The length of a head is not the number of bytes that were given.
    LengthDiffers {
        /// The length that the frame states, in bytes.
        length: u32,
        /// The bytes that were given.
        given: usize,
    },
    /// The bytes that were given are fewer than [`crate::HEAD_BYTES_MIN`].
    HeadCut {
        /// The bytes that were given.
        given: usize,
    },
    /// The head ends within the id and the type of a token.
    TokenCut {
        /// The position of the token in the head, in bytes.
        offset: usize,
    },
    /// The head ends within the value of a token.
    ValueCut(Place),
    /// A number of a type that the format does not have, so the length of the value is unknown.
    UnknownType(Place, u8),
    /// A token of the table has another type than the table says.
    OtherType {
        /// The token.
        place: Place,
        /// The type of the table.
        expected: Type,
        /// The type in the frame.
        found: Type,
    },
    /// A text is not UTF-8.
    NotUtf8(Place),
    /// The head has more than [`crate::TOKENS_MAX`] tokens.
    TooManyTokens,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { id, name, offset } = self;
        match name {
            Some(name) => write!(f, "token {name} (0x{id:04x}) at byte {offset}"),
            None => write!(f, "token 0x{id:04x} at byte {offset}"),
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::LengthBelowMin { length } => write!(
                f,
                "a head of {length} bytes, fewer than {}",
                crate::HEAD_BYTES_MIN
            ),
            FrameError::LengthAboveMax { length, max } => {
                write!(f, "a head of {length} bytes, more than {max}")
            }
            FrameError::LengthDiffers { length, given } => {
                write!(f, "a head of {length} bytes in {given} bytes")
            }
            FrameError::HeadCut { given } => write!(f, "a head that ends after {given} bytes"),
            FrameError::TokenCut { offset } => {
                write!(f, "the head ends within the token at byte {offset}")
            }
            FrameError::ValueCut(place) => write!(f, "{place}: the head ends within the value"),
            FrameError::UnknownType(place, kind) => {
                write!(f, "{place}: 0x{kind:02x} is no type")
            }
            FrameError::OtherType {
                place,
                expected,
                found,
            } => write!(f, "{place}: the type is {found:?} and not {expected:?}"),
            FrameError::TooManyTokens => {
                write!(f, "a head of more than {} tokens", crate::TOKENS_MAX)
            }
            FrameError::NotUtf8(place) => write!(f, "{place}: the text is not UTF-8"),
        }
    }
}

impl std::error::Error for FrameError {}
