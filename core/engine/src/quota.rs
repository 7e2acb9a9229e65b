//! Quota and usage: how much of a kind of resource there may be, and how much there is. Answers
//! state both, in the headers `x-ms-resource-quota` and `x-ms-resource-usage`.
//!
//! A quota of -1 stands for a number that nothing limits.
//!
//! Answers about items state the usage of their container. Counting it reads a row of every
//! physical partition, so the count of an earlier answer is repeated for [`USAGE_MS`].
//!
//! Left out: offers, partition key ranges and client encryption keys, about which the service
//! states no quota.

use crate::Engine;
use crate::catalog::Container;
use crate::request::{AccessResourceKind, ScriptKind};
use bytes::Bytes;
use orrery_model::sync::{read, write};
use orrery_model::{Result, Rid};
use std::sync::{Arc, RwLock};

/// The milliseconds for which a counted usage is repeated.
const USAGE_MS: u64 = 10_000;
/// The quota of the items of a container: sizes in kilobytes, and no limit of their number.
const ITEM_QUOTA: &str =
    "documentSize=51200;documentsSize=52428800;documentsCount=-1;collectionSize=52428800;";

/// The resources that a quota is about.
#[derive(Clone, Debug)]
pub enum Counted {
    /// All databases.
    Databases,
    /// All containers.
    Containers,
    /// The items of a container.
    Items(Arc<Container>),
    /// The scripts of a container.
    Scripts(Arc<Container>),
    /// The users of a database, or the permissions of a user.
    AccessResources(AccessResourceKind, Rid),
}

/// The usage that the last count of a container gave.
#[derive(Default)]
pub(crate) struct RecentUsage(RwLock<Option<Box<TimedUsage>>>);

/// A usage and the time of its count, by the monotonic clock.
struct TimedUsage {
    counted_at_ms: u64,
    text: Bytes,
}

impl Engine {
    /// Returns the quota and the usage of `counted`, or `None` if the store cannot be read or
    /// nothing is stated about the resources.
    pub fn quota_of(&self, counted: &Counted) -> Option<(Bytes, Bytes)> {
        let unlimited = |name: &str, count: usize| {
            let (quota, usage) = (format!("{name}=-1;"), format!("{name}={count};"));
            Some((quota.into(), usage.into()))
        };
        match counted {
            Counted::Databases => unlimited("databases", self.catalog().database_count()),
            Counted::Containers => unlimited("collections", self.catalog().container_count()),
            Counted::Items(container) => {
                let usage = self.recent_usage(container).ok()?;
                Some((Bytes::from_static(ITEM_QUOTA.as_bytes()), usage))
            }
            Counted::Scripts(container) => {
                let (quota, usage) = script_quota(container);
                Some((quota.into(), usage.into()))
            }
            Counted::AccessResources(kind, owner) => {
                let name = match kind {
                    AccessResourceKind::User => "users",
                    AccessResourceKind::Permission => "permissions",
                    AccessResourceKind::EncryptionKey => return None,
                };
                unlimited(name, self.catalog().access_resource_count(*owner, *kind))
            }
        }
    }

    /// Returns the quota and the current usage of the items of a container.
    pub fn quota(&self, container: &Container) -> (String, String) {
        let usage = item_usage(container);
        (ITEM_QUOTA.to_owned(), usage.unwrap_or_default())
    }

    /// Returns the usage of the items of a container as it was at most [`USAGE_MS`] ago.
    fn recent_usage(&self, container: &Container) -> Result<Bytes> {
        let now_ms = self.world().monotonic_ms();
        let RecentUsage(recent) = container.recent_usage();
        if let Some(usage) = &*read(recent)
            && now_ms.saturating_sub(usage.counted_at_ms) < USAGE_MS
        {
            return Ok(usage.text.clone());
        }
        let text = Bytes::from(item_usage(container)?);
        *write(recent) = Some(Box::new(TimedUsage {
            counted_at_ms: now_ms,
            text: text.clone(),
        }));
        Ok(text)
    }
}

/// Returns the usage of the items of a container. Sizes are in kilobytes: `documentsSize` is that
/// of the items, `collectionSize` that of the items and the index.
///
/// # Errors
/// 500 if the store cannot be read.
fn item_usage(container: &Container) -> Result<String> {
    let stored = container.counters()?;
    let items = stored.items;
    let documents = stored.bytes.div_ceil(1024);
    let collection = (stored.bytes + stored.index_bytes).div_ceil(1024);
    Ok(format!(
        "documentSize=0;documentsSize={documents};documentsCount={items};\
         collectionSize={collection};"
    ))
}

/// Returns the quota and the usage of the scripts of a container: how many of each kind there may
/// be and are.
fn script_quota(container: &Container) -> (String, String) {
    let counts = |count: fn(&Container, ScriptKind) -> usize| {
        let [procedures, triggers, functions] = ScriptKind::ALL.map(|kind| count(container, kind));
        format!("storedProcedures={procedures};triggers={triggers};functions={functions};")
    };
    (
        counts(|_, kind| kind.count_max()),
        counts(|container, kind| container.scripts(kind).len()),
    )
}
