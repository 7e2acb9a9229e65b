//! The items of the container `leases`.
//!
//! ```text
//! {"id": "3", "pipeline": "blog-v3.posts", "container": "Ab3=", "parents": ["0"],
//!  "owner": "4711-9f…", "position": "\"12\"", "gone": false, "lag": 0,
//!  "changes": 7, "written": 9, "retries": 0, "deadLetters": 0, "ru": 123.45}
//! {"id": "4711-9f…", "pipeline": "workers", "stats": {…}, "ttl": 30}
//! ```
//! Every write of a lease is conditional on its etag. `container` is the resource id of the
//! container whose feed the position belongs to: positions of a container that was deleted mean
//! nothing in a new one of the same name. A lease whose range was split or merged is `gone`; its
//! position is final, and the new ranges start there.

use crate::client::PartitionKeyRange;
use crate::{BlogError, Charge, Control, Meter, Query};
use serde_json::{Value, json};

/// The value of `pipeline` in the items of workers.
const WORKERS: &str = "workers";

/// The sums that a lease keeps over all its owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    /// Changes processed.
    pub(super) changes: u64,
    /// Items written in reaction.
    pub(super) written: u64,
    /// Attempts of reactions that failed and were repeated.
    pub(super) retries: u64,
    /// Changes that became dead letters.
    pub(super) dead_letters: u64,
    /// Charges of reading the feed and of the reactions.
    pub(super) ru: Charge,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.changes += other.changes;
        self.written += other.written;
        self.retries += other.retries;
        self.dead_letters += other.dead_letters;
        self.ru.0 += other.ru.0;
    }
}

/// A lease: one range of one pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lease {
    pub(super) pipeline: String,
    pub(super) range: String,
    /// Resource id of the container.
    pub(super) container: String,
    /// The ranges from which the range was split or merged.
    pub(super) parents: Vec<String>,
    pub(super) owner: Option<String>,
    /// The position in the feed; `None` means its beginning.
    pub(super) position: Option<String>,
    /// True if the range no longer exists and its changes before the split are processed.
    pub(super) is_gone: bool,
    /// Changes after the position when the position was stored.
    pub(super) lag: Option<u64>,
    pub(super) sums: Sums,
    etag: String,
}

impl Lease {
    /// Returns a lease without an owner, not yet stored.
    pub(super) fn new(
        pipeline: &str,
        container: &str,
        range: &PartitionKeyRange,
        position: Option<String>,
    ) -> Self {
        Self {
            pipeline: pipeline.to_owned(),
            range: range.id.clone(),
            container: container.to_owned(),
            parents: range.parents.clone(),
            owner: None,
            position,
            is_gone: false,
            lag: None,
            sums: Sums::default(),
            etag: String::new(),
        }
    }

    fn from_json(item: &Value) -> Option<Self> {
        let text = |name: &str| item[name].as_str().map(str::to_owned);
        let number = |name: &str| item[name].as_u64().unwrap_or(0);
        let parents = item["parents"].as_array()?.iter();
        Some(Self {
            pipeline: text("pipeline")?,
            range: text("id")?,
            container: text("container")?,
            parents: parents
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            owner: text("owner"),
            position: text("position"),
            is_gone: item["gone"] == true,
            lag: item["lag"].as_u64(),
            sums: Sums {
                changes: number("changes"),
                written: number("written"),
                retries: number("retries"),
                dead_letters: number("deadLetters"),
                ru: Charge((item["ru"].as_f64().unwrap_or(0.0) * 100.0).round() as u64),
            },
            etag: text("_etag")?,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "id": self.range,
            "pipeline": self.pipeline,
            "container": self.container,
            "parents": self.parents,
            "owner": self.owner,
            "position": self.position,
            "gone": self.is_gone,
            "lag": self.lag,
            "changes": self.sums.changes,
            "written": self.sums.written,
            "retries": self.sums.retries,
            "deadLetters": self.sums.dead_letters,
            "ru": self.sums.ru.ru(),
            "_etag": self.etag,
        })
    }
}

/// The item of a worker.
#[derive(Debug, Clone)]
pub(super) struct WorkerItem {
    pub(super) id: String,
    pub(super) etag: String,
    /// The figures of the worker, see `status`.
    pub(super) stats: Value,
}

/// All items of the lease container.
#[derive(Debug, Default)]
pub(super) struct LeaseItems {
    pub(super) workers: Vec<WorkerItem>,
    pub(super) leases: Vec<Lease>,
}

/// The container `leases`.
#[derive(Clone)]
pub(super) struct LeaseStore {
    control: Control,
    /// Sums the charges of all requests other than those of [`LeaseStore::replace`].
    pub(super) meter: Meter,
    /// Sums the charges of changed leases: above all of stored positions.
    pub(super) positions: Meter,
}

impl LeaseStore {
    pub(super) fn new(control: Control) -> Self {
        Self {
            control,
            meter: Meter::new(),
            positions: Meter::new(),
        }
    }

    /// Reads all leases and workers.
    pub(super) async fn read_all(&self) -> Result<LeaseItems, BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let query = Query::new("SELECT * FROM c");
        let mut items = LeaseItems::default();
        for item in client.query_all(&self.meter, link, &query).await? {
            if item["pipeline"] == WORKERS {
                items.workers.push(WorkerItem {
                    id: item["id"].as_str().unwrap_or_default().to_owned(),
                    etag: item["_etag"].as_str().unwrap_or_default().to_owned(),
                    stats: item["stats"].clone(),
                });
                continue;
            }
            match Lease::from_json(&item) {
                Some(lease) => items.leases.push(lease),
                None => return Err(BlogError::unexpected(link, format!("a lease {item}"))),
            }
        }
        Ok(items)
    }

    /// Creates a lease. A lease that exists is left as it is.
    pub(super) async fn create(&self, lease: &Lease) -> Result<(), BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let mut item = lease.to_json();
        if let Some(properties) = item.as_object_mut() {
            properties.shift_remove("_etag");
        }
        let created = client
            .create(&self.meter, link, &lease.pipeline, &item)
            .await;
        crate::control::existing_is_fine(created)
    }

    /// Stores a changed lease if its item has not changed since. Returns false if it has: another
    /// worker has written it, or has deleted it.
    pub(super) async fn replace(&self, lease: &mut Lease) -> Result<bool, BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let item = lease.to_json();
        let replaced = client
            .replace_returning(&self.positions, link, &lease.pipeline, &item)
            .await;
        match replaced {
            Ok(stored) => {
                lease.etag = stored["_etag"].as_str().unwrap_or_default().to_owned();
                Ok(true)
            }
            Err(e) if e.is_conflict() || e.is_item_missing() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Stores a changed lease of the owner `owner`. Returns false if the lease has another owner.
    ///
    /// The answer to an earlier, successful write may have been lost; the item then has another
    /// etag and still the same owner.
    pub(super) async fn replace_owned(
        &self,
        lease: &mut Lease,
        owner: &str,
    ) -> Result<bool, BlogError> {
        if self.replace(lease).await? {
            return Ok(true);
        }
        let (client, link) = (&self.control.client, &self.control.leases);
        let read = client
            .read(&self.meter, link, &lease.pipeline, &lease.range)
            .await;
        let current = match read {
            Err(e) if e.is_item_missing() => return Ok(false),
            read => Lease::from_json(&read?),
        };
        match current {
            Some(current) if current.owner.as_deref() == Some(owner) => {
                lease.etag = current.etag;
                self.replace(lease).await
            }
            _ => Ok(false),
        }
    }

    /// Deletes a lease if its item has not changed since.
    pub(super) async fn delete(&self, lease: &Lease) -> Result<(), BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let deleted = client
            .delete(
                &self.meter,
                link,
                &lease.pipeline,
                &lease.range,
                Some(&lease.etag),
            )
            .await;
        match deleted {
            Err(e) if e.is_conflict() || e.is_item_missing() => Ok(()),
            deleted => deleted,
        }
    }

    /// Stores the heartbeat of a worker. Its item disappears `ttl_seconds` after the last one.
    pub(super) async fn heartbeat(
        &self,
        worker: &str,
        stats: Value,
        ttl_seconds: u64,
    ) -> Result<(), BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let item = json!({
            "id": worker,
            "pipeline": WORKERS,
            "stats": stats,
            "ttl": ttl_seconds,
        });
        client.upsert(&self.meter, link, WORKERS, &item, None).await
    }

    /// Removes the item of a worker.
    pub(super) async fn remove_worker(&self, worker: &str) -> Result<(), BlogError> {
        let (client, link) = (&self.control.client, &self.control.leases);
        let deleted = client
            .delete(&self.meter, link, WORKERS, worker, None)
            .await;
        match deleted {
            Err(e) if e.is_item_missing() => Ok(()),
            deleted => deleted,
        }
    }

    /// Returns the resource id of a container.
    pub(super) async fn resource_id(&self, container: &str) -> Result<String, BlogError> {
        let client = self.control.client.unmetered();
        let properties: Value = client.read(container).await?.json()?;
        match properties["_rid"].as_str() {
            Some(rid) => Ok(rid.to_owned()),
            None => Err(BlogError::unexpected(container, "a container without _rid")),
        }
    }
}

/// Returns the position from which a new range starts, of the leases of its parents: the earliest.
/// LSNs stay in a merge, so no change is before the earliest position of both parents.
pub(super) fn earliest_position(leases: &[&Lease]) -> Option<String> {
    let lsn = |lease: &Lease| -> Option<u64> {
        let position = lease.position.as_deref()?;
        position.trim_matches('"').parse().ok()
    };
    let mut earliest: Option<&Lease> = None;
    for lease in leases {
        let Some(current) = earliest else {
            earliest = Some(lease);
            continue;
        };
        // A position that is not a number cannot be compared: the beginning is always safe.
        match (lsn(current), lsn(lease)) {
            (Some(a), Some(b)) => earliest = if b < a { Some(lease) } else { Some(current) },
            _ => return None,
        }
    }
    earliest.and_then(|lease| lease.position.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(position: Option<&str>) -> Lease {
        let range = PartitionKeyRange {
            id: "3".into(),
            min: String::new(),
            max: "FF".into(),
            parents: vec!["0".into()],
        };
        Lease::new("p", "rid", &range, position.map(str::to_owned))
    }

    #[test]
    fn a_lease_round_trips_through_its_item() {
        let mut lease = lease(Some("\"12\""));
        lease.etag = "e".into();
        lease.sums.ru = Charge(1_234);
        lease.owner = Some("w".into());
        assert_eq!(Lease::from_json(&lease.to_json()), Some(lease));
        assert_eq!(Lease::from_json(&json!({"id": "3"})), None);
    }

    #[test]
    fn a_merged_range_starts_at_the_earliest_position_of_its_parents() {
        let (early, late) = (lease(Some("\"9\"")), lease(Some("\"12\"")));
        let earliest = |leases: &[&Lease]| earliest_position(leases);
        assert_eq!(earliest(&[&late, &early]).as_deref(), Some("\"9\""));
        assert_eq!(earliest(&[&late]).as_deref(), Some("\"12\""));
        assert_eq!(earliest(&[&late, &lease(None)]), None);
        assert_eq!(earliest(&[&late, &lease(Some("x"))]), None);
        assert_eq!(earliest(&[]), None);
    }
}
