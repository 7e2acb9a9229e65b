/** The steps of a transaction, one at a time, with the lines of the code that each step runs.
 *
 * Without this module all steps stand one below the other. */

import { say } from "../trials";

function walk(picture: HTMLElement): void {
  const bar = picture.querySelector<HTMLElement>("[data-walk]");
  const slider = picture.querySelector<HTMLInputElement>("input[type='range']");
  const steps = [...picture.querySelectorAll<HTMLElement>(".walk-steps > li")];
  const back = picture.querySelector<HTMLButtonElement>("#walk-back");
  const next = picture.querySelector<HTMLButtonElement>("#walk-next");
  if (!bar || !slider || !back || !next || steps.length === 0) return;
  const code = picture.parentElement?.querySelectorAll<HTMLElement>(".script [data-step]") ?? [];

  const show = (): void => {
    const now = Number(slider.value);
    for (const step of steps) step.hidden = step.dataset.step !== slider.value;
    for (const line of code) line.classList.toggle("now", line.dataset.step === slider.value);
    const title = steps[now - 1]?.querySelector("h3")?.textContent ?? "";
    slider.setAttribute("aria-valuetext", title);
    // A disabled button would lose the focus.
    back.setAttribute("aria-disabled", String(now === 1));
    next.setAttribute("aria-disabled", String(now === steps.length));
  };
  const go = (by: number): void => {
    slider.value = String(Number(slider.value) + by);
    show();
    say(slider.getAttribute("aria-valuetext") ?? "");
  };
  slider.addEventListener("input", show);
  back.addEventListener("click", () => {
    go(-1);
  });
  next.addEventListener("click", () => {
    go(1);
  });
  bar.hidden = false;
  show();
}

/** Starts the pictures below `root`. */
export function steps(root: ParentNode): void {
  for (const picture of root.querySelectorAll<HTMLElement>("[data-picture='steps']")) walk(picture);
}
