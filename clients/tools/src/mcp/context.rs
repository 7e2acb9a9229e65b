//! Resources and prompts: the schema of each container, and questions that assistants can ask well.

use super::account::{Account, ToolError, text};
use super::reading::described;
use super::wire::Members;
use orrery_client::container_link;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Scheme and empty host of the address of a resource.
const SCHEME: &str = "orrery:///";
/// Items of the sample behind a resource.
const SAMPLE: usize = 100;

/// Lists the containers of the view as resources.
pub(super) async fn resources(account: &Account) -> Result<Value, ToolError> {
    let mut resources = Vec::new();
    for database in account.databases().await?.0 {
        for container in account.containers(&database).await?.0 {
            let container = container["id"].as_str().unwrap_or_default();
            resources.push(json!({
                "uri": format!("{SCHEME}{}/{}/schema", escaped(&database), escaped(container)),
                "name": format!("{database}/{container}"),
                "title": format!("Schema of {database}/{container}"),
                "description": "Partition key, indexing policy, throughput and properties of a \
                                sample of the items",
                "mimeType": "application/json",
            }));
        }
    }
    Ok(json!({"resources": resources}))
}

/// Returns the form of the addresses of resources.
pub(super) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": format!("{SCHEME}{{database}}/{{container}}/schema"),
        "name": "schema",
        "title": "Schema of a container",
        "mimeType": "application/json",
    }]})
}

/// Reads the resource at `uri`; `None` if no resource can have this address.
pub(super) async fn read(account: &Account, uri: &str) -> Option<Result<Value, ToolError>> {
    let path = uri.strip_prefix(SCHEME)?.strip_suffix("/schema")?;
    let (database, container) = path.split_once('/')?;
    let (database, container) = (unescaped(database)?, unescaped(container)?);
    // The names pass the same checks as those of a tool's arguments.
    let mut arguments = Members::new();
    for (name, value) in [("database", database), ("container", container)] {
        let value = serde_json::value::to_raw_value(&value).ok()?;
        arguments.insert(name.to_owned(), value);
    }
    let link = match account.container(&arguments) {
        Ok(link) => link,
        Err(error) => return Some(Err(error)),
    };
    let text = match described(account, &link, SAMPLE).await {
        Ok(described) => described.to_string(),
        Err(error) => return Some(Err(error)),
    };
    let contents = json!([{"uri": uri, "mimeType": "application/json", "text": text}]);
    Some(Ok(json!({ "contents": contents })))
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            // A String takes every text.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = tail.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}

fn argument(name: &str, text: &str, is_needed: bool) -> Value {
    json!({"name": name, "description": text, "required": is_needed})
}

/// Lists the prompts.
pub(super) fn prompts() -> Value {
    let database = argument("database", "Name of the database", true);
    let container = argument("container", "Name of the container", true);
    json!({"prompts": [
        {
            "name": "choose_partition_key",
            "title": "Choose a partition key",
            "description": "Compares partition keys for a container by its items and its queries",
            "arguments": [
                database, container,
                argument("queries", "The most frequent queries and writes, in words or SQL", false),
            ],
        },
        {
            "name": "reduce_query_charge",
            "title": "Reduce the charge of a query",
            "description": "Explains the charge of a query and proposes changes",
            "arguments": [database, container, argument("query", "The query", true)],
        },
    ]})
}

/// Returns the messages of a prompt.
///
/// # Errors
/// The prompt is unknown, or an argument is missing.
pub(super) fn prompt(name: &str, arguments: &Members) -> Result<Value, ToolError> {
    let needed = |name: &str| {
        let missing = || ToolError(format!("the argument {name} is missing"));
        text(arguments, name)?.ok_or_else(missing)
    };
    let words = match name {
        "choose_partition_key" => {
            let link = container_link(&needed("database")?, &needed("container")?);
            let queries = text(arguments, "queries")?;
            let queries = queries.map_or_else(
                || "Ask me for the most frequent queries and writes first.".to_owned(),
                |queries| format!("The most frequent queries and writes are: {queries}."),
            );
            format!(
                "Help me to choose a partition key for the container {link}. {queries} Call \
                 describe_container and partition_statistics. For each property that could be the \
                 key, say how many distinct values it has, how evenly items and writes are \
                 distributed over them, which of the queries then ask one partition, and if a \
                 logical partition could reach 20 GB. Compare at most three candidates, \
                 hierarchical keys too, and recommend one."
            )
        }
        "reduce_query_charge" => {
            let link = container_link(&needed("database")?, &needed("container")?);
            let query = needed("query")?;
            format!(
                "Reduce the request charge of this query on the container {link}: {query} Call \
                 describe_container and explain_query. Say which part of the charge comes from \
                 loading items, from the index and from asking several partitions. Propose a form \
                 of the query, composite indexes or a partition key filter, and compare the \
                 charges with explain_query where that is possible without a write."
            )
        }
        _ => return Err(ToolError(format!("there is no prompt {name}"))),
    };
    Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_addresses_are_escaped_and_back() {
        assert_eq!(escaped("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(unescaped("a%20b%2F%C3%BC").as_deref(), Some("a b/ü"));
        for wrong in ["%", "%2", "%zz", "%FF"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }
}
