/** The choice of a theme, for the menu and the settings. */

import { createStore } from "./store.ts";
import { applyTheme, storedTheme, THEME_KEY, type Theme } from "./theme.ts";

/** The choice that is in force. */
export const theme = createStore<Theme>(storedTheme());

/** Sets the colours and keeps the choice where the browser allows it. */
export function chooseTheme(choice: Theme): void {
  applyTheme(choice);
  theme.set(choice);
  try {
    localStorage.setItem(THEME_KEY, choice);
  } catch {
    // A browser that keeps nothing still shows the chosen colours until the page closes.
  }
}
