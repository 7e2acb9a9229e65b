/** The area "feed": the change feed of a container. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  tabs: [{ id: "feed", label: "Change feed", order: 50, load: () => import("./tab.tsx") }],
};
