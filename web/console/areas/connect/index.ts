/** The area "connect": what a program needs to reach the account. */

import type { Area } from "../../areas.ts";

export const area: Area = {
  navigation: [{ label: "Connect", icon: "connect", segments: ["connect"], order: 50 }],
  pages: [{ path: "connect", title: "Connect", load: () => import("./page.tsx") }],
};
