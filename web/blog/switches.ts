/** The theme switch and the drawer of the meter; both remember how they were left. */

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

function kept(): Theme {
  const theme = localStorage.getItem("theme");
  return theme === "light" || theme === "dark" ? theme : "system";
}

function apply(theme: Theme): void {
  if (theme === "system") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", theme);
    document.documentElement.dataset.theme = theme;
  }
}

/** Shows the theme switches below `root`; a press goes to the next theme. */
export function themes(root: ParentNode): void {
  for (const button of root.querySelectorAll<HTMLElement>("[data-theme-switch]")) {
    const say = (): void => {
      button.setAttribute("aria-label", `Theme: ${kept()}`);
      button.title = `Theme: ${kept()}`;
    };
    say();
    button.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(kept()) + 1) % THEMES.length];
      apply(next ?? "system");
      say();
    });
  }
}

/** Leaves the meter open or closed as a person left it on the page before. */
export function drawer(root: ParentNode): void {
  const meter = root.querySelector<HTMLDetailsElement>("#meter");
  if (!meter) return;
  const left = sessionStorage.getItem("meter");
  if (left !== null) meter.open = left === "open";
  // The event `toggle` would also tell of a meter that the server opened.
  meter.querySelector("summary")?.addEventListener("click", () => {
    sessionStorage.setItem("meter", meter.open ? "closed" : "open");
  });
}
