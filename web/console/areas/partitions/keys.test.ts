/** Tests of logical keys as text and as queries. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { keyQuery, keyText } from "./keys.ts";

test("a key is shown without brackets and quotes", () => {
  assert.equal(keyText('["redmond"]'), "redmond");
  assert.equal(keyText('["tenant",5,null]'), "tenant / 5 / null");
  assert.equal(keyText("[{}]"), "(none)");
  assert.equal(keyText('[""]'), '""');
});

test("the query names the path of each value", () => {
  assert.equal(keyQuery('["a"]', ["/postId"]), 'SELECT * FROM c\nWHERE c.postId = "a"');
  assert.equal(
    keyQuery('["t",1]', ["/tenant", '/"user id"']),
    'SELECT * FROM c\nWHERE c.tenant = "t"\n  AND c["user id"] = 1',
  );
  assert.equal(keyQuery("[{}]", ["/a/b"]), "SELECT * FROM c\nWHERE NOT IS_DEFINED(c.a.b)");
});

test("a hostile value stays a literal", () => {
  const hostile = '" OR 1=1 --\n</script>';
  const query = keyQuery(JSON.stringify([hostile]), ["/k"]);
  assert.equal(query, `SELECT * FROM c\nWHERE c.k = ${JSON.stringify(hostile)}`);
});

test("a text that is no key has no query", () => {
  assert.equal(keyQuery("x", ["/k"]), null);
  assert.equal(keyQuery('["a","b"]', ["/k"]), null);
});
