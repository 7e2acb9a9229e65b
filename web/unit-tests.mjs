/** Runs the tests of modules without a page: every `*.test.ts` and `*.test.mjs` under `console/`.
 *
 *     node unit-tests.mjs            all of them
 *     node unit-tests.mjs WORD...    the files whose path contains one of the words
 *
 * The files are bundled first, since Node.js 20 reads no types.
 * Promises: the exit status is that of `node --test`.
 * Leaves out: tests in a browser; `conformance/pages/console` has them. */

import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const CONSOLE = fileURLToPath(new URL("console/", import.meta.url));
const words = process.argv.slice(2);

const files = await readdir(CONSOLE, { recursive: true });
const tests = files.filter((file) => /\.test\.(ts|mjs)$/.test(file)).sort();
const chosen = words.length === 0 ? tests : tests.filter((file) => words.some((word) => file.includes(word)));
if (chosen.length === 0) {
  console.error(`no test file has a path with ${words.join(" or ")}`);
  process.exit(1);
}

const directory = await mkdtemp(join(tmpdir(), "orrery-console-"));
await build({
  entryPoints: chosen.map((file) => join(CONSOLE, file)),
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: directory,
  outbase: CONSOLE,
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
const bundled = chosen.map((file) => join(directory, file.replace(/\.(ts|mjs)$/, ".mjs")));
const { status } = spawnSync(process.execPath, ["--test", ...bundled], { stdio: "inherit" });
await rm(directory, { recursive: true });
process.exit(status ?? 1);
