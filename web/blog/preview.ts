/** The preview of a post while it is written, rendered by the server at the address in
 * `data-preview` of the form. */

const PAUSE_MS = 300;

function preview(form: HTMLFormElement): void {
  const source = form.querySelector<HTMLTextAreaElement>("textarea");
  const target = form.querySelector("#preview");
  const url = form.dataset.preview;
  if (!source || !target || url === undefined) return;

  let timer = 0;
  let newest = 0;
  const render = async (): Promise<void> => {
    newest += 1;
    const own = newest;
    const body = new URLSearchParams({ content: source.value });
    const token = form.querySelector<HTMLInputElement>("input[name='csrf']");
    if (token) body.set("csrf", token.value);
    try {
      const answer = await fetch(url, { method: "POST", body });
      const html = await answer.text();
      // An answer that a later one overtook is dropped.
      if (answer.ok && own === newest) target.innerHTML = html;
    } catch {
      // The last preview stays; the text itself is in the form.
    }
  };
  source.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => void render(), PAUSE_MS);
  });
  const button = form.querySelector<HTMLElement>("[data-preview-button]");
  if (button) button.hidden = true;
}

/** Renders the previews of the forms below `root` while a person types. */
export function previews(root: ParentNode): void {
  for (const form of root.querySelectorAll<HTMLFormElement>("form[data-preview]")) preview(form);
}
