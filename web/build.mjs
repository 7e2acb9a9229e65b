/** Builds the files that the programs serve: the blog's and the console's.
 *
 *     node build.mjs                  writes both into the crates that embed them
 *     node build.mjs --check          fails unless these crates have what the sources give
 *     node build.mjs blog|console     writes one of them; a directory may follow
 *
 * A name carries a hash of the content, so that browsers may keep a file forever; `manifest.json`
 * maps the plain names to these. Beside each file stand its copies in brotli and gzip, except beside
 * the page `index.html`, which the server completes for each request.
 *
 * Promises: the same sources and packages give the same bytes, except that the copies depend on the
 * compressor of Node.js, so `--check` compares what they unpack to. The files of an application
 * stay below its budget in brotli.
 * Leaves out: what an application consists of (`build/blog.mjs`, `build/console.mjs`). */

import { fileURLToPath } from "node:url";
import { blog } from "./build/blog.mjs";
import { console as consoleApplication } from "./build/console.mjs";
import { differences, packedSize, write } from "./build/files.mjs";
import { differenceOfTypes } from "./console/generate-api.mjs";

const APPLICATIONS = [blog, consoleApplication];

function fail(lines) {
  for (const line of lines) console.error(line);
  process.exit(1);
}

/** Returns the files of an application; fails if they are above the budget. */
async function built(application) {
  const files = await application.outputs();
  const bytes = packedSize(files);
  console.log(`${application.name}: ${files.size - 1} files, ${bytes} bytes in brotli`);
  if (bytes > application.budgetBytes) {
    fail([`${application.name} takes ${bytes} bytes in brotli, more than ${application.budgetBytes}`]);
  }
  return files;
}

function committed(application) {
  return fileURLToPath(new URL(application.directory, import.meta.url));
}

async function check() {
  const lines = await differenceOfTypes();
  for (const application of APPLICATIONS) {
    const found = await differences(committed(application), await built(application));
    for (const line of found) lines.push(`${application.directory}: ${line}`);
  }
  if (lines.length > 0) fail([...lines, "run `npm run build` in web/ and commit what it writes"]);
}

const [argument, directory] = process.argv.slice(2);
if (argument === "--check") {
  await check();
} else {
  const chosen = APPLICATIONS.filter(({ name }) => argument === undefined || name === argument);
  if (chosen.length === 0) fail([`no application is called ${argument}: use blog or console`]);
  for (const application of chosen) {
    await write(directory ?? committed(application), await built(application));
  }
}
