//! The change feed of a container, read one physical partition at a time.
//!
//! Each physical partition has a feed of its own; the ETag of a page is the position after the
//! page. [`Positions`] holds one ETag for each partition. It can be stored as JSON, so that a later
//! reader continues from there. After a split the new partitions continue from the position of
//! their parent.

use crate::BlogError;
use crate::client::{Client, PartitionKeyRange};
use crate::meter::{Meter, Operation};
use crate::query::parsed;
use orrery_client::Scope;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One page of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The current version of each changed item, in the order of the changes. Empty if there are no
    /// new changes.
    pub items: Vec<Value>,
    /// The position after these changes.
    pub etag: String,
    /// The number of the last commit of the physical partition.
    pub lsn: Option<u64>,
}

impl Client {
    /// Reads the next changes of one physical partition after `etag`, or from the creation of the
    /// container if `etag` is `None`. `range` is the id of the partition key range.
    pub async fn changes(
        &self,
        meter: &Meter,
        container: &str,
        range: &str,
        etag: Option<&str>,
        page_size: usize,
    ) -> Result<Changes, BlogError> {
        let client = self.metered(meter, container, Operation::ChangeFeed, Some(""), None);
        let page = client
            .changes_page(container, Scope::Range(range), etag, page_size)
            .await?;
        Ok(Changes {
            items: parsed(&page.items, &page.answer.operation)?,
            etag: page.etag,
            lsn: page.answer.lsn(),
        })
    }
}

/// The position in the change feed of each physical partition: range id to ETag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Positions(BTreeMap<String, String>);

impl Positions {
    /// Returns the positions as JSON: `{"0": "\"12\"", …}`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (range, etag) in &self.0 {
            map.insert(range.clone(), etag.clone().into());
        }
        Value::Object(map)
    }

    /// Restores positions from the result of [`Positions::to_json`].
    ///
    /// # Errors
    /// [`BlogError::InvalidOption`] for JSON of another form.
    pub fn from_json(stored: &Value) -> Result<Self, BlogError> {
        let invalid = || {
            BlogError::InvalidOption(format!(
                "stored feed positions are not an object with strings: {stored}"
            ))
        };
        let mut positions = BTreeMap::new();
        for (range, etag) in stored.as_object().ok_or_else(invalid)? {
            let etag = etag.as_str().ok_or_else(invalid)?;
            positions.insert(range.clone(), etag.to_owned());
        }
        Ok(Self(positions))
    }

    /// Returns the ETag from which to read `range`: its own, or else that of the nearest ancestor
    /// with a known position. `None` means the beginning of the feed.
    pub fn position_of(&self, range: &PartitionKeyRange) -> Option<&str> {
        // The service lists the parents of a range from the oldest to the nearest.
        let own_then_ancestors = std::iter::once(&range.id).chain(range.parents.iter().rev());
        for id in own_then_ancestors {
            if let Some(etag) = self.0.get(id) {
                return Some(etag);
            }
        }
        None
    }

    /// Sets the position of the range with the id `range`.
    pub fn set(&mut self, range: &str, etag: String) {
        self.0.insert(range.to_owned(), etag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn positions_round_trip_through_json() {
        let mut positions = Positions::default();
        positions.set("0", "\"12\"".into());
        positions.set("7", "\"3\"".into());
        assert_eq!(
            Positions::from_json(&positions.to_json()).unwrap(),
            positions
        );
        assert!(Positions::from_json(&json!({"0": 12})).is_err());
        assert!(Positions::from_json(&json!([])).is_err());
    }

    #[test]
    fn a_range_without_a_position_uses_that_of_its_nearest_ancestor() {
        let mut positions = Positions::default();
        positions.set("0", "\"5\"".into());
        positions.set("1", "\"9\"".into());
        let child = PartitionKeyRange {
            id: "3".into(),
            min: String::new(),
            max: "1F".into(),
            parents: vec!["0".into(), "1".into()],
        };
        assert_eq!(
            positions.position_of(&child),
            Some("\"9\""),
            "the nearest ancestor is the last parent"
        );
        positions.set("3", "\"11\"".into());
        assert_eq!(positions.position_of(&child), Some("\"11\""));
        let unrelated = PartitionKeyRange {
            id: "4".into(),
            min: String::new(),
            max: "FF".into(),
            parents: vec![],
        };
        assert_eq!(positions.position_of(&unrelated), None);
    }
}
