//! The live nodes of a fleet, in memory.
//!
//! Each node tells the holder of the lease of itself every two seconds. The holder answers with all
//! live nodes, so that each node knows them when the lease moves. A node that was silent for six
//! seconds is gone.

use orrery_model::json::parse;
use orrery_model::sync::lock;
use orrery_model::{Json, object};
use std::sync::Mutex;

/// Milliseconds of silence after which a node is gone.
const LIFE_MS: u64 = 6_000;
/// The largest number of nodes that are kept.
const NODES: usize = 1_000;
/// The longest name of a node or a region, in bytes.
const NAME_BYTES: usize = 200;
/// The longest address, in bytes.
const ADDRESS_BYTES: usize = 300;

/// The facts that a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name, which no other node has.
    pub name: String,
    /// The region; `None` for a node without one.
    pub region: Option<String>,
    /// The address at which other nodes reach the node, such as `http://10.0.0.1:8081`.
    pub address: String,
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// The facts that the node has told.
    pub facts: NodeFacts,
    /// Milliseconds since the node was heard of.
    pub silent_ms: u64,
}

/// The nodes that were heard of.
#[derive(Default)]
pub struct Roster {
    /// The facts, and the time at which each was heard, by the monotonic clock.
    nodes: Mutex<Vec<(NodeFacts, u64)>>,
}

impl Roster {
    /// Records that a node was heard of `now_ms` milliseconds after the zero of the monotonic
    /// clock. Returns false if there are too many nodes; the node is not recorded then.
    pub fn hear(&self, facts: NodeFacts, now_ms: u64) -> bool {
        let mut nodes = lock(&self.nodes);
        nodes.retain(|(_, heard_ms)| is_live(*heard_ms, now_ms));
        if let Some(known) = nodes.iter_mut().find(|(known, _)| known.name == facts.name) {
            *known = (facts, now_ms);
            return true;
        }
        if nodes.len() >= NODES {
            return false;
        }
        nodes.push((facts, now_ms));
        nodes.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        true
    }

    /// Returns the live nodes in the order of their names.
    pub fn live(&self, now_ms: u64) -> Vec<LiveNode> {
        let nodes = lock(&self.nodes);
        let live = nodes
            .iter()
            .filter(|(_, heard_ms)| is_live(*heard_ms, now_ms));
        live.map(|(facts, heard_ms)| LiveNode {
            facts: facts.clone(),
            silent_ms: now_ms.saturating_sub(*heard_ms),
        })
        .collect()
    }

    /// Forgets a node that has told that it ends.
    pub fn forget(&self, name: &str) {
        lock(&self.nodes).retain(|(facts, _)| facts.name != name);
    }
}

fn is_live(heard_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(heard_ms) <= LIFE_MS
}

/// Returns the JSON text of nodes: `{"nodes": [{"name", "address", "region"}]}`, with `region` for
/// the nodes that have one.
pub fn facts_to_text(nodes: &[NodeFacts]) -> String {
    let node = |facts: &NodeFacts| {
        let mut json = object! {
            "name" => facts.name.as_str(),
            "address" => facts.address.as_str(),
        };
        if let Some(region) = &facts.region {
            json.set("region", region.as_str());
        }
        Json::Object(json)
    };
    let nodes: Vec<Json> = nodes.iter().map(node).collect();
    Json::Object(object! { "nodes" => nodes }).to_text()
}

/// Reads the text of [`facts_to_text`]; `None` for a text of another form, or with a name or an
/// address that no node can have.
pub fn facts_from_text(text: &[u8]) -> Option<Vec<NodeFacts>> {
    let json = parse(text).ok()?;
    let nodes = json.get("nodes")?.as_array()?;
    if nodes.len() > NODES {
        return None;
    }
    nodes.iter().map(facts_of).collect()
}

fn facts_of(json: &Json) -> Option<NodeFacts> {
    let name = json.get("name")?.as_str().filter(|name| is_name(name))?;
    let address = json.get("address")?.as_str();
    let address = address.filter(|address| is_address(address))?;
    let region = match json.get("region") {
        Some(region) => Some(region.as_str().filter(|name| is_name(name))?.to_owned()),
        None => None,
    };
    Some(NodeFacts {
        name: name.to_owned(),
        region,
        address: address.to_owned(),
    })
}

fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.len() <= NAME_BYTES && !name.chars().any(char::is_control)
}

/// Returns true for `http://HOST:PORT` with the characters of hosts and ports. The address becomes
/// part of a URL that clients use.
fn is_address(address: &str) -> bool {
    let Some(host) = address.strip_prefix("http://") else {
        return false;
    };
    !host.is_empty()
        && address.len() <= ADDRESS_BYTES
        && host.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'[' | b']')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, region: Option<&str>) -> NodeFacts {
        NodeFacts {
            name: name.to_owned(),
            region: region.map(str::to_owned),
            address: format!("http://{name}:8081"),
        }
    }

    #[test]
    fn a_node_lives_for_six_seconds_after_it_was_heard_of() {
        let roster = Roster::default();
        assert!(roster.hear(node("b", None), 1_000));
        assert!(roster.hear(node("a", Some("West US")), 2_000));
        let names = |now_ms| -> Vec<(String, u64)> {
            let live = roster.live(now_ms);
            live.into_iter()
                .map(|node| (node.facts.name, node.silent_ms))
                .collect()
        };
        assert_eq!(
            names(7_000),
            [("a".to_owned(), 5_000), ("b".to_owned(), 6_000)]
        );
        assert_eq!(names(7_001), [("a".to_owned(), 5_001)]);
        assert!(roster.hear(node("b", None), 7_500));
        assert_eq!(names(8_001), [("b".to_owned(), 501)]);
        roster.forget("b");
        assert_eq!(names(8_001), []);
    }

    #[test]
    fn a_node_that_comes_back_with_another_address_is_one_node() {
        let roster = Roster::default();
        assert!(roster.hear(node("a", None), 0));
        let moved = NodeFacts {
            address: "http://10.0.0.9:1".to_owned(),
            ..node("a", Some("East Asia"))
        };
        assert!(roster.hear(moved.clone(), 1));
        let live = roster.live(1);
        assert_eq!((live.len(), &live[0].facts), (1, &moved));
    }

    #[test]
    fn a_roster_is_bounded() {
        let roster = Roster::default();
        for number in 0..NODES {
            assert!(roster.hear(node(&number.to_string(), None), 0));
        }
        assert!(!roster.hear(node("more", None), 0));
        assert!(roster.hear(node("0", None), 0), "a known node is heard");
        assert!(roster.hear(node("more", None), LIFE_MS + 1));
        assert_eq!(roster.live(LIFE_MS + 1).len(), 1);
    }

    #[test]
    fn facts_are_read_as_they_were_written() {
        let nodes = [node("a", Some("West US")), node("b", None)];
        let text = facts_to_text(&nodes);
        assert_eq!(facts_from_text(text.as_bytes()), Some(nodes.to_vec()));
        assert_eq!(facts_from_text(br#"{"nodes":[]}"#), Some(Vec::new()));
    }

    #[test]
    fn facts_that_would_break_an_address_are_refused() {
        let text = |name: &str, address: &str, region: &str| {
            let facts = NodeFacts {
                name: name.to_owned(),
                region: Some(region.to_owned()),
                address: address.to_owned(),
            };
            facts_to_text(&[facts])
        };
        let good = text("a", "http://[::1]:8081", "West US");
        assert!(facts_from_text(good.as_bytes()).is_some());
        for wrong in [
            text("", "http://a:1", "r"),
            text("a\n", "http://a:1", "r"),
            text("a", "https://a:1", "r"),
            text("a", "http://", "r"),
            text("a", "http://a/b", "r"),
            text("a", "http://user@a", "r"),
            text("a", "http://a\"b", "r"),
            text("a", "http://a:1", " "),
            text(&"n".repeat(201), "http://a:1", "r"),
            "{}".to_owned(),
            "[".to_owned(),
            r#"{"nodes":[{"name":"a","address":"http://a:1","region":1}]}"#.to_owned(),
        ] {
            assert_eq!(facts_from_text(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
