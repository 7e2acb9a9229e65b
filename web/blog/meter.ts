/** The meter: requests as lights that travel from the page to the physical partitions they ask, and
 * rows of requests that show their squares.
 *
 * The lights run once for a page, one row of the table of requests after another, and not at all
 * for a person who wants less motion: the squares then have numbers. A row that has the focus or
 * the pointer marks its squares; the arrow keys go from row to row. */

const LIGHT_MS = 150;
/** Rows and lights beyond these are shown at once, so that the lights end within two seconds. */
const ROWS_MAX = 10;
const LIGHTS_MAX = 90;

function rowsOf(meter: Element): HTMLElement[] {
  return [...meter.querySelectorAll<HTMLElement>("tbody[data-asks]")];
}

function namesOf(row: HTMLElement): Set<string> {
  return new Set((row.dataset.asks ?? "").split(" "));
}

/** The squares of the page's own model with one of these names, in the line of the meter and in the
 * drawer. */
function squares(meter: Element, names: Set<string>, within: string): HTMLElement[] {
  const all = meter.querySelectorAll<HTMLElement>(within);
  return [...all].filter((square) => names.has(square.dataset.sq ?? ""));
}

const IN_LINE = "#meter-squares .sq";
const EVERYWHERE = `${IN_LINE}, .prices .current .sq`;

function mark(meter: Element, row: HTMLElement | null): void {
  for (const square of meter.querySelectorAll(".sq.marked")) square.classList.remove("marked");
  if (!row) return;
  for (const square of squares(meter, namesOf(row), EVERYWHERE)) square.classList.add("marked");
}

function walk(meter: Element): void {
  const rows = rowsOf(meter);
  rows.forEach((row, place) => {
    // One row is in the order of the tabulator; the arrow keys reach the others.
    row.tabIndex = place === 0 ? 0 : -1;
    row.addEventListener("focusin", () => mark(meter, row));
    row.addEventListener("focusout", () => mark(meter, null));
    row.addEventListener("pointerenter", () => mark(meter, row));
    row.addEventListener("pointerleave", () => mark(meter, null));
    row.addEventListener("keydown", (event) => {
      if (event.target !== row) return;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const next = step === undefined ? undefined : rows[place + step];
      if (!next) return;
      event.preventDefault();
      row.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });
}

async function travel(light: HTMLElement, from: Element, to: HTMLElement): Promise<void> {
  const copy = light.cloneNode() as HTMLElement;
  copy.hidden = false;
  light.after(copy);
  const [start, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
  const [x, y] = [end.left - start.right, end.top - start.top];
  const frames = [{ transform: "none" }, { transform: `translate(${x}px, ${y}px)` }];
  try {
    await copy.animate(frames, { duration: LIGHT_MS, easing: "ease-out" }).finished;
  } catch {
    // The page was left.
  }
  copy.remove();
  to.classList.remove("waiting");
}

async function play(meter: Element): Promise<void> {
  const light = meter.querySelector<HTMLElement>("[data-light]");
  const lamp = meter.querySelector(".lamp");
  if (!light || !lamp) return;
  const line = [...meter.querySelectorAll<HTMLElement>(`${IN_LINE}.lit`)];
  for (const square of line) square.classList.add("waiting");
  for (const row of rowsOf(meter).slice(0, ROWS_MAX)) {
    const asked = squares(meter, namesOf(row), IN_LINE).slice(0, LIGHTS_MAX);
    await Promise.all(asked.map((square) => travel(light, lamp, square)));
  }
  for (const square of line) square.classList.remove("waiting");
}

/** Makes the meter below `root` show where its requests went. */
export function lights(root: ParentNode): void {
  const meter = root.querySelector("#meter");
  if (!meter) return;
  walk(meter);
  if (!window.matchMedia("(prefers-reduced-motion: reduce)").matches) void play(meter);
}
