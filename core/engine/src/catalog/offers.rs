//! Offers: the throughput of a container, or of a database that shares it among its containers.
//!
//! The rules are those of the service:
//!
//! - An offer has a minimum ([`ru_min`]), which depends on the highest throughput that the offer
//!   ever had, on the stored bytes and on the number of containers that share it.
//! - The mode, manual or autoscale, changes only by a request of its own that names no throughput
//!   ([`OfferChange`]).
//! - The maximum of an autoscale offer rises when more bytes are stored than it allows
//!   ([`raised_max`]). A read shows the raised maximum at once. The stored offer, budgets and
//!   partitions follow when background work calls [`Catalog::raise_autoscale_offers`].

use super::records::{Kind, Meta, Record, as_u32};
use super::{Catalog, Container, RowChanges};
use crate::container::tasks::BackgroundTask;
use crate::container::view::ContainerView;
use crate::request::properties::{
    self, Property, immutable, limited_to, member, server_set, stored,
};
use crate::request::{
    OfferChange, Offered, Resource, Throughput, autoscale_settings, increment_percent,
    throughput_out_of_range,
};
use crate::throughput::{Given, new_shared};
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Kind as ErrorKind, Object, Result, Rid, limits, object};
use std::sync::Arc;

/// A throughput offer.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    meta: Meta,
    /// The resource id of the container or database that has the throughput.
    pub target: Rid,
    /// The `_self` link of the target.
    link: String,
    /// The provisioned throughput.
    pub throughput: Throughput,
    /// The highest RU/s (of autoscale, the highest maximum) that the offer ever had.
    highest_ru: u32,
}

/// The load that an offer pays for.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Bytes of stored items.
    bytes: u64,
    /// Bytes that count as one gigabyte.
    gigabyte_bytes: u64,
    /// Containers that share the offer; 0 for the offer of a container.
    containers: u32,
}

/// Containers that may share the throughput of a database without raising its minimum.
const CONTAINERS_FREE: u32 = 25;

impl Offer {
    pub(super) fn from_record(record: Record) -> Result<Offer> {
        Self::read(&record).ok_or_else(Record::damaged)
    }

    fn read(record: &Record) -> Option<Offer> {
        let internal = &record.internal;
        let number = |name: &str| internal.get(name).and_then(as_u32);
        let throughput = match number("autoscale") {
            Some(max) => Throughput::Autoscale {
                max,
                increment_percent: number("incrementPercent"),
            },
            None => Throughput::Manual(number("manual")?),
        };
        Some(Offer {
            meta: record.meta,
            target: Rid::parse(internal.get("target")?.as_str()?)?,
            link: internal.get("link")?.as_str()?.to_owned(),
            throughput,
            highest_ru: number("highest")?,
        })
    }

    pub(super) fn record(&self) -> Record {
        let mut internal = object! {
            "target" => self.target.to_string(),
            "link" => self.link.as_str(),
            "highest" => self.highest_ru,
        };
        match self.throughput {
            Throughput::Manual(ru) => internal.set("manual", ru),
            Throughput::Autoscale {
                max,
                increment_percent,
            } => {
                internal.set("autoscale", max);
                if let Some(percent) = increment_percent {
                    internal.set("incrementPercent", percent);
                }
            }
        }
        Record {
            kind: Kind::Offer,
            meta: self.meta,
            body: Object::new(),
            internal,
        }
    }

    /// Returns the number of physical partitions that the throughput needs.
    pub(crate) fn partitions(&self) -> usize {
        let ru = self.throughput.ru_max();
        ru.div_ceil(limits::PARTITION_RU_PER_SECOND) as usize
    }

    /// Returns the resource id of the offer, which is also its id.
    pub(crate) fn rid(&self) -> Rid {
        self.meta.rid
    }

    /// Returns the offer as clients read it.
    fn resource(&self, load: Load, is_pending: bool) -> Resource {
        // An autoscale offer shows a tenth of its maximum as its throughput.
        let mut content = match self.throughput {
            Throughput::Manual(ru) => object! { "offerThroughput" => ru },
            Throughput::Autoscale {
                max,
                increment_percent,
            } => {
                let settings = autoscale_settings(max.into(), increment_percent.map(i64::from));
                object! { "offerThroughput" => max / 10, "offerAutopilotSettings" => settings }
            }
        };
        if is_pending {
            content.push_new("isOfferReplacePending", true);
        }
        content.push_new("offerIsRUPerMinuteThroughputEnabled", false);

        // Clients compute the minimum from these values.
        let minimum_parameters = object! {
            "maxThroughputEverProvisioned" => self.highest_ru,
            "maxConsumedStorageEverInKB" => load.bytes.div_ceil(1024),
        };
        content.push_new("offerMinimumThroughputParameters", minimum_parameters);
        let body = object! {
            "resource" => self.link.as_str(),
            "offerType" => "Invalid",
            "offerResourceId" => self.target.to_string(),
            "offerVersion" => "V2",
            "content" => content,
            "id" => self.rid().to_string(),
        };
        let self_link = format!("offers/{}/", self.rid());
        Resource {
            body: self.meta.text(&body, &self_link, &[]),
            etag: self.meta.etag_text(),
            rid: self.rid(),
            created: false,
        }
    }

    /// Returns the offer with the maximum that `load` needs, if its own is lower.
    fn raised(mut self, load: Load) -> Self {
        if let Throughput::Autoscale {
            max,
            increment_percent,
        } = self.throughput
        {
            let max = raised_max(max, increment_percent, load);
            self.throughput = Throughput::Autoscale {
                max,
                increment_percent,
            };
            self.highest_ru = self.highest_ru.max(max);
        }
        self
    }

    /// Returns the minimum RU/s of the offer.
    fn ru_min(&self, load: Load) -> u32 {
        ru_min(self.throughput, self.highest_ru, load)
    }
}

/// Returns the RU/s that the stored bytes require: 1 RU/s for each gigabyte of a manual throughput,
/// 10 RU/s for each gigabyte of the maximum of autoscale.
fn ru_for_storage(mode: Throughput, load: Load) -> u64 {
    let ru_per_gigabyte = match mode {
        Throughput::Manual(_) => 1,
        Throughput::Autoscale { .. } => 10,
    };
    let ru_times_gigabyte = load.bytes.saturating_mul(ru_per_gigabyte);
    ru_times_gigabyte.div_ceil(load.gigabyte_bytes)
}

/// Returns the minimum RU/s of an offer by the service's formula.
///
/// The minimum is the highest of three values, rounded up to a step of the mode:
///
/// 1. the minimum of the mode, plus one step for each sharing container beyond the first 25;
/// 2. 1 % (manual) or 10 % (autoscale) of the highest RU/s that the offer ever had;
/// 3. the RU/s that the stored bytes require.
fn ru_min(mode: Throughput, highest_ru: u32, load: Load) -> u32 {
    let extra_containers = load.containers.saturating_sub(CONTAINERS_FREE);
    let for_containers = mode.ru_min() + extra_containers.saturating_mul(mode.ru_step());
    let of_highest = match mode {
        Throughput::Manual(_) => highest_ru / 100,
        Throughput::Autoscale { .. } => highest_ru / 10,
    };
    let ru = ru_for_storage(mode, load).max(u64::from(for_containers.max(of_highest)));
    let ru = ru.next_multiple_of(u64::from(mode.ru_step()));
    u32::try_from(ru)
        .unwrap_or(u32::MAX)
        .min(limits::THROUGHPUT_RU_MAX)
}

/// Returns the maximum of an autoscale offer after it was raised to pay for the stored bytes: in
/// steps of `increment_percent`, or directly to the required RU/s if the percentage is 0 or absent.
///
/// The service documents 0.1 GB of storage for each RU/s of the maximum.
fn raised_max(max: u32, increment_percent: Option<u32>, load: Load) -> u32 {
    let mode = Throughput::Autoscale {
        max,
        increment_percent,
    };
    let required = ru_for_storage(mode, load).min(u64::from(limits::THROUGHPUT_RU_MAX));
    let mut raised = u64::from(max);
    while raised < required {
        raised = match increment_percent {
            None | Some(0) => required,
            Some(percent) => raised + (raised * u64::from(percent)).div_ceil(100),
        };
        raised = raised.next_multiple_of(u64::from(mode.ru_step()));
    }
    // The limit never lowers a maximum that the offer has already.
    u32::try_from(raised)
        .unwrap_or(u32::MAX)
        .min(max.max(limits::THROUGHPUT_RU_MAX))
}

impl Catalog {
    /// Creates an offer that is not stored yet.
    ///
    /// # Errors
    /// 400 if the throughput is outside the limits of its mode.
    pub(super) fn new_offer(
        &self,
        target: Rid,
        link: String,
        throughput: Throughput,
    ) -> Result<Offer> {
        throughput.check()?;
        let rid = self.unused_rid(
            |number| Rid::offer(number as u32),
            |rid| self.state().offer(rid).is_some(),
        );
        Ok(Offer {
            meta: self.new_meta(rid),
            target,
            link,
            throughput,
            highest_ru: throughput.ru_max(),
        })
    }

    /// Returns the offer of a container or database, or `None` if it has none of its own.
    pub(crate) fn offer_of(&self, target: Rid) -> Option<Arc<Offer>> {
        self.state().offer_of(target).cloned()
    }

    /// Returns all offers as clients read them, in the order of their resource ids.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn offers(&self) -> Result<Vec<Resource>> {
        let mut all: Vec<_> = self.state().offers().cloned().collect();
        all.sort_by_key(|offer| offer.rid());
        let mut resources = Vec::with_capacity(all.len());
        for offer in all {
            resources.push(self.read_offer(&offer)?.resource);
        }
        Ok(resources)
    }

    /// Returns an offer as clients read it.
    ///
    /// # Errors
    /// 404 if there is none, 500 if the store cannot be read.
    pub(crate) fn offer(&self, rid: Rid) -> Result<Offered> {
        let offer = self.find_offer(rid)?;
        self.read_offer(&offer)
    }

    fn find_offer(&self, rid: Rid) -> Result<Arc<Offer>> {
        let state = self.state();
        let found = state.offer(rid);
        found.cloned().ok_or_else(Error::not_found)
    }

    fn read_offer(&self, offer: &Offer) -> Result<Offered> {
        let (offer, load) = self.raised_offer(offer)?;
        Ok(self.offered(&offer, load))
    }

    /// Returns an offer with the maximum that its load needs, and the load.
    ///
    /// A throughput that is distributed by hand stays as it is, because the parts of the partitions
    /// would not add up to a raised maximum. So does one that would be more than the only partition
    /// of its container can carry.
    fn raised_offer(&self, offer: &Offer) -> Result<(Offer, Load)> {
        let load = self.load_of(offer.target)?;
        let offer = offer.clone();
        if self.is_distributed(&offer) {
            return Ok((offer, load));
        }
        let raised = offer.clone().raised(load);
        let is_too_high = self.has_one_partition(offer.target)
            && raised.throughput.check_one_partition().is_err();
        Ok((if is_too_high { offer } else { raised }, load))
    }

    fn offered(&self, offer: &Offer, load: Load) -> Offered {
        let is_pending = self.is_pending(offer);
        Offered {
            resource: offer.resource(load, is_pending),
            throughput: offer.throughput,
            ru_min: offer.ru_min(load),
            is_pending,
        }
    }

    /// Returns true if the container has fewer physical partitions than the throughput needs.
    /// Splits are under way then.
    fn is_pending(&self, offer: &Offer) -> bool {
        let container = self.state().containers.get(&offer.target).cloned();
        container.is_some_and(|container| container.lacks_partitions_for(offer))
    }

    /// Returns true if `target` is a container that always has one physical partition.
    fn has_one_partition(&self, target: Rid) -> bool {
        let container = self.state().containers.get(&target).cloned();
        container.is_some_and(|container| container.has_one_partition())
    }

    /// Returns the load that the offer of a container or database pays for.
    fn load_of(&self, target: Rid) -> Result<Load> {
        let containers = if target.is_container() {
            let container = self.state().containers.get(&target).cloned();
            container.into_iter().collect()
        } else {
            self.sharing_containers(target)
        };
        let mut load = Load {
            bytes: 0,
            gigabyte_bytes: self.gigabyte_bytes,
            containers: match target.is_container() {
                true => 0,
                false => containers.len() as u32,
            },
        };
        for container in containers {
            // An offer is read also while a part of the store is away.
            match container.counters() {
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                counters => load.bytes += counters?.bytes,
            }
        }
        Ok(load)
    }

    /// Returns the containers of a database that have no offer of their own.
    fn sharing_containers(&self, database: Rid) -> Vec<Arc<Container>> {
        let state = self.state();
        let Some(database) = state.database(database) else {
            return Vec::new();
        };
        let mut containers = Vec::new();
        for rid in database.containers() {
            if state.offer_of(rid).is_none() {
                containers.extend(state.containers.get(&rid).cloned());
            }
        }
        containers
    }

    /// Returns the container `target`, or all containers of the database `target`.
    fn containers_on(&self, target: Rid) -> Vec<Arc<Container>> {
        let state = self.state();
        let rids = match state.database(target) {
            Some(database) => database.containers(),
            None => vec![target],
        };
        let mut containers = Vec::with_capacity(rids.len());
        for rid in rids {
            containers.extend(state.containers.get(&rid).cloned());
        }
        containers
    }

    /// Changes the throughput of an offer.
    ///
    /// If the new throughput needs more partitions than the container has, the offer is pending
    /// until [`crate::Engine::split_where_needed`] has split them.
    ///
    /// # Errors
    /// 400 for an invalid body, a throughput outside the limits or above that of the only partition
    /// of a container, or a container whose throughput is distributed by hand; 404, 412.
    pub(crate) fn replace_offer(
        &self,
        rid: Rid,
        change: &OfferChange,
        if_match: Option<&str>,
    ) -> Result<Offered> {
        let _writing = self.begin_change()?;
        let found = self.find_offer(rid)?;
        found.meta.check_if_match(if_match)?;
        self.check_not_distributed(&found)?;
        let (mut offer, load) = self.raised_offer(&found)?;
        offer.throughput = offer.changed(change, load)?;
        if self.has_one_partition(offer.target) {
            offer.throughput.check_one_partition()?;
        }
        offer.highest_ru = offer.highest_ru.max(offer.throughput.ru_max());
        let offer = self.store_offer(offer)?;
        Ok(self.offered(&offer, load))
    }

    /// Stores raised maxima of autoscale offers whose load needs them. Writes nothing otherwise.
    ///
    /// # Errors
    /// The store's error. The next call raises the remaining offers.
    pub(crate) fn raise_autoscale_offers(&self) -> Result<()> {
        let all: Vec<_> = self.state().offers().cloned().collect();
        for offer in all {
            self.raise_autoscale_offer(&offer)?;
        }
        Ok(())
    }

    /// Does the same for the offer that a container spends: its own, or that of its database.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn raise_autoscale_offer_of(&self, container: &Container) -> Result<()> {
        let own = self.offer_of(container.rid());
        match own.or_else(|| self.offer_of(container.rid().database_part())) {
            Some(offer) => self.raise_autoscale_offer(&offer),
            None => Ok(()),
        }
    }

    fn raise_autoscale_offer(&self, offer: &Offer) -> Result<()> {
        // Most offers need no change, so they are checked without the write lock.
        let is_autoscale = matches!(offer.throughput, Throughput::Autoscale { .. });
        if !is_autoscale || self.raised_offer(offer)?.0.throughput == offer.throughput {
            return Ok(());
        }
        let _writing = self.begin_change()?;
        // The offer may have been replaced or deleted before the lock was taken.
        let Ok(current) = self.find_offer(offer.rid()) else {
            return Ok(());
        };
        let (raised, _) = self.raised_offer(&current)?;
        if raised.throughput != current.throughput {
            self.store_offer(raised)?;
        }
        Ok(())
    }

    /// Stores a changed offer and updates the budgets that depend on it.
    fn store_offer(&self, mut offer: Offer) -> Result<Arc<Offer>> {
        offer.meta = self.new_meta(offer.rid());
        let mut changes = RowChanges::default();
        changes.put(&offer.record());
        self.commit(changes)?;
        let offer = Arc::new(offer);
        write(&self.state).add_offer(Arc::clone(&offer));
        for container in self.containers_on(offer.target) {
            self.assign_throughput(&container);
            container.enter_work(BackgroundTask::Splits, 0);
        }
        Ok(offer)
    }

    /// Gives a container the throughput of its own offer, or a share of that of its database.
    pub(crate) fn assign_throughput(&self, container: &Container) {
        let database = container.rid().database_part();
        let now = self.world.now_ms();
        let own_offer = self.offer_of(container.rid());
        let given = match (own_offer, self.offer_of(database)) {
            (Some(offer), _) => Given::Own(offer.throughput),
            (None, Some(offer)) => {
                // Budgets count in thousandths of a request unit.
                let milli_ru_per_second = u64::from(offer.throughput.ru_max()) * 1000;
                let mut budgets = lock(&self.shared_budgets);
                let budget = budgets
                    .entry(database)
                    .or_insert_with(|| new_shared(milli_ru_per_second, self.bursts))
                    .clone();
                lock(&budget).set_rate(now, milli_ru_per_second);
                Given::Shared(offer.throughput, budget)
            }
            (None, None) => Given::Nothing,
        };
        container.give_throughput(now, given, self.bursts);
    }

    /// Returns true if the throughput of an offer is distributed over the partitions by hand.
    fn is_distributed(&self, offer: &Offer) -> bool {
        let container = self.state().containers.get(&offer.target).cloned();
        container.is_some_and(|container| container.provision().is_distributed())
    }

    /// Checks that the throughput of an offer is not distributed by hand. Otherwise only its parts
    /// can be changed.
    fn check_not_distributed(&self, offer: &Offer) -> Result<()> {
        if !self.is_distributed(offer) {
            return Ok(());
        }
        Err(Error::bad(
            "The throughput of this container is distributed over its physical partitions by \
             hand. Distribute it equally before it is changed.",
        ))
    }
}

/// The properties of an offer body.
const PROPERTIES: &[Property] = &[
    immutable("id", "the server's own: sent back as it was read"),
    immutable("resource", "the server's own: sent back as it was read"),
    immutable(
        "offerResourceId",
        "the server's own: sent back as it was read",
    ),
    limited_to(
        "offerType",
        "`Invalid` or nothing; the types of old, S1 to S3, are refused by name",
        &["\"Invalid\"", "\"\""],
    ),
    limited_to(
        "offerVersion",
        "`V2`; any other is refused by name",
        &["\"V2\""],
    ),
    stored("content", "the throughput; its members follow"),
];

/// The properties of the member `content` of an offer body.
const CONTENT: &[Property] = &[
    stored(
        "offerThroughput",
        "the throughput, if it is manual: 400 to 1,000,000 RU/s in steps of 100, and not below its \
         minimum",
    ),
    stored(
        "offerAutopilotSettings",
        "the throughput, if it scales: `maxThroughput` of 1,000 to 1,000,000 RU/s in steps of \
         1,000, and `autoUpgradePolicy.throughputPolicy.incrementPercent` of 0 to 100, by which \
         the maximum rises when more is stored than it allows",
    ),
    limited_to(
        "offerIsRUPerMinuteThroughputEnabled",
        "`false`; `true` is refused by name",
        &["false"],
    ),
    server_set(
        "offerMinimumThroughputParameters",
        "the server's own: accepted and not kept",
    ),
    server_set(
        "isOfferReplacePending",
        "the server's own: `true` while partitions are split to carry the throughput",
    ),
];

impl Offer {
    /// Returns the throughput of the offer after a change.
    ///
    /// # Errors
    /// 400 for an invalid body or a throughput outside the limits.
    fn changed(&self, change: &OfferChange, load: Load) -> Result<Throughput> {
        match (change, self.throughput) {
            (OfferChange::To(body), _) => self.changed_to_body(body, load),
            (OfferChange::ByClient(body), _) => {
                let changed = self.changed_to_body(body, load)?;
                check_was_read(body)?;
                Ok(changed)
            }
            (OfferChange::ToAutoscale, Throughput::Manual(ru)) => {
                // The maximum is at least the manual throughput and the minimum of an autoscale
                // offer.
                let mode = Throughput::Autoscale {
                    max: 0,
                    increment_percent: None,
                };
                let rounded = ru.next_multiple_of(mode.ru_step());
                let max = ru_min(mode, self.highest_ru, load).max(rounded);
                Throughput::autoscale(i64::from(max), None)
            }
            (OfferChange::ToManual, Throughput::Autoscale { max, .. }) => {
                Throughput::manual(i64::from(max))
            }
            (OfferChange::ToAutoscale | OfferChange::ToManual, unchanged) => Ok(unchanged),
        }
    }

    fn changed_to_body(&self, body: &Object, load: Load) -> Result<Throughput> {
        let requested = self.requested(body)?;
        let ru = requested.ru_max();
        let minimum = self.ru_min(load);
        // The minimum may have risen above the current throughput, which may stay then.
        if ru < minimum && ru < self.throughput.ru_max() {
            let step = requested.ru_step();
            let max = limits::THROUGHPUT_RU_MAX;
            return Err(throughput_out_of_range(i64::from(ru), minimum, max, step));
        }
        Ok(requested)
    }

    /// Checks that a body was read from this offer, if the body says where it comes from.
    ///
    /// # Errors
    /// 400 if the body has the resource id of another offer.
    fn check_rid(&self, body: &Object) -> Result<()> {
        let own = Json::from(self.rid().to_string());
        match member(body, "_rid") {
            Some(other) if *other != own => Err(invalid_offer(&format!(
                "its resource id is {own} and not {other} as the body says"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the throughput that a body requests in the mode of the offer.
    ///
    /// # Errors
    /// 400 if the body is invalid or asks for the other mode.
    fn requested(&self, body: &Object) -> Result<Throughput> {
        // Clients send back the members that they read, which must be unchanged.
        let shown = object! {
            "id" => self.rid().to_string(),
            "resource" => self.link.as_str(),
            "offerResourceId" => self.target.to_string(),
        };
        properties::check("offer", body, PROPERTIES, Some(&shown))?;
        self.check_rid(body)?;
        let content = body.get("content").and_then(Json::as_object);
        let content = content.ok_or_else(|| invalid_offer("'content' is missing"))?;
        properties::check("offer", content, CONTENT, None)?;

        let manual = member(content, "offerThroughput");
        match (self.throughput, member(content, "offerAutopilotSettings")) {
            (Throughput::Manual(_), Some(_)) => Err(mode_unchangeable("autopilot")),
            (Throughput::Autoscale { .. }, None) => Err(mode_unchangeable("manual-throughput")),
            (Throughput::Manual(_), None) => {
                let manual = manual.ok_or_else(|| invalid_offer("'offerThroughput' is missing"))?;
                Throughput::manual(whole_number(manual)?)
            }
            (Throughput::Autoscale { max: old_max, .. }, Some(settings)) => {
                let max = settings.get("maxThroughput");
                let max = max.ok_or_else(|| invalid_offer("'maxThroughput' is missing"))?;
                let max = whole_number(max)?;
                let requested = Throughput::autoscale(max, increment_percent(settings)?)?;

                // Clients send back the current throughput that they read, a tenth of the maximum.
                if let Some(manual) = manual {
                    let manual = whole_number(manual)?;
                    let is_read_back = manual == i64::from(old_max / 10)
                        || manual == i64::from(requested.ru_max() / 10);
                    if !is_read_back {
                        return Err(invalid_offer(
                            "the throughput of an autoscale offer is set by 'maxThroughput' alone",
                        ));
                    }
                }
                Ok(requested)
            }
        }
    }
}

/// Checks that the body of a client's request was read from an offer: it has one of the members
/// that name the offer.
///
/// # Errors
/// 400 if it has neither.
fn check_was_read(body: &Object) -> Result<()> {
    if member(body, "id").is_some() || member(body, "_rid").is_some() {
        return Ok(());
    }
    let error = invalid_offer("it has neither 'id' nor '_rid'");
    Err(error.with_help("Read the offer, change its content and send it back."))
}

fn invalid_offer(reason: &str) -> Error {
    Error::bad(format!("The offer is invalid: {reason}."))
}

fn mode_unchangeable(mode: &str) -> Error {
    invalid_offer(&format!(
        "its mode changes only with the header 'x-ms-cosmos-migrate-offer-to-{mode}', without a \
         number"
    ))
}

fn whole_number(json: &Json) -> Result<i64> {
    json.as_i64()
        .ok_or_else(|| invalid_offer("a throughput is no whole number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: Throughput = Throughput::Manual(400);
    const AUTOSCALE: Throughput = Throughput::Autoscale {
        max: 1_000,
        increment_percent: None,
    };

    fn stored(gigabytes: u64) -> Load {
        Load {
            bytes: gigabytes * limits::GIGABYTE,
            gigabyte_bytes: limits::GIGABYTE,
            containers: 0,
        }
    }

    #[test]
    fn the_minimum_throughput_follows_the_published_formula() {
        assert_eq!(ru_min(MANUAL, 400, stored(0)), 400);
        assert_eq!(ru_min(MANUAL, 100_000, stored(0)), 1_000);
        assert_eq!(ru_min(MANUAL, 400, stored(1_250)), 1_300);
        assert_eq!(
            ru_min(
                MANUAL,
                400,
                Load {
                    containers: 30,
                    ..stored(0)
                }
            ),
            900
        );
        assert_eq!(ru_min(AUTOSCALE, 1_000, stored(50)), 1_000);
        assert_eq!(ru_min(AUTOSCALE, 150_000, stored(100)), 15_000);
        assert_eq!(ru_min(AUTOSCALE, 1_000, stored(110)), 2_000);
        assert_eq!(
            ru_min(
                AUTOSCALE,
                1_000,
                Load {
                    containers: 27,
                    ..stored(0)
                }
            ),
            3_000
        );
    }

    #[test]
    fn the_maximum_of_autoscale_rises_with_the_stored_bytes() {
        assert_eq!(raised_max(1_000, None, stored(0)), 1_000);
        assert_eq!(raised_max(1_000, None, stored(100)), 1_000);
        let above = Load {
            bytes: 100 * limits::GIGABYTE + 1,
            ..stored(0)
        };
        assert_eq!(raised_max(1_000, None, above), 2_000);
        assert_eq!(raised_max(1_000, None, stored(650)), 7_000);
        assert_eq!(raised_max(10_000, Some(20), stored(1_050)), 12_000);
        assert_eq!(raised_max(10_000, Some(20), stored(1_300)), 15_000);
        assert_eq!(
            raised_max(999_000, Some(20), stored(1_000_000)),
            1_000_000,
            "the highest throughput that an offer may have"
        );
    }
}
