/** Tests of blog-link.ts, diff.ts, partition-key.ts, predicates.ts, indexing.ts, container-form.ts and cost.ts. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { pageInBlog } from "./blog-link.ts";
import { bodyOf, emptyForm, fieldOfRefusal, idProblem, problemsOfForm, ruProblem } from "./container-form.ts";
import { monthlyCost, typedPrice } from "./cost.ts";
import { countChanges, diffLines, sections } from "./diff.ts";
import { completionPlace, isIndexPath, problemsOf, samplePaths } from "./indexing.ts";
import { membersOf } from "./json-text.ts";
import { keyOf, pathNames, typedKey } from "./partition-key.ts";
import { inputValue } from "./script-input.ts";
import { defaultFilters, pageQuery, propertyExpression, rememberFilter } from "./predicates.ts";

function sides(rows) {
  const old = rows.filter(({ kind }) => kind !== "added").map(({ text }) => text);
  const fresh = rows.filter(({ kind }) => kind !== "removed").map(({ text }) => text);
  return [old.join("\n"), fresh.join("\n")];
}

test("a comparison gives both texts back and is the shortest", () => {
  const pairs = [
    ["a\nb\nc", "a\nx\nc", 2],
    ["", "a", 2],
    ["a\nb\nc\na\nb\nb\na", "c\nb\na\nb\na\nc", 5],
    ["same", "same", 0],
    ["a\nb", "a\nb\nc", 1],
    ["x\na\nb", "a\nb", 1],
  ];
  for (const [before, after, edits] of pairs) {
    const rows = diffLines(before, after);
    assert.deepEqual(sides(rows), [before, after]);
    const { added, removed } = countChanges(rows);
    assert.equal(added + removed, edits, `${before} -> ${after}`);
  }
});

test("a comparison of random texts gives both texts back", () => {
  let seed = 7;
  const random = (most) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % most;
  };
  for (let round = 0; round < 300; round += 1) {
    const make = () => Array.from({ length: random(30) }, () => "abc"[random(3)]).join("\n");
    const [before, after] = [make(), make()];
    assert.deepEqual(sides(diffLines(before, after)), [before, after]);
  }
});

test("a comparison of large different texts is bounded", () => {
  const before = Array.from({ length: 60_000 }, (_, line) => `old ${line}`).join("\n");
  const after = Array.from({ length: 60_000 }, (_, line) => `new ${line}`).join("\n");
  assert.deepEqual(sides(diffLines(before, after)), [before, after]);
});

test("equal lines far from changes are folded", () => {
  const lines = Array.from({ length: 30 }, (_, line) => String(line));
  const rows = diffLines(lines.join("\n"), lines.with(15, "x").join("\n"));
  const parts = sections(rows);
  assert.deepEqual(parts.map(({ isFolded, rows: { length } }) => [isFolded, length]), [
    [true, 12],
    [false, 8],
    [true, 11],
  ]);
});

test("paths are split as the server splits them", () => {
  assert.deepEqual(pathNames("/a/b"), ["a", "b"]);
  assert.deepEqual(pathNames('/"a/b"/c'), ["a/b", "c"]);
  assert.deepEqual(pathNames("/'x y'"), ["x y"]);
  for (const path of ["", "a", "/", "/a/", "/*", "/a/?", '/"a']) assert.equal(pathNames(path), null, path);
});

test("the partition key of an item has undefined for missing values and structures", () => {
  const members = membersOf('{"id":"1","a":{"b":[1]},"t":"x","n":1.5,"u":null,"t":"last"}');
  const definition = { paths: ["/t", "/n", "/u", "/a/b", "/missing", "/t/deep"] };
  assert.deepEqual(keyOf(members, definition), ["last", 1.5, null, undefined, undefined, undefined]);
});

test("a typed partition key is JSON, or a bare text", () => {
  assert.deepEqual(typedKey("abc", 1), ["abc"]);
  assert.deepEqual(typedKey('"12"', 1), ["12"]);
  assert.deepEqual(typedKey("12", 1), [12]);
  assert.deepEqual(typedKey("null", 1), [null]);
  assert.deepEqual(typedKey('["a",{}]', 2), ["a", undefined]);
  assert.match(typedKey("a", 2).problem, /2 levels/);
  assert.match(typedKey('["a"]', 2).problem, /has 1/);
  assert.match(typedKey("[[1]]", 1).problem, /string, number/);
  assert.match(typedKey("[", 1).problem, /JSON/);
});

test("names of any characters become property expressions", () => {
  assert.equal(propertyExpression(["a", "b"]), "c.a.b");
  assert.equal(propertyExpression(["order", 'x"y', "a b"]), 'c["order"]["x\\"y"]["a b"]');
});

test("the query of a page has a member for each column", () => {
  const columns = { keys: [["pk"]], picked: [["a", "b"]] };
  const query = pageQuery(columns, " c.x = 1 ");
  assert.equal(
    query,
    'SELECT VALUE {"id": c.id, "etag": c._etag, "ts": c._ts, "k0": c.pk, ' +
      '"p0": IIF(IS_STRING(c.a.b), LEFT(c.a.b, 256), c.a.b)} FROM c WHERE c.x = 1',
  );
  assert.match(pageQuery({ keys: [], picked: [] }, "ORDER BY c._ts"), /FROM c ORDER BY c\._ts$/);
});

test("filters to start with come from the partition key", () => {
  assert.deepEqual(defaultFilters({ paths: ["/tenant", "/user/id"] }), [
    'c.id = "…"',
    'c.tenant = "…" AND c.user.id = "…"',
    'c.tenant = "…"',
    "NOT IS_DEFINED(c.tenant)",
    "ORDER BY c._ts DESC",
  ]);
  assert.deepEqual(rememberFilter(["b", "a"], " a "), ["a", "b"]);
  assert.deepEqual(rememberFilter(["b"], " "), ["b"]);
});

test("paths of an indexing policy", () => {
  for (const path of ["/*", "/", "/a/?", '/"a b"/*', "/a/[]/b/?", "/a/[]/?"]) assert.ok(isIndexPath(path), path);
  for (const path of ["", "/a", "a/?", "/a/*/b/?", "//?"]) assert.ok(!isIndexPath(path), path);
});

test("problems of a policy name the member", () => {
  const places = (policy) => problemsOf(policy).map(({ at }) => at);
  assert.deepEqual(places({}), []);
  assert.deepEqual(places({ indexingMode: "lazy" }), ["indexingMode"]);
  assert.deepEqual(places({ includedPath: [] }), ["includedPath"]);
  assert.deepEqual(places({ includedPaths: [{ path: "/a" }, {}] }), ["includedPaths/0", "includedPaths/1"]);
  assert.deepEqual(places({ includedPaths: [{ path: "/a/?" }] }), ["excludedPaths"]);
  const both = { includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/*" }] };
  assert.deepEqual(places(both), ["excludedPaths"]);
  const composite = (parts) => places({ compositeIndexes: [parts] });
  assert.deepEqual(composite([{ path: "/a" }]), ["compositeIndexes/0"]);
  assert.deepEqual(composite([{ path: "/a" }, { path: "/b", order: "down" }]), ["compositeIndexes/0/1"]);
  assert.deepEqual(composite([{ path: "/a" }, { path: "/a" }]), ["compositeIndexes/0/1"]);
  assert.deepEqual(composite([{ path: "/a" }, { path: "/b/?", order: "descending" }]), []);
});

test("the place of the cursor in a policy", () => {
  assert.deepEqual(completionPlace('{"in'), { member: "", isName: true, from: 2 });
  assert.deepEqual(completionPlace('{"indexingMode": "c'), { member: "indexingMode", isName: false, from: 18 });
  const inPath = '{"includedPaths": [{"path": "/a';
  assert.equal(completionPlace(inPath).member, "path");
  const inOrder = '{"compositeIndexes": [[{"path": "/a", "order": "';
  assert.deepEqual(completionPlace(inOrder), { member: "order", isName: false, from: inOrder.length });
  assert.deepEqual(completionPlace('{"a": 1, "'), { member: "", isName: true, from: 10 });
});

test("paths of a sample", () => {
  const paths = samplePaths([{ id: "1", tags: ["a"], deep: { "odd name": 1 } }, { id: "2", n: 1 }]);
  assert.deepEqual(paths, ['/deep/"odd name"/?', "/id/?", "/n/?", "/tags/[]/?"]);
});

test("a form names its problems by field", () => {
  const form = { ...emptyForm(), id: "a/b", keyPaths: ["/a", "/a", "b"], uniqueKeys: ["/x, y"] };
  form.throughput = { mode: "autoscale", ru: "1500" };
  form.ttl = "seconds";
  form.ttlSeconds = "0";
  form.retentionMinutes = "50000";
  form.computed = [{ name: "c", query: "" }];
  form.vectors = [{ path: "v", dataType: "int8", dimensions: "0", distanceFunction: "cosine", index: "flat" }];
  const fields = new Set(problemsOfForm(form).map(({ field }) => field));
  for (const field of ["id", "throughput", "key/1", "key/2", "unique/0", "ttl", "retention", "computed/0", "vectors/0"]) {
    assert.ok(fields.has(field), field);
  }
  assert.equal(idProblem("a 'b' \"c\" 😀 <script>"), null);
  assert.equal(ruProblem("manual", "400"), null);
  assert.match(ruProblem("manual", "450"), /steps of 100/);
  assert.match(ruProblem("manual", "400", 500), /from 500/);
});

test("a form without problems becomes the body of the request", () => {
  const form = { ...emptyForm(), id: "c", keyPaths: ["/a", "/b"], uniqueKeys: ["/x, /y/z"], ttl: "on" };
  form.texts = [{ path: "/t", language: "de-DE", hasIndex: true }];
  form.vectors = [{ path: "/v", dataType: "int8", dimensions: "4", distanceFunction: "cosine", index: "flat" }];
  assert.deepEqual(problemsOfForm(form), []);
  const body = bodyOf(form);
  assert.deepEqual(body.partitionKey, { paths: ["/a", "/b"], kind: "MultiHash", version: 2 });
  assert.deepEqual(body.uniqueKeyPolicy, { uniqueKeys: [{ paths: ["/x", "/y/z"] }] });
  assert.equal(body.defaultTtl, -1);
  assert.deepEqual(body.indexingPolicy.vectorIndexes, [{ path: "/v", type: "flat" }]);
  assert.deepEqual(body.indexingPolicy.fullTextIndexes, [{ path: "/t" }]);
  assert.equal(body.changeFeedPolicy, undefined);
});

test("a refusal belongs to a field", () => {
  assert.equal(fieldOfRefusal("The unique key policy is invalid."), "unique");
  assert.equal(fieldOfRefusal("The indexing policy is invalid: …"), "policy");
  assert.equal(fieldOfRefusal("The partition key definition is invalid: …"), "key");
  assert.equal(fieldOfRefusal("Something else."), "form");
});

test("the cost of a month is an estimate from the price", () => {
  assert.deepEqual(monthlyCost("manual", 400, 0.008), { low: 23.36, high: 23.36 });
  const { low, high } = monthlyCost("autoscale", 1_000, 0.008);
  assert.equal(Math.round(low * 100), 876);
  assert.equal(Math.round(high * 100), 8760);
  assert.equal(typedPrice("0,01"), 0.01);
  assert.equal(typedPrice("x"), null);
  assert.equal(typedPrice("-1"), null);
});

test("a parameter of a procedure has the chosen type", () => {
  assert.deepEqual(inputValue({ type: "string", text: " 1 " }), { value: " 1 " });
  assert.deepEqual(inputValue({ type: "number", text: "1.5" }), { value: 1.5 });
  assert.deepEqual(inputValue({ type: "boolean", text: "false" }), { value: false });
  assert.deepEqual(inputValue({ type: "null", text: "" }), { value: null });
  assert.deepEqual(inputValue({ type: "JSON", text: '{"a":[1]}' }), { value: { a: [1] } });
  for (const [type, text] of [["number", ""], ["number", "x"], ["boolean", "yes"], ["JSON", "{"]]) {
    assert.ok("problem" in inputValue({ type, text }), type);
  }
});

test("an item of a blog leads to its page in the same model, and other items lead nowhere", () => {
  const blog = { address: "http://127.0.0.1:8083/", prefix: "blog" };
  const [post, user] = ["0b52c2d0-1111-4222-8333-0123456789ab", "1b52c2d0-1111-4222-8333-0123456789ab"];
  const page = (database, container, item) => pageInBlog(blog, database, container, JSON.stringify(item))?.address;
  assert.equal(page("blog-v3", "posts", { id: "c", type: "comment", postId: post }), `${blog.address}v3/posts/${post}`);
  assert.equal(page("blog-v3", "users", { id: post, type: "post", postId: post }), `${blog.address}v3/posts/${post}`);
  assert.equal(page("blog-v3", "users", { id: user, type: "user" }), `${blog.address}v3/users/${user}`);
  assert.equal(page("blog-v1", "users", { id: user, username: "Mira" }), `${blog.address}v1/users/${user}`);
  assert.equal(page("shop-v1", "users", { id: user }), undefined);
  assert.equal(page("blog-v1", "loadState", { id: user }), undefined);
  assert.equal(page("blog-v2", "posts", { id: post, postId: post, type: "deletedPost" }), undefined);
  assert.equal(page("blog-v2", "posts", { id: "../x", type: "post" }), undefined);
});
