/** The sample: a small database of orders, for a person who looks at an empty server. */

import { asApiError } from "../../api/client.ts";
import { containers, databases, items } from "../../api/data.ts";

export const SAMPLE_DATABASE = "sample";
const CONTAINER = "orders";
const ORDERS = 240;
const CUSTOMERS = 24;
const AT_ONCE = 6;
const CITIES = ["Bergen", "Kyoto", "Lisbon", "Quito", "Riga", "Turin"];
const PRODUCTS = ["astrolabe", "compass", "globe", "lens", "quadrant", "sextant", "star chart", "telescope"];
const DAY_MS = 86_400_000;
const FIRST_DAY_MS = Date.UTC(2026, 0, 1);

/** Returns the n-th order; the same for each n. Some customers order more often than others. */
function order(number: number): { readonly id: string; readonly customerId: string } & Record<string, unknown> {
  const customer = Math.floor(((number * 7_919) % 997) ** 2 / 997 ** 2 * CUSTOMERS);
  const lines = Array.from({ length: 1 + (number % 4) }, (_, line) => ({
    product: PRODUCTS[(number * 3 + line * 5) % PRODUCTS.length],
    quantity: 1 + ((number + line) % 3),
    price: 20 + ((number * 37 + line * 11) % 180),
  }));
  let total = 0;
  for (const { quantity, price } of lines) total += quantity * price;
  return {
    id: `order-${String(number + 1).padStart(4, "0")}`,
    customerId: `customer-${String(customer + 1).padStart(2, "0")}`,
    city: CITIES[customer % CITIES.length],
    orderedAt: new Date(FIRST_DAY_MS + number * DAY_MS * 0.9).toISOString(),
    status: number % 9 === 0 ? "returned" : number % 5 === 0 ? "open" : "delivered",
    lines,
    total,
  };
}

/** Creates the sample; `onProgress` gets the share that is done. */
export async function loadSample(onProgress: (share: number) => void): Promise<void> {
  await present(async () => databases.create(SAMPLE_DATABASE));
  const definition = { id: CONTAINER, partitionKey: { paths: ["/customerId"], kind: "Hash", version: 2 } };
  await present(async () => containers.create(SAMPLE_DATABASE, definition, { kind: "none" }));
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < ORDERS) {
      const value = order(next);
      next += 1;
      await items.create(SAMPLE_DATABASE, CONTAINER, JSON.stringify(value), [value.customerId], { upsert: true });
      onProgress(next / ORDERS);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** Creates a resource; one that is there already is kept. */
async function present(create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (asApiError(error).status !== 409) throw error;
  }
}
