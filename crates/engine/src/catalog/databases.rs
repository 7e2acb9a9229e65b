//! Databases.

use super::offers::Offer;
use super::records::{Kind, Meta, Record};
use super::{Batch, Catalog, resource_id};
use crate::request::etag_matches;
use crate::request::properties::{self, Property, kept};
use crate::request::{Resource, Throughput};
use orrery_model::sync::{lock, read, write};
use orrery_model::{Error, Object, Result, Rid, object};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// What the body of a database may say.
const PROPERTIES: &[Property] = &[kept("id", "kept; cannot be changed")];

/// A database.
#[derive(Debug)]
pub struct Database {
    id: String,
    meta: Meta,
    containers: RwLock<HashMap<String, Rid>>,
}

impl Database {
    pub(super) fn from_record(record: Record) -> Result<Self> {
        let id = resource_id(&record.body)?.to_owned();
        Ok(Database {
            id,
            meta: record.meta,
            containers: RwLock::default(),
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its resource id.
    pub fn rid(&self) -> Rid {
        self.meta.rid
    }

    /// Ids and times.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(super) fn container(&self, name: &str) -> Option<Rid> {
        read(&self.containers).get(name).copied()
    }

    pub(super) fn name_container(&self, name: &str, rid: Option<Rid>) {
        let mut names = write(&self.containers);
        match rid {
            Some(rid) => names.insert(name.to_owned(), rid),
            None => names.remove(name),
        };
    }

    /// What `offer.resource` and `_self` say.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/", self.rid())
    }

    /// As a client reads it.
    pub fn resource(&self, created: bool) -> Resource {
        let body = object! { "id" => self.id.as_str() };
        let own = [("_colls", "colls/"), ("_users", "users/")];
        let body = self.meta.text(&body, &self.self_link(), &own);
        Resource {
            body,
            etag: self.meta.etag_text(),
            rid: self.meta.rid,
            created,
        }
    }
}

impl Catalog {
    /// Creates a database.
    ///
    /// # Errors
    /// 409 if the id is taken, 400 for a body that breaks a rule.
    pub fn create_database(
        &self,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Result<Resource> {
        let id = resource_id(body)?;
        properties::check("database", body, PROPERTIES, None)?;
        let _writing = lock(&self.writing);
        if self.state().databases.values().any(|d| d.id() == id) {
            return Err(Error::conflict());
        }
        let rid = std::iter::repeat_with(|| Rid::database(self.world.random() as u32))
            .find(|rid| !self.state().databases.contains_key(rid))
            .expect("an endless iterator");
        let record = Record {
            kind: Kind::Database,
            meta: self.new_meta(rid),
            body: object! { "id" => id },
            kept: Object::new(),
        };
        let mut batch = Batch::default();
        batch.put(&record);
        let database = Arc::new(Database::from_record(record)?);
        let offer = throughput
            .map(|t| self.new_offer(rid, database.self_link(), t))
            .transpose()?;
        if let Some(offer) = &offer {
            batch.put(&offer.record());
        }
        self.commit(batch)?;
        let mut state = write(&self.state);
        state.databases.insert(rid, Arc::clone(&database));
        state
            .offers
            .extend(offer.map(|offer: Offer| (offer.rid(), Arc::new(offer))));
        Ok(database.resource(true))
    }

    /// Deletes a database and all that is in it.
    ///
    /// # Errors
    /// 404, 412.
    pub fn delete_database(&self, database: &Database, if_match: Option<&str>) -> Result<()> {
        if if_match.is_some_and(|wanted| !etag_matches(wanted, &database.meta.etag_text())) {
            return Err(Error::precondition_failed());
        }
        let _writing = lock(&self.writing);
        if !self.state().databases.contains_key(&database.rid()) {
            return Err(Error::not_found());
        }
        let mut batch = Batch::default();
        let mut homes = Vec::new();
        let containers = self.containers(database);
        for container in &containers {
            homes.extend(self.remove_container(container, &mut batch));
        }
        let offer = self.offer_of(database.rid());
        if let Some(offer) = &offer {
            batch.delete(Kind::Offer, offer.rid());
        }
        let access_resources = self.remove_access_resources_of(database.rid(), &mut batch);
        batch.delete(Kind::Database, database.rid());
        self.commit(batch)?;
        self.forget_access_resources(&access_resources);
        {
            let mut state = write(&self.state);
            state.databases.remove(&database.rid());
            offer.map(|offer| state.offers.remove(&offer.rid()));
        }
        lock(&self.shared).remove(&database.rid());
        containers
            .iter()
            .for_each(|container| self.forget_container(container));
        self.queue_orphans(homes);
        Ok(())
    }
}
