/** Forms with `data-enhance` are sent without a page load, so that typed text stays in the page
 * when no answer comes.
 *
 * The answer is shown as a page: after a redirect the page that it leads to, after a mistake the
 * form with its errors. A form sends once at a time. A form with `data-retry-ms` is sent again by
 * itself after that time, and after twice that time if the answer is such a form again, and so on,
 * `RETRIES_MAX` times. */

import { parsed, show, target } from "./page";

const RETRIES_MAX = 5;

/** Number of times that a form was sent again by itself since the last page without such a form. */
let retries = 0;

function note(form: HTMLFormElement, text: string): void {
  let place = form.querySelector(".send-note");
  if (!place) {
    place = document.createElement("p");
    place.className = "send-note error";
    place.setAttribute("role", "alert");
    form.append(place);
  }
  place.textContent = text;
}

/** Returns the fields of a form with those of the pressed button. */
export function body(form: HTMLFormElement, button: HTMLElement | null): URLSearchParams {
  const data = new FormData(form, button);
  const fields = new URLSearchParams();
  for (const [name, value] of data) {
    if (typeof value === "string") fields.append(name, value);
  }
  return fields;
}

async function send(form: HTMLFormElement, button: HTMLElement | null): Promise<void> {
  if (form.dataset.sending !== undefined) return;
  form.dataset.sending = "";
  try {
    const answer = await fetch(target(form), {
      method: "POST",
      body: body(form, button),
      headers: { accept: "text/html" },
    });
    const text = await answer.text();
    show(parsed(text), answer.redirected ? answer.url : location.href);
  } catch {
    note(form, "The blog does not answer. Your text is still here; try again in a moment.");
  } finally {
    delete form.dataset.sending;
  }
}

function isOwn(form: HTMLFormElement): boolean {
  return form.getAttribute("method") === "post" && target(form).origin === location.origin;
}

function retry(form: HTMLFormElement): void {
  const wait = Number(form.dataset.retryMs) * 2 ** retries;
  const place = form.querySelector("[data-retry-note]");
  if (!place || retries >= RETRIES_MAX) return;
  place.textContent = "The page tries again by itself.";
  const timer = window.setTimeout(() => {
    if (!form.isConnected) return;
    retries += 1;
    form.requestSubmit();
  }, wait);
  form.addEventListener("input", () => {
    window.clearTimeout(timer);
    place.textContent = "";
  });
}

/** Sends the forms below `root` without a page load. */
export function forms(root: ParentNode): void {
  if (root === document && !root.querySelector("form[data-retry-ms]")) retries = 0;
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-enhance]")) {
    if (!isOwn(form)) continue;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void send(form, event.submitter);
    });
    if (form.dataset.retryMs !== undefined) retry(form);
  }
}
