//! The order of groups: ORDER BY of a query with GROUP BY.
//!
//! Groups with equal sort values are ordered by their keys, so that the order does not depend on
//! the items. A page that ends between two groups names the last one by its [`GroupPosition`]; the
//! next page begins behind it, whatever was written in between.

use super::frame::{Context, Scope};
use super::groups::Group;
use super::sort::{Keys, POSITION_BYTES, compare_keys, keys_from_json, keys_to_json};
use crate::bound::Grouping;
use crate::error::QueryError;
use crate::value::{sort_value, weight};
use orrery_model::json::{Json, parse};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The position of a group in the order of the groups.
pub(super) struct GroupPosition {
    sort_values: Keys,
    /// The keys of the group.
    keys: Keys,
}

impl GroupPosition {
    /// Compares two positions; `grouping` has the directions of the sort values.
    pub(super) fn compare(&self, other: &GroupPosition, grouping: &Grouping) -> Ordering {
        let descending: Vec<bool> = grouping.order.iter().map(|(_, d)| *d).collect();
        let ascending = vec![false; grouping.keys.len()];
        compare_keys(&self.sort_values, &other.sort_values, &descending)
            .then_with(|| compare_keys(&self.keys, &other.keys, &ascending))
    }

    /// Encodes the position as a JSON array of both lists of values, for a continuation. Returns
    /// `None` for a position that is too long for one.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let lists = vec![keys_to_json(&self.sort_values), keys_to_json(&self.keys)];
        let encoded = Json::Array(lists).to_text().into_bytes();
        (encoded.len() <= POSITION_BYTES).then_some(encoded)
    }

    /// Decodes the bytes of [`GroupPosition::encode`]. Returns `None` for any other bytes.
    pub(super) fn decode(bytes: &[u8], grouping: &Grouping) -> Option<GroupPosition> {
        let parsed = parse(bytes).ok()?;
        let [sort_values, keys] = parsed.as_array()? else {
            return None;
        };
        let position = GroupPosition {
            sort_values: keys_from_json(sort_values)?,
            keys: keys_from_json(keys)?,
        };
        let fits = position.sort_values.len() == grouping.order.len()
            && position.keys.len() == grouping.keys.len();
        fits.then_some(position)
    }
}

/// Returns the groups in order, with their positions. The groups take `memory` bytes.
///
/// # Errors
/// [`QueryError::Memory`] if groups and positions do not fit into the memory of the query, and
/// those of the evaluation.
pub(super) fn in_order(
    grouping: &Grouping,
    groups: impl Iterator<Item = Group>,
    mut memory: usize,
    cx: &mut Context<'_>,
    scope: &Scope<'_>,
) -> Result<Vec<(GroupPosition, Group)>, QueryError> {
    let mut sorted = Vec::new();
    for group in groups {
        let seen = scope.with_group(&group.keys, &group.results);
        let mut sort_values = Keys::with_capacity(grouping.order.len());
        for (expr, _) in &grouping.order {
            let value = expr.eval(cx, &seen)?.map(sort_value).map(Cow::into_owned);
            sort_values.push(value);
        }
        let keys = group.keys.clone();
        let values = sort_values.iter().chain(&keys).flatten();
        memory += values.map(weight).sum::<usize>();
        cx.check_collected(memory)?;
        sorted.push((GroupPosition { sort_values, keys }, group));
    }
    sorted.sort_by(|(a, _), (b, _)| a.compare(b, grouping));
    Ok(sorted)
}
