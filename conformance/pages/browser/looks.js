/**
 * How a page looks: axe-core's rules, the width, a screenshot; at two widths, light and dark.
 *
 * A page is looked at wide in the light scheme and narrow in the dark one, with all rules. Each time it is then turned
 * to the other scheme, where only the rules that read colours run again, because a scheme sets nothing else.
 * Promises: nothing here waits for the clock.
 * Leaves out: axe-core, which each suite has; `violationsOf` gets its source.
 */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

/** The windows, each with the scheme that a page has first. */
export const WINDOWS = [
  { width: 1280, colorScheme: "light" },
  { width: 390, colorScheme: "dark" },
];

/** The rules of axe-core that read colours. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];

/** Returns the other scheme. */
export function otherScheme(colorScheme) {
  return colorScheme === "light" ? "dark" : "light";
}

/** Returns the violations of axe-core on the page as it is now, as texts; `coloursOnly` leaves the other rules out. */
export async function violationsOf(page, axeSource, { coloursOnly = false } = {}) {
  // The policy of the page allows no script from elsewhere; a new document's script is the test's own.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
  const options = { resultTypes: ["violations"], ...(coloursOnly ? { runOnly: COLOUR_RULES } : {}) };
  const violations = await page.evaluate(async (chosen) => {
    const result = await window.axe.run(document, chosen);
    return result.violations;
  }, options);
  return violations.map(({ id, nodes }) => {
    const places = nodes.map(({ html, failureSummary }) => `${html.slice(0, 200)} (${failureSummary})`);
    return `${id}: ${places.join(" | ")}`;
  });
}

/** Returns by how many pixels the page is wider than its window. */
export async function pixelsBeyond(page) {
  return page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth));
}

/** Writes a screenshot into the directory `ORRERY_SHOTS`, if the variable is set. */
export async function screenshot(page, name) {
  const directory = process.env.ORRERY_SHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: join(directory, `${name}.png`) });
}
