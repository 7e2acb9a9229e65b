/** Commands: what the palette lists and what keys run.
 *
 *     useCommands([{ id: "query.run", label: "Run the query", keys: ["Shift+Enter", "F5"], run }])
 *
 * `Mod` is Control, on a Mac Command. A sequence has a space: `Alt+N Q`.
 * Promises: the newest command with a key wins, so a page overrides the frame; a key that types a
 * character does nothing while a person types; a key that an editor used does nothing else. */

import { useEffect, useRef } from "preact/hooks";
import { createStore } from "./store.ts";

export interface Command {
  readonly id: string;
  /** A verb and what it acts on. */
  readonly label: string;
  readonly keys?: readonly string[] | undefined;
  /** The heading in the palette and in the list of keys. */
  readonly group?: string | undefined;
  /** Not listed in the palette, such as the palette itself. */
  readonly isHidden?: boolean | undefined;
  readonly run: () => void;
}

export const commands = createStore<readonly Command[]>([]);

const SEQUENCE_MS = 2_000;
const IS_MAC = /Mac|iPhone|iPad/.test(navigator.userAgent);
let prefix = "";
let prefixTimer: ReturnType<typeof setTimeout> | undefined;

/** Adds commands while the component is there; `run` may change with each drawing. */
export function useCommands(added: readonly Command[]): void {
  const newest = useRef(added);
  newest.current = added;
  const key = added.map(({ id, label, keys }) => `${id}\u0000${label}\u0000${keys?.join(" ")}`).join("\u0001");
  useEffect(() => {
    const mine = newest.current.map((command, at) => ({
      ...command,
      run: (): void => (newest.current[at] ?? command).run(),
    }));
    commands.update((all) => [...all, ...mine]);
    return () => commands.update((all) => all.filter((command) => !mine.includes(command)));
  }, [key]);
}

/** Starts to listen for keys. */
export function listenForKeys(): void {
  document.addEventListener("keydown", pressed);
}

function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || isModifier(event.key)) return;
  const chord = chordOf(event);
  const sequence = prefix === "" ? chord : `${prefix} ${plainKey(event)}`;
  endSequence();
  const found = commandFor(sequence);
  if (found) {
    if (isTyping(event) && isCharacter(chord) && sequence === chord) return;
    event.preventDefault();
    found.run();
  } else if (startsSequence(sequence)) {
    event.preventDefault();
    prefix = sequence;
    prefixTimer = setTimeout(endSequence, SEQUENCE_MS);
  }
}

function endSequence(): void {
  clearTimeout(prefixTimer);
  prefix = "";
}

function commandFor(sequence: string): Command | undefined {
  return commands.get().findLast((command) => command.keys?.includes(sequence));
}

function startsSequence(sequence: string): boolean {
  return commands.get().some((command) => command.keys?.some((key) => key.startsWith(`${sequence} `)));
}

function isModifier(key: string): boolean {
  return ["Control", "Shift", "Alt", "Meta"].includes(key);
}

function isCharacter(chord: string): boolean {
  return /^(Shift\+)?.$/u.test(chord);
}

/** Returns true if the key goes into a text. */
function isTyping(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Returns the pressed key as `Mod+Shift+S`. */
function chordOf(event: KeyboardEvent): string {
  const parts: string[] = [];
  if (IS_MAC ? event.metaKey : event.ctrlKey) parts.push("Mod");
  if (event.altKey) parts.push("Alt");
  const key = plainKey(event);
  // A shifted sign, such as `?`, already says that Shift is pressed.
  if (event.shiftKey && (key.length > 1 || /[A-Z]/.test(key))) parts.push("Shift");
  return [...parts, key].join("+");
}

/** With Alt some layouts type other signs, so letters and digits are read from the key's place. */
function plainKey(event: KeyboardEvent): string {
  const letter = /^(?:Key([A-Z])|Digit([0-9]))$/.exec(event.code);
  if (event.altKey && letter) return letter[1] ?? letter[2] ?? "";
  if (event.altKey && event.code === "BracketLeft") return "[";
  if (event.altKey && event.code === "BracketRight") return "]";
  return event.key.length === 1 ? event.key.toUpperCase() : event.key;
}

/** Returns a key as a person reads it. */
export function keyText(keys: string): string {
  return keys.replaceAll("Mod", IS_MAC ? "⌘" : "Ctrl").replaceAll("+", " ").replace(/(\S) (\S)$/, "$1 $2");
}
