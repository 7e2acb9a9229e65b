/** Movements of what a page has already shown, as the browser itself counts them. */

function watch() {
  window.shifts = [];
  const observer = new PerformanceObserver((list) => {
    for (const { value, sources } of list.getEntries()) {
      const nodes = sources.map(({ node }) => `${node?.nodeName} ${node?.className}`);
      window.shifts.push(`${value}: ${nodes}`);
    }
  });
  observer.observe({ type: "layout-shift", buffered: false });
}

/** Counts the movements of the page from now on. */
export async function watchShifts(page) {
  await page.evaluate(watch);
}

/** Counts the movements of each page that is opened later, from its first paint on. */
export async function watchShiftsOfPages(page) {
  await page.addInitScript(watch);
}

/** Returns the movements so far, once the page has painted what it has. */
export async function shiftsOf(page) {
  return page.evaluate(async () => {
    const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    await painted();
    await painted();
    return window.shifts;
  });
}
