//! The addresses of the account's regions, made from the live nodes.
//!
//! The region of the leaseholder takes the writes. Every region with a live node takes reads, and
//! its address is that of one of its nodes. A request may have come in through a node other than
//! the leaseholder: clients near that node are best served by that node, so it is preferred in its
//! region.

use super::NodeFacts;

/// A region and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The name of the region.
    pub region: String,
    /// The address for clients, such as `https://10.0.0.1:8081/`.
    pub endpoint: String,
}

/// The regions of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// The region that takes the writes.
    pub write: Location,
    /// The regions that take reads: that of the writes, then the others in the order of their
    /// names.
    pub read: Vec<Location>,
}

/// Returns the regions of an account for a client that used `scheme` (`http` or `https`), and whose
/// request came in through the node with the address `via`. Returns `None` if all nodes are in one
/// region, or the leaseholder is in none: the address that the client used is then the best one.
pub fn locations(
    leaseholder: &NodeFacts,
    live: &[NodeFacts],
    via: &str,
    scheme: &str,
) -> Option<Locations> {
    let write_region = leaseholder.region.as_deref()?;
    let mut others: Vec<&str> = Vec::new();
    for region in live.iter().filter_map(|node| node.region.as_deref()) {
        if !is_same(region, write_region) && !others.iter().any(|known| is_same(known, region)) {
            others.push(region);
        }
    }
    if others.is_empty() {
        return None;
    }
    others.sort_unstable();

    let location = |region: &str, default: Option<&NodeFacts>| {
        let mut of_region = live.iter().filter(|node| {
            let own = node.region.as_deref();
            own.is_some_and(|own| is_same(own, region))
        });
        let node = of_region.clone().find(|node| node.address == via);
        let node = node.or(default).or_else(|| of_region.next())?;
        Some(Location {
            region: region.to_owned(),
            endpoint: endpoint(node, scheme),
        })
    };
    let write = location(write_region, Some(leaseholder))?;
    let mut read = vec![write.clone()];
    read.extend(others.iter().filter_map(|region| location(region, None)));
    Some(Locations { write, read })
}

/// Returns the address of a node for clients. Each client port speaks both schemes.
fn endpoint(node: &NodeFacts, scheme: &str) -> String {
    let host = node.address.trim_start_matches("http://");
    format!("{scheme}://{host}/")
}

/// Returns true for names that clients take for the same region: they leave out blanks and case.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.replace(' ', "").to_lowercase();
    letters(one) == letters(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, region: &str) -> NodeFacts {
        NodeFacts {
            name: name.to_owned(),
            region: (!region.is_empty()).then(|| region.to_owned()),
            address: format!("http://{name}:1"),
            clusters: Vec::new(),
            clock_ahead_ms: 0,
        }
    }

    fn texts(found: Option<Locations>) -> Vec<String> {
        let Some(found) = found else {
            return Vec::new();
        };
        assert_eq!(found.read[0], found.write);
        let text = |location: &Location| format!("{} {}", location.region, location.endpoint);
        found.read.iter().map(text).collect()
    }

    #[test]
    fn each_region_has_the_address_of_one_of_its_live_nodes() {
        let live = [
            node("a", "West US"),
            node("b", "East Asia"),
            node("c", "westus"),
            node("d", "North Europe"),
            node("e", "North Europe"),
            node("f", ""),
        ];
        let (west, europe) = ("West US http://a:1/", "North Europe http://d:1/");
        let asia = "East Asia http://b:1/";
        let leaseholder = &live[0];
        let table: &[(&str, [&str; 3])] = &[
            ("a", [west, asia, europe]),
            ("b", [west, asia, europe]),
            // The node through which the client came is the one of its region.
            ("c", ["West US http://c:1/", asia, europe]),
            ("e", [west, asia, "North Europe http://e:1/"]),
            ("f", [west, asia, europe]),
            ("unknown", [west, asia, europe]),
        ];
        for (via, expected) in table {
            let via = format!("http://{via}:1");
            assert_eq!(texts(locations(leaseholder, &live, &via, "http")), expected);
        }
        let secure = locations(leaseholder, &live, "http://a:1", "https").expect("regions");
        assert_eq!(secure.write.endpoint, "https://a:1/");
    }

    #[test]
    fn the_regions_follow_the_leaseholder() {
        let live = [node("a", "West US"), node("b", "East Asia")];
        assert_eq!(
            texts(locations(&live[1], &live, "http://a:1", "http")),
            ["East Asia http://b:1/", "West US http://a:1/"]
        );
        // A leaseholder that is not in the list of live nodes yet is live all the same.
        assert_eq!(
            texts(locations(&live[1], &live[..1], "http://a:1", "http")),
            ["East Asia http://b:1/", "West US http://a:1/"]
        );
    }

    #[test]
    fn one_region_or_none_needs_no_addresses() {
        for (leaseholder, live) in [
            (node("a", "West US"), vec![node("a", "West US")]),
            (
                node("a", "West US"),
                vec![node("a", "West US"), node("b", "WEST US"), node("c", "")],
            ),
            (node("a", ""), vec![node("a", ""), node("b", "West US")]),
            (node("a", ""), Vec::new()),
        ] {
            assert_eq!(locations(&leaseholder, &live, "http://a:1", "http"), None);
        }
    }
}
