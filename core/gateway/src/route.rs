//! Paths: the resource that a request addresses, and the link that the signature of the request
//! covers.
//!
//! The protocol has a fixed set of paths, so the paths are a table, [`ROUTES`]. A segment is
//! percent-decoded once. Words such as `dbs` are compared with regard to case. Slashes before and
//! after the path are ignored, because clients send paths with a doubled leading slash and with a
//! trailing one.
//!
//! The methods of a path are not in this table. `operations.rs` derives them from its rows, so a
//! path cannot name a method that no operation has.

use orrery_engine::request::{AccessResourceKind, ScriptKind};
use orrery_model::words::shortened;
use orrery_model::{Error, Kind, Result, Rid};

/// The resource, or the feed of resources, that a path addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Account,
    Databases,
    Database,
    Containers,
    Container,
    /// The partition key ranges of a container.
    Ranges,
    Items,
    Item,
    /// All items of one partition key; a POST deletes these items.
    LogicalPartition,
    /// All items of a container; the service deletes these items on a POST or PUT.
    Truncation,
    Scripts(ScriptKind),
    Script(ScriptKind),
    Conflicts,
    Conflict,
    Offers,
    Offer,
    /// The addresses of replicas, which clients of the direct connection mode ask for.
    Addresses,
    /// A feed of users, permissions or client encryption keys.
    AccessResources(AccessResourceKind),
    /// A user, a permission or a client encryption key.
    AccessResource(AccessResourceKind),
}

/// One path of the protocol: a row of [`ROUTES`].
pub(crate) struct Route {
    /// Segments; `*` matches one id.
    pub(crate) pattern: &'static [&'static str],
    pub(crate) target: Target,
    /// The resource type in the string to sign; empty for the account.
    pub(crate) signed_as: &'static str,
    /// The number of leading segments that form the link in the string to sign.
    pub(crate) link_segments: usize,
}

const fn route(
    pattern: &'static [&'static str],
    target: Target,
    signed_as: &'static str,
    link_segments: usize,
) -> Route {
    Route {
        pattern,
        target,
        signed_as,
        link_segments,
    }
}

/// Every path of the protocol, the most frequent first.
///
/// The code that reads the table relies on these properties, and the tests of this file check them:
///
/// * A segment of a pattern is a literal word or `*`. `*` matches exactly one segment, which must
///   not be empty. No pattern matches a variable number of segments.
/// * Words and ids alternate, so the id with index `n` is segment `2 * n + 1` ([`Path::id`]). The
///   one exception is the second word after `operations`.
/// * No two patterns match the same path. The order of the rows therefore affects speed only.
/// * No two rows have the same target, so a target determines the resource type of its requests
///   ([`resource_type`]).
/// * A link has no more segments than its pattern.
///
/// The table is constant; no request changes it.
#[rustfmt::skip] // one row on one line
pub(crate) static ROUTES: &[Route] = {
    use AccessResourceKind::{EncryptionKey, Permission, User};
    use ScriptKind::{Function, Procedure, Trigger};
    use Target::*;
    &[
        route(&["dbs", "*", "colls", "*", "docs", "*"], Item, "docs", 6),
        route(&["dbs", "*", "colls", "*", "docs"], Items, "docs", 4),
        route(&["dbs", "*", "colls", "*", "pkranges"], Ranges, "pkranges", 4),
        route(&["dbs", "*", "colls", "*"], Container, "colls", 4),
        route(&["dbs", "*", "colls"], Containers, "colls", 2),
        route(&["dbs", "*"], Database, "dbs", 2),
        route(&["dbs"], Databases, "dbs", 0),
        route(&[], Account, "", 0),
        route(&["offers"], Offers, "offers", 0),
        route(&["offers", "*"], Offer, "offers", 2),
        route(&["dbs", "*", "colls", "*", "sprocs"], Scripts(Procedure), "sprocs", 4),
        route(&["dbs", "*", "colls", "*", "sprocs", "*"], Script(Procedure), "sprocs", 6),
        route(&["dbs", "*", "colls", "*", "triggers"], Scripts(Trigger), "triggers", 4),
        route(&["dbs", "*", "colls", "*", "triggers", "*"], Script(Trigger), "triggers", 6),
        route(&["dbs", "*", "colls", "*", "udfs"], Scripts(Function), "udfs", 4),
        route(&["dbs", "*", "colls", "*", "udfs", "*"], Script(Function), "udfs", 6),
        route(&["dbs", "*", "colls", "*", "conflicts"], Conflicts, "conflicts", 4),
        route(&["dbs", "*", "colls", "*", "conflicts", "*"], Conflict, "conflicts", 6),
        route(
            &["dbs", "*", "colls", "*", "operations", "partitionkeydelete"],
            LogicalPartition, "colls", 4,
        ),
        route(
            &["dbs", "*", "colls", "*", "operations", "collectiontruncate"],
            Truncation, "colls", 4,
        ),
        route(&["dbs", "*", "users"], AccessResources(User), "users", 2),
        route(&["dbs", "*", "users", "*"], AccessResource(User), "users", 4),
        route(
            &["dbs", "*", "users", "*", "permissions"],
            AccessResources(Permission), "permissions", 4,
        ),
        route(
            &["dbs", "*", "users", "*", "permissions", "*"],
            AccessResource(Permission), "permissions", 6,
        ),
        route(
            &["dbs", "*", "clientencryptionkeys"],
            AccessResources(EncryptionKey), "clientencryptionkeys", 2,
        ),
        route(
            &["dbs", "*", "clientencryptionkeys", "*"],
            AccessResource(EncryptionKey), "clientencryptionkeys", 4,
        ),
        route(&["addresses"], Addresses, "docs", 0),
    ]
};

/// Returns the resource type of `target`, as in signatures; `account` for the account, whose type
/// in signatures is the empty text.
pub(crate) fn resource_type(target: Target) -> &'static str {
    let route = ROUTES.iter().find(|route| route.target == target);
    match route.map(|route| route.signed_as) {
        None | Some("") => "account",
        Some(signed_as) => signed_as,
    }
}

/// A path of a request or a link, split into its segments.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// The path as sent, without slashes at either end.
    raw: String,
    /// The decoded segments.
    segments: Vec<String>,
}

impl Path {
    /// Parses the path of a request.
    ///
    /// # Errors
    /// 400 for an escape that is malformed or does not decode to UTF-8.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let raw = path.trim_matches('/');
        let segments = if raw.is_empty() {
            Vec::new()
        } else {
            raw.split('/').map(decode).collect::<Result<Vec<_>>>()?
        };
        Ok(Path {
            raw: raw.to_owned(),
            segments,
        })
    }

    /// Parses the link of a resource, as a body or a parameter names it: a path that is not
    /// percent-encoded. No resource lies below an item, so slashes after `docs/` belong to the id.
    pub(crate) fn from_link(link: &str) -> Self {
        let raw = link.trim_matches('/').to_owned();
        let mut segments: Vec<String> = Vec::new();
        if !raw.is_empty() {
            segments = raw.split('/').map(str::to_owned).collect();
        }
        let mut path = Path { raw, segments };
        if path.is_in_container() && path.has_word(4, "docs") && path.segments.len() > 6 {
            let id = path.segments.split_off(5).join("/");
            path.segments.push(id);
        }
        path
    }

    /// Returns the path in the parameter `$resolveFor` of a request for addresses, if `query` has
    /// one. The signature of such a request covers that path and not the path of the request.
    pub(crate) fn from_resolve_for(query: Option<&str>) -> Option<Self> {
        let link = query_parameter(query?, "$resolveFor")?;
        Some(Path::from_link(&link))
    }

    /// Returns this path with a query string as the rest of its last id, `None` if the two make no
    /// path with as many segments.
    pub(crate) fn with_query(&self, query: &str) -> Option<Self> {
        let whole = Path::parse(&format!("{}?{query}", self.raw)).ok()?;
        (whole.segments.len() == self.segments.len()).then_some(whole)
    }

    /// Returns the route of this path.
    ///
    /// # Errors
    /// 404 if the protocol has no such path; 400 for a path below an offer, which clients make from
    /// a link in place of an id.
    pub(crate) fn route(&self) -> Result<&'static Route> {
        let found = ROUTES.iter().find(|route| self.matches(route.pattern));
        found.ok_or_else(|| {
            let raw = &self.raw;
            if self.has_word(0, "offers") {
                return Error::bad(format!(
                    "The path '/{raw}' is invalid: the path of an offer is '/offers/' and its id."
                ));
            }
            let shown = shortened(raw);
            let message = format!("The path '/{shown}' names no resource. Resource Not Found.");
            Error::new(Kind::NotFound, message).with_help(self.path_help())
        })
    }

    /// Returns which paths there are, and the word that a wrong one was probably meant to be.
    fn path_help(&self) -> String {
        const WORDS: [(&str, &[&str]); 4] = [
            ("dbs", &["db", "databases", "database"]),
            (
                "colls",
                &[
                    "coll",
                    "containers",
                    "container",
                    "collections",
                    "collection",
                ],
            ),
            ("docs", &["doc", "items", "item", "documents", "document"]),
            ("sprocs", &["sproc", "storedprocedures", "procedures"]),
        ];
        for segment in self.segments.iter().step_by(2) {
            let lower = segment.to_lowercase();
            let meant = WORDS.iter().find(|(word, other)| {
                other.contains(&lower.as_str()) || lower == *word && segment != word
            });
            if let Some((word, _)) = meant {
                return format!("Write '{word}' and not '{}'.", shortened(segment));
            }
        }
        "Paths of the protocol are /dbs/{database}/colls/{container}/docs/{item} and the like: the \
         endpoint of a client is the address alone, such as https://localhost:8081/, without a \
         path."
            .to_owned()
    }

    fn matches(&self, pattern: &[&str]) -> bool {
        let fits = |(wanted, segment): (&&str, &String)| match *wanted {
            "*" => !segment.is_empty(),
            word => word == segment,
        };
        pattern.len() == self.segments.len() && pattern.iter().zip(&self.segments).all(fits)
    }

    /// Returns the id with index `n`, counted from 0; the empty text if the path is shorter.
    pub(crate) fn id(&self, n: usize) -> &str {
        self.segments.get(2 * n + 1).map_or("", String::as_str)
    }

    /// Returns true if the path starts with a database.
    pub(crate) fn is_in_database(&self) -> bool {
        self.has_word(0, "dbs")
    }

    /// Returns true if the path starts with a container of a database.
    pub(crate) fn is_in_container(&self) -> bool {
        self.has_word(0, "dbs") && self.has_word(2, "colls")
    }

    fn has_word(&self, segment: usize, word: &str) -> bool {
        self.segments
            .get(segment)
            .is_some_and(|found| found == word)
    }

    /// Returns the first id as the resource id of a database, if the id has that form. All ids of
    /// such a path are resource ids, unless no database has this resource id.
    pub(crate) fn database_rid(&self) -> Option<Rid> {
        let id = self.id(0);
        if !self.is_in_database() || id.len() != 8 {
            return None;
        }
        Rid::parse(id).filter(Rid::is_database)
    }

    /// Returns the links that a client may have signed for `route`, the most likely first.
    ///
    /// Clients decide between names and resource ids as the server does, but old clients sign the
    /// path before it is percent-decoded.
    pub(crate) fn signed_links(&self, route: &Route) -> Vec<String> {
        // An offer is signed by its resource id alone.
        if route.target == Target::Offer {
            return vec![self.id(0).to_lowercase()];
        }
        let segments = &self.segments[..route.link_segments.min(self.segments.len())];
        let mut links = Vec::with_capacity(2);
        // A path by resource ids signs the last resource id, in lower case.
        if self.database_rid().is_some()
            && let Some(last) = segments.last()
        {
            links.push(last.to_lowercase());
        }
        // A path by names signs the whole link, decoded or, by old clients, as sent.
        let decoded = segments.join("/");
        let parts = self.raw.splitn(self.segments.len().max(1), '/');
        let raw_segments: Vec<&str> = parts.take(segments.len()).collect();
        let raw = raw_segments.join("/");
        let is_encoded = raw != decoded;
        links.push(decoded);
        if is_encoded {
            links.push(raw);
        }
        links
    }
}

/// Returns the decoded value of a parameter in a query string; `None` if there is none, or its
/// escapes are invalid.
pub(crate) fn query_parameter(query: &str, wanted: &str) -> Option<String> {
    for parameter in query.split('&') {
        let Some((name, value)) = parameter.split_once('=') else {
            continue;
        };
        if decode(name).is_ok_and(|name| name == wanted) {
            return decode(value).ok();
        }
    }
    None
}

/// Percent-decodes a segment. `+` stays `+`.
fn decode(segment: &str) -> Result<String> {
    let invalid = || {
        Error::bad(format!(
            "The path segment '{segment}' is not valid percent-encoded UTF-8."
        ))
    };
    if !segment.contains('%') {
        return Ok(segment.to_owned());
    }
    // The decoder below lets malformed escapes through, so each escape is checked here.
    let mut rest = segment.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).ok_or_else(invalid)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(invalid());
        }
        rest = &rest[at + 3..];
    }
    let decoded = percent_encoding::percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| invalid())?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_patterns_match_the_same_path_and_no_two_routes_have_the_same_target() {
        // Two patterns match a common path if each pair of segments is equal or has a `*`.
        let overlap = |a: &Route, b: &Route| {
            let fits = |(a, b): (&&str, &&str)| *a == "*" || *b == "*" || a == b;
            a.pattern.len() == b.pattern.len() && a.pattern.iter().zip(b.pattern).all(fits)
        };
        for (n, route) in ROUTES.iter().enumerate() {
            for other in &ROUTES[..n] {
                assert!(!overlap(route, other), "{:?}", route.pattern);
                assert_ne!(route.target, other.target);
            }
        }
    }

    #[test]
    fn words_and_ids_alternate_and_a_link_is_a_part_of_its_path() {
        for route in ROUTES {
            for (n, segment) in route.pattern.iter().enumerate() {
                let is_command = n > 0 && route.pattern[n - 1] == "operations";
                assert_eq!(*segment == "*", n % 2 == 1 && !is_command, "{segment}");
            }
            assert!(route.link_segments <= route.pattern.len());
        }
    }

    fn target(path: &str) -> Option<Target> {
        Path::parse(path)
            .expect("a path")
            .route()
            .ok()
            .map(|r| r.target)
    }

    fn links(path: &str) -> Vec<String> {
        let path = Path::parse(path).expect("a path");
        path.signed_links(path.route().expect("a route"))
    }

    #[test]
    fn slashes_before_and_after_do_not_matter() {
        for path in [
            "/dbs/d/colls/c/docs",
            "//dbs/d/colls/c/docs/",
            "/dbs/d/colls/c/docs//",
        ] {
            assert_eq!(target(path), Some(Target::Items), "{path}");
        }
        assert_eq!(target("/"), Some(Target::Account));
        assert_eq!(target("//addresses/"), Some(Target::Addresses));
    }

    #[test]
    fn words_are_case_sensitive_and_unknown_paths_are_not_found() {
        for path in [
            "/DBS/d",
            "/dbs/d/Colls/c",
            "/nowhere",
            "/dbs/d/colls/c/docs/i/attachments",
            "/dbs//colls",
        ] {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn a_segment_is_decoded_once_and_plus_stays_plus() {
        let path = Path::parse("/dbs/d/colls/c/docs/a%20b%2Fc+d%2525").expect("a path");
        assert_eq!(path.id(2), "a b/c+d%25");
    }

    #[test]
    fn a_slash_in_the_id_of_an_item_is_encoded_in_a_path_and_plain_in_a_link() {
        let path = Path::parse("/dbs/d/colls/c/docs/a%2Fattachments%2Fb").expect("a path");
        let link = Path::from_link("dbs/d/colls/c/docs/a/attachments/b/");
        assert_eq!(
            (path.id(2), link.id(2)),
            ("a/attachments/b", "a/attachments/b")
        );
        for path in [&path, &link] {
            let route = path.route().expect("a route");
            assert_eq!(route.target, Target::Item);
            assert_eq!(
                path.signed_links(route)[0],
                "dbs/d/colls/c/docs/a/attachments/b"
            );
            // No signature of an item covers another item.
            for signed in path.signed_links(route) {
                assert_ne!(signed, "dbs/d/colls/c/docs/a");
            }
        }
        // A path or link of another kind gains no segments by a slash, encoded or not.
        assert_eq!(target("/dbs/d/colls/c/docs/a/b"), None);
        assert_eq!(target("/dbs/d%2Fcolls%2Fc"), Some(Target::Database));
        assert!(Path::from_link("dbs/d/colls/c/sprocs/a/b").route().is_err());
        assert!(Path::from_link("dbs/d/users/c/docs/a/b").route().is_err());
    }

    #[test]
    fn broken_escapes_are_refused() {
        for path in ["/dbs/%", "/dbs/%4", "/dbs/%zz", "/dbs/%FF", "/dbs/a%4"] {
            assert_eq!(Path::parse(path).expect_err(path).status(), 400);
        }
    }

    #[test]
    fn a_feed_signs_its_parent_and_a_resource_itself() {
        assert_eq!(links("/dbs"), [""]);
        assert_eq!(links("/dbs/blog/colls"), ["dbs/blog"]);
        assert_eq!(
            links("/dbs/blog/colls/posts/docs/"),
            ["dbs/blog/colls/posts"]
        );
        assert_eq!(
            links("/dbs/blog/colls/posts/docs/p%201")[0],
            "dbs/blog/colls/posts/docs/p 1"
        );
        assert_eq!(
            links("/dbs/blog/colls/posts/docs/p%201")[1],
            "dbs/blog/colls/posts/docs/p%201"
        );
        assert_eq!(
            links("/dbs/b/colls/p/operations/partitionkeydelete"),
            ["dbs/b/colls/p"]
        );
    }

    #[test]
    fn a_request_for_addresses_signs_the_resource_that_it_asks_about() {
        let signed = |query: &str| {
            let path = Path::from_resolve_for(Some(query))?;
            let route = path.route().ok()?;
            Some((route.signed_as, path.signed_links(route).swap_remove(0)))
        };
        let of_ranges = "$resolveFor=dbs%2fXP0mAA%3d%3d%2fcolls%2fXP0mAJ3H-AA%3d%2fdocs\
                         &$filter=protocol%20eq%20rntbd";
        assert_eq!(signed(of_ranges), Some(("docs", "xp0maj3h-aa=".into())));
        let of_master = "%24filter=protocol%20eq%20rntbd&%24resolveFor=%2Fdbs%2F";
        assert_eq!(signed(of_master), Some(("dbs", String::new())));
        assert_eq!(signed("$filter=protocol"), None);
        assert!(Path::from_resolve_for(None).is_none());
    }

    #[test]
    fn a_query_string_continues_the_last_id() {
        let path = Path::parse("/dbs/d/colls/c/docs/why/").expect("a path");
        let whole = path.with_query("not%20so").expect("a path");
        assert_eq!((path.id(2), whole.id(2)), ("why", "why?not so"));
        let route = whole.route().expect("a route");
        assert_eq!(
            whole.signed_links(route),
            [
                "dbs/d/colls/c/docs/why?not so",
                "dbs/d/colls/c/docs/why?not%20so"
            ]
        );
        assert_eq!(path.with_query("").expect("a path").id(2), "why?");
        for none in ["a/b", "%", "%FF"] {
            assert!(path.with_query(none).is_none(), "{none}");
        }
    }

    #[test]
    fn a_path_below_an_offer_is_invalid_and_not_missing() {
        for path in ["/offers/offers/8vLL/", "/offers/8vLL/x"] {
            let path = Path::parse(path).expect("a path");
            assert_eq!(
                path.route().map(|_| ()).expect_err("no route").status(),
                400
            );
        }
    }

    #[test]
    fn a_path_by_resource_id_signs_only_the_last_id_in_lower_case() {
        assert_eq!(
            links("/dbs/XP0mAA==/colls/XP0mAJ3H-AA=/pkranges")[0],
            "xp0maj3h-aa="
        );
        assert_eq!(
            links("/dbs/XP0mAA%3D%3D/colls/XP0mAJ3H-AA%3D/")[0],
            "xp0maj3h-aa="
        );
        assert_eq!(links("/offers/8vLL"), ["8vll"]);
    }
}
