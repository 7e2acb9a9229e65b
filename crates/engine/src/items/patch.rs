//! Partial updates of items: what may be patched, on what condition, and the patch as a replacement.
//!
//! What a patch does to JSON is in `orrery_model::patch`. Here an item is read, patched and replaced in one transaction,
//! so nothing comes between.

use crate::catalog::Container;
use crate::partition::item::StoredItem;
use crate::partition::row::is_system;
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::query;
use orrery_model::patch::Patch;
use orrery_model::work::Step;
use orrery_model::{Error, Json, Object, Result};
use orrery_sql::{Environment, Query};

/// A patch that passed every check that needs no look at the item.
pub struct CheckedPatch {
    patch: Patch,
    condition: Option<Box<Query>>,
}

impl CheckedPatch {
    /// Reads a patch for an item of `container`. `predicate` stands in for the patch's own condition.
    ///
    /// # Errors
    /// 400 for what is no patch, touches what cannot be patched, or has a condition that is no query of an item.
    pub fn read(
        container: &Container,
        json: &Json,
        predicate: Option<&str>,
    ) -> Result<CheckedPatch> {
        let patch = Patch::from_json(json)?;
        if let Some(fixed) = patch
            .top_level_names()
            .find(|name| *name == "id" || is_system(name))
        {
            return Err(Error::bad(format!(
                "Invalid patch request: Cannot patch system property '{fixed}'."
            )));
        }
        let condition = predicate
            .or(patch.condition.as_deref())
            .map(|text| compile(container, text))
            .transpose()?;
        Ok(CheckedPatch { patch, condition })
    }
}

/// A condition has a FROM and a WHERE, and no SELECT.
fn compile(container: &Container, condition: &str) -> Result<Box<Query>> {
    // It is decided while other writes of the partition wait, so it calls no scripts.
    let environment = Environment {
        user_functions: Default::default(),
        ..query::environment(container)
    };
    query::compile(&format!("SELECT VALUE true {condition}"), &[], &environment).map(Box::new)
}

impl Transaction<'_> {
    /// Patches an item.
    ///
    /// # Errors
    /// 412 if `if_match` does not fit or the condition (1110) is not met; 400 if the patch cannot be applied, with the
    /// number of its operation; 400/1001 if the partition key would change; else as for a replacement.
    pub fn patch(
        &mut self,
        base: &mut ReadView<'_>,
        old: &StoredItem,
        patch: &CheckedPatch,
        options: ItemOptions<'_>,
    ) -> Result<StoredItem> {
        self.check_etag(old, old.row.size(), options.if_match)?;
        let item = self.patched(old, patch).inspect_err(|_| {
            self.work.push(Step::Refused {
                bytes: old.row.size(),
                terms: 0,
            });
        })?;
        let key = self.container().partition_key().extract(&item)?;
        let stored = self.replace(base, old, &key, &item, options)?;
        if let Some(Step::Replace {
            patch_operations, ..
        }) = self.work.last_mut()
        {
            *patch_operations = patch.patch.len() as u32;
        }
        Ok(stored)
    }

    fn patched(&self, old: &StoredItem, patch: &CheckedPatch) -> Result<Object> {
        let definition = self.container().partition_key();
        if let Some(condition) = &patch.condition
            && !query::has_row(
                self.world(),
                condition,
                old.row.text(self.container().rid(), old.number),
            )?
        {
            return Err(Error::patch_condition_not_met());
        }
        let item = patch.patch.apply(&old.item()?)?;
        if definition.epk(&definition.extract(&item)?) != old.row.epk {
            return Err(Error::partition_key_mismatch());
        }
        Ok(item)
    }
}
