/**
 * The programs that tests in a browser run with: `orrery` and Chromium.
 *
 * The program prints one line of JSON when it is ready, so nothing here waits for the clock. A program that ends or
 * panics during the run fails the run.
 * Leaves out: playwright-core, which each suite has; `launch` gets its `chromium`.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const READY_MS_MAX = 240_000;
const STOP_MS_MAX = 30_000;
const LOG_CHARACTERS_KEPT = 6_000;

/** Starts `orrery` with these words and returns it with its ready line. */
export async function start(words) {
  const child = spawn(program(), words, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal)));
  const failed = new Promise((_, reject) => child.once("error", reject));
  failed.catch(() => {});
  let log = "";
  let panicked = false;
  createInterface({ input: child.stderr }).on("line", (line) => {
    panicked ||= line.includes("panicked at");
    log = `${log}${line}\n`.slice(-LOG_CHARACTERS_KEPT);
  });
  const firstLine = new Promise((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
  const name = `orrery ${words[0]}`;
  const line = await Promise.race([
    firstLine,
    failed,
    ended.then((code) => Promise.reject(new Error(`${name} ended with ${code} before it was ready\n${log}`))),
    deadline(READY_MS_MAX, () => `${name} was not ready after ${READY_MS_MAX} ms\n${log}`),
  ]).catch((error) => {
    child.kill("SIGKILL");
    throw error;
  });
  const ready = JSON.parse(line);
  assert.equal(ready.ready, true, `the first line of ${name} is not its ready line: ${line}`);
  return {
    ready,
    /** Ends the program as a crash would. */
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    async stop() {
      assert.equal(child.exitCode, null, `${name} ended by itself with ${child.exitCode}\n${log}`);
      child.kill("SIGTERM");
      await Promise.race([ended, deadline(STOP_MS_MAX, () => `${name} did not stop\n${log}`)]).catch((error) => {
        child.kill("SIGKILL");
        throw error;
      });
      assert.equal(panicked, false, `${name} panicked\n${log}`);
    },
  };
}

/** Rejects after `ms`; does not keep the process alive. */
function deadline(ms, message) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(message())), ms).unref());
}

/** The program: $ORRERY_BIN, else the one that `cargo build` leaves in target/debug. */
function program() {
  const path = process.env.ORRERY_BIN || fileURLToPath(new URL("../../../target/debug/orrery", import.meta.url));
  if (existsSync(path)) return path;
  throw new Error(
    `no program at ${path}: build it with \`cargo build -p orrery-cli\`, or name another one in ORRERY_BIN`,
  );
}

/** Starts Chromium. */
export async function launch(chromium) {
  return chromium.launch({
    executablePath: browserProgram(),
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"],
  });
}

/** The names of Chromium; that without windows is first, because it opens a page with 40 % less work. */
const BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

function browserProgram() {
  const named = process.env.ORRERY_CHROMIUM;
  if (named) return named;
  for (const name of BROWSERS) {
    for (const directory of (process.env.PATH ?? "").split(delimiter)) {
      if (directory && existsSync(join(directory, name))) return join(directory, name);
    }
  }
  throw new Error(
    "no Chromium on the path: `apt-get install chromium-headless-shell`, or name another one in ORRERY_CHROMIUM",
  );
}
