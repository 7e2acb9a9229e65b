/** The area "overview": the account, its containers, and what needs attention. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Overview", icon: "overview", segments: [], order: 10 }],
  pages: [{ path: "", title: "Overview", load: () => import("./page.tsx") }],
};
