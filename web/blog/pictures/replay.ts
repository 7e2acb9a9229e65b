/** The replay of a rename: each copy shows the old name until the moment at which it followed.
 *
 * `data-replay="old name"` on an element whose items have `data-at` in milliseconds. The server
 * renders the end of the story; a replay begins only when a new one has come into the page, and not
 * at all if the person wants no motion. */

/** Length of the slowest replay. */
const LENGTH_MS = 4000;

/** The story that was shown last, so that another form of the page does not repeat it. */
let shown: string | null = null;
let isFirst = true;

function story(element: HTMLElement): string {
  const moments = [...element.querySelectorAll<HTMLElement>("[data-at]")];
  return moments.map((item) => item.dataset.at ?? "").join(" ");
}

function replay(element: HTMLElement, old: string): void {
  const items = [...element.querySelectorAll<HTMLElement>("[data-at]")];
  const last = Math.max(...items.map((item) => Number(item.dataset.at)));
  const factor = Math.max(1, Math.round(LENGTH_MS / Math.max(last, 1)));
  const note = document.querySelector("[data-replay-note]");
  if (note && factor > 1) note.textContent = `Shown ${factor.toString()} times slower.`;
  for (const item of items) {
    const name = item.querySelector("b");
    if (!name) continue;
    const text = name.textContent;
    name.textContent = old;
    item.classList.add("old");
    window.setTimeout(() => {
      name.textContent = text;
      item.classList.replace("old", "followed");
    }, Number(item.dataset.at) * factor);
  }
}

/** Replays a rename below `root` that has not been shown yet. */
export function replays(root: ParentNode): void {
  const element = root.querySelector<HTMLElement>("[data-replay]");
  const own = element ? story(element) : "";
  const isNew = own !== "" && own !== shown && !isFirst;
  if (element) shown = own;
  isFirst = false;
  if (!element || !isNew) return;
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  replay(element, element.dataset.replay ?? "");
}
