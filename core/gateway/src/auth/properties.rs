//! Properties of credentials: no altered credential is accepted, and no token allows more than its
//! permission.

use super::*;
use crate::headers::RequestHeaders;
use crate::operations;
use crate::route::Path;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orrery_engine::request::{AccessResourceKind, Id, ScriptKind, WriteOperation, WriteOptions};
use orrery_engine::{Container, EngineOptions, TokenSigner};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::SeededWorld;
use orrery_model::{Json, Object, Rid};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::MemoryStore;
use proptest::prelude::*;

const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
const NOW: i64 = 1_493_254_272;
const PRIMARY: &str = "cHJpbWFyeSBrZXkgZm9yIHRlc3RzIG9ubHk=";
const SECONDARY: &str = "c2Vjb25kYXJ5IGtleSBmb3IgdGVzdHMgb25seQ==";

/// An engine with two databases. Each database has one user and the containers `a` and `b`, each
/// with items and scripts.
struct Fixture {
    engine: Engine,
    authenticator: Authenticator,
    user: Rid,
}

const DATABASES: [&str; 2] = ["x", "y"];
const CONTAINERS: [&str; 2] = ["a", "b"];
const CHILDREN: [(&str, &str); 6] = [
    ("docs", "1"),
    ("docs", "2"),
    ("sprocs", "1"),
    ("sprocs", "2"),
    ("triggers", "1"),
    ("udfs", "1"),
];
const KEYS: [&str; 3] = [r#"["k"]"#, r#"["l"]"#, "[1]"];

fn object(text: &str) -> Object {
    parse(text.as_bytes())
        .expect("JSON")
        .as_object()
        .expect("an object")
        .clone()
}

impl Fixture {
    fn new() -> Fixture {
        let command = HostCommand {
            program: "no script runs here".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions::new(PoolOptions::new(command));
        let world = Arc::new(SeededWorld::new(1_000 * NOW as u64, 1));
        let engine = Engine::open(Arc::new(MemoryStore::new()), options, world).expect("an engine");
        // Both databases have equal contents, so that only ids distinguish them.
        let mut user = None;
        for name in DATABASES {
            engine
                .create_database(&object(&format!(r#"{{"id":"{name}"}}"#)), None)
                .result
                .expect("a database");
            let database = engine.database(Id::Name(name)).expect("a database");
            for container in CONTAINERS {
                let body = object(&format!(
                    r#"{{"id":"{container}","partitionKey":{{"paths":["/pk"]}}}}"#
                ));
                engine
                    .create_container(&database, &body, None)
                    .result
                    .expect("a container");
                fill(
                    &engine,
                    &engine
                        .container(Id::Name(name), Id::Name(container))
                        .expect("a container"),
                );
            }
            let signer = TokenSigner(&|_| String::new());
            let made = engine.create_access_resource(
                database.rid(),
                AccessResourceKind::User,
                &object(r#"{"id":"u"}"#),
                false,
                signer,
            );
            user = Some(made.result.expect("a user").rid);
        }
        let keys = Keys::new(PRIMARY)
            .and_then(|keys| keys.with_full_key(SECONDARY))
            .expect("keys");
        Fixture {
            engine,
            authenticator: Authenticator::new(keys, None),
            user: user.expect("there are databases"),
        }
    }

    /// Creates a permission with `key` and returns its token.
    fn permit(&self, key: &str, body: &Object) -> String {
        let Caller::FullKey(issuer) = self
            .authenticate(&sign(key, "GET", "", ""), None)
            .expect("a key")
        else {
            panic!("not a full key")
        };
        let sign = |permission: &PermissionContent| issuer.issue(permission, &self.engine, 3_600);
        let made = self.engine.create_access_resource(
            self.user,
            AccessResourceKind::Permission,
            body,
            true,
            TokenSigner(&sign),
        );
        let made = parse(&made.result.expect("a permission").body).expect("JSON");
        made.get("_token")
            .and_then(Json::as_str)
            .expect("a token")
            .to_owned()
    }

    fn authenticate(&self, authorization: &str, at: Option<i64>) -> Result<Caller> {
        let request = signed("GET", "", "", DATE, authorization);
        self.authenticator
            .authenticate(&request, &self.engine, at.unwrap_or(NOW))
    }
}

/// Writes two items in each logical partition, and the scripts.
fn fill(engine: &Engine, container: &Arc<Container>) {
    for key in KEYS {
        let key = PartitionKey::from_header(key).expect("a key");
        for id in ["1", "2"] {
            let mut item = object(&format!(r#"{{"id":"{id}"}}"#));
            item.set("pk", key.to_json().as_array().expect("an array")[0].clone());
            let text = Json::Object(item).to_text();
            let written = engine.write_item(
                container,
                &WriteOperation::Create,
                Some(text.as_bytes()),
                &WriteOptions::default(),
            );
            written.wait().result.expect("it is durable");
        }
    }
    for (kind, id) in [
        (ScriptKind::Procedure, "1"),
        (ScriptKind::Procedure, "2"),
        (ScriptKind::Function, "1"),
    ] {
        let body = object(&format!(r#"{{"id":"{id}","body":"function f() {{}}"}}"#));
        engine
            .create_script(container, kind, &body, false)
            .result
            .expect("a script");
    }
    let trigger =
        r#"{"id":"1","body":"function f() {}","triggerType":"Pre","triggerOperation":"All"}"#;
    engine
        .create_script(container, ScriptKind::Trigger, &object(trigger), false)
        .result
        .expect("a trigger");
}

fn signed<'a>(
    verb: &'a str,
    resource_type: &'a str,
    link: &str,
    date: &'a str,
    authorization: &'a str,
) -> SignedRequest<'a> {
    let (links, authorization) = (vec![link.to_owned()], Some(authorization));
    SignedRequest {
        verb,
        resource_type,
        links,
        authorization,
        ms_date: Some(date),
        date: None,
    }
}

/// Signs a request as a client does, without code of this crate.
fn signature(key: &str, verb: &str, resource_type: &str, link: &str) -> String {
    let text = format!(
        "{}\n{resource_type}\n{link}\n{}\n\n",
        verb.to_lowercase(),
        DATE.to_lowercase()
    );
    let mac = Hmac::<sha2::Sha256>::new_from_slice(&STANDARD.decode(key).expect("base64"))
        .expect("a key");
    STANDARD.encode(mac.chain_update(text).finalize().into_bytes())
}

fn sign(key: &str, verb: &str, resource_type: &str, link: &str) -> String {
    format!(
        "type=master&ver=1.0&sig={}",
        signature(key, verb, resource_type, link)
    )
}

/// Returns `text` with one of its characters replaced by `by`, for each character that differs.
fn altered(text: &str, by: char) -> impl Iterator<Item = String> {
    text.char_indices()
        .filter(move |(_, old)| *old != by)
        .map(move |(at, old)| format!("{}{by}{}", &text[..at], &text[at + old.len_utf8()..]))
}

/// Returns `text` without one of its characters, for each character, and `text` with `by` added at
/// either end.
fn cut_or_longer(text: &str, by: char) -> impl Iterator<Item = String> {
    let cut = text
        .char_indices()
        .map(|(at, old)| format!("{}{}", &text[..at], &text[at + old.len_utf8()..]));
    cut.chain([format!("{text}{by}"), format!("{by}{text}")])
}

fn any_char() -> impl Strategy<Value = char> {
    prop_oneof![4 => proptest::char::range('!', '~'), 1 => Just('ü'), 1 => Just(' ')]
}

fn configuration(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Returns all texts of [`altered`] and [`cut_or_longer`].
fn changed(text: &str, by: char) -> impl Iterator<Item = String> {
    altered(text, by).chain(cut_or_longer(text, by))
}

proptest! {
    #![proptest_config(configuration(32))]

    #[test]
    fn no_altered_character_of_a_signed_request_passes(
        verb in prop_oneof![Just("GET"), Just("POST"), Just("PUT"), Just("DELETE")],
        resource_type in prop_oneof![Just("dbs"), Just("colls"), Just("docs"), Just("permissions")],
        link in "dbs/[a-zA-Z0-9 ü]{1,8}(/colls/[a-zA-Z0-9]{1,8})?",
        by in any_char(),
    ) {
        let keys = Keys::new(PRIMARY).and_then(|keys| keys.with_full_key(SECONDARY)).expect("keys");
        let good = signature(SECONDARY, verb, resource_type, &link);
        let verify = |verb: &str, kind: &str, link: &str, date: &str, signature: &str| {
            keys.verify(&signed(verb, kind, link, date, ""), signature, NOW).is_ok()
        };
        prop_assert!(verify(verb, resource_type, &link, DATE, &good));
        // Verbs and dates are signed in lower case, so their case makes no difference.
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        for verb in changed(verb, by).filter(|other| !same(other, verb)) {
            prop_assert!(!verify(&verb, resource_type, &link, DATE, &good), "{}", verb);
        }
        for kind in changed(resource_type, by) {
            prop_assert!(!verify(verb, &kind, &link, DATE, &good), "{}", kind);
        }
        for other in changed(&link, by).filter(|other| *other != link) {
            prop_assert!(!verify(verb, resource_type, &other, DATE, &good), "{}", other);
        }
        for date in changed(DATE, by).filter(|other| !same(other, DATE)) {
            prop_assert!(!verify(verb, resource_type, &link, &date, &good), "{}", date);
        }
        for other in changed(&good, by).filter(|other| *other != good) {
            prop_assert!(!verify(verb, resource_type, &link, DATE, &other), "{}", other);
        }
    }

    #[test]
    fn no_altered_character_of_a_token_passes(
        by in any_char(),
        key in prop_oneof![Just(PRIMARY), Just(SECONDARY)],
    ) {
        let fixture = Fixture::new();
        let body = object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#);
        let token = fixture.permit(key, &body);
        prop_assert!(fixture.authenticate(&token, None).is_ok());
        let head = token.find("sig=").expect("a signature") + 4;
        let (head, sealed) = token.split_at(head);
        for other in changed(sealed, by) {
            // A comma ends the token, and a blank counts as a plus that a proxy decoded.
            let read = other.split(',').next().unwrap_or_default().trim().replace(' ', "+");
            if read != sealed {
                let answer = fixture.authenticate(&format!("{head}{other}"), None);
                prop_assert_eq!(answer.expect_err(&other).status(), 401);
            }
        }
    }
}

/// A container of the fixture, or a resource in it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Resource {
    database: usize,
    container: usize,
    child: Option<(&'static str, &'static str)>,
    /// By resource ids.
    by_rid: bool,
}

impl Resource {
    fn link(self, fixture: &Fixture) -> String {
        let (database, container) = (DATABASES[self.database], CONTAINERS[self.container]);
        let found = fixture
            .engine
            .container(Id::Name(database), Id::Name(container))
            .expect("a container");
        let mut link = match self.by_rid {
            false => format!("dbs/{database}/colls/{container}"),
            true => format!("dbs/{}/colls/{}", found.rid().database_part(), found.rid()),
        };
        if let Some((segment, id)) = self.child {
            let kind = match segment {
                "sprocs" => ScriptKind::Procedure,
                "triggers" => ScriptKind::Trigger,
                _ => ScriptKind::Function,
            };
            let rid = match segment {
                _ if !self.by_rid => id.to_owned(),
                // An id may name an item in each logical partition, so items are linked by name
                // only.
                "docs" => id.to_owned(),
                _ => fixture
                    .engine
                    .script_rid(&found, kind, Id::Name(id))
                    .expect("a script")
                    .to_string(),
            };
            link = format!("{link}/{segment}/{rid}");
        }
        link
    }

    fn is_in(self, container: Resource) -> bool {
        (self.database, self.container) == (container.database, container.container)
    }
}

fn resource() -> impl Strategy<Value = Resource> {
    let child = proptest::option::weighted(0.6, proptest::sample::select(CHILDREN.to_vec()));
    (0..2_usize, 0..2_usize, child, any::<bool>()).prop_map(
        |(database, container, child, by_rid)| {
            let by_rid = by_rid && !matches!(child, Some(("docs", _)));
            Resource {
                database,
                container,
                child,
                by_rid,
            }
        },
    )
}

/// A request for a resource, or for a feed in it, with a method and a partition key.
#[derive(Clone, Debug)]
struct Attempt {
    resource: Resource,
    feed: Option<&'static str>,
    method: &'static str,
    query: bool,
    key: Option<&'static str>,
}

fn attempt(near: Resource) -> impl Strategy<Value = Attempt> {
    let feeds = vec![
        "docs",
        "pkranges",
        "sprocs",
        "triggers",
        "udfs",
        "conflicts",
    ];
    (
        prop_oneof![
            2 => Just(near),
            2 => resource(),
            1 => Just(Resource { child: None, ..near }),
        ],
        proptest::option::of(proptest::sample::select(feeds)),
        proptest::sample::select(vec!["GET", "POST", "PUT", "DELETE"]),
        any::<bool>(),
        proptest::option::of(proptest::sample::select(KEYS.to_vec())),
    )
        .prop_map(|(resource, feed, method, query, key)| {
            let feed = feed.filter(|_| resource.child.is_none());
            Attempt {
                resource,
                feed,
                method,
                query,
                key,
            }
        })
}

/// The expected decision, made from the generated values and not from paths. `all` is the mode of
/// the permission, `limit` its partition key.
fn may(granted: Resource, all: bool, limit: Option<&str>, attempt: &Attempt) -> bool {
    let Attempt {
        resource: asked,
        feed,
        method,
        query,
        key,
    } = attempt;
    let reads = *method == "GET" || *query && feed.is_some();
    let runs = *method == "POST" && asked.child.is_some();
    let of_scripts = asked
        .child
        .map(|(segment, _)| segment)
        .or(*feed)
        .is_some_and(|s| !["docs", "conflicts"].contains(&s));
    let in_key = limit.is_none() || *key == limit;
    match (asked.child, feed) {
        _ if !asked.is_in(granted) => false,
        (None, None) if *method == "DELETE" => all && limit.is_none() && granted.child.is_none(),
        (None, None) => reads,
        (None, Some("pkranges")) => true,
        _ if granted.child.is_some() && granted.child != asked.child => false,
        _ if !reads && !all => false,
        _ if of_scripts && !runs => reads || limit.is_none(),
        _ => in_key,
    }
}

proptest! {
    #![proptest_config(configuration(64))]

    #[test]
    fn a_token_allows_exactly_what_its_permission_grants(
        (granted, attempts) in resource().prop_flat_map(|granted| {
            (Just(granted), proptest::collection::vec(attempt(granted), 40))
        }),
        all in any::<bool>(),
        limit in proptest::option::of(proptest::sample::select(KEYS.to_vec())),
    ) {
        let fixture = Fixture::new();
        let mut body = object(r#"{"id":"p"}"#);
        body.set("permissionMode", if all { "All" } else { "Read" });
        body.set("resource", granted.link(&fixture));
        if let Some(key) = limit {
            body.set("resourcePartitionKey", parse(key.as_bytes()).expect("JSON"));
        }
        let caller = fixture.authenticate(&fixture.permit(PRIMARY, &body), None).expect("a token");
        for attempt in attempts {
            let feed = attempt.feed.map_or(String::new(), |feed| format!("/{feed}"));
            let link = attempt.resource.link(&fixture);
            let path = Path::parse(&format!("/{link}{feed}")).expect("a path");
            let route = path.route().expect("a route");
            let partition_key = attempt
                .key
                .map(|key| PartitionKey::from_header(key).expect("a key"));
            let headers = RequestHeaders {
                is_query: attempt.query,
                partition_key,
                ..RequestHeaders::default()
            };
            // Methods that the path does not have are skipped.
            let chosen = operations::choose(route.target, attempt.method, &headers);
            let Ok(operation) = chosen else { continue };
            let request = AccessRequest {
                rights: operation.rights(),
                target: route.target,
                path: &path,
                headers: &headers,
            };
            let answer = check(&request, &caller, &fixture.engine);
            let answer = answer.map_err(|refused| refused.status());
            let expected = if may(granted, all, limit, &attempt) { Ok(()) } else { Err(403) };
            prop_assert_eq!(
                answer, expected,
                "{:?} of {:?} {} {:?}", &attempt, granted, all, limit
            );
        }
    }
}

/// Returns the decision about a request of a caller: the status of the refusal, if it is refused.
fn allowed(
    fixture: &Fixture,
    caller: &Caller,
    method: &str,
    path: &str,
) -> std::result::Result<(), u16> {
    let path = Path::parse(path).expect("a path");
    let target = path.route().expect("a route").target;
    let headers = RequestHeaders::default();
    let operation = operations::choose(target, method, &headers).expect("an operation");
    let request = AccessRequest {
        rights: operation.rights(),
        target,
        path: &path,
        headers: &headers,
    };
    check(&request, caller, &fixture.engine).map_err(|refused| refused.status())
}

#[test]
fn no_token_allows_requests_above_its_container() {
    let fixture = Fixture::new();
    let body = object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#);
    let caller = fixture
        .authenticate(&fixture.permit(PRIMARY, &body), None)
        .expect("a token");
    for path in [
        "/dbs",
        "/dbs/x",
        "/dbs/x/colls",
        "/offers",
        "/offers/8vLL",
        "/dbs/y/users",
        "/dbs/y/users/u",
    ] {
        assert_eq!(allowed(&fixture, &caller, "GET", path), Err(403), "{path}");
    }
    for path in [
        "/dbs/y/users/u/permissions",
        "/dbs/y/users/u/permissions/p",
        "/dbs/x/clientencryptionkeys",
    ] {
        assert_eq!(allowed(&fixture, &caller, "GET", path), Err(403), "{path}");
    }
    for (method, path) in [
        ("POST", "/dbs"),
        ("DELETE", "/dbs/x"),
        ("POST", "/dbs/x/colls"),
        ("PUT", "/dbs/x/colls/a"),
        ("DELETE", "/dbs/x/colls/b"),
        ("PUT", "/offers/8vLL"),
        ("POST", "/dbs/y/users/u/permissions"),
        ("PUT", "/dbs/y/users/u/permissions/p"),
    ] {
        assert_eq!(
            allowed(&fixture, &caller, method, path),
            Err(403),
            "{method} {path}"
        );
    }
    assert_eq!(allowed(&fixture, &caller, "GET", "/"), Ok(()));
}

#[test]
fn directory_identities_handle_items_and_nothing_above_them() {
    let fixture = Fixture::new();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/dbs/x"),
        ("GET", "/dbs/x/colls/a"),
        ("GET", "/dbs/x/colls/a/pkranges"),
        ("GET", "/dbs/x/colls/a/sprocs/1"),
        ("POST", "/dbs/x/colls/a/docs"),
        ("DELETE", "/dbs/x/colls/a/docs/1"),
        ("POST", "/dbs/x/colls/a/sprocs/1"),
    ] {
        assert_eq!(
            allowed(&fixture, &Caller::DirectoryIdentity, method, path),
            Ok(()),
            "{method} {path}"
        );
    }
    for (method, path) in [
        ("POST", "/dbs"),
        ("DELETE", "/dbs/x/colls/a"),
        ("PUT", "/offers/8vLL"),
        ("POST", "/dbs/x/colls/a/udfs"),
        ("GET", "/dbs/y/users/u/permissions"),
        ("POST", "/dbs/x/clientencryptionkeys"),
    ] {
        assert_eq!(
            allowed(&fixture, &Caller::DirectoryIdentity, method, path),
            Err(403),
            "{method} {path}"
        );
    }
}

#[test]
fn without_a_directory_its_identities_are_refused_by_name() {
    let refused = Fixture::new()
        .authenticate("type=aad&ver=1.0&sig=a.b.c", None)
        .expect_err("there is no directory");
    assert_eq!((refused.status(), refused.sub_status()), (401, 5002));
    assert!(refused.message().contains("--entra"), "{refused}");
}

#[test]
fn read_only_keys_read_all_but_permissions() {
    let fixture = Fixture::new();
    for path in [
        "/",
        "/dbs",
        "/dbs/x/colls/a",
        "/dbs/x/colls/a/docs",
        "/dbs/x/colls/a/docs/1",
        "/offers",
        "/dbs/x/users",
    ] {
        assert_eq!(
            allowed(&fixture, &Caller::ReadOnlyKey, "GET", path),
            Ok(()),
            "{path}"
        );
    }
    for path in ["/dbs/y/users/u/permissions", "/dbs/y/users/u/permissions/p"] {
        assert_eq!(
            allowed(&fixture, &Caller::ReadOnlyKey, "GET", path),
            Err(403),
            "{path}"
        );
    }
    for (method, path) in [
        ("POST", "/dbs"),
        ("POST", "/dbs/x/colls/a/docs"),
        ("DELETE", "/dbs/x/colls/a/docs/1"),
        ("POST", "/dbs/x/colls/a/sprocs/1"),
        ("PUT", "/offers/8vLL"),
        ("POST", "/dbs/x/users"),
    ] {
        assert_eq!(
            allowed(&fixture, &Caller::ReadOnlyKey, method, path),
            Err(403),
            "{method} {path}"
        );
    }
}

#[test]
fn a_token_ends_with_its_time_its_key_and_its_permission() {
    let fixture = Fixture::new();
    let status = |result: Result<Caller>| {
        result
            .map(|_| 200)
            .unwrap_or_else(|refused| refused.status())
    };
    let read = object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/x/colls/a"}"#);
    let token = fixture.permit(PRIMARY, &read);

    // The token ends with its time.
    assert_eq!(status(fixture.authenticate(&token, Some(NOW + 3_599))), 200);
    assert_eq!(status(fixture.authenticate(&token, Some(NOW + 3_600))), 403);

    // It is valid while the permission means what it meant when the token was issued.
    fixture.permit(PRIMARY, &read);
    assert_eq!(
        status(fixture.authenticate(&token, None)),
        200,
        "the permission was replaced by an equal one"
    );
    fixture.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#),
    );
    assert_eq!(
        status(fixture.authenticate(&token, None)),
        401,
        "the permission allows something else"
    );
    fixture.permit(PRIMARY, &read);
    assert_eq!(
        status(fixture.authenticate(&token, None)),
        200,
        "the permission allows the same again"
    );

    // It ends with the key that it was requested with.
    let of_secondary = fixture.permit(SECONDARY, &read);
    fixture
        .authenticator
        .replace_keys(Keys::new(PRIMARY).expect("a key"));
    assert_eq!(
        status(fixture.authenticate(&of_secondary, None)),
        401,
        "the key was removed"
    );
    assert_eq!(status(fixture.authenticate(&token, None)), 200);

    // It ends with its permission.
    let permission = fixture
        .engine
        .access_resource(fixture.user, AccessResourceKind::Permission, Id::Name("p"))
        .expect("a permission");
    fixture
        .engine
        .delete_access_resource(&permission, None)
        .result
        .expect("it is deleted");
    assert_eq!(
        status(fixture.authenticate(&token, None)),
        401,
        "the permission was deleted"
    );
}

#[test]
fn a_container_with_the_id_of_a_deleted_one_does_not_accept_its_tokens() {
    let fixture = Fixture::new();
    let token = fixture.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/x/colls/a"}"#),
    );
    let container = fixture
        .engine
        .container(Id::Name("x"), Id::Name("a"))
        .expect("a container");
    fixture
        .engine
        .delete_container(&container, None)
        .result
        .expect("it is deleted");
    assert_eq!(
        fixture
            .authenticate(&token, None)
            .expect_err("it is gone")
            .status(),
        401
    );
    let database = fixture.engine.database(Id::Name("x")).expect("a database");
    let body = object(r#"{"id":"a","partitionKey":{"paths":["/pk"]}}"#);
    fixture
        .engine
        .create_container(&database, &body, None)
        .result
        .expect("a container");
    assert_eq!(
        fixture
            .authenticate(&token, None)
            .expect_err("it is another")
            .status(),
        401
    );
}

#[test]
fn a_permission_for_a_missing_resource_allows_nothing() {
    let fixture = Fixture::new();
    let missing =
        r#"{"id":"p","permissionMode":"All","resource":"dbs/AQAAAA==/colls/AQAAAJ0fgTc="}"#;
    let caller = fixture
        .authenticate(&fixture.permit(PRIMARY, &object(missing)), None)
        .expect("a token");
    assert_eq!(
        allowed(&fixture, &caller, "GET", "/dbs/x/colls/a"),
        Err(403)
    );
    assert_eq!(allowed(&fixture, &caller, "GET", "/"), Ok(()));
}

#[test]
fn a_token_of_an_item_with_slashes_in_its_id_reads_that_item_alone() {
    let fixture = Fixture::new();
    for link in ["dbs/x/colls/a/docs/i/j", "dbs/x/colls/a/docs/i/j/"] {
        let permission = format!(r#"{{"id":"p","permissionMode":"Read","resource":"{link}"}}"#);
        let token = fixture.permit(PRIMARY, &object(&permission));
        let caller = fixture.authenticate(&token, None).expect("a token");
        let path = "/dbs/x/colls/a/docs/i%2Fj";
        assert_eq!(allowed(&fixture, &caller, "GET", path), Ok(()), "{link}");
        for other in ["i", "j", "i%252Fj", "i%2Fj%2Fk", "i%2F"] {
            let path = format!("/dbs/x/colls/a/docs/{other}");
            assert_eq!(allowed(&fixture, &caller, "GET", &path), Err(403), "{path}");
        }
    }
}

#[test]
fn a_link_may_be_percent_encoded() {
    let fixture = Fixture::new();
    let token = fixture.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/%78/colls/a"}"#),
    );
    let Caller::ResourceToken(_, scope) = fixture.authenticate(&token, None).expect("a token")
    else {
        panic!("a token")
    };
    let container = fixture
        .engine
        .container(Id::Name("x"), Id::Name("a"))
        .expect("a container");
    assert_eq!(scope, Some(TokenScope::Container(container.rid())));
}
