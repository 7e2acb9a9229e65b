/**
 * Measures how soon the console shows its first page after its address is opened, and prints the figures.
 *
 *     node first-paint.js [ROUNDS]
 *
 * Each round has a new browser context, so nothing is cached; the session exists already.
 */

import { startBrowser, startServer } from "./programs.js";
import { consoleAddress } from "./address.js";

const rounds = Number(process.argv[2] ?? 10);
const server = await startServer();
const browser = await startBrowser();
const address = consoleAddress(server);
const painted = [];
const shown = [];
try {
  for (let round = 0; round < rounds; round += 1) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
    await context.request.post(`${address}api/session`, {
      data: { key: server.ready.admin_key },
      headers: { origin: new URL(address).origin },
    });
    const page = await context.newPage();
    await page.goto(address);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const times = await page.evaluate(() => ({
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
      now: performance.now(),
    }));
    painted.push(times.paint);
    shown.push(times.now);
    await context.close();
  }
} finally {
  await browser.close();
  await server.stop();
}

function middle(values) {
  return [...values].sort((left, right) => left - right)[Math.floor(values.length / 2)].toFixed(0);
}

console.log(`first contentful paint: median ${middle(painted)} ms, worst ${Math.max(...painted).toFixed(0)} ms`);
console.log(`heading of the page visible: median ${middle(shown)} ms, worst ${Math.max(...shown).toFixed(0)} ms`);
