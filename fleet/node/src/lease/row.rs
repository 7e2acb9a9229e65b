//! The row of the lease: the leaseholder, as JSON.

use super::key::NodesKey;
use orrery_model::json::parse;
use orrery_model::{Json, object};
use orrery_storage::{Bytes, Snapshot, StoreError};

/// The key of the row.
const KEY: &[u8] = b"holder";

/// A node as other nodes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name, for people.
    pub name: String,
    /// The address at which other nodes reach the node, such as `http://10.0.0.1:8081`.
    pub address: String,
}

/// The leaseholder, as its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaseholder {
    /// The node.
    pub node: Node,
    /// The key of all nodes; `None` if the leaseholder is of a version that knows no key.
    pub key: Option<NodesKey>,
}

/// The row of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The node.
    pub(crate) node: Node,
    /// A random number of the process, so that a node that starts again is another leaseholder.
    pub(crate) process: u64,
    /// Milliseconds for which a renewal is good.
    pub(crate) ttl_ms: u64,
    /// The leaseholder has given the lease back.
    pub(crate) is_released: bool,
    /// The name of the node that is to claim the released lease first; `None` for any node.
    pub(crate) successor: Option<String>,
    /// The key of all nodes; `None` in rows of versions that knew no key.
    pub(crate) key: Option<NodesKey>,
}

impl Row {
    /// Returns key and value.
    pub(crate) fn put(&self) -> (Vec<u8>, Vec<u8>) {
        let mut value = object! {
            "name" => self.node.name.as_str(),
            "address" => self.node.address.as_str(),
            // As text: JSON numbers of other programs have 53 bits.
            "process" => self.process.to_string(),
            "ttlMs" => self.ttl_ms.to_string(),
            "released" => self.is_released,
        };
        if let Some(successor) = &self.successor {
            value.push_new("successor", successor.as_str());
        }
        if let Some(key) = &self.key {
            value.push_new("key", key.to_hex());
        }
        (KEY.to_vec(), Json::Object(value).to_text().into_bytes())
    }

    /// Reads the row; `None` if no node ever held the lease.
    ///
    /// # Errors
    /// That of the store, or a sentence about a row that a newer program wrote.
    pub(crate) fn read(snapshot: &dyn Snapshot) -> Result<Option<Row>, StoreError> {
        let Some(value) = snapshot.get(KEY)? else {
            return Ok(None);
        };
        let row = Row::parse(&value).ok_or_else(|| StoreError::Cluster {
            cluster: "first".to_owned(),
            detail: "the row of the nodes' lease is not of this version's form: start the newest \
                     version of the program that was used"
                .to_owned(),
            retry_after_ms: None,
        })?;
        Ok(Some(row))
    }

    fn parse(value: &Bytes) -> Option<Row> {
        let json = parse(value).ok()?;
        let text = |name: &str| json.get(name)?.as_str();
        Some(Row {
            node: Node {
                name: text("name")?.to_owned(),
                address: text("address")?.to_owned(),
            },
            process: text("process")?.parse().ok()?,
            ttl_ms: text("ttlMs")?.parse().ok()?,
            is_released: json.get("released")?.as_bool()?,
            successor: match json.get("successor") {
                Some(name) => Some(name.as_str()?.to_owned()),
                None => None,
            },
            key: match json.get("key") {
                Some(key) => Some(NodesKey::from_hex(key.as_str()?)?),
                None => None,
            },
        })
    }
}
