"use strict";

/**
 * The operations of a client program, reported a line each. See `../programs/report.py`.
 *
 *     const program = new Program("documentdb");
 *     await program.operation("an item is created", async () => { … });
 *     program.end();
 *
 * An operation that throws is reported as failed, and the program goes on.
 */

const { randomUUID } = require("node:crypto");
const { readFileSync } = require("node:fs");
const path = require("node:path");

exports.endpoint = process.env.ORRERY_ENDPOINT;
exports.key = process.env.ORRERY_KEY;

/** A run of a program. */
exports.Program = class Program {
  constructor(client) {
    this.failed = false;
    this.database = `clients-${randomUUID().slice(0, 13)}`;
    // The working directory is the environment, so this is the package that is installed there.
    const manifest = path.join("node_modules", client, "package.json");
    say({ client, version: JSON.parse(readFileSync(manifest, "utf8")).version });
  }

  /** One operation and the assertions about its answer. */
  async operation(name, work) {
    try {
      await work();
      say({ operation: name, passed: true });
    } catch (problem) {
      console.error(problem);
      this.failed = true;
      const message = problem?.message ?? JSON.stringify(problem);
      say({ operation: name, passed: false, message: String(message).slice(0, 800) });
    }
  }

  /** Ends the process: with code 0 if every operation passed. */
  end() {
    say({ end: true });
    process.exit(this.failed ? 1 : 0);
  }
};

function say(line) {
  // Written at once: the end of the process would drop what waits in a pipe's buffer.
  require("node:fs").writeSync(1, `${JSON.stringify(line)}\n`);
}
