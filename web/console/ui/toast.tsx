/** Short messages at the lower edge: what just happened. They go after some seconds, errors stay. */

import type { JSX } from "preact";
import { createStore, useStore } from "../store.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icons.tsx";

interface Message {
  readonly number: number;
  readonly text: string;
  readonly kind: "good" | "bad";
}

const SHOWN_MS = 4_000;
const messages = createStore<readonly Message[]>([]);
let number = 0;

/** Shows a message. */
export function toast(text: string, kind: "good" | "bad" = "good"): void {
  number += 1;
  const message = { number, text, kind };
  messages.set([...messages.get().slice(-3), message]);
  if (kind === "good") setTimeout(() => remove(message), SHOWN_MS);
}

function remove(message: Message): void {
  messages.set(messages.get().filter((shown) => shown !== message));
}

/** Draws the messages; the frame has one of these. */
export function Toasts(): JSX.Element {
  const shown = useStore(messages);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((message) => (
        <div key={message.number} class={`toast ${message.kind}`}>
          <Icon name={message.kind === "good" ? "check" : "warn"} />
          <span>{message.text}</span>
          <Button kind="quiet" icon="close" label="Close the message" onClick={() => remove(message)} />
        </div>
      ))}
    </div>
  );
}
