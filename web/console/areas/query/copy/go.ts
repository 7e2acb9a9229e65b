/** Writes a query as a program for the Go SDK, `azcosmos`. */

import { isNumber, jsonText } from "../../../api/exact-json.ts";
import { isPlain, joinedLines, type KeyValue, type QueryToCopy } from "./request.ts";

/** Returns a Go string literal in ASCII. */
export function goString(text: string): string {
  let literal = "";
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (character === '"') literal += '\\"';
    else if (character === "\\") literal += "\\\\";
    else if (character === "\n") literal += "\\n";
    else if (character === "\r") literal += "\\r";
    else if (character === "\t") literal += "\\t";
    // A lone surrogate is no character of Go.
    else if (code >= 0xd800 && code < 0xe000) literal += "\\ufffd";
    else if (code > 0xffff) literal += `\\U${code.toString(16).padStart(8, "0")}`;
    else if (code < 0x20 || code >= 0x7f) literal += `\\u${code.toString(16).padStart(4, "0")}`;
    else literal += character;
  }
  return `"${literal}"`;
}

function goValue(value: unknown): string {
  if (!isPlain(value)) return `json.RawMessage(${goString(jsonText(value))})`;
  if (value === null) return "nil";
  if (typeof value === "string") return goString(value);
  if (typeof value !== "number") return String(value);
  // A constant without a type would be an int, which large whole numbers do not fit.
  return Number.isSafeInteger(value) ? `int64(${value})` : `float64(${value})`;
}

function goKey(values: readonly KeyValue[]): string {
  let key = "azcosmos.NewPartitionKey()";
  for (const value of values) {
    if (value === null) key += ".AppendNull()";
    else if (typeof value === "string") key += `.AppendString(${goString(value)})`;
    else if (isNumber(value)) key += `.AppendNumber(${value})`;
    else key += `.AppendBool(${value})`;
  }
  return key;
}

/** Returns the program, a file `main.go`. */
export function go(copy: QueryToCopy): string {
  const hasNested = copy.parameters.some(({ value }) => !isPlain(value));
  const parameters = copy.parameters.map(
    ({ name, value }) => `{Name: ${goString(name)}, Value: ${goValue(value)}},`,
  );
  const options: string[] = [];
  if (parameters.length > 0) {
    const list = parameters.map((line) => `\t${line}`);
    options.push("QueryParameters: []azcosmos.QueryParameter{", ...list, "},");
  }
  if (copy.pageSize !== null) options.push(`PageSizeHint: ${copy.pageSize},`);
  const fields = options.length > 0 ? `{\n${tabbed(options, 2)}\n\t}` : "{}";
  const imports = ["context", ...(hasNested ? ["encoding/json"] : []), "fmt", "log", "os"];
  return `// go get github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos
package main

import (
${tabbed(
  imports.map((name) => `"${name}"`),
  1,
)}

\t"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func run(ctx context.Context) error {
\tcredential, err := azcosmos.NewKeyCredential(os.Getenv("ORRERY_KEY"))
\tif err != nil {
\t\treturn err
\t}
\tclient, err := azcosmos.NewClientWithKey(${goString(copy.endpoint)}, credential, nil)
\tif err != nil {
\t\treturn err
\t}
\tcontainer, err := client.NewContainer(${goString(copy.database)}, ${goString(copy.container)})
\tif err != nil {
\t\treturn err
\t}

\tquery := ${joinedLines(copy.query, goString, " +", 0).replaceAll("\n", "\n\t\t")}
\toptions := &azcosmos.QueryOptions${fields}
\tpager := container.NewQueryItemsPager(query, ${goKey(copy.partitionKey ?? [])}, options)
\tfor pager.More() {
\t\tpage, err := pager.NextPage(ctx)
\t\tif err != nil {
\t\t\treturn err
\t\t}
\t\tfor _, item := range page.Items {
\t\t\tfmt.Println(string(item))
\t\t}
\t}
\treturn nil
}

func main() {
\tif err := run(context.Background()); err != nil {
\t\tlog.Fatal(err)
\t}
}
`;
}

function tabbed(lines: readonly string[], tabs: number): string {
  return lines.map((line) => "\t".repeat(tabs) + line).join("\n");
}

