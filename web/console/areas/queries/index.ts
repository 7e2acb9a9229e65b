/** The area "queries": the query forms of a container, and of all containers. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Queries", icon: "search", segments: ["queries"], order: 26 }],
  pages: [{ path: "queries", title: "Queries", load: () => import("./page.tsx") }],
  tabs: [{ id: "queries", label: "Queries", order: 70, load: () => import("./tab.tsx") }],
};
