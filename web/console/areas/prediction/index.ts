/** The area "prediction": a tab of each container that predicts other settings. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  tabs: [{ id: "prediction", label: "Prediction", order: 80, load: () => import("./tab.tsx") }],
};
