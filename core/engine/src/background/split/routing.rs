//! Routing: the target of each row of a partition that is split or merged.
//!
//! For most rows the EPK prefix names the target. Where a border runs through a prefix, as it may
//! between the keys below one first level of a hierarchical key, the item itself is read.

use crate::errors::storage_failure;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use orrery_model::Result;
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_storage::Snapshot;

/// The borders between the targets of a split or merge.
pub(crate) struct Routing {
    /// The lower bound of each target except the first.
    borders: Vec<Border>,
}

/// The border between two targets.
struct Border {
    /// The first EPK behind the border.
    at: Epk,
    /// The EPK prefix of `at`.
    epk_prefix: EpkPrefix,
    /// True if all keys with the prefix lie behind the border, because `at` ends with its prefix.
    is_sharp: bool,
}

impl Routing {
    /// Creates the routing between adjacent EPK ranges. `whole_hashes` is true if every key has at
    /// least as many bytes as a prefix.
    pub(crate) fn new(targets: &[EpkRange], whole_hashes: bool) -> Self {
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

    /// Returns the target of a key.
    pub(crate) fn of_key(&self, epk: &Epk) -> usize {
        self.borders.partition_point(|border| border.at <= *epk)
    }

    /// Returns the target of all items with an EPK prefix, or `None` if a border runs through the
    /// prefix.
    pub(crate) fn of_epk_prefix(&self, epk_prefix: EpkPrefix) -> Option<usize> {
        let target = self.borders.partition_point(|border| {
            border.epk_prefix < epk_prefix || border.epk_prefix == epk_prefix && border.is_sharp
        });
        let is_cut = self
            .borders
            .get(target)
            .is_some_and(|border| border.epk_prefix == epk_prefix);
        (!is_cut).then_some(target)
    }

    /// Returns the target of an item, or `None` if the snapshot does not have the item.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn of_item(
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
    fn a_border_between_prefixes_separates_them() {
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
    fn a_border_through_a_prefix_is_decided_by_the_items() {
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
