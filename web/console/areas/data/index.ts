/** The area "data": the tree, databases, containers, items, settings, scripts, users, conflicts. */

import type { Area } from "../../areas.ts";
import { href, navigate } from "../../router.ts";

export const area: Area = {
  navigation: [{ label: "Data", icon: "data", segments: ["data"], order: 20 }],
  pages: [
    { path: "data", title: "Databases", load: () => import("./databases/databases-page.tsx") },
    { path: "data/:database", title: "Database", load: () => import("./databases/database-page.tsx") },
  ],
  tabs: [
    { id: "items", label: "Items", order: 10, load: () => import("./items/items-tab.tsx") },
    { id: "settings", label: "Scale & settings", order: 30, load: () => import("./settings/settings-tab.tsx") },
    { id: "scripts", label: "Scripts", order: 40, load: () => import("./scripts/scripts-tab.tsx") },
    { id: "conflicts", label: "Conflicts", order: 90, load: () => import("./conflicts-tab.tsx") },
  ],
  commands: [
    {
      id: "data.new-database",
      label: "New database",
      group: "Data",
      keys: ["Alt+N D"],
      run: () => navigate(href(["data"], { new: "database" })),
    },
    { id: "data.open", label: "Open the databases", group: "Data", run: () => navigate(href(["data"])) },
  ],
  tree: () => import("./tree/tree.tsx"),
};
