/** Single items and several items in one request. */

import { answerOf } from "./answers.js";
import { Missing, key } from "./arguments.js";

/** Returns an operation of a batch or a bulk request in the SDK's form. */
function input(step) {
  const named = { create: "Create", upsert: "Upsert", read: "Read", delete: "Delete", replace: "Replace", patch: "Patch" };
  const operation = { operationType: named[step.op] };
  if (step.op !== "create" && step.op !== "upsert") operation.id = step.id;
  if (step.item) operation.resourceBody = step.item;
  if (step.if_match) operation.ifMatch = step.if_match;
  if (step.partition_key) operation.partitionKey = key(step.partition_key);
  if (step.op === "patch") operation.resourceBody = patch(step.operations, step.condition);
  return operation;
}

function patch(operations, condition) {
  return condition ? { operations, condition } : { operations };
}

function resultOf({ statusCode, resourceBody, eTag, requestCharge }) {
  return { status: statusCode, body: resourceBody, etag: eTag, charge: requestCharge };
}

/** Only batches of the SDK have an option for answers without bodies. */
function writeOptions(a) {
  if (a.has("no_response")) throw new Missing("no_response");
  return a.options();
}

export function items(clients) {
  /** The SDK takes the partition key of a new item from the item and accepts no other. */
  const create = (a, method) => {
    const [container, item] = [clients.container(a), a.take("item")];
    const values = a.take("partition_key");
    if (values?.some((value) => !Object.values(item).includes(value))) throw new Missing("a partition key of its own");
    // The SDK would generate an id.
    const options = item.id === undefined ? { disableAutomaticIdGeneration: true } : {};
    return container.items[method](item, { ...writeOptions(a), ...options });
  };
  const item = (a) => clients.container(a).item(a.take("id"), a.partitionKey());
  return {
    create_item: async (a) => answerOf(await create(a, "create")),
    upsert_item: async (a) => answerOf(await create(a, "upsert")),
    read_item: async (a) => answerOf(await item(a).read(a.options())),
    replace_item: async (a) => answerOf(await item(a).replace(a.take("item"), writeOptions(a))),
    delete_item: async (a) => answerOf(await item(a).delete(writeOptions(a))),
    patch_item: async (a) => answerOf(await item(a).patch(patch(a.take("operations"), a.take("condition")), writeOptions(a))),
    async delete_all_items(a) {
      return answerOf(await clients.container(a).deleteAllItemsForPartitionKey(a.partitionKey()));
    },
    async batch(a) {
      const container = clients.container(a);
      const done = await container.items.batch(a.take("operations").map(input), a.partitionKey(), a.options());
      return { status: done.code, substatus: done.substatus, headers: done.headers, results: done.result.map(resultOf) };
    },
    async bulk(a) {
      const container = clients.container(a);
      const done = await container.items.executeBulkOperations(a.take("operations").map(input));
      const results = done.map(({ response, error }) => resultOf(response ?? { statusCode: error.code }));
      return { status: 200, headers: {}, results };
    },
  };
}
