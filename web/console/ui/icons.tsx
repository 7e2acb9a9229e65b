/** Icons: 16 by 16, drawn with lines in the colour of the text; hidden from screen readers. */

import type { JSX } from "preact";

const PATHS = {
  overview: "M2.5 2.5h4.5v5.5h-4.5zM9 2.5h4.5v3.5h-4.5zM9 8h4.5v5.5h-4.5zM2.5 10h4.5v3.5h-4.5z",
  data: "M2.5 4c0-1 2.4-1.8 5.5-1.8s5.5.8 5.5 1.8-2.4 1.8-5.5 1.8-5.5-.8-5.5-1.8zM2.5 4v8c0 1 2.4 1.8 5.5 1.8s5.5-.8 5.5-1.8v-8M2.5 8c0 1 2.4 1.8 5.5 1.8s5.5-.8 5.5-1.8",
  requests: "M2.5 4h11M2.5 8h7M2.5 12h9",
  live: "M1.5 8.5h3l2-5 3 9 2-4h3",
  connect: "M6.5 9.5l3-3M5 7.5l-1.7 1.7a2.4 2.4 0 0 0 3.4 3.4l1.7-1.7M11 8.5l1.7-1.7a2.4 2.4 0 0 0-3.4-3.4l-1.7 1.7",
  settings: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5h1.5M7.5 11.5h6M10.2 2.8a1.7 1.7 0 1 0 .01 0M5.7 9.8a1.7 1.7 0 1 0 .01 0",
  search: "M7 2.5a4.5 4.5 0 1 0 .01 0M10.3 10.3l3.4 3.4",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  plus: "M8 3v10M3 8h10",
  check: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 2.5l6 11h-12zM8 6.5v3M8 11.5v.01",
  info: "M8 1.8a6.2 6.2 0 1 0 .01 0M8 7.2v4M8 4.8v.01",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4l-4 4 4 4",
  reload: "M13 8a5 5 0 1 1-1.5-3.6M13 2.5v3h-3",
  sun: "M8 5a3 3 0 1 0 .01 0M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7",
  moon: "M13 9.7a5.5 5.5 0 1 1-6.7-6.7 4.4 4.4 0 0 0 6.7 6.7z",
  system: "M2 3h12v8h-12zM6 13.5h4M8 11v2.5",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.6 9h5.8l.6-9",
  edit: "M3 13l.7-3 6.8-6.8 2.3 2.3-6.8 6.8zM9 4.7l2.3 2.3",
  play: "M4.5 3v10l8-5z",
  stop: "M4 4h8v8h-8z",
  save: "M3 3h8l2 2v8h-10zM5.5 3v3h4v-3M5.5 13v-4h5v4",
  upload: "M8 10.5v-8M5 5.5l3-3 3 3M2.5 10.5v3h11v-3",
  download: "M8 2.5v8M5 7.5l3 3 3-3M2.5 10.5v3h11v-3",
  table: "M2.5 3h11v10h-11zM2.5 6.3h11M2.5 9.6h11M6.5 3v10",
  out: "M6 2.5h-3.5v11h3.5M9.5 5l3 3-3 3M12.5 8h-7",
  key: "M5.5 7a3.2 3.2 0 1 0 .01 0M7.8 8.2l5.7-5.7M11 5l2 2",
  bolt: "M9 1.5l-6 8h4l-1 5 6-8h-4z",
} as const;

export type IconName = keyof typeof PATHS;

/** Draws an icon. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
