/** The files of the console: the page, its style sheet, the script and the parts that it loads later.
 *
 * Promises: the page names the hashed files, and `{{nonce}}` stays in it for the server.
 * Pages are one file, the editor and the charts are files of their own; what several need is shared.
 * Sources are minified twice: terser finds a few percent that esbuild leaves. */

import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";
import { hashed, manifestOf } from "./files.mjs";
import { together } from "./together.mjs";

const WEB = fileURLToPath(new URL("../", import.meta.url));
const SOURCES = `${WEB}console`;
const TARGET = ["es2022", "chrome109", "firefox115", "safari16.4"];

/** The groups of sources that need a large library; all others are the group `pages`. */
const GROUPS = {
  editor: ["areas/data/settings/policy-completion.ts", "areas/query/page.tsx", "ui/code-mirror.ts"],
  charts: ["areas/query/points.ts", "ui/plot.ts"],
};

function groupOf(source) {
  const found = Object.entries(GROUPS).find(([, sources]) => sources.includes(source));
  return found ? found[0] : "pages";
}

const COMMON = {
  absWorkingDir: WEB,
  bundle: true,
  minify: true,
  write: false,
  charset: "utf8",
  legalComments: "none",
  target: TARGET,
  logLevel: "warning",
};

/** Returns the modules: `main` and the parts that it loads. */
async function modules() {
  return build({
    ...COMMON,
    entryPoints: [`${SOURCES}/main.tsx`],
    outdir: "dist",
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    format: "esm",
    splitting: true,
    metafile: true,
    jsx: "automatic",
    jsxImportSource: "preact",
    plugins: [together(SOURCES, groupOf)],
  });
}

/** Returns a module without what a second minifier finds. */
async function smaller(text) {
  const { code } = await minify(text, { module: true, ecma: 2022, compress: { passes: 2, hoist_funs: true } });
  return Buffer.from(code);
}

/** Returns the bytes of one file that is built alone. */
async function single(name) {
  const result = await build({ ...COMMON, entryPoints: [`${SOURCES}/${name}`], format: "iife" });
  return Buffer.from(result.outputFiles[0].contents);
}

/** Returns the names of the files that `main` needs before it runs. */
function neededAtStart(metafile, entry) {
  const needed = [];
  for (const { path, kind } of metafile.outputs[entry].imports) {
    if (kind === "import-statement") needed.push(basename(path));
  }
  return needed.sort();
}

function entryOf(metafile) {
  const found = Object.entries(metafile.outputs).find(([, output]) => output.entryPoint?.endsWith("main.tsx"));
  return found[0];
}

/** Returns the content of each file by its name, the page and the manifest last. */
async function outputs() {
  const files = new Map();
  const names = {};
  const { outputFiles, metafile } = await modules();
  for (const file of outputFiles) files.set(basename(file.path), await smaller(file.text));
  const entry = entryOf(metafile);
  names["main.js"] = basename(entry);
  for (const [name, source] of [
    ["console.css", "console.css"],
    ["theme.js", "theme-start.ts"],
    ["icon.svg", "../blog/icon.svg"],
  ]) {
    const bytes = source.endsWith(".svg") ? await readFile(`${SOURCES}/${source}`) : await single(source);
    names[name] = hashed(name, bytes);
    files.set(names[name], bytes);
  }
  files.set("index.html", await page(names, neededAtStart(metafile, entry)));
  names["index.html"] = "index.html";
  files.set("manifest.json", manifestOf(names));
  return files;
}

/** Returns the page: the template with the names of the files. */
async function page(names, preloaded) {
  let text = await readFile(`${SOURCES}/index.html`, "utf8");
  for (const [plain, name] of Object.entries(names)) text = text.replaceAll(`{{${plain}}}`, name);
  const links = preloaded.map((name) => `<link rel="modulepreload" href="${name}">`);
  return Buffer.from(text.replace("{{preload}}", links.join("\n    ")));
}

export const console = {
  name: "console",
  directory: "../operator/console/dist",
  budgetBytes: 264 * 1024,
  outputs,
};
