//! DISTINCT and GROUP BY read the values of an index in place of items only while the values are
//! few: the values are held in memory, and a page of DISTINCT may end after a few rows.

use crate::support::*;
use orrery_engine::request::{QueryRequest, Scope};
use orrery_engine::{Container, Profile};
use orrery_model::Json;
use std::sync::Arc;

/// Creates a container with items that each have a value of their own at `/u`, of so many bytes.
fn unique_values(items: usize, bytes: usize) -> (Bench, Arc<Container>) {
    let bench = Bench::new(Profile::Modern, 5);
    let container = bench.container(r#"{"id":"items","partitionKey":{"paths":["/pk"]}}"#, 1);
    for number in 0..items {
        let item = format!(r#"{{"id":"{number}","pk":"p","u":"{number:0bytes$}"}}"#);
        create(&bench.engine, &container, &item);
    }
    (bench, container)
}

/// Returns the access path of a query, with the items that its first page loads.
fn access(bench: &Bench, container: &Container, text: &str) -> (String, u64) {
    let request = QueryRequest {
        explain: true,
        ..query(text)
    };
    let answer = bench
        .engine
        .query(container, &Scope::Everything, &request, None);
    let page = answer.result.expect("the query is answered");
    let explanation = json(page.explanation.as_deref().expect("an explanation"));
    let ranges = explanation.get("ranges").and_then(Json::as_array);
    let range = &ranges.expect("ranges")[0];
    let path = range.get("access").and_then(Json::as_str);
    let loaded = range
        .get("work")
        .and_then(|work| work.get("loadedItems"))
        .and_then(Json::as_i64);
    (
        path.expect("an access path").to_owned(),
        loaded.unwrap_or(0) as u64,
    )
}

#[test]
fn distinct_reads_all_values_only_if_they_are_few_for_the_page() {
    let text = "SELECT DISTINCT TOP 10 VALUE c.u FROM c";
    let (bench, container) = unique_values(900, 8);
    let (path, loaded) = access(&bench, &container, text);
    assert!(path.starts_with("values") && loaded == 0, "{path} {loaded}");

    let (bench, container) = unique_values(1_100, 8);
    let (path, loaded) = access(&bench, &container, text);
    assert!(!path.starts_with("values"), "{path}");
    assert!((10..=11).contains(&loaded), "{loaded}");
}

#[test]
fn groups_are_counted_by_the_index_only_if_their_values_fit_in_memory() {
    let text = "SELECT c.u, COUNT(1) AS items FROM c GROUP BY c.u";
    let (bench, container) = unique_values(2_600, 40);
    let (path, loaded) = access(&bench, &container, text);
    assert!(path.starts_with("values") && loaded == 0, "{path} {loaded}");

    let (bench, container) = unique_values(2_600, 900);
    let (path, loaded) = access(&bench, &container, text);
    assert!(!path.starts_with("values"), "{path}");
    assert_eq!(loaded, 2_600);
}
