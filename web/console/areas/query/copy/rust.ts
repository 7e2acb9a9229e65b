/** Writes a query as a program for the Rust SDK, `azure_data_cosmos`. */

import { isNumber, jsonText } from "../../../api/exact-json.ts";
import { isPlain, joinedLines, type KeyValue, type QueryToCopy } from "./request.ts";

/** Returns a Rust string literal. */
export function rustString(text: string): string {
  let literal = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"') literal += '\\"';
    else if (character === "\\") literal += "\\\\";
    else if (character === "\n") literal += "\\n";
    else if (character === "\r") literal += "\\r";
    else if (character === "\t") literal += "\\t";
    // A lone surrogate is no character of Rust.
    else if (code >= 0xd800 && code < 0xe000) literal += "\\u{fffd}";
    else if (code < 0x20 || code >= 0x7f) literal += `\\u{${code.toString(16)}}`;
    else literal += character;
  }
  return `"${literal}"`;
}

function rustValue(value: unknown): string {
  if (!isPlain(value)) {
    return `serde_json::from_str::<Value>(${rustString(jsonText(value))})?`;
  }
  if (value === null) return "Value::Null";
  if (typeof value === "string") return rustString(value);
  if (typeof value !== "number") return String(value);
  return Number.isSafeInteger(value) ? `${value}_i64` : `${value}_f64`;
}

function rustKey(values: readonly KeyValue[]): string {
  const parts = values.map((value) => {
    if (value === null) return "PartitionKeyValue::NULL";
    if (isNumber(value)) return `PartitionKeyValue::try_from(${value}_f64)?`;
    if (typeof value === "boolean") return `PartitionKeyValue::from(${value})`;
    return `PartitionKeyValue::from(${rustString(value)}.to_owned())`;
  });
  return `FeedScope::partition(PartitionKey::try_from(vec![${parts.join(", ")}])?)`;
}

/** Returns the program, a file `src/main.rs`. */
export function rust(copy: QueryToCopy): string {
  const parameters = copy.parameters.map(
    ({ name, value }) => `\n        .with_parameter(${rustString(name)}, ${rustValue(value)})?`,
  );
  const names = ["AccountReference", "CosmosClient", "FeedScope"];
  if (copy.partitionKey) names.push("PartitionKey");
  names.push("Query", "RoutingStrategy");
  const optionNames = copy.pageSize === null ? "QueryOptions" : "{MaxItemCountHint, QueryOptions}";
  const size = `MaxItemCountHint::Limit(${copy.pageSize}.try_into()?)`;
  const setSize = copy.pageSize === null ? "" : `.with_max_item_count(${size})`;
  const scope = copy.partitionKey ? rustKey(copy.partitionKey) : "FeedScope::full_container()";
  return `// cargo add azure_data_cosmos@1 futures serde_json
// cargo add tokio --features rt,macros
${copy.partitionKey ? "use azure_data_cosmos::models::PartitionKeyValue;\n" : ""}use azure_data_cosmos::options::${optionNames};
use azure_data_cosmos::{${names.join(", ")}};
use futures::StreamExt;
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = AccountReference::with_authentication_key(
        ${rustString(copy.endpoint)}.parse()?,
        std::env::var("ORRERY_KEY")?,
    );
    let client = CosmosClient::builder()
        .build(account, RoutingStrategy::PreferredRegions(Vec::new()))
        .await?;
    let container = client
        .database_client(${rustString(copy.database)})
        .container_client(${rustString(copy.container)}, None)
        .await?;

    let query = Query::from(concat!(
        ${joinedLines(copy.query, rustString, ",", 8)}
    ))${parameters.join("")};
    let scope = ${scope};
    let options = QueryOptions::default()${setSize};
    let mut items = container.query_items::<Value>(query, scope, Some(options)).await?;
    while let Some(item) = items.next().await {
        println!("{}", item?);
    }
    Ok(())
}
`;
}
