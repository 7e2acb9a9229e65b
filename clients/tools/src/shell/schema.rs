//! The description of a container: its definition, and the properties of a sample of its items.

use super::fault::{ShellError, of_query};
use super::places::paths;
use super::session::{Session, note, say};
use crate::query::{Cursor, QueryOptions, QueryOutcome};
use crate::raw::{Members, indented};
use crate::table::on_one_line;
use orrery_client::QueryText;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Items of the sample.
const SAMPLE: usize = 100;
/// Depth of properties that are listed.
const DEPTH_MAX: usize = 4;

impl Session {
    /// Prints the description of the container.
    pub(super) async fn schema(&mut self) -> Result<(), ShellError> {
        let container = self.container_link()?;
        let answer = self.client.read_container(&container, false).await?;
        let definition: Value = answer.json()?;
        let ranges = self.client.fresh_ranges(&container).await?;
        let mut text = format!(
            "partition key: {}\nphysical partitions: {}\n",
            paths(&definition),
            ranges.len()
        );
        for (name, title) in [
            ("defaultTtl", "time to live"),
            ("uniqueKeyPolicy", "unique keys"),
            ("computedProperties", "computed properties"),
            ("conflictResolutionPolicy", "conflict resolution"),
            ("indexingPolicy", "indexing policy"),
        ] {
            let value = &definition[name];
            if !value.is_null() {
                text.push_str(&format!("{title}: {}\n", indented(&value.to_string())));
            }
        }

        // The sample costs request units, as any other query.
        let query = format!("SELECT TOP {SAMPLE} * FROM c");
        let mut cursor = Cursor::new(QueryOptions {
            container,
            query: QueryText::new(&*query),
            partition_key: None,
            max_rows: Some(SAMPLE),
            max_charge: None,
            explains: false,
            counts_partitions: false,
        });
        let mut sample = QueryOutcome::default();
        let fetched = cursor.fetch(&self.client, &mut sample).await;
        self.totals.charge += sample.charge + answer.charge();
        self.totals.elapsed += sample.elapsed + answer.elapsed;
        fetched.map_err(|error| of_query(&error, &query))?;
        self.names.add_rows(&sample.rows);
        text.push_str(&described(&sample.rows));
        say(&text)?;
        if self.options.tells_costs {
            let charge = sample.charge + answer.charge();
            note(&format!("{} items, {charge:.2} RU", sample.rows.len()));
        }
        Ok(())
    }
}

/// The values of a property in the sample.
#[derive(Debug, Default)]
struct Seen {
    count: usize,
    types: BTreeSet<&'static str>,
}

/// Returns the properties of a sample with their types, and their shares if they are not in every
/// item.
fn described(rows: &[Box<RawValue>]) -> String {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    for row in rows {
        add("", row.get(), 1, &mut seen);
    }
    let mut text = format!("properties of {} sampled items:\n", rows.len());
    let width = seen.keys().map(|path| path.chars().count()).max();
    let width = width.unwrap_or(0).min(40);
    for (path, seen) in &seen {
        let types = seen.types.iter().copied().collect::<Vec<_>>().join(" or ");
        let path = on_one_line(path);
        text.push_str(&format!("  {path:width$}  {types}"));
        if seen.count < rows.len() {
            text.push_str(&format!(", in {} of {}", seen.count, rows.len()));
        }
        text.push('\n');
    }
    text
}

fn add(prefix: &str, object: &str, depth: usize, seen: &mut BTreeMap<String, Seen>) {
    let Some(Members(members)) = Members::of(object) else {
        return;
    };
    for (name, value) in members {
        let kind = match value.get().as_bytes().first() {
            Some(b'"') => "string",
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b't' | b'f') => "boolean",
            Some(b'n') => "null",
            _ => "number",
        };
        let path = format!("{prefix}{name}");
        if kind == "object" && depth < DEPTH_MAX {
            add(&format!("{path}."), value.get(), depth + 1, seen);
        }
        let entry = seen.entry(path).or_default();
        entry.count += 1;
        entry.types.insert(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_types_and_shares() {
        let rows = [
            r#"{"id":"1","n":7,"at":{"x":null}}"#,
            r#"{"id":"2","n":"7"}"#,
        ];
        let rows = rows.map(|row| RawValue::from_string(row.into()).unwrap());
        let expected = "properties of 2 sampled items:\n  at    object, in 1 of 2\n  \
                        at.x  null, in 1 of 2\n  id    string\n  n     number or string\n";
        assert_eq!(described(&rows), expected);
    }
}
