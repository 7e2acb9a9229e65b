//! The catalog in memory: databases, containers, offers and access resources, with the indexes by
//! which requests find them.
//!
//! Promise: a look-up by resource id, by name or by the target of an offer costs the same however
//! many resources there are. The maps with two ways to one resource change only here.

use super::access_resources::AccessResources;
use super::{Container, Database, Offer};
use orrery_model::Rid;
use std::collections::HashMap;
use std::sync::Arc;

/// The catalog in memory.
#[derive(Default)]
pub(super) struct State {
    databases: HashMap<Rid, Arc<Database>>,
    database_names: HashMap<String, Rid>,
    pub(super) containers: HashMap<Rid, Arc<Container>>,
    offers: HashMap<Rid, Arc<Offer>>,
    /// The resource id of the offer of each container or database that has one.
    offers_of: HashMap<Rid, Rid>,
    pub(super) access_resources: AccessResources,
    /// The highest storage id that a container, an orphan or a snapshot uses.
    pub(super) last_storage_id: u64,
    /// The highest `_ts` of all resources.
    pub(super) last_ts: u64,
}

impl State {
    /// Returns a database by its resource id.
    pub(super) fn database(&self, rid: Rid) -> Option<&Arc<Database>> {
        self.databases.get(&rid)
    }

    /// Returns a database by its name.
    pub(super) fn database_named(&self, name: &str) -> Option<&Arc<Database>> {
        self.databases.get(self.database_names.get(name)?)
    }

    /// Returns all databases, in no particular order.
    pub(super) fn databases(&self) -> impl ExactSizeIterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    /// Adds a database.
    pub(super) fn add_database(&mut self, database: Arc<Database>) {
        let id = database.id().to_owned();
        self.database_names.insert(id, database.rid());
        self.databases.insert(database.rid(), database);
    }

    /// Removes a database. Its containers and access resources stay.
    pub(super) fn remove_database(&mut self, rid: Rid) {
        if let Some(database) = self.databases.remove(&rid) {
            self.database_names.remove(database.id());
        }
    }

    /// Returns an offer by its resource id.
    pub(super) fn offer(&self, rid: Rid) -> Option<&Arc<Offer>> {
        self.offers.get(&rid)
    }

    /// Returns the offer of a container or database, or `None` if it has none of its own.
    pub(super) fn offer_of(&self, target: Rid) -> Option<&Arc<Offer>> {
        self.offers.get(self.offers_of.get(&target)?)
    }

    /// Returns all offers, in no particular order.
    pub(super) fn offers(&self) -> impl Iterator<Item = &Arc<Offer>> {
        self.offers.values()
    }

    /// Adds an offer, or replaces the one with its resource id.
    pub(super) fn add_offer(&mut self, offer: Arc<Offer>) {
        self.offers_of.insert(offer.target, offer.rid());
        self.offers.insert(offer.rid(), offer);
    }

    /// Removes the offer of a container or database, if there is one.
    pub(super) fn remove_offer_of(&mut self, target: Rid) {
        if let Some(rid) = self.offers_of.remove(&target) {
            self.offers.remove(&rid);
        }
    }
}
