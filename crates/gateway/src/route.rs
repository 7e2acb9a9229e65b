//! Paths: which resource a request addresses, and the link that its signature covers.
//!
//! The service's paths are fixed, so they are a table. Segments are decoded exactly once; words such as `dbs` are
//! compared case-sensitively; a trailing slash and a doubled leading one are let through, as clients send both.

use orrery_engine::request::{AccessResourceKind, ScriptKind};
use orrery_model::{Error, Kind, Result, Rid};

/// What a path addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Account,
    Databases,
    Database,
    Containers,
    Container,
    Ranges,
    Items,
    Item,
    /// All items of one partition key, to be deleted.
    LogicalPartition,
    Scripts(ScriptKind),
    Script(ScriptKind),
    Conflicts,
    Conflict,
    Offers,
    Offer,
    /// Where the direct connection mode finds replicas.
    Addresses,
    /// Users, permissions or client encryption keys.
    Plains(AccessResourceKind),
    Plain(AccessResourceKind),
    /// A resource of the protocol that we do not offer, by its name.
    Refused(&'static str),
}

/// One path of the protocol.
pub(crate) struct Route {
    /// Segments; `*` stands for an id.
    pattern: &'static [&'static str],
    pub(crate) target: Target,
    /// The resource type in the string to sign.
    pub(crate) signed_as: &'static str,
    /// How many leading segments make the link in the string to sign.
    link_segments: usize,
    /// The methods that exist here, with HEAD standing for itself.
    pub(crate) methods: &'static [&'static str],
}

impl Route {
    /// The type of the resource, for people.
    pub(crate) fn resource(&self) -> &'static str {
        if self.signed_as.is_empty() {
            "account"
        } else {
            self.signed_as
        }
    }
}

const FEED: &[&str] = &["GET", "HEAD", "POST"];
const READ_FEED: &[&str] = &["GET", "HEAD"];
const RESOURCE: &[&str] = &["GET", "HEAD", "PUT", "DELETE"];
const POST: &[&str] = &["POST"];

const fn route(
    pattern: &'static [&'static str],
    target: Target,
    signed_as: &'static str,
    link_segments: usize,
    methods: &'static [&'static str],
) -> Route {
    Route {
        pattern,
        target,
        signed_as,
        link_segments,
        methods,
    }
}

/// Every path of the protocol, the most frequent first.
static ROUTES: &[Route] = {
    use AccessResourceKind::{EncryptionKey, Permission, User};
    use ScriptKind::{Function, Procedure, Trigger};
    use Target::*;
    &[
        route(
            &["dbs", "*", "colls", "*", "docs", "*"],
            Item,
            "docs",
            6,
            &["GET", "HEAD", "PUT", "PATCH", "DELETE"],
        ),
        route(&["dbs", "*", "colls", "*", "docs"], Items, "docs", 4, FEED),
        route(
            &["dbs", "*", "colls", "*", "pkranges"],
            Ranges,
            "pkranges",
            4,
            READ_FEED,
        ),
        route(&["dbs", "*", "colls", "*"], Container, "colls", 4, RESOURCE),
        route(&["dbs", "*", "colls"], Containers, "colls", 2, FEED),
        route(
            &["dbs", "*"],
            Database,
            "dbs",
            2,
            &["GET", "HEAD", "DELETE"],
        ),
        route(&["dbs"], Databases, "dbs", 0, FEED),
        route(&[], Account, "", 0, READ_FEED),
        route(&["offers"], Offers, "offers", 0, FEED),
        route(
            &["offers", "*"],
            Offer,
            "offers",
            2,
            &["GET", "HEAD", "PUT"],
        ),
        route(
            &["dbs", "*", "colls", "*", "sprocs"],
            Scripts(Procedure),
            "sprocs",
            4,
            FEED,
        ),
        route(
            &["dbs", "*", "colls", "*", "sprocs", "*"],
            Script(Procedure),
            "sprocs",
            6,
            &["GET", "HEAD", "PUT", "DELETE", "POST"],
        ),
        route(
            &["dbs", "*", "colls", "*", "triggers"],
            Scripts(Trigger),
            "triggers",
            4,
            FEED,
        ),
        route(
            &["dbs", "*", "colls", "*", "triggers", "*"],
            Script(Trigger),
            "triggers",
            6,
            RESOURCE,
        ),
        route(
            &["dbs", "*", "colls", "*", "udfs"],
            Scripts(Function),
            "udfs",
            4,
            FEED,
        ),
        route(
            &["dbs", "*", "colls", "*", "udfs", "*"],
            Script(Function),
            "udfs",
            6,
            RESOURCE,
        ),
        route(
            &["dbs", "*", "colls", "*", "conflicts"],
            Conflicts,
            "conflicts",
            4,
            FEED,
        ),
        route(
            &["dbs", "*", "colls", "*", "conflicts", "*"],
            Conflict,
            "conflicts",
            6,
            &["GET", "HEAD", "DELETE"],
        ),
        route(
            &["dbs", "*", "colls", "*", "operations", "partitionkeydelete"],
            LogicalPartition,
            "colls",
            4,
            POST,
        ),
        route(
            &["dbs", "*", "colls", "*", "operations", "collectiontruncate"],
            Refused("Emptying a container (collectiontruncate)"),
            "colls",
            4,
            &["POST", "PUT"],
        ),
        route(&["dbs", "*", "users"], Plains(User), "users", 2, FEED),
        route(
            &["dbs", "*", "users", "*"],
            Plain(User),
            "users",
            4,
            RESOURCE,
        ),
        route(
            &["dbs", "*", "users", "*", "permissions"],
            Plains(Permission),
            "permissions",
            4,
            FEED,
        ),
        route(
            &["dbs", "*", "users", "*", "permissions", "*"],
            Plain(Permission),
            "permissions",
            6,
            RESOURCE,
        ),
        route(
            &["dbs", "*", "clientencryptionkeys"],
            Plains(EncryptionKey),
            "clientencryptionkeys",
            2,
            FEED,
        ),
        // A key that is gone would leave items that nobody can read, so there is no DELETE.
        route(
            &["dbs", "*", "clientencryptionkeys", "*"],
            Plain(EncryptionKey),
            "clientencryptionkeys",
            4,
            &["GET", "HEAD", "PUT"],
        ),
        route(&["addresses"], Addresses, "docs", 0, READ_FEED),
    ]
};

/// A path of the protocol, as documents and tests look at it.
#[derive(Clone, Copy, Debug)]
pub struct KnownRoute {
    /// Segments; `*` stands for an id.
    pub pattern: &'static [&'static str],
    /// The methods that exist here.
    pub methods: &'static [&'static str],
    /// The resource type in the string to sign.
    pub signed_as: &'static str,
    /// How many leading segments make the link in the string to sign, if the path is by name.
    pub link_segments: usize,
}

impl KnownRoute {
    /// Whether the path is of a feed rather than of one resource.
    pub fn is_feed(&self) -> bool {
        self.pattern.last().is_some_and(|last| *last != "*")
    }
}

/// Every path that the server knows, the most frequent first.
pub fn known_routes() -> impl Iterator<Item = KnownRoute> {
    ROUTES.iter().map(|route| KnownRoute {
        pattern: route.pattern,
        methods: route.methods,
        signed_as: route.signed_as,
        link_segments: route.link_segments,
    })
}

/// A path, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    raw: String,
    segments: Vec<String>,
}

impl Path {
    /// Takes a path apart.
    ///
    /// # Errors
    /// 400 for an escape that is broken or does not give UTF-8.
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

    /// The path of the resource whose addresses a request for them wants, the parameter `$resolveFor`: the signature
    /// covers that one.
    pub(crate) fn resolved(query: Option<&str>) -> Option<Self> {
        let parameters = query?
            .split('&')
            .filter_map(|parameter| parameter.split_once('='));
        let (_, value) = parameters
            .into_iter()
            .find(|(name, _)| decode(name).is_ok_and(|n| n == "$resolveFor"))?;
        decode(value).ok().map(|link| Path::of_link(&link))
    }

    /// A link, as a body or parameter names a resource: like a path, but not encoded.
    pub(crate) fn of_link(link: &str) -> Self {
        let raw = link.trim_matches('/').to_owned();
        let segments = if raw.is_empty() {
            Vec::new()
        } else {
            raw.split('/').map(str::to_owned).collect()
        };
        Path { raw, segments }
    }

    /// The route of this path.
    ///
    /// # Errors
    /// 404 if the protocol has no such path.
    pub(crate) fn route(&self) -> Result<&'static Route> {
        let fits = |route: &&Route| {
            route.pattern.len() == self.segments.len()
                && route
                    .pattern
                    .iter()
                    .zip(&self.segments)
                    .all(|(p, s)| if *p == "*" { !s.is_empty() } else { p == s })
        };
        ROUTES.iter().find(fits).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!(
                    "The path '/{}' names no resource. Resource Not Found.",
                    self.raw
                ),
            )
        })
    }

    /// The `n`th id of the path.
    pub(crate) fn id(&self, n: usize) -> &str {
        self.segments.get(2 * n + 1).map_or("", String::as_str)
    }

    /// Whether the path goes through a database, and through a container in it.
    pub(crate) fn owner_kinds(&self) -> (bool, bool) {
        let is = |n: usize, word: &str| self.segments.get(n).is_some_and(|segment| segment == word);
        (is(0, "dbs"), is(0, "dbs") && is(2, "colls"))
    }

    /// The first id as a database's resource id, if it has that form; then the whole path is by resource id, unless
    /// no such database exists.
    pub(crate) fn database_rid(&self) -> Option<Rid> {
        let id = self.id(0);
        (self.segments.first().is_some_and(|s| s == "dbs") && id.len() == 8)
            .then(|| Rid::parse(id))
            .flatten()
            .filter(Rid::is_database)
    }

    /// The links that a client may have signed for `route`, the likeliest first: clients decide between name and
    /// resource id as we do, but old ones sign the path before decoding.
    pub(crate) fn signed_links(&self, route: &Route) -> Vec<String> {
        let segments = &self.segments[..route.link_segments.min(self.segments.len())];
        if route.target == Target::Offer {
            return vec![self.id(0).to_lowercase()];
        }
        let mut links = Vec::with_capacity(2);
        if self.database_rid().is_some()
            && let Some(last) = segments.last()
        {
            links.push(last.to_lowercase());
        }
        let decoded = segments.join("/");
        let raw = self
            .raw
            .split('/')
            .take(segments.len())
            .collect::<Vec<_>>()
            .join("/");
        if raw != decoded {
            links.extend([decoded, raw]);
        } else {
            links.push(decoded);
        }
        links
    }
}

fn decode(segment: &str) -> Result<String> {
    let bad = || {
        Error::bad(format!(
            "The path segment '{segment}' is not valid percent-encoded UTF-8."
        ))
    };
    if !segment.contains('%') {
        return Ok(segment.to_owned());
    }
    let mut rest = segment.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        let digits = rest.get(at + 1..at + 3).ok_or_else(bad)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(bad());
        }
        rest = &rest[at + 3..];
    }
    let decoded = percent_encoding::percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| bad())?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let path = Path::resolved(Some(query))?;
            let route = path.route().ok()?;
            Some((route.signed_as, path.signed_links(route).swap_remove(0)))
        };
        let of_ranges = "$resolveFor=dbs%2fXP0mAA%3d%3d%2fcolls%2fXP0mAJ3H-AA%3d%2fdocs&$filter=protocol%20eq%20rntbd";
        assert_eq!(signed(of_ranges), Some(("docs", "xp0maj3h-aa=".into())));
        let of_master = "%24filter=protocol%20eq%20rntbd&%24resolveFor=%2Fdbs%2F";
        assert_eq!(signed(of_master), Some(("dbs", String::new())));
        assert_eq!(signed("$filter=protocol"), None);
        assert!(Path::resolved(None).is_none());
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
