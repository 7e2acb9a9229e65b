//! Values as bytes that sort as the values do.
//!
//! ```text
//! undefined 08 · null 10 · false 20 · true 21 · number 30 double·8 · string 40 bytes 00 01 · array 50 · object 60
//! ```
//! A double's bits are turned so that they sort. In strings 00 is written 00 FF, so that the end 00 01 sorts before any
//! continuation. Strings longer than [`STRING_BYTES`] are cut and end in 00 02; numbers from 2^53 on share the nearest
//! double. Such values are *inexact*: whoever finds an item through one looks at the item itself. Arrays and objects
//! are known only as such. No value's bytes begin another's, so several can stand one after the other; undefined has
//! bytes for that alone.

use orrery_model::Json;
use orrery_model::json::Number;

/// Encoded bytes of a string that the index keeps.
pub const STRING_BYTES: usize = 1024;

const UNDEFINED: u8 = 0x08;
/// From here on whole numbers share doubles.
const EXACT: f64 = 9_007_199_254_740_992.0;

const NULL: u8 = 0x10;
const FALSE: u8 = 0x20;
const TRUE: u8 = 0x21;
const NUMBER: u8 = 0x30;
const STRING: u8 = 0x40;
const ARRAY: u8 = 0x50;
const OBJECT: u8 = 0x60;
const END: [u8; 2] = [0x00, 0x01];
const CUT: [u8; 2] = [0x00, 0x02];

/// A value as an index key has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether only equal values have these bytes.
    pub exact: bool,
}

/// Encodes a value.
pub fn encode(value: &Json) -> Encoded {
    encode_within(value, STRING_BYTES)
}

/// Encodes a value; of a string at most so many bytes.
pub fn encode_within(value: &Json, string_bytes: usize) -> Encoded {
    let resource = |bytes: Vec<u8>| Encoded { bytes, exact: true };
    match value {
        Json::Null => resource(vec![NULL]),
        Json::Bool(false) => resource(vec![FALSE]),
        Json::Bool(true) => resource(vec![TRUE]),
        Json::Number(number) => encode_number(number),
        Json::String(text) => encode_string(text, string_bytes),
        Json::Array(_) => Encoded {
            bytes: vec![ARRAY],
            exact: false,
        },
        Json::Object(_) => Encoded {
            bytes: vec![OBJECT],
            exact: false,
        },
    }
}

fn encode_number(number: &Number) -> Encoded {
    // Adding zero turns -0 into 0: they are equal.
    let double = number.as_f64() + 0.0;
    let bits = double.to_bits();
    let sortable = if bits >> 63 == 0 {
        bits ^ 1 << 63
    } else {
        !bits
    };
    let mut bytes = vec![NUMBER];
    bytes.extend_from_slice(&sortable.to_be_bytes());
    // 2^53 itself is the nearest double of 2^53 + 1 too.
    let exact = double.abs() < EXACT;
    Encoded { bytes, exact }
}

fn encode_string(text: &str, most: usize) -> Encoded {
    let (mut bytes, exact) = string_start(text, most);
    bytes.extend_from_slice(if exact { &END } else { &CUT });
    Encoded { bytes, exact }
}

/// The encoded beginning, of at most so many bytes, that all strings starting with `prefix` share; and whether all of it
/// fits.
pub fn string_start(prefix: &str, most: usize) -> (Vec<u8>, bool) {
    let mut bytes = vec![STRING];
    for &byte in prefix.as_bytes() {
        let step: &[u8] = if byte == 0 {
            &[0x00, 0xFF]
        } else {
            std::slice::from_ref(&byte)
        };
        if bytes.len() + step.len() > most {
            return (bytes, false);
        }
        bytes.extend_from_slice(step);
    }
    (bytes, true)
}

/// The types that have a stretch of the key space of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeBand {
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
    /// First byte of the type's values, and first byte after them.
    pub fn bounds(self) -> (u8, u8) {
        match self {
            TypeBand::Null => (NULL, NULL + 1),
            TypeBand::Bool => (FALSE, TRUE + 1),
            TypeBand::Number => (NUMBER, NUMBER + 1),
            TypeBand::String => (STRING, STRING + 1),
            TypeBand::Array => (ARRAY, ARRAY + 1),
            TypeBand::Object => (OBJECT, OBJECT + 1),
        }
    }

    /// The type of a value.
    pub fn of(value: &Json) -> Self {
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

/// Reads the string back out of encoded bytes; `None` if they are no string or a cut one.
pub fn decode_string(bytes: &[u8]) -> Option<String> {
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

/// Encodes a value that may be missing.
pub fn encode_or_undefined(value: Option<&Json>, string_bytes: usize) -> Vec<u8> {
    value.map_or_else(
        || vec![UNDEFINED],
        |value| encode_within(value, string_bytes).bytes,
    )
}

/// Bytes that sort the other way round.
pub fn turned(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| !byte).collect()
}

/// Whether different values may have these bytes.
pub fn is_inexact(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(&STRING) => bytes.ends_with(&CUT),
        Some(&NUMBER) => decode_double(bytes).is_none_or(|double| double.abs() >= EXACT),
        Some(&(ARRAY | OBJECT)) => true,
        _ => false,
    }
}

/// Whether different values of one type that have an order among themselves may have these bytes.
pub fn hides_order(bytes: &[u8]) -> bool {
    is_inexact(bytes) && !matches!(bytes.first(), Some(&(ARRAY | OBJECT)))
}

/// Reads a scalar back out of its bytes; `None` if they are inexact.
pub fn decode(bytes: &[u8]) -> Option<Json> {
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
    Some(f64::from_bits(if sortable >> 63 == 1 {
        sortable ^ 1 << 63
    } else {
        !sortable
    }))
}

/// How many bytes the first of several values has, if they are all there.
pub fn first_length(bytes: &[u8]) -> Option<usize> {
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
        fn bytes_sort_as_values_do(a in scalar(), b in scalar()) {
            prop_assert_eq!(encode(&a).bytes.cmp(&encode(&b).bytes), compare(&a, &b));
        }

        #[test]
        fn strings_read_back(text in "[a-c\u{0}é😀]{0,20}") {
            let encoded = encode(&Json::from(text.as_str()));
            prop_assert_eq!(decode_string(&encoded.bytes), Some(text));
        }

        #[test]
        fn scalars_read_back_and_stand_side_by_side(a in scalar(), b in scalar()) {
            let encoded = encode(&a);
            let both = [encoded.bytes.clone(), encode(&b).bytes].concat();
            prop_assert_eq!(first_length(&both), Some(encoded.bytes.len()));
            if encoded.exact {
                prop_assert_eq!(decode(&encoded.bytes), Some(a));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        let long = "x".repeat(STRING_BYTES + 1);
        let encoded = encode(&Json::from(long.as_str()));
        assert!(
            !encoded.exact
                && encoded.bytes.ends_with(&CUT)
                && encoded.bytes.len() <= STRING_BYTES + 2
        );
        assert!(!encode(&parse(b"9007199254740993").expect("JSON")).exact);
        assert!(
            !encode(&parse(b"9007199254740992").expect("JSON")).exact,
            "it looks like the one above it"
        );
        assert!(encode(&parse(b"9007199254740991").expect("JSON")).exact);
        assert!(encode(&Json::from(0.5)).exact);
    }
}
