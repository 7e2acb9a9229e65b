/** Forms of trials, with `data-run="id"`: the answer is the element of this id, which takes the
 * place of the one in the page.
 *
 * The element may carry `data-say`, a sentence that is said to a screen reader. */

import { body } from "./forms";
import { exchange, parsed, target } from "./page";

const NO_ANSWER = "The blog does not answer. Try again in a moment.";

/** Says a sentence in the page's region for it. */
export function say(text: string): void {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}

async function run(form: HTMLFormElement, id: string, button: HTMLElement | null): Promise<void> {
  if (form.dataset.sending !== undefined) return;
  form.dataset.sending = "";
  form.setAttribute("aria-busy", "true");
  const note = form.querySelector("[data-run-note]");
  if (note) note.textContent = "";
  try {
    const answer = await fetch(target(form), {
      method: "POST",
      body: body(form, button),
      headers: { accept: "text/html", "x-part": "1" },
    });
    const fresh = parsed(await answer.text());
    if (!fresh.getElementById(id)) throw new Error("no such element");
    const shown = exchange(id, fresh);
    if (shown instanceof HTMLElement) say(shown.dataset.say ?? "");
  } catch {
    if (note) note.textContent = NO_ANSWER;
  } finally {
    delete form.dataset.sending;
    form.removeAttribute("aria-busy");
  }
}

/** Runs the trials below `root` without a page load. */
export function trials(root: ParentNode): void {
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-run]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void run(form, form.dataset.run ?? "", event.submitter);
    });
  }
}
