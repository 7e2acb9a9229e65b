/** Applies the chosen theme before the first paint. Runs in the head, so that no other colours flash. */

import { applyTheme, storedTheme } from "./theme.ts";

applyTheme(storedTheme());
