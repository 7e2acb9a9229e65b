//! The nodes of a fleet and their regions, as this node knows them.
//!
//! Each node tells the leaseholder of itself every two seconds, and at once when the lease
//! changes hands: a *hello*. The leaseholder answers with all live nodes, so that each node knows
//! the others when it becomes the leaseholder. The leaseholder makes the addresses of the regions
//! from its list, for the account document.
//!
//! A hello is `POST /_nodes/hello` at the client port with the facts of the node as its body. The
//! nodes' key signs the body, and the answer with the signature of the hello. A hello that is sent
//! again by a third party keeps a node in the list that has ended; the list decides addresses only,
//! and no request is lost at an address that does not answer.
//!
//! A hello has the time of the node that says it. The leaseholder compares that with its own time,
//! and tells the difference with the facts of the node.
//!
//! A hello with the name of another live node is answered with 409 and the facts of that node, and
//! the node that said it ends.

use super::regions::{Location, locations};
use super::{Hearing, LiveNode, NodeFacts, Roster, ToldNodes, facts_from_text, facts_to_text};
use crate::forward::{NodesClient, not_leaseholder};
use crate::role::Seat;
use crate::signed::{self, empty};
use crate::{Leaseholder, NodeContext, NodesKey};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use orrery_gateway::{
    AccountRegion, AccountRegions, LogLevel, RepeatedFailures, RequestBody, Scheme, body,
};
use orrery_model::sync::{read, write};
use orrery_model::world::World;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::time::timeout;

/// The path of a hello.
pub(crate) const HELLO_PATH: &str = "/_nodes/hello";
/// The time between two hellos, and the time in which one is answered.
const PERIOD: Duration = Duration::from_secs(2);
/// The largest body of a hello or of its answer: a thousand nodes.
const BODY_BYTES: usize = 1 << 20;
/// Milliseconds for which addresses that were made from the list are used.
const CACHE_MS: u64 = 500;

/// The nodes that this node knows, itself among them.
pub struct Members {
    own: NodeFacts,
    roster: Roster,
    world: Arc<dyn World>,
    cache: RwLock<Cache>,
}

/// The regions for the clients of each node, without TLS and with it.
#[derive(Default)]
struct Cache {
    until_ms: u64,
    by_address: HashMap<String, [Option<AccountRegions>; 2]>,
}

impl Members {
    /// Creates the list of a node that has heard of no other.
    pub fn new(own: NodeFacts, world: Arc<dyn World>) -> Members {
        Members {
            own,
            roster: Roster::default(),
            world,
            cache: RwLock::default(),
        }
    }

    /// Returns the live nodes in the order of their names.
    pub(crate) fn live(&self) -> Vec<LiveNode> {
        let mut nodes = self.roster.live(self.world.monotonic_ms());
        let mut own = self.own.clone();
        nodes.retain(|node| {
            let is_own = node.facts.name == own.name;
            if is_own {
                // The leaseholder has compared the clocks.
                own.clock_ahead_ms = node.facts.clock_ahead_ms;
            }
            !is_own
        });
        nodes.push(LiveNode {
            facts: own,
            silent_ms: 0,
        });
        nodes.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        nodes
    }

    /// Returns the name of a live node without a cluster in its file.
    pub(crate) fn without_cluster(&self, cluster: &str) -> Option<String> {
        let live = self.live();
        let node = live.into_iter().find(|node| node.facts.lacks(cluster))?;
        Some(node.facts.name)
    }

    /// Returns a sentence about the clock of the live node with an address, if it differs too much
    /// from that of this node, which must be the leaseholder.
    pub(crate) fn wrong_clock(&self, address: &str) -> Option<String> {
        let mut live = self.live().into_iter();
        let node = live.find(|node| node.facts.address == address)?;
        node.facts.wrong_clock()
    }

    /// Returns a cluster that another live node has in its file, and this node has not, with the
    /// name of the node.
    fn missing_cluster(&self) -> Option<(String, String)> {
        for node in self.live() {
            let mut clusters = node.facts.clusters.into_iter();
            if let Some(cluster) = clusters.find(|cluster| self.own.lacks(cluster)) {
                return Some((cluster, node.facts.name));
            }
        }
        None
    }

    /// Removes a node that has ended.
    pub(crate) fn forget(&self, name: &str) {
        self.roster.forget(name);
        write(&self.cache).until_ms = 0;
    }

    /// Returns the regions for a request that came in through the node with the address `via`;
    /// `None` if all nodes are in one region. This node must be the leaseholder.
    pub(crate) fn regions(&self, via: &str, scheme: Scheme) -> Option<AccountRegions> {
        let now_ms = self.world.monotonic_ms();
        let place = usize::from(scheme == Scheme::Https);
        {
            let cache = read(&self.cache);
            if now_ms < cache.until_ms
                && let Some(found) = cache.by_address.get(via)
            {
                return found[place].clone();
            }
        }
        let live: Vec<NodeFacts> = self.live().into_iter().map(|node| node.facts).collect();
        let of_scheme = |scheme: Scheme| {
            let found = locations(&self.own, &live, via, scheme.name())?;
            Some(AccountRegions(found.read.into_iter().map(region).collect()))
        };
        let made = [of_scheme(Scheme::Http), of_scheme(Scheme::Https)];
        let mut cache = write(&self.cache);
        if now_ms >= cache.until_ms {
            cache.by_address.clear();
            cache.until_ms = now_ms + CACHE_MS;
        }
        cache.by_address.insert(via.to_owned(), made.clone());
        made[place].clone()
    }

    /// Answers a request at [`HELLO_PATH`]. `key` is there if this node is the leaseholder.
    pub(crate) async fn answer(
        &self,
        request: Request<RequestBody>,
        key: Option<&NodesKey>,
    ) -> Response<Bytes> {
        let Some(key) = key else {
            body::discard(request.into_body()).await;
            return not_leaseholder();
        };
        let read = signed::read_message(request, (key, "hello"), BODY_BYTES).await;
        let (body, signature) = match read {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let Some(told) = facts_from_text(&body) else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let (status, known) = self.take_hello(told);
        let text = facts_to_text(&known, self.world.now_ms());
        signed::answer(key, &signature, status, text)
    }

    /// Takes in what a hello tells. Returns the status of the answer, and the nodes in it.
    pub(crate) fn take_hello(&self, told: ToldNodes) -> (StatusCode, Vec<NodeFacts>) {
        let now_ms = self.world.monotonic_ms();
        let mut namesakes = Vec::new();
        let ahead_ms = told.now_ms.map_or(0, |told_ms| {
            told_ms.saturating_sub_unsigned(self.world.now_ms())
        });
        for mut facts in told.nodes {
            facts.clock_ahead_ms = ahead_ms;
            if facts.name == self.own.name {
                namesakes.push(self.own.clone());
            } else if let Hearing::NameInUse(namesake) = self.roster.hear(facts, now_ms) {
                namesakes.push(namesake);
            }
        }
        match namesakes.is_empty() {
            true => {
                let live = self.live().into_iter().map(|node| node.facts);
                (StatusCode::OK, live.collect())
            }
            false => (StatusCode::CONFLICT, namesakes),
        }
    }

    /// Tells a leaseholder of this node, and keeps the nodes of its answer. Returns the address of
    /// another node that uses the name of this node.
    async fn tell(&self, leaseholder: &Leaseholder, client: &NodesClient) -> Option<String> {
        let key = leaseholder.key.as_ref()?;
        let text = facts_to_text(std::slice::from_ref(&self.own), self.world.now_ms());
        let uri = format!("{}{HELLO_PATH}", leaseholder.node.address);
        let (request, signature) = signed::post(key, "hello", uri, &text);
        let request = request.body(Full::new(Bytes::from(text))).ok()?;
        let answer = async {
            let response = client.request(request).await.ok()?;
            signed::read_answer(key, &signature, response, BODY_BYTES).await
        };
        let (status, body) = timeout(PERIOD, answer).await.ok()??;
        let told = facts_from_text(&body)?.nodes;
        if status == StatusCode::CONFLICT {
            return told.into_iter().next().map(|facts| facts.address);
        }
        let now_ms = self.world.monotonic_ms();
        for facts in told {
            self.roster.hear(facts, now_ms);
        }
        None
    }
}

/// Tells each leaseholder of this node, until the task is aborted. Warns of a cluster that this
/// node does not know.
pub(crate) async fn say_hello(seat: Arc<Seat>, client: NodesClient, context: NodeContext) {
    let mut leaseholder = seat.leaseholder.subscribe();
    let warnings = RepeatedFailures::default();
    loop {
        let known = leaseholder.borrow_and_update().clone();
        if let Some(known) = known
            && known.node != seat.node
            && let Some(address) = seat.members.tell(&known, &client).await
        {
            seat.namesake.send_replace(Some(address));
        }
        if let Some((cluster, node)) = seat.members.missing_cluster() {
            let message = format!(
                "the cluster file of the node '{node}' has the cluster '{cluster}', which that of \
                 this node has not: start this node again with the present file"
            );
            if warnings.is_news(&message, context.world.monotonic_ms()) {
                context.log(LogLevel::Warn, &message);
            }
        }
        // A change comes early, and the end of the period is the rule.
        let _ = timeout(PERIOD, leaseholder.changed()).await;
    }
}

fn region(location: Location) -> AccountRegion {
    AccountRegion {
        name: location.region,
        endpoint: location.endpoint,
    }
}
