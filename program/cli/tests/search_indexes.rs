//! The vector and full-text indexes of a container through the management API.

use crate::program::{Client, Manager, Request, Server, number, start, text};
use orrery_model::Json;

const INDEXES: &str = "/dbs/blog/colls/near/indexes";
const RECALL: &str = "/dbs/blog/colls/near/indexes/recall";

/// A server with vectors and texts.
fn with_vectors() -> (Server, Client, Manager) {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.make_posts();
    let body = r#"{"id":"near","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32",
            "dimensions":2,"distanceFunction":"euclidean"}]},
        "fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t",
            "language":"en-US"}]},
        "indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"diskANN"}],
            "fullTextIndexes":[{"path":"/t"}]}}"#;
    client.create("/dbs/blog/colls", body);
    for n in 0..30 {
        let body = format!(r#"{{"id":"{n}","pk":"p{n}","v":[{n},1],"t":"two words"}}"#);
        let create = Request::new("POST", "/dbs/blog/colls/near/docs");
        let created = client.call(&create.key(&format!("p{n}")).body(body));
        assert_eq!(created.status, 201, "{}", created.text());
    }
    (server, client, manager)
}

#[test]
fn the_search_indexes_of_a_container_are_listed() {
    let (_server, _client, mut manager) = with_vectors();
    let indexes = manager.get(INDEXES).members("indexes");
    let [vectors, texts] = &indexes[..] else {
        panic!("{indexes:?}");
    };
    let words = ["path", "type", "state", "dataType", "distanceFunction"];
    assert_eq!(
        words.map(|name| text(vectors, name)),
        ["/v", "diskANN", "exact", "float32", "euclidean"]
    );
    let counts = ["entries", "dimensions", "percent", "quantised", "waiting"];
    let counted = counts.map(|name| number(vectors, name));
    assert_eq!(counted, [30, 2, 100, 0, 0]);
    let parts = vectors.get("partitions").and_then(Json::as_array);
    assert_eq!(parts.map(<[Json]>::len), Some(1));
    let words = ["path", "type", "state", "language"];
    assert_eq!(
        words.map(|name| text(texts, name)),
        ["/t", "fullText", "complete", "en-US"]
    );
    assert_eq!(
        ["entries", "words"].map(|name| number(texts, name)),
        [30, 60]
    );

    let none = manager.get("/dbs/blog/colls/posts/indexes");
    assert!(none.members("indexes").is_empty(), "{}", none.text());
}

#[test]
fn the_recall_of_an_index_is_measured() {
    let (_server, _client, mut manager) = with_vectors();
    let measured = manager.ok("POST", RECALL, r#"{"path":"/v"}"#).json();
    let counts = ["sample", "wanted", "found"].map(|name| number(&measured, name));
    assert_eq!(counts, [20, 200, 200]);
    let share = |name: &str| measured.get(name).and_then(Json::as_f64);
    assert_eq!(share("recall"), Some(1.0));
    for time in ["indexMs", "exactMs"] {
        assert!(share(time) > Some(0.0), "{measured}");
    }
    let three = manager.ok("POST", RECALL, r#"{"path":"/v","sample":3}"#);
    assert_eq!(number(&three.json(), "sample"), 3);
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let (_server, _client, mut manager) = with_vectors();
    for (path, body, status, named) in [
        (RECALL, r#"{"path":"/t"}"#, 404, "'/t'"),
        (RECALL, r#"{"path":"/v","sample":0}"#, 400, "'sample'"),
        (RECALL, r#"{"path":"/v","sample":101}"#, 400, "'sample'"),
        (RECALL, r#"{"sample":3}"#, 400, "'path'"),
        (RECALL, r#"{"path":"/v","top":3}"#, 400, "'top'"),
        (
            "/dbs/blog/colls/far/indexes/recall",
            r#"{"path":"/v"}"#,
            404,
            "'far'",
        ),
    ] {
        let message = manager.refused("POST", path, body, status);
        assert!(message.contains(named), "{body}: {message}");
    }
    let message = manager.refused("GET", "/dbs/none/colls/near/indexes", "", 404);
    assert!(message.contains("'none'"), "{message}");
}
