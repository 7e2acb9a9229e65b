//! The tools that change something. [`super::tools`] offers them only if the session allows writes.

use super::account::{
    Account, ToolError, item_id, needed_key, raw, text, typed, wanted_throughput,
};
use super::wire::Members;
use orrery_client::{Answer, database_link};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the answer of a write: charge and etag.
fn done(what: &str, answer: &Answer) -> String {
    let mut result = json!({"done": what, "requestCharge": answer.charge()});
    if let Some(etag) = answer.header("etag") {
        result["etag"] = etag.into();
    }
    result.to_string()
}

/// Returns the text of an argument that is an object or an array.
fn structure<'a>(
    arguments: &'a Members,
    name: &str,
    first: char,
    form: &str,
) -> Result<&'a RawValue, ToolError> {
    let value =
        raw(arguments, name).ok_or_else(|| ToolError(format!("the argument {name} is missing")))?;
    match value.get().starts_with(first) {
        true => Ok(value),
        false => Err(ToolError(format!("the argument {name} is not {form}"))),
    }
}

pub(super) async fn create_item(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let (container, key) = (account.container(&arguments)?, needed_key(&arguments)?);
    let item = structure(&arguments, "item", '{', "an object")?;
    let client = account.client()?;
    let answer = client
        .create_item(&container, &key, item.get().to_owned())
        .await;
    Ok(done("created", &account.count(answer)?))
}

pub(super) async fn upsert_item(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let (container, key) = (account.container(&arguments)?, needed_key(&arguments)?);
    let item = structure(&arguments, "item", '{', "an object")?;
    let client = account.client()?;
    let answer = client
        .upsert_item(&container, &key, item.get().to_owned())
        .await;
    let answer = account.count(answer)?;
    let what = match answer.status {
        201 => "created",
        _ => "replaced",
    };
    Ok(done(what, &answer))
}

pub(super) async fn patch_item(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let (container, key) = (account.container(&arguments)?, needed_key(&arguments)?);
    let id = item_id(&arguments)?;
    let etag = text(&arguments, "etag")?;
    let operations = structure(&arguments, "operations", '[', "an array")?;
    let body = format!("{{\"operations\":{}}}", operations.get());
    let client = account.client()?;
    let answer = client
        .patch_item(&container, &key, &id, body, etag.as_deref())
        .await;
    Ok(done("patched", &account.count(answer)?))
}

pub(super) async fn delete_item(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let (container, key) = (account.container(&arguments)?, needed_key(&arguments)?);
    let id = item_id(&arguments)?;
    let etag = text(&arguments, "etag")?;
    let client = account.client()?;
    let answer = client
        .delete_item(&container, &key, &id, etag.as_deref())
        .await;
    Ok(done("deleted", &account.count(answer)?))
}

pub(super) async fn create_database(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let name = account.database(&arguments)?;
    let throughput = wanted_throughput(&arguments)?;
    let answer = account.client()?.create_database(&name, throughput).await;
    Ok(done("created", &account.count(answer)?))
}

pub(super) async fn create_container(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let link = account.container(&arguments)?;
    let name = link.rsplit('/').next().unwrap_or_default();
    let paths: Option<Vec<String>> =
        typed(&arguments, "partition_key_paths", "an array of strings")?;
    let paths = paths
        .filter(|paths| !paths.is_empty())
        .ok_or_else(|| ToolError::new("the argument partition_key_paths is missing"))?;
    let kind = match paths.len() {
        1 => "Hash",
        _ => "MultiHash",
    };
    let mut definition = json!({"id": name,
        "partitionKey": {"paths": paths, "kind": kind, "version": 2}});
    if let Some(policy) = typed::<Value>(&arguments, "indexing_policy", "an object")? {
        definition["indexingPolicy"] = policy;
    }
    if let Some(seconds) = typed::<i64>(&arguments, "default_ttl", "a whole number")? {
        definition["defaultTtl"] = seconds.into();
    }
    let throughput = wanted_throughput(&arguments)?;
    let database = database_link(&account.database(&arguments)?);
    let client = account.client()?;
    let answer = client
        .create_container(&database, &definition, throughput)
        .await;
    Ok(done("created", &account.count(answer)?))
}

pub(super) async fn delete_container(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let container = account.container(&arguments)?;
    let answer = account.client()?.delete(&container).await;
    Ok(done("deleted", &account.count(answer)?))
}
