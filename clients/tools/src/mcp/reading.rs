//! The tools that read.

use super::account::{
    Account, ToolError, item_id, json_of, needed_key, needed_text, partition_key, text, typed,
};
use super::rows::{self, Asked};
use super::sample::Schema;
use super::wire::Members;
use crate::query::{ALL_FEATURES, QueryError, QueryOptions, run as run_query};
use orrery_client::{ClientError, QueryText, Scope};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::Arc;

/// Items of a sample without an argument, and at most.
const SAMPLE: usize = 100;
const SAMPLE_MAX: usize = 1000;
/// Physical partitions that a sample asks.
const SAMPLED_PARTITIONS_MAX: usize = 10;
/// Rows without an argument, and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 10_000;
pub(super) async fn list_databases(
    account: Arc<Account>,
    _arguments: Members,
) -> Result<String, ToolError> {
    let (databases, charge) = account.databases().await?;
    Ok(
        json!({"endpoint": account.endpoint(), "databases": databases, "requestCharge": charge})
            .to_string(),
    )
}

pub(super) async fn list_containers(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let database = account.database(&arguments)?;
    let (found, charge) = account.containers(&database).await?;
    let containers: Vec<Value> = found
        .iter()
        .map(|c| json!({"name": c["id"], "partitionKeyPaths": c["partitionKey"]["paths"]}))
        .collect();
    Ok(
        json!({"database": database, "containers": containers, "requestCharge": charge})
            .to_string(),
    )
}

/// Returns a number among the arguments, or the default; the maximum if it is higher.
fn bounded(
    arguments: &Members,
    name: &str,
    default: usize,
    most: usize,
) -> Result<usize, ToolError> {
    let given: Option<usize> = typed(arguments, name, "a whole number from 1 on")?;
    match given {
        Some(0) => Err(ToolError(format!(
            "the argument {name} is not a whole number from 1 on"
        ))),
        given => Ok(given.unwrap_or(default).min(most)),
    }
}

pub(super) async fn describe_container(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let link = account.container(&arguments)?;
    let size = bounded(&arguments, "sample_size", SAMPLE, SAMPLE_MAX)?;
    described(&account, &link, size)
        .await
        .map(|v| v.to_string())
}

/// Returns the description of the container at `link`, with the schema of a sample.
pub(super) async fn described(
    account: &Account,
    link: &str,
    sample_size: usize,
) -> Result<Value, ToolError> {
    let answer = account.client()?.read(link).await;
    let answer = account.count(answer)?;
    let mut charge = answer.charge();
    let definition: Value = json_of(&answer)?;
    let mut described = json!({"database": link.split('/').nth(1), "container": definition["id"]});
    for name in [
        "partitionKey",
        "indexingPolicy",
        "uniqueKeyPolicy",
        "conflictResolutionPolicy",
        "computedProperties",
        "vectorEmbeddingPolicy",
        "fullTextPolicy",
        "defaultTtl",
    ] {
        if !definition[name].is_null() {
            described[name] = definition[name].clone();
        }
    }
    let rid = definition["_rid"].as_str().unwrap_or_default();
    described["throughput"] = match account.throughput(rid).await {
        Ok(Some(own)) => own,
        Ok(None) => "shared with the containers of the database, or serverless".into(),
        Err(error) => format!("not known: {error}").into(),
    };
    let (schema, sample_charge) = sample(account, link, sample_size).await?;
    charge += sample_charge;
    described["schema"] = schema.to_json();
    described["requestCharge"] = charge.into();
    Ok(described)
}

/// Returns the schema of a sample of items, the first of each physical partition, and the charge.
async fn sample(account: &Account, link: &str, size: usize) -> Result<(Schema, f64), ToolError> {
    let failed = |error: ClientError| ToolError(error.to_string());
    let ranges = account.client()?.fresh_ranges(link).await.map_err(failed)?;
    let asked = ranges.len().min(SAMPLED_PARTITIONS_MAX);
    let query = QueryText::new("SELECT * FROM c");
    let (mut schema, mut charge) = (Schema::default(), 0.0);
    for range in ranges.iter().take(asked) {
        let scope = Scope::Range(&range.id);
        let size = size.div_ceil(asked);
        let client = account.client()?;
        let page = client
            .query_page(link, &query, scope, size, None, Vec::new())
            .await;
        let page = page.map_err(|error| match account.count(Err(error)) {
            Ok(_) => ToolError::new("the sample cannot be read"),
            Err(error) => error,
        })?;
        account.add(page.answer.charge());
        charge += page.answer.charge();
        for row in page.rows {
            // A row of the server's answer is JSON, because the answer was parsed.
            if let Ok(item) = serde_json::from_str(row.get()) {
                schema.add(&item);
            }
        }
    }
    Ok((schema, charge))
}

/// Returns the query text and parameters of the arguments.
fn query_text(arguments: &Members) -> Result<QueryText, ToolError> {
    let mut query = QueryText::new(needed_text(arguments, "query")?);
    let parameters: Option<serde_json::Map<String, Value>> =
        typed(arguments, "parameters", "an object")?;
    for (name, value) in parameters.unwrap_or_default() {
        let name = format!("@{}", name.trim_start_matches('@'));
        query.parameters.push((name, value));
    }
    Ok(query)
}

pub(super) async fn query(account: Arc<Account>, arguments: Members) -> Result<String, ToolError> {
    let asked = Asked {
        container: account.container(&arguments)?,
        query: query_text(&arguments)?,
        key: partition_key(&arguments)?,
        max_rows: bounded(&arguments, "max_rows", ROWS, ROWS_MAX)?,
        continuation: text(&arguments, "continuation")?,
    };
    let found = rows::run(&account, &asked).await?;
    // The rows keep the digits that the server sent.
    let rows: Vec<&str> = found.rows.iter().map(|row| row.get()).collect();
    let mut rest = json!({"rowCount": rows.len(), "requestCharge": found.charge,
        "isComplete": found.continuation.is_none()});
    if let Some(continuation) = found.continuation {
        rest["continuation"] = continuation.into();
    }
    if !found.notes.is_empty() {
        rest["notes"] = found.notes.into();
    }
    let rest = rest.to_string();
    Ok(format!("{{\"rows\":[{}],{}", rows.join(","), &rest[1..]))
}

pub(super) async fn explain_query(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let options = QueryOptions {
        container: account.container(&arguments)?,
        query: query_text(&arguments)?,
        partition_key: partition_key(&arguments)?,
        max_rows: None,
        // The first page has a charge, so the run ends with it.
        max_charge: Some(f64::MIN_POSITIVE),
        explains: true,
        counts_partitions: false,
    };
    let client = account.client()?;
    let outcome = match run_query(client, &options).await {
        Ok(outcome) => outcome,
        Err(QueryError::Client(error)) => {
            return account.count(Err(error)).map(|_| String::new());
        }
        Err(error) => return Err(error.into()),
    };
    account.add(outcome.charge);
    let mut explained = json!({
        "requestCharge": outcome.charge,
        "rowsOfFirstPage": outcome.rows.len(),
        "physicalPartitions": outcome.partitions,
        "isCrossPartition": options.partition_key.is_none(),
        "milliseconds": outcome.elapsed.as_secs_f64() * 1000.0,
    });
    for (title, text) in outcome.explanations {
        let title = title.split(", page").next().unwrap_or_default().to_owned();
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        explained[title] = value;
    }
    // The plan is an extra: an endpoint that gives none is no failure.
    let plan = account.client()?;
    let plan = plan
        .query_plan(&options.container, &options.query, ALL_FEATURES)
        .await;
    if let Ok(answer) = account.count(plan)
        && let Ok(plan) = json_of::<Value>(&answer)
    {
        explained["clientPlan"] = plan;
    }
    if options.partition_key.is_none() && outcome.partitions > 1 {
        explained["hint"] = format!(
            "the query asks all {} physical partitions; with partition_key it asks one",
            outcome.partitions
        )
        .into();
    }
    Ok(explained.to_string())
}

pub(super) async fn get_item(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let container = account.container(&arguments)?;
    let (id, key) = (item_id(&arguments)?, needed_key(&arguments)?);
    let answer = account.client()?.read_item(&container, &key, &id).await;
    let answer = account.count(answer)?;
    let item: Box<RawValue> = json_of(&answer)?;
    let most = account.options.result_bytes_max;
    if item.get().len() > most {
        return Err(ToolError(format!(
            "the item has {} bytes, and an answer has at most {most}: read a part of it with the \
             tool query",
            item.get().len()
        )));
    }
    Ok(format!(
        "{{\"item\":{},\"requestCharge\":{}}}",
        item.get(),
        answer.charge()
    ))
}

pub(super) async fn partition_statistics(
    account: Arc<Account>,
    arguments: Members,
) -> Result<String, ToolError> {
    let link = account.container(&arguments)?;
    let answer = account.client()?.read_container(&link, true).await;
    let answer = account.count(answer)?;
    let definition: Value = json_of(&answer)?;
    let failed = |error: ClientError| ToolError(error.to_string());
    let ranges = account
        .client()?
        .fresh_ranges(&link)
        .await
        .map_err(failed)?;
    let statistics = definition["statistics"].as_array();
    let partitions: Vec<Value> = ranges
        .iter()
        .map(|range| {
            let mut partition = json!({"id": range.id, "minInclusive": range.min,
                "maxExclusive": range.max});
            let of_range = |s: &&Value| s["id"].as_str() == Some(&range.id);
            if let Some(known) = statistics.and_then(|all| all.iter().find(of_range)) {
                for name in ["sizeInKB", "documentCount", "partitionKeys"] {
                    partition[name] = known[name].clone();
                }
            }
            partition
        })
        .collect();
    let mut result = json!({
        "partitionKeyPaths": definition["partitionKey"]["paths"],
        "physicalPartitions": partitions,
        "requestCharge": answer.charge(),
    });
    if let Some(usage) = answer.header("x-ms-resource-usage") {
        result["usage"] = usage.into();
    }
    if statistics.is_none() {
        result["note"] = "this endpoint does not give sizes and keys of physical partitions".into();
    }
    Ok(result.to_string())
}
