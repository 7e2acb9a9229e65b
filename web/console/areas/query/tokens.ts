/** Splits the text of the query editor into tokens: for colours, completion, format and the
 * borders of statements.
 *
 * Promises: the tokens cover the whole text in order, whatever the text is; an unclosed string or
 * comment is one token up to the end of its line or of the text.
 * Leaves out: grammar. The server alone decides if a query is correct. */

export type TokenKind =
  | "comment"
  | "newline"
  | "number"
  | "parameter"
  | "space"
  | "string"
  | "symbol"
  | "word";

export interface Token {
  kind: TokenKind;
  start: number;
  end: number;
  text: string;
}

/** One alternative for each kind, in the order in which the kinds are tried. */
const TOKEN =
  /(?<comment>--[^\r\n]*|\/\*[\s\S]*?(?:\*\/|$))|(?<newline>\r\n|\r|\n)|(?<space>[^\S\r\n]+)|(?<string>"(?:[^"\\\r\n]|\\[^\r\n]?)*"?|'(?:[^'\\\r\n]|\\[^\r\n]?)*'?)|(?<parameter>@\w+)|(?<number>0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?<word>[A-Za-z_]\w*)|(?<symbol>>>>|<<|>>|<=|>=|<>|!=|\|\||\?\?|[\s\S])/uy;

const KINDS: readonly TokenKind[] = [
  "comment",
  "newline",
  "space",
  "string",
  "parameter",
  "number",
  "word",
  "symbol",
];

/** Returns the tokens of a text. */
export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(TOKEN.source, TOKEN.flags);
  for (;;) {
    const match = pattern.exec(text);
    if (!match?.groups) return tokens;
    const groups = match.groups;
    const kind = KINDS.find((name) => groups[name] !== undefined) ?? "symbol";
    const start = match.index;
    tokens.push({ kind, start, end: start + match[0].length, text: match[0] });
  }
}

/** Returns true for tokens without a meaning: spaces, ends of lines, comments. */
export function isBlank(token: Token): boolean {
  return token.kind === "space" || token.kind === "newline" || token.kind === "comment";
}
