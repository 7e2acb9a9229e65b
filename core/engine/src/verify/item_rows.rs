//! The rows that follow from an item, as the write path makes them, and the checks of an item
//! against itself and its partition.

use crate::container::settings::Settings;
use crate::errors::damaged;
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::new_paths::{NewPaths, PathNumbers};
use crate::index::paths::Paths;
use crate::index::terms::Terms;
use crate::partition::CommitChanges;
use crate::partition::item_rows::{ItemChange, ItemState};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::Row;
use orrery_model::json::parse;
use orrery_model::{Error, Result};

/// The rules by which rows follow from the items of a partition.
pub(super) struct ItemRules<'a> {
    /// The settings of the container.
    pub settings: &'a Settings,
    /// The indexing policies that items may follow.
    pub policies: &'a Policies,
    /// The policy of each item.
    pub generations: &'a PolicyGenerations,
    /// The dictionary of paths.
    pub paths: &'a Paths,
}

/// An item with the rows that follow from it.
pub(super) struct ExpectedRows {
    /// The id of the item.
    pub id: String,
    /// The rows and what they add to the counters.
    pub changes: CommitChanges,
}

impl ItemRules<'_> {
    /// Returns the rows that follow from an item row. New paths get the numbers after those of the
    /// dictionary.
    ///
    /// # Errors
    /// 500 for a row that holds no item, or an item whose policy is not known.
    pub(super) fn rows_of(&self, number: ItemNumber, row: Row) -> Result<ExpectedRows> {
        let generation = self.generations.generation_of(number);
        let policy = self.policies.get(generation);
        let policy =
            policy.ok_or_else(|| Error::internal("the policy of the item is not known"))?;
        let mut new_paths = NewPaths::default();
        let (ts, indexing) = (row.ts, row.indexing);
        let state = ItemState::of(row, self.settings, |item| {
            if !policy.indexes(indexing) {
                return Ok(Terms::default());
            }
            let mut paths = PathNumbers {
                known: self.paths,
                new: &mut new_paths,
            };
            let key_is_id = self.settings.partition_key_is_id();
            Ok(Terms::of(item, ts, policy, key_is_id, &mut paths))
        })?;
        new_paths.hold(&state.terms);
        let mut changes = CommitChanges {
            new_paths: new_paths.assign(self.paths),
            ..CommitChanges::default()
        };
        let id = state.id.clone();
        let change = ItemChange {
            number,
            old: None,
            new: Some(state),
        };
        change.write(&mut changes);
        Ok(ExpectedRows { id, changes })
    }

    /// Returns the fault of an item row at this place of the key, or `None` if the row is whole:
    /// its partition key leads to the hash that it has, and this to its place.
    pub(super) fn fault_of(&self, epk_prefix: EpkPrefix, row: &Row) -> Option<String> {
        if keys::epk_prefix(&row.epk) != epk_prefix {
            return Some(format!(
                "the row lies under another hash than that of its partition key, {}",
                row.epk
            ));
        }
        match self.is_of_its_key(row) {
            Ok(true) => None,
            Ok(false) => Some(format!(
                "the partition key of the item does not lead to the hash of the row, {}",
                row.epk
            )),
            Err(error) => Some(error.message().to_owned()),
        }
    }

    fn is_of_its_key(&self, row: &Row) -> Result<bool> {
        let definition = &self.settings.partition_key;
        let json = parse(&row.body).map_err(|_| damaged("an item row"))?;
        let item = json.as_object().ok_or_else(|| damaged("an item row"))?;
        let key = definition.extract(item)?;
        Ok(row.is_of(&definition.address(&key)))
    }
}
