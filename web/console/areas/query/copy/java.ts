/** Writes a query as a program for the Java SDK, `com.azure:azure-cosmos`. */

import { isNumber, jsonText } from "../../../api/exact-json.ts";
import { indented, isPlain, joinedLines, linesOf, type KeyValue, type QueryToCopy } from "./request.ts";

/** Returns a Java string literal. Characters outside of ASCII are written as UTF-16 units, so that
 * the encoding of the file does not matter. */
export function javaString(text: string): string {
  let literal = "";
  for (let at = 0; at < text.length; at += 1) {
    literal += javaUnit(text.charCodeAt(at));
  }
  return `"${literal}"`;
}

function javaUnit(unit: number): string {
  if (unit === 0x22) return '\\"';
  if (unit === 0x5c) return "\\\\";
  if (unit === 0x0a) return "\\n";
  if (unit === 0x0d) return "\\r";
  if (unit === 0x09) return "\\t";
  // An octal escape: a Unicode escape of a control character would end a literal too early.
  if (unit < 0x20) return `\\${unit.toString(8).padStart(3, "0")}`;
  if (unit < 0x7f) return String.fromCharCode(unit);
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}

function javaValue(value: unknown): string {
  if (!isPlain(value)) return `JSON.readTree(${javaString(jsonText(value))})`;
  if (value === null) return "null";
  if (typeof value === "string") return javaString(value);
  if (typeof value !== "number") return String(value);
  return javaNumber(value);
}

function javaNumber(value: number): string {
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) return `${value}d`;
  return Math.abs(value) < 2 ** 31 ? String(value) : `${value}L`;
}

function javaKey(values: readonly KeyValue[]): string {
  let key = "new PartitionKeyBuilder()";
  for (const value of values) {
    if (value === null) key += ".addNullValue()";
    else key += `.add(${isNumber(value) ? `${value}d` : javaValue(value)})`;
  }
  return `${key}.build()`;
}

/** Returns the program, a file \`RunQuery.java\`. */
export function java(copy: QueryToCopy): string {
  const hasNested = copy.parameters.some(({ value }) => !isPlain(value));
  const parameters = copy.parameters.map(
    ({ name, value }) => `new SqlParameter(${javaString(name)}, ${javaValue(value)})`,
  );
  const imports = [
    "com.azure.cosmos.CosmosClient",
    "com.azure.cosmos.CosmosClientBuilder",
    "com.azure.cosmos.CosmosContainer",
    "com.azure.cosmos.models.CosmosQueryRequestOptions",
    "com.azure.cosmos.models.FeedResponse",
    ...(copy.partitionKey ? ["com.azure.cosmos.models.PartitionKeyBuilder"] : []),
    "com.azure.cosmos.models.SqlParameter",
    "com.azure.cosmos.models.SqlQuerySpec",
    "com.fasterxml.jackson.databind.JsonNode",
    ...(hasNested ? ["com.fasterxml.jackson.databind.ObjectMapper"] : []),
    "java.util.List",
  ];
  const mapper = hasNested ? "  private static final ObjectMapper JSON = new ObjectMapper();\n\n" : "";
  const setKey = copy.partitionKey
    ? `\n      options.setPartitionKey(${javaKey(copy.partitionKey)});`
    : "";
  const list =
    parameters.length > 0
      ? `List.of(\n          ${indented(separated(parameters), 10)})`
      : "List.<SqlParameter>of()";
  const pages = copy.pageSize === null ? "iterableByPage()" : `iterableByPage(${copy.pageSize})`;
  return `// Maven: com.azure:azure-cosmos
${imports.map((name) => `import ${name};`).join("\n")}

public class RunQuery {
${mapper}  public static void main(String[] arguments) throws Exception {
    try (CosmosClient client = new CosmosClientBuilder()
        .endpoint(${javaString(copy.endpoint)})
        .key(System.getenv("ORRERY_KEY"))
        .gatewayMode()
        .buildClient()) {
      CosmosContainer container = client
          .getDatabase(${javaString(copy.database)})
          .getContainer(${javaString(copy.container)});
      SqlQuerySpec query = new SqlQuerySpec(
          ${joinedLines(copy.query, javaString, " +", 10)},
          ${list});
      CosmosQueryRequestOptions options = new CosmosQueryRequestOptions();${setKey}
      for (FeedResponse<JsonNode> page : container.queryItems(query, options, JsonNode.class).${pages}) {
        for (JsonNode item : page.getResults()) {
          System.out.println(item);
        }
      }
    }
  }
}
`;
}

/** Returns the arguments with a comma behind each but the last. */
function separated(parts: readonly string[]): string[] {
  return linesOf(parts.join(",\n")).map((line) => line.trimEnd());
}
