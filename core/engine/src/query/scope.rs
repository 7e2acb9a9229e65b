//! The physical partitions that a query has to ask.
//!
//! A request names a scope: a logical partition, a partition key range, an EPK range, or
//! everything. The scope is resolved once to the partitions that hold it ([`scope_reach`]). The
//! condition of the query may narrow them ([`Reach::narrow_to_pinned_keys`]), a continuation cuts
//! what was read already ([`Reach::continue_after`]).

use super::condition::pinned;
use super::position::{QueryPosition, RangePart};
use crate::catalog::Container;
use crate::partition::Partition;
use crate::request::Scope;
use orrery_model::partition_key::{Component, Epk, EpkRange, KeyAddress, PartitionKey};
use orrery_model::{Error, Json, Result};
use orrery_sql::Query;
use std::sync::Arc;

/// Partition keys that a condition may pin; a condition with more is asked everywhere.
const PINNED_KEYS_MAX: usize = 1_000;

/// A partition, and the EPK range of it that is wanted if not all of it is.
pub(crate) type PartitionPart = (Arc<Partition>, Option<EpkRange>);

/// The partitions that hold a scope, in order of their ranges.
pub(crate) struct Reach {
    /// The partitions.
    pub partitions: Vec<PartitionPart>,
    /// The one logical partition, if the scope or the query names just one.
    pub key: Option<KeyAddress>,
    /// Partitions of the scope, before the condition of the query narrowed them.
    pub partitions_in_scope: usize,
    /// The first partitions are read as one if they are the successors of one that was split: the
    /// part by which positions name them, and their count.
    pub merged_successors: Option<(RangePart, usize)>,
    /// The point from which on the partition behind the successors is read, if a part of it was
    /// read before a merge.
    rest_from: Option<Epk>,
}

impl Reach {
    fn of(partitions: Vec<PartitionPart>) -> Self {
        Reach {
            partitions_in_scope: partitions.len(),
            partitions,
            key: None,
            merged_successors: None,
            rest_from: None,
        }
    }

    /// Drops all partitions. For a query that no item can satisfy.
    pub(crate) fn clear(&mut self) {
        self.partitions.clear();
        self.key = None;
    }

    /// Drops the partitions of which an empty range is wanted, and those that hold none of the
    /// partition keys that the condition of the query pins.
    ///
    /// # Errors
    /// 400 if the query covers everything, pins no key and may not cross partitions, unless the
    /// container has one partition only.
    pub(crate) fn narrow_to_pinned_keys(
        &mut self,
        container: &Container,
        scope: &Scope,
        query: &Query,
        cross_partition: bool,
    ) -> Result<()> {
        self.partitions
            .retain(|(_, within)| within.as_ref().is_none_or(|range| !range.is_empty()));
        if self.key.is_some() {
            return Ok(());
        }
        let Some(keys) = pinned_keys(container, query) else {
            let needs_leave = !container.has_one_partition() && !cross_partition;
            if matches!(scope, Scope::Everything) && needs_leave {
                return Err(Error::cross_partition_disabled());
            }
            return Ok(());
        };
        self.partitions
            .retain(|part| keys.iter().any(|key| holds_key(part, key.epk())));
        if let [key] = &keys[..] {
            self.key = Some(key.clone());
        }
        Ok(())
    }

    /// Keeps what lies behind a position in natural order. If the partition of the position was
    /// split, its successors are read as one; if it was merged with others, the merged partition is
    /// cut where the old one ended.
    ///
    /// # Errors
    /// 400 if the position is none of this scope.
    pub(crate) fn continue_after(
        &mut self,
        container: &Container,
        last: &QueryPosition,
    ) -> Result<()> {
        let RangePart { range, from } = &last.part;
        let mut current = container
            .epk_range_of(*range)
            .ok_or_else(QueryPosition::mismatch_error)?;
        if let Some(from) = from {
            current.min = current.min.max(from.clone());
        }
        let behind = EpkRange::new(current.max.clone(), Epk::max());

        let successors = self.parts_within(&current);
        if successors.is_empty() {
            return Err(QueryPosition::mismatch_error());
        }
        let rest = self.parts_within(&behind);
        self.merged_successors = Some((last.part.clone(), successors.len()));
        self.rest_from = match rest.first() {
            Some((partition, _)) if partition.range.min < behind.min => Some(behind.min),
            _ => None,
        };
        self.partitions = successors;
        self.partitions.extend(rest);
        Ok(())
    }

    /// Returns the parts of the partitions that lie within a range.
    fn parts_within(&self, wanted: &EpkRange) -> Vec<PartitionPart> {
        let mut parts = Vec::new();
        for (partition, within) in &self.partitions {
            let range = within.as_ref().unwrap_or(&partition.range);
            if let Some(both) = range.intersection(wanted) {
                let within = (both != partition.range).then_some(both);
                parts.push((Arc::clone(partition), within));
            }
        }
        parts
    }

    /// Returns the part by which positions name the partition at an index.
    pub(crate) fn part_at(&self, at: usize) -> RangePart {
        let mut is_behind_successors = false;
        if let Some((part, count)) = &self.merged_successors {
            if at < *count {
                return part.clone();
            }
            is_behind_successors = at == *count;
        }
        let from = self.rest_from.clone().filter(|_| is_behind_successors);
        RangePart {
            range: self.partitions[at].0.id,
            from,
        }
    }

    /// Keeps the partition (or the successors that are read as one) in which the page begins.
    /// Returns the part after it, if there is one.
    pub(crate) fn keep_first(&mut self) -> Option<RangePart> {
        let first = match &self.merged_successors {
            Some((_, count)) => *count,
            None => 1,
        };
        if first >= self.partitions.len() {
            return None;
        }
        let next = self.part_at(first);
        self.partitions.truncate(first);
        Some(next)
    }
}

/// Returns true if a part of a partition holds a logical partition.
pub(super) fn holds_key((partition, within): &PartitionPart, key: &Epk) -> bool {
    let is_wanted = match within {
        Some(range) => range.contains(key),
        None => true,
    };
    partition.range.contains(key) && is_wanted
}

/// Resolves a scope to the partitions that hold it now.
///
/// # Errors
/// 410/1002 for a partition key range that is gone, 400/1001 for a key of the wrong shape.
pub(crate) fn scope_reach(container: &Container, scope: &Scope) -> Result<Reach> {
    let all = || -> Vec<PartitionPart> {
        let partitions = container.partitions();
        partitions.iter().map(|p| (Arc::clone(p), None)).collect()
    };
    Ok(match scope {
        Scope::Everything => Reach::of(all()),
        Scope::Epk(range) => Reach::of(Reach::of(all()).parts_within(range)),
        Scope::Range { id, within } => {
            let partition = container.partition_by_id(*id)?;
            // An EPK range outside of the partition leaves nothing of it. That differs from no EPK
            // range, which leaves all of it.
            let within = match within {
                Some(wanted) => {
                    let both = partition.range.intersection(wanted);
                    let both = both.unwrap_or_else(EpkRange::empty);
                    (both != partition.range).then_some(both)
                }
                None => None,
            };
            Reach::of(vec![(partition, within)])
        }
        Scope::Key(key) => {
            let definition = container.partition_key();
            if key.is_empty() && !definition.is_system_key() {
                return Ok(Reach::of(all()));
            }
            // The first levels of a hierarchical key cover a range.
            if key.components().len() < definition.paths().len() && !key.is_empty() {
                let range = definition.epk_range(key);
                return Ok(Reach::of(Reach::of(all()).parts_within(&range)));
            }
            definition.check(key)?;
            let address = definition.address(key);
            let partition = container.partition_of(address.epk());
            Reach {
                key: Some(address),
                ..Reach::of(vec![(partition, None)])
            }
        }
    })
}

/// Returns the whole partition keys that the condition of a query pins, or `None` if the condition
/// leaves the key open or pins more than [`PINNED_KEYS_MAX`].
pub(crate) fn pinned_keys(container: &Container, query: &Query) -> Option<Vec<KeyAddress>> {
    let definition = container.partition_key();
    // One list of components for each key; every path multiplies the lists by its values.
    let mut keys: Vec<Vec<Component>> = vec![Vec::new()];
    for path in definition.paths() {
        let values = pinned(query.condition(), path)?;
        if keys.len() * values.len() > PINNED_KEYS_MAX {
            return None;
        }
        let mut components = Vec::with_capacity(values.len());
        for value in values {
            components.push(component(value)?);
        }
        let mut longer = Vec::with_capacity(keys.len() * components.len());
        for key in &keys {
            for component in &components {
                let mut key = key.clone();
                key.push(component.clone());
                longer.push(key);
            }
        }
        keys = longer;
    }
    let mut addresses = Vec::with_capacity(keys.len());
    for components in keys {
        addresses.push(definition.address(&PartitionKey::new(components)));
    }
    Some(addresses)
}

/// Returns a value as a component of a partition key, or `None` for an array or object.
fn component(value: &Json) -> Option<Component> {
    match value {
        Json::Null => Some(Component::Null),
        Json::Bool(value) => Some(Component::Bool(*value)),
        Json::Number(value) => Some(Component::Number(value.as_f64())),
        Json::String(value) => Some(Component::String(value.clone())),
        Json::Array(_) | Json::Object(_) => None,
    }
}
