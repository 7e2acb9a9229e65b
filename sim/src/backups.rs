//! Backups of the store of a world on files: a backup is the state of its moment.

use crate::Checked;
use crate::files::{self, new_directory};
use crate::node::{Node, numbers_of, open_engine};
use orrery_backup::{CreateOptions, create, restore};
use orrery_model::world::World;
use std::sync::Arc;

impl Node<'_> {
    /// Makes a backup, restores it elsewhere, and compares the restored data with the model.
    pub(crate) fn back_up(&mut self) -> Checked {
        let Some(repository) = &self.repository else {
            return Ok(());
        };
        let place = repository.path().join("backups");
        self.settle_completely()?;
        let options = CreateOptions::new(self.world.now_ms(), "sim");
        let store = Arc::clone(&self.store);
        let made = match create(&*store, &place, &options, &mut |_| {}) {
            Ok(made) => made,
            Err(error) => return Err(format!("no backup: {error}")),
        };
        let elsewhere = new_directory()?;
        let restored = restore(&place, Some(&made.id), elsewhere.path(), &mut |_| {});
        restored.map_err(|error| format!("no restore: {error}"))?;

        let store = Arc::new(files::open(elsewhere.path())?);
        let engine = open_engine(store, &self.world);
        let engine = engine.map_err(|error| format!("a restored engine: {error:?}"))?;
        let now = self.now();
        for (at, model) in self.models.iter().enumerate() {
            let (state, _) = numbers_of(&engine, model)?;
            if !model.explains(&state, now) {
                return Err(format!("the backup {} of c{at} has {state:?}", made.id));
            }
        }
        let verified = engine.verify(None, &mut |_| true);
        let verified = verified.map_err(|error| format!("no verification: {error:?}"))?;
        if !verified.findings.is_empty() {
            let findings = verified.findings;
            return Err(format!("a backup in which is found {findings:?}"));
        }
        self.counts.backups += 1;
        self.note(format!("backup {}", made.id));
        Ok(())
    }
}
