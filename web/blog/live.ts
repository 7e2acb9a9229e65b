/** Parts of a page that follow the server.
 *
 * `data-poll="url"` on an element with an id: the element of that id in the server's answer takes
 * its place every `data-poll-ms` milliseconds, as long as the answer carries `data-poll` too and
 * the page is visible. The elements whose ids are in `data-parts` change with it; the element whose
 * id is in `data-then` changes once, with the answer that ends the polling. `data-live="#id"` on a form: the element is asked for again whenever a
 * control changes. */

import { exchange, parsed, target } from "./page";

const DEFAULT_MS = 1000;
const PAUSE_MS = 300;

async function fetched(url: string): Promise<Document | null> {
  try {
    const answer = await fetch(url, { headers: { accept: "text/html", "x-part": "1" } });
    return answer.ok ? parsed(await answer.text()) : null;
  } catch {
    return null;
  }
}

async function poll(element: Element): Promise<void> {
  const url = (element as HTMLElement).dataset.poll;
  if (!element.isConnected || url === undefined) return;
  const answer = document.hidden ? null : await fetched(url);
  if (!element.isConnected) return;
  const { parts, then } = (element as HTMLElement).dataset;
  if (answer && then !== undefined && !answer.getElementById(element.id)?.matches("[data-poll]")) {
    exchange(then, answer);
    return;
  }
  // An answer without the element, or none at all, is asked for again.
  const fresh = answer ? exchange(element.id, answer) : element;
  if (answer) for (const id of (parts ?? "").split(" ")) exchange(id, answer);
  // The exchange has started the polling of a new element.
  if (fresh === element) schedule(element);
}

function schedule(element: Element): void {
  const wait = Number((element as HTMLElement).dataset.pollMs);
  window.setTimeout(() => void poll(element), wait > 0 ? wait : DEFAULT_MS);
}

/** Starts the polling of the elements below `root`, and of `root` itself. */
export function polls(root: ParentNode): void {
  if (root instanceof Element && root.matches("[data-poll]")) schedule(root);
  for (const element of root.querySelectorAll("[data-poll]")) schedule(element);
}

function live(form: HTMLFormElement): void {
  const id = (form.dataset.live ?? "").replace(/^#/, "");
  let timer = 0;
  let isAsking = false;
  let isChanged = false;
  const ask = async (): Promise<void> => {
    // One question at a time: a drag asks at once, and again with its newest values.
    if (isAsking) {
      isChanged = true;
      return;
    }
    isAsking = true;
    isChanged = false;
    const fields = new URLSearchParams();
    for (const [name, value] of new FormData(form)) fields.append(name, String(value));
    const url = target(form);
    url.search = fields.toString();
    const answer = await fetched(url.href);
    isAsking = false;
    if (answer && form.isConnected) exchange(id, answer);
    if (isChanged) {
      await ask();
      return;
    }
    // The browser bounds the changes of the address; the last one counts.
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      if (form.isConnected) history.replaceState(null, "", url);
    }, PAUSE_MS);
  };
  form.addEventListener("input", () => void ask());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void ask();
  });
}

/** Makes the forms with `data-live` below `root` ask while a person moves a slider. */
export function lives(root: ParentNode): void {
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-live]")) live(form);
}

/** Keeps a slider and the number field with `data-of` its id equal. */
export function sliders(root: ParentNode): void {
  for (const number of root.querySelectorAll<HTMLInputElement>("input[data-of]")) {
    const slider = document.getElementById(number.dataset.of ?? "");
    if (!(slider instanceof HTMLInputElement)) continue;
    slider.addEventListener("input", () => {
      number.value = slider.value;
    });
    number.addEventListener("input", () => {
      if (number.value !== "") slider.value = number.value;
    });
  }
}
