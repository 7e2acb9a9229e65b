/**
 * The programs that "Copy as" writes: Python, JavaScript, Go and curl run against the server and print the rows of the
 * query; Java and Rust are compiled with their SDK; C#, which has no compiler here, is compared with a text.
 *
 * The SDKs are those of conformance/sdk/python, conformance/sdk/javascript and conformance/sdk/scenarios.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { createAll } from "../query.js";
import { freshName, owner, person, sharedServer } from "../world.js";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const TARGET = process.env.ORRERY_TARGET ?? join(ROOT, "target");
const PYTHON = process.env.ORRERY_PYTHON ?? join(TARGET, "conformance/python/bin/python");
const JAVA_CLASS_PATH = join(TARGET, "conformance/scenarios/java/class.path");

const DATABASE = `${freshName("copy")} "b" 'q' 😀`;
const CONTAINER = "items";
const TEXT = "it's \"quoted\"\nand 😀 \\ \u2028 $HOME `x` ${y}";
const NESTED = { a: [1, "x'\"\n"], b: null };
const LARGE = 9_007_199_254_740_991;
const QUERY = [
  "SELECT c.id, c.t -- it's a \"comment\" 😀",
  "FROM c",
  "WHERE c.t = @t AND c.n < @n AND c.o = @o AND c.z = @z AND c.large = @large AND c.yes = @yes",
  "  AND c.t != '\\'x\\\\'",
].join("\n");
const PARAMETERS = [
  ["@t", TEXT],
  ["@n", 5.5],
  ["@o", NESTED],
  ["@z", null],
  ["@large", LARGE],
  ["@yes", true],
];
/** The Go SDK writes an escape that is no JSON into the header of a key with an emoji. */
const KEYS = { default: "k'1 \"é😀", Go: "k'1 \"é" };

let directory;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "orrery-copy-as-"));
  const admin = await owner();
  await admin.database(DATABASE);
  await admin.container(DATABASE, CONTAINER);
  const item = (number, pk) => ({
    id: `${pk.length}-${number}`,
    pk,
    t: TEXT,
    n: number,
    o: NESTED,
    z: null,
    large: LARGE,
    yes: true,
  });
  for (const pk of [KEYS.Go, "other"]) {
    await createAll(admin, DATABASE, CONTAINER, [1, 2, 3, 9].map((number) => item(number, pk)));
  }
  for (const number of [1, 2, 3, 9]) await admin.item(DATABASE, CONTAINER, item(number, KEYS.default));
});

after(async () => {
  if (directory) await rm(directory, { recursive: true, force: true });
});

/** Returns the program that the dialog shows for a language. */
async function programOf(t, language, key) {
  const page = await person(t);
  const scope = key === null ? "" : `&pk=${encodeURIComponent(JSON.stringify([key]))}`;
  await page.goto(`#/data/${encodeURIComponent(DATABASE)}/${CONTAINER}/query?text=${encodeURIComponent(QUERY)}${scope}`);
  await page.getByRole("button", { name: /All partitions|Key/ }).waitFor();
  for (const [at, [, value]] of PARAMETERS.entries()) {
    await page.getByRole("textbox", { name: `Value of parameter ${at + 1}` }).fill(JSON.stringify(value));
  }
  if (key !== null) await page.getByLabel("Items of a page").fill("2");
  await page.getByRole("button", { name: "Copy as" }).click();
  await page.getByRole("tab", { name: language, exact: true }).click();
  await page.getByRole("textbox", { name: `${language} program` }).waitFor();
  return page.locator(".query-copy").getAttribute("data-program");
}

/** Runs a program and returns what it prints; fails with its errors. */
async function output(command, args, options = {}) {
  const { ready } = await sharedServer();
  const child = spawn(command, args, {
    ...options,
    env: { ...process.env, ORRERY_KEY: ready.key, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [printed, errors] = [[], []];
  child.stdout.on("data", (part) => printed.push(part));
  child.stderr.on("data", (part) => errors.push(part));
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  assert.equal(code, 0, `${command} ${args.join(" ")}: ${Buffer.concat(errors).toString().slice(-4_000)}`);
  return Buffer.concat(printed).toString();
}

function rowsOfLines(text) {
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

function assertRows(rows, key) {
  const lengths = key === null ? [KEYS.Go.length, "other".length, KEYS.default.length] : [key.length];
  const expected = lengths.flatMap((length) => [1, 2, 3].map((number) => `${length}-${number}`));
  assert.deepEqual(rows.map(({ id }) => id).sort(), expected.sort());
  for (const { t } of rows) assert.equal(t, TEXT);
}

/** Writes a program into a directory of its own and returns the directory. */
async function folder(name, file, program) {
  const path = join(directory, name);
  await mkdir(path, { recursive: true });
  await writeFile(join(path, file), program);
  return path;
}

const RUNNERS = {
  Python: async (program, name) => {
    const path = await folder(name, "query.py", program);
    return rowsOfLines(await output(PYTHON, [join(path, "query.py")]));
  },
  JavaScript: async (program, name) => {
    const path = await folder(name, "query.mjs", program);
    await symlink(join(ROOT, "conformance/sdk/javascript/node_modules"), join(path, "node_modules"));
    return rowsOfLines(await output("node", [join(path, "query.mjs")]));
  },
  Go: async (program, name) => {
    const path = await folder(name, "main.go", program);
    for (const file of ["go.mod", "go.sum"]) await cp(join(ROOT, "conformance/sdk/scenarios/go", file), join(path, file));
    const env = { GOTOOLCHAIN: "local", GOFLAGS: "-mod=mod" };
    assert.equal(await output("gofmt", ["-l", path]), "", "the program is formatted");
    return rowsOfLines(await output("go", ["run", "."], { cwd: path, env }));
  },
  curl: async (program, name) => {
    const path = await folder(name, "query.sh", program);
    const pages = rowsOfLines(await output("bash", [join(path, "query.sh")]));
    return pages.flatMap(({ Documents }) => Documents);
  },
};

for (const [language, runner] of Object.entries(RUNNERS)) {
  test(`a query as ${language} runs and prints the rows of all partitions and of one key`, async (t) => {
    for (const key of [null, KEYS[language] ?? KEYS.default]) {
      const program = await programOf(t, language, key);
      assertRows(await runner(program, `${language}-${key === null ? "all" : "one"}`), key);
    }
  });
}

test("a query as Java compiles with the SDK", async (t) => {
  const classPath = (await readFile(JAVA_CLASS_PATH, "utf8")).trim();
  for (const key of [null, KEYS.default]) {
    const path = await folder(`java-${key === null}`, "RunQuery.java", await programOf(t, "Java", key));
    await output("javac", ["-proc:none", "-cp", classPath, "-d", path, join(path, "RunQuery.java")]);
  }
});

test("a query as Rust compiles with the SDK", async (t) => {
  const source = join(ROOT, "conformance/sdk/scenarios/rust");
  // One package with both programs, so that they are built and linked at the same time.
  const path = join(directory, "rust");
  for (const [name, key] of [["all", null], ["one", KEYS.default]]) {
    await folder("rust/src/bin", `${name}.rs`, await programOf(t, "Rust", key));
  }
  for (const file of ["Cargo.toml", "Cargo.lock"]) {
    const text = await readFile(join(source, file), "utf8");
    await writeFile(join(path, file), text.replaceAll("orrery-scenarios", "orrery-copied-query"));
  }
  const env = { CARGO_TARGET_DIR: join(TARGET, "conformance/scenarios/rust"), CARGO_INCREMENTAL: "0" };
  await output("cargo", ["build", "--quiet", "--locked", "--bins"], { cwd: path, env });
});

test("a query as C# is the expected text", async (t) => {
  const { ready } = await sharedServer();
  const program = await programOf(t, "C#", KEYS.default);
  const lines = program.split("\n");
  assert.ok(!program.includes(ready.key), "no program holds a key");
  assert.ok(lines.includes(`    ${JSON.stringify(ready.endpoint_http)},`) || lines.includes(`    ${JSON.stringify(ready.endpoint)},`), program);
  const expected = [
    "// dotnet add package Microsoft.Azure.Cosmos",
    "// dotnet add package Newtonsoft.Json",
    "using System;",
    "using Microsoft.Azure.Cosmos;",
    "using Newtonsoft.Json.Linq;",
  ];
  assert.deepEqual(lines.slice(0, 5), expected);
  const from = lines.findIndex((line) => line.startsWith("Container container"));
  const database = DATABASE.replaceAll('"', '\\"').replace("😀", "\\ud83d\\ude00");
  assert.deepEqual(lines.slice(from), [
    `Container container = client.GetContainer("${database}", "items");`,
    "",
    "QueryDefinition query = new QueryDefinition(",
    '    "SELECT c.id, c.t -- it\'s a \\"comment\\" \\ud83d\\ude00\\n" +',
    '    "FROM c\\n" +',
    '    "WHERE c.t = @t AND c.n < @n AND c.o = @o AND c.z = @z AND c.large = @large AND c.yes = @yes\\n" +',
    '    "  AND c.t != \'\\\\\'x\\\\\\\\\'")',
    '    .WithParameter("@t", "it\'s \\"quoted\\"\\nand \\ud83d\\ude00 \\\\ \\u2028 $HOME `x` ${y}")',
    '    .WithParameter("@n", 5.5d)',
    '    .WithParameter("@o", JToken.Parse("{\\"a\\":[1,\\"x\'\\\\\\"\\\\n\\"],\\"b\\":null}"))',
    '    .WithParameter("@z", null)',
    '    .WithParameter("@large", 9007199254740991L)',
    '    .WithParameter("@yes", true);',
    "QueryRequestOptions options = new QueryRequestOptions",
    "{",
    '    PartitionKey = new PartitionKeyBuilder().Add("k\'1 \\"\\u00e9\\ud83d\\ude00").Build(),',
    "    MaxItemCount = 2,",
    "};",
    "using FeedIterator<dynamic> pages = container.GetItemQueryIterator<dynamic>(query, requestOptions: options);",
    "while (pages.HasMoreResults)",
    "{",
    "    foreach (var item in await pages.ReadNextAsync())",
    "    {",
    "        Console.WriteLine(item);",
    "    }",
    "}",
    "",
  ]);
});
