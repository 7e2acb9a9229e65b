//! Reads the definition of an account: databases, containers, scripts and, if asked, items.
//!
//! Everything is sorted by id, and items also by partition key, so that equal accounts give equal
//! text. Items of a container are held in memory; `orrery export` is for large containers.

use super::members::Members;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition, Script, Trigger};
use super::{DefinitionError, failed};
use orrery_client::{
    Client, ClientError, QueryText, Scope, ScriptKind, container_link, database_link,
};
use serde_json::Value;
use serde_json::value::RawValue;

/// Reads the definition of all databases, or of the named one.
///
/// # Errors
/// [`DefinitionError::Request`] for the first request that fails.
pub async fn dump(
    client: &Client,
    database: Option<&str>,
    with_items: bool,
) -> Result<Definition, DefinitionError> {
    let mut definition = Definition::default();
    let databases = match database {
        Some(id) => vec![id.to_owned()],
        None => ids(&client.databases().await.map_err(failed("databases"))?),
    };
    for id in databases {
        let link = database_link(&id);
        let name = format!("database {id}");
        let offer = client.offer(&link).await.map_err(failed(&name))?;
        let keys = encryption_keys(client, &link)
            .await
            .map_err(failed(&name))?;
        let mut listed = client.containers(&link).await.map_err(failed(&name))?;
        listed.sort_by_key(|resource| text(resource, "id"));
        let mut containers = Vec::new();
        for body in listed {
            let name = format!("container {id}/{}", text(&body, "id"));
            let container = container(client, &id, body, with_items).await;
            containers.push(container.map_err(failed(name))?);
        }
        definition.databases.push(DatabaseDefinition {
            id,
            throughput: offer.map(|offer| offer.throughput.into()),
            client_encryption_keys: keys,
            containers,
        });
    }
    Ok(definition)
}

/// Reads the client encryption keys of a database, without what the server adds to them: none from
/// a server that has no such resource.
pub(crate) async fn encryption_keys(
    client: &Client,
    link: &str,
) -> Result<Vec<Value>, ClientError> {
    let mut keys = match client.encryption_keys(link).await {
        Ok(keys) => keys,
        Err(error) if error.status().is_some_and(is_of_unknown_path) => Vec::new(),
        Err(error) => return Err(error),
    };
    for key in &mut keys {
        if let Some(members) = key.as_object_mut() {
            members.retain(|name, _| !name.starts_with('_'));
        }
    }
    keys.sort_by_key(|key| text(key, "id"));
    Ok(keys)
}

/// Returns true for a status by which servers refuse a path that they do not know.
fn is_of_unknown_path(status: u16) -> bool {
    matches!(status, 400 | 404 | 405 | 501)
}

async fn container(
    client: &Client,
    database: &str,
    mut body: Value,
    with_items: bool,
) -> Result<ContainerDefinition, ClientError> {
    let id = text(&body, "id");
    let link = container_link(database, &id);
    let mut container = ContainerDefinition {
        id,
        ..ContainerDefinition::default()
    };
    container.throughput = client
        .offer(&link)
        .await?
        .map(|offer| offer.throughput.into());
    for (name, setting) in container.settings() {
        *setting = body.get_mut(name).map(Value::take);
    }
    let script = |value: Value| Script {
        id: text(&value, "id"),
        body: text(&value, "body"),
    };
    let procedures = sorted_scripts(client, &link, ScriptKind::Procedure).await?;
    container.stored_procedures = procedures.into_iter().map(script).collect();
    let functions = sorted_scripts(client, &link, ScriptKind::Function).await?;
    container.user_defined_functions = functions.into_iter().map(script).collect();
    let triggers = sorted_scripts(client, &link, ScriptKind::Trigger).await?;
    let triggers = triggers.into_iter().map(|value| Trigger {
        id: text(&value, "id"),
        trigger_type: text(&value, "triggerType"),
        trigger_operation: text(&value, "triggerOperation"),
        body: text(&value, "body"),
    });
    container.triggers = triggers.collect();
    if with_items {
        let paths = container.partition_key.as_ref().map(|key| &key["paths"]);
        let paths = paths.and_then(Value::as_array).into_iter().flatten();
        let paths: Vec<String> = paths.filter_map(Value::as_str).map(str::to_owned).collect();
        container.items = items(client, &link, &paths).await?;
    }
    Ok(container)
}

/// Reads all items of a container, one physical partition after the other.
async fn items(
    client: &Client,
    link: &str,
    paths: &[String],
) -> Result<Vec<Box<RawValue>>, ClientError> {
    let query = QueryText::new("SELECT * FROM c");
    let mut items = Vec::new();
    for range in client.fresh_ranges(link).await?.iter() {
        let mut position: Option<String> = None;
        loop {
            let scope = Scope::Range(&range.id);
            let page = client.query_page(link, &query, scope, 0, position.as_deref(), Vec::new());
            let page = page.await?;
            let unexpected = |reason: String| ClientError::Unexpected {
                operation: page.answer.operation.clone(),
                reason,
            };
            for row in &page.rows {
                let members = Members::parse(row.get()).map_err(unexpected)?;
                let order = (members.id(), members.key(paths));
                let item = RawValue::from_string(members.without_system_properties());
                items.push((order, item.map_err(|e| unexpected(e.to_string()))?));
            }
            position = page.continuation;
            if position.is_none() {
                break;
            }
        }
    }
    items.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

async fn sorted_scripts(
    client: &Client,
    link: &str,
    kind: ScriptKind,
) -> Result<Vec<Value>, ClientError> {
    let mut scripts = client.scripts(link, kind).await?;
    scripts.sort_by_key(|resource| text(resource, "id"));
    Ok(scripts)
}

fn ids(listed: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = listed.iter().map(|value| text(value, "id")).collect();
    ids.sort();
    ids
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
