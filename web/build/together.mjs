/** Few files for many sources: sixty small files compress worse than three large ones.
 *
 * Each source that a dynamic `import()` loads belongs to a group. The sources of a group become one
 * module, which is loaded with the first of them.
 *
 * Promises: the order of the sources in a group depends on their names only.
 * Leaves out: imports in types, which load nothing; imports whose name is not a plain relative text,
 * which no source has. */

import { readFile, readdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";

const PREFIX = "group:";
const DYNAMIC = /(?<!typeof )\bimport\("(\.[^"]+)"\)/g;

async function sources(directory) {
  const entries = await readdir(directory, { recursive: true });
  return entries.filter((name) => /\.tsx?$/.test(name) && !/\.test\.ts$/.test(name)).sort();
}

/** Returns the sources that a dynamic import loads, sorted by name. */
async function loadedLater(root) {
  const found = new Set();
  for (const name of await sources(root)) {
    const text = await readFile(join(root, name), "utf8");
    for (const [, target] of text.matchAll(DYNAMIC)) found.add(join(dirname(name), target));
  }
  return [...found].sort();
}

/** Returns the text of the module that has all sources of a group. */
function moduleOf(sources) {
  const lines = [];
  const members = [];
  for (const [at, source] of sources.entries()) {
    lines.push(`import * as source${at} from ${JSON.stringify(`./${source}`)};`);
    members.push(`${JSON.stringify(source)}: source${at}`);
  }
  return [...lines, `export const sources = { ${members.join(", ")} };`].join("\n");
}

/** Returns the plug-in of esbuild for the sources in `root`; `groupOf` names the group of a source. */
export function together(root, groupOf) {
  return {
    name: "together",
    setup(build) {
      build.onResolve({ filter: /^group:/ }, ({ path }) => ({ path, namespace: "together" }));
      build.onLoad({ filter: /.*/, namespace: "together" }, async ({ path }) => {
        const all = await loadedLater(root);
        const contents = moduleOf(all.filter((source) => PREFIX + groupOf(source) === path));
        return { contents, resolveDir: root, loader: "js" };
      });
      build.onLoad({ filter: /\/console\/.*\.tsx?$/ }, async ({ path }) => {
        const folder = dirname(relative(root, path));
        const text = await readFile(path, "utf8");
        const contents = text.replaceAll(DYNAMIC, (_, target) => {
          const source = join(folder, target);
          const group = JSON.stringify(PREFIX + groupOf(source));
          return `import(${group}).then(({ sources }) => sources[${JSON.stringify(source)}])`;
        });
        return { contents, loader: path.endsWith("x") ? "tsx" : "ts" };
      });
    },
  };
}
