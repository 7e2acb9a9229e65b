/** JSON in the editor: colours, indentation, folding, and the place of an error.
 *
 * Leaves out: a tree of the text. `rangeOf` of `areas/data/logic/json-text.ts` finds a value. */

import { foldService, indentService, StreamLanguage } from "@codemirror/language";
import { type Diagnostic, linter } from "@codemirror/lint";
import type { EditorState, Extension } from "@codemirror/state";
import { closingIn, endOfString, faultOf, kindOfWord, levelsAfter, openedIn } from "./json-scan.ts";

/** Bound on the text that the folding of one line reads. An item has 2 MB without its indentation. */
const FOLD_CHARACTERS_MAX = 4_000_000;
const BLANK_LINES_MAX = 100;

const LANGUAGE = StreamLanguage.define({
  name: "json",
  languageData: {
    closeBrackets: { brackets: ["[", "{", '"'] },
    indentOnInput: /^\s*[}\]]$/,
  },
  token: (stream) => {
    if (stream.eatSpace() || stream.eat(/[,:]/)) return null;
    if (stream.eat(/[{}[\]]/)) return "bracket";
    if (stream.peek() === '"') {
      const end = endOfString(stream.string, stream.pos);
      stream.pos = end < 0 ? stream.string.length : end;
      if (end < 0) return "invalid";
      return stream.match(/^\s*:/, false) ? "propertyName" : "string";
    }
    stream.eatWhile(/[^\s,:{}[\]"]/);
    return kindOfWord(stream.current());
  },
});

/** Returns what folds with a line: the inside of the first bracket that the line leaves open. */
export function foldOf(state: EditorState, from: number, to: number): { from: number; to: number } | null {
  const opened = openedIn(state.sliceDoc(from, to));
  const first = opened[0];
  if (first === undefined) return null;
  const number = state.doc.lineAt(from).number + 1;
  if (number > state.doc.lines) return null;
  const closing = closingIn(state.doc.iterLines(number), opened.length, FOLD_CHARACTERS_MAX);
  if (closing === null) return null;
  return { from: from + first + 1, to: state.doc.line(number + closing.line).from + closing.column };
}

const indentation = indentService.of((context, position) => {
  const { doc } = context.state;
  let above = doc.lineAt(position);
  let text = above.text.slice(0, position - above.from);
  for (let count = 0; text.trim() === ""; count += 1) {
    if (above.from === 0 || count === BLANK_LINES_MAX) return 0;
    above = doc.lineAt(above.from - 1);
    text = above.text;
  }
  const levels = levelsAfter(text, context.textAfterPos(position));
  return Math.max(0, context.lineIndent(above.from, -1) + levels * context.unit);
});

function errors(state: EditorState): Diagnostic[] {
  if (state.doc.length === 0) return [];
  const text = state.doc.toString();
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    const fault = faultOf(text) ?? { from: 0, to: 0, message: (error as Error).message };
    return [{ ...fault, severity: "error" }];
  }
}

/** Returns the extension of an editor for JSON. */
export function json(): Extension {
  return [LANGUAGE, indentation, foldService.of(foldOf), linter((view) => errors(view.state))];
}
