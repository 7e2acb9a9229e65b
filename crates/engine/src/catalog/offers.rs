//! Offers: the throughput of a container, or of a database that shares it among its containers.
//!
//! The rules for what an offer may become are the service's: what was provisioned and what is stored bound it from
//! below (`least`), the mode changes only by request and without a number (`OfferChange`), and the maximum of an
//! autoscale offer rises by itself when more is stored than it allows (`grown`): whoever reads it sees that at once,
//! budgets and partitions follow within a round of the work beside requests (`Catalog::grow_offers`).

use super::records::{Kind, Meta, Record};
use super::{Batch, Catalog, Container};
use crate::partition::Counters;
use crate::request::etag_matches;
use crate::request::properties::{self, Property, fixed, kept, only, servers};
use crate::request::{OfferChange, Offered, Resource, Throughput, increment_percent, outside};
use crate::throughput::{Given, new_shared};
use orrery_model::sync::{lock, write};
use orrery_model::{Error, Json, Object, Result, Rid, limits, object};
use std::sync::Arc;

/// A throughput offer.
#[derive(Clone, Debug)]
pub struct Offer {
    meta: Meta,
    /// Whose throughput it is.
    pub target: Rid,
    link: String,
    /// What is provisioned.
    pub throughput: Throughput,
    highest: u32,
}

/// What an offer pays for.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Bytes stored.
    bytes: u64,
    /// Bytes that count as a gigabyte.
    gigabyte: u64,
    /// Containers that share it.
    containers: u32,
}

/// Containers that share a database's throughput without raising its minimum.
const CONTAINERS_FREE: u32 = 25;

impl Offer {
    pub(super) fn from_record(record: Record) -> Result<Offer> {
        let read = || -> Option<Offer> {
            let kept = &record.kept;
            let number = |name: &str| u32::try_from(kept.get(name)?.as_i64()?).ok();
            let throughput = match number("autoscale") {
                Some(max) => Throughput::Autoscale {
                    max,
                    increment_percent: number("incrementPercent").unwrap_or(0),
                },
                None => Throughput::Manual(number("manual")?),
            };
            Some(Offer {
                meta: record.meta,
                target: Rid::parse(kept.get("target")?.as_str()?)?,
                link: kept.get("link")?.as_str()?.to_owned(),
                throughput,
                highest: number("highest")?,
            })
        };
        read().ok_or_else(Record::damaged)
    }

    pub(super) fn record(&self) -> Record {
        let mut kept = object! {
            "target" => self.target.to_string(), "link" => self.link.as_str(), "highest" => self.highest,
        };
        match self.throughput {
            Throughput::Manual(ru) => kept.set("manual", ru),
            Throughput::Autoscale {
                max,
                increment_percent,
            } => {
                kept.set("autoscale", max);
                kept.set("incrementPercent", increment_percent);
            }
        }
        Record {
            kind: Kind::Offer,
            meta: self.meta,
            body: Object::new(),
            kept,
        }
    }

    /// Physical partitions that its throughput needs.
    pub fn partitions(&self) -> usize {
        self.throughput
            .most()
            .div_ceil(limits::PARTITION_RU_PER_SECOND) as usize
    }

    /// Its resource id, which is also its id.
    pub fn rid(&self) -> Rid {
        self.meta.rid
    }

    /// As a client reads it.
    fn resource(&self, load: Load, is_pending: bool) -> Resource {
        let mut content = match self.throughput {
            Throughput::Manual(ru) => object! { "offerThroughput" => ru },
            Throughput::Autoscale {
                max,
                increment_percent,
            } => {
                let policy = object! { "throughputPolicy" => object! { "incrementPercent" => increment_percent } };
                let settings = object! { "maxThroughput" => max, "autoUpgradePolicy" => policy };
                object! { "offerThroughput" => max / 10, "offerAutopilotSettings" => settings }
            }
        };
        let past = object! {
            "maxThroughputEverProvisioned" => self.highest,
            "maxConsumedStorageEverInKB" => load.bytes.div_ceil(1024),
        };
        if is_pending {
            content.push_new("isOfferReplacePending", true);
        }
        content.push_new("offerIsRUPerMinuteThroughputEnabled", false);
        content.push_new("offerMinimumThroughputParameters", past);
        let body = object! {
            "resource" => self.link.as_str(), "offerType" => "Invalid", "offerResourceId" => self.target.to_string(),
            "offerVersion" => "V2", "content" => content, "id" => self.rid().to_string(),
        };
        let body = self
            .meta
            .text(&body, &format!("offers/{}/", self.rid()), &[]);
        Resource {
            body,
            etag: self.meta.etag_text(),
            rid: self.rid(),
            created: false,
        }
    }

    /// The same offer, whose maximum has risen if more is stored than it allows.
    fn grown(mut self, load: Load) -> Self {
        if let Throughput::Autoscale {
            max,
            increment_percent,
        } = self.throughput
        {
            let max = grown(max, increment_percent, load);
            self.throughput = Throughput::Autoscale {
                max,
                increment_percent,
            };
            self.highest = self.highest.max(max);
        }
        self
    }

    fn least(&self, load: Load) -> u32 {
        least(self.throughput, self.highest, load)
    }
}

/// RU/s that what is stored needs of a throughput of this mode: one for each gigabyte, ten at the maximum of autoscale.
fn needed(mode: Throughput, load: Load) -> u64 {
    let each = if matches!(mode, Throughput::Manual(_)) {
        1
    } else {
        10
    };
    load.bytes.saturating_mul(each).div_ceil(load.gigabyte)
}

/// The least throughput that an offer may have, by the service's formula: of what the mode starts with, a share of the
/// highest there ever was, what is stored, and the containers that share it beyond the first 25.
fn least(mode: Throughput, highest: u32, load: Load) -> u32 {
    let share = if matches!(mode, Throughput::Manual(_)) {
        100
    } else {
        10
    };
    let containers = mode.least()
        + load
            .containers
            .saturating_sub(CONTAINERS_FREE)
            .saturating_mul(mode.step());
    let least = needed(mode, load).max(u64::from(containers.max(highest / share)));
    let least = least.next_multiple_of(u64::from(mode.step()));
    u32::try_from(least)
        .unwrap_or(u32::MAX)
        .min(limits::THROUGHPUT_RU_MAX)
}

/// The maximum of an autoscale throughput that pays for what is stored: raised in steps of the percentage, or to just
/// what is needed, until it does. The service documents a tenth of a gigabyte for each RU/s of it.
fn grown(max: u32, increment_percent: u32, load: Load) -> u32 {
    let mode = Throughput::Autoscale {
        max,
        increment_percent,
    };
    let needed = needed(mode, load).min(u64::from(limits::THROUGHPUT_RU_MAX));
    let mut risen = u64::from(max);
    while risen < needed {
        risen = match increment_percent {
            0 => needed,
            percent => risen + (risen * u64::from(percent)).div_ceil(100),
        };
        risen = risen.next_multiple_of(u64::from(mode.step()));
    }
    u32::try_from(risen)
        .unwrap_or(u32::MAX)
        .min(max.max(limits::THROUGHPUT_RU_MAX))
}

impl Catalog {
    pub(super) fn new_offer(
        &self,
        target: Rid,
        link: String,
        throughput: Throughput,
    ) -> Result<Offer> {
        throughput.check()?;
        let rid = std::iter::repeat_with(|| Rid::offer(self.world.random() as u32))
            .find(|rid| !self.state().offers.contains_key(rid))
            .expect("an endless iterator");
        Ok(Offer {
            meta: self.new_meta(rid),
            target,
            link,
            throughput,
            highest: throughput.most(),
        })
    }

    /// The offer of a container or database, if it has its own.
    pub fn offer_of(&self, target: Rid) -> Option<Arc<Offer>> {
        self.state()
            .offers
            .values()
            .find(|o| o.target == target)
            .cloned()
    }

    /// All offers, as clients read them, by resource id.
    ///
    /// # Errors
    /// What the store reports.
    pub fn offers(&self) -> Result<Vec<Resource>> {
        let mut all: Vec<_> = self.state().offers.values().cloned().collect();
        all.sort_by_key(|o| o.rid());
        all.iter()
            .map(|offer| self.offered(offer).map(|offered| offered.resource))
            .collect()
    }

    /// An offer as a client reads it.
    ///
    /// # Errors
    /// 404, and what the store reports.
    pub fn offer(&self, rid: Rid) -> Result<Offered> {
        let offer = self.find_offer(rid)?;
        self.offered(&offer)
    }

    fn find_offer(&self, rid: Rid) -> Result<Arc<Offer>> {
        self.state()
            .offers
            .get(&rid)
            .cloned()
            .ok_or_else(Error::not_found)
    }

    fn offered(&self, offer: &Offer) -> Result<Offered> {
        let (offer, load) = self.as_grown(offer)?;
        Ok(self.shown(&offer, load))
    }

    /// An offer whose maximum has risen if more is stored than it allows, and what it pays for. One that is distributed
    /// by hand stays as it is: its parts would no longer add up to it.
    fn as_grown(&self, offer: &Offer) -> Result<(Offer, Load)> {
        let load = self.load_of(offer.target)?;
        let offer = offer.clone();
        Ok((
            if self.is_distributed(&offer) {
                offer
            } else {
                offer.grown(load)
            },
            load,
        ))
    }

    fn shown(&self, offer: &Offer, load: Load) -> Offered {
        let is_pending = self.is_pending(offer);
        let resource = offer.resource(load, is_pending);
        Offered {
            resource,
            throughput: offer.throughput,
            least: offer.least(load),
            is_pending,
        }
    }

    /// Whether there are fewer physical partitions than the throughput needs: they are being split.
    fn is_pending(&self, offer: &Offer) -> bool {
        let container = self.state().containers.get(&offer.target).cloned();
        container.is_some_and(|container| container.partitions().len() < offer.partitions())
    }

    /// What the offer of a container or database pays for.
    fn load_of(&self, target: Rid) -> Result<Load> {
        let state = self.state();
        let shared = |rid: &Rid| !state.offers.values().any(|offer| offer.target == *rid);
        let containers: Vec<_> = match target.is_container() {
            true => state.containers.get(&target).cloned().into_iter().collect(),
            false => {
                let all = state
                    .containers
                    .values()
                    .filter(|c| c.rid().database_part() == target);
                all.filter(|c| shared(&c.rid())).cloned().collect()
            }
        };
        drop(state);
        let sharing = if target.is_container() {
            0
        } else {
            containers.len() as u32
        };
        let mut load = Load {
            bytes: 0,
            gigabyte: self.gigabyte,
            containers: sharing,
        };
        for container in containers {
            let Counters { bytes, .. } = container.stored()?;
            load.bytes += bytes;
        }
        Ok(load)
    }

    /// Changes a throughput. Where it needs more partitions than there are it is pending until they are split, see
    /// [`crate::Engine::split_where_needed`].
    ///
    /// # Errors
    /// 404, 412, 400 for a body that breaks a rule and for values outside the limits.
    pub fn replace_offer(
        &self,
        rid: Rid,
        change: &OfferChange,
        if_match: Option<&str>,
    ) -> Result<Offered> {
        let _writing = lock(&self.writing);
        let found = self.find_offer(rid)?;
        if if_match.is_some_and(|wanted| !etag_matches(wanted, &found.meta.etag_text())) {
            return Err(Error::precondition_failed());
        }
        self.check_distribution(&found)?;
        let (mut offer, load) = self.as_grown(&found)?;
        offer.throughput = offer.changed(change, load)?;
        offer.highest = offer.highest.max(offer.throughput.most());
        let offer = self.keep_offer(offer)?;
        Ok(self.shown(&offer, load))
    }

    /// Raises the maxima of autoscale offers under which more is stored than they allow. Writes nothing if there is none.
    ///
    /// # Errors
    /// What the store reports; the rest is raised next time.
    pub fn grow_offers(&self) -> Result<()> {
        let all: Vec<_> = self.state().offers.values().cloned().collect();
        for offer in all
            .iter()
            .filter(|offer| matches!(offer.throughput, Throughput::Autoscale { .. }))
        {
            if self.as_grown(offer)?.0.throughput == offer.throughput {
                continue;
            }
            let _writing = lock(&self.writing);
            // It may have been replaced or deleted since.
            let Ok(now) = self.find_offer(offer.rid()) else {
                continue;
            };
            let (grown, _) = self.as_grown(&now)?;
            if grown.throughput != now.throughput {
                self.keep_offer(grown)?;
            }
        }
        Ok(())
    }

    /// An offer changes to this one, and budgets with it.
    fn keep_offer(&self, mut offer: Offer) -> Result<Arc<Offer>> {
        offer.meta = self.new_meta(offer.rid());
        let mut batch = Batch::default();
        batch.put(&offer.record());
        self.commit(batch)?;
        let offer = Arc::new(offer);
        write(&self.state)
            .offers
            .insert(offer.rid(), Arc::clone(&offer));
        self.provide_all(offer.target);
        Ok(offer)
    }

    /// Tells the containers that an offer pays for what they may spend now.
    fn provide_all(&self, target: Rid) {
        let paid_for = |c: &Arc<Container>| c.rid() == target || c.rid().database_part() == target;
        self.all_containers()
            .iter()
            .filter(|c| paid_for(c))
            .for_each(|container| self.provide(container));
    }

    /// Tells a container what it may spend: what its own offer says, or else a share of its database's.
    pub(crate) fn provide(&self, container: &Container) {
        let (database, now) = (container.rid().database_part(), self.world.now_ms());
        let given = match (self.offer_of(container.rid()), self.offer_of(database)) {
            (Some(offer), _) => Given::Own(offer.throughput),
            (None, Some(offer)) => {
                let rate = u64::from(offer.throughput.most()) * 1000;
                let mut shared = lock(&self.shared);
                let budget = shared
                    .entry(database)
                    .or_insert_with(|| new_shared(rate, self.bursts))
                    .clone();
                lock(&budget).set_rate(now, rate);
                Given::Shared(offer.throughput, budget)
            }
            (None, None) => Given::Nothing,
        };
        container.give_throughput(now, given, self.bursts);
    }

    fn is_distributed(&self, offer: &Offer) -> bool {
        let container = self.state().containers.get(&offer.target).cloned();
        container.is_some_and(|container| container.provision().is_distributed())
    }

    /// Checks that the throughput is not distributed by hand, in which case only its parts can be changed.
    fn check_distribution(&self, offer: &Offer) -> Result<()> {
        match self.is_distributed(offer) {
            false => Ok(()),
            true => Err(Error::bad(
                "The throughput of this container is distributed over its physical partitions by hand. Distribute it \
                 equally before it is changed.",
            )),
        }
    }
}

/// What the body of an offer may say.
const PROPERTIES: &[Property] = &[
    fixed("id", "the server's own: sent back as it was read"),
    fixed("resource", "the server's own: sent back as it was read"),
    fixed(
        "offerResourceId",
        "the server's own: sent back as it was read",
    ),
    only(
        "offerType",
        "`Invalid` or nothing; the types of old, S1 to S3, are refused by name",
        &["\"Invalid\"", "\"\""],
    ),
    only(
        "offerVersion",
        "`V2`; any other is refused by name",
        &["\"V2\""],
    ),
    kept("content", "the throughput; its members follow"),
];

/// What its member `content` may say.
const CONTENT: &[Property] = &[
    kept(
        "offerThroughput",
        "the throughput, if it is manual: 400 to 1,000,000 RU/s in steps of 100, and not below its minimum",
    ),
    kept(
        "offerAutopilotSettings",
        "the throughput, if it scales: `maxThroughput` of 1,000 to 1,000,000 RU/s in steps of 1,000, and \
         `autoUpgradePolicy.throughputPolicy.incrementPercent` of 0 to 100, by which the maximum rises when more is \
         stored than it allows",
    ),
    only(
        "offerIsRUPerMinuteThroughputEnabled",
        "`false`; `true` is refused by name",
        &["false"],
    ),
    servers(
        "offerMinimumThroughputParameters",
        "the server's own: accepted and not kept",
    ),
    servers(
        "isOfferReplacePending",
        "the server's own: `true` while partitions are split to carry the throughput",
    ),
];

impl Offer {
    /// The throughput that a change makes of this one.
    fn changed(&self, change: &OfferChange, load: Load) -> Result<Throughput> {
        let body = match (change, self.throughput) {
            (OfferChange::To(body), _) => body,
            (OfferChange::ToAutoscale, Throughput::Manual(ru)) => {
                // Of what it is and the least that it could become, rounded so that nothing is taken away.
                let mode = Throughput::Autoscale {
                    max: 0,
                    increment_percent: 0,
                };
                let max = least(mode, self.highest, load).max(ru.next_multiple_of(mode.step()));
                return Throughput::autoscale(i64::from(max), 0);
            }
            (OfferChange::ToManual, Throughput::Autoscale { max, .. }) => {
                return Throughput::manual(i64::from(max));
            }
            (OfferChange::ToAutoscale | OfferChange::ToManual, unchanged) => return Ok(unchanged),
        };
        let wanted = self.wanted(body)?;
        let least = self.least(load);
        // What is below by now may stay as it is.
        if wanted.most() < least && wanted.most() < self.throughput.most() {
            return Err(outside(i64::from(wanted.most()), least, wanted.step()));
        }
        Ok(wanted)
    }

    /// The throughput that a body names, in the mode that the offer has.
    fn wanted(&self, body: &Object) -> Result<Throughput> {
        let bad = |what: &str| Error::bad(format!("The offer is invalid: {what}."));
        let shown = object! {
            "id" => self.rid().to_string(), "resource" => self.link.as_str(),
            "offerResourceId" => self.target.to_string(),
        };
        properties::check("offer", body, PROPERTIES, Some(&shown))?;
        let content = body
            .get("content")
            .and_then(Json::as_object)
            .ok_or_else(|| bad("'content' is missing"))?;
        properties::check("offer", content, CONTENT, None)?;
        let number = |json: &Json| {
            json.as_i64()
                .ok_or_else(|| bad("a throughput is no whole number"))
        };
        let member = |name: &str| content.get(name).filter(|value| **value != Json::Null);
        let change = |mode: &str| {
            bad(&format!(
                "its mode changes only with the header 'x-ms-cosmos-migrate-offer-to-{mode}', without a number"
            ))
        };
        match (self.throughput, member("offerAutopilotSettings")) {
            (Throughput::Manual(_), Some(_)) => Err(change("autopilot")),
            (Throughput::Autoscale { .. }, None) => Err(change("manual-throughput")),
            (Throughput::Manual(_), None) => {
                let manual =
                    member("offerThroughput").ok_or_else(|| bad("'offerThroughput' is missing"))?;
                Throughput::manual(number(manual)?)
            }
            (Throughput::Autoscale { max: old, .. }, Some(settings)) => {
                let max = settings
                    .get("maxThroughput")
                    .ok_or_else(|| bad("'maxThroughput' is missing"))?;
                let wanted = Throughput::autoscale(number(max)?, increment_percent(settings)?)?;
                // Clients send back the number that they read, which follows the maximum.
                let now = member("offerThroughput").map(number).transpose()?;
                if now.is_some_and(|now| {
                    [old, wanted.most()]
                        .iter()
                        .all(|max| now != i64::from(max / 10))
                }) {
                    return Err(bad(
                        "the throughput of an autoscale offer is set by 'maxThroughput' alone",
                    ));
                }
                Ok(wanted)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: Throughput = Throughput::Manual(400);
    const AUTOSCALE: Throughput = Throughput::Autoscale {
        max: 1_000,
        increment_percent: 0,
    };

    fn stored(gigabytes: u64) -> Load {
        Load {
            bytes: gigabytes * limits::GIGABYTE,
            gigabyte: limits::GIGABYTE,
            containers: 0,
        }
    }

    #[test]
    fn the_least_throughput_follows_the_published_formula() {
        assert_eq!(least(MANUAL, 400, stored(0)), 400);
        assert_eq!(least(MANUAL, 100_000, stored(0)), 1_000);
        assert_eq!(least(MANUAL, 400, stored(1_250)), 1_300);
        assert_eq!(
            least(
                MANUAL,
                400,
                Load {
                    containers: 30,
                    ..stored(0)
                }
            ),
            900
        );
        assert_eq!(least(AUTOSCALE, 1_000, stored(50)), 1_000);
        assert_eq!(least(AUTOSCALE, 150_000, stored(100)), 15_000);
        assert_eq!(least(AUTOSCALE, 1_000, stored(110)), 2_000);
        assert_eq!(
            least(
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
    fn a_maximum_rises_with_what_is_stored() {
        assert_eq!(grown(1_000, 0, stored(0)), 1_000);
        assert_eq!(grown(1_000, 0, stored(100)), 1_000);
        let above = Load {
            bytes: 100 * limits::GIGABYTE + 1,
            ..stored(0)
        };
        assert_eq!(grown(1_000, 0, above), 2_000);
        assert_eq!(grown(1_000, 0, stored(650)), 7_000);
        assert_eq!(grown(10_000, 20, stored(1_050)), 12_000);
        assert_eq!(grown(10_000, 20, stored(1_300)), 15_000);
        assert_eq!(
            grown(999_000, 20, stored(1_000_000)),
            1_000_000,
            "as far as a throughput may rise"
        );
    }
}
