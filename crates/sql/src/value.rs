//! Operators on values: comparison, three-valued logic, arithmetic, and the digest that DISTINCT and GROUP BY use.
//!
//! Undefined is `None` everywhere.

use crate::syntax::ast::BinaryOp;
use orrery_model::json::{Json, compare, deep_equal};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// A value while it is computed: undefined, borrowed from an item or the query, or made.
pub(crate) type Value<'a> = Option<Cow<'a, Json>>;

/// Bytes of the longest string that an operator or a function makes; what would be longer is undefined. An item cannot
/// hold as much.
pub(crate) const STRING_BYTES: usize = 1 << 24;

/// `=`: types that differ are unequal, an undefined side gives undefined.
pub(crate) fn equal(a: Option<&Json>, b: Option<&Json>) -> Option<bool> {
    Some(deep_equal(a?, b?))
}

/// The order of two scalars of one type; everything else does not compare. NaN compares with nothing.
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

/// A comparison operator's answer.
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

/// Every binary operator but AND and OR.
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
        BinaryOp::ShiftRightUnsigned => |a, b| f64::from((to_i32(a) as u32).wrapping_shr(to_i32(b) as u32)),
        _ => return compared(op, a, b).map(Json::Bool),
    };
    Some(number(arithmetic(a?.as_f64()?, b?.as_f64()?)))
}

/// A computed number. There is no negative zero among results, as JavaScript's JSON has none.
pub(crate) fn number(double: f64) -> Json {
    Json::from(if double == 0.0 { 0.0 } else { double })
}

/// To a 32-bit integer as JavaScript does: the fraction dropped, the rest wrapped.
pub(crate) fn to_i32(double: f64) -> i32 {
    if !double.is_finite() {
        return 0;
    }
    double.trunc().rem_euclid(4_294_967_296.0) as u32 as i32
}

/// Sixteen bytes that are equal for equal values and, for all purposes, different for different ones. Equal as in
/// deep equality: members in any order, `1` and `1.0` alike. Whole numbers are told apart exactly.
pub(crate) fn digest(value: Option<&Json>) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        match value {
            None => hasher.write_u8(b'u'),
            Some(value) => feed(value, seed, &mut hasher),
        }
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

fn feed(value: &Json, seed: u8, hasher: &mut DefaultHasher) {
    match value {
        Json::Null => hasher.write_u8(b'n'),
        Json::Bool(b) => hasher.write(&[b'b', u8::from(*b)]),
        Json::Number(n) => match n.as_i64() {
            Some(integer) => {
                hasher.write_u8(b'i');
                hasher.write_i64(integer);
            }
            None => {
                hasher.write_u8(b'd');
                hasher.write_u64(n.as_f64().to_bits());
            }
        },
        Json::String(s) => {
            hasher.write_u8(b's');
            hasher.write_usize(s.len());
            hasher.write(s.as_bytes());
        }
        Json::Array(elements) => {
            hasher.write_u8(b'a');
            hasher.write_usize(elements.len());
            elements.iter().for_each(|e| feed(e, seed, hasher));
        }
        Json::Object(members) => {
            // A sum does not depend on the order of its parts.
            let mut sum = 0u64;
            for (name, member) in members.iter() {
                let mut own = DefaultHasher::new();
                own.write_u8(seed);
                own.write_usize(name.len());
                own.write(name.as_bytes());
                feed(member, seed, &mut own);
                sum = sum.wrapping_add(own.finish());
            }
            hasher.write_u8(b'o');
            hasher.write_usize(members.len());
            hasher.write_u64(sum);
        }
    }
}

/// Roughly how many bytes a value holds on to, for memory bounds.
pub(crate) fn weight(value: &Json) -> usize {
    let below = match value {
        Json::String(s) => s.len(),
        Json::Array(elements) => elements.iter().map(weight).sum(),
        Json::Object(members) => members.iter().map(|(name, v)| name.len() + 24 + weight(v)).sum(),
        _ => 0,
    };
    32 + below
}
