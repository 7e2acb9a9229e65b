//! Reading the change feed of a container, one physical partition at a time.
//!
//! Each partition's feed is a stream of its own; the etag of a page is the position after it. [`Positions`] holds one
//! etag per partition and can be stored as JSON, so that a reader goes on where an earlier one stopped. When a partition
//! is split, its children go on from the position of their parent.

use crate::BlogError;
use crate::client::{Call, Client, Range};
use crate::meter::Meter;
use crate::query::documents;
use http::Method;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One answer of the change feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The current version of each changed item, in the order of the changes; empty if there is nothing new.
    pub items: Vec<Value>,
    /// The position after these changes.
    pub etag: String,
}

impl Client {
    /// The next changes of one physical partition after `etag`; from the container's creation on if that is none.
    pub async fn changes(
        &self,
        meter: &Meter,
        container: &str,
        range: &str,
        etag: Option<&str>,
        page_size: usize,
    ) -> Result<Changes, BlogError> {
        let mut headers = vec![
            ("a-im", "Incremental Feed".to_owned()),
            ("x-ms-documentdb-partitionkeyrangeid", range.to_owned()),
            ("x-ms-max-item-count", page_size.to_string()),
        ];
        headers.extend(etag.map(|etag| ("if-none-match", etag.to_owned())));
        let path = format!("{container}/docs");
        let call = Call {
            method: Method::GET,
            kind: "docs",
            link: container,
            path,
            headers,
            body: String::new(),
        };
        let answer = self.send(&call).await?.metered(meter, container)?;
        let etag = answer.header("etag").map(str::to_owned);
        let etag = etag.ok_or_else(|| {
            BlogError::unexpected(&answer.doing, "a change feed page without etag")
        })?;
        let items = if answer.status == 304 {
            Vec::new()
        } else {
            documents(&answer)?
        };
        Ok(Changes { items, etag })
    }
}

/// How far each physical partition's feed has been read: range id to etag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Positions(BTreeMap<String, String>);

impl Positions {
    /// The positions as JSON, to be stored: `{"0": "\"12\"", …}`.
    pub fn to_json(&self) -> Value {
        Value::Object(
            self.0
                .iter()
                .map(|(range, etag)| (range.clone(), etag.clone().into()))
                .collect::<Map<_, _>>(),
        )
    }

    /// Positions that were stored; refused if they are not of the shape [`Positions::to_json`] gives.
    pub fn from_json(stored: &Value) -> Result<Self, BlogError> {
        let wrong = || {
            BlogError::Option(format!(
                "stored feed positions are not a map of texts: {stored}"
            ))
        };
        let map = stored.as_object().ok_or_else(wrong)?;
        let entry =
            |(range, etag): (&String, &Value)| Some((range.clone(), etag.as_str()?.to_owned()));
        map.iter()
            .map(|pair| entry(pair).ok_or_else(wrong))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Where to read `range` on from: its own position, or else the furthest known ancestor's.
    pub fn of(&self, range: &Range) -> Option<&str> {
        let names = std::iter::once(&range.id).chain(range.parents.iter().rev());
        names
            .filter_map(|name| self.0.get(name))
            .map(String::as_str)
            .next()
    }

    /// Notes that `range` has been read up to `etag`.
    pub fn advance(&mut self, range: &str, etag: String) {
        self.0.insert(range.to_owned(), etag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn positions_survive_being_stored() {
        let mut positions = Positions::default();
        positions.advance("0", "\"12\"".into());
        positions.advance("7", "\"3\"".into());
        assert_eq!(
            Positions::from_json(&positions.to_json()).unwrap(),
            positions
        );
        assert!(Positions::from_json(&json!({"0": 12})).is_err());
        assert!(Positions::from_json(&json!([])).is_err());
    }

    #[test]
    fn the_children_of_a_split_go_on_from_their_parent() {
        let mut positions = Positions::default();
        positions.advance("0", "\"5\"".into());
        positions.advance("1", "\"9\"".into());
        let child = Range {
            id: "3".into(),
            min: String::new(),
            max: "1F".into(),
            parents: vec!["0".into(), "1".into()],
        };
        assert_eq!(
            positions.of(&child),
            Some("\"9\""),
            "the nearest ancestor is the last one named"
        );
        positions.advance("3", "\"11\"".into());
        assert_eq!(positions.of(&child), Some("\"11\""));
        let stranger = Range {
            id: "4".into(),
            min: String::new(),
            max: "FF".into(),
            parents: vec![],
        };
        assert_eq!(positions.of(&stranger), None);
    }
}
