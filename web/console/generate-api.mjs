/** Writes `api/management.ts` from `api/openapi.json`: types of the management API's bodies and queries,
 * and a function for each operation. Breaks the description into lines.
 *
 *     node console/generate-api.mjs           writes the file
 *     node build.mjs --check                  fails unless the file is what this gives
 *
 * Leaves out: parts of JSON Schema that the description does not use; such a part is an error. */

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const DESCRIPTION = new URL("api/openapi.json", import.meta.url);
const TYPES = new URL("api/management.ts", import.meta.url);
const METHODS = ["get", "post", "put", "patch", "delete"];

const HEAD = `/** The management API: types of its bodies, and a function for each operation.
 *
 * Generated from \`openapi.json\` by \`generate-api.mjs\`; edits are lost. */

import { manage, type RequestOptions } from "./client.ts";

type Options = Pick<RequestOptions, "signal" | "poll">;
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

function suffix(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : \`?\${text}\`;
}

function part(text: string): string {
  return encodeURIComponent(text);
}
`;

function comment(text, indent = "") {
  return text ? `${indent}/** ${text.replaceAll("*/", "* /")} */\n` : "";
}

/** Returns the type of a schema. */
function typeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf || schema.oneOf) return (schema.anyOf ?? schema.oneOf).map(typeOf).join(" | ");
  if (Array.isArray(schema.type)) {
    return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  }
  switch (schema.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return `readonly (${typeOf(schema.items ?? {})})[]`;
    case "object":
      return objectType(schema);
    case undefined:
      return "unknown";
    default:
      throw new Error(`no type is known for ${JSON.stringify(schema)}`);
  }
}

function objectType(schema) {
  if (schema.properties) return `{\n${members(schema)}}`;
  const { additionalProperties } = schema;
  const value = additionalProperties && typeof additionalProperties === "object" ? typeOf(additionalProperties) : "unknown";
  return `{ readonly [name: string]: ${value} }`;
}

function members(schema) {
  let text = "";
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    const optional = schema.required?.includes(name) ? "" : "?";
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    text += `${comment(member.description, "  ")}  readonly ${key}${optional}: ${typeOf(member)}${optional ? " | undefined" : ""};\n`;
  }
  return text;
}

function schemaText(name, schema) {
  const head = comment(schema.description);
  if (schema.properties) return `${head}export interface ${name} {\n${members(schema)}}\n`;
  return `${head}export type ${name} = ${typeOf(schema)};\n`;
}

/** Returns the type of a successful answer, and true if the answer is text. */
function answerOf(operation) {
  for (const [status, { content }] of Object.entries(operation.responses)) {
    if (!/^2..$/.test(status) || !content) continue;
    const json = content["application/json"];
    if (json) return { type: typeOf(json.schema ?? {}), isText: false };
    return { type: "string", isText: true };
  }
  return { type: "void", isText: false };
}

function operationText(path, method, operation) {
  const parameters = operation.parameters ?? [];
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  const inQuery = parameters.filter((parameter) => parameter.in === "query");
  const signature = inPath.map(({ name }) => `${name}: string`);
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  if (body) signature.push(operation.requestBody.required ? `body: ${typeOf(body)}` : `body?: ${typeOf(body)}`);
  if (inQuery.length > 0) {
    const fields = inQuery.map(({ name, required, schema }) => {
      const mark = required ? "" : "?";
      return `${name}${mark}: ${typeOf(schema ?? {})}${required ? "" : " | undefined"}`;
    });
    signature.push(`query: { ${fields.join("; ")} }${inQuery.some(({ required }) => required) ? "" : " = {}"}`);
  }
  signature.push("options: Options = {}");
  const { type, isText } = answerOf(operation);
  const target = path.replace(/\{(\w+)\}/g, (_, name) => `\${part(${name})}`);
  const tail = inQuery.length > 0 ? "${suffix(query)}" : "";
  const settings = ["...options"];
  if (method !== "get") settings.push(`method: "${method.toUpperCase()}"`);
  if (body) settings.push("body", 'headers: { "content-type": "application/json" }');
  const call = `await manage(\`${target}${tail}\`, { ${settings.join(", ")} })`;
  const lines = type === "void" ? `  ${call};` : isText ? `  return (${call}).text;` : `  return (${call}).json() as ${type};`;
  const args = signature.join(", ");
  return `${comment(operation.summary)}export async function ${operation.operationId}(${args}): Promise<${type}> {\n${lines}\n}\n`;
}

/** Returns the text of the file. */
async function text() {
  const document = JSON.parse(await readFile(DESCRIPTION, "utf8"));
  const parts = [HEAD];
  for (const [name, schema] of Object.entries(document.components.schemas)) parts.push(schemaText(name, schema));
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      if (methods[method]) parts.push(operationText(path, method, methods[method]));
    }
  }
  return parts.join("\n");
}

/** Returns a line if the committed file is not what the description gives. */
export async function differenceOfTypes() {
  const found = await readFile(TYPES, "utf8").catch(() => "");
  if (found === (await text())) return [];
  return ["console/api/management.ts differs: run `node console/generate-api.mjs` in web/"];
}

async function main() {
  const description = JSON.parse(await readFile(DESCRIPTION, "utf8"));
  await writeFile(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`);
  await writeFile(TYPES, await text());
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
