/** The area "live": the load of the account as charts over time. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Live", icon: "live", segments: ["live"], order: 40 }],
  pages: [{ path: "live", title: "Live", load: () => import("./page.tsx") }],
};
