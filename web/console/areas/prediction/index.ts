/** The area "what-if": a tab of each container that predicts other settings. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  tabs: [{ id: "what-if", label: "What-if", order: 80, load: () => import("./tab.tsx") }],
};
