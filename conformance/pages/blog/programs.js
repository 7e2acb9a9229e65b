/**
 * The programs that the tests run with: the blog, a database server of its own, and Chromium.
 *
 * Leaves out: starting and ending a program (`../browser/programs.js`).
 */

import { chromium } from "playwright-core";

import { launch, start } from "../browser/programs.js";

/** Starts `orrery blog` with these arguments, in memory unless they name the server of its database. */
export async function startBlog(...extra) {
  const inside = ["--memory", "--database-listen", "127.0.0.1:0", "--admin-listen", "off"];
  const store = extra.includes("--endpoint") ? [] : inside;
  return start(["blog", ...store, "--listen", "127.0.0.1:0", "--ready-json", ...extra]);
}

/** Starts a database server with a management API. */
export async function startServer() {
  return start(["start", "--memory", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--ready-json"]);
}

/** Starts Chromium. */
export async function startBrowser() {
  return launch(chromium);
}
