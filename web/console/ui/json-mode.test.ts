/** Tests of json-scan.ts and json-mode.ts: the place of an error, what folds, how far a line is indented. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { EditorState } from "@codemirror/state";
import { foldOf } from "./json-mode.ts";
import { faultOf, levelsAfter } from "./json-scan.ts";

/** A text whose wrong part stands between two marks. */
function marked(text: string): { text: string; from: number; to: number } {
  const from = text.indexOf("«");
  const to = text.indexOf("»") - 1;
  return { text: text.replace(/[«»]/g, ""), from, to };
}

test("the place of an error is that of the first wrong word", () => {
  for (const [sample, message] of [
    ['{"a": «tru»}', /a value/],
    ['{"a": [«,»1]}', /a value or \]/],
    ['{"a": 1,«}»', /the name of a property/],
    ['{«a»: 1}', /the name of a property in quotation marks or \}/],
    ['{"a" «1»}', /a colon/],
    ['{"a": 1 «"b"»: 2}', /a comma or the closing bracket/],
    ['{"a": [1«}»', /a comma or the closing bracket/],
    ['{"a": 1} «x»', /the end of the text/],
    ['{"a": «01»}', /a value/],
    ['{"a": «NaN»}', /a value/],
    ['{"a": 1«»', /^The text ends here\. JSON needs a comma/],
    ["«»", /^The text ends here\. JSON needs a value/],
    ['{"a": «"b}»\n"c"', /The string has no end/],
    ['{"a": "b\\\\«\\»x"}', /no such escape/],
    ['{"a": "b«\t»"}', /needs an escape/],
    ["{«'a'»: 1}", /the name of a property/],
    ['["«\\»u12g4"]', /no such escape/],
  ] as const) {
    const { text, from, to } = marked(sample);
    assert.throws(() => JSON.parse(text), SyntaxError, sample);
    const fault = faultOf(text);
    assert.deepEqual([fault?.from, fault?.to], [from, to], sample);
    assert.match(fault?.message ?? "", message, sample);
  }
});

test("a text is without a fault if JSON.parse takes it, and only then", () => {
  const pieces = ["{", "}", "[", "]", ",", ":", '"a"', "1", "-0.5e3", "null", " ", '"\\u00e9\\\\"', "-", "1.", "\n", '"'];
  let seed = 7;
  const next = (bound: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * bound);
  };
  let valid = 0;
  for (let round = 0; round < 60_000; round += 1) {
    let text = "";
    for (let left = 1 + next(7); left > 0; left -= 1) text += pieces[next(pieces.length)];
    let isValid = true;
    try {
      JSON.parse(text);
    } catch {
      isValid = false;
    }
    if (isValid) valid += 1;
    assert.equal(faultOf(text) === null, isValid, JSON.stringify(text));
  }
  assert.ok(valid > 1_000, `${valid} valid texts`);
});

test("a deep and a long text are read", () => {
  const depth = 200_000;
  assert.equal(faultOf("[".repeat(depth))?.from, depth);
  assert.equal(faultOf(`["${"\\n".repeat(1_000_000)}"]`), null);
});

test("a line folds to the bracket that closes its first open one, whatever strings have", () => {
  const text = ['{', '  "a}]": [{', '    "b": "]}\\"]"', "  }, {", '    "c": []', "  }],", '  "d": {"e": 1}', "}"].join("\n");
  const state = EditorState.create({ doc: text });
  const folded = (number: number): string | null => {
    const line = state.doc.line(number);
    const range = foldOf(state, line.from, line.to);
    return range && state.sliceDoc(range.from - 1, range.to + 1);
  };
  assert.equal(folded(1), text);
  assert.equal(folded(2), text.slice(text.indexOf("[{"), text.indexOf("],") + 1));
  assert.equal(folded(3), null);
  assert.equal(folded(4), '{\n    "c": []\n  }');
  assert.deepEqual([5, 6, 7, 8].map(folded), [null, null, null, null]);
  const open = EditorState.create({ doc: '{\n  "a": [\n' });
  assert.equal(foldOf(open, 0, 1), null);
});

test("a line is one level deeper behind an open bracket, and a closing one goes back", () => {
  assert.equal(levelsAfter('{ "a": 1,', '"b"'), 1);
  assert.equal(levelsAfter("{", "}"), 0);
  assert.equal(levelsAfter('"a": 1', "}"), -1);
  assert.equal(levelsAfter("}, {", ""), 1);
  assert.equal(levelsAfter('"a": "{["', ""), 0);
});
