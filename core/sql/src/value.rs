//! Operators on values: comparison, arithmetic, and the digest by which DISTINCT and GROUP BY
//! recognize equal values.
//!
//! `None` stands for an undefined value.

use crate::syntax::ast::BinaryOp;
use orrery_model::json::{Json, Object, compare, deep_equal};
use std::borrow::Cow;
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// An intermediate value of an evaluation: undefined, borrowed from an item or the query, or owned.
pub(crate) type Value<'a> = Option<Cow<'a, Json>>;

/// The maximum size in bytes of a string that an operator or a function returns. A longer result is
/// undefined. No item can store a string of this size.
pub(crate) const STRING_BYTES: usize = 1 << 24;

/// Evaluates `=`. Values of different types are unequal; an undefined operand gives undefined.
pub(crate) fn equal(a: Option<&Json>, b: Option<&Json>) -> Option<bool> {
    Some(deep_equal(a?, b?))
}

/// Compares two scalars of one type. Returns `None` for any other pair of values and for NaN.
pub(crate) fn order(a: Option<&Json>, b: Option<&Json>) -> Option<Ordering> {
    match (a?, b?) {
        (Json::Number(x), Json::Number(y)) if x.as_f64().is_nan() || y.as_f64().is_nan() => None,
        (a @ Json::Number(_), b @ Json::Number(_))
        | (a @ Json::String(_), b @ Json::String(_))
        | (a @ Json::Bool(_), b @ Json::Bool(_))
        | (a @ Json::Null, b @ Json::Null) => Some(compare(a, b)),
        _ => None,
    }
}

/// Evaluates a comparison operator. Returns `None` if the result is undefined.
pub(crate) fn compared(op: BinaryOp, a: Option<&Json>, b: Option<&Json>) -> Option<bool> {
    match op {
        BinaryOp::Equal => equal(a, b),
        BinaryOp::NotEqual => equal(a, b).map(|e| !e),
        BinaryOp::Less => order(a, b).map(Ordering::is_lt),
        BinaryOp::LessOrEqual => order(a, b).map(Ordering::is_le),
        BinaryOp::Greater => order(a, b).map(Ordering::is_gt),
        BinaryOp::GreaterOrEqual => order(a, b).map(Ordering::is_ge),
        _ => None,
    }
}

/// Evaluates a binary operator other than AND and OR, which may skip their second operand. Returns
/// `None` if the result is undefined.
pub(crate) fn binary(op: BinaryOp, a: Option<&Json>, b: Option<&Json>) -> Option<Json> {
    if matches!(op, BinaryOp::Concat) {
        let (a, b) = (a?.as_str()?, b?.as_str()?);
        return (a.len() + b.len() <= STRING_BYTES).then(|| Json::String([a, b].concat()));
    }
    let arithmetic: fn(f64, f64) -> f64 = match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Subtract => |a, b| a - b,
        BinaryOp::Multiply => |a, b| a * b,
        BinaryOp::Divide => |a, b| a / b,
        BinaryOp::Modulo => |a, b| a % b,
        BinaryOp::BitAnd => |a, b| f64::from(to_i32(a) & to_i32(b)),
        BinaryOp::BitOr => |a, b| f64::from(to_i32(a) | to_i32(b)),
        BinaryOp::BitXor => |a, b| f64::from(to_i32(a) ^ to_i32(b)),
        BinaryOp::ShiftLeft => |a, b| f64::from(to_i32(a).wrapping_shl(to_i32(b) as u32)),
        BinaryOp::ShiftRight => |a, b| f64::from(to_i32(a).wrapping_shr(to_i32(b) as u32)),
        BinaryOp::ShiftRightUnsigned => {
            |a, b| f64::from((to_i32(a) as u32).wrapping_shr(to_i32(b) as u32))
        }
        _ => return compared(op, a, b).map(Json::Bool),
    };
    Some(number(arithmetic(a?.as_f64()?, b?.as_f64()?)))
}

/// Makes the JSON number of a computed value. Negative zero becomes zero, as in JavaScript's JSON.
pub(crate) fn number(double: f64) -> Json {
    Json::from(if double == 0.0 { 0.0 } else { double })
}

/// Converts to a 32-bit integer as JavaScript does: truncated, then taken modulo 2^32.
pub(crate) fn to_i32(double: f64) -> i32 {
    if !double.is_finite() {
        return 0;
    }
    double.trunc().rem_euclid(4_294_967_296.0) as u32 as i32
}

/// Returns a 128-bit hash by which values are compared: equal values have equal digests, and a
/// collision of different values is taken to be impossible. Equality is deep equality: the order of
/// members does not matter, and `1` equals `1.0`. Integers are compared exactly.
///
/// The function must not change between builds, because continuations contain digests. The digest
/// is XXH3 with 128 bits over the digests of the parts of the value, seeded with a letter for its
/// type.
pub(crate) fn digest(value: Option<&Json>) -> u128 {
    match value {
        None => hash(b'u', &[]),
        Some(Json::Null) => hash(b'n', &[]),
        Some(Json::Bool(b)) => hash(b'b', &[u8::from(*b)]),
        Some(Json::Number(n)) => match n.as_i64() {
            Some(integer) => hash(b'i', &integer.to_le_bytes()),
            None => hash(b'd', &n.as_f64().to_bits().to_le_bytes()),
        },
        Some(Json::String(s)) => hash(b's', s.as_bytes()),
        Some(Json::Array(elements)) => {
            let parts: Vec<u8> = elements
                .iter()
                .flat_map(|e| digest(Some(e)).to_le_bytes())
                .collect();
            hash(b'a', &parts)
        }
        Some(Json::Object(members)) => {
            // Members are added up, because a sum does not depend on their order.
            let mut sum = 0u128;
            for (name, value) in members.iter() {
                let name = hash(b's', name.as_bytes()).to_le_bytes();
                let value = digest(Some(value)).to_le_bytes();
                sum = sum.wrapping_add(hash(b'm', &[name, value].concat()));
            }
            let count = members.len() as u128;
            hash(b'o', &[sum.to_le_bytes(), count.to_le_bytes()].concat())
        }
    }
}

/// Hashes bytes for [`digest`]; `kind` is the letter for the type of the value.
fn hash(kind: u8, bytes: &[u8]) -> u128 {
    xxh3_128_with_seed(bytes, u64::from(kind))
}

/// Returns the value by which ORDER BY sorts: an array or an object without its content, because
/// arrays have no order among each other, nor have objects. So the order is that of the index.
///
/// The service orders them by a hash of their content, which clients compute as well where they
/// merge partitions; clients that get these values see rows of equal sort values.
pub(crate) fn sort_value(value: Cow<'_, Json>) -> Cow<'_, Json> {
    match *value {
        Json::Array(_) => Cow::Owned(Json::Array(Vec::new())),
        Json::Object(_) => Cow::Owned(Json::Object(Object::new())),
        _ => value,
    }
}

/// Estimates the memory that a value occupies, in bytes, for memory bounds.
pub(crate) fn weight(value: &Json) -> usize {
    let content = match value {
        Json::String(s) => s.len(),
        Json::Array(elements) => elements.iter().map(weight).sum(),
        Json::Object(members) => members
            .iter()
            .map(|(name, v)| name.len() + 24 + weight(v))
            .sum(),
        _ => 0,
    };
    32 + content
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn digest_of(text: &str) -> u128 {
        digest(Some(&parse(text.as_bytes()).expect("JSON")))
    }

    #[test]
    fn equal_values_have_equal_digests_and_different_values_do_not() {
        assert_eq!(
            digest_of(r#"{"a":1,"b":[2]}"#),
            digest_of(r#"{"b":[2.0],"a":1.0}"#)
        );
        let values = [
            "null", "false", "true", "0", "0.5", "\"\"", "\"a\"", "[]", "[[]]", "[1,2]", "[2,1]",
            "{}",
        ];
        let objects = [
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"a":1,"b":1}"#,
            r#"{"b":1}"#,
            r#"{"":{}}"#,
        ];
        let all: Vec<u128> = values
            .iter()
            .chain(&objects)
            .map(|text| digest_of(text))
            .chain([digest(None)])
            .collect();
        for (i, one) in all.iter().enumerate() {
            assert!(
                !all[..i].contains(one),
                "the value at {i} has the digest of another"
            );
        }
    }

    #[test]
    fn digests_are_the_same_in_every_build() {
        assert_eq!(
            format!("{:032x}", digest_of("\"a\"")),
            "7459c5c85a418fca9f448e6b44d39289"
        );
        assert_eq!(
            format!("{:032x}", digest_of(r#"{"a":[1,null,2.5]}"#)),
            "10b2eccd5a25b9305449a289be96abba"
        );
    }
}
