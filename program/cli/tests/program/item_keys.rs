//! The partition key header of a new item, which the SDKs take from the item: the tests create
//! items as an SDK does.
//!
//! The container's definition is known from the request that created the container, in the same
//! test if possible: tests in other threads may use the same names.

use super::message::Request;
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// The header that names a partition key.
pub(crate) const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";

/// The partition key paths of containers, by the path of their items; none if a container has no
/// partition key.
type Definitions = HashMap<String, Vec<String>>;

static OF_ALL_TESTS: LazyLock<Mutex<Definitions>> = LazyLock::new(Mutex::default);

thread_local! {
    static OF_THIS_TEST: RefCell<Definitions> = RefCell::default();
}

/// Notes the partition key of a container that a request is about to create.
pub(super) fn note_container(request: &Request) {
    let (method, path, body) = request.parts();
    if method != "POST" || !path.ends_with("/colls") {
        return;
    }
    let Ok(body) = parse(body) else { return };
    let paths = body.get("partitionKey").and_then(|key| key.get("paths"));
    let Some(id) = body.get("id").and_then(Json::as_str) else {
        return;
    };
    // A container without a partition key is noted too, so that another test's is not found.
    let paths: Vec<String> = paths
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect();
    let items = format!("{path}/{id}/docs");
    OF_THIS_TEST.with_borrow_mut(|known| known.insert(items.clone(), paths.clone()));
    let mut known = OF_ALL_TESTS.lock().expect("no test panics with the lock");
    known.insert(items, paths);
}

/// Returns the header for a request that creates an item and names no partition key.
pub(super) fn header_of_new_item(request: &Request) -> Option<(&'static str, String)> {
    let (method, path, body) = request.parts();
    let is_other = |name: &str| {
        let lower = name.to_ascii_lowercase();
        lower == PARTITION_KEY || lower.contains("isquery") || lower.contains("batch")
    };
    if method != "POST" || !path.ends_with("/docs") || request.header_names().any(is_other) {
        return None;
    }
    let own = OF_THIS_TEST.with_borrow(|known| known.get(path).cloned());
    let paths = own.or_else(|| {
        let known = OF_ALL_TESTS.lock().expect("no test panics with the lock");
        known.get(path).cloned()
    })?;
    if paths.is_empty() {
        return None;
    }
    let item = parse(body).unwrap_or(Json::Null);
    let values: Vec<Json> = paths.iter().map(|path| value_at(&item, path)).collect();
    Some((PARTITION_KEY, Json::Array(values).to_text()))
}

/// Returns the value of an item at a path, `{}` if there is none.
fn value_at(item: &Json, path: &str) -> Json {
    let mut value = Some(item);
    for name in path.split('/').skip(1) {
        value = value.and_then(|value| value.get(name));
    }
    match value {
        None | Some(Json::Array(_) | Json::Object(_)) => Json::Object(Object::new()),
        Some(value) => value.clone(),
    }
}
