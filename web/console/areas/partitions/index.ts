/** The area "partitions": the tab of a container and the overview of all containers. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Partitions", icon: "table", segments: ["partitions"], order: 24 }],
  pages: [{ path: "partitions", title: "Partitions", load: () => import("./overview-page.tsx") }],
  tabs: [{ id: "partitions", label: "Partitions", order: 60, load: () => import("./tab.tsx") }],
};
