/** Advice: what happened, what it costs, and the way out, from tables of rules.
 *
 * | table | about | used by |
 * |---|---|---|
 * | `container-rules.ts` | a container: keys, partitions, throughput | Overview, Partitions, Prediction |
 * | `query-rules.ts` | a query: a run, or a form of many runs | Query, Queries, Overview |
 *
 * Promises: pure; a rule that cannot be judged for want of figures finds nothing; each finding names
 * the figures that it rests on. */

export type Urgency = "bad" | "warn" | "info";

/** A page that shows more, or a proposal to try. */
export interface Way {
  readonly text: string;
  /** The tab of the container. */
  readonly tab: string;
  readonly query?: Readonly<Record<string, string>>;
}

/** What a rule finds, in sentences. */
export interface Finding {
  readonly happened: string;
  /** What it costs; empty if the first sentence says so. */
  readonly cost: string;
  /** What to do; empty if there is nothing to do. */
  readonly out: string;
  readonly urgency?: Urgency;
  readonly ways?: readonly Way[];
  /** The physical partition that the finding is about. */
  readonly partition?: string;
}

export interface Rule<Facts> {
  readonly id: string;
  readonly urgency: Urgency;
  readonly find: (facts: Facts) => Finding | readonly Finding[] | null;
}

export interface Advice extends Finding {
  readonly rule: string;
  readonly urgency: Urgency;
}

const ORDER: Readonly<Record<Urgency, number>> = { bad: 0, warn: 1, info: 2 };

/** Returns what the rules find: the most urgent first, rules of one urgency in their order. */
export function adviceFrom<Facts>(rules: readonly Rule<Facts>[], facts: Facts): Advice[] {
  const found: Advice[] = [];
  for (const { id, urgency, find } of rules) {
    const findings = [find(facts) ?? []].flat() as readonly Finding[];
    for (const finding of findings) found.push({ urgency, ...finding, rule: id });
  }
  return byUrgency(found);
}

/** Returns the advice with the most urgent first; advice of one urgency keeps its order. */
export function byUrgency<One extends Advice>(advice: readonly One[]): One[] {
  return [...advice].sort((a, b) => ORDER[a.urgency] - ORDER[b.urgency]);
}

/** Returns a finding in one line. */
export function adviceText({ happened, cost, out }: Finding): string {
  return [happened, cost, out].filter((sentence) => sentence !== "").join(" ");
}
