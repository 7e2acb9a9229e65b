/** The database of the tutorial: parcels of customers, and the queries that an application ran.
 *
 * Its indexing policy leaves out the path that one of the queries filters by, as happens when a
 * property is added after the policy was written.
 * Promises: the same items for everyone; loading again continues after an interruption. */

import { ApiError, asApiError, data } from "../../../api/client.ts";
import { containerPath, containers, databases } from "../../../api/data.ts";
import { queryPage } from "../../../api/query.ts";

export const TUTORIAL_DATABASE = "tutorial";
export const TUTORIAL_CONTAINER = "parcels";

const CUSTOMERS = 60;
const PARCELS_OF_CUSTOMER = 100;
/** Two physical partitions. */
const THROUGHPUT = 12_000;
const AT_ONCE = 3;
const RETRIES_MAX = 50;
const CITIES = ["Bergen", "Kyoto", "Lisbon", "Quito", "Riga", "Turin"];
const CARRIERS = ["bicycle", "cargo ship", "night train"];
const FIRST_DAY_MS = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;

const DEFINITION = {
  id: TUTORIAL_CONTAINER,
  partitionKey: { paths: ["/customerId"], kind: "Hash", version: 2 },
  indexingPolicy: {
    indexingMode: "consistent",
    automatic: true,
    includedPaths: [{ path: "/*" }],
    excludedPaths: [{ path: "/tracking/*" }],
  },
};

function customerId(customer: number): string {
  return `customer-${String(customer + 1).padStart(2, "0")}`;
}

/** Returns the code by which a parcel is tracked. */
export function trackingCode(customer: number, number: number): string {
  return `ORY-${String((customer * 7_919 + number * 104_729) % 1_000_000).padStart(6, "0")}`;
}

function parcel(customer: number, number: number): object {
  const hours = (customer * 37 + number * 61) % 8_000;
  return {
    id: `parcel-${customer + 1}-${number + 1}`,
    customerId: customerId(customer),
    city: CITIES[(customer + number) % CITIES.length],
    carrier: CARRIERS[number % CARRIERS.length],
    grams: 100 + ((customer * 131 + number * 17) % 4_900),
    sentAt: new Date(FIRST_DAY_MS + hours * HOUR_MS).toISOString(),
    status: number % 50 === 49 ? "lost" : number % 7 === 0 ? "under way" : "delivered",
    tracking: { code: trackingCode(customer, number), scans: 1 + (number % 5) },
  };
}

/** Creates the database and runs the queries. `onProgress` gets the share that is done. */
export async function loadTutorial(onProgress: (share: number) => void): Promise<void> {
  await present(async () => databases.create(TUTORIAL_DATABASE));
  await present(async () =>
    containers.create(TUTORIAL_DATABASE, DEFINITION, { kind: "manual", ru: THROUGHPUT }),
  );
  const steps = CUSTOMERS + QUERIES.length;
  let done = 0;
  const step = (): void => {
    done += 1;
    onProgress(done / steps);
  };
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < CUSTOMERS) {
      const customer = next;
      next += 1;
      await retried(async () => createParcels(customer));
      step();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  for (const { text, value, count, key } of QUERIES) {
    for (let run = 0; run < count; run += 1) {
      const parameters = [{ name: "@value", value: value(run) }];
      const partitionKey = key ? [value(run)] : undefined;
      // These queries stand for those of an application, so they are counted as such.
      const options = { maxItemCount: 100, partitionKey, headers: { "x-orrery-as-client": "true" } };
      await retried(async () =>
        queryPage(TUTORIAL_DATABASE, TUTORIAL_CONTAINER, text, parameters, options),
      );
    }
    step();
  }
}

/** The queries of the application. */
const QUERIES = [
  {
    text: "SELECT * FROM c WHERE c.customerId = @value ORDER BY c.sentAt DESC OFFSET 0 LIMIT 10",
    value: customerId,
    count: 20,
    key: true,
  },
  {
    text: "SELECT c.id, c.city, c.sentAt FROM c WHERE c.tracking.code = @value",
    value: (run: number): string => trackingCode(run * 5, run * 3),
    count: 12,
    key: false,
  },
  {
    text: "SELECT TOP 10 c.id, c.customerId FROM c WHERE c.status = @value",
    value: (): string => "lost",
    count: 10,
    key: false,
  },
];

/** Creates the parcels of a customer in one transaction; parcels that are there already stay. */
async function createParcels(customer: number): Promise<void> {
  const operations = Array.from({ length: PARCELS_OF_CUSTOMER }, (_, number) => ({
    operationType: "Upsert",
    resourceBody: parcel(customer, number),
  }));
  const reply = await data(containerPath(TUTORIAL_DATABASE, TUTORIAL_CONTAINER, "docs"), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-ms-documentdb-partitionkey": JSON.stringify([customerId(customer)]),
      "x-ms-cosmos-is-batch-request": "True",
      "x-ms-cosmos-batch-atomic": "True",
    },
    body: operations,
  });
  // A batch that failed answers 207 with the reason at each operation.
  const results = reply.json() as readonly { readonly statusCode: number }[];
  const failed = results.find(({ statusCode }) => statusCode >= 400 && statusCode !== 424);
  if (failed) {
    const message = `An item was refused with status ${failed.statusCode}. Load again.`;
    throw new ApiError(failed.statusCode, "BatchFailed", message);
  }
}

/** Runs the work again while the container has no request units left. */
async function retried(work: () => Promise<unknown>): Promise<void> {
  for (let retries = 0; ; retries += 1) {
    try {
      await work();
      return;
    } catch (error) {
      const problem = asApiError(error);
      if (problem.status !== 429 || retries >= RETRIES_MAX) throw error;
      const pause = problem.retryAfterMs ?? 1_000;
      await new Promise((resolve) => {
        setTimeout(resolve, pause);
      });
    }
  }
}

/** Creates a resource; one that is there already is kept. */
async function present(create: () => Promise<unknown>): Promise<void> {
  try {
    await create();
  } catch (error) {
    if (asApiError(error).status !== 409) throw error;
  }
}
