/** The area "query": the query tab of a container, and the tutorial. */

import type { Area } from "../../areas.ts";
import { href, navigate } from "../../router.ts";

export const area: Area = {
  tabs: [{ id: "query", label: "Query", order: 20, load: async () => import("./page.tsx") }],
  pages: [
    { path: "tutorial", title: "Tutorial", load: async () => import("./tutorial/page.tsx") },
  ],
  commands: [
    {
      id: "query.tutorial",
      label: "Open the tutorial",
      group: "Help",
      run: () => navigate(href(["tutorial"])),
    },
  ],
};
