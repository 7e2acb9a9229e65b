//! The load of a container, as the management API reports it.

use crate::program::{ITEMS, Request, number, start, text};
use orrery_model::Json;

fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    json.get(name)
        .and_then(Json::as_array)
        .unwrap_or_else(|| panic!("no list '{name}' in {}", json.to_text()))
}

fn amount(json: &Json, name: &str) -> f64 {
    json.get(name)
        .and_then(Json::as_f64)
        .unwrap_or_else(|| panic!("no number '{name}' in {}", json.to_text()))
}

#[test]
fn the_heat_map_the_top_keys_and_the_queries_show_the_charges() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let mut charged = 0.0;
    let mut ask = |request: &Request| {
        let answer = client.call(request);
        assert!(answer.status < 300, "{}", answer.text());
        charged += answer
            .header("x-ms-request-charge")
            .and_then(|charge| charge.parse::<f64>().ok())
            .expect("a charge");
    };
    ask(&Request::new("POST", ITEMS)
        .key("p1")
        .body(r#"{"id":"p1","postId":"p1"}"#));
    for _ in 0..3 {
        ask(&Request::new("GET", &format!("{ITEMS}/p1")).key("p1"));
    }
    let mut manager = server.manager();
    let map = manager
        .get("/dbs/blog/colls/posts/heatmap?metric=ru")
        .json();
    assert_eq!(list(&map, "bucketStarts").len(), 256);
    let values = list(&map, "columns")
        .iter()
        .flat_map(|column| list(column, "values"));
    let sum: f64 = values.filter_map(Json::as_f64).sum();
    assert!((sum - charged).abs() < 0.001, "{sum} of {charged}");
    let requests = manager
        .get("/dbs/blog/colls/posts/heatmap?metric=requests&from=0")
        .json();
    let counts = list(&requests, "columns")
        .iter()
        .flat_map(|column| list(column, "values"));
    assert_eq!(counts.filter_map(Json::as_f64).sum::<f64>(), 4.0);
    assert_eq!(
        list(
            &manager.get("/dbs/blog/colls/posts/heatmap?to=1").json(),
            "columns"
        )
        .len(),
        0
    );

    let top = manager
        .get("/dbs/blog/colls/posts/top-keys?by=ru&window=minute")
        .json();
    assert_eq!(text(&list(&top, "keys")[0], "key"), r#"["p1"]"#);
    assert!((amount(&list(&top, "keys")[0], "amount") - charged).abs() < 0.001);
    let bytes = manager
        .get("/dbs/blog/colls/posts/top-keys?by=bytes")
        .json();
    assert!(amount(&bytes, "total") > 20.0);

    client.pages(&Request::query(ITEMS, "SELECT * FROM c WHERE c.id = 'p1'").key("p1"));
    let queries = manager.get("/dbs/blog/colls/posts/queries").json();
    let [form] = list(&queries, "queries") else {
        panic!("{}", queries.to_text())
    };
    assert_eq!(text(form, "text"), "SELECT * FROM c WHERE c.id = ?");
    assert_eq!(
        (
            number(form, "count"),
            number(form, "partitions"),
            number(form, "output")
        ),
        (1, 1, 1)
    );
    assert_eq!(
        form.get("crossPartition").and_then(Json::as_bool),
        Some(false)
    );
}

#[test]
fn unknown_parameters_and_values_are_refused_by_name() {
    let server = start(&["--memory"]).expect("it starts");
    server.client().make_posts();
    let mut manager = server.manager();
    for (path, status, part) in [
        (
            "/dbs/blog/colls/posts/heatmap?metric=heat",
            400,
            "'metric': must be one of ru, requests, throttled, bytes",
        ),
        ("/dbs/blog/colls/posts/heatmap?since=1", 400, "'since'"),
        (
            "/dbs/blog/colls/posts/top-keys?window=week",
            400,
            "'window': must be one of now, minute, hour, day",
        ),
        ("/dbs/blog/colls/nothing/queries", 404, "'nothing'"),
    ] {
        let message = manager.refused("GET", path, "", status);
        assert!(message.contains(part), "{message}");
    }
}
