//! Offers: the throughput of a container, or of a database that shares it among its containers.

use super::records::{Kind, Meta, Record};
use super::{Batch, Catalog};
use crate::request::{Resource, Throughput};
use crate::transaction::etag_matches;
use orrery_model::{Error, Json, Object, Result, Rid, limits, object};
use std::sync::{Arc, PoisonError};

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

/// The least and most RU/s, and the steps between, of manual and autoscale throughput.
const MANUAL: (u32, u32, u32) = (400, 1_000_000, 100);
const AUTOSCALE: (u32, u32, u32) = (1_000, 1_000_000, 1_000);

/// Checks a throughput against the service's limits.
///
/// # Errors
/// 400.
pub fn check_throughput(throughput: Throughput) -> Result<()> {
    let (value, (least, most, step)) = match throughput {
        Throughput::Manual(ru) => (ru, MANUAL),
        Throughput::Autoscale { max } => (max, AUTOSCALE),
    };
    if (least..=most).contains(&value) && value % step == 0 {
        return Ok(());
    }
    Err(Error::bad(format!(
        "The offer should have valid throughput values between {least} and {most} inclusive in increments of {step}."
    )))
}

impl Offer {
    pub(super) fn from_record(record: Record) -> Result<Offer> {
        let read = || -> Option<Offer> {
            let kept = &record.kept;
            let number = |name: &str| u32::try_from(kept.get(name)?.as_i64()?).ok();
            let throughput = match number("autoscale") {
                Some(max) => Throughput::Autoscale { max },
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
            Throughput::Autoscale { max } => kept.set("autoscale", max),
        }
        Record { kind: Kind::Offer, meta: self.meta, body: Object::new(), kept }
    }

    /// Its resource id, which is also its id.
    pub fn rid(&self) -> Rid {
        self.meta.rid
    }

    /// As a client reads it.
    pub fn resource(&self) -> Resource {
        let highest = object! { "maxThroughputEverProvisioned" => self.highest, "maxConsumedStorageEverInKB" => 0 };
        let mut content = match self.throughput {
            Throughput::Manual(ru) => object! { "offerThroughput" => ru },
            Throughput::Autoscale { max } => {
                let policy = object! { "throughputPolicy" => object! { "incrementPercent" => 0 } };
                let settings = object! { "maxThroughput" => max, "autoUpgradePolicy" => policy };
                object! { "offerThroughput" => max / 10, "offerAutopilotSettings" => settings }
            }
        };
        content.push_new("offerIsRUPerMinuteThroughputEnabled", false);
        content.push_new("offerMinimumThroughputParameters", highest);
        let body = object! {
            "resource" => self.link.as_str(), "offerType" => "Invalid", "offerResourceId" => self.target.to_string(),
            "offerVersion" => "V2", "content" => content, "id" => self.rid().to_string(),
        };
        let body = self.meta.text(&body, &format!("offers/{}/", self.rid()), &[]);
        Resource { body, etag: self.meta.etag_text(), rid: self.rid(), created: false }
    }
}

impl Catalog {
    pub(super) fn new_offer(&self, target: Rid, link: String, throughput: Throughput) -> Result<Offer> {
        check_throughput(throughput)?;
        let rid = std::iter::repeat_with(|| Rid::offer(self.world.random() as u32))
            .find(|rid| !self.state().offers.contains_key(rid))
            .expect("an endless iterator");
        let (Throughput::Manual(highest) | Throughput::Autoscale { max: highest }) = throughput;
        Ok(Offer { meta: self.new_meta(rid), target, link, throughput, highest })
    }

    /// The offer of a container or database, if it has its own.
    pub fn offer_of(&self, target: Rid) -> Option<Arc<Offer>> {
        self.state().offers.values().find(|o| o.target == target).cloned()
    }

    /// All offers.
    pub fn offers(&self) -> Vec<Arc<Offer>> {
        let mut all: Vec<_> = self.state().offers.values().cloned().collect();
        all.sort_by_key(|o| (o.meta.ts, o.rid()));
        all
    }

    /// An offer.
    ///
    /// # Errors
    /// 404.
    pub fn offer(&self, rid: Rid) -> Result<Arc<Offer>> {
        self.state().offers.get(&rid).cloned().ok_or_else(Error::not_found)
    }

    /// Changes a throughput within what the present partitions carry.
    ///
    /// # Errors
    /// 404, 412, 400 for values outside the limits, for a change between manual and autoscale, and for more than the
    /// partitions carry.
    pub fn replace_offer(&self, rid: Rid, body: &Object, if_match: Option<&str>) -> Result<Resource> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.offer(rid)?;
        if if_match.is_some_and(|wanted| !etag_matches(wanted, &old.meta.etag_text())) {
            return Err(Error::precondition_failed());
        }
        let wanted = wanted_throughput(body, old.throughput)?;
        check_throughput(wanted)?;
        let (Throughput::Manual(value) | Throughput::Autoscale { max: value }) = wanted;
        let container = self.state().containers.get(&old.target).cloned();
        let partitions = container.map_or(1, |c| c.partitions().len() as u32);
        if value > partitions * limits::PARTITION_RU_PER_SECOND && old.target.is_container() {
            return Err(Error::unsupported(format!(
                "Raising the throughput beyond {} RU/s, which needs more than the {partitions} physical partitions there are,",
                partitions * limits::PARTITION_RU_PER_SECOND
            )));
        }
        let mut offer = (*old).clone();
        offer.meta = self.new_meta(rid);
        offer.throughput = wanted;
        offer.highest = offer.highest.max(value);
        let mut batch = Batch::default();
        batch.put(&offer.record());
        self.commit(batch)?;
        let resource = offer.resource();
        self.state.write().unwrap_or_else(PoisonError::into_inner).offers.insert(rid, Arc::new(offer));
        Ok(resource)
    }
}

fn wanted_throughput(body: &Object, old: Throughput) -> Result<Throughput> {
    let bad = |what: &str| Error::bad(format!("The offer is invalid: {what}."));
    let content = body.get("content").and_then(Json::as_object).ok_or_else(|| bad("'content' is missing"))?;
    let number = |json: &Json| {
        json.as_i64().and_then(|n| u32::try_from(n).ok()).ok_or_else(|| bad("a throughput is no whole number"))
    };
    match (old, content.get("offerAutopilotSettings").filter(|s| !matches!(s, Json::Null))) {
        (Throughput::Autoscale { .. }, Some(settings)) => {
            let max = settings.get("maxThroughput").ok_or_else(|| bad("'maxThroughput' is missing"))?;
            Ok(Throughput::Autoscale { max: number(max)? })
        }
        (Throughput::Manual(_), None) => {
            let manual = content.get("offerThroughput").ok_or_else(|| bad("'offerThroughput' is missing"))?;
            Ok(Throughput::Manual(number(manual)?))
        }
        _ => Err(Error::unsupported("Changing between manual and autoscale throughput")),
    }
}
