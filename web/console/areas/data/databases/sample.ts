/** A small sample: orders of customers, to look around in an empty account.
 *
 * The items are the same each time, so that texts and tests may name them. */

import { ApiError } from "../../../api/client.ts";
import { containers, databases, items } from "../../../api/data.ts";
import { Pace } from "../logic/paced.ts";
import { attemptOf } from "../transfer/attempt.ts";

export const SAMPLE_DATABASE = "sample";
const SAMPLE_CONTAINER = "orders";
const ORDERS = 300;
const CUSTOMERS = 40;
const CITIES = ["Lisbon", "Porto", "Faro", "Braga", "Évora"];
const STATES = ["open", "paid", "sent", "returned"];
const PRODUCTS = ["lamp", "chair", "desk", "shelf", "rug", "clock"];

/** Creates the database and the container, and writes the items. Returns the container. */
export async function loadSample(onProgress: (done: number) => void): Promise<string> {
  await unlessThere(databases.create(SAMPLE_DATABASE));
  const definition = {
    id: SAMPLE_CONTAINER,
    partitionKey: { paths: ["/customerId"], kind: "Hash", version: 2 },
  };
  await unlessThere(containers.create(SAMPLE_DATABASE, definition, { kind: "manual", ru: 1_000 }));
  let refusal = "";
  const pace = new Pace<number>({
    send: (number, signal) =>
      attemptOf(async () => {
        const order = orderOf(number);
        return items.create(SAMPLE_DATABASE, SAMPLE_CONTAINER, JSON.stringify(order), [order.customerId], {
          upsert: true,
          signal,
        });
      }),
    onOutcome: (outcome) => {
      if (!outcome.isDone) refusal = outcome.message;
      onProgress(pace.figures.done);
    },
    signal: new AbortController().signal,
  });
  for (let number = 0; number < ORDERS; number += 1) await pace.add(number);
  await pace.finish();
  if (refusal !== "") throw new Error(refusal);
  return SAMPLE_CONTAINER;
}

async function unlessThere(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error;
  }
}

/** Returns one order. The figures follow from its number; a few customers order often. */
function orderOf(number: number): { id: string; customerId: string; [name: string]: unknown } {
  const customer = Math.floor(((number * 7_919) % 1_000) ** 2 / 1_000_000 * CUSTOMERS);
  const lines = 1 + (number % 3);
  const products = Array.from({ length: lines }, (_, line) => ({
    product: PRODUCTS[(number + line * 5) % PRODUCTS.length],
    quantity: 1 + ((number + line) % 4),
    price: 10 + ((number * 13 + line * 7) % 90),
  }));
  let total = 0;
  for (const { quantity, price } of products) total += quantity * price;
  return {
    id: `order-${String(number + 1).padStart(4, "0")}`,
    customerId: `customer-${String(customer + 1).padStart(2, "0")}`,
    state: STATES[number % STATES.length],
    city: CITIES[customer % CITIES.length],
    placedAt: new Date(Date.UTC(2026, 0, 1) + number * 3_700_000).toISOString(),
    lines: products,
    total,
  };
}
