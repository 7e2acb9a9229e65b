/** Files of an application: their hashed names, packed copies, writing, comparing.
 *
 * Files are a Map from name to bytes. Leaves out: making the bytes. */

import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";

const UNPACKED = ["manifest.json", "index.html"];

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

/** Returns the name with a hash of the content before its ending. */
export function hashed(name, bytes) {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  const dot = name.lastIndexOf(".");
  return `${name.slice(0, dot)}-${hash}${name.slice(dot)}`;
}

/** Returns `manifest.json` with these names. */
export function manifestOf(names) {
  return Buffer.from(`${JSON.stringify(names, null, 2)}\n`);
}

function isPacked(name) {
  return !UNPACKED.includes(name);
}

/** Returns the size of all files in brotli, without the manifest. */
export function packedSize(files) {
  let size = 0;
  for (const [name, bytes] of files) {
    if (name !== "manifest.json") size += COMPRESSORS[0].pack(bytes).length;
  }
  return size;
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

/** Writes the files and their packed copies; removes what else is in the directory. */
export async function write(directory, files) {
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
export async function differences(directory, files) {
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
