/** Typed parameters of a stored procedure. */

import { parseJson } from "../../../api/exact-json.ts";

export const INPUT_TYPES = ["string", "number", "boolean", "null", "JSON"] as const;

export type InputType = (typeof INPUT_TYPES)[number];

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** A parameter as it is typed. */
export interface Input {
  readonly type: InputType;
  readonly text: string;
}

/** Returns the value of a parameter, or the problem. */
export function inputValue(input: Input): { value: unknown } | { problem: string } {
  const text = input.text.trim();
  switch (input.type) {
    case "string":
      return { value: input.text };
    case "number": {
      const number = Number(text);
      const isNumber = text !== "" && Number.isFinite(number);
      // JSON writes fewer numbers than a person may: 0x10 and .5 are read as JavaScript does.
      return isNumber ? { value: JSON_NUMBER.test(text) ? parseJson(text) : number } : { problem: "The value is not a number. Write a number such as 1.5." };
    }
    case "boolean":
      if (text === "true" || text === "false") return { value: text === "true" };
      return { problem: "The value is not a boolean. Write true or false." };
    case "null":
      return { value: null };
    case "JSON":
      try {
        return { value: parseJson(text) };
      } catch (error) {
        return { problem: `The value is not valid JSON: ${(error as Error).message}` };
      }
  }
}
