//! Resolution of the ids in a path: databases, containers and the resources in them, by name or by
//! resource id.

use crate::route::Path;
use orrery_engine::request::Id;
use orrery_engine::{Container, Database, Engine};
use orrery_model::{Error, Kind, Result, Rid};
use std::sync::Arc;

impl Path {
    /// Returns the database of the path, and true if the path is by resource ids.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn database(&self, engine: &Engine) -> Result<(Arc<Database>, bool)> {
        if let Some(rid) = self.database_rid() {
            match engine.database(Id::Rid(rid)) {
                // The name of a database may look like a resource id.
                Err(error) if error.kind() == Kind::NotFound => {}
                found => return found.map(|database| (database, true)),
            }
        }
        engine
            .database(Id::Name(self.id(0)))
            .map(|database| (database, false))
    }

    /// Returns true if the ids of the path are resource ids.
    pub(crate) fn is_by_rid(&self, engine: &Engine) -> bool {
        self.database_rid().is_some() && self.database(engine).is_ok_and(|(_, by_rid)| by_rid)
    }

    /// Returns the container of the path.
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

    /// Returns the id of the database that the path starts with, if it starts with one: the name of
    /// an existing database, else the id as it stands in the path.
    pub(crate) fn database_name(&self, engine: &Engine) -> Option<String> {
        if !self.is_in_database() {
            return None;
        }
        let id = match self.database(engine) {
            Ok((database, _)) => database.id().to_owned(),
            Err(_) => self.id(0).to_owned(),
        };
        Some(id).filter(|id| !id.is_empty())
    }

    /// Returns the id of the container that the path starts with, as [`Path::database_name`].
    pub(crate) fn container_name(&self, engine: &Engine) -> Option<String> {
        if !self.is_in_container() {
            return None;
        }
        let id = match self.container(engine) {
            Ok(container) => container.id().to_owned(),
            Err(_) => self.id(1).to_owned(),
        };
        Some(id).filter(|id| !id.is_empty())
    }

    /// Returns the id with index `n`; `None` if the path is by resource ids and this id is not one.
    pub(crate) fn id_at(&self, n: usize, engine: &Engine) -> Option<Id<'_>> {
        let id = self.id(n);
        if self.is_by_rid(engine) {
            Rid::parse(id).map(Id::Rid)
        } else {
            Some(Id::Name(id))
        }
    }

    /// Returns the id of the item or script that the path addresses; `None` if the path is by
    /// resource ids and this id is not one of a resource in a container.
    pub(crate) fn child_id(&self, engine: &Engine) -> Option<Id<'_>> {
        self.id_at(2, engine)
            .filter(|id| !matches!(id, Id::Rid(rid) if rid.child_number().is_none()))
    }
}
