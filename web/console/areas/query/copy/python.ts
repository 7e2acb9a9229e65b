/** Writes a query as a program for the Python SDK, `azure-cosmos`. */

import { isNumber, jsonText } from "../../../api/exact-json.ts";
import { indented, jsonString, joinedLines, type QueryToCopy } from "./request.ts";

/** Returns a Python literal of a JSON value. */
export function pythonLiteral(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (isNumber(value)) return jsonText(value);
  if (typeof value === "string") return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${pythonString(name)}: ${pythonLiteral(member)}`,
  );
  return `{${members.join(", ")}}`;
}

function pythonString(text: string): string {
  return jsonString(text);
}

/** Returns the program. */
export function python(copy: QueryToCopy): string {
  const arguments_ = [`query=(\n        ${joinedLines(copy.query, pythonString, "", 8)}\n    ),`];
  if (copy.parameters.length > 0) {
    const parameters = copy.parameters.map(
      ({ name, value }) => `{"name": ${pythonString(name)}, "value": ${pythonLiteral(value)}},`,
    );
    arguments_.push(`parameters=[\n        ${indented(parameters, 8)}\n    ],`);
  }
  if (copy.partitionKey === null) {
    arguments_.push("enable_cross_partition_query=True,");
  } else {
    const [only, ...others] = copy.partitionKey;
    const key = others.length === 0 ? only : copy.partitionKey;
    arguments_.push(`partition_key=${pythonLiteral(key)},`);
  }
  if (copy.pageSize !== null) arguments_.push(`max_item_count=${copy.pageSize},`);
  return `# pip install azure-cosmos
import json
import os

from azure.cosmos import CosmosClient

client = CosmosClient(${pythonString(copy.endpoint)}, credential=os.environ["ORRERY_KEY"])
database = client.get_database_client(${pythonString(copy.database)})
container = database.get_container_client(${pythonString(copy.container)})

items = container.query_items(
    ${indented(arguments_, 4)}
)
for item in items:
    print(json.dumps(item))
`;
}
