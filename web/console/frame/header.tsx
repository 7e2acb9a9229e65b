/** The header: brand, account, search, load at this moment, the console's own requests, theme. */

import type { JSX } from "preact";
import { requestLog, session, signOut } from "../api/client.ts";
import { useCommands } from "../commands.ts";
import { useStore } from "../store.ts";
import { chooseTheme, theme as currentTheme } from "../theme-choice.ts";
import type { Theme } from "../theme.ts";
import { Button } from "../ui/button.tsx";
import { ru } from "../ui/format.ts";
import { Icon, type IconName } from "../ui/icons.tsx";
import { Menu } from "../ui/menu.tsx";
import { Badge } from "../ui/states.tsx";
import { open } from "./overlays.tsx";
import { LoadNow } from "./load-now.tsx";

export interface HeaderProps {
  readonly onMenu: () => void;
  readonly isMenuOpen: boolean;
}

/** Draws the header. */
export function Header({ onMenu, isMenuOpen }: HeaderProps): JSX.Element {
  return (
    <header class="header">
      <Button
        kind="quiet"
        icon="menu"
        label="Navigation"
        class="only-narrow"
        expanded={isMenuOpen}
        onClick={onMenu}
      />
      <a class="brand" href="#/">
        <Icon name="data" /> Orrery
      </a>
      <Account />
      <button
        type="button"
        class="search-button"
        aria-keyshortcuts="Control+K"
        onClick={() => open("palette")}
      >
        <Icon name="search" />
        <span class="search-text">Search or command</span>
        <kbd>Ctrl K</kbd>
      </button>
      <LoadNow />
      <OwnRequests />
      <ThemeMenu />
    </header>
  );
}

function Account(): JSX.Element {
  const current = useStore(session);
  const leave = (): void => void signOut();
  return (
    <div class="account">
      <Menu label={`Account ${current?.account ?? ""}`} items={[{ label: "Sign out", icon: "out", onSelect: leave }]}>
        <span class="account-name">{current?.account}</span>
        <Icon name="down" />
      </Menu>
      {current?.readOnly && <Badge kind="warn">read-only</Badge>}
    </div>
  );
}

/** The sum of what this page's requests cost, and the button that lists them. */
function OwnRequests(): JSX.Element {
  const log = useStore(requestLog);
  let sum = 0;
  for (const entry of log) sum += entry.charge;
  return (
    <Button kind="quiet" icon="requests" title="Requests of the console" onClick={() => open("requests")}>
      <span class="visually-hidden">Requests of the console</span>
      <span class="own-sum">{ru(sum)}</span>
    </Button>
  );
}

const THEMES: readonly (readonly [Theme, string, IconName])[] = [
  ["system", "As the system", "system"],
  ["light", "Light", "sun"],
  ["dark", "Dark", "moon"],
];

function ThemeMenu(): JSX.Element {
  const theme = useStore(currentTheme);
  useCommands(
    THEMES.map(([value, text]) => ({
      id: `theme.${value}`,
      label: `Use the ${value === "system" ? "theme of the system" : `${text.toLowerCase()} theme`}`,
      group: "Console",
      run: () => chooseTheme(value),
    })),
  );
  const icon = THEMES.find(([value]) => value === theme)?.[2] ?? "system";
  const items = THEMES.map(([value, label, name]) => ({ label, icon: name, onSelect: () => chooseTheme(value) }));
  return (
    <Menu label="Theme" items={items}>
      <Icon name={icon} />
    </Menu>
  );
}
