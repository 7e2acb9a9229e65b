/** Which part of an element is seen: an element that fills its place scrolls itself; any other is as high as
 * its content, and the page or the dialog around it scrolls, so that a page has one scroller. */

import { useEffect, useState } from "preact/hooks";

/** Returns the element that scrolls `element`. */
export function scrollerOf(element: HTMLElement): HTMLElement {
  if (element.closest(".fill")) return element;
  return element.closest<HTMLElement>("dialog, .page") ?? element;
}

/** Returns the distance from the top of `element` to the first pixel that its scroller shows. */
export function topOf(element: HTMLElement, scroller: HTMLElement): number {
  if (element === scroller) return element.scrollTop;
  return scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
}

/** Returns the first pixel that is seen and how many are; `seen` pixels until the element is there. */
export function useScrolled(place: { readonly current: HTMLElement | null }, seen: number): { top: number; seen: number } {
  const [span, setSpan] = useState({ top: 0, seen });
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const scroller = scrollerOf(element);
    const read = (): void => setSpan({ top: Math.max(0, topOf(element, scroller)), seen: scroller.clientHeight });
    read();
    scroller.addEventListener("scroll", read, { passive: true });
    const observer = new ResizeObserver(read);
    observer.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", read);
      observer.disconnect();
    };
  }, [place]);
  return span;
}
