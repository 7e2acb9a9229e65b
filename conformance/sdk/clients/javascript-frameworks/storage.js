/** The operations that the storages of bots and of agents share: one is the successor of the other. */

import assert from "node:assert/strict";

/** Runs the operations on storages that `open(container, options)` creates. */
export async function useStorage(program, open) {
  const store = open("state");

  await program.operation("a storage creates its database and container, and a second one uses them", async () => {
    await store.initialize();
    await open("state").initialize();
  });

  await program.operation("items are written and read with their etags", async () => {
    await store.write({ one: { text: "first" }, two: { text: "second" } });
    const read = await store.read(["one", "two"]);
    assert.deepEqual([read.one.text, read.two.text], ["first", "second"]);
    assert.ok(read.one.eTag);
  });

  await program.operation("an item that is not there is left out", async () => {
    assert.deepEqual(Object.keys(await store.read(["one", "absent"])), ["one"]);
  });

  await program.operation("an item is written over under its etag, and a stale etag is refused", async () => {
    const { one } = await store.read(["one"]);
    await store.write({ one: { ...one, text: "changed" } });
    assert.equal((await store.read(["one"])).one.text, "changed");
    await assert.rejects(store.write({ one: { ...one, text: "lost" } }));
    assert.equal((await store.read(["one"])).one.text, "changed");
  });

  await program.operation("an item is written over without a condition", async () => {
    await store.write({ one: { text: "anyhow", eTag: "*" } });
    assert.equal((await store.read(["one"])).one.text, "anyhow");
  });

  await program.operation("keys with characters that ids must not have are kept", async () => {
    const key = "channel/user?#1\\2*3";
    await store.write({ [key]: { text: "escaped" } });
    assert.equal((await store.read([key]))[key].text, "escaped");
  });

  await program.operation("a key of the greatest length that is kept as it is", async () => {
    const key = "k".repeat(255);
    await store.write({ [key]: { text: "long" } });
    assert.equal((await store.read([key]))[key].text, "long");
  });

  await program.operation("a suffix keeps the items of two owners apart", async () => {
    const options = (keySuffix) => ({ keySuffix, compatibilityMode: false });
    const first = open("suffixes", options("-first"));
    const second = open("suffixes", options("-second"));
    await first.write({ state: { text: "of the first" } });
    assert.deepEqual(await second.read(["state"]), {});
    assert.equal((await first.read(["state"])).state.text, "of the first");
  });

  await program.operation("many items are written at once", async () => {
    const names = Array.from({ length: 60 }, (_, number) => `many-${number}`);
    await store.write(Object.fromEntries(names.slice(0, 50).map((name) => [name, { name }])));
    assert.equal(Object.keys(await store.read(names)).length, 50);
  });

  await program.operation("items are deleted, and again without an error", async () => {
    await store.delete(["one", "two"]);
    await store.delete(["one"]);
    assert.deepEqual(await store.read(["one", "two"]), {});
  });
}
