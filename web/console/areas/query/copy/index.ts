/** Lists the languages in which a query can be copied. */

import { csharp } from "./csharp.ts";
import { curl } from "./curl.ts";
import { go } from "./go.ts";
import { java } from "./java.ts";
import { javascript } from "./javascript.ts";
import { python } from "./python.ts";
import type { QueryToCopy } from "./request.ts";
import { rust } from "./rust.ts";

export interface CopyLanguage {
  name: string;
  file: string;
  write: (copy: QueryToCopy) => string;
}

export const COPY_LANGUAGES: readonly CopyLanguage[] = [
  { name: "Python", file: "query.py", write: python },
  { name: "JavaScript", file: "query.mjs", write: javascript },
  { name: "Java", file: "RunQuery.java", write: java },
  { name: "C#", file: "Program.cs", write: csharp },
  { name: "Go", file: "main.go", write: go },
  { name: "Rust", file: "main.rs", write: rust },
  { name: "curl", file: "query.sh", write: curl },
];

export type { KeyValue, QueryParameter, QueryToCopy } from "./request.ts";
