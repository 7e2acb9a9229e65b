/** The form for a new container: fields, check, and the body of the request.
 *
 * Promises: `problemsOfForm` names each problem by the field that has it, and `bodyOf` of a form
 * without problems is the container that the form shows. The limits are those of the server
 * (core/model/src/limits.rs, core/engine/src/catalog/settings.rs).
 *
 * Leaves out: rules that only the server knows; its refusals are assigned to fields by
 * `fieldOfRefusal`. */

import { DEFAULT_POLICY, NO_INDEX_POLICY, problemsOf } from "./indexing.ts";
import { pathNames } from "./partition-key.ts";

/** Throughput of a new database or container. */
export interface ThroughputChoice {
  mode: "shared" | "manual" | "autoscale";
  ru: string;
}

/** All fields of the form, as the user typed them. */
export interface ContainerForm {
  id: string;
  throughput: ThroughputChoice;
  keyPaths: string[];
  /** One unique key on a line, its paths separated by commas. */
  uniqueKeys: string[];
  indexing: "default" | "none" | "policy";
  policyText: string;
  ttl: "off" | "on" | "seconds";
  ttlSeconds: string;
  geospatial: "Geography" | "Geometry";
  conflictPath: string;
  retentionMinutes: string;
  vectors: VectorRow[];
  texts: TextRow[];
  defaultLanguage: string;
  computed: ComputedRow[];
}

/** A row of the vector embedding policy, with the index on its path. */
export interface VectorRow {
  path: string;
  dataType: string;
  dimensions: string;
  distanceFunction: string;
  index: string;
}

/** A row of the full-text policy, with the index on its path. */
export interface TextRow {
  path: string;
  language: string;
  hasIndex: boolean;
}

/** A computed property. */
export interface ComputedRow {
  name: string;
  query: string;
}

/** A problem at a field of a form. */
export interface FieldProblem {
  field: string;
  message: string;
}

export const DATA_TYPES = ["float32", "float16", "int8", "uint8"];
export const DISTANCE_FUNCTIONS = ["cosine", "dotproduct", "euclidean"];
export const VECTOR_INDEXES = ["none", "flat", "quantizedFlat", "diskANN"];
export const LANGUAGES = ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"];

const ID_CHARACTERS = 255;
const KEY_LEVELS = 3;
const UNIQUE_KEYS = 10;
const UNIQUE_PATHS = 16;
const TTL_SECONDS_MAX = 2_147_483_647;
const RETENTION_MINUTES_MAX = 43_200;
const COMPUTED_MAX = 20;
const DIMENSIONS_MAX = 4_096;
const RU_MAX = 1_000_000;

/** Returns the form that the page opens with. */
export function emptyForm(): ContainerForm {
  return {
    id: "",
    throughput: { mode: "manual", ru: "400" },
    keyPaths: [""],
    uniqueKeys: [],
    indexing: "default",
    policyText: JSON.stringify(DEFAULT_POLICY, null, 2),
    ttl: "off",
    ttlSeconds: "",
    geospatial: "Geography",
    conflictPath: "/_ts",
    retentionMinutes: "",
    vectors: [],
    texts: [],
    defaultLanguage: "en-US",
    computed: [],
  };
}

/** Returns the problem of the id of a database, container, script or user, or null. */
export function idProblem(id: string): string | null {
  if (id === "") return "The name is missing. Write a name.";
  if ([...id].length > ID_CHARACTERS) return `The name has more than ${ID_CHARACTERS} characters.`;
  if (/[/\\?#]/.test(id)) return "The name contains / \\ ? or #. Write a name without these.";
  if (/\p{Cc}/u.test(id)) return "The name contains a control character. Remove the character.";
  if (id.endsWith(" ")) return "The name ends with a blank. Remove the blank.";
  return null;
}

/** Returns the problem of a throughput, or null. `minimum` is that of an existing offer. */
export function ruProblem(
  mode: "manual" | "autoscale",
  text: string,
  minimum?: number,
): string | null {
  const step = mode === "manual" ? 100 : 1_000;
  const least = minimum ?? (mode === "manual" ? 400 : 1_000);
  const ru = wholeNumber(text);
  if (ru === null || ru < least || ru > RU_MAX || ru % step !== 0) {
    const range = `from ${least.toLocaleString("en")} to ${RU_MAX.toLocaleString("en")}`;
    return `The throughput is not valid. Write RU/s ${range} in steps of ${step.toLocaleString("en")}.`;
  }
  return null;
}

/** Returns the whole number of a text, or null. */
export function wholeNumber(text: string): number | null {
  return /^-?\d{1,15}$/.test(text.trim()) ? Number(text.trim()) : null;
}

/** Returns the problem of a TTL in seconds, or null. */
export function ttlProblem(text: string): string | null {
  const seconds = wholeNumber(text);
  const isValid = seconds !== null && seconds >= 1 && seconds <= TTL_SECONDS_MAX;
  return isValid ? null : `The time to live is not valid. Write 1 to ${TTL_SECONDS_MAX} seconds.`;
}

/** Returns the problem of the retention of versions in minutes, or null. */
export function retentionProblem(text: string): string | null {
  const minutes = wholeNumber(text);
  const isValid = minutes !== null && minutes >= 0 && minutes <= RETENTION_MINUTES_MAX;
  return isValid ? null : `The retention is not valid. Write 0 to ${RETENTION_MINUTES_MAX} minutes.`;
}

/** Returns the problem of a list of computed properties, by fields `computed/<index>`. */
export function computedProblems(rows: ComputedRow[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (rows.length > COMPUTED_MAX) {
    const message = `A container has at most ${COMPUTED_MAX} computed properties.`;
    problems.push({ field: "computed", message });
  }
  const names = new Set<string>();
  for (const [index, { name, query }] of rows.entries()) {
    const field = `computed/${index}`;
    if (name === "" || query.trim() === "") {
      problems.push({ field, message: "A computed property needs a name and a query." });
    } else if (names.has(name)) {
      problems.push({ field, message: `Another computed property is named '${name}'.` });
    }
    names.add(name);
  }
  return problems;
}

/** Returns all problems of a form. */
export function problemsOfForm(form: ContainerForm): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const add = (field: string, message: string | null): void => {
    if (message !== null) problems.push({ field, message });
  };
  add("id", idProblem(form.id));
  const { mode, ru } = form.throughput;
  if (mode !== "shared") add("throughput", ruProblem(mode, ru));
  problems.push(...keyProblems(form.keyPaths), ...uniqueKeyProblems(form.uniqueKeys));
  if (form.indexing === "policy") add("policy", policyTextProblem(form.policyText));
  if (form.ttl === "seconds") add("ttl", ttlProblem(form.ttlSeconds));
  if (form.retentionMinutes !== "") add("retention", retentionProblem(form.retentionMinutes));
  if (form.conflictPath !== "" && pathNames(form.conflictPath) === null) {
    add("conflict", "The path is malformed. Write a path such as /_ts.");
  }
  problems.push(...vectorProblems(form.vectors), ...textProblems(form.texts));
  problems.push(...computedProblems(form.computed));
  return problems;
}

function keyProblems(paths: string[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (paths.length > KEY_LEVELS) {
    problems.push({ field: "key", message: `A partition key has at most ${KEY_LEVELS} levels.` });
  }
  for (const [index, path] of paths.entries()) {
    const field = `key/${index}`;
    if (path === "" || pathNames(path) === null) {
      const message = "The partition key path is malformed. Write a path such as /tenantId.";
      problems.push({ field, message });
    } else if (paths.indexOf(path) < index) {
      problems.push({ field, message: `The path ${path} is named twice. Choose another.` });
    }
  }
  return problems;
}

/** Returns the paths of one line of the field of unique keys. */
export function uniqueKeyPaths(line: string): string[] {
  return line.split(",").map((path) => path.trim());
}

function uniqueKeyProblems(lines: string[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (lines.length > UNIQUE_KEYS) {
    const message = `A container has at most ${UNIQUE_KEYS} unique keys.`;
    problems.push({ field: "unique", message });
  }
  for (const [index, line] of lines.entries()) {
    const field = `unique/${index}`;
    const paths = uniqueKeyPaths(line);
    if (paths.length > UNIQUE_PATHS) {
      problems.push({ field, message: `A unique key has at most ${UNIQUE_PATHS} paths.` });
    }
    // The server splits these paths at each slash and knows no quotes.
    if (paths.some((path) => !/^(\/[^/]+)+$/.test(path))) {
      const message = "A path is malformed. Write paths such as /email, separated by commas.";
      problems.push({ field, message });
    }
  }
  return problems;
}

/** Returns the first problem of a policy as text, or null. */
export function policyTextProblem(text: string): string | null {
  let policy: unknown;
  try {
    policy = JSON.parse(text);
  } catch (error) {
    return `The indexing policy is not valid JSON: ${(error as Error).message}`;
  }
  const first = problemsOf(policy)[0];
  if (first === undefined) return null;
  return first.at === "" ? first.message : `${first.at}: ${first.message}`;
}

function vectorProblems(rows: VectorRow[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  for (const [index, row] of rows.entries()) {
    const field = `vectors/${index}`;
    const dimensions = wholeNumber(row.dimensions);
    if (pathNames(row.path) === null) {
      problems.push({ field, message: "The path is malformed. Write a path such as /vector." });
    }
    if (dimensions === null || dimensions < 1 || dimensions > DIMENSIONS_MAX) {
      const message = `The dimensions are not valid. Write a number from 1 to ${DIMENSIONS_MAX}.`;
      problems.push({ field, message });
    }
  }
  return problems;
}

function textProblems(rows: TextRow[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  for (const [index, row] of rows.entries()) {
    if (pathNames(row.path) !== null) continue;
    const message = "The path is malformed. Write a path such as /text.";
    problems.push({ field: `texts/${index}`, message });
  }
  return problems;
}

/** The body of a container as the protocol has it. */
export type ContainerBody = Record<string, unknown>;

/** Returns the body of the request for a form without problems. */
export function bodyOf(form: ContainerForm): ContainerBody {
  const isHierarchical = form.keyPaths.length > 1;
  const body: ContainerBody = {
    id: form.id,
    partitionKey: { paths: form.keyPaths, kind: isHierarchical ? "MultiHash" : "Hash", version: 2 },
    indexingPolicy: policyOf(form),
  };
  if (form.uniqueKeys.length > 0) {
    const uniqueKeys = form.uniqueKeys.map((line) => ({ paths: uniqueKeyPaths(line) }));
    body["uniqueKeyPolicy"] = { uniqueKeys };
  }
  if (form.ttl === "on") body["defaultTtl"] = -1;
  if (form.ttl === "seconds") body["defaultTtl"] = Number(form.ttlSeconds);
  if (form.geospatial === "Geometry") body["geospatialConfig"] = { type: "Geometry" };
  if (form.conflictPath !== "" && form.conflictPath !== "/_ts") {
    const conflictResolutionPath = form.conflictPath;
    body["conflictResolutionPolicy"] = { mode: "LastWriterWins", conflictResolutionPath };
  }
  if (form.retentionMinutes !== "") {
    body["changeFeedPolicy"] = { retentionDuration: Number(form.retentionMinutes) };
  }
  Object.assign(body, vectorPolicyOf(form.vectors), textPolicyOf(form.texts, form.defaultLanguage));
  if (form.computed.length > 0) body["computedProperties"] = form.computed;
  return body;
}

function policyOf(form: ContainerForm): Record<string, unknown> {
  if (form.indexing === "none") return { ...NO_INDEX_POLICY };
  const policy: Record<string, unknown> =
    form.indexing === "policy"
      ? (JSON.parse(form.policyText) as Record<string, unknown>)
      : structuredClone(DEFAULT_POLICY);
  const vectorIndexes = form.vectors
    .filter((row) => row.index !== "none")
    .map((row) => ({ path: row.path, type: row.index }));
  const fullTextIndexes = form.texts
    .filter((row) => row.hasIndex)
    .map((row) => ({ path: row.path }));
  if (vectorIndexes.length > 0) policy["vectorIndexes"] ??= vectorIndexes;
  if (fullTextIndexes.length > 0) policy["fullTextIndexes"] ??= fullTextIndexes;
  return policy;
}

/** Returns the members of a container body for vector rows; none without rows. */
export function vectorPolicyOf(rows: VectorRow[]): ContainerBody {
  if (rows.length === 0) return {};
  const vectorEmbeddings = rows.map((row) => ({
    path: row.path,
    dataType: row.dataType,
    dimensions: Number(row.dimensions),
    distanceFunction: row.distanceFunction,
  }));
  return { vectorEmbeddingPolicy: { vectorEmbeddings } };
}

/** Returns the members of a container body for text rows; none without rows. */
export function textPolicyOf(rows: TextRow[], defaultLanguage: string): ContainerBody {
  if (rows.length === 0) return {};
  const fullTextPaths = rows.map(({ path, language }) => ({ path, language }));
  return { fullTextPolicy: { defaultLanguage, fullTextPaths } };
}

/** Words of refusals, and the field that each belongs to. */
const REFUSALS: [RegExp, string][] = [
  [/partition key/i, "key"],
  [/unique key/i, "unique"],
  [/computed propert/i, "computed"],
  [/vector/i, "vectors"],
  [/full.?text/i, "texts"],
  [/indexing|index path|composite|spatial|boundingBox/i, "policy"],
  [/conflict resolution/i, "conflict"],
  [/change feed/i, "retention"],
  [/\bttl\b/i, "ttl"],
  [/offer|throughput/i, "throughput"],
  [/already exists|\bid\b|input name/i, "id"],
];

/** Returns the field that a refusal of the server belongs to; the whole form if none fits. */
export function fieldOfRefusal(message: string): string {
  for (const [words, field] of REFUSALS) {
    if (words.test(message)) return field;
  }
  return "form";
}
