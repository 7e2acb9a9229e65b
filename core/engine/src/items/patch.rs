//! Partial updates of items: the properties that may be patched, the condition, and the patch as a
//! replacement.
//!
//! `orrery_model::patch` changes JSON. Here an item is read, patched and replaced in one
//! transaction, so that no other write comes between.

use crate::catalog::Container;
use crate::partition::item::StoredItem;
use crate::partition::row::is_system;
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::query;
use orrery_model::patch::Patch;
use orrery_model::work::Step;
use orrery_model::{Error, Json, Object, Result};
use orrery_sql::{Environment, Query};

/// A patch that has passed every check that does not need the item.
pub(crate) struct CheckedPatch {
    patch: Patch,
    condition: Option<Box<Query>>,
}

impl CheckedPatch {
    /// Reads a patch for an item of `container`. `predicate` replaces the condition in the patch.
    ///
    /// # Errors
    /// 400 for a document that is no patch, for a property that cannot be patched, and for a
    /// condition that is no query of an item.
    pub(crate) fn read(
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
            ))
            .with_help("The id and the properties that begin with '_' belong to the database."));
        }
        let condition = match predicate.or(patch.condition.as_deref()) {
            Some(condition) => Some(compile(container, condition)?),
            None => None,
        };
        Ok(CheckedPatch { patch, condition })
    }
}

/// Compiles a condition: a query with FROM and WHERE and without SELECT.
fn compile(container: &Container, condition: &str) -> Result<Box<Query>> {
    // The condition is evaluated under the writer's lock, so it calls no user-defined functions.
    let environment = Environment {
        user_functions: Default::default(),
        ..query::environment(container)
    };
    let text = format!("SELECT VALUE true {condition}");
    query::compile(&text, &[], &environment).map(Box::new)
}

impl Transaction<'_> {
    /// Patches an item.
    ///
    /// # Errors
    /// 412 if `if_match` is not the etag of the item; 412/1110 if the condition does not hold; 400
    /// with the number of the operation if the patch cannot be applied; 400/1001 if the partition
    /// key would change; the errors of [`Transaction::replace`].
    pub(crate) fn patch(
        &mut self,
        view: ReadView<'_>,
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
        let key = self.key_definition().extract(&item)?;
        // A request cannot patch the properties of the server, so the item stays stored with them
        // or without them.
        let options = ItemOptions {
            leaves_out_links: old.row.has_no_links,
            ..options
        };
        let stored = self.replace(view, old, &key, &item, options)?;
        // A patch is charged as the replacement that it is, and for each operation in it.
        if let Some(Step::Replace {
            patch_operations, ..
        }) = self.work.last_mut()
        {
            *patch_operations = patch.patch.len() as u32;
        }
        Ok(stored)
    }

    /// Returns the item that a patch makes of `old`.
    fn patched(&self, old: &StoredItem, patch: &CheckedPatch) -> Result<Object> {
        if let Some(condition) = &patch.condition {
            let text = old.row.text(self.container_rid(), old.number);
            if !query::has_row(self.world(), condition, text)? {
                return Err(Error::patch_condition_not_met());
            }
        }
        let item = patch.patch.apply(&old.item()?)?;
        let definition = self.key_definition();
        let key = definition.extract(&item)?;
        if !old.row.is_of(&definition.address(&key)) {
            return Err(definition.change_refused(&definition.extract(&old.item()?)?, &key));
        }
        Ok(item)
    }
}
