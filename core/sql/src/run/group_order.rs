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
use orrery_model::json::parse;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The position of a group in the order of the groups: its sort values, then its keys.
pub(super) struct GroupPosition(Keys);

/// Returns true for each value of a position that descends. Keys ascend.
pub(super) fn directions(grouping: &Grouping) -> Vec<bool> {
    let sorted = grouping.order.iter().map(|(_, descends)| *descends);
    sorted.chain(grouping.keys.iter().map(|_| false)).collect()
}

impl GroupPosition {
    /// Compares two positions of the same [`directions`].
    pub(super) fn compare(&self, other: &GroupPosition, directions: &[bool]) -> Ordering {
        compare_keys(&self.0, &other.0, directions)
    }

    /// Encodes the position as a JSON array, for a continuation. Returns `None` for a position that
    /// is too long for one.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let encoded = keys_to_json(&self.0).to_text().into_bytes();
        (encoded.len() <= POSITION_BYTES).then_some(encoded)
    }

    /// Decodes the bytes of [`GroupPosition::encode`]. Returns `None` for any other bytes.
    pub(super) fn decode(bytes: &[u8], grouping: &Grouping) -> Option<GroupPosition> {
        let values = keys_from_json(&parse(bytes).ok()?)?;
        let fits = values.len() == grouping.order.len() + grouping.keys.len();
        fits.then_some(GroupPosition(values))
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
        let mut values = Keys::with_capacity(grouping.order.len() + group.keys.len());
        for (expr, _) in &grouping.order {
            let value = expr.eval(cx, &seen)?.map(sort_value).map(Cow::into_owned);
            values.push(value);
        }
        values.extend(group.keys.iter().cloned());
        memory += values.iter().flatten().map(weight).sum::<usize>();
        cx.check_collected(memory)?;
        sorted.push((GroupPosition(values), group));
    }
    let directions = directions(grouping);
    sorted.sort_by(|(a, _), (b, _)| a.compare(b, &directions));
    Ok(sorted)
}
