//! The live nodes of a fleet, in memory.
//!
//! Each node tells the leaseholder of itself every two seconds. The leaseholder answers with all
//! live nodes, so that each node knows them when the lease moves. A node that was silent for six
//! seconds is gone.
//!
//! A name belongs to one node. A node that is started again may have another address, so a name
//! with another address is no fault; but if the earlier address is heard again, two processes use
//! the name, and the later one is refused while the first one lives.
//!
//! A node tells its time too, and the leaseholder tells all nodes by how much each clock differs
//! from its own. A node whose clock is wrong refuses the signatures of clients whose clocks are
//! right, so it gets no partitions and no lease ([`NodeFacts::wrong_clock`]).

pub(crate) mod members;
pub(crate) mod regions;

use orrery_model::json::parse;
use orrery_model::sync::lock;
use orrery_model::{Json, object};
use std::sync::Mutex;

/// Milliseconds of silence after which a node is gone.
const LIFE_MS: u64 = 6_000;
/// The largest number of nodes that are kept.
const NODES: usize = 1_000;
/// The largest number of clusters of a node.
const CLUSTERS: usize = 10_000;
/// The most milliseconds by which the clock of a node that owns partitions differs from that of the
/// leaseholder. The gateway accepts signatures of fifteen minutes in both directions.
const MOST_CLOCK_MS: u64 = 60_000;
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
    /// The names of the clusters in the cluster file of the node; empty for a node that does not
    /// tell them.
    pub clusters: Vec<String>,
    /// Milliseconds by which the clock of the node is ahead of that of the leaseholder; negative if
    /// it is behind.
    pub clock_ahead_ms: i64,
}

impl NodeFacts {
    /// Returns a sentence about the clock of the node, if it differs too much from that of the
    /// leaseholder.
    pub fn wrong_clock(&self) -> Option<String> {
        let difference_ms = self.clock_ahead_ms.unsigned_abs();
        if difference_ms <= MOST_CLOCK_MS {
            return None;
        }
        // The way of the message takes some milliseconds.
        let minutes = (difference_ms + 30_000) / 60_000;
        let unit = if minutes == 1 { "minute" } else { "minutes" };
        let direction = match self.clock_ahead_ms > 0 {
            true => "ahead of",
            false => "behind",
        };
        Some(format!(
            "the clock of the node '{}' is {minutes} {unit} {direction} the leaseholder's: set it",
            self.name
        ))
    }

    /// Returns true if the node may lack a cluster: it has told its clusters, and not this one.
    pub fn lacks(&self, cluster: &str) -> bool {
        !self.clusters.is_empty() && self.clusters.iter().all(|name| name != cluster)
    }
}

/// A live node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// The facts that the node has told.
    pub facts: NodeFacts,
    /// Milliseconds since the node was heard of.
    pub silent_ms: u64,
}

/// The result of hearing the facts of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// The node is recorded.
    Recorded,
    /// There are too many nodes.
    TooMany,
    /// This live node uses the name.
    NameInUse(NodeFacts),
}

/// The nodes that were heard of.
#[derive(Default)]
pub struct Roster {
    nodes: Mutex<Vec<Known>>,
}

/// A name that was heard of. Times are milliseconds of the monotonic clock.
struct Known {
    facts: NodeFacts,
    heard_ms: u64,
    /// The address that had the name before, and when it was heard last.
    former: Option<(String, u64)>,
    /// The address of a second process with the name.
    rival: Option<String>,
}

impl Roster {
    /// Records that a node was heard of `now_ms` milliseconds after the zero of the monotonic
    /// clock.
    pub fn hear(&self, facts: NodeFacts, now_ms: u64) -> Hearing {
        let mut nodes = lock(&self.nodes);
        nodes.retain(|known| is_live(known.heard_ms, now_ms));
        if let Some(known) = nodes
            .iter_mut()
            .find(|known| known.facts.name == facts.name)
        {
            return known.hear(facts, now_ms);
        }
        if nodes.len() >= NODES {
            return Hearing::TooMany;
        }
        nodes.push(Known {
            facts,
            heard_ms: now_ms,
            former: None,
            rival: None,
        });
        nodes.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        Hearing::Recorded
    }

    /// Returns the live nodes in the order of their names.
    pub fn live(&self, now_ms: u64) -> Vec<LiveNode> {
        let nodes = lock(&self.nodes);
        let live = nodes.iter().filter(|known| is_live(known.heard_ms, now_ms));
        live.map(|known| LiveNode {
            facts: known.facts.clone(),
            silent_ms: now_ms.saturating_sub(known.heard_ms),
        })
        .collect()
    }

    /// Forgets a node that has told that it ends.
    pub fn forget(&self, name: &str) {
        lock(&self.nodes).retain(|known| known.facts.name != name);
    }
}

impl Known {
    /// Takes in facts with the same name.
    fn hear(&mut self, facts: NodeFacts, now_ms: u64) -> Hearing {
        if facts.address == self.facts.address {
            (self.facts, self.heard_ms) = (facts, now_ms);
            return Hearing::Recorded;
        }
        if self.rival.as_ref() == Some(&facts.address) {
            return Hearing::NameInUse(self.facts.clone());
        }
        let is_back = match &self.former {
            Some((address, heard_ms)) => *address == facts.address && is_live(*heard_ms, now_ms),
            None => false,
        };
        if is_back {
            // The node before lives, so the address in between is that of a second process.
            self.rival = Some(std::mem::take(&mut self.facts.address));
            self.former = None;
        } else {
            self.former = Some((std::mem::take(&mut self.facts.address), self.heard_ms));
            self.rival = None;
        }
        (self.facts, self.heard_ms) = (facts, now_ms);
        Hearing::Recorded
    }
}

fn is_live(heard_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(heard_ms) <= LIFE_MS
}

/// Nodes that another node tells of, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldNodes {
    /// The nodes.
    pub nodes: Vec<NodeFacts>,
    /// The time of the node that tells, in milliseconds since 1970; `None` if the node does not
    /// tell it.
    pub now_ms: Option<i64>,
}

/// Returns the JSON text of nodes and of a time:
/// `{"nodes": [{"name", "address", "region", "clusters", "clockAheadMs"}], "nowMs"}`, with `region`
/// and `clusters` for the nodes that have told them.
pub fn facts_to_text(nodes: &[NodeFacts], now_ms: u64) -> String {
    let node = |facts: &NodeFacts| {
        let mut json = object! {
            "name" => facts.name.as_str(),
            "address" => facts.address.as_str(),
        };
        if facts.clock_ahead_ms != 0 {
            json.set("clockAheadMs", facts.clock_ahead_ms);
        }
        if let Some(region) = &facts.region {
            json.set("region", region.as_str());
        }
        if !facts.clusters.is_empty() {
            let names = facts.clusters.iter().map(|name| Json::from(name.as_str()));
            json.set("clusters", names.collect::<Vec<_>>());
        }
        Json::Object(json)
    };
    let nodes: Vec<Json> = nodes.iter().map(node).collect();
    Json::Object(object! { "nodes" => nodes, "nowMs" => now_ms }).to_text()
}

/// Reads the text of [`facts_to_text`]; `None` for a text of another form, or with a name or an
/// address that no node can have.
pub fn facts_from_text(text: &[u8]) -> Option<ToldNodes> {
    let json = parse(text).ok()?;
    let now_ms = json.get("nowMs").and_then(Json::as_i64);
    let nodes = json.get("nodes")?.as_array()?;
    if nodes.len() > NODES {
        return None;
    }
    let nodes = nodes.iter().map(facts_of).collect::<Option<_>>()?;
    Some(ToldNodes { nodes, now_ms })
}

fn facts_of(json: &Json) -> Option<NodeFacts> {
    let name = json.get("name")?.as_str().filter(|name| is_name(name))?;
    let address = json.get("address")?.as_str();
    let address = address.filter(|address| is_address(address))?;
    let region = match json.get("region") {
        Some(region) => Some(region.as_str().filter(|name| is_name(name))?.to_owned()),
        None => None,
    };
    let clusters = match json.get("clusters") {
        Some(clusters) => {
            let names = clusters
                .as_array()
                .filter(|names| names.len() <= CLUSTERS)?;
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<Vec<_>>>()?
        }
        None => Vec::new(),
    };
    Some(NodeFacts {
        name: name.to_owned(),
        region,
        address: address.to_owned(),
        clusters,
        clock_ahead_ms: json.get("clockAheadMs").and_then(Json::as_i64).unwrap_or(0),
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
            clusters: Vec::new(),
            clock_ahead_ms: 0,
        }
    }

    fn assert_recorded(hearing: Hearing) {
        assert_eq!(hearing, Hearing::Recorded);
    }

    #[test]
    fn a_node_lives_for_six_seconds_after_it_was_heard_of() {
        let roster = Roster::default();
        assert_recorded(roster.hear(node("b", None), 1_000));
        assert_recorded(roster.hear(node("a", Some("West US")), 2_000));
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
        assert_recorded(roster.hear(node("b", None), 7_500));
        assert_eq!(names(8_001), [("b".to_owned(), 501)]);
        roster.forget("b");
        assert_eq!(names(8_001), []);
    }

    #[test]
    fn a_node_that_comes_back_with_another_address_is_one_node() {
        let roster = Roster::default();
        assert_recorded(roster.hear(node("a", None), 0));
        let moved = NodeFacts {
            address: "http://10.0.0.9:1".to_owned(),
            ..node("a", Some("East Asia"))
        };
        assert_recorded(roster.hear(moved.clone(), 1));
        let live = roster.live(1);
        assert_eq!((live.len(), &live[0].facts), (1, &moved));
    }

    #[test]
    fn the_second_process_with_a_name_is_refused_while_the_first_lives() {
        let roster = Roster::default();
        let at = |port: u16| NodeFacts {
            address: format!("http://10.0.0.1:{port}"),
            ..node("a", None)
        };
        assert_recorded(roster.hear(at(1), 0));
        // This might be the same node, started again.
        assert_recorded(roster.hear(at(2), 1_000));
        assert_recorded(roster.hear(at(1), 2_000));
        assert_eq!(roster.live(2_000)[0].facts, at(1));
        let refused = Hearing::NameInUse(at(1));
        assert_eq!(roster.hear(at(2), 3_000), refused);
        assert_recorded(roster.hear(at(1), 4_000));
        assert_eq!(roster.hear(at(2), 5_000), refused);
        // The first node has ended.
        assert_recorded(roster.hear(at(2), 4_000 + LIFE_MS + 1));
        assert_eq!(roster.live(4_000 + LIFE_MS + 1)[0].facts, at(2));
    }

    #[test]
    fn a_roster_is_bounded() {
        let roster = Roster::default();
        for number in 0..NODES {
            assert_recorded(roster.hear(node(&number.to_string(), None), 0));
        }
        assert_eq!(roster.hear(node("more", None), 0), Hearing::TooMany);
        // A known node is heard.
        assert_recorded(roster.hear(node("0", None), 0));
        assert_recorded(roster.hear(node("more", None), LIFE_MS + 1));
        assert_eq!(roster.live(LIFE_MS + 1).len(), 1);
    }

    #[test]
    fn facts_are_read_as_they_were_written() {
        let with_clusters = NodeFacts {
            clusters: vec!["first".to_owned(), "second".to_owned()],
            clock_ahead_ms: -70_000,
            ..node("c", None)
        };
        assert!(with_clusters.lacks("third") && !with_clusters.lacks("second"));
        assert!(!node("d", None).lacks("third"), "it has not told");
        let nodes = [node("a", Some("West US")), node("b", None), with_clusters];
        let told = ToldNodes {
            nodes: nodes.to_vec(),
            now_ms: Some(7),
        };
        let text = facts_to_text(&nodes, 7);
        assert_eq!(facts_from_text(text.as_bytes()), Some(told));
        // The text of a version that tells no time.
        let told = facts_from_text(br#"{"nodes":[]}"#).expect("no nodes");
        assert_eq!((told.nodes, told.now_ms), (Vec::new(), None));
    }

    #[test]
    fn a_clock_is_wrong_if_it_differs_by_more_than_a_minute() {
        let of = |clock_ahead_ms| {
            let facts = NodeFacts {
                clock_ahead_ms,
                ..node("b", None)
            };
            facts.wrong_clock()
        };
        for right in [0, 60_000, -60_000] {
            assert_eq!(of(right), None);
        }
        let sentence = |difference| format!("the clock of the node 'b' is {difference}: set it");
        for (clock_ahead_ms, difference) in [
            (3_599_990, "60 minutes ahead of the leaseholder's"),
            (-61_000, "1 minute behind the leaseholder's"),
        ] {
            assert_eq!(of(clock_ahead_ms), Some(sentence(difference)));
        }
    }

    #[test]
    fn facts_that_would_break_an_address_are_refused() {
        let text = |name: &str, address: &str, region: &str| {
            let facts = NodeFacts {
                name: name.to_owned(),
                region: Some(region.to_owned()),
                address: address.to_owned(),
                clusters: Vec::new(),
                clock_ahead_ms: 0,
            };
            facts_to_text(&[facts], 0)
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
