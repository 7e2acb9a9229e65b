/** The area "settings": choices of a person for all pages. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Settings", icon: "settings", segments: ["settings"], order: 60 }],
  pages: [{ path: "settings", title: "Settings", load: () => import("./page.tsx") }],
};
