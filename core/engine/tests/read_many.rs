//! Queries of the read-many operation of SDKs, which name many items by id and partition key: the
//! index finds the items, and no other item is loaded.

use crate::support::{Bench, create, json, key, query};
use orrery_engine::Profile;
use orrery_engine::request::*;
use orrery_model::Json;

const ITEMS: usize = 3_000;
const REQUESTED: usize = 1_000;

/// Runs a query in one page. Returns the numbers of rows and loaded items, and the access path.
fn run(
    bench: &Bench,
    scope: &Scope,
    text: String,
    parameters: Vec<(String, Json)>,
) -> (usize, u64, String) {
    let container = bench
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("it exists");
    let page = PageRequest {
        max_items: Some(2_000),
        ..PageRequest::default()
    };
    let request = QueryRequest {
        text,
        parameters,
        page,
        explain: true,
        ..query("")
    };
    let answer = bench
        .engine
        .query(&container, scope, &request, None)
        .result
        .expect("a page");
    let explanation = json(&answer.explanation.expect("an explanation"));
    let range = &explanation
        .get("ranges")
        .and_then(Json::as_array)
        .expect("ranges")[0];
    let loaded = range
        .get("work")
        .and_then(|work| work.get("loadedItems"))
        .and_then(Json::as_i64)
        .expect("a count");
    let access = range
        .get("access")
        .and_then(Json::as_str)
        .expect("an access path")
        .to_owned();
    (
        answer.page.rows.len(),
        u64::try_from(loaded).expect("a count"),
        access,
    )
}

/// Creates a container of [`ITEMS`] items; item `n` has the partition key `keys(n)`.
fn items(keys: impl Fn(usize) -> String) -> Bench {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(
        r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
        1,
    );
    for n in 0..ITEMS {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"{n}","pk":"{}"}}"#, keys(n)),
        );
    }
    bench
}

#[test]
fn a_thousand_pairs_of_id_and_key_load_a_thousand_items() {
    let bench = items(|n| format!("key {n}"));
    let pairs: Vec<String> = (0..REQUESTED)
        .map(|n| format!("(c.id = @id{n} AND c[\"pk\"] = @pk{n})"))
        .collect();
    let parameters = (0..REQUESTED).flat_map(|n| {
        let at = n * 2 + 1;
        [
            (format!("@id{n}"), Json::from(at.to_string())),
            (format!("@pk{n}"), Json::from(format!("key {at}"))),
        ]
    });
    let text = format!("SELECT * FROM c WHERE ( {} )", pairs.join(" OR "));
    let (rows, loaded, access) = run(&bench, &Scope::Everything, text, parameters.collect());
    assert_eq!(rows, REQUESTED);
    assert!(
        loaded <= REQUESTED as u64 && access.starts_with("index"),
        "{loaded} items loaded by {access}"
    );
}

#[test]
fn a_thousand_ids_of_one_key_load_a_thousand_items() {
    let bench = items(|_| "p".to_owned());
    let names: Vec<String> = (0..REQUESTED).map(|n| format!("@id{n}")).collect();
    let ids = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.clone(), Json::from((n * 2 + 1).to_string())));
    let parameters = ids.chain([("@pk".to_owned(), Json::from("p"))]).collect();
    let text = format!(
        "SELECT * FROM c WHERE c.pk = @pk AND c.id IN ({})",
        names.join(", ")
    );
    let (rows, loaded, access) = run(&bench, &Scope::Key(key(r#"["p"]"#)), text, parameters);
    assert_eq!(rows, REQUESTED);
    assert!(
        loaded <= REQUESTED as u64,
        "{loaded} items loaded by {access}"
    );
}
