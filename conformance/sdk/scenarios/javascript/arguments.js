/** The arguments of one operation. An argument that no code reads is reported as missing in the SDK. */

/** The error for a request for which the SDK has no public method or option. */
export class Missing extends Error {}

export class Arguments {
  constructor(given) {
    this.given = given;
    this.names = new Set(Object.keys(given));
  }

  unused() {
    return [...this.names].sort().join(", ");
  }

  has(name) {
    return name in this.given;
  }

  take(name) {
    this.names.delete(name);
    return this.given[name];
  }

  /** Returns the argument `partition_key` in the SDK's form: one value, or the list of a hierarchical key. */
  partitionKey() {
    const values = this.take("partition_key");
    return values && key(values);
  }

  query() {
    return { query: this.take("query"), parameters: this.take("parameters") ?? [] };
  }

  /** Returns the options that all requests have. */
  options() {
    const options = {};
    const put = (name, value) => value !== undefined && (options[name] = value);
    const [ifMatch, ifNoneMatch] = [this.take("if_match"), this.take("if_none_match")];
    if (ifMatch) options.accessCondition = { type: "IfMatch", condition: ifMatch };
    if (ifNoneMatch) options.accessCondition = { type: "IfNoneMatch", condition: ifNoneMatch };
    put("sessionToken", this.take("session_token"));
    put("consistencyLevel", this.take("consistency"));
    put("preTriggerInclude", this.take("pre_triggers"));
    put("postTriggerInclude", this.take("post_triggers"));
    put("indexingDirective", this.take("indexing"));
    if (this.has("no_response")) options.contentResponseOnWriteEnabled = !this.take("no_response");
    return options;
  }

  /** Returns the options of a feed. */
  feedOptions() {
    const options = {};
    const put = (name, value) => value !== undefined && (options[name] = value);
    put("maxItemCount", this.take("page_size"));
    put("continuationToken", this.take("continuation"));
    put("partitionKey", this.partitionKey());
    put("sessionToken", this.take("session_token"));
    put("continuationTokenLimitInKB", this.take("continuation_limit_kb"));
    if (this.take("index_metrics")) options.populateIndexMetrics = true;
    if (this.take("metrics")) options.populateQueryMetrics = true;
    return options;
  }

  /** Returns the throughput of a new container or database. */
  throughput() {
    const [manual, autoscale] = [this.take("throughput"), this.take("autoscale")];
    if (manual !== undefined) return { throughput: manual };
    if (!autoscale) return {};
    const policy = { throughputPolicy: { incrementPercent: autoscale.increment } };
    return { maxThroughput: autoscale.max, ...(autoscale.increment ? { autoUpgradePolicy: policy } : {}) };
  }
}

/** Returns a partition key in the SDK's form; undefined for none. */
export function key(values) {
  return values.length > 1 ? values : values[0];
}
