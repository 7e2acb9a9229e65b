//! The filter with which a merging client resumes an ORDER BY in the middle: `resumeFilter` of the request body.
//!
//! The client has the rows up to some sort values out already. Rows that sort before those values are skipped; rows
//! equal to them as well if the filter says so, or those of equal values that come before the item with a given
//! resource id: ties come by resource id, upwards, or downwards if the first key of ORDER BY descends.
//!
//! Left out: values that are arrays or objects, refused by name. Clients send a hash of them, and we order such values
//! by what is in them.

use crate::error::QueryError;
use crate::query::Query;
use crate::run::frame::{Context, Scope};
use crate::value::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::json::{Json, Object, compare};
use std::cmp::Ordering;

/// Where a client resumes an ordered query.
#[derive(Clone, Debug)]
pub struct ResumeFilter {
    /// A value for each key of ORDER BY; `None` is undefined.
    values: Vec<Option<Json>>,
    /// The number of the item from which on rows of equal values are wanted.
    item: Option<u64>,
    /// Rows of equal values are out already.
    exclude: bool,
}

impl ResumeFilter {
    /// Reads `{"value": [...], "rid": "...", "exclude": false}`. In `value` a scalar is itself, `[]` is undefined, and
    /// `{"type": "array" | "object", "low": n, "high": n}` is the hash of an array or object.
    ///
    /// # Errors
    /// [`QueryError::Unsupported`] for hashes, [`QueryError::Resume`] for any other shape.
    pub fn parse(json: &Json) -> Result<Self, QueryError> {
        let refused =
            |what: &str| QueryError::Resume(format!("The resume filter is not valid: {what}."));
        let list = json
            .get("value")
            .and_then(Json::as_array)
            .ok_or_else(|| refused("'value' is not an array"))?;
        let mut values = Vec::with_capacity(list.len());
        for value in list {
            values.push(match value {
                Json::Array(elements) if elements.is_empty() => None,
                Json::Object(members) if is_hash(members) => {
                    let message =
                        "A resume filter on the value of an array or object is not supported.";
                    return Err(QueryError::Unsupported(message.into()));
                }
                Json::Array(_) | Json::Object(_) => {
                    return Err(refused("a value is neither a scalar, [] nor a hash"));
                }
                scalar => Some(scalar.clone()),
            });
        }
        let item = match json.get("rid") {
            None | Some(Json::Null) => None,
            Some(rid) => {
                let number = rid.as_str().and_then(item_number);
                Some(number.ok_or_else(|| refused("'rid' is not the resource id of an item"))?)
            }
        };
        let exclude = match json.get("exclude") {
            None | Some(Json::Null) => false,
            Some(exclude) => exclude
                .as_bool()
                .ok_or_else(|| refused("'exclude' is neither true nor false"))?,
        };
        Ok(ResumeFilter {
            values,
            item,
            exclude,
        })
    }
}

/// Whether an object stands for an array or object by its 128-bit hash.
fn is_hash(members: &Object) -> bool {
    let half = |name: &str| members.get(name).and_then(Json::as_i64).is_some();
    matches!(
        members.get("type").and_then(Json::as_str),
        Some("array" | "object")
    ) && half("low")
        && half("high")
}

/// The number of an item in its container: the last eight of its resource id's sixteen bytes.
pub(crate) fn item_number(rid: &str) -> Option<u64> {
    let bytes = STANDARD.decode(rid.replace('-', "/")).ok()?;
    let number: [u8; 8] = bytes.get(8..16)?.try_into().ok()?;
    Some(u64::from_le_bytes(number))
}

impl Query {
    /// The query with a client's resume filter in front of its rows.
    ///
    /// # Errors
    /// [`QueryError::Resume`] if the filter has not as many values as ORDER BY has keys.
    pub fn with_resume_filter(mut self, filter: ResumeFilter) -> Result<Self, QueryError> {
        if filter.values.len() != self.order.len() || self.order.is_empty() {
            let message = "The resume filter does not have as many values as ORDER BY has keys.";
            return Err(QueryError::Resume(message.into()));
        }
        if self.passes_through {
            self.passes_through = false;
            self.needed.require_all();
            self.needed_if_satisfied.require_all();
        }
        self.needed.add_property("_rid");
        self.needed_if_satisfied.add_property("_rid");
        self.filter = Some(filter);
        Ok(self)
    }

    /// Whether a tuple's row is still wanted by the client.
    pub(crate) fn passes_resume_filter(
        &self,
        cx: &mut Context<'_>,
        tuple: &Scope<'_>,
    ) -> Result<bool, QueryError> {
        let Some(filter) = &self.filter else {
            return Ok(true);
        };
        for (order, wanted) in self.order.iter().zip(&filter.values) {
            let made = cx.held_bytes;
            let value = order.expr.eval(cx, tuple)?;
            cx.held_bytes = made;
            let place = place(&value, wanted.as_ref());
            match if order.key.descending {
                place.reverse()
            } else {
                place
            } {
                Ordering::Less => return Ok(false),
                Ordering::Greater => return Ok(true),
                Ordering::Equal => {}
            }
        }
        if filter.exclude {
            return Ok(false);
        }
        let Some(first) = filter.item else {
            return Ok(true);
        };
        let item = tuple.value(self.block.sources.len());
        let number = item
            .and_then(|i| i.get("_rid"))
            .and_then(Json::as_str)
            .and_then(item_number);
        let downwards = self.order.first().is_some_and(|order| order.key.descending);
        Ok(number.is_none_or(|n| if downwards { n <= first } else { n >= first }))
    }
}

fn place(value: &Value<'_>, wanted: Option<&Json>) -> Ordering {
    match (value.as_deref(), wanted) {
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
