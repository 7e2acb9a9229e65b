/** Which part of a scrolling element is seen. */

import { useEffect, useState } from "preact/hooks";

/** Returns the first pixel that is seen and how many are; `seen` pixels until the element is there. */
export function useScrolled(scroller: { readonly current: HTMLElement | null }, seen: number): { top: number; seen: number } {
  const [span, setSpan] = useState({ top: 0, seen });
  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const read = (): void => setSpan({ top: element.scrollTop, seen: element.clientHeight });
    read();
    element.addEventListener("scroll", read, { passive: true });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", read);
      observer.disconnect();
    };
  }, [scroller]);
  return span;
}
