//! Which rows of a partition go to which of those that take its place.
//!
//! Most rows say it by their place, the first bytes of the effective partition key. Where a border runs through a place,
//! as it may between the keys below one first level of a hierarchical key, the item itself is asked.

use crate::errors::storage_failure;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use orrery_model::Result;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_storage::Snapshot;

/// The borders between the targets of a split or merge.
pub struct Routing {
    /// The first point of each target but the first.
    borders: Vec<Border>,
}

struct Border {
    at: Epk,
    epk_prefix: EpkPrefix,
    /// Whether all keys of its place lie behind it, because it has no bytes beyond the place.
    is_sharp: bool,
}

impl Routing {
    /// Between neighbouring stretches. `whole_hashes`: every key has at least as many bytes as a place.
    pub fn new(targets: &[EpkRange], whole_hashes: bool) -> Self {
        let border = |range: &EpkRange| {
            let bytes = range.min.as_bytes();
            let tail = bytes.get(8..).unwrap_or_default();
            Border {
                at: range.min.clone(),
                epk_prefix: keys::epk_prefix(&range.min),
                is_sharp: whole_hashes && tail.iter().all(|byte| *byte == 0) && bytes.len() <= 16,
            }
        };
        Routing {
            borders: targets.iter().skip(1).map(border).collect(),
        }
    }

    /// The target of a key.
    pub fn of_key(&self, epk: &Epk) -> usize {
        self.borders.partition_point(|border| border.at <= *epk)
    }

    /// The target of all items of a place; `None` if they have several.
    pub fn of_epk_prefix(&self, epk_prefix: EpkPrefix) -> Option<usize> {
        let target = self.borders.partition_point(|border| {
            border.epk_prefix < epk_prefix || border.epk_prefix == epk_prefix && border.is_sharp
        });
        let is_cut = self
            .borders
            .get(target)
            .is_some_and(|border| border.epk_prefix == epk_prefix);
        (!is_cut).then_some(target)
    }

    /// The target of an item as a snapshot has it; `None` if it has no such item.
    ///
    /// # Errors
    /// What the store reports.
    pub fn of_item(
        &self,
        epk_prefix: EpkPrefix,
        number: ItemNumber,
        snapshot: &dyn Snapshot,
    ) -> Result<Option<usize>> {
        if let Some(target) = self.of_epk_prefix(epk_prefix) {
            return Ok(Some(target));
        }
        let Some(row) = snapshot
            .get(&keys::item(epk_prefix, number))
            .map_err(storage_failure)?
        else {
            return Ok(None);
        };
        Ok(Some(self.of_key(&Row::decode(&row)?.epk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(border: &str, whole_hashes: bool) -> Routing {
        let at = Epk::from_hex(border).expect("hex");
        let targets = [
            EpkRange::new(Epk::min(), at.clone()),
            EpkRange::new(at, Epk::max()),
        ];
        Routing::new(&targets, whole_hashes)
    }

    fn epk_prefix(hex: &str) -> EpkPrefix {
        keys::epk_prefix(&Epk::from_hex(hex).expect("hex"))
    }

    #[test]
    fn a_border_between_places_parts_them() {
        let routing = routing("20000000000000000000000000000000", true);
        assert_eq!(
            routing.of_epk_prefix(epk_prefix("1FFFFFFFFFFFFFFFFF")),
            Some(0)
        );
        assert_eq!(
            routing.of_epk_prefix(epk_prefix("2000000000000000")),
            Some(1)
        );
        assert_eq!(
            routing.of_epk_prefix(epk_prefix("2000000000000001")),
            Some(1)
        );
        assert_eq!(
            routing.of_key(&Epk::from_hex("20000000000000000000000000000000").expect("hex")),
            1
        );
    }

    #[test]
    fn a_border_through_a_place_leaves_it_to_the_items() {
        for routing in [
            routing("2000000000000000FF", true),
            routing("20000000", false),
        ] {
            assert_eq!(routing.of_epk_prefix(epk_prefix("2000000000000000")), None);
            assert_eq!(routing.of_epk_prefix(epk_prefix("1F")), Some(0));
            assert_eq!(
                routing.of_epk_prefix(epk_prefix("2100000000000000")),
                Some(1)
            );
        }
    }

    #[test]
    fn one_target_takes_everything() {
        let routing = Routing::new(&[EpkRange::all()], true);
        assert_eq!(
            (
                routing.of_epk_prefix(epk_prefix("20")),
                routing.of_key(&Epk::min())
            ),
            (Some(0), 0)
        );
    }
}
