/** The files of the blog: style sheet, scripts, icons. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { hashed, manifestOf } from "./files.mjs";

const SOURCES = new URL("../blog/", import.meta.url);

/** The plain name of each file, and what it is made from. */
const FILES = [
  ["blog.css", "blog.css"],
  ["blog.js", "blog.ts"],
  ["icon.svg", "icon.svg"],
  ["icons.svg", "icons.svg"],
  ["theme.js", "theme.ts"],
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

/** Returns the content of each file by its name, the manifest last. */
async function outputs() {
  const files = new Map();
  const names = {};
  for (const [name, source] of FILES) {
    const bytes = await content(source);
    names[name] = hashed(name, bytes);
    files.set(names[name], bytes);
  }
  files.set("manifest.json", manifestOf(names));
  return files;
}

export const blog = {
  name: "blog",
  directory: "../apps/blog/web/dist",
  budgetBytes: 40 * 1024,
  outputs,
};
