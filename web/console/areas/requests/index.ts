/** The area "requests": the log of slow, expensive, refused and failed requests. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Requests", icon: "requests", segments: ["requests"], order: 30 }],
  pages: [{ path: "requests", title: "Requests", load: () => import("./page.tsx") }],
};
