/** Requests of the partition pages to the management API. */

import { manage } from "../../api/client.ts";
import { containerPath } from "../../api/data.ts";
import type { HeatColumn } from "./heat.ts";
import type { Ancestor } from "./lineage.ts";
import type { PartitionSecond } from "./samples.ts";

/** A container by its names. */
export interface ContainerName {
  readonly database: string;
  readonly container: string;
}

export interface LargeKey {
  readonly epk: string;
  readonly key: string;
  readonly bytes: number;
}

export interface Usage {
  readonly id: string;
  readonly ruPerSecond?: number;
  readonly lastSecondRequestUnits: number;
  readonly normalized: number;
  readonly requestUnits: number;
  readonly requests: number;
  readonly throttled: number;
  readonly wouldThrottle: number;
}

export interface Partition extends Usage {
  readonly parents: readonly string[];
  readonly minInclusive: string;
  readonly maxExclusive: string;
  readonly lsn: number;
  readonly items: number;
  readonly bytes: number;
  readonly indexBytes: number;
  readonly largestKeys: readonly LargeKey[];
  /** The seconds of the last minute that had requests. */
  readonly lastMinute: readonly PartitionSecond[];
}

export interface Partitions {
  readonly partitions: readonly Partition[];
  readonly lineage: readonly Ancestor[];
  readonly physicalPartitionBytesMax: number;
  readonly logicalPartitionBytesMax: number;
}

export type Metric = "ru" | "requests" | "throttled" | "bytes";

export interface HeatMapAnswer {
  readonly metric: string;
  readonly bucketStarts: readonly string[];
  readonly columns: readonly HeatColumn[];
}

export type KeyMeasure = "ru" | "bytes";
export type KeyWindow = "now" | "minute" | "hour" | "day";

export interface TopKey {
  readonly key?: string;
  readonly epk: string;
  readonly amount: number;
  readonly error: number;
}

export interface TopKeys {
  readonly by: string;
  readonly since: number;
  readonly keys: readonly TopKey[];
  readonly othersAtMost: number;
  readonly total: number;
}

export interface Throughput {
  readonly ruPerSecond?: number;
  readonly mode?: "manual" | "autoscale";
  readonly shared?: "yes" | "no";
  readonly enforced: "on" | "off";
  readonly enforcement: "on" | "off" | "server";
  readonly distribution: "equal" | "custom";
  readonly replacePending?: "yes" | "no";
  readonly partitions: readonly Usage[];
}

export type OperationStatus = "copying" | "copied" | "completing" | "done" | "cancelled" | "failed";

export interface Operation {
  readonly id: number;
  readonly kind: "split" | "merge";
  readonly database: string;
  readonly container: string;
  readonly ids: readonly string[];
  readonly stepwise: "yes" | "no";
  readonly status: OperationStatus;
  readonly next?: string;
  readonly copiedBytes: number;
  readonly newIds: readonly string[];
  readonly failure?: string;
  readonly beganMilliseconds: number;
  readonly endedMilliseconds?: number;
}

interface ReadOptions {
  readonly signal?: AbortSignal | undefined;
  readonly poll?: boolean | undefined;
}

async function read<T>(path: string, options: ReadOptions = {}): Promise<T> {
  return (await manage(path, options)).json() as T;
}

async function send<T>(path: string, method: string, body?: unknown): Promise<T> {
  const headers = { "content-type": "application/json" };
  return (await manage(path, { method, headers, body })).json() as T;
}

function at(name: ContainerName, ...more: readonly string[]): string {
  return containerPath(name.database, name.container, ...more);
}

/** Reads the physical partitions of a container. */
export async function readPartitions(name: ContainerName, options?: ReadOptions): Promise<Partitions> {
  return read(at(name, "partitions"), options);
}

/** Reads the budgets and counters of the physical partitions, without sizes. */
export async function readThroughput(name: ContainerName, options?: ReadOptions): Promise<Throughput> {
  return read(at(name, "throughput"), options);
}

/** Reads the heat map from a time on, in seconds since 1970. */
export async function readHeat(
  name: ContainerName,
  metric: Metric,
  from: number,
  to: number,
  options?: ReadOptions,
): Promise<HeatMapAnswer> {
  return read(`${at(name, "heatmap")}?metric=${metric}&from=${Math.max(0, from)}&to=${to}`, options);
}

/** Reads the logical partition keys with the most load. */
export async function readTopKeys(
  name: ContainerName,
  by: KeyMeasure,
  window: KeyWindow,
  options?: ReadOptions,
): Promise<TopKeys> {
  return read(`${at(name, "top-keys")}?by=${by}&window=${window}`, options);
}

/** Reads all splits and merges, the oldest first. */
export async function readOperations(options?: ReadOptions): Promise<readonly Operation[]> {
  const answer = await read<{ operations: readonly Operation[] }>("/operations", options);
  return answer.operations;
}

/** Starts to split a partition. `border` is `middle`, `median` or an EPK. */
export async function split(
  name: ContainerName,
  id: string,
  border: string,
  isStepwise: boolean,
): Promise<Operation> {
  const body = { at: border, stepwise: isStepwise ? "yes" : "no" };
  return send(at(name, "partitions", id, "split"), "POST", body);
}

/** Starts to merge adjacent partitions. */
export async function merge(
  name: ContainerName,
  ids: readonly string[],
  isStepwise: boolean,
): Promise<Operation> {
  return send(at(name, "partitions", "merge"), "POST", { ids, stepwise: isStepwise ? "yes" : "no" });
}

/** Runs the next step or all remaining steps of an operation, or cancels it. */
export async function act(id: number, action: "next" | "finish" | "cancel"): Promise<Operation> {
  return send(`/operations/${id}`, "POST", { action });
}

/** Sets the RU/s of each partition. */
export async function distribute(
  name: ContainerName,
  shares: readonly { readonly id: string; readonly ruPerSecond: number }[],
): Promise<Throughput> {
  return send(at(name, "throughput", "distribution"), "PUT", { partitions: shares });
}

/** Divides the RU/s equally again. */
export async function distributeEqually(name: ContainerName): Promise<void> {
  await manage(at(name, "throughput", "distribution"), { method: "DELETE" });
}
