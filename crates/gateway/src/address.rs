//! What the ids in a path name: databases, containers and what is in them, by name or by resource id.

use crate::route::Path;
use orrery_engine::request::Id;
use orrery_engine::{Container, Database, Engine};
use orrery_model::{Error, Kind, Result, Rid};
use std::sync::Arc;

impl Path {
    /// The database. The flag says whether the path is by resource id.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn database(&self, engine: &Engine) -> Result<(Arc<Database>, bool)> {
        if let Some(rid) = self.database_rid() {
            match engine.database(Id::Rid(rid)) {
                // A database may have a name that looks like a resource id.
                Err(error) if error.kind() == Kind::NotFound => {}
                found => return found.map(|database| (database, true)),
            }
        }
        engine
            .database(Id::Name(self.id(0)))
            .map(|database| (database, false))
    }

    /// Whether ids are resource ids.
    pub(crate) fn is_by_rid(&self, engine: &Engine) -> bool {
        self.database_rid().is_some() && self.database(engine).is_ok_and(|(_, by_rid)| by_rid)
    }

    /// The container.
    ///
    /// # Errors
    /// 404 if it is missing, 404/1003 if its database is.
    pub(crate) fn container(&self, engine: &Engine) -> Result<Arc<Container>> {
        let (database, container) = (self.id(0), self.id(1));
        match self.database_rid().filter(|_| self.is_by_rid(engine)) {
            Some(database) => {
                let rid = Rid::parse(container)
                    .filter(Rid::is_container)
                    .ok_or_else(Error::not_found)?;
                if rid.database_part() != database {
                    return Err(Error::not_found());
                }
                engine.container(Id::Rid(database), Id::Rid(rid))
            }
            None => engine.container(Id::Name(database), Id::Name(container)),
        }
    }

    /// The ids of the database and the container that the path addresses or goes through; as the path says them, where
    /// they do not exist.
    pub(crate) fn owners(&self, engine: &Engine) -> (Option<String>, Option<String>) {
        let said = |n: usize| Some(self.id(n).to_owned()).filter(|id| !id.is_empty());
        let (in_database, in_container) = self.owner_kinds();
        let database = in_database.then(|| {
            self.database(engine)
                .map_or(said(0), |(found, _)| Some(found.id().into()))
        });
        let container = in_container.then(|| {
            self.container(engine)
                .map_or(said(1), |found| Some(found.id().into()))
        });
        (database.flatten(), container.flatten())
    }

    /// The `n`th id; `None` if the path is by resource id and this is none.
    pub(crate) fn id_at(&self, n: usize, engine: &Engine) -> Option<Id<'_>> {
        let id = self.id(n);
        if self.is_by_rid(engine) {
            Rid::parse(id).map(Id::Rid)
        } else {
            Some(Id::Name(id))
        }
    }

    /// What stands in a container.
    pub(crate) fn child_id(&self, engine: &Engine) -> Option<Id<'_>> {
        self.id_at(2, engine)
            .filter(|id| !matches!(id, Id::Rid(rid) if rid.child_number().is_none()))
    }
}
