//! A token: its type on the wire, its value, and how the value becomes the value of an HTTP header.

use crate::guid::guid_text;
use std::borrow::Cow;

/// The type of a token's value, with its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// A byte.
    Byte = 0x0,
    /// An unsigned number of 16 bits.
    UShort = 0x1,
    /// An unsigned number of 32 bits.
    ULong = 0x2,
    /// A signed number of 32 bits.
    Long = 0x3,
    /// An unsigned number of 64 bits.
    ULongLong = 0x4,
    /// A signed number of 64 bits.
    LongLong = 0x5,
    /// A GUID of 16 bytes.
    Guid = 0x6,
    /// UTF-8 text behind its length in one byte.
    SmallString = 0x7,
    /// UTF-8 text behind its length in two bytes.
    String = 0x8,
    /// UTF-8 text behind its length in four bytes.
    ULongString = 0x9,
    /// Bytes behind their number in one byte.
    SmallBytes = 0xA,
    /// Bytes behind their number in two bytes.
    Bytes = 0xB,
    /// Bytes behind their number in four bytes.
    ULongBytes = 0xC,
    /// A binary floating-point number of 32 bits.
    Float = 0xD,
    /// A binary floating-point number of 64 bits.
    Double = 0xE,
}

impl Type {
    /// All types, each at the place of its number.
    const ALL: [Type; 15] = [
        Type::Byte,
        Type::UShort,
        Type::ULong,
        Type::Long,
        Type::ULongLong,
        Type::LongLong,
        Type::Guid,
        Type::SmallString,
        Type::String,
        Type::ULongString,
        Type::SmallBytes,
        Type::Bytes,
        Type::ULongBytes,
        Type::Float,
        Type::Double,
    ];

    /// Returns the number of the type on the wire.
    pub const fn wire(self) -> u8 {
        self as u8
    }

    /// Returns the type of a number on the wire; `None` if the format has no such type.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns true for the whole numbers.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Type::Byte | Type::UShort | Type::ULong | Type::Long | Type::ULongLong | Type::LongLong
        )
    }

    /// Returns true for the texts.
    pub const fn is_text(self) -> bool {
        matches!(self, Type::SmallString | Type::String | Type::ULongString)
    }

    /// Returns true for the types of plain bytes.
    pub const fn is_bytes(self) -> bool {
        matches!(self, Type::SmallBytes | Type::Bytes | Type::ULongBytes)
    }

    /// Returns true if a frame may have the type `wire` where the table has this one: the same
    /// type, or a whole number of the same size, because clients do not agree on the sign of
    /// TimeToLiveInSeconds.
    pub(crate) fn allows(self, wire: Type) -> bool {
        use Type::{Long, LongLong, ULong, ULongLong};
        self == wire
            || matches!(
                (self, wire),
                (ULong, Long) | (Long, ULong) | (ULongLong, LongLong) | (LongLong, ULongLong)
            )
    }
}

/// The value of a token. Texts and bytes refer to the head that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// The value of a [`Type::Byte`].
    Byte(u8),
    /// The value of a [`Type::UShort`].
    UShort(u16),
    /// The value of a [`Type::ULong`].
    ULong(u32),
    /// The value of a [`Type::Long`].
    Long(i32),
    /// The value of a [`Type::ULongLong`].
    ULongLong(u64),
    /// The value of a [`Type::LongLong`].
    LongLong(i64),
    /// The value of a [`Type::Guid`], in the order of the frame.
    Guid([u8; 16]),
    /// The value of a [`Type::SmallString`], [`Type::String`] or [`Type::ULongString`].
    Text(&'a str),
    /// The value of a [`Type::SmallBytes`], [`Type::Bytes`] or [`Type::ULongBytes`].
    Bytes(&'a [u8]),
    /// The value of a [`Type::Float`].
    Float(f32),
    /// The value of a [`Type::Double`].
    Double(f64),
}

impl Value<'_> {
    /// Returns a whole number; `None` for other values and for numbers below zero.
    pub fn number(&self) -> Option<u64> {
        match *self {
            Value::Byte(number) => Some(u64::from(number)),
            Value::UShort(number) => Some(u64::from(number)),
            Value::ULong(number) => Some(u64::from(number)),
            Value::Long(number) => u64::try_from(number).ok(),
            Value::ULongLong(number) => Some(number),
            Value::LongLong(number) => u64::try_from(number).ok(),
            _ => None,
        }
    }
}

/// The rule by which the value of a token becomes the value of the HTTP header, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text as it is.
    Text,
    /// The text that follows the colon in the header: the header names the range of a session
    /// token, and the token of an answer does not.
    AfterRange,
    /// The bytes are UTF-8, and the header is that text.
    Utf8,
    /// A whole number in decimal digits.
    Number,
    /// As `Number`, after the 32 bits were read as a number with sign: `FFFFFFFF` is `-1`.
    Signed,
    /// A floating-point number in decimal digits.
    Decimal,
    /// `False` for 0 and `True` for any other number.
    Flag,
    /// The word of a number.
    Words(&'static [(u8, &'static str)]),
    /// The words of the bits that are set, separated by commas.
    Flags(&'static [(u8, &'static str)]),
    /// The GUID as text in groups of 8-4-4-4-12 digits.
    Guid,
}

impl Form {
    /// Returns the value of the HTTP header. Returns `None` for a number without a word, for bits
    /// without a word, for bytes that are not UTF-8, and for a value of another type.
    pub fn header_value<'a>(&self, value: Value<'a>) -> Option<Cow<'a, str>> {
        match (*self, value) {
            (Form::Text | Form::AfterRange, Value::Text(text)) => Some(Cow::Borrowed(text)),
            (Form::Utf8, Value::Bytes(bytes)) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            (Form::Number, Value::Long(number)) => Some(number.to_string().into()),
            (Form::Number, Value::LongLong(number)) => Some(number.to_string().into()),
            (Form::Number, value) => Some(value.number()?.to_string().into()),
            (Form::Signed, Value::ULong(number)) => Some(number.cast_signed().to_string().into()),
            (Form::Signed, Value::Long(number)) => Some(number.to_string().into()),
            (Form::Decimal, Value::Float(number)) => Some(number.to_string().into()),
            (Form::Decimal, Value::Double(number)) => Some(number.to_string().into()),
            (Form::Flag, value) => match value.number()? {
                0 => Some(Cow::Borrowed("False")),
                _ => Some(Cow::Borrowed("True")),
            },
            (Form::Words(words), value) => {
                let number = value.number()?;
                let row = words.iter().find(|(at, _)| u64::from(*at) == number)?;
                Some(Cow::Borrowed(row.1))
            }
            (Form::Flags(words), value) => joined(words, value.number()?).map(Cow::Owned),
            (Form::Guid, Value::Guid(bytes)) => Some(guid_text(bytes).into()),
            _ => None,
        }
    }
}

/// Returns the words of the bits that are set; `None` if there is none, or a bit has no word.
fn joined(words: &[(u8, &str)], bits: u64) -> Option<String> {
    let known = words.iter().fold(0, |all, (bit, _)| all | u64::from(*bit));
    if bits == 0 || bits & !known != 0 {
        return None;
    }
    let set = words.iter().filter(|(bit, _)| bits & u64::from(*bit) != 0);
    let set: Vec<&str> = set.map(|(_, word)| *word).collect();
    Some(set.join(","))
}

/// A row of a table of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The id, which is unique in its table.
    pub id: u16,
    /// The name in the sources of the clients, for logs.
    pub name: &'static str,
    /// The type of the value.
    pub kind: Type,
    /// The HTTP header of the gateway, in lower case, that the token stands for, and how its value
    /// is written; `None` if the gateway has no such header.
    pub header: Option<(&'static str, Form)>,
}
