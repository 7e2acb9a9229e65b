/** What scripts add to the pages of the blog. Each page works without them. */

import { copies } from "./copy";
import { drafts } from "./drafts";
import { forms } from "./forms";
import { lives, polls, sliders } from "./live";
import { lights } from "./meter";
import { onContent } from "./page";
import { previews } from "./preview";
import { drawer, themes } from "./switches";

// Previews and sliders listen before drafts are put back, which changes their controls.
for (const setup of [themes, drawer, lights, copies, previews, sliders, lives, polls, drafts, forms]) {
  onContent(setup);
}
