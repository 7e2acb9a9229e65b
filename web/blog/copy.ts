/** Buttons with `data-copy="url"`: the text at this address goes to the clipboard. The element with
 * `data-copied` beside the button says so. */

async function copied(button: HTMLElement): Promise<string> {
  try {
    const answer = await fetch(button.dataset.copy ?? "");
    if (!answer.ok) return "There is nothing to copy yet.";
    await navigator.clipboard.writeText(await answer.text());
    return "Copied.";
  } catch {
    return "Not copied: the browser did not allow it. Use the download.";
  }
}

/** Makes the copy buttons below `root` work. */
export function copies(root: ParentNode): void {
  for (const button of root.querySelectorAll<HTMLElement>("[data-copy]")) {
    button.addEventListener("click", async () => {
      const words = await copied(button);
      const place = button.parentElement?.querySelector("[data-copied]");
      if (place) place.textContent = words;
    });
  }
}
