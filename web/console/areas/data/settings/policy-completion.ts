/** What the editor of an indexing policy knows: words to complete, and problems to underline.
 *
 * Loaded with the editor only. The rules are in `logic/indexing.ts`. */

import { autocompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { linter, type Diagnostic } from "@codemirror/lint";
import type { EditorState, Extension } from "@codemirror/state";
import { completionPlace, MEMBER_VALUES, POLICY_MEMBERS, problemsOf } from "../logic/indexing.ts";
import { rangeOf } from "../logic/json-text.ts";

/** Returns the extension: completion with these paths, and problems. */
export function policyHelp(paths: readonly string[]): Extension {
  const complete = (context: CompletionContext): CompletionResult | null => suggestions(context, paths);
  return [autocompletion({ override: [complete] }), linter((view) => diagnostics(view.state))];
}

function suggestions(context: CompletionContext, paths: readonly string[]): CompletionResult | null {
  const before = context.state.sliceDoc(0, context.pos);
  const place = completionPlace(before);
  const isQuoted = before[place.from - 1] === '"';
  if (!context.explicit && !isQuoted && place.from === context.pos) return null;
  const options: Completion[] = [];
  const add = (word: string, isText: boolean, info?: string): void => {
    const apply = isQuoted || !isText ? word : JSON.stringify(word);
    options.push(info === undefined ? { label: word, apply } : { label: word, apply, info });
  };
  if (place.isName) {
    const names = place.member === "" ? POLICY_MEMBERS : { path: "path of a property", order: "", type: "", types: "" };
    for (const [name, info] of Object.entries(names)) add(name, true, info === "" ? undefined : info);
  } else if (place.member === "path") {
    for (const path of ["/*", ...paths]) add(path, true);
  } else {
    for (const word of MEMBER_VALUES[place.member] ?? []) add(word, word !== "true" && word !== "false");
  }
  return options.length === 0 ? null : { from: place.from, options };
}

function diagnostics(state: EditorState): Diagnostic[] {
  const text = state.doc.toString();
  let policy: unknown;
  try {
    policy = JSON.parse(text);
  } catch {
    // The linter of the language reports broken JSON.
    return [];
  }
  const found: Diagnostic[] = [];
  for (const { at, message } of problemsOf(policy)) {
    const { from, to } = rangeOf(text, at === "" ? [] : at.split("/"));
    found.push({ from, to: Math.min(to, from + 400), severity: "error", message });
  }
  return found;
}
