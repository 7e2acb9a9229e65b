/** The extensions of the query editor: colours, completion, marks of errors, the marker of the active
 * query, keys.
 *
 * Promises: errors come from the server, for each query of the text, and only after a pause in
 * typing; a check that fails for another reason marks nothing.
 * Leaves out: what the keys do (`page.tsx`). */

import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { StreamLanguage, type StringStream } from "@codemirror/language";
import { type Diagnostic, lintGutter, linter } from "@codemirror/lint";
import { type Extension, Prec, RangeSetBuilder } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  keymap,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { type CompletionInput, type Language, type Proposal, propose } from "./completion.ts";
import type { Mark } from "./diagnostics.ts";
import { statementAt, statements } from "./statements.ts";

const CHECK_DELAY_MS = 500;
const CHECKED_STATEMENTS_MAX = 20;

/** What the editor asks of the page; the members may change while the editor stays. */
export interface EditorContext {
  input: CompletionInput;
  /** Returns the marks of a query at an offset of the editor. */
  check: (query: string, offset: number) => Promise<readonly Mark[]>;
  run: () => void;
  /** Returns true if a run was cancelled. */
  cancel: () => boolean;
}

/** Returns the extensions. `context` is read at each use. */
export function editorSupport(language: Language, context: EditorContext): readonly Extension[] {
  return [
    colours(language),
    autocompletion({
      override: [(at) => completions(at, context)],
      icons: false,
      activateOnTyping: true,
      maxRenderedOptions: 100,
    }),
    linter((view) => diagnostics(view, context), { delay: CHECK_DELAY_MS }),
    lintGutter(),
    activeStatement,
    Prec.high(keymap.of(keys(context))),
  ];
}

function keys(context: EditorContext): { key: string; run: () => boolean }[] {
  const run = (): boolean => {
    context.run();
    return true;
  };
  return [
    { key: "Shift-Enter", run },
    { key: "Mod-Enter", run },
    { key: "F5", run },
    { key: "Escape", run: () => context.cancel() },
  ];
}

interface ColourState {
  isInComment: boolean;
}

/** Colours by words only; the server knows the grammar. */
function colours(language: Language): Extension {
  const keywords = new Set(language.keywords);
  const functions = new Set(language.functions.map(({ name }) => name.toUpperCase()));
  const wordStyle = (word: string, before: string, after: string): string => {
    if (before === ".") return after === "(" ? "variableName.function" : "propertyName";
    const upper = word.toUpperCase();
    if (["TRUE", "FALSE", "NULL", "UNDEFINED"].includes(upper)) return "atom";
    if (after === "(" && functions.has(upper)) return "variableName.function";
    return keywords.has(upper) ? "keyword" : "variableName";
  };
  return StreamLanguage.define<ColourState>({
    name: "query",
    startState: () => ({ isInComment: false }),
    token: (stream, state) => {
      if (state.isInComment || stream.match("/*")) {
        state.isInComment = !stream.match(/^.*?\*\//);
        if (state.isInComment) stream.skipToEnd();
        return "comment";
      }
      return tokenStyle(stream, wordStyle);
    },
    languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } } },
  });
}

function tokenStyle(
  stream: StringStream,
  wordStyle: (word: string, before: string, after: string) => string,
): string | null {
  if (stream.eatSpace()) return null;
  if (stream.match(/^--.*/)) return "comment";
  if (stream.match(/^"(?:[^"\\]|\\.)*"?|^'(?:[^'\\]|\\.)*'?/)) return "string";
  if (stream.match(/^@\w+/)) return "atom";
  if (stream.match(/^(?:0[xX][\da-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?)/)) return "number";
  const before = stream.string.slice(0, stream.pos).trimEnd().slice(-1);
  const word = stream.match(/^[A-Za-z_]\w*/);
  if (word && typeof word === "object") {
    const after = stream.string.slice(stream.pos).trimStart().slice(0, 1);
    return wordStyle(word[0], before, after);
  }
  stream.next();
  return "operator";
}

async function completions(
  at: CompletionContext,
  context: EditorContext,
): Promise<CompletionResult | null> {
  const text = at.state.doc.toString();
  const statement = statements(text).find(({ start, end }) => start <= at.pos && at.pos <= end + 1);
  const start = statement?.start ?? 0;
  const query = statement ? text.slice(start, Math.max(statement.end, at.pos)) : text;
  const found = propose(query, at.pos - start, context.input, at.explicit);
  if (!found || found.list.length === 0) return null;
  const options = found.list.map(option);
  // A proposal for a property replaces the dot as well, because brackets may take its place.
  const validFor = found.list[0]?.kind === "property" ? /^\.?\w*$/ : /^@?\w*$/;
  return { from: found.from + start, options, validFor };
}

function option(proposal: Proposal): Completion {
  const isProperty = proposal.kind === "property";
  const completion: Completion = {
    // The text from the dot on is compared with the label.
    label: isProperty ? `.${proposal.label}` : proposal.label,
    displayLabel: proposal.label,
    apply: proposal.insert,
    detail: proposal.detail,
    type: proposal.kind,
    boost: BOOSTS[proposal.kind],
  };
  if (proposal.help !== "") completion.info = proposal.help;
  return completion;
}

const BOOSTS: Record<Proposal["kind"], number> = {
  alias: 3,
  property: 2,
  parameter: 2,
  keyword: 1,
  function: 0,
};

async function diagnostics(view: EditorView, context: EditorContext): Promise<Diagnostic[]> {
  const text = view.state.doc.toString();
  const found: Diagnostic[] = [];
  for (const statement of statements(text).slice(0, CHECKED_STATEMENTS_MAX)) {
    for (const mark of await context.check(statement.text, statement.start)) {
      const from = Math.min(mark.from, text.length);
      const to = Math.min(Math.max(mark.to, from), text.length);
      const message = mark.code === "" ? mark.message : `${mark.message} (${mark.code})`;
      found.push({ from, to, severity: "error", message });
    }
  }
  return found;
}

const ACTIVE_LINE = Decoration.line({ class: "query-active" });

/** Marks the lines of the query that a run would send, if the text has several. */
const activeStatement = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;

    constructor(view: EditorView) {
      this.decorations = activeLines(view);
    }

    update(update: ViewUpdate): void {
      if (update.docChanged || update.selectionSet) this.decorations = activeLines(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

function activeLines(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const text = view.state.doc.toString();
  const statement = statementAt(text, view.state.selection.main.from);
  if (statement && statements(text).length > 1) {
    const first = view.state.doc.lineAt(statement.start).number;
    const last = view.state.doc.lineAt(statement.end).number;
    for (let number = first; number <= last; number += 1) {
      const { from } = view.state.doc.line(number);
      builder.add(from, from, ACTIVE_LINE);
    }
  }
  return builder.finish();
}
