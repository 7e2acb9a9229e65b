/** What scripts add to the pages of the blog. Each page works without them. */

import { copies } from "./copy";
import { drafts } from "./drafts";
import { forms } from "./forms";
import { lives, polls, sliders } from "./live";
import { lights } from "./meter";
import { onContent } from "./page";
import { fanOut } from "./pictures/fan-out";
import { opening } from "./pictures/opening";
import { replays } from "./pictures/replay";
import { steps } from "./pictures/steps";
import { previews } from "./preview";
import { drawer, themes } from "./switches";
import { trials } from "./trials";

const PICTURES = [opening, fanOut, steps, replays];
// Previews and sliders listen before drafts are put back, which changes their controls.
const SETUPS = [themes, drawer, lights, copies, previews, sliders, lives, polls, drafts, forms, trials];

for (const setup of [...SETUPS, ...PICTURES]) {
  onContent(setup);
}
