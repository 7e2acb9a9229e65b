/** The entry of the console: draws the frame into the page and listens for keys. */

import { render } from "preact";
import { commands, listenForKeys } from "./commands.ts";
import { COMMANDS } from "./areas.ts";
import { App } from "./frame/app.tsx";

const root = document.getElementById("app");
if (root) {
  commands.set(COMMANDS);
  listenForKeys();
  // Until here the page shows the empty frame of `index.html`.
  root.replaceChildren();
  render(<App />, root);
}
