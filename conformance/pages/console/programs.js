/**
 * The programs that the tests run with: a server with its console, and Chromium.
 *
 * `ORRERY_CONSOLE_FILES` names a directory with the console's files, in place of those in the program.
 * Leaves out: starting and ending a program (`../browser/programs.js`).
 */

import { chromium } from "playwright-core";

import { launch, start } from "../browser/programs.js";

/** Starts `orrery start` with these arguments, in memory unless they name a data directory. */
export async function startServer(...extra) {
  const store = extra.includes("--data-dir") ? [] : ["--memory"];
  const files = process.env.ORRERY_CONSOLE_FILES;
  return start([
    "start",
    ...store,
    ...(extra.includes("--listen") ? [] : ["--listen", "127.0.0.1:0"]),
    ...(extra.includes("--admin-listen") ? [] : ["--admin-listen", "127.0.0.1:0"]),
    "--ready-json",
    ...(files ? ["--console-files", files] : []),
    ...extra,
  ]);
}

/** Starts Chromium. */
export async function startBrowser() {
  return launch(chromium);
}
