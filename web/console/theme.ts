/** The theme: what the system says, or light or dark as a person chose; kept in the browser.
 *
 * Runs before the first paint, so it imports nothing. Leaves out: changing it (`theme-choice.ts`). */

export type Theme = "system" | "light" | "dark";

export const THEME_KEY = "orrery.theme";

/** Returns the stored choice; `system` without one. */
export function storedTheme(): Theme {
  try {
    const value = localStorage.getItem(THEME_KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

/** Sets the colours of the page. */
export function applyTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}
