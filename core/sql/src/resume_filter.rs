//! The filter with which a merging client resumes an ORDER BY query in the middle: `resumeFilter`
//! of the request body.
//!
//! The client has already returned the rows up to certain sort values. Rows that sort before these
//! values are skipped. Rows with equal sort values are skipped if `exclude` is true, or if they
//! come before the item with the resource id `rid`: ties are ordered by resource id, ascending, or
//! descending if the first key of ORDER BY descends.
//!
//! All arrays have equal sort values, and so have all objects; clients send such a value as a hash,
//! of which only the type counts.

use crate::bind::BoundOrder;
use crate::error::QueryError;
use crate::run::frame::{Context, Scope};
use crate::value::sort_value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::json::{Json, Object, compare};
use std::cmp::Ordering;

/// The point at which a client resumes an ordered query.
#[derive(Clone, Debug)]
pub struct ResumeFilter {
    /// A value for each key of ORDER BY; `None` is undefined.
    values: Vec<Option<Json>>,
    /// The number of the first item, among those with equal sort values, whose row is needed.
    first_item: Option<u64>,
    /// The client has all rows with equal sort values.
    exclude: bool,
}

impl ResumeFilter {
    /// Parses `{"value": [...], "rid": "...", "exclude": false}`. In `value` a scalar stands for
    /// itself, `[]` for undefined, and `{"type": "array" | "object", "low": n, "high": n}` for an
    /// array or object with this hash.
    ///
    /// # Errors
    /// [`QueryError::Resume`] for any other form.
    pub fn parse(json: &Json) -> Result<Self, QueryError> {
        let values = json
            .get("value")
            .and_then(Json::as_array)
            .ok_or_else(|| invalid("'value' is not an array"))?
            .iter()
            .map(parse_value)
            .collect::<Result<_, QueryError>>()?;
        let first_item = match json.get("rid") {
            None | Some(Json::Null) => None,
            Some(rid) => {
                let number = rid.as_str().and_then(item_number);
                Some(number.ok_or_else(|| invalid("'rid' is not the resource id of an item"))?)
            }
        };
        let exclude = match json.get("exclude") {
            None | Some(Json::Null) => false,
            Some(Json::Bool(exclude)) => *exclude,
            Some(_) => return Err(invalid("'exclude' is neither true nor false")),
        };
        Ok(ResumeFilter {
            values,
            first_item,
            exclude,
        })
    }

    /// Returns the number of sort values.
    pub(crate) fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Returns true if the client still needs the row of a tuple. `order` are the keys of ORDER BY,
    /// as many as the filter has values; `item` is the item of the tuple.
    ///
    /// # Errors
    /// Errors of the evaluation of the sort values.
    pub(crate) fn admits(
        &self,
        order: &[BoundOrder],
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
        item: Option<&Json>,
    ) -> Result<bool, QueryError> {
        // The first sort value that differs decides.
        for (order, resumed) in order.iter().zip(&self.values) {
            // The value is dropped after the comparison, so it does not count as held memory.
            let held_bytes = cx.held_bytes;
            let value = order.expr.eval(cx, tuple)?;
            cx.held_bytes = held_bytes;
            let value = value.map(sort_value);
            let mut ordering = compare_values(value.as_deref(), resumed.as_ref());
            if order.key.descending {
                ordering = ordering.reverse();
            }
            match ordering {
                Ordering::Less => return Ok(false),
                Ordering::Greater => return Ok(true),
                Ordering::Equal => {}
            }
        }
        // All sort values are equal: the resource id decides.
        if self.exclude {
            return Ok(false);
        }
        let Some(first_item) = self.first_item else {
            return Ok(true);
        };
        let rid = item
            .and_then(|item| item.get("_rid"))
            .and_then(Json::as_str);
        let Some(number) = rid.and_then(item_number) else {
            return Ok(true);
        };
        let is_descending = order.first().is_some_and(|order| order.key.descending);
        Ok(if is_descending {
            number <= first_item
        } else {
            number >= first_item
        })
    }
}

/// Parses one sort value of the filter; `None` is undefined.
fn parse_value(value: &Json) -> Result<Option<Json>, QueryError> {
    match value {
        Json::Array(elements) if elements.is_empty() => Ok(None),
        Json::Object(members) => match structure_of_hash(members) {
            Some(structure) => Ok(Some(structure)),
            None => Err(invalid("a value is neither a scalar, [] nor a hash")),
        },
        Json::Array(_) => Err(invalid("a value is neither a scalar, [] nor a hash")),
        scalar => Ok(Some(scalar.clone())),
    }
}

fn invalid(reason: &str) -> QueryError {
    QueryError::Resume(format!("The resume filter is not valid: {reason}."))
}

/// Returns the sort value of the array or object for which an object with its 128-bit hash stands.
fn structure_of_hash(members: &Object) -> Option<Json> {
    for half in ["low", "high"] {
        members.get(half).and_then(Json::as_i64)?;
    }
    match members.get("type").and_then(Json::as_str)? {
        "array" => Some(Json::Array(Vec::new())),
        "object" => Some(Json::Object(Object::new())),
        _ => None,
    }
}

/// Returns the number of an item in its container: the last eight of the sixteen bytes of its
/// resource id, little-endian.
pub(crate) fn item_number(rid: &str) -> Option<u64> {
    let bytes = STANDARD.decode(rid.replace('-', "/")).ok()?;
    let number: [u8; 8] = bytes.get(8..16)?.try_into().ok()?;
    Some(u64::from_le_bytes(number))
}

/// Compares two sort values; undefined sorts first.
fn compare_values(value: Option<&Json>, resumed: Option<&Json>) -> Ordering {
    match (value, resumed) {
        (Some(value), Some(resumed)) => compare(value, resumed),
        (value, resumed) => value.is_some().cmp(&resumed.is_some()),
    }
}
