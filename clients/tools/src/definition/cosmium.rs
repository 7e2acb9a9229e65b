//! The state file of cosmium: objects of databases, collections, documents and scripts by id.

use super::members::Members;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition, Script, Trigger};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A value for each container, by the ids of database and container.
type ByContainer<T> = Option<BTreeMap<String, Option<BTreeMap<String, Option<T>>>>>;
type ById<T> = BTreeMap<String, T>;

/// The file. Lists may be null.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    databases: BTreeMap<String, Value>,
    #[serde(default)]
    collections: ByContainer<Value>,
    #[serde(default)]
    documents: ByContainer<ById<Box<RawValue>>>,
    #[serde(default)]
    triggers: ByContainer<ById<Value>>,
    #[serde(default)]
    sprocs: ByContainer<ById<Value>>,
    #[serde(default)]
    udfs: ByContainer<ById<Value>>,
}

/// Parses a state file; `None` if the text is something else: there, `databases` is an array.
pub(super) fn parse(text: &str) -> Option<Result<Definition, String>> {
    let members = Members::parse(text).ok()?;
    if !members.get("databases")?.starts_with('{') {
        return None;
    }
    let state = serde_json::from_str::<State>(text).map_err(|error| error.to_string());
    Some(state.and_then(definition))
}

fn definition(mut state: State) -> Result<Definition, String> {
    let mut definition = Definition::default();
    for id in state.databases.into_keys() {
        let collections = take(&mut state.collections, &id);
        let mut documents = take(&mut state.documents, &id);
        let mut triggers = take(&mut state.triggers, &id);
        let mut sprocs = take(&mut state.sprocs, &id);
        let mut udfs = take(&mut state.udfs, &id);
        let mut database = DatabaseDefinition {
            id,
            ..DatabaseDefinition::default()
        };
        for (id, settings) in collections {
            let mut container = container(&id, settings.unwrap_or_default())?;
            for item in documents.remove(&id).flatten().unwrap_or_default().values() {
                let text = Members::parse(item.get())?.without_system_properties();
                container
                    .items
                    .push(RawValue::from_string(text).map_err(|e| e.to_string())?);
            }
            container.stored_procedures = scripts(sprocs.remove(&id).flatten());
            container.user_defined_functions = scripts(udfs.remove(&id).flatten());
            for (id, value) in triggers.remove(&id).flatten().unwrap_or_default() {
                let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
                container.triggers.push(Trigger {
                    id,
                    trigger_type: text("triggerType"),
                    trigger_operation: text("triggerOperation"),
                    body: text("body"),
                });
            }
            database.containers.push(container);
        }
        definition.databases.push(database);
    }
    Ok(definition)
}

fn take<T>(all: &mut ByContainer<T>, database: &str) -> BTreeMap<String, Option<T>> {
    let found = all.as_mut().and_then(|all| all.remove(database));
    found.flatten().unwrap_or_default()
}

/// Returns a container with the settings that the file has: partition key and indexing policy. An
/// indexing policy without paths is cosmium's own default, not a statement.
fn container(id: &str, mut settings: Value) -> Result<ContainerDefinition, String> {
    let mut taken = |place: &str| {
        settings
            .pointer_mut(place)
            .map(Value::take)
            .unwrap_or_default()
    };
    let paths = taken("/partitionKey/paths");
    if !paths.is_array() {
        return Err(format!("the collection '{id}' has no partitionKey.paths"));
    }
    let kind = match paths.as_array().is_some_and(|paths| paths.len() > 1) {
        true => "MultiHash",
        false => "Hash",
    };
    let policy = taken("/indexingPolicy");
    let states_paths = policy["includedPaths"]
        .as_array()
        .is_some_and(|p| !p.is_empty());
    Ok(ContainerDefinition {
        id: id.to_owned(),
        partition_key: Some(serde_json::json!({"paths": paths, "kind": kind, "version": 2})),
        indexing_policy: states_paths.then_some(policy),
        ..ContainerDefinition::default()
    })
}

fn scripts(listed: Option<ById<Value>>) -> Vec<Script> {
    let listed = listed.unwrap_or_default().into_iter();
    let scripts = listed.map(|(id, value)| Script {
        id,
        body: value["body"].as_str().unwrap_or_default().to_owned(),
    });
    scripts.collect()
}
