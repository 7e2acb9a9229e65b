//! Live samples of a running server, through the management API.

use crate::program::{ITEMS, Manager, Request, item, start, start_with_posts, text};
use orrery_model::Json;
use orrery_test_wait::wait_for;

/// Returns the sum of a column.
fn sum(json: &Json, name: &str) -> f64 {
    numbers(json, name).iter().sum()
}

/// Returns a column.
fn numbers(json: &Json, name: &str) -> Vec<f64> {
    let list = json.get(name).and_then(Json::as_array);
    let list = list.unwrap_or_else(|| panic!("no list '{name}' in {}", json.to_text()));
    list.iter().filter_map(Json::as_f64).collect()
}

/// Reads the samples until they have so many requests.
fn live_with(manager: &mut Manager, requests: f64) -> Json {
    let live = || manager.get("/live").json();
    wait_for("the requests", live, |live| {
        sum(live, "requests") >= requests
    })
}

#[test]
fn samples_count_the_requests_of_all_clients_and_name_the_container() {
    let (server, mut client) = start_with_posts();
    let mut manager = server.manager();
    // The first reading has no earlier one to differ from.
    let starts = || numbers(&manager.get("/live").json(), "start");
    wait_for("a sample", starts, |starts| !starts.is_empty());
    let before = sum(&manager.get("/live").json(), "requests");
    let mut charge = 0.0;
    for n in 0..20 {
        let body = format!(r#"{{"id":"a{n}","postId":"p"}}"#);
        let created = client.call(&Request::new("POST", ITEMS).key("p").body(body));
        let header = created.header("x-ms-request-charge");
        charge += header
            .and_then(|c| c.parse::<f64>().ok())
            .expect("a charge");
    }
    assert_eq!(
        client
            .call(&Request::new("GET", &item("none")).key("p"))
            .status,
        404
    );
    let live = live_with(&mut manager, before + 21.0);
    assert!(sum(&live, "requestUnits") >= charge);
    assert_eq!(
        (sum(&live, "clientErrors"), sum(&live, "serverErrors")),
        (1.0, 0.0)
    );
    assert!(
        numbers(&live, "microsecondsP50")
            .iter()
            .any(|p50| *p50 > 0.0)
    );
    assert_eq!(numbers(&live, "connections").last(), Some(&1.0));

    let containers = live.get("containers").and_then(Json::as_array);
    let posts = &containers.expect("containers")[0];
    assert_eq!(
        (text(posts, "db"), text(posts, "coll")),
        ("blog".into(), "posts".into())
    );
    assert!(sum(posts, "requestUnits") >= charge);
    let samples = numbers(&live, "start").len();
    for name in ["requestUnits", "requests", "throttled"] {
        assert_eq!(numbers(posts, name).len(), samples, "{name}");
    }
    for name in ["seconds", "requests", "microsecondsP99", "storedBytes"] {
        assert_eq!(numbers(&live, name).len(), samples, "{name}");
    }
}

#[test]
fn samples_are_chosen_by_time_and_merged_to_steps() {
    let (server, mut client) = start_with_posts();
    let mut manager = server.manager();
    let starts = || {
        client.call(&Request::new("GET", &item("none")).key("p"));
        numbers(&manager.get("/live").json(), "start")
    };
    wait_for("two samples", starts, |starts| starts.len() >= 2);
    let live = manager.get("/live").json();
    let starts = numbers(&live, "start");
    assert!(
        starts.windows(2).all(|pair| pair[0] < pair[1]),
        "{starts:?}"
    );
    // One sample for each day that the test touches.
    let merged = manager.get("/live?step=86400&containers=0").json();
    assert!((1..=2).contains(&numbers(&merged, "start").len()));
    assert_eq!(
        merged.get("containers").and_then(Json::as_array),
        Some(&[][..])
    );
    assert!(numbers(&manager.get("/live?to=1000").json(), "start").is_empty());
    assert!(numbers(&manager.get("/live?from=99999999999").json(), "start").is_empty());
}

#[test]
fn a_wrong_parameter_of_the_samples_is_refused_by_name() {
    let server = start(&["--memory"]).expect("it starts");
    let mut manager = server.manager();
    for (query, part) in [
        ("step=0", "'step'"),
        ("from=yesterday", "'from'"),
        ("containers=17", "'containers'"),
        ("width=1", "'width'"),
    ] {
        let message = manager.refused("GET", &format!("/live?{query}"), "", 400);
        assert!(message.contains(part), "{message}");
    }
}
