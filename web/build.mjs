/** Builds the files that the blog serves: style sheet, scripts, icons.
 *
 *     node build.mjs            writes apps/blog-web/dist
 *     node build.mjs DIRECTORY  writes another directory
 *     node build.mjs --check    fails unless apps/blog-web/dist is what the sources give
 *
 * A name carries a hash of the content, so that browsers may keep a file forever; `manifest.json`
 * maps the plain names to these. Beside each file stand its copies in brotli and gzip.
 *
 * Promises: the same sources and packages give the same bytes, except that the copies depend on the
 * compressor of Node.js, so `--check` compares what they unpack to. The files that a page loads
 * stay below `BUDGET_BYTES` in brotli. */

import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { build } from "esbuild";

const BUDGET_BYTES = 40 * 1024;
const SOURCES = new URL("blog/", import.meta.url);
const COMMITTED = fileURLToPath(new URL("../apps/blog-web/dist", import.meta.url));

/** The plain name of each file, and what it is made from. */
const FILES = [
  ["blog.css", "blog.css"],
  ["blog.js", "blog.ts"],
  ["icon.svg", "icon.svg"],
  ["icons.svg", "icons.svg"],
  ["theme.js", "theme.ts"],
];

const COMPRESSORS = [
  {
    suffix: ".br",
    pack: (content) =>
      brotliCompressSync(content, {
        params: {
          [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
          [constants.BROTLI_PARAM_QUALITY]: 11,
          [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
        },
      }),
    unpack: brotliDecompressSync,
  },
  { suffix: ".gz", pack: (content) => gzipSync(content, { level: 9 }), unpack: gunzipSync },
];

async function content(source) {
  const path = fileURLToPath(new URL(source, SOURCES));
  if (source.endsWith(".svg")) return readFile(path);
  const result = await build({
    entryPoints: [path],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: source === "theme.ts" ? "iife" : "esm",
    target: ["es2022", "chrome109", "firefox115", "safari16.4"],
    logLevel: "warning",
  });
  return Buffer.from(result.outputFiles[0].contents);
}

function hashed(name, bytes) {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}-${hash}${name.slice(dot)}`;
}

/** Returns the content of each file by its name, the manifest last, without the packed copies. */
async function outputs() {
  const files = new Map();
  const manifest = {};
  for (const [name, source] of FILES) {
    const bytes = await content(source);
    manifest[name] = hashed(name, bytes);
    files.set(manifest[name], bytes);
  }
  files.set("manifest.json", Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
  return files;
}

function isPacked(name) {
  return name !== "manifest.json";
}

/** Returns the bytes of a file, or null if it cannot be read. */
async function bytesOf(path) {
  try {
    return await readFile(path);
  } catch {
    return null;
  }
}

/** Returns true if the file unpacks to these bytes. */
async function unpacksTo(path, unpack, bytes) {
  const packed = await bytesOf(path);
  if (!packed) return false;
  try {
    return unpack(packed).equals(bytes);
  } catch {
    return false;
  }
}

function names(files) {
  const all = [];
  for (const name of files.keys()) {
    all.push(name);
    if (isPacked(name)) all.push(...COMPRESSORS.map(({ suffix }) => name + suffix));
  }
  return all;
}

async function write(directory, files) {
  await mkdir(directory, { recursive: true });
  const wanted = names(files);
  for (const found of await readdir(directory)) {
    if (!wanted.includes(found)) await rm(`${directory}/${found}`);
  }
  for (const [name, bytes] of files) {
    await writeFile(`${directory}/${name}`, bytes);
    if (!isPacked(name)) continue;
    for (const { suffix, pack, unpack } of COMPRESSORS) {
      const path = `${directory}/${name}${suffix}`;
      // Another release of Node.js would write other bytes for the same content.
      if (!(await unpacksTo(path, unpack, bytes))) await writeFile(path, pack(bytes));
    }
  }
}

/** Returns what differs between the directory and the files, one line for each difference. */
async function differences(directory, files) {
  const lines = [];
  const wanted = names(files);
  const found = await readdir(directory).catch(() => []);
  for (const name of found) {
    if (!wanted.includes(name)) lines.push(`${name} is not built from any source`);
  }
  for (const [name, bytes] of files) {
    const committed = await bytesOf(`${directory}/${name}`);
    if (!committed?.equals(bytes)) lines.push(`${name} is missing or differs`);
    if (!isPacked(name)) continue;
    for (const { suffix, unpack } of COMPRESSORS) {
      if (await unpacksTo(`${directory}/${name}${suffix}`, unpack, bytes)) continue;
      lines.push(`${name}${suffix} is missing or unpacks to something else`);
    }
  }
  return lines;
}

function fail(lines) {
  for (const line of lines) console.error(line);
  process.exit(1);
}

const [argument] = process.argv.slice(2);
const files = await outputs();

let packedBytes = 0;
for (const [name, bytes] of files) {
  if (isPacked(name)) packedBytes += COMPRESSORS[0].pack(bytes).length;
}
if (packedBytes > BUDGET_BYTES) {
  fail([`the files take ${packedBytes} bytes in brotli, more than ${BUDGET_BYTES}`]);
}

if (argument === "--check") {
  const lines = await differences(COMMITTED, files);
  if (lines.length > 0) fail([...lines, "run `npm run build` in web/ and commit apps/blog-web/dist"]);
} else {
  await write(argument ?? COMMITTED, files);
}
console.log(`${files.size - 1} files, ${packedBytes} bytes in brotli`);
