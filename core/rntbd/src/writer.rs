//! The writer of frames: a head whose length is filled in at the end, and the payload.

use crate::guid::guid_bytes;
use crate::head::HEAD_BYTES_MIN;
use crate::token::{Form, Token, Type, Value};

/// The bytes for which a writer takes memory at first; the heads of most answers fit.
const HEAD_BYTES_EXPECTED: usize = 768;

/// A frame that is being written: the tokens stand in the order of the calls.
///
/// The head stays below 4 GiB, because its length has four bytes; so does the payload.
#[derive(Clone)]
pub struct FrameWriter {
    head: Vec<u8>,
}

impl FrameWriter {
    /// Begins a request, for clients and tests. `activity_id` is in the order of the frame.
    pub fn request(resource: u16, operation: u16, activity_id: [u8; 16]) -> Self {
        let mut writer = Self::begin();
        writer.head.extend_from_slice(&resource.to_le_bytes());
        writer.head.extend_from_slice(&operation.to_le_bytes());
        writer.head.extend_from_slice(&activity_id);
        writer
    }

    /// Begins an answer with a status of HTTP. `activity_id` is in the order of the frame.
    pub fn answer(status: u32, activity_id: [u8; 16]) -> Self {
        let mut writer = Self::begin();
        writer.head.extend_from_slice(&status.to_le_bytes());
        writer.head.extend_from_slice(&activity_id);
        writer
    }

    fn begin() -> Self {
        let mut head = Vec::with_capacity(HEAD_BYTES_EXPECTED);
        head.extend_from_slice(&[0; 4]);
        FrameWriter { head }
    }

    /// Writes the token of a whole number, in the size of its type. A number below zero is given
    /// in two's complement; of a number that the type cannot hold, the low bytes are written.
    pub fn number(&mut self, token: &Token, value: u64) {
        debug_assert!(token.kind.is_integer(), "{} is no number", token.name);
        let size = match token.kind {
            Type::Byte => 1,
            Type::UShort => 2,
            Type::ULong | Type::Long => 4,
            Type::ULongLong | Type::LongLong => 8,
            _ => return,
        };
        self.begin_token(token);
        self.head.extend_from_slice(&value.to_le_bytes()[..size]);
    }

    /// Writes the token of a floating-point number.
    pub fn double(&mut self, token: &Token, value: f64) {
        match token.kind {
            Type::Double => {
                self.begin_token(token);
                self.head.extend_from_slice(&value.to_le_bytes());
            }
            Type::Float => {
                self.begin_token(token);
                self.head.extend_from_slice(&(value as f32).to_le_bytes());
            }
            _ => debug_assert!(false, "{} is no floating-point number", token.name),
        }
    }

    /// Writes the token of a text. Returns false, and writes nothing, if the text is longer than
    /// the type can hold.
    pub fn text(&mut self, token: &Token, value: &str) -> bool {
        debug_assert!(token.kind.is_text(), "{} is no text", token.name);
        token.kind.is_text() && self.sized(token, value.as_bytes())
    }

    /// Writes the token of bytes. Returns false, and writes nothing, if there are more bytes than
    /// the type can hold.
    pub fn bytes(&mut self, token: &Token, value: &[u8]) -> bool {
        debug_assert!(token.kind.is_bytes(), "{} has no bytes", token.name);
        token.kind.is_bytes() && self.sized(token, value)
    }

    /// Writes the token of a GUID, which is in the order of the frame.
    pub fn guid(&mut self, token: &Token, value: [u8; 16]) {
        debug_assert!(token.kind == Type::Guid, "{} is no GUID", token.name);
        if token.kind == Type::Guid {
            self.begin_token(token);
            self.head.extend_from_slice(&value);
        }
    }

    /// Writes a token with a value that was read: a number in the type that it had in its frame, a
    /// text or bytes in the type of the token. Returns false, and writes nothing, if a text or
    /// bytes are longer than the type can hold.
    pub fn value(&mut self, token: &Token, value: Value<'_>) -> bool {
        let of = |kind: Type| Token { kind, ..*token };
        match value {
            Value::Byte(number) => self.number(&of(Type::Byte), number.into()),
            Value::UShort(number) => self.number(&of(Type::UShort), number.into()),
            Value::ULong(number) => self.number(&of(Type::ULong), number.into()),
            Value::Long(number) => self.number(&of(Type::Long), i64::from(number).cast_unsigned()),
            Value::ULongLong(number) => self.number(&of(Type::ULongLong), number),
            Value::LongLong(number) => self.number(&of(Type::LongLong), number.cast_unsigned()),
            Value::Guid(bytes) => self.guid(&of(Type::Guid), bytes),
            Value::Float(number) => self.double(&of(Type::Float), number.into()),
            Value::Double(number) => self.double(&of(Type::Double), number),
            Value::Text(text) => return self.text(token, text),
            Value::Bytes(bytes) => return self.bytes(token, bytes),
        }
        true
    }

    /// Writes a token with the value of the HTTP header that it stands for: the inverse of
    /// [`Form::header_value`]. Returns false, and writes nothing, if the header cannot be the value
    /// of the token: a text that is too long, a word that the table does not have, no number.
    pub fn header(&mut self, token: &Token, text: &str) -> bool {
        let Some((_, form)) = token.header else {
            debug_assert!(false, "{} stands for no header", token.name);
            return false;
        };
        let number = match form {
            Form::Text => return self.text(token, text),
            Form::AfterRange => {
                let (_, position) = text.split_once(':').unwrap_or(("", text));
                return self.text(token, position);
            }
            Form::Utf8 => return self.bytes(token, text.as_bytes()),
            Form::Decimal => {
                let number: Option<f64> = text.parse().ok();
                return number.map(|number| self.double(token, number)).is_some();
            }
            Form::Guid => {
                let guid = guid_bytes(text);
                return guid.map(|guid| self.guid(token, guid)).is_some();
            }
            Form::Number => number_of(token.kind, text),
            Form::Signed => text.parse().ok().map(|n: i32| u64::from(n.cast_unsigned())),
            Form::Flag => flag(text),
            Form::Words(words) => bit(words, text),
            Form::Flags(words) => text
                .split(',')
                .map(|word| bit(words, word.trim()))
                .try_fold(0, |bits, bit| Some(bits | bit?)),
        };
        number.map(|number| self.number(token, number)).is_some()
    }

    /// Returns the frame: the head with its length and, unless it is empty, the payload behind its
    /// length. A token that says whether there is a payload is written by the caller.
    pub fn finish(self, payload: &[u8]) -> Vec<u8> {
        let mut frame = self.head;
        debug_assert!(frame.len() >= HEAD_BYTES_MIN);
        let length = length_field(frame.len());
        frame[..4].copy_from_slice(&length);
        if !payload.is_empty() {
            frame.reserve_exact(4 + payload.len());
            frame.extend_from_slice(&length_field(payload.len()));
            frame.extend_from_slice(payload);
        }
        frame
    }

    fn begin_token(&mut self, token: &Token) {
        self.head.extend_from_slice(&token.id.to_le_bytes());
        self.head.push(token.kind.wire());
    }

    /// Writes bytes behind their number, in the size that the type has for it.
    fn sized(&mut self, token: &Token, value: &[u8]) -> bool {
        let (size, max) = match token.kind {
            Type::SmallString | Type::SmallBytes => (1, u64::from(u8::MAX)),
            Type::String | Type::Bytes => (2, u64::from(u16::MAX)),
            _ => (4, u64::from(u32::MAX)),
        };
        let length = value.len() as u64;
        if length > max {
            return false;
        }
        self.begin_token(token);
        self.head.extend_from_slice(&length.to_le_bytes()[..size]);
        self.head.extend_from_slice(value);
        true
    }
}

/// Returns a length as it stands in front of a head or a payload.
fn length_field(length: usize) -> [u8; 4] {
    debug_assert!(u32::try_from(length).is_ok());
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Parses a decimal number that a type can hold; one below zero becomes its two's complement.
fn number_of(kind: Type, text: &str) -> Option<u64> {
    match kind {
        Type::Byte => text.parse::<u8>().ok().map(u64::from),
        Type::UShort => text.parse::<u16>().ok().map(u64::from),
        Type::ULong => text.parse::<u32>().ok().map(u64::from),
        Type::Long => text
            .parse::<i32>()
            .ok()
            .map(|n| u64::from(n.cast_unsigned())),
        Type::LongLong => text.parse::<i64>().ok().map(i64::cast_unsigned),
        _ => text.parse().ok(),
    }
}

fn flag(text: &str) -> Option<u64> {
    match text {
        t if t.eq_ignore_ascii_case("true") => Some(1),
        t if t.eq_ignore_ascii_case("false") => Some(0),
        _ => None,
    }
}

/// Returns the number of a word, which is compared without regard to case.
fn bit(words: &[(u8, &str)], text: &str) -> Option<u64> {
    let row = words
        .iter()
        .find(|(_, word)| word.eq_ignore_ascii_case(text))?;
    Some(u64::from(row.0))
}
