/** Typed text is kept in the session's storage until the server has saved it.
 *
 * A form with `data-draft="key"` is kept under its key. Text is put back only into a control whose
 * text is the server's own, so that text which the server returned with an error stays. An element
 * with `data-clear-draft="key"` says that the server has saved the text. */

const PREFIX = "draft:";

type Control = HTMLInputElement | HTMLTextAreaElement;

/** Returns the controls whose text is worth keeping: neither hidden fields nor passwords. */
function controls(form: HTMLFormElement): Control[] {
  const found = form.querySelectorAll<Control>("input[type='text'], textarea");
  return [...found].filter((control) => control.name !== "");
}

function keep(form: HTMLFormElement, key: string): void {
  const texts: Record<string, string> = {};
  for (const control of controls(form)) {
    if (control.value !== control.defaultValue) texts[control.name] = control.value;
  }
  if (Object.keys(texts).length === 0) sessionStorage.removeItem(PREFIX + key);
  else sessionStorage.setItem(PREFIX + key, JSON.stringify(texts));
}

function restore(form: HTMLFormElement, key: string): void {
  const text = sessionStorage.getItem(PREFIX + key);
  if (text === null) return;
  let texts: Record<string, unknown>;
  try {
    texts = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return;
  }
  let isRestored = false;
  for (const control of controls(form)) {
    const kept = texts[control.name];
    if (typeof kept !== "string" || kept === control.value) continue;
    if (control.value !== control.defaultValue) continue;
    control.value = kept;
    control.dispatchEvent(new Event("input", { bubbles: true }));
    isRestored = true;
  }
  const note = form.querySelector("[data-draft-note]");
  if (isRestored && note) note.textContent = "Your unsaved text is back.";
}

/** Keeps and restores the texts of the forms below `root`. */
export function drafts(root: ParentNode): void {
  for (const done of root.querySelectorAll<HTMLElement>("[data-clear-draft]")) {
    sessionStorage.removeItem(PREFIX + (done.dataset.clearDraft ?? ""));
  }
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-draft]")) {
    const key = form.dataset.draft ?? "";
    restore(form, key);
    form.addEventListener("input", () => {
      keep(form, key);
    });
  }
}
