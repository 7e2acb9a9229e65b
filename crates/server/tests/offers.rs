//! Offers, through which clients read and change throughput and its mode; and the statistics of a
//! container.

use crate::program::{Client, ITEMS, Request, Server, number, start, text};
use orrery_model::Json;

const TO_AUTOSCALE: &str = "x-ms-cosmos-migrate-offer-to-autopilot";
const TO_MANUAL: &str = "x-ms-cosmos-migrate-offer-to-manual-throughput";

fn server() -> Server {
    start(&["--memory"]).expect("the server starts")
}

/// Returns the offers whose `member` is `value`, queried as SDKs query them.
fn offers(client: &mut Client, member: &str, value: &str) -> Vec<Json> {
    let query = format!("SELECT * FROM root r WHERE r.{member} = '{value}'");
    client
        .call(&Request::query("/offers", &query))
        .members("Offers")
}

fn container(client: &mut Client, throughput: &[(&'static str, &str)]) -> Json {
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    let mut request = Request::new("POST", "/dbs/blog/colls").body(body);
    for (name, value) in throughput {
        request = request.header(name, *value);
    }
    let answer = client.call(&request);
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn offer_of(client: &mut Client, resource: &Json) -> Json {
    let found = offers(client, "resource", &text(resource, "_self"));
    assert_eq!(found.len(), 1);
    found[0].clone()
}

/// Returns a request for an offer, addressed by its `_self`.
fn offer_request(method: &'static str, offer: &Json) -> Request {
    Request::new(method, &format!("/{}", text(offer, "_self"))).by_rid()
}

fn content<'a>(offer: &'a Json, member: &str) -> Option<&'a Json> {
    offer.get("content").and_then(|content| content.get(member))
}

fn manual_throughput(offer: &Json) -> Option<i64> {
    assert!(content(offer, "offerAutopilotSettings").is_none());
    content(offer, "offerThroughput").and_then(Json::as_i64)
}

fn autoscale_maximum(offer: &Json) -> Option<i64> {
    content(offer, "offerAutopilotSettings")
        .and_then(|settings| settings.get("maxThroughput"))
        .and_then(Json::as_i64)
}

/// Returns the offer with other members in its content.
fn with(offer: &Json, members: &[(&str, Json)]) -> String {
    let mut offer = offer.as_object().expect("an object").clone();
    let mut content = offer
        .get("content")
        .and_then(Json::as_object)
        .expect("a content")
        .clone();
    members
        .iter()
        .for_each(|(name, value)| content.set(*name, value.clone()));
    offer.set("content", content);
    Json::Object(offer).to_text()
}

#[test]
fn an_offer_is_found_by_each_of_the_ways_that_sdks_have() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[]);
    let offer = offer_of(&mut client, &made);
    let by_id = offers(&mut client, "offerResourceId", &text(&made, "_rid"));
    assert_eq!(by_id, std::slice::from_ref(&offer));
    assert_eq!(
        client
            .call(&Request::new("GET", "/offers"))
            .members("Offers"),
        std::slice::from_ref(&offer)
    );
    assert_eq!(client.call(&offer_request("GET", &offer)).json(), offer);
    assert_eq!(client.call(&offer_request("HEAD", &offer)).status, 200);
    assert_eq!(text(&offer, "id"), text(&offer, "_rid"));
    assert_eq!(manual_throughput(&offer), Some(400));
    assert!(offers(&mut client, "offerResourceId", "nobody").is_empty());
}

#[test]
fn a_throughput_is_replaced_within_its_limits() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[("x-ms-offer-throughput", "1000")]);
    let offer = offer_of(&mut client, &made);
    let replaced = client
        .call(&offer_request("PUT", &offer).body(with(&offer, &[("offerThroughput", 600.into())])));
    assert_eq!(
        (replaced.status, manual_throughput(&replaced.json())),
        (200, Some(600)),
        "{}",
        replaced.text()
    );
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("false"));
    assert_eq!(replaced.header("x-ms-cosmos-min-throughput"), Some("400"));
    assert_eq!(
        replaced.header("etag"),
        Some(&*text(&replaced.json(), "_etag"))
    );
    let past = content(&replaced.json(), "offerMinimumThroughputParameters")
        .cloned()
        .expect("a past");
    assert_eq!(number(&past, "maxThroughputEverProvisioned"), 1000);
    for (throughput, message) in [
        (Json::from(300), "less than required minimum throughput 400"),
        (
            Json::from(450),
            "between 400 and 1000000 inclusive in increments of 100",
        ),
        (Json::from(1_000_100), "between 400 and 1000000"),
        (Json::from("600"), "no whole number"),
        (Json::Null, "'offerThroughput' is missing"),
    ] {
        let refused = client.call(
            &offer_request("PUT", &offer).body(with(&offer, &[("offerThroughput", throughput)])),
        );
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(message), "{}", refused.text());
    }
    let stale = offer_request("PUT", &offer).header("If-Match", text(&offer, "_etag"));
    assert_eq!(client.call(&stale.body(with(&offer, &[]))).status, 412);
    assert_eq!(manual_throughput(&offer_of(&mut client, &made)), Some(600));
}

#[test]
fn an_offer_is_replaced_only_by_a_body_that_is_of_this_offer() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[]);
    let offer = offer_of(&mut client, &made);
    let body = with(&offer, &[("offerThroughput", 600.into())]);
    let own = text(&offer, "_rid");
    for other in ["NotAllowed", "AAAA"] {
        let of_another = body.replace(&own, other);
        let refused = client.call(&offer_request("PUT", &offer).body(of_another));
        refused.error(400, None, "BadRequest");
        let member = format!(r#""_rid":"{own}""#);
        let of_another = body.replace(&member, &format!(r#""_rid":"{other}""#));
        assert_ne!(of_another, body);
        let refused = client.call(&offer_request("PUT", &offer).body(of_another));
        let message = refused.error(400, None, "BadRequest");
        assert!(message.contains(other), "{message}");
    }
    assert_eq!(manual_throughput(&offer_of(&mut client, &made)), Some(400));
    let without = body.replace(&format!(r#","_rid":"{own}""#), "");
    assert_ne!(without, body);
    let replaced = client.call(&offer_request("PUT", &offer).body(without));
    assert_eq!(manual_throughput(&replaced.json()), Some(600));
}

#[test]
fn a_link_in_place_of_the_id_of_an_offer_is_400() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[]);
    let offer = offer_of(&mut client, &made);
    let path = format!("/offers/{}", text(&offer, "_self"));
    for method in ["GET", "PUT"] {
        let request = Request::new(method, &path).by_rid();
        let refused = client.call(&request.body(offer.to_text()));
        refused.error(400, None, "BadRequest");
    }
}

#[test]
fn a_throughput_beyond_the_partitions_is_pending_until_they_are_split() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[]);
    let offer = offer_of(&mut client, &made);
    let replaced = client.call(
        &offer_request("PUT", &offer).body(with(&offer, &[("offerThroughput", 21_000.into())])),
    );
    assert_eq!(
        (replaced.status, manual_throughput(&replaced.json())),
        (200, Some(21_000)),
        "{}",
        replaced.text()
    );
    assert_eq!(replaced.header("x-ms-offer-replace-pending"), Some("true"));
    assert_eq!(
        content(&replaced.json(), "isOfferReplacePending"),
        Some(&Json::Bool(true))
    );
    let done = std::iter::repeat_with(|| client.call(&offer_request("GET", &offer)))
        .find(|offer| offer.header("x-ms-offer-replace-pending") == Some("false"))
        .expect("an endless iterator");
    assert_eq!(
        (
            manual_throughput(&done.json()),
            content(&done.json(), "isOfferReplacePending")
        ),
        (Some(21_000), None)
    );
    let answer = client.call(&Request::new("GET", "/dbs/blog/colls/posts/pkranges"));
    let ranges = answer.members("PartitionKeyRanges");
    let parents = |range: &Json| range.get("parents").expect("parents").to_text();
    let shown: Vec<_> = ranges
        .iter()
        .map(|range| (text(range, "id"), parents(range)))
        .collect();
    let wanted = [
        ("3", r#"["0","1"]"#),
        ("4", r#"["0","1"]"#),
        ("2", r#"["0"]"#),
    ];
    assert_eq!(
        shown,
        wanted.map(|(id, parents)| (id.to_owned(), parents.to_owned()))
    );
    let gone = Request::query("/dbs/blog/colls/posts/docs", "SELECT * FROM c");
    let gone = gone.header("x-ms-documentdb-partitionkeyrangeid", "0");
    assert_eq!(client.call(&gone).code(), (410, 1002));
}

#[test]
fn members_that_an_offer_cannot_take_are_refused_by_name() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[]);
    let offer = offer_of(&mut client, &made);
    for (member, value) in [
        ("id", Json::from("abcd")),
        ("resource", Json::from("dbs/other/")),
        ("offerResourceId", Json::from("other")),
        ("offerType", Json::from("S2")),
        ("offerVersion", Json::from("V1")),
        ("wheels", Json::from(4)),
    ] {
        let mut body = offer.as_object().expect("an object").clone();
        body.set(member, value);
        let refused = client.call(&offer_request("PUT", &offer).body(Json::Object(body).to_text()));
        assert_eq!(refused.status, 400, "{member}");
        assert!(
            refused.text().contains(&format!("'{member}'")),
            "{}",
            refused.text()
        );
    }
    for (member, value) in [
        ("offerIsRUPerMinuteThroughputEnabled", Json::Bool(true)),
        ("burst", Json::Bool(true)),
    ] {
        let refused =
            client.call(&offer_request("PUT", &offer).body(with(&offer, &[(member, value)])));
        assert_eq!(refused.status, 400, "{member}");
        assert!(refused.text().contains(member), "{}", refused.text());
    }
    assert_eq!(
        client.call(&offer_request("PUT", &offer).body("{}")).status,
        400
    );
    assert_eq!(
        client
            .call(&Request::new("GET", "/offers/none").by_rid())
            .code(),
        (404, 0)
    );
    assert_eq!(client.call(&offer_request("DELETE", &offer)).status, 405);
}

#[test]
fn the_mode_of_a_throughput_changes_by_header_and_without_a_number() {
    let server = server();
    let mut client = server.client();
    let made = container(&mut client, &[("x-ms-offer-throughput", "4600")]);
    let offer = offer_of(&mut client, &made);
    let settings = Json::Object(orrery_model::object! { "maxThroughput" => 4000 });
    let by_body = client.call(
        &offer_request("PUT", &offer).body(with(&offer, &[("offerAutopilotSettings", settings)])),
    );
    assert_eq!(by_body.status, 400);
    assert!(by_body.text().contains(TO_AUTOSCALE), "{}", by_body.text());
    // The new maximum is the old throughput, rounded up; a body is ignored.
    let scales = client.call(
        &offer_request("PUT", &offer)
            .header(TO_AUTOSCALE, "true")
            .body(with(&offer, &[])),
    );
    assert_eq!(
        (scales.status, autoscale_maximum(&scales.json())),
        (200, Some(5000)),
        "{}",
        scales.text()
    );
    assert_eq!(scales.header("x-ms-cosmos-min-throughput"), Some("1000"));
    assert_eq!(
        content(&scales.json(), "offerThroughput").and_then(Json::as_i64),
        Some(500)
    );
    let again = client.call(&offer_request("PUT", &offer).header(TO_AUTOSCALE, "True"));
    assert_eq!(
        (again.status, autoscale_maximum(&again.json())),
        (200, Some(5000))
    );
    let fixed = client.call(&offer_request("PUT", &offer).header(TO_MANUAL, "true"));
    assert_eq!(
        (fixed.status, manual_throughput(&fixed.json())),
        (200, Some(5000)),
        "{}",
        fixed.text()
    );
    let both = offer_request("PUT", &offer)
        .header(TO_MANUAL, "true")
        .header(TO_AUTOSCALE, "true");
    assert_eq!(client.call(&both).status, 400);
}

#[test]
fn an_autoscale_throughput_is_set_by_its_maximum() {
    let server = server();
    let mut client = server.client();
    let settings =
        r#"{"maxThroughput":4000,"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":2}}}"#;
    let made = container(
        &mut client,
        &[("x-ms-cosmos-offer-autopilot-settings", settings)],
    );
    let offer = offer_of(&mut client, &made);
    assert_eq!(autoscale_maximum(&offer), Some(4000));
    let to = |max: i64, percent: i64| {
        let policy = orrery_model::object! { "throughputPolicy" => orrery_model::object! { "incrementPercent" => percent } };
        Json::Object(
            orrery_model::object! { "maxThroughput" => max, "autoUpgradePolicy" => policy },
        )
    };
    let settings = |offer: &Json| {
        content(offer, "offerAutopilotSettings")
            .map(Json::to_text)
            .unwrap_or_default()
    };
    let replaced = client.call(
        &offer_request("PUT", &offer)
            .body(with(&offer, &[("offerAutopilotSettings", to(7000, 20))])),
    );
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    assert_eq!(settings(&replaced.json()), to(7000, 20).to_text());
    for (body, message) in [
        (
            with(&offer, &[("offerAutopilotSettings", to(500, 0))]),
            "less than required minimum throughput 1000",
        ),
        (
            with(&offer, &[("offerAutopilotSettings", to(1500, 0))]),
            "increments of 1000",
        ),
        (
            with(&offer, &[("offerAutopilotSettings", to(4000, 101))]),
            "incrementPercent",
        ),
        (
            with(&offer, &[("offerThroughput", 600.into())]),
            "set by 'maxThroughput' alone",
        ),
        (
            with(&offer, &[("offerAutopilotSettings", Json::Null)]),
            TO_MANUAL,
        ),
    ] {
        let refused = client.call(&offer_request("PUT", &offer).body(body));
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains(message), "{}", refused.text());
    }
    let low = Request::new("POST", "/dbs")
        .header(
            "x-ms-cosmos-offer-autopilot-settings",
            r#"{"maxThroughput":-200}"#,
        )
        .body(r#"{"id":"low"}"#);
    let message = "Requested throughput -200 is less than required minimum throughput 1000";
    assert!(client.call(&low).text().contains(message));
}

#[test]
fn a_database_shares_its_throughput_with_containers_that_name_none() {
    let server = server();
    let mut client = server.client();
    let database = client.call(
        &Request::new("POST", "/dbs")
            .header("x-ms-offer-throughput", "800")
            .body(r#"{"id":"d"}"#),
    );
    let shared = client.call(
        &Request::new("POST", "/dbs/d/colls")
            .body(r#"{"id":"shared","partitionKey":{"paths":["/k"]}}"#),
    );
    let own = Request::new("POST", "/dbs/d/colls").header("x-ms-offer-throughput", "500");
    let own = client.call(&own.body(r#"{"id":"own","partitionKey":{"paths":["/k"]}}"#));
    assert_eq!(
        (database.status, shared.status, own.status),
        (201, 201, 201)
    );
    assert!(offers(&mut client, "resource", &text(&shared.json(), "_self")).is_empty());
    assert_eq!(
        manual_throughput(&offer_of(&mut client, &own.json())),
        Some(500)
    );
    let offer = offer_of(&mut client, &database.json());
    assert_eq!(manual_throughput(&offer), Some(800));
    let replaced = client.call(
        &offer_request("PUT", &offer).body(with(&offer, &[("offerThroughput", 12_000.into())])),
    );
    assert_eq!(
        manual_throughput(&replaced.json()),
        Some(12_000),
        "{}",
        replaced.text()
    );
    assert_eq!(client.call(&Request::new("DELETE", "/dbs/d")).status, 204);
    assert!(
        client
            .call(&Request::new("GET", "/offers"))
            .members("Offers")
            .is_empty()
    );
}

#[test]
fn offers_are_queried_like_any_other_feed() {
    let server = server();
    let mut client = server.client();
    for n in 1..=5 {
        let create =
            Request::new("POST", "/dbs").header("x-ms-offer-throughput", (n * 500).to_string());
        assert_eq!(
            client
                .call(&create.body(format!("{{\"id\":\"d{n}\"}}")))
                .status,
            201
        );
    }
    let text = "SELECT VALUE o.content.offerThroughput FROM o WHERE o.content.offerThroughput > 500 \
                ORDER BY o.content.offerThroughput DESC";
    let (mut found, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let mut query = Request::query("/offers", text).header("x-ms-max-item-count", "2");
        if let Some(continuation) = &continuation {
            query = query.header("x-ms-continuation", continuation.as_str());
        }
        let page = client.call(&query);
        found.extend(page.members("Offers"));
        continuation = page.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    assert_eq!(found, [2500, 2000, 1500, 1000].map(Json::from));
}

#[test]
fn statistics_and_quotas_count_what_is_stored() {
    let server = server();
    let mut client = server.client();
    container(&mut client, &[("x-ms-offer-throughput", "12000")]);
    for n in 0..20 {
        client.create(
            ITEMS,
            &format!(
                r#"{{"id":"i{n}","postId":"p{n}","text":"{}"}}"#,
                "x".repeat(2000)
            ),
        );
    }
    let read = Request::new("GET", "/dbs/blog/colls/posts");
    assert!(client.call(&read).json().get("statistics").is_none());
    let shown = client
        .call(
            &read
                .clone()
                .header("x-ms-documentdb-populatepartitionstatistics", "True"),
        )
        .json();
    let statistics = shown
        .get("statistics")
        .and_then(Json::as_array)
        .expect("statistics");
    assert_eq!(
        statistics.iter().map(|s| text(s, "id")).collect::<Vec<_>>(),
        ["0", "1"]
    );
    assert_eq!(
        statistics
            .iter()
            .map(|s| number(s, "documentCount"))
            .sum::<u64>(),
        20
    );
    let kilobytes: u64 = statistics.iter().map(|s| number(s, "sizeInKB")).sum();
    assert!((40..50).contains(&kilobytes), "{kilobytes}");
    assert!(
        statistics
            .iter()
            .all(|s| s.get("partitionKeys").and_then(Json::as_array) == Some(&[][..]))
    );
    let quota = client.call(&read.header("x-ms-documentdb-populatequotainfo", "True"));
    let usage = quota.header("x-ms-resource-usage").expect("the usage");
    assert!(
        usage.starts_with("documentSize=0;documentsSize=4")
            && usage.contains(";documentsCount=20;"),
        "{usage}"
    );
    // The size of a container is the size of its documents and its index.
    let size = |name: &str| {
        let size = usage
            .split(';')
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        size.and_then(|size| size.parse::<u64>().ok())
            .expect("a size")
    };
    assert!(size("collectionSize") > size("documentsSize"), "{usage}");
    let script = r#"{"id":"s","body":"function () {}"}"#;
    for (feed, usage) in [
        ("sprocs", "storedProcedures=1;triggers=0;functions=0;"),
        ("udfs", "storedProcedures=1;triggers=0;functions=1;"),
    ] {
        let answer = client
            .call(&Request::new("POST", &format!("/dbs/blog/colls/posts/{feed}")).body(script));
        assert_eq!(answer.header("x-ms-resource-usage"), Some(usage), "{feed}");
        assert_eq!(
            answer.header("x-ms-resource-quota"),
            Some("storedProcedures=100;triggers=50;functions=50;")
        );
    }
}
