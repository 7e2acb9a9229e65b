/** The management API: types of its bodies, and a function for each operation.
 *
 * Generated from `openapi.json` by `generate-api.mjs`; edits are lost. */

import { manage, type RequestOptions } from "./client.ts";

type Options = Pick<RequestOptions, "signal" | "poll">;
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

function suffix(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

function part(text: string): string {
  return encodeURIComponent(text);
}

export interface Language {
  /** words that cannot be identifiers, in capitals */
  readonly keywords: readonly (string)[];
  /** clauses and operators */
  readonly clauses: readonly (LanguageClause)[];
  /** built-in functions */
  readonly functions: readonly (LanguageFunction)[];
  /** properties that the server adds to every item */
  readonly properties: readonly (LanguageProperty)[];
}

export interface LanguageProperty {
  /** name */
  readonly name: string;
  /** contents in a line */
  readonly doc: string;
}

export interface LanguageFunction {
  /** name in capitals */
  readonly name: string;
  /** other spellings */
  readonly aliases: readonly (string)[];
  /** family, such as text or dates */
  readonly family: string;
  /** names of the arguments; the last may be repeated if there is no maxArguments */
  readonly arguments: readonly (string)[];
  /** smallest number of arguments */
  readonly minArguments: number;
  /** largest number of arguments; absent for any number */
  readonly maxArguments?: number | undefined;
  /** result in a line */
  readonly doc: string;
  /** best use of an index by a filter with the function; none: the items are loaded */
  readonly indexUse: "seek" | "range" | "scan" | "none";
  /** true for an aggregate */
  readonly aggregate: boolean;
}

export interface LanguageClause {
  /** words that begin it */
  readonly name: string;
  /** example */
  readonly form: string;
  /** effect in a line */
  readonly doc: string;
}

export interface Throughput {
  /** maximum RU/s; absent if no throughput is provisioned */
  readonly ruPerSecond?: number | undefined;
  /** manual: fixed RU/s; autoscale: scaled RU/s */
  readonly mode?: "manual" | "autoscale" | undefined;
  /** percentage by which the autoscale maximum rises with the amount of stored data */
  readonly incrementPercent?: number | undefined;
  /** lowest RU/s that can be provisioned; absent if the throughput is the database's */
  readonly minimumRuPerSecond?: number | undefined;
  /** yes while partitions are split to carry the provisioned throughput */
  readonly replacePending?: "yes" | "no" | undefined;
  /** yes if the throughput is the database's and shared with other containers */
  readonly shared?: "yes" | "no" | undefined;
  /** on if requests beyond the throughput are refused */
  readonly enforced: "on" | "off";
  /** setting of the container: on, off, or the default of the server */
  readonly enforcement: "on" | "off" | "server";
  /** distribution of the throughput over the physical partitions */
  readonly distribution: "equal" | "custom";
  /** throughput buckets that have a limit */
  readonly buckets: readonly (ThroughputBucket)[];
  /** live physical partitions in order of their EPK ranges */
  readonly partitions: readonly (PartitionThroughput)[];
}

export interface PartitionThroughput {
  /** partition key range id */
  readonly id: string;
  /** budget in RU/s; absent if the partition is not limited */
  readonly ruPerSecond?: number | undefined;
  /** request units spent in the last whole second */
  readonly lastSecondRequestUnits: number;
  /** share of the budget spent in the last whole second */
  readonly normalized: number;
  /** sum of all request charges */
  readonly requestUnits: number;
  /** requests carried out */
  readonly requests: number;
  /** requests refused with 429 because the budget was spent */
  readonly throttled: number;
  /** requests that would have been refused if the budget were enforced */
  readonly wouldThrottle: number;
}

export interface ThroughputBucket {
  /** number of the bucket */
  readonly id: number;
  /** limit in percent of the container's RU/s */
  readonly maxPercent: number;
}

export interface PartitionShares {
  /** RU/s of each live partition; the sum must be the container's RU/s */
  readonly partitions: readonly (PartitionShare)[];
}

export interface PartitionShare {
  /** partition key range id */
  readonly id: string;
  /** budget of the partition in RU/s */
  readonly ruPerSecond: number;
}

export interface ThroughputBuckets {
  /** buckets with a limit; all other buckets lose theirs */
  readonly buckets: readonly (ThroughputBucket)[];
}

export interface Enforcement {
  /** on: requests beyond the throughput are refused; off: they are not; server: the option --enforce-throughput of the server decides */
  readonly enforcement: "on" | "off" | "server";
}

export interface DatabaseThroughput {
  /** maximum RU/s; absent if no throughput is provisioned */
  readonly ruPerSecond?: number | undefined;
  /** manual: fixed RU/s; autoscale: scaled RU/s */
  readonly mode?: "manual" | "autoscale" | undefined;
  /** percentage by which the autoscale maximum rises with the amount of stored data */
  readonly incrementPercent?: number | undefined;
  /** lowest RU/s that can be provisioned; absent if the throughput is the database's */
  readonly minimumRuPerSecond?: number | undefined;
  /** yes while partitions are split to carry the provisioned throughput */
  readonly replacePending?: "yes" | "no" | undefined;
}

export interface ProvisionedThroughput {
  /** fixed RU/s */
  readonly ruPerSecond?: number | undefined;
  /** maximum RU/s of autoscale throughput */
  readonly autoscaleMaximum?: number | undefined;
  /** with 'autoscaleMaximum': percentage by which the maximum rises with the amount of stored data; 0 if absent */
  readonly incrementPercent?: number | undefined;
  /** new mode; the server derives the RU/s from the current throughput, as it does for clients */
  readonly mode?: "manual" | "autoscale" | undefined;
}

export interface Node {
  /** name of the node */
  readonly name: string;
  /** region of the node */
  readonly region?: string | undefined;
  /** address at which other nodes reach the node */
  readonly address: string;
  /** clusters in the cluster file of the node, if the node has told them */
  readonly clusters?: readonly (string)[] | undefined;
  /** yes for the leaseholder; the others forward requests to that node */
  readonly holdsLease: "yes" | "no";
  /** physical partitions that the node owns: it carries out their requests */
  readonly partitions: number;
  /** milliseconds since the node was heard of; a node is listed for six seconds */
  readonly silentMs: number;
  /** milliseconds by which the clock of the node is ahead of the leaseholder's, negative if it is behind; only if they are more than five seconds. Above a minute the node owns no partitions */
  readonly clockAheadMs?: number | undefined;
}

export interface Nodes {
  /** live nodes in the order of their names */
  readonly nodes: readonly (Node)[];
}

export interface Placement {
  /** number of the partition in the store */
  readonly storageId: number;
  /** cluster that has the partition */
  readonly cluster: string;
  /** settled: no work is under way; moving: the partition is being copied to another cluster; leaving: it was moved, and the source is being removed; destroying: it is being removed */
  readonly state: "settled" | "moving" | "leaving" | "destroying";
  /** cluster to which the partition is moving, or that it is leaving */
  readonly other?: string | undefined;
  /** id of the database */
  readonly database?: string | undefined;
  /** id of the container */
  readonly container?: string | undefined;
  /** partition key range id; absent for the catalog, for partitions of snapshots, and for those that are to be removed */
  readonly id?: string | undefined;
  /** reason why the last move failed */
  readonly failure?: string | undefined;
}

export interface Move {
  /** name of the cluster that gets the partition */
  readonly cluster: string;
}

export interface Placements {
  /** partitions of the store in order of their numbers */
  readonly placements: readonly (Placement)[];
}

export interface Balance {
  /** loads of the clusters before the move */
  readonly clusters: readonly (ClusterLoad)[];
  /** move that was started; absent if the clusters are equal enough, or no move of one partition makes them more equal */
  readonly move?: BalanceMove | undefined;
}

export interface BalanceMove {
  /** number of the partition in the store */
  readonly storageId: number;
  /** cluster that has the partition */
  readonly from: string;
  /** cluster that gets the partition */
  readonly to: string;
  /** figure that the move makes more equal */
  readonly reason: "bytes" | "requestUnits";
  /** id of the database */
  readonly database: string;
  /** id of the container */
  readonly container: string;
  /** partition key range id */
  readonly id: string;
}

export interface ClusterLoad {
  /** name of the cluster */
  readonly name: string;
  /** bytes of items and index of its partitions */
  readonly bytes: number;
  /** request units per second of its partitions in the last minute */
  readonly requestUnits: number;
  /** yes if the cluster gets no further partitions */
  readonly drained: "yes" | "no";
}

export interface BalanceLimits {
  /** difference of two clusters in bytes from which on a partition moves; 1 GiB if absent */
  readonly minBytes?: number | undefined;
  /** difference of two clusters in request units per second from which on a partition moves; 1,000 if absent */
  readonly minRequestUnits?: number | undefined;
}

export interface Cluster {
  /** name of the cluster */
  readonly name: string;
  /** bytes in use, as the cluster measures them */
  readonly bytes: number;
  /** number of partitions of the store */
  readonly partitions: number;
  /** yes if the cluster gets no further partitions */
  readonly drained: "yes" | "no";
  /** yes while its partitions are being moved to other clusters */
  readonly draining: "yes" | "no";
  /** reason why the last drain did not move all partitions */
  readonly drainFailure?: string | undefined;
  /** reason why the cluster takes no writes now */
  readonly writeFailure?: string | undefined;
}

export interface Clusters {
  /** clusters in the order of the configuration */
  readonly clusters: readonly (Cluster)[];
}

export interface Operation {
  /** number of the operation since the server started */
  readonly id: number;
  /** kind of the operation */
  readonly kind: "split" | "merge";
  /** id of the database */
  readonly database: string;
  /** id of the container */
  readonly container: string;
  /** partition key range ids of the partitions that are replaced */
  readonly ids: readonly (string)[];
  /** yes if each step waits for a request */
  readonly stepwise: "yes" | "no";
  /** progress of the operation */
  readonly status: "copying" | "copied" | "completing" | "done" | "cancelled" | "failed";
  /** effect of the next step; absent if the operation has ended */
  readonly next?: string | undefined;
  /** bytes of rows copied so far, including the rows of the index */
  readonly copiedBytes: number;
  /** partition key range ids of the new partitions; empty until the operation is done */
  readonly newIds: readonly (string)[];
  /** reason of a failure; a failed operation changes nothing */
  readonly failure?: string | undefined;
  /** time of the data at the start, in milliseconds since 1970-01-01 UTC */
  readonly beganMilliseconds: number;
  /** time of the data at the end, in milliseconds since 1970-01-01 UTC */
  readonly endedMilliseconds?: number | undefined;
}

export interface OperationAction {
  /** next: run one step; finish: run all remaining steps; cancel: undo the operation */
  readonly action: "next" | "finish" | "cancel";
}

export interface Operations {
  /** operations in progress and the most recently ended ones, the oldest first */
  readonly operations: readonly (Operation)[];
}

export interface Merge {
  /** partition key range ids of two or more partitions with adjacent EPK ranges */
  readonly ids: readonly (string)[];
  /** yes: each step waits for a request; no if absent */
  readonly stepwise?: "yes" | "no" | undefined;
}

export interface Split {
  /** middle (of the EPK range), median (of the items) or an EPK in hexadecimal digits; middle if absent */
  readonly at?: string | undefined;
  /** yes: each step waits for a request; no if absent */
  readonly stepwise?: "yes" | "no" | undefined;
}

export interface FeedConsumers {
  /** leases in order of group and range */
  readonly leases: readonly (FeedLease)[];
  /** items that are no leases of this container, at most 100 */
  readonly foreign: readonly (ForeignItem)[];
  /** false if the lease container has more than 10,000 items, of which the others were not read */
  readonly complete: boolean;
}

export interface ForeignItem {
  /** id of the item */
  readonly id: string;
  /** why the item is no lease here */
  readonly reason: string;
}

export interface FeedLease {
  /** id of the lease's item */
  readonly id: string;
  /** consumer: the part of the id before '..', or the name of the pipeline */
  readonly group: string;
  /** host that processes the range; absent for a free lease */
  readonly owner?: string | undefined;
  /** range of the lease: a partition key range id, or an EPK range as min-max */
  readonly range: string;
  /** partition key range ids that the range covers now */
  readonly partitions: readonly (string)[];
  /** split: the range was split or merged and the consumer has not followed yet; finished: the consumer has followed; unknown: the container has no such range */
  readonly state: "current" | "split" | "finished" | "unknown";
  /** LSN up to which changes are processed; absent if nothing was processed */
  readonly continuation?: number | undefined;
  /** highest LSN of the partitions of the range */
  readonly lsn?: number | undefined;
  /** estimated changes that are not processed: the difference of the two LSNs */
  readonly lag?: number | undefined;
  /** time of the last write of the lease, or of its owner's sign of life, in seconds since 1970 */
  readonly lastRenewal: number;
}

export interface MeasuredQuery {
  /** the reason for which the query was refused; the figures are then 0 */
  readonly error?: string | undefined;
  /** request charge of the pages that were read */
  readonly ru: number;
  /** pages that were read */
  readonly pages: number;
  /** true if the last page was read */
  readonly complete: boolean;
  /** rows returned */
  readonly rows: number;
  /** items loaded */
  readonly retrieved: number;
  /** physical partitions that the first page asked */
  readonly partitions: number;
  /** physical partitions of the container */
  readonly containerPartitions: number;
  /** bytes of the index entries of the measured items */
  readonly indexBytes: number;
  /** access path, work and charge at each physical partition, as in x-orrery-explain */
  readonly plan?: { readonly [name: string]: unknown } | undefined;
  /** used and possible indexes, as in x-ms-cosmos-index-utilization */
  readonly indexMetrics?: { readonly [name: string]: unknown } | undefined;
  /** reasons for the charge, the most expensive first; they add up to the charge except for rounding */
  readonly why: readonly (ChargeReason)[];
}

export interface ChargeReason {
  /** short name of the reason */
  readonly code: "request" | "fanOut" | "discarded" | "loaded" | "index" | "rows" | "arrays" | "functions";
  /** the reason in words */
  readonly text: string;
  /** request units */
  readonly ru: number;
  /** what would make the query cheaper */
  readonly remedy?: ChargeRemedy | undefined;
}

export interface ChargeRemedy {
  /** the remedy in words */
  readonly text: string;
  /** composite indexes to add, each as in compositeIndexes of an indexing policy */
  readonly compositeIndexes: readonly (unknown)[];
  /** paths to include in the index */
  readonly includedPaths: readonly (string)[];
}

export interface QueryToMeasure {
  /** SQL text of the query */
  readonly text: string;
  /** parameters of the query */
  readonly parameters?: readonly (QueryParameter)[] | undefined;
  /** partition key as in the header x-ms-documentdb-partitionkey; absent: the query may ask every physical partition */
  readonly partitionKey?: string | undefined;
  /** rows wanted on a page */
  readonly maxItems?: number | undefined;
  /** pages to read; 1 if absent */
  readonly pages?: number | undefined;
}

export interface QueryParameter {
  /** name with its @ */
  readonly name: string;
  /** value */
  readonly value: unknown;
}

export interface QueryPrediction {
  /** items on which both were measured */
  readonly sample: PredictionSample;
  /** with the indexing policy as it is */
  readonly now: MeasuredQuery;
  /** with the proposed indexing policy */
  readonly proposed: MeasuredQuery;
}

export interface PredictionSample {
  /** copied items */
  readonly items: number;
  /** items of the container */
  readonly containerItems: number;
  /** bytes of the container's items */
  readonly containerBytes: number;
  /** true if all items of the container were copied */
  readonly complete: boolean;
}

export interface QueryProposal {
  /** SQL text of the query */
  readonly text: string;
  /** parameters of the query */
  readonly parameters?: readonly (QueryParameter)[] | undefined;
  /** partition key as in the header x-ms-documentdb-partitionkey; absent: the query may ask every physical partition */
  readonly partitionKey?: string | undefined;
  /** rows wanted on a page */
  readonly maxItems?: number | undefined;
  /** pages to read; 1 if absent */
  readonly pages?: number | undefined;
  /** proposed indexing policy, as in the body of a container */
  readonly indexingPolicy: { readonly [name: string]: unknown };
  /** most items to copy; 20000 if absent */
  readonly sampleItems?: number | undefined;
}

export interface KeyCandidates {
  /** items of the sample */
  readonly items: number;
  /** properties with scalars, those with the most values first */
  readonly candidates: readonly (KeyCandidate)[];
}

export interface KeyCandidate {
  /** path, as in a partition key definition */
  readonly path: string;
  /** number of different values */
  readonly values: number;
  /** share of the items that have the most frequent value */
  readonly largest: number;
  /** share of the items that have the property */
  readonly present: number;
}

export interface Prediction {
  /** items that were copied */
  readonly sample: PredictionSample;
  /** settings as they are */
  readonly current: PredictionSide;
  /** proposed settings */
  readonly proposed: PredictionSide;
  /** kinds of requests, the most expensive in total first */
  readonly classes: readonly (PredictionClass)[];
  /** the prediction in sentences, the most important first */
  readonly words: readonly (string)[];
}

export interface PredictionClass {
  /** kind of the requests */
  readonly kind: "pointRead" | "create" | "upsert" | "replace" | "patch" | "delete" | "batch" | "script" | "feed" | "query";
  /** text of a query, with ? in place of values */
  readonly text?: string | undefined;
  /** number of requests; of queries, of executions */
  readonly count: number;
  /** mean of the recorded charges; absent for a given query */
  readonly recordedRu?: number | undefined;
  /** repeated with the settings as they are */
  readonly current: PredictionColumn;
  /** repeated with the proposed settings */
  readonly proposed: PredictionColumn;
  /** predicted mean charge: the recorded one, changed as the repeated requests change */
  readonly predictedRu: number;
  /** number of repeated requests */
  readonly repeated: number;
  /** what limits the prediction */
  readonly note?: string | undefined;
}

export interface PredictionColumn {
  /** mean charge of the repeated requests */
  readonly ru: number;
  /** mean number of physical partitions that a repeated request asked */
  readonly partitions: number;
}

export interface PredictionSide {
  /** paths of the partition key */
  readonly partitionKey: readonly (string)[];
  /** RU/s, of autoscale the maximum; absent if the container shares the throughput of its database */
  readonly throughput?: number | undefined;
  /** true for autoscale */
  readonly autoscale: boolean;
  /** charge of all recorded and given requests */
  readonly ru: number;
  /** physical partitions that a request asks on average */
  readonly fanOut: number;
  /** share of the charge at each physical partition, in the order of the EPK ranges */
  readonly ruShares: readonly (number)[];
  /** largest of ruShares */
  readonly hottestShare: number;
  /** bytes of the items of each physical partition */
  readonly partitionBytes: readonly (number)[];
  /** share of requests that are answered with 429 at the rates of the last ten minutes with requests; a refused request is not repeated. Absent without recorded requests */
  readonly throttledShare?: number | undefined;
  /** bytes of the items */
  readonly itemBytes: number;
  /** bytes of the index entries */
  readonly indexBytes: number;
  /** different partition keys among the copied items */
  readonly distinctKeys: number;
  /** largest logical partitions, the largest first */
  readonly largestKeys: readonly (PredictionLargestKey)[];
  /** bytes that one logical partition may have */
  readonly keyLimitBytes: number;
  /** copied items whose id or unique key another item of their logical partition has */
  readonly conflicts: number;
  /** copied items that cannot be stored for another reason */
  readonly refused: number;
}

export interface PredictionLargestKey {
  /** partition key as the text of a JSON array */
  readonly key: string;
  /** bytes of its items, scaled to the container */
  readonly bytes: number;
  /** share of the bytes of the container */
  readonly share: number;
}

export interface PredictionProposal {
  /** proposed partition key definition, as in the body of a container; absent keeps it */
  readonly partitionKey?: { readonly [name: string]: unknown } | undefined;
  /** proposed indexing policy, as in the body of a container; absent keeps it */
  readonly indexingPolicy?: { readonly [name: string]: unknown } | undefined;
  /** proposed RU/s in steps of 100; absent keeps the throughput */
  readonly throughput?: number | undefined;
  /** proposed maximum RU/s of autoscale in steps of 1000; not together with throughput */
  readonly autoscaleMaxThroughput?: number | undefined;
  /** number of physical partitions; absent: as many as data and throughput need */
  readonly physicalPartitions?: number | undefined;
  /** most items to copy; 20000 if absent */
  readonly sampleItems?: number | undefined;
  /** false to leave out the recorded requests; true if absent */
  readonly recorded?: boolean | undefined;
  /** queries to judge beside the recorded requests, at most 50 */
  readonly queries?: readonly (PredictionGivenQuery)[] | undefined;
}

export interface PredictionGivenQuery {
  /** SQL text of the query */
  readonly text: string;
  /** parameters of the query */
  readonly parameters?: readonly (QueryParameter)[] | undefined;
  /** number of executions for which the query stands; 1 if absent */
  readonly weight?: number | undefined;
  /** partition key of the request under the settings as they are, as in the header x-ms-documentdb-partitionkey; absent: the request names none */
  readonly partitionKey?: string | undefined;
}

export interface Recall {
  /** path of the index */
  readonly path: string;
  /** vectors of the container that were searched; fewer than asked for if there are no more, or if the time was over */
  readonly sample: number;
  /** nearest vectors that were looked for: ten for each vector of the sample */
  readonly wanted: number;
  /** those of them that the index found */
  readonly found: number;
  /** found divided by wanted; absent if there are no vectors */
  readonly recall?: number | undefined;
  /** mean milliseconds of a query by the index */
  readonly indexMs: number;
  /** mean milliseconds of a query that compares all vectors */
  readonly exactMs: number;
}

export interface RecallRequest {
  /** path of a vector index, as in the indexing policy */
  readonly path: string;
  /** most vectors of the container to search; 20 if absent */
  readonly sample?: number | undefined;
}

export interface SearchIndexes {
  /** vector indexes and then full-text indexes of the newest indexing policy; the figures are sums over the physical partitions */
  readonly indexes: readonly (SearchIndex)[];
}

export interface SearchIndex {
  /** path, as in the indexing policy */
  readonly path: string;
  /** type of a vector index as in the indexing policy, or fullText */
  readonly type: "flat" | "quantizedFlat" | "diskANN" | "fullText";
  /** data type of the components of vectors */
  readonly dataType?: string | undefined;
  /** number of components of a vector */
  readonly dimensions?: number | undefined;
  /** distance function of vectors */
  readonly distanceFunction?: string | undefined;
  /** language of texts */
  readonly language?: string | undefined;
  /** the index in each physical partition */
  readonly partitions: readonly (SearchIndexPart)[];
  /** exact: all vectors are compared, because the type is flat or they are few; complete: the index has taken in its items; removing: quantised vectors of an earlier type go away; building: vectors are being quantised and linked; training: the quantiser is about to be trained; indexing: the items are being indexed after a change of the policy */
  readonly state: "exact" | "complete" | "removing" | "building" | "training" | "indexing";
  /** part that is done; absent while rows are removed */
  readonly percent?: number | undefined;
  /** vectors or texts in the index */
  readonly entries: number;
  /** vectors that are quantised as they are now; 0 for other indexes */
  readonly quantised: number;
  /** vectors that are still to be quantised; queries compare them meanwhile */
  readonly waiting: number;
  /** words of all texts; 0 for vector indexes */
  readonly words: number;
  /** bytes of the rows of whole vectors */
  readonly vectorBytes: number;
  /** bytes of the rows of quantised vectors */
  readonly codeBytes: number;
  /** bytes of the lists of neighbours of a diskANN index */
  readonly listBytes: number;
  /** true if a figure was estimated from a part of the rows */
  readonly estimated: boolean;
}

export interface SearchIndexPart {
  /** partition key range id */
  readonly partition: string;
  /** exact: all vectors are compared, because the type is flat or they are few; complete: the index has taken in its items; removing: quantised vectors of an earlier type go away; building: vectors are being quantised and linked; training: the quantiser is about to be trained; indexing: the items are being indexed after a change of the policy */
  readonly state: "exact" | "complete" | "removing" | "building" | "training" | "indexing";
  /** part that is done; absent while rows are removed */
  readonly percent?: number | undefined;
  /** vectors or texts in the index */
  readonly entries: number;
  /** vectors that are quantised as they are now; 0 for other indexes */
  readonly quantised: number;
  /** vectors that are still to be quantised; queries compare them meanwhile */
  readonly waiting: number;
  /** words of all texts; 0 for vector indexes */
  readonly words: number;
  /** bytes of the rows of whole vectors */
  readonly vectorBytes: number;
  /** bytes of the rows of quantised vectors */
  readonly codeBytes: number;
  /** bytes of the lists of neighbours of a diskANN index */
  readonly listBytes: number;
  /** true if a figure was estimated from a part of the rows */
  readonly estimated: boolean;
}

export interface Queries {
  /** at most 200 query texts; the least used are dropped */
  readonly queries: readonly (QueryForm)[];
}

export interface QueryForm {
  /** text of the query, with ? in place of values */
  readonly text: string;
  /** returned pages */
  readonly count: number;
  /** sum of the charges */
  readonly ru: number;
  /** median charge of a page, exact for fewer than 100 pages, then accurate to an eighth */
  readonly ruP50: number;
  /** 95th percentile of the charge, in the same way */
  readonly ruP95: number;
  /** median duration of a page in microseconds, accurate as the charges are */
  readonly microsecondsP50: number;
  /** 99th percentile of the duration in microseconds, accurate as the charges are */
  readonly microsecondsP99: number;
  /** physical partitions read, summed over all pages */
  readonly partitions: number;
  /** items loaded */
  readonly retrieved: number;
  /** rows returned */
  readonly output: number;
  /** true if the last query addressed more than one logical partition */
  readonly crossPartition: boolean;
  /** JSON text with the indexes that a recent query used and those that it could have used */
  readonly indexAdvice?: string | undefined;
  /** time of the last query in seconds */
  readonly last: number;
}

export interface TopKeys {
  /** counted quantity */
  readonly by: string;
  /** start of the counted time in seconds */
  readonly since: number;
  /** logical partition keys in descending order of their load */
  readonly keys: readonly (TopKey)[];
  /** maximum load of any logical partition key that is not listed */
  readonly othersAtMost: number;
  /** load of all logical partition keys */
  readonly total: number;
}

export interface TopKey {
  /** partition key values as in the header x-ms-documentdb-partitionkey; absent if the logical partition has no items */
  readonly key?: string | undefined;
  /** EPK in hexadecimal digits */
  readonly epk: string;
  /** estimated load, never too low */
  readonly amount: number;
  /** maximum by which the estimated load is too high */
  readonly error: number;
}

export interface HeatMap {
  /** counted quantity */
  readonly metric: string;
  /** start of each EPK range, in hexadecimal digits */
  readonly bucketStarts: readonly (string)[];
  /** time intervals with load, the oldest first */
  readonly columns: readonly (HeatMapColumn)[];
}

export interface HeatMapColumn {
  /** start of the interval in seconds */
  readonly start: number;
  /** length of the interval: 5, 60, 600 or 3600 seconds; older intervals are longer */
  readonly seconds: number;
  /** indexes into bucketStarts of the EPK ranges with load, ascending */
  readonly buckets: readonly (number)[];
  /** load of each of these EPK ranges */
  readonly values: readonly (number)[];
  /** load of the requests that address more than one logical partition */
  readonly scans: number;
}

export interface Partitions {
  /** physical partitions in order of their EPK ranges */
  readonly partitions: readonly (Partition)[];
  /** every physical partition that exists or existed, in order of creation */
  readonly lineage: readonly (PartitionLineage)[];
  /** bytes of items beyond which a physical partition is split */
  readonly physicalPartitionBytesMax: number;
  /** bytes of items that a logical partition may have */
  readonly logicalPartitionBytesMax: number;
}

export interface PartitionLineage {
  /** partition key range id */
  readonly id: string;
  /** ids of the direct predecessors: one after a split, several after a merge */
  readonly parents: readonly (string)[];
  /** start of the EPK range, in hexadecimal digits */
  readonly minInclusive: string;
  /** end of the EPK range, in hexadecimal digits */
  readonly maxExclusive: string;
  /** time of the data at the creation, in milliseconds since 1970-01-01 UTC */
  readonly createdMilliseconds: number;
  /** time of the data when a split or merge replaced the partition; absent while it exists */
  readonly replacedMilliseconds?: number | undefined;
}

export interface Partition {
  /** partition key range id, as clients see it */
  readonly id: string;
  /** ids of the partition key ranges from which this one was split or merged */
  readonly parents: readonly (string)[];
  /** start of the EPK range, in hexadecimal digits */
  readonly minInclusive: string;
  /** end of the EPK range, in hexadecimal digits */
  readonly maxExclusive: string;
  /** LSN of the last durable commit */
  readonly lsn: number;
  /** number of items */
  readonly items: number;
  /** size of the items' JSON texts in bytes */
  readonly bytes: number;
  /** size of the index entries' rows in bytes, keys and values */
  readonly indexBytes: number;
  /** largest logical partitions, the largest first; none while the partition is smaller than half of the limit on a logical partition */
  readonly largestKeys: readonly (LargeKey)[];
  /** seconds of the last minute that had requests, the oldest first */
  readonly lastMinute: readonly (PartitionSecond)[];
  /** budget in RU/s; absent if the partition is not limited */
  readonly ruPerSecond?: number | undefined;
  /** request units spent in the last whole second */
  readonly lastSecondRequestUnits: number;
  /** share of the budget spent in the last whole second */
  readonly normalized: number;
  /** sum of all request charges */
  readonly requestUnits: number;
  /** requests carried out */
  readonly requests: number;
  /** requests refused with 429 because the budget was spent */
  readonly throttled: number;
  /** requests that would have been refused if the budget were enforced */
  readonly wouldThrottle: number;
}

export interface PartitionSecond {
  /** second since 1970-01-01 UTC */
  readonly second: number;
  /** sum of the request charges */
  readonly requestUnits: number;
  /** requests carried out */
  readonly requests: number;
  /** requests refused with 429 because the budget was spent */
  readonly throttled: number;
  /** requests that would have been refused if the budget were enforced */
  readonly wouldThrottle: number;
}

export interface LargeKey {
  /** EPK, in hexadecimal digits */
  readonly epk: string;
  /** partition key as the text of a JSON array; empty if no item has the key */
  readonly key: string;
  /** size of the items' JSON texts in bytes */
  readonly bytes: number;
}

export interface Backup {
  /** state of the backup */
  readonly status: "running" | "done" | "cancelled" | "failed";
  /** reason of a failure */
  readonly failure?: string | undefined;
  /** id of the backup, once it is done */
  readonly id?: string | undefined;
  /** files to copy, or those of the backup */
  readonly files: number;
  /** bytes of these files */
  readonly bytes: number;
  /** files that are finished */
  readonly filesDone: number;
  /** bytes that are finished */
  readonly bytesDone: number;
  /** files that the target did not have before, once the backup is done */
  readonly newFiles?: number | undefined;
  /** bytes of these files */
  readonly newBytes?: number | undefined;
  /** time of the data at the start, in milliseconds since 1970-01-01 UTC */
  readonly beganMilliseconds: number;
  /** time of the data at the end, in milliseconds since 1970-01-01 UTC */
  readonly endedMilliseconds?: number | undefined;
}

export interface BackupStart {
  /** absolute path on the machine of the server: a folder with backups, which is created if it is missing, or a new file that ends with .tar.zst */
  readonly target: string;
  /** most bytes to copy in a second; 33554432 if absent, 0 for no limit */
  readonly bytesPerSecond?: number | undefined;
}

export interface Verification {
  /** state of the verification */
  readonly status: "running" | "done" | "cancelled" | "failed";
  /** reason of a failure */
  readonly failure?: string | undefined;
  /** partition that is being read */
  readonly place?: string | undefined;
  /** physical partitions to read */
  readonly partitions: number;
  /** physical partitions that were read */
  readonly partitionsDone: number;
  /** items that were read */
  readonly items: number;
  /** rows that were read */
  readonly rows: number;
  /** bytes of rows that were read */
  readonly bytes: number;
  /** number of differences so far */
  readonly found: number;
  /** differences, at most 1000; empty while the verification runs */
  readonly findings: readonly (Finding)[];
  /** time of the data at the start, in milliseconds since 1970-01-01 UTC */
  readonly beganMilliseconds: number;
  /** time of the data at the end, in milliseconds since 1970-01-01 UTC */
  readonly endedMilliseconds?: number | undefined;
}

export interface Finding {
  /** the promise that is broken */
  readonly check: string;
  /** container or partition as a path, or the word store */
  readonly place: string;
  /** id of the database */
  readonly database?: string | undefined;
  /** id of the container */
  readonly container?: string | undefined;
  /** partition key range id */
  readonly partition?: string | undefined;
  /** key of the row in hexadecimal digits, or the file of a damaged block */
  readonly key?: string | undefined;
  /** id of the item */
  readonly item?: string | undefined;
  /** the difference in a sentence */
  readonly detail: string;
  /** yes if orrery repair --rebuild-index mends the difference */
  readonly canBeRebuilt: "yes" | "no";
}

export interface VerificationStart {
  /** id of the database of the container to read; all data if absent */
  readonly database?: string | undefined;
  /** id of the container to read; all data if absent */
  readonly container?: string | undefined;
  /** most bytes of rows to read in a second; 33554432 if absent, 0 for no limit */
  readonly bytesPerSecond?: number | undefined;
}

export interface Snapshot {
  /** name of the snapshot */
  readonly name: string;
  /** time of the data when the snapshot was taken, in milliseconds since 1970-01-01 UTC */
  readonly takenMilliseconds: number;
  /** number of containers */
  readonly containers: number;
  /** number of physical partitions */
  readonly partitions: number;
  /** number of items */
  readonly items: number;
  /** size of the items' JSON texts in bytes */
  readonly bytes: number;
}

export interface Snapshots {
  /** snapshots in order of their names */
  readonly snapshots: readonly (Snapshot)[];
}

export interface Clock {
  /** seconds by which the clock of the data is ahead of the real time */
  readonly offsetSeconds: number;
  /** time of the data in seconds since 1970-01-01 UTC */
  readonly nowSeconds: number;
}

export interface ClockOffset {
  /** seconds by which the clock of the data is to be ahead of the real time */
  readonly offsetSeconds: number;
}

export interface ArmedFaultRule {
  /** number of the rule */
  readonly id: number;
  /** requests that matched the rule's operations, database and container */
  readonly seen: number;
  /** requests to which the rule was applied */
  readonly struck: number;
  /** names of the affected operations, such as read_item; all operations if absent */
  readonly operations?: readonly (string)[] | undefined;
  /** id of the database whose requests are affected; all databases if absent */
  readonly database?: string | undefined;
  /** id of the container whose requests are affected; all containers if absent */
  readonly container?: string | undefined;
  /** share of the matching requests that is affected; 1 if absent */
  readonly share?: number | undefined;
  /** maximum number of affected requests; unlimited if absent */
  readonly count?: number | undefined;
  /** seconds until the rule expires; never if absent */
  readonly expiresInSeconds?: number | undefined;
  /** before: the operation is not carried out; after: the operation is carried out first; before if absent */
  readonly when?: "before" | "after" | undefined;
  /** delay of the response in milliseconds */
  readonly delayMilliseconds?: number | undefined;
  /** status of the response: 408, 410, 429, 449 or 503 */
  readonly status?: number | undefined;
  /** sub-status of the response, 0 for none; the usual one of the status if absent */
  readonly subStatus?: number | undefined;
  /** milliseconds after which the client is asked to retry */
  readonly retryAfterMilliseconds?: number | undefined;
  /** none: no response; the connection is closed, or the stream of HTTP/2 is reset */
  readonly answer?: "none" | undefined;
}

export interface FaultRule {
  /** names of the affected operations, such as read_item; all operations if absent */
  readonly operations?: readonly (string)[] | undefined;
  /** id of the database whose requests are affected; all databases if absent */
  readonly database?: string | undefined;
  /** id of the container whose requests are affected; all containers if absent */
  readonly container?: string | undefined;
  /** share of the matching requests that is affected; 1 if absent */
  readonly share?: number | undefined;
  /** maximum number of affected requests; unlimited if absent */
  readonly count?: number | undefined;
  /** seconds until the rule expires; never if absent */
  readonly expiresInSeconds?: number | undefined;
  /** before: the operation is not carried out; after: the operation is carried out first; before if absent */
  readonly when?: "before" | "after" | undefined;
  /** delay of the response in milliseconds */
  readonly delayMilliseconds?: number | undefined;
  /** status of the response: 408, 410, 429, 449 or 503 */
  readonly status?: number | undefined;
  /** sub-status of the response, 0 for none; the usual one of the status if absent */
  readonly subStatus?: number | undefined;
  /** milliseconds after which the client is asked to retry */
  readonly retryAfterMilliseconds?: number | undefined;
  /** none: no response; the connection is closed, or the stream of HTTP/2 is reset */
  readonly answer?: "none" | undefined;
}

export interface FaultRules {
  /** fault rules, the oldest first; only the first rule that matches a request is applied */
  readonly rules: readonly (ArmedFaultRule)[];
}

export interface RunningQuery {
  /** number of the query since the server started */
  readonly number: number;
  /** id of the database; absent for a query of databases or throughput */
  readonly db?: string | undefined;
  /** id of the container; absent for a query of databases, containers or throughput */
  readonly coll?: string | undefined;
  /** text of the query with ? in place of values, shortened to 1 KB; absent for a text with an invalid token */
  readonly form?: string | undefined;
  /** time in milliseconds since the query began */
  readonly ms: number;
  /** activity id */
  readonly activityId: string;
  /** user agent of the client */
  readonly userAgent?: string | undefined;
  /** address of the client */
  readonly client: string;
  /** true for a query of this server's own console */
  readonly fromConsole: boolean;
}

export interface RunningQueries {
  /** queries that run, the longest first */
  readonly queries: readonly (RunningQuery)[];
}

export interface RequestLogSettings {
  /** charge from which a request is recorded */
  readonly minRu: number;
  /** duration in milliseconds from which a request is recorded */
  readonly minMs: number;
  /** true while every request is recorded */
  readonly all: boolean;
  /** time until which every request is recorded, in milliseconds */
  readonly allUntil?: number | undefined;
}

export interface RequestLogChange {
  /** charge from which a request is recorded */
  readonly minRu?: number | undefined;
  /** duration in milliseconds from which a request is recorded */
  readonly minMs?: number | undefined;
  /** true: every request is recorded for a time; false ends that time */
  readonly all?: boolean | undefined;
  /** that time in seconds; 60 if absent */
  readonly seconds?: number | undefined;
}

export interface RecordedRequests {
  /** recorded requests in ascending order of their numbers */
  readonly requests: readonly (RecordedRequest)[];
  /** number with which 'after' continues behind this answer */
  readonly next: number;
  /** requests that were not recorded since the start, because more than 200 in a second had the same reason */
  readonly leftOut: number;
  /** settings of the log */
  readonly settings: RequestLogSettings;
}

export interface RecordedRequest {
  /** number of the request in the log */
  readonly number: number;
  /** first reason for which the request was recorded */
  readonly reason: "throttled" | "failed" | "expensive" | "slow" | "followed";
  /** time of the answer in milliseconds */
  readonly time: number;
  /** name of the operation */
  readonly operation: string;
  /** type of the resource */
  readonly resource: string;
  /** http, or tcp for a frame of the direct mode */
  readonly transport: string;
  /** method */
  readonly method: string;
  /** id of the database */
  readonly db?: string | undefined;
  /** id of the container */
  readonly coll?: string | undefined;
  /** id of the item, script or other resource */
  readonly id?: string | undefined;
  /** path as sent, shortened to 1 KB */
  readonly path: string;
  /** partition key range ids that were asked, at most 64 */
  readonly partitions: readonly (string)[];
  /** number of physical partitions that were asked */
  readonly partitionCount: number;
  /** status; 0 if a fault rule left the request without an answer */
  readonly status: number;
  /** sub-status; 0 for none */
  readonly substatus: number;
  /** code word of the error */
  readonly code?: string | undefined;
  /** charge */
  readonly ru: number;
  /** parts of the charge, which add up to it */
  readonly parts: readonly (RecordedChargePart)[];
  /** duration in milliseconds */
  readonly ms: number;
  /** activity id */
  readonly activityId: string;
  /** user agent of the client, shortened to 256 bytes */
  readonly userAgent?: string | undefined;
  /** address of the client */
  readonly client: string;
  /** true for a request of this server's own console */
  readonly fromConsole: boolean;
  /** figures of a query */
  readonly query?: RecordedQuery | undefined;
}

export interface RecordedQuery {
  /** text of the query with ? in place of values; absent for a text with an invalid token */
  readonly form?: string | undefined;
  /** items loaded */
  readonly retrieved: number;
  /** rows returned */
  readonly output: number;
  /** rows returned for each item loaded, at most 1 */
  readonly indexHitRatio: number;
}

export interface RecordedChargePart {
  /** kind of the work */
  readonly what: string;
  /** amount of the work */
  readonly count: number;
  /** request units; negative for rounding down */
  readonly ru: number;
}

export interface Live {
  /** start of each sample in seconds, the oldest first */
  readonly start: readonly (number)[];
  /** length of each sample in seconds: divide a count by it for a rate */
  readonly seconds: readonly (number)[];
  /** answered requests in each sample */
  readonly requests: readonly (number)[];
  /** request units of each sample */
  readonly requestUnits: readonly (number)[];
  /** requests answered with 429 */
  readonly throttled: readonly (number)[];
  /** requests answered with 400 to 499, other than 429 */
  readonly clientErrors: readonly (number)[];
  /** requests answered with 500 or more */
  readonly serverErrors: readonly (number)[];
  /** median latency of each sample in microseconds, exact for fewer than 100 requests, then interpolated between the bounds of orrery_request_duration_seconds; 0 without requests */
  readonly microsecondsP50: readonly (number)[];
  /** 95th percentile of the latency, in the same way */
  readonly microsecondsP95: readonly (number)[];
  /** 99th percentile of the latency, in the same way */
  readonly microsecondsP99: readonly (number)[];
  /** open connections of clients at the end of each sample */
  readonly connections: readonly (number)[];
  /** approximate size of the store in bytes, read every ten seconds */
  readonly storedBytes: readonly (number)[];
  /** processor time of the process in each sample in seconds: 1 for each second of a core */
  readonly processorSeconds: readonly (number)[];
  /** memory of the process in bytes at the end of each sample */
  readonly residentBytes: readonly (number)[];
  /** bytes that the process read from disks in each sample */
  readonly diskReadBytes: readonly (number)[];
  /** bytes that the process wrote to disks in each sample */
  readonly diskWrittenBytes: readonly (number)[];
  /** containers with the highest charges in the time range, the highest first; each sample knows its 16 highest */
  readonly containers: readonly (LiveContainer)[];
}

export interface LiveContainer {
  /** id of the database */
  readonly db: string;
  /** id of the container */
  readonly coll: string;
  /** request units of each sample */
  readonly requestUnits: readonly (number)[];
  /** requests at physical partitions in each sample; a request that asks several counts at each */
  readonly requests: readonly (number)[];
  /** requests refused with 429 at physical partitions in each sample */
  readonly throttled: readonly (number)[];
}

export interface Status {
  /** version of the program */
  readonly version: string;
  /** seconds since the process started */
  readonly uptimeSeconds: number;
  /** name of the account */
  readonly account: string;
  /** path of the data directory; absent if the data is in memory */
  readonly dataDirectory?: string | undefined;
  /** number of databases */
  readonly databases: number;
  /** number of containers */
  readonly containers: number;
  /** number of physical partitions of all containers */
  readonly partitions: number;
  /** number of durably stored items in all containers */
  readonly items: number;
  /** size of the items' JSON texts in bytes */
  readonly bytes: number;
  /** approximate size of the store in bytes */
  readonly storeBytes: number;
  /** damaged blocks of the store */
  readonly damagedBlocks: readonly (DamagedBlock)[];
  /** regular check of all blocks; absent if the data is in memory */
  readonly scrub?: Scrub | undefined;
  /** continuous backup; absent if there is none */
  readonly continuousBackup?: ContinuousBackup | undefined;
}

export interface ContinuousBackup {
  /** folder with the backups and the log */
  readonly folder: string;
  /** second since 1970-01-01 UTC up to which everything is in the log; absent before the first round */
  readonly reachedSeconds?: number | undefined;
  /** first second from which on each second up to the reached one can be restored; absent while none can */
  readonly restorableFromSeconds?: number | undefined;
  /** seconds of which writes may be missing in the log */
  readonly lagSeconds: number;
  /** bytes that were added to the log since the start */
  readonly segmentBytes: number;
  /** backups that were made for the log since the start */
  readonly bases: number;
  /** rounds, bases and removals that failed since the start */
  readonly failures: number;
  /** reason of a failure; absent if the last round, base and removal succeeded */
  readonly failure?: string | undefined;
}

export interface Scrub {
  /** bytes that were checked since the server started */
  readonly checkedBytes: number;
  /** bytes that the current or last pass has checked */
  readonly passCheckedBytes: number;
  /** bytes that a pass checks */
  readonly passBytes: number;
  /** passes that were completed since the server started */
  readonly completedPasses: number;
  /** seconds since the last pass was completed; absent if none was */
  readonly secondsSincePass?: number | undefined;
}

export interface DamagedBlock {
  /** path of the damaged file */
  readonly file: string;
  /** offset of the block in the file in bytes */
  readonly offset: number;
  /** length of the block in bytes */
  readonly bytes: number;
  /** fault of the block */
  readonly fault: string;
  /** contents of the block before the damage */
  readonly contents: "items" | "index entries" | "catalog" | "file structure" | "nothing lost";
  /** resource paths of the physical partitions that take no writes, as in dbs/{db}/colls/{coll}/pkranges/{id} */
  readonly readOnlyPartitions: readonly (string)[];
}

export interface Health {
  /** the state of the server; forwarding for a node that forwards requests to the leaseholder */
  readonly status: "alive" | "ready" | "forwarding";
}

export interface Problem {
  /** a code word that programs can compare */
  readonly code: string;
  /** the defect and its location in the request */
  readonly message: string;
}

/** Returns 200 while the process answers. */
export async function isAlive(options: Options = {}): Promise<Health> {
  return (await manage(`/alive`, { ...options })).json() as Health;
}

/** Same as /alive. */
export async function isLive(options: Options = {}): Promise<Health> {
  return (await manage(`/livez`, { ...options })).json() as Health;
}

/** Returns 200 if requests succeed now, otherwise 503 with the reason. */
export async function isReady(options: Options = {}): Promise<Health> {
  return (await manage(`/ready`, { ...options })).json() as Health;
}

/** Same as /ready. */
export async function isReadyz(options: Options = {}): Promise<Health> {
  return (await manage(`/readyz`, { ...options })).json() as Health;
}

/** Same as /ready. */
export async function isHealthy(options: Options = {}): Promise<Health> {
  return (await manage(`/healthz`, { ...options })).json() as Health;
}

/** Returns the version, the uptime, the size of the data and its damaged blocks. */
export async function readStatus(options: Options = {}): Promise<Status> {
  return (await manage(`/status`, { ...options })).json() as Status;
}

/** Returns the metrics in the text format of Prometheus. */
export async function readMetrics(options: Options = {}): Promise<string> {
  return (await manage(`/metrics`, { ...options })).text;
}

/** Returns requests, charges, latencies and sizes over time. */
export async function readLive(query: { from?: number | undefined; to?: number | undefined; step?: number | undefined; containers?: number | undefined } = {}, options: Options = {}): Promise<Live> {
  return (await manage(`/live${suffix(query)}`, { ...options })).json() as Live;
}

/** Lists the last slow, expensive, throttled and failed requests. */
export async function listRequests(query: { after?: number | undefined; limit?: number | undefined; db?: string | undefined; coll?: string | undefined; status?: number | undefined; minRu?: number | undefined; minMs?: number | undefined; all?: boolean | undefined } = {}, options: Options = {}): Promise<RecordedRequests> {
  return (await manage(`/requests${suffix(query)}`, { ...options })).json() as RecordedRequests;
}

/** Returns which requests are recorded. */
export async function readRequestSettings(options: Options = {}): Promise<RequestLogSettings> {
  return (await manage(`/requests/settings`, { ...options })).json() as RequestLogSettings;
}

/** Sets which requests are recorded. */
export async function setRequestSettings(body?: RequestLogChange, options: Options = {}): Promise<RequestLogSettings> {
  return (await manage(`/requests/settings`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as RequestLogSettings;
}

/** Lists the queries that run now, the longest first. */
export async function listRunningQueries(options: Options = {}): Promise<RunningQueries> {
  return (await manage(`/running-queries`, { ...options })).json() as RunningQueries;
}

/** Cancels a query that runs: its work ends, and its client gets 403 with sub-status 5901. */
export async function cancelQuery(number: string, options: Options = {}): Promise<RunningQuery> {
  return (await manage(`/running-queries/${part(number)}`, { ...options, method: "DELETE" })).json() as RunningQuery;
}

/** Lists the fault rules with their counters. */
export async function listFaults(options: Options = {}): Promise<FaultRules> {
  return (await manage(`/faults`, { ...options })).json() as FaultRules;
}

/** Adds a fault rule. */
export async function createFault(body?: FaultRule, options: Options = {}): Promise<ArmedFaultRule> {
  return (await manage(`/faults`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as ArmedFaultRule;
}

/** Removes all fault rules. */
export async function deleteFaults(options: Options = {}): Promise<void> {
  await manage(`/faults`, { ...options, method: "DELETE" });
}

/** Returns a fault rule with its counters. */
export async function readFault(id: string, options: Options = {}): Promise<ArmedFaultRule> {
  return (await manage(`/faults/${part(id)}`, { ...options })).json() as ArmedFaultRule;
}

/** Removes a fault rule. */
export async function deleteFault(id: string, options: Options = {}): Promise<void> {
  await manage(`/faults/${part(id)}`, { ...options, method: "DELETE" });
}

/** Returns the time of the data. */
export async function readClock(options: Options = {}): Promise<Clock> {
  return (await manage(`/clock`, { ...options })).json() as Clock;
}

/** Moves the time of the data forward. */
export async function moveClock(body: ClockOffset, options: Options = {}): Promise<Clock> {
  return (await manage(`/clock`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as Clock;
}

/** Lists the snapshots by name. */
export async function listSnapshots(options: Options = {}): Promise<Snapshots> {
  return (await manage(`/snapshots`, { ...options })).json() as Snapshots;
}

/** Returns a snapshot. */
export async function readSnapshot(name: string, options: Options = {}): Promise<Snapshot> {
  return (await manage(`/snapshots/${part(name)}`, { ...options })).json() as Snapshot;
}

/** Saves all data under a name; replaces an older snapshot of that name. */
export async function takeSnapshot(name: string, options: Options = {}): Promise<Snapshot> {
  return (await manage(`/snapshots/${part(name)}`, { ...options, method: "PUT" })).json() as Snapshot;
}

/** Deletes a snapshot. */
export async function deleteSnapshot(name: string, options: Options = {}): Promise<void> {
  await manage(`/snapshots/${part(name)}`, { ...options, method: "DELETE" });
}

/** Replaces all data by a snapshot. */
export async function restoreSnapshot(name: string, options: Options = {}): Promise<Snapshot> {
  return (await manage(`/snapshots/${part(name)}/restore`, { ...options, method: "POST" })).json() as Snapshot;
}

/** Deletes all data except the snapshots and resets the clock to the real time. */
export async function reset(options: Options = {}): Promise<void> {
  await manage(`/reset`, { ...options, method: "POST" });
}

/** Returns the verification that runs, or the last one, with its findings. */
export async function readVerification(options: Options = {}): Promise<Verification> {
  return (await manage(`/verification`, { ...options })).json() as Verification;
}

/** Starts to read every row and to compare it with what must be there; requests go on meanwhile. */
export async function startVerification(body?: VerificationStart, options: Options = {}): Promise<Verification> {
  return (await manage(`/verification`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Verification;
}

/** Ends the verification that runs. */
export async function cancelVerification(options: Options = {}): Promise<Verification> {
  return (await manage(`/verification`, { ...options, method: "DELETE" })).json() as Verification;
}

/** Returns the backup that runs, or the last one. */
export async function readBackup(options: Options = {}): Promise<Backup> {
  return (await manage(`/backups`, { ...options })).json() as Backup;
}

/** Starts a backup of the data directory; requests go on meanwhile. */
export async function startBackup(body: BackupStart, options: Options = {}): Promise<Backup> {
  return (await manage(`/backups`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Backup;
}

/** Ends the backup that runs. */
export async function cancelBackup(options: Options = {}): Promise<Backup> {
  return (await manage(`/backups`, { ...options, method: "DELETE" })).json() as Backup;
}

/** Lists the physical partitions of a container in order of their EPK ranges. */
export async function listPartitions(db: string, coll: string, options: Options = {}): Promise<Partitions> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/partitions`, { ...options })).json() as Partitions;
}

/** Returns the load of a container by EPK range and time. */
export async function readHeatMap(db: string, coll: string, query: { metric?: "ru" | "requests" | "throttled" | "bytes" | undefined; from?: number | undefined; to?: number | undefined } = {}, options: Options = {}): Promise<HeatMap> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/heatmap${suffix(query)}`, { ...options })).json() as HeatMap;
}

/** Lists the logical partition keys with the highest load. */
export async function listTopKeys(db: string, coll: string, query: { by?: "ru" | "bytes" | undefined; window?: "now" | "minute" | "hour" | "day" | undefined } = {}, options: Options = {}): Promise<TopKeys> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/top-keys${suffix(query)}`, { ...options })).json() as TopKeys;
}

/** Lists the queries of a container, grouped by their text without values, in descending order of their total charge. */
export async function listQueries(db: string, coll: string, options: Options = {}): Promise<Queries> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/queries`, { ...options })).json() as Queries;
}

/** Lists the vector and full-text indexes of a container with their sizes and the progress of the background work. */
export async function listSearchIndexes(db: string, coll: string, options: Options = {}): Promise<SearchIndexes> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/indexes`, { ...options })).json() as SearchIndexes;
}

/** Measures how many of the nearest vectors a vector index finds, and the time of queries with and without it, by searches for vectors of the container. */
export async function measureRecall(db: string, coll: string, body: RecallRequest, options: Options = {}): Promise<Recall> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/indexes/recall`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Recall;
}

/** Predicts the recorded requests of a container under another partition key, throughput or indexing policy, on copies of its items. */
export async function predict(db: string, coll: string, body?: PredictionProposal, options: Options = {}): Promise<Prediction> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/prediction`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Prediction;
}

/** Lists the properties in a sample of items that could be the partition key, with the number of their values. */
export async function listKeyCandidates(db: string, coll: string, options: Options = {}): Promise<KeyCandidates> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/prediction/keys`, { ...options })).json() as KeyCandidates;
}

/** Measures a query on copies of the items, with the indexing policy as it is and as proposed. */
export async function predictQuery(db: string, coll: string, body: QueryProposal, options: Options = {}): Promise<QueryPrediction> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/prediction/query`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as QueryPrediction;
}

/** Measures a query without a charge to the container, and returns the reasons for its charge in words. */
export async function explainQuery(db: string, coll: string, body: QueryToMeasure, options: Options = {}): Promise<MeasuredQuery> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/prediction/why`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as MeasuredQuery;
}

/** Lists the leases of the consumers of a container's change feed, with their lag. */
export async function listFeedConsumers(db: string, coll: string, query: { leases: string }, options: Options = {}): Promise<FeedConsumers> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/feed-consumers${suffix(query)}`, { ...options })).json() as FeedConsumers;
}

/** Starts to split a physical partition. */
export async function splitPartition(db: string, coll: string, id: string, body?: Split, options: Options = {}): Promise<Operation> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/partitions/${part(id)}/split`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Operation;
}

/** Starts to merge physical partitions with adjacent EPK ranges. */
export async function mergePartitions(db: string, coll: string, body: Merge, options: Options = {}): Promise<Operation> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/partitions/merge`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Operation;
}

/** Lists the splits and merges. */
export async function listOperations(options: Options = {}): Promise<Operations> {
  return (await manage(`/operations`, { ...options })).json() as Operations;
}

/** Returns a split or merge. */
export async function readOperation(id: string, options: Options = {}): Promise<Operation> {
  return (await manage(`/operations/${part(id)}`, { ...options })).json() as Operation;
}

/** Runs the next step or all remaining steps of a split or merge, or cancels it. */
export async function actOnOperation(id: string, body: OperationAction, options: Options = {}): Promise<Operation> {
  return (await manage(`/operations/${part(id)}`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Operation;
}

/** Lists the clusters that hold the data. */
export async function listClusters(options: Options = {}): Promise<Clusters> {
  return (await manage(`/clusters`, { ...options })).json() as Clusters;
}

/** Starts to move all partitions of a cluster to other clusters; the cluster gets no further ones. */
export async function drainCluster(name: string, options: Options = {}): Promise<Cluster> {
  return (await manage(`/clusters/${part(name)}/drain`, { ...options, method: "POST" })).json() as Cluster;
}

/** Lets a drained cluster get partitions again. */
export async function endDrainOfCluster(name: string, options: Options = {}): Promise<Cluster> {
  return (await manage(`/clusters/${part(name)}/drain`, { ...options, method: "DELETE" })).json() as Cluster;
}

/** Starts to move the partition that makes the clusters more equal in bytes or request units, if there is one. */
export async function balanceClusters(body?: BalanceLimits, options: Options = {}): Promise<Balance> {
  return (await manage(`/clusters/balance`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Balance;
}

/** Lists the partitions of the store with the clusters that have them. */
export async function listPlacements(options: Options = {}): Promise<Placements> {
  return (await manage(`/placements`, { ...options })).json() as Placements;
}

/** Starts to move a physical partition to another cluster. */
export async function movePartition(db: string, coll: string, id: string, body: Move, options: Options = {}): Promise<Placement> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/partitions/${part(id)}/move`, { ...options, method: "POST", body, headers: { "content-type": "application/json" } })).json() as Placement;
}

/** Lists the live nodes of the fleet. */
export async function listNodes(options: Options = {}): Promise<Nodes> {
  return (await manage(`/nodes`, { ...options })).json() as Nodes;
}

/** Gives the lease of the account to another node, and ends this process. */
export async function leadByNode(name: string, options: Options = {}): Promise<Node> {
  return (await manage(`/nodes/${part(name)}/lead`, { ...options, method: "POST" })).json() as Node;
}

/** Returns the throughput of a container: the provisioned RU/s, the settings of the operator and the usage of each physical partition. */
export async function readThroughput(db: string, coll: string, options: Options = {}): Promise<Throughput> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput`, { ...options })).json() as Throughput;
}

/** Provisions throughput for a container, with the limits and effects of replacing its offer. */
export async function setThroughput(db: string, coll: string, body?: ProvisionedThroughput, options: Options = {}): Promise<Throughput> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as Throughput;
}

/** Returns the throughput of a database, which its containers without throughput of their own share. */
export async function readDatabaseThroughput(db: string, options: Options = {}): Promise<DatabaseThroughput> {
  return (await manage(`/dbs/${part(db)}/throughput`, { ...options })).json() as DatabaseThroughput;
}

/** Provisions throughput for a database, with the limits and effects of replacing its offer. */
export async function setDatabaseThroughput(db: string, body?: ProvisionedThroughput, options: Options = {}): Promise<DatabaseThroughput> {
  return (await manage(`/dbs/${part(db)}/throughput`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as DatabaseThroughput;
}

/** Sets whether requests beyond the throughput of a container are refused. */
export async function enforceThroughput(db: string, coll: string, body: Enforcement, options: Options = {}): Promise<Throughput> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput/enforcement`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as Throughput;
}

/** Sets the limits of a container's throughput buckets. */
export async function setThroughputBuckets(db: string, coll: string, body: ThroughputBuckets, options: Options = {}): Promise<Throughput> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput/buckets`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as Throughput;
}

/** Sets the RU/s of each physical partition of a container. */
export async function distributeThroughput(db: string, coll: string, body: PartitionShares, options: Options = {}): Promise<Throughput> {
  return (await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput/distribution`, { ...options, method: "PUT", body, headers: { "content-type": "application/json" } })).json() as Throughput;
}

/** Distributes the RU/s of a container equally over its physical partitions. */
export async function distributeThroughputEqually(db: string, coll: string, options: Options = {}): Promise<void> {
  await manage(`/dbs/${part(db)}/colls/${part(coll)}/throughput/distribution`, { ...options, method: "DELETE" });
}

/** Returns the words, clauses and functions of the query language, for editors. */
export async function readLanguage(options: Options = {}): Promise<Language> {
  return (await manage(`/language`, { ...options })).json() as Language;
}

/** Returns this description. */
export async function readDescription(options: Options = {}): Promise<{ readonly [name: string]: unknown }> {
  return (await manage(`/openapi.json`, { ...options })).json() as { readonly [name: string]: unknown };
}
