//! Names that completion offers: databases, containers, and properties seen in results.

use crate::raw::Members;
use orrery_client::{Client, database_link};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Paths of properties at most.
const PROPERTIES_MAX: usize = 1000;
/// Databases whose containers are listed for completion.
const DATABASES_MAX: usize = 50;
/// Depth of paths.
const DEPTH_MAX: usize = 4;

/// The names, shared by the session and the editor.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<Known>>);

/// The names that are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Databases with their containers.
    pub(super) databases: BTreeMap<String, BTreeSet<String>>,
    /// Database of the session.
    pub(super) database: Option<String>,
    /// Paths of properties, for example `address.city`.
    pub(super) properties: BTreeSet<String>,
}

impl Names {
    pub(super) fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the databases; the containers of those that stay are kept.
    pub(super) fn set_databases(&self, databases: &[Value]) {
        let mut known = self.lock();
        let mut before = std::mem::take(&mut known.databases);
        known.databases = ids(databases)
            .map(|id| {
                let containers = before.remove(&id).unwrap_or_default();
                (id, containers)
            })
            .collect();
    }

    /// Replaces the containers of a database.
    pub(super) fn set_containers(&self, database: &str, containers: &[Value]) {
        let containers = ids(containers).collect();
        self.lock()
            .databases
            .insert(database.to_owned(), containers);
    }

    /// Adds the properties of rows.
    pub(super) fn add_rows(&self, rows: &[Box<RawValue>]) {
        let mut known = self.lock();
        for row in rows {
            add("", row.get(), 1, &mut known.properties);
        }
    }

    /// Reads databases and containers in the background. A failure leaves the names as they are:
    /// the statement that needs the server tells it.
    pub(super) async fn refresh(self, client: Client) {
        let Ok(databases) = client.databases().await else {
            return;
        };
        self.set_databases(&databases);
        for database in ids(&databases).take(DATABASES_MAX) {
            if let Ok(containers) = client.containers(&database_link(&database)).await {
                self.set_containers(&database, &containers);
            }
        }
    }
}

/// Returns the ids of resources.
pub(super) fn ids(resources: &[Value]) -> impl Iterator<Item = String> {
    resources
        .iter()
        .filter_map(|resource| resource["id"].as_str().map(str::to_owned))
}

fn add(prefix: &str, object: &str, depth: usize, paths: &mut BTreeSet<String>) {
    let Some(Members(members)) = Members::of(object) else {
        return;
    };
    for (name, value) in members {
        // Other names cannot be written behind a dot.
        let is_word = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !is_word(&name) || name.is_empty() || paths.len() >= PROPERTIES_MAX {
            continue;
        }
        let path = format!("{prefix}{name}");
        if depth < DEPTH_MAX {
            add(&format!("{path}."), value.get(), depth + 1, paths);
        }
        paths.insert(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn properties_of_rows_are_paths() {
        let names = Names::default();
        let row = json!({"id": "1", "address": {"city": "x", "a b": 1}, "list": [{"z": 1}]});
        names.add_rows(&[RawValue::from_string(row.to_string()).unwrap()]);
        let known = names.lock();
        let found: Vec<&str> = known.properties.iter().map(String::as_str).collect();
        assert_eq!(found, ["address", "address.city", "id", "list"]);
    }

    #[test]
    fn containers_stay_when_databases_are_listed_again() {
        let names = Names::default();
        names.set_containers("shop", &[json!({"id": "orders"})]);
        names.set_databases(&[json!({"id": "shop"}), json!({"id": "blog"})]);
        let known = names.lock();
        assert!(known.databases["shop"].contains("orders"));
        assert!(known.databases["blog"].is_empty());
    }
}
