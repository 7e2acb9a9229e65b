/** Writes a query as a shell script that signs its requests with openssl and sends them with curl.
 *
 * Promises: the script prints one JSON document for each page, follows continuations, and fails with
 * the answer of the server if a request fails. */

import { jsonText } from "../../../api/exact-json.ts";
import type { QueryToCopy } from "./request.ts";

/** Returns a word of the shell. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Returns JSON in ASCII, for headers. */
function asciiJson(value: unknown): string {
  return jsonText(value).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Returns the script. */
export function curl(copy: QueryToCopy): string {
  const names = [copy.database, copy.container];
  const [database, container] = names.map((name) => encodeURIComponent(name));
  const endpoint = copy.endpoint.replace(/\/+$/, "");
  const url = `${endpoint}/dbs/${database}/colls/${container}/docs`;
  const headers = [
    "content-type: application/query+json",
    "x-ms-version: 2018-12-31",
    "x-ms-documentdb-isquery: True",
  ];
  if (copy.partitionKey) {
    headers.push(`x-ms-documentdb-partitionkey: ${asciiJson(copy.partitionKey)}`);
  } else {
    headers.push("x-ms-documentdb-query-enablecrosspartition: True");
  }
  if (copy.pageSize !== null) headers.push(`x-ms-max-item-count: ${copy.pageSize}`);
  const options = headers.map((header) => `    --header ${shellWord(header)} \\`);
  const body = jsonText({ query: copy.query, parameters: copy.parameters }, 2);
  return `#!/usr/bin/env bash
# Needs bash, curl and openssl; ORRERY_KEY is a key of the account.
set -euo pipefail

resource=${shellWord(`dbs/${copy.database}/colls/${copy.container}`)}
url=${shellWord(url)}
# \`read\` returns 1 at the end of the text.
IFS= read -r -d '' query <<'END_OF_QUERY' || true
${body}
END_OF_QUERY

key=$(printf '%s' "$ORRERY_KEY" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \\n')
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT

continuation=
while :; do
  date=$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S GMT')
  lower_date=$(printf '%s' "$date" | tr 'A-Z' 'a-z')
  signature=$(printf 'post\\ndocs\\n%s\\n%s\\n\\n' "$resource" "$lower_date" |
    openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | openssl base64 -A)
  signature=$(printf '%s' "$signature" | sed 's/+/%2B/g; s,/,%2F,g; s/=/%3D/g')
  printf '%s' "$query" | curl --silent --show-error --fail-with-body "$url" \\
    --header "authorization: type%3Dmaster%26ver%3D1.0%26sig%3D$signature" \\
    --header "x-ms-date: $date" \\
${options.join("\n")}
    \${continuation:+--header "x-ms-continuation: $continuation"} \\
    --dump-header "$headers" --data-binary @-
  echo
  continuation=$(tr -d '\\r' < "$headers" | awk 'tolower($1) == "x-ms-continuation:" { print $2 }')
  [ -n "$continuation" ] || break
done
`;
}
