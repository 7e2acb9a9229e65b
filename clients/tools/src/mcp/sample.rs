//! The schema of a container: the properties of a sample of its items, with types and frequency.
//!
//! The sample takes items from every physical partition, the first of each, so that it costs little
//! and is no random sample. System properties are left out, because every item has them.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Properties of a schema; further ones are counted and left out.
const PATHS_MAX: usize = 300;
/// Objects and arrays inside of each other that are looked into.
const DEPTH_MAX: usize = 8;
/// Properties that the service adds.
const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/// The properties of items.
#[derive(Debug, Default)]
pub(super) struct Schema {
    items: usize,
    paths: BTreeMap<String, Property>,
    /// Properties over the bound.
    left_out: usize,
}

#[derive(Debug, Default)]
struct Property {
    /// Items with the property.
    items: usize,
    /// Number of the last item that was counted.
    last: usize,
    /// Values by their type.
    types: BTreeMap<&'static str, usize>,
}

impl Schema {
    /// Adds an item.
    pub(super) fn add(&mut self, item: &Value) {
        self.items += 1;
        if let Value::Object(members) = item {
            for (name, value) in members {
                if !SYSTEM.contains(&name.as_str()) {
                    self.add_value(format!("/{name}"), value, 1);
                }
            }
        }
    }

    fn add_value(&mut self, path: String, value: &Value, depth: usize) {
        if !self.paths.contains_key(&path) && self.paths.len() >= PATHS_MAX {
            self.left_out += 1;
            return;
        }
        let property = self.paths.entry(path.clone()).or_default();
        *property.types.entry(type_of(value)).or_default() += 1;
        if property.last != self.items {
            property.last = self.items;
            property.items += 1;
        }
        if depth == DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.add_value(format!("{path}/{name}"), value, depth + 1);
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    self.add_value(format!("{path}/[]"), element, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Returns the schema: paths as indexing policies write them, the share of items with each, and
    /// its types.
    pub(super) fn to_json(&self) -> Value {
        let share =
            |count: usize| (count as f64 / self.items.max(1) as f64 * 1000.0).round() / 1000.0;
        let properties: Vec<Value> = self
            .paths
            .iter()
            .map(|(path, property)| {
                let types: Map<String, Value> = property
                    .types
                    .iter()
                    .map(|(name, count)| ((*name).to_owned(), (*count).into()))
                    .collect();
                json!({"path": path, "frequency": share(property.items), "types": types})
            })
            .collect();
        let mut schema = json!({"sampledItems": self.items, "properties": properties});
        if self.left_out > 0 {
            schema["note"] = format!("only the first {PATHS_MAX} paths are listed").into();
        }
        schema
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_paths_types_and_the_share_of_items() {
        let mut schema = Schema::default();
        schema.add(&json!({"id": "1", "_ts": 1, "tags": ["a", "b"], "n": 1}));
        schema.add(&json!({"id": "2", "n": {"x": 1.5}}));
        let found = schema.to_json();
        assert_eq!(found["sampledItems"], 2);
        assert_eq!(
            found["properties"],
            json!([
                {"path": "/id", "frequency": 1.0, "types": {"string": 2}},
                {"path": "/n", "frequency": 1.0, "types": {"integer": 1, "object": 1}},
                {"path": "/n/x", "frequency": 0.5, "types": {"number": 1}},
                {"path": "/tags", "frequency": 0.5, "types": {"array": 1}},
                {"path": "/tags/[]", "frequency": 0.5, "types": {"string": 2}},
            ])
        );
    }

    #[test]
    fn a_schema_without_end_is_cut() {
        let mut schema = Schema::default();
        let mut members = Map::new();
        for number in 0..PATHS_MAX + 5 {
            members.insert(format!("p{number}"), Value::Null);
        }
        schema.add(&Value::Object(members));
        let found = schema.to_json();
        assert_eq!(found["properties"].as_array().unwrap().len(), PATHS_MAX);
        assert!(found["note"].is_string());
    }
}
