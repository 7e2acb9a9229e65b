/** The editor's library, put together: lines, history, brackets, folding, search, JSON, colours.
 *
 * Promises: styles carry the nonce of the page, so the content security policy needs no exception; the
 * Tab key leaves the editor after Escape, so keyboards are not caught. */

import { closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import {
  bracketMatching,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { lintKeymap } from "@codemirror/lint";
import {
  closeSearchPanel,
  findNext,
  findPrevious,
  highlightSelectionMatches,
  openSearchPanel,
  selectNextOccurrence,
} from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  type KeyBinding,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { json } from "./json-mode.ts";

export interface EditorHandle {
  readonly view: EditorView;
  setValue(value: string): void;
  configure(readOnly: boolean, extensions: readonly Extension[]): void;
  destroy(): void;
}

export interface EditorSetup {
  readonly label: string;
  readonly value: string;
  readonly language: "json" | "text";
  readonly onChange: (value: string) => void;
}

/** The library's keys for searching, without its dialog for the number of a line. */
const SEARCH_KEYS: readonly KeyBinding[] = [
  { key: "Mod-f", run: openSearchPanel, scope: "editor search-panel" },
  { key: "F3", run: findNext, shift: findPrevious, scope: "editor search-panel", preventDefault: true },
  { key: "Mod-g", run: findNext, shift: findPrevious, scope: "editor search-panel", preventDefault: true },
  { key: "Escape", run: closeSearchPanel, scope: "editor search-panel" },
  { key: "Mod-d", run: selectNextOccurrence, preventDefault: true },
];

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-name)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.function(tags.variableName), tags.standard(tags.name)], color: "var(--code-function)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: "var(--ink-soft)", fontStyle: "italic" },
  { tag: [tags.variableName, tags.special(tags.variableName)], color: "var(--ink)" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

const LOOK = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--page)", fontSize: "var(--text-13)" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--ink-soft)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "var(--line-active)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused": { outline: "none" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-selectionMatch": { backgroundColor: "var(--selection)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
    backgroundColor: "transparent",
    outline: "1px solid var(--line-strong)",
  },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--ink)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".cm-panel.cm-search": { padding: "4px 32px 4px 8px", fontFamily: "var(--font-text)" },
  ".cm-panel.cm-search label": { display: "inline-block", fontSize: "inherit" },
  ".cm-panel.cm-search [name=close]": { width: "24px", height: "24px", color: "var(--ink)", cursor: "pointer" },
  ".cm-panel .cm-button, .cm-panel .cm-textfield": {
    minHeight: "26px",
    padding: "0 8px",
    border: "1px solid var(--line-strong)",
    borderRadius: "var(--radius)",
    background: "var(--page)",
    fontSize: "inherit",
  },
  ".cm-panel input[type=checkbox]": { width: "16px", height: "16px", verticalAlign: "middle" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn)" },
  ".cm-searchMatch.cm-searchMatch-selected": { backgroundColor: "var(--selection)", outlineWidth: "2px" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "4px 8px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
  },
  ".cm-foldPlaceholder": { backgroundColor: "var(--sunken)", border: "0", color: "var(--ink-soft)" },
});

function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
}

function basics(): Extension {
  return [
    EditorView.cspNonce.of(nonce()),
    lineNumbers(),
    foldGutter(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("  "),
    syntaxHighlighting(COLOURS),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    EditorView.lineWrapping,
    LOOK,
    keymap.of([
      ...closeBracketsKeymap,
      // Mod-Enter is the page's: it runs or saves.
      ...defaultKeymap.filter(({ key }) => key !== "Mod-Enter"),
      ...SEARCH_KEYS,
      ...historyKeymap,
      ...foldKeymap,
      ...completionKeymap,
      ...lintKeymap,
      indentWithTab,
    ]),
  ];
}

/** Puts an editor into an element. */
export function createEditor(parent: HTMLElement, setup: EditorSetup): EditorHandle {
  const added = new Compartment();
  let isSetting = false;
  const changed = EditorView.updateListener.of((update) => {
    if (update.docChanged && !isSetting) setup.onChange(update.state.doc.toString());
  });
  const state = EditorState.create({
    doc: setup.value,
    extensions: [
      // A page's own keys come before the editor's.
      added.of([]),
      basics(),
      setup.language === "json" ? json() : [],
      // axe-core takes only an element with a tabindex for one that keys can scroll.
      EditorView.contentAttributes.of({ "aria-label": setup.label, tabindex: "0" }),
      changed,
    ],
  });
  const view = new EditorView({ state, parent });
  return {
    view,
    setValue: (value) => {
      if (value === view.state.doc.toString()) return;
      isSetting = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
      isSetting = false;
    },
    configure: (readOnly, extensions) => {
      const fixed = readOnly ? [EditorState.readOnly.of(true), EditorView.editable.of(true)] : [];
      view.dispatch({ effects: added.reconfigure([...extensions, ...fixed]) });
    },
    destroy: () => view.destroy(),
  };
}
