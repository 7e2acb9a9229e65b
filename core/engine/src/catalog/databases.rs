//! Databases.

use super::records::{Kind, Meta, Record};
use super::{Catalog, RowChanges};
use crate::request::ids::{resource_id, stored_id};
use crate::request::properties::{self, Property, stored};
use crate::request::{Resource, Throughput};
use orrery_model::sync::{lock, read, write};
use orrery_model::{Error, Object, Result, Rid, object};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// The properties of a database body.
const PROPERTIES: &[Property] = &[stored("id", "kept; cannot be changed")];

/// A database.
#[derive(Debug)]
pub struct Database {
    id: String,
    meta: Meta,
    /// The resource ids of the containers, by id.
    containers: RwLock<HashMap<String, Rid>>,
}

impl Database {
    pub(super) fn from_record(record: Record) -> Result<Self> {
        let id = stored_id(&record.body)?.to_owned();
        Ok(Database {
            id,
            meta: record.meta,
            containers: RwLock::default(),
        })
    }

    /// Returns the id of the database.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the resource id of the database.
    pub fn rid(&self) -> Rid {
        self.meta.rid
    }

    /// Returns the system properties of the database.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the resource id of a container by its id.
    pub(super) fn container(&self, id: &str) -> Option<Rid> {
        read(&self.containers).get(id).copied()
    }

    /// Returns the ids of some containers, for a message.
    pub(super) fn some_container_ids(&self) -> Vec<String> {
        let containers = read(&self.containers);
        containers
            .keys()
            .take(super::COMPARED_NAMES)
            .cloned()
            .collect()
    }

    /// Returns the resource ids of the containers, in no particular order.
    pub(super) fn containers(&self) -> Vec<Rid> {
        read(&self.containers).values().copied().collect()
    }

    pub(super) fn register_container(&self, id: &str, rid: Rid) {
        write(&self.containers).insert(id.to_owned(), rid);
    }

    pub(super) fn unregister_container(&self, id: &str) {
        write(&self.containers).remove(id);
    }

    /// Returns the link by resource id: `_self` of the database and `resource` of its offer.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid())
    }

    /// Returns the database as clients read it.
    pub fn resource(&self, created: bool) -> Resource {
        let body = object! { "id" => self.id.as_str() };
        let kind_properties = [("_colls", "colls/"), ("_users", "users/")];
        Resource {
            body: self.meta.text(&body, &self.self_link(), &kind_properties),
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }
}

impl Catalog {
    /// Creates a database, with an offer if `throughput` is given.
    ///
    /// # Errors
    /// 400 for an invalid body or throughput, 409 if the id is taken.
    pub(crate) fn create_database(
        &self,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Result<Resource> {
        let id = resource_id(body)?;
        properties::check("database", body, PROPERTIES, None)?;
        let _writing = self.begin_change()?;
        if self.state().database_named(id).is_some() {
            return Err(Error::conflict().with_help(
                "Read it, or use the method that creates a database only if it does not exist.",
            ));
        }
        let rid = self.unused_rid(
            |number| Rid::database(number as u32),
            |rid| self.state().database(rid).is_some(),
        );
        let record = Record {
            kind: Kind::Database,
            meta: self.new_meta(rid),
            body: object! { "id" => id },
            internal: Object::new(),
        };

        // One commit writes the database and its offer.
        let mut changes = RowChanges::default();
        changes.put(&record);
        let database = Arc::new(Database::from_record(record)?);
        let offer = match throughput {
            Some(throughput) => Some(self.new_offer(rid, database.self_link(), throughput)?),
            None => None,
        };
        if let Some(offer) = &offer {
            changes.put(&offer.record());
        }
        self.commit(changes)?;

        let mut state = write(&self.state);
        state.add_database(Arc::clone(&database));
        if let Some(offer) = offer {
            state.add_offer(Arc::new(offer));
        }
        Ok(database.resource(true))
    }

    /// Deletes a database with its containers, users, permissions, client encryption keys and
    /// offers.
    ///
    /// # Errors
    /// 404, 412.
    pub(crate) fn delete_database(
        &self,
        database: &Database,
        if_match: Option<&str>,
    ) -> Result<()> {
        database.meta.check_if_match(if_match)?;
        let _writing = self.begin_change()?;
        // The catalog may have been read again since the database was looked up.
        let current = self.state().database(database.rid()).cloned();
        let current = current.ok_or_else(Error::not_found)?;
        let database = current.as_ref();

        // All rows go in one commit, so no resource is left without its owner.
        let mut changes = RowChanges::default();
        let mut orphans = Vec::new();
        let containers = self.containers(database);
        for container in &containers {
            orphans.extend(self.delete_container_rows(container, &mut changes));
        }
        let offer = self.offer_of(database.rid());
        if let Some(offer) = &offer {
            changes.delete(Kind::Offer, offer.rid());
        }
        let access_resources = self.delete_access_rows_of_database(database.rid(), &mut changes);
        changes.delete(Kind::Database, database.rid());
        self.commit(changes)?;

        // After the commit the resources disappear from memory.
        self.forget_access_resources(&access_resources);
        let mut state = write(&self.state);
        state.remove_database(database.rid());
        state.remove_offer_of(database.rid());
        drop(state);
        lock(&self.shared_budgets).remove(&database.rid());
        for container in &containers {
            self.forget_container(container);
        }
        self.queue_orphans(orphans);
        Ok(())
    }
}
