/** Writes a query as a program for the JavaScript SDK, `@azure/cosmos`. */

import { jsonText } from "../../../api/exact-json.ts";
import { indented, jsonString, joinedLines, type QueryToCopy } from "./request.ts";

/** Returns the program, an ES module. */
export function javascript(copy: QueryToCopy): string {
  const members = [`query:\n    ${joinedLines(copy.query, jsonString, " +", 4)},`];
  if (copy.parameters.length > 0) {
    const parameters = copy.parameters.map(
      ({ name, value }) => `{ name: ${jsonString(name)}, value: ${literal(value)} },`,
    );
    members.push(`parameters: [\n    ${indented(parameters, 4)}\n  ],`);
  }
  const options: string[] = [];
  if (copy.partitionKey !== null) {
    const [only, ...others] = copy.partitionKey;
    const key = others.length === 0 ? only : copy.partitionKey;
    options.push(`partitionKey: ${literal(key)}`);
  }
  if (copy.pageSize !== null) options.push(`maxItemCount: ${copy.pageSize}`);
  const second = options.length > 0 ? `, { ${options.join(", ")} }` : "";
  return `// npm install @azure/cosmos
import { CosmosClient } from "@azure/cosmos";

const client = new CosmosClient({
  endpoint: ${jsonString(copy.endpoint)},
  key: process.env.ORRERY_KEY,
});
const container = client.database(${jsonString(copy.database)}).container(${jsonString(copy.container)});

const query = {
  ${indented(members, 2)}
};
const { resources } = await container.items.query(query${second}).fetchAll();
for (const item of resources) {
  console.log(JSON.stringify(item));
}
client.dispose();
`;
}

/** Returns the JSON of a value, which JavaScript reads as an expression. */
function literal(value: unknown): string {
  if (typeof value === "string") return jsonString(value);
  return jsonText(value ?? null);
}
