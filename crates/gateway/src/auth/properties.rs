//! What must hold of credentials whatever they say: nothing altered passes, and nothing reaches beyond its permission.

use super::*;
use crate::headers::RequestHeaders;
use crate::operations;
use crate::route::Path;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
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

/// A house with two databases, each with containers `a` and `b`, each with items, scripts and one user.
struct House {
    engine: Engine,
    authority: Authenticator,
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

impl House {
    fn new() -> House {
        let command = HostCommand {
            program: "no script runs here".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions::new(PoolOptions::new(command));
        let world = Arc::new(SeededWorld::new(1_000 * NOW as u64, 1));
        let engine = Engine::open(Arc::new(MemoryStore::new()), options, world).expect("an engine");
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
            let mint = TokenSigner(&|_| String::new());
            let made = engine.create_access_resource(
                database.rid(),
                AccessResourceKind::User,
                &object(r#"{"id":"u"}"#),
                false,
                mint,
            );
            user = Some(made.result.expect("a user").rid);
        }
        let keys = Keys::new(PRIMARY)
            .and_then(|keys| keys.with_full_key(SECONDARY))
            .expect("keys");
        House {
            engine,
            authority: Authenticator::new(keys, None),
            user: user.expect("there are databases"),
        }
    }

    /// The token of a new permission, minted by the holder of `key`.
    fn permit(&self, key: &str, body: &Object) -> String {
        let Caller::FullKey(issuer) = self
            .authenticate(&sign(key, "GET", "", ""), None)
            .expect("a key")
        else {
            panic!("not a full key")
        };
        let mint = |grant: &Grant| issuer.issue(grant, &self.engine, 3_600);
        let made = self.engine.create_access_resource(
            self.user,
            AccessResourceKind::Permission,
            body,
            true,
            TokenSigner(&mint),
        );
        let made = parse(&made.result.expect("a permission").body).expect("JSON");
        made.get("_token")
            .and_then(Json::as_str)
            .expect("a token")
            .to_owned()
    }

    fn authenticate(&self, authorization: &str, at: Option<i64>) -> Result<Caller> {
        let request = signed("GET", "", "", DATE, authorization);
        self.authority
            .authenticate(&request, &self.engine, at.unwrap_or(NOW))
    }
}

/// Two items in each logical partition, and the scripts.
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

/// A signature as a client makes it, without our code.
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

/// `text` with each of its characters replaced by `by`, one at a time, where that makes a difference.
fn altered(text: &str, by: char) -> impl Iterator<Item = String> {
    text.char_indices()
        .filter(move |(_, old)| *old != by)
        .map(move |(at, old)| format!("{}{by}{}", &text[..at], &text[at + old.len_utf8()..]))
}

/// Each text shorter by one character, and longer by `by`.
fn cut_or_longer(text: &str, by: char) -> impl Iterator<Item = String> {
    let cut = text
        .char_indices()
        .map(|(at, old)| format!("{}{}", &text[..at], &text[at + old.len_utf8()..]));
    cut.chain([format!("{text}{by}"), format!("{by}{text}")])
}

fn any_char() -> impl Strategy<Value = char> {
    prop_oneof![4 => proptest::char::range('!', '~'), 1 => Just('ü'), 1 => Just(' ')]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

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
        // Verbs and dates are signed in lower case, so that their case makes no difference.
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        for verb in altered(verb, by).chain(cut_or_longer(verb, by)).filter(|other| !same(other, verb)) {
            prop_assert!(!verify(&verb, resource_type, &link, DATE, &good), "{}", verb);
        }
        for kind in altered(resource_type, by).chain(cut_or_longer(resource_type, by)) {
            prop_assert!(!verify(verb, &kind, &link, DATE, &good), "{}", kind);
        }
        for other in altered(&link, by).chain(cut_or_longer(&link, by)).filter(|other| *other != link) {
            prop_assert!(!verify(verb, resource_type, &other, DATE, &good), "{}", other);
        }
        for date in altered(DATE, by).chain(cut_or_longer(DATE, by)).filter(|other| !same(other, DATE)) {
            prop_assert!(!verify(verb, resource_type, &link, &date, &good), "{}", date);
        }
        for other in altered(&good, by).chain(cut_or_longer(&good, by)).filter(|other| *other != good) {
            prop_assert!(!verify(verb, resource_type, &link, DATE, &other), "{}", other);
        }
    }

    #[test]
    fn no_altered_character_of_a_token_passes(by in any_char(), key in prop_oneof![Just(PRIMARY), Just(SECONDARY)]) {
        let house = House::new();
        let body = object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#);
        let token = house.permit(key, &body);
        prop_assert!(house.authenticate(&token, None).is_ok());
        let head = token.find("sig=").expect("a signature") + 4;
        let (head, sealed) = token.split_at(head);
        for other in altered(sealed, by).chain(cut_or_longer(sealed, by)) {
            // A comma ends the token, and blanks are pluses that a proxy has decoded.
            let read = other.split(',').next().unwrap_or_default().trim().replace(' ', "+");
            if read != sealed {
                let refused = house.authenticate(&format!("{head}{other}"), None).expect_err(&other);
                prop_assert_eq!(refused.status(), 401);
            }
        }
    }
}

/// A place in the house: a container, or what is in it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spot {
    database: usize,
    container: usize,
    child: Option<(&'static str, &'static str)>,
    /// By resource ids.
    by_rid: bool,
}

impl Spot {
    fn link(self, house: &House) -> String {
        let (database, container) = (DATABASES[self.database], CONTAINERS[self.container]);
        let found = house
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
                // Ids of items lead to several, one in each logical partition; links by name are the only ones to them.
                "docs" => id.to_owned(),
                _ => house
                    .engine
                    .script_rid(&found, kind, Id::Name(id))
                    .expect("a script")
                    .to_string(),
            };
            link = format!("{link}/{segment}/{rid}");
        }
        link
    }

    fn is_in(self, container: Spot) -> bool {
        (self.database, self.container) == (container.database, container.container)
    }
}

fn spot() -> impl Strategy<Value = Spot> {
    let child = proptest::option::weighted(0.6, proptest::sample::select(CHILDREN.to_vec()));
    (0..2_usize, 0..2_usize, child, any::<bool>()).prop_map(
        |(database, container, child, by_rid)| {
            let by_rid = by_rid && !matches!(child, Some(("docs", _)));
            Spot {
                database,
                container,
                child,
                by_rid,
            }
        },
    )
}

/// What a request asks: a spot, or a feed of it, with a method and a key.
#[derive(Clone, Debug)]
struct Question {
    spot: Spot,
    feed: Option<&'static str>,
    method: &'static str,
    query: bool,
    key: Option<&'static str>,
}

fn question(near: Spot) -> impl Strategy<Value = Question> {
    let feeds = vec![
        "docs",
        "pkranges",
        "sprocs",
        "triggers",
        "udfs",
        "conflicts",
    ];
    (
        prop_oneof![2 => Just(near), 2 => spot(), 1 => Just(Spot { child: None, ..near })],
        proptest::option::of(proptest::sample::select(feeds)),
        proptest::sample::select(vec!["GET", "POST", "PUT", "DELETE"]),
        any::<bool>(),
        proptest::option::of(proptest::sample::select(KEYS.to_vec())),
    )
        .prop_map(|(spot, feed, method, query, key)| {
            let feed = feed.filter(|_| spot.child.is_none());
            Question {
                spot,
                feed,
                method,
                query,
                key,
            }
        })
}

/// The rules once more, over what was drawn and not over paths.
fn may(spot: Spot, all: bool, limit: Option<&str>, question: &Question) -> bool {
    let Question {
        spot: asked,
        feed,
        method,
        query,
        key,
    } = question;
    let reads = *method == "GET" || *query && feed.is_some();
    let runs = *method == "POST" && asked.child.is_some();
    let of_scripts = asked
        .child
        .map(|(segment, _)| segment)
        .or(*feed)
        .is_some_and(|s| !["docs", "conflicts"].contains(&s));
    let in_key = limit.is_none() || *key == limit;
    match (asked.child, feed) {
        _ if !asked.is_in(spot) => false,
        (None, None) => reads,
        (None, Some("pkranges")) => true,
        _ if spot.child.is_some() && spot.child != asked.child => false,
        _ if !reads && !all => false,
        _ if of_scripts && !runs => reads || limit.is_none(),
        _ => in_key,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_token_reaches_beyond_its_permission_and_each_reaches_all_of_it(
        (spot, questions) in spot().prop_flat_map(|spot| {
            (Just(spot), proptest::collection::vec(question(spot), 40))
        }),
        all in any::<bool>(),
        limit in proptest::option::of(proptest::sample::select(KEYS.to_vec())),
    ) {
        let house = House::new();
        let mut body = object(r#"{"id":"p"}"#);
        body.set("permissionMode", if all { "All" } else { "Read" });
        body.set("resource", spot.link(&house));
        if let Some(key) = limit {
            body.set("resourcePartitionKey", parse(key.as_bytes()).expect("JSON"));
        }
        let caller = house.authenticate(&house.permit(PRIMARY, &body), None).expect("a token");
        for question in questions {
            let feed = question.feed.map_or(String::new(), |feed| format!("/{feed}"));
            let path = Path::parse(&format!("/{}{feed}", question.spot.link(&house))).expect("a path");
            let route = path.route().expect("a route");
            if !route.methods.contains(&question.method) {
                continue;
            }
            let partition_key = question.key.map(|key| PartitionKey::from_header(key).expect("a key"));
            let headers = RequestHeaders { query: question.query, partition_key, ..RequestHeaders::default() };
            let Ok(operation) = operations::choose(route.target, question.method, &headers) else { continue };
            let asked = Asked {
                target: route.target,
                method: question.method,
                writes: operation.writes,
                path: &path,
                headers: &headers,
            };
            let answer = check(&asked, &caller, &house.engine).map_err(|refused| refused.status());
            let expected = if may(spot, all, limit, &question) { Ok(()) } else { Err(403) };
            prop_assert_eq!(answer, expected, "{:?} of {:?} {} {:?}", &question, spot, all, limit);
        }
    }
}

/// Whether a caller may send this to a path.
fn allowed(
    house: &House,
    caller: &Caller,
    method: &str,
    path: &str,
) -> std::result::Result<(), u16> {
    let path = Path::parse(path).expect("a path");
    let target = path.route().expect("a route").target;
    let headers = RequestHeaders::default();
    let writes = operations::choose(target, method, &headers)
        .expect("an operation")
        .writes;
    let asked = Asked {
        target,
        method,
        writes,
        path: &path,
        headers: &headers,
    };
    check(&asked, caller, &house.engine).map_err(|refused| refused.status())
}

#[test]
fn no_token_reaches_what_stands_above_containers() {
    let house = House::new();
    let body = object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#);
    let caller = house
        .authenticate(&house.permit(PRIMARY, &body), None)
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
        assert_eq!(allowed(&house, &caller, "GET", path), Err(403), "{path}");
    }
    for path in [
        "/dbs/y/users/u/permissions",
        "/dbs/y/users/u/permissions/p",
        "/dbs/x/clientencryptionkeys",
    ] {
        assert_eq!(allowed(&house, &caller, "GET", path), Err(403), "{path}");
    }
    for (method, path) in [
        ("POST", "/dbs"),
        ("DELETE", "/dbs/x"),
        ("POST", "/dbs/x/colls"),
        ("PUT", "/dbs/x/colls/a"),
        ("DELETE", "/dbs/x/colls/a"),
        ("PUT", "/offers/8vLL"),
        ("POST", "/dbs/y/users/u/permissions"),
        ("PUT", "/dbs/y/users/u/permissions/p"),
    ] {
        assert_eq!(
            allowed(&house, &caller, method, path),
            Err(403),
            "{method} {path}"
        );
    }
    assert_eq!(allowed(&house, &caller, "GET", "/"), Ok(()));
}

#[test]
fn directory_identities_handle_items_and_nothing_above_them() {
    let house = House::new();
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
            allowed(&house, &Caller::DirectoryIdentity, method, path),
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
            allowed(&house, &Caller::DirectoryIdentity, method, path),
            Err(403),
            "{method} {path}"
        );
    }
}

#[test]
fn without_a_directory_its_identities_are_refused_by_name() {
    let refused = House::new()
        .authenticate("type=aad&ver=1.0&sig=a.b.c", None)
        .expect_err("there is no directory");
    assert_eq!((refused.status(), refused.sub_status()), (401, 5002));
    assert!(refused.message().contains("--entra"), "{refused}");
}

#[test]
fn read_only_keys_read_all_but_permissions() {
    let house = House::new();
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
            allowed(&house, &Caller::ReadOnlyKey, "GET", path),
            Ok(()),
            "{path}"
        );
    }
    for path in ["/dbs/y/users/u/permissions", "/dbs/y/users/u/permissions/p"] {
        assert_eq!(
            allowed(&house, &Caller::ReadOnlyKey, "GET", path),
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
            allowed(&house, &Caller::ReadOnlyKey, method, path),
            Err(403),
            "{method} {path}"
        );
    }
}

#[test]
fn a_token_ends_with_its_time_its_key_and_its_permission() {
    let house = House::new();
    let status = |result: Result<Caller>| {
        result
            .map(|_| 200)
            .unwrap_or_else(|refused| refused.status())
    };
    let read = object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/x/colls/a"}"#);
    let token = house.permit(PRIMARY, &read);
    assert_eq!(status(house.authenticate(&token, Some(NOW + 3_599))), 200);
    assert_eq!(status(house.authenticate(&token, Some(NOW + 3_600))), 403);

    house.permit(PRIMARY, &read);
    assert_eq!(
        status(house.authenticate(&token, None)),
        200,
        "written again as it was"
    );
    house.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"All","resource":"dbs/x/colls/a"}"#),
    );
    assert_eq!(
        status(house.authenticate(&token, None)),
        401,
        "it allows something else"
    );
    house.permit(PRIMARY, &read);
    assert_eq!(
        status(house.authenticate(&token, None)),
        200,
        "it allows the same again"
    );

    let of_secondary = house.permit(SECONDARY, &read);
    house
        .authority
        .replace_keys(Keys::new(PRIMARY).expect("a key"));
    assert_eq!(
        status(house.authenticate(&of_secondary, None)),
        401,
        "the key it was asked for with is gone"
    );
    assert_eq!(status(house.authenticate(&token, None)), 200);

    let permission = house
        .engine
        .access_resource(house.user, AccessResourceKind::Permission, Id::Name("p"))
        .expect("a permission");
    house
        .engine
        .delete_access_resource(&permission, None)
        .result
        .expect("it is deleted");
    assert_eq!(
        status(house.authenticate(&token, None)),
        401,
        "the permission is gone"
    );
}

#[test]
fn a_container_created_anew_does_not_inherit_tokens() {
    let house = House::new();
    let token = house.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/x/colls/a"}"#),
    );
    let container = house
        .engine
        .container(Id::Name("x"), Id::Name("a"))
        .expect("a container");
    house
        .engine
        .delete_container(&container, None)
        .result
        .expect("it is deleted");
    assert_eq!(
        house
            .authenticate(&token, None)
            .expect_err("it is gone")
            .status(),
        401
    );
    let database = house.engine.database(Id::Name("x")).expect("a database");
    let body = object(r#"{"id":"a","partitionKey":{"paths":["/pk"]}}"#);
    house
        .engine
        .create_container(&database, &body, None)
        .result
        .expect("a container");
    assert_eq!(
        house
            .authenticate(&token, None)
            .expect_err("it is another")
            .status(),
        401
    );
}

#[test]
fn a_permission_for_nothing_reaches_nothing() {
    let house = House::new();
    let nowhere =
        r#"{"id":"p","permissionMode":"All","resource":"dbs/AQAAAA==/colls/AQAAAJ0fgTc="}"#;
    let caller = house
        .authenticate(&house.permit(PRIMARY, &object(nowhere)), None)
        .expect("a token");
    assert_eq!(allowed(&house, &caller, "GET", "/dbs/x/colls/a"), Err(403));
    assert_eq!(allowed(&house, &caller, "GET", "/"), Ok(()));
}

#[test]
fn a_link_may_be_percent_encoded() {
    let house = House::new();
    let token = house.permit(
        PRIMARY,
        &object(r#"{"id":"p","permissionMode":"Read","resource":"dbs/%78/colls/a"}"#),
    );
    let Caller::ResourceToken(_, reach) = house.authenticate(&token, None).expect("a token") else {
        panic!("a token")
    };
    let container = house
        .engine
        .container(Id::Name("x"), Id::Name("a"))
        .expect("a container");
    assert_eq!(reach, Some(TokenScope::Container(container.rid())));
}
