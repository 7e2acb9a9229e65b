/** Writes a query as a program for the .NET SDK, `Microsoft.Azure.Cosmos`. */

import { isNumber, jsonText } from "../../../api/exact-json.ts";
import { indented, isPlain, joinedLines, type KeyValue, type QueryToCopy } from "./request.ts";

/** Returns a C# string literal in ASCII. */
export function csharpString(text: string): string {
  let literal = "";
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) literal += '\\"';
    else if (unit === 0x5c) literal += "\\\\";
    else if (unit === 0x0a) literal += "\\n";
    else if (unit === 0x0d) literal += "\\r";
    else if (unit === 0x09) literal += "\\t";
    else if (unit < 0x20 || unit >= 0x7f) literal += `\\u${unit.toString(16).padStart(4, "0")}`;
    else literal += text.charAt(at);
  }
  return `"${literal}"`;
}

function csharpValue(value: unknown): string {
  if (!isPlain(value)) return `JToken.Parse(${csharpString(jsonText(value))})`;
  if (value === null) return "null";
  if (typeof value === "string") return csharpString(value);
  if (typeof value !== "number") return String(value);
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) return `${value}d`;
  return Math.abs(value) < 2 ** 31 ? String(value) : `${value}L`;
}

function csharpKey(values: readonly KeyValue[]): string {
  let key = "new PartitionKeyBuilder()";
  for (const value of values) {
    if (value === null) key += ".AddNullValue()";
    else key += `.Add(${isNumber(value) ? `${value}d` : csharpValue(value)})`;
  }
  return `${key}.Build()`;
}

/** Returns the program, with top-level statements. */
export function csharp(copy: QueryToCopy): string {
  const hasNested = copy.parameters.some(({ value }) => !isPlain(value));
  const parameters = copy.parameters.map(
    ({ name, value }) => `.WithParameter(${csharpString(name)}, ${csharpValue(value)})`,
  );
  const options: string[] = [];
  if (copy.partitionKey) options.push(`PartitionKey = ${csharpKey(copy.partitionKey)},`);
  if (copy.pageSize !== null) options.push(`MaxItemCount = ${copy.pageSize},`);
  const text = `new QueryDefinition(\n    ${joinedLines(copy.query, csharpString, " +", 4)})`;
  const query = indented([text, ...parameters], 4);
  const requestOptions =
    options.length > 0
      ? `new QueryRequestOptions\n{\n    ${indented(options, 4)}\n}`
      : "new QueryRequestOptions()";
  return `// dotnet add package Microsoft.Azure.Cosmos
// dotnet add package Newtonsoft.Json
using System;
using Microsoft.Azure.Cosmos;
${hasNested ? "using Newtonsoft.Json.Linq;\n" : ""}
using CosmosClient client = new(
    ${csharpString(copy.endpoint)},
    Environment.GetEnvironmentVariable("ORRERY_KEY"),
    new CosmosClientOptions { ConnectionMode = ConnectionMode.Gateway });
Container container = client.GetContainer(${csharpString(copy.database)}, ${csharpString(copy.container)});

QueryDefinition query = ${query};
QueryRequestOptions options = ${requestOptions};
using FeedIterator<dynamic> pages = container.GetItemQueryIterator<dynamic>(query, requestOptions: options);
while (pages.HasMoreResults)
{
    foreach (var item in await pages.ReadNextAsync())
    {
        Console.WriteLine(item);
    }
}
`;
}
