/** The squares of a fan-out light up in the order in which the partitions answered. */

/** Time until the last square is lit. */
const WHOLE_MS = 1200;

function light(squares: Element[]): void {
  squares.sort((one, other) => orderOf(one) - orderOf(other));
  for (const square of squares) square.classList.remove("answered");
  const started = performance.now();
  const step = (now: number): void => {
    const lit = Math.ceil(((now - started) / WHOLE_MS) * squares.length);
    for (const square of squares.slice(0, lit)) square.classList.add("answered");
    if (lit < squares.length) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

function orderOf(square: Element): number {
  return Number(square.getAttribute("data-order"));
}

/** Starts the pictures below `root`, unless the person wants no motion. */
export function fanOut(root: ParentNode): void {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const picture of root.querySelectorAll("[data-picture='fan-out']")) {
    const squares = [...picture.querySelectorAll(".answered")];
    if (squares.length > 0) light(squares);
  }
}
