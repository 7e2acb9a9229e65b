//! Encoding of values as bytes that sort in the order of the values.
//!
//! ```text
//! undefined 08 · null 10 · false 20 · true 21 · number 30 double·8 · string 40 bytes 00 01
//! array 50 · object 60
//! ```
//! The bits of a double are changed so that they sort. In strings 00 is written 00 FF, so that the
//! end 00 01 sorts before any longer string. Strings longer than [`STRING_BYTES`] are truncated and
//! end in 00 02; numbers from 2^53 on share the nearest double. Such encodings are *inexact*: a
//! query that finds an item through an inexact encoding has to test the item itself. Arrays and
//! objects are encoded without their content. No encoding is a prefix of another, so encodings can
//! be concatenated; composite indexes do so and use the encoding of undefined for missing values.

use orrery_model::Json;
use orrery_model::json::Number;

/// Maximum length of an encoded string, in bytes.
pub(crate) const STRING_BYTES: usize = 1024;

const UNDEFINED: u8 = 0x08;
/// The first whole number, 2^53, that shares its double with another whole number.
const EXACT_NUMBERS_END: f64 = 9_007_199_254_740_992.0;

const NULL: u8 = 0x10;
const FALSE: u8 = 0x20;
const TRUE: u8 = 0x21;
const NUMBER: u8 = 0x30;
const STRING: u8 = 0x40;
const ARRAY: u8 = 0x50;
const OBJECT: u8 = 0x60;
const END: [u8; 2] = [0x00, 0x01];
const CUT: [u8; 2] = [0x00, 0x02];

/// The encoding of a value in an index key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// True if only equal values have these bytes.
    pub is_exact: bool,
}

/// Encodes a value.
pub(crate) fn encode(value: &Json) -> Encoded {
    encode_within(value, STRING_BYTES)
}

/// Encodes a value. The encoding of a string has at most `string_bytes` bytes before its end mark.
pub(crate) fn encode_within(value: &Json, string_bytes: usize) -> Encoded {
    let exact = |bytes: Vec<u8>| Encoded {
        bytes,
        is_exact: true,
    };
    match value {
        Json::Null => exact(vec![NULL]),
        Json::Bool(false) => exact(vec![FALSE]),
        Json::Bool(true) => exact(vec![TRUE]),
        Json::Number(number) => encode_number(number),
        Json::String(text) => encode_string(text, string_bytes),
        Json::Array(_) => Encoded {
            bytes: vec![ARRAY],
            is_exact: false,
        },
        Json::Object(_) => Encoded {
            bytes: vec![OBJECT],
            is_exact: false,
        },
    }
}

fn encode_number(number: &Number) -> Encoded {
    // Adding zero changes -0 to 0, which is equal.
    let double = number.as_f64() + 0.0;
    let bits = double.to_bits();
    let sortable = if bits >> 63 == 0 {
        bits ^ 1 << 63
    } else {
        !bits
    };
    let mut bytes = vec![NUMBER];
    bytes.extend_from_slice(&sortable.to_be_bytes());
    // 2^53 is also the nearest double of 2^53 + 1.
    let is_exact = double.abs() < EXACT_NUMBERS_END;
    Encoded { bytes, is_exact }
}

fn encode_string(text: &str, string_bytes: usize) -> Encoded {
    let (mut bytes, is_exact) = string_start(text, string_bytes);
    bytes.extend_from_slice(if is_exact { &END } else { &CUT });
    Encoded { bytes, is_exact }
}

/// Returns the encoded beginning that all strings with a prefix share, without an end mark, and
/// true if the whole prefix fits into `string_bytes` bytes.
pub(crate) fn string_start(prefix: &str, string_bytes: usize) -> (Vec<u8>, bool) {
    let mut bytes = vec![STRING];
    for &byte in prefix.as_bytes() {
        let encoded: &[u8] = if byte == 0 {
            &[0x00, 0xFF]
        } else {
            std::slice::from_ref(&byte)
        };
        if bytes.len() + encoded.len() > string_bytes {
            return (bytes, false);
        }
        bytes.extend_from_slice(encoded);
    }
    (bytes, true)
}

/// The types of values. The encodings of each type are one range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeBand {
    /// `null`
    Null,
    /// Booleans.
    Bool,
    /// Numbers.
    Number,
    /// Strings.
    String,
    /// Arrays.
    Array,
    /// Objects.
    Object,
}

impl TypeBand {
    /// Returns the range of the first bytes of the type's encodings: from (inclusive) and to
    /// (exclusive).
    pub(crate) fn bounds(self) -> (u8, u8) {
        match self {
            TypeBand::Null => (NULL, NULL + 1),
            TypeBand::Bool => (FALSE, TRUE + 1),
            TypeBand::Number => (NUMBER, NUMBER + 1),
            TypeBand::String => (STRING, STRING + 1),
            TypeBand::Array => (ARRAY, ARRAY + 1),
            TypeBand::Object => (OBJECT, OBJECT + 1),
        }
    }

    /// Returns the type of a value.
    pub(crate) fn of(value: &Json) -> Self {
        match value {
            Json::Null => TypeBand::Null,
            Json::Bool(_) => TypeBand::Bool,
            Json::Number(_) => TypeBand::Number,
            Json::String(_) => TypeBand::String,
            Json::Array(_) => TypeBand::Array,
            Json::Object(_) => TypeBand::Object,
        }
    }
}

/// Decodes a string, or returns `None` for a truncated string and for other types.
pub(crate) fn decode_string(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes.strip_prefix(&[STRING])?.strip_suffix(&END)?;
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, tail)) = rest.split_first() {
        out.push(byte);
        rest = if byte == 0 {
            tail.strip_prefix(&[0xFF])?
        } else {
            tail
        };
    }
    String::from_utf8(out).ok()
}

/// Encodes a value that may be missing, as [`encode_within`] does.
pub(crate) fn encode_or_undefined(value: Option<&Json>, string_bytes: usize) -> Vec<u8> {
    match value {
        Some(value) => encode_within(value, string_bytes).bytes,
        None => vec![UNDEFINED],
    }
}

/// Returns the bytes with all bits inverted, which sort in the opposite order.
pub(crate) fn inverted(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Returns true if different values may have this encoding.
pub(crate) fn is_inexact(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(&STRING) => bytes.ends_with(&CUT),
        Some(&NUMBER) => {
            decode_double(bytes).is_none_or(|double| double.abs() >= EXACT_NUMBERS_END)
        }
        Some(&(ARRAY | OBJECT)) => true,
        _ => false,
    }
}

/// Returns true if values that differ in order may share this encoding: truncated strings and large
/// numbers. Arrays have no order among each other, nor have objects.
pub(crate) fn hides_order(bytes: &[u8]) -> bool {
    is_inexact(bytes) && !matches!(bytes.first(), Some(&(ARRAY | OBJECT)))
}

/// Decodes a scalar, or returns `None` for an inexact encoding.
pub(crate) fn decode(bytes: &[u8]) -> Option<Json> {
    match *bytes.first()? {
        _ if is_inexact(bytes) => None,
        NULL => Some(Json::Null),
        FALSE => Some(Json::Bool(false)),
        TRUE => Some(Json::Bool(true)),
        NUMBER => decode_double(bytes).map(Json::from),
        STRING => decode_string(bytes).map(Json::String),
        _ => None,
    }
}

fn decode_double(bytes: &[u8]) -> Option<f64> {
    let sortable = u64::from_be_bytes(bytes.get(1..9)?.try_into().ok()?);
    let bits = if sortable >> 63 == 1 {
        sortable ^ 1 << 63
    } else {
        !sortable
    };
    Some(f64::from_bits(bits))
}

/// Returns the length of the first of several concatenated encodings, or `None` if it is
/// incomplete.
pub(crate) fn first_length(bytes: &[u8]) -> Option<usize> {
    match *bytes.first()? {
        NUMBER => Some(9),
        STRING => {
            let mut at = 1;
            loop {
                at += memchr::memchr(0, bytes.get(at..)?)?;
                match bytes.get(at + 1)? {
                    1 | 2 => return Some(at + 2),
                    _ => at += 2,
                }
            }
        }
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::{compare, parse};
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = Json> {
        prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            (-1_000_000_000_000i64..1_000_000_000_000).prop_map(Json::from),
            any::<f64>()
                .prop_filter("finite", |f| f.is_finite() && f.abs() < 1e15)
                .prop_map(Json::from),
            "[a-c\u{0}é😀]{0,6}".prop_map(Json::from),
        ]
    }

    proptest! {
        #[test]
        fn encodings_sort_in_the_order_of_values(a in scalar(), b in scalar()) {
            prop_assert_eq!(encode(&a).bytes.cmp(&encode(&b).bytes), compare(&a, &b));
        }

        #[test]
        fn strings_decode(text in "[a-c\u{0}é😀]{0,20}") {
            let encoded = encode(&Json::from(text.as_str()));
            prop_assert_eq!(decode_string(&encoded.bytes), Some(text));
        }

        #[test]
        fn scalars_decode_and_can_be_concatenated(a in scalar(), b in scalar()) {
            let encoded = encode(&a);
            let both = [encoded.bytes.clone(), encode(&b).bytes].concat();
            prop_assert_eq!(first_length(&both), Some(encoded.bytes.len()));
            if encoded.is_exact {
                prop_assert_eq!(decode(&encoded.bytes), Some(a));
            }
        }
    }

    #[test]
    fn inexact_encodings_are_marked() {
        let long = "x".repeat(STRING_BYTES + 1);
        let encoded = encode(&Json::from(long.as_str()));
        assert!(
            !encoded.is_exact
                && encoded.bytes.ends_with(&CUT)
                && encoded.bytes.len() <= STRING_BYTES + 2
        );
        assert!(!encode(&parse(b"9007199254740993").expect("JSON")).is_exact);
        assert!(
            !encode(&parse(b"9007199254740992").expect("JSON")).is_exact,
            "2^53 + 1 has the same encoding"
        );
        assert!(encode(&parse(b"9007199254740991").expect("JSON")).is_exact);
        assert!(encode(&Json::from(0.5)).is_exact);
    }
}
