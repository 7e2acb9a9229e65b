/** The Lorenz curve and the Gini coefficient of the load of logical partition keys.
 *
 * The server lists at most 32 keys, an upper bound on any other key, and the exact total. The rest
 * of the load is drawn as if it were spread evenly over the fewest other keys that can carry it, so
 * the curve shows the least inequality that agrees with the figures.
 *
 * Promises: the Gini coefficient is a lower bound of the true one among these keys. */

/** A point of the curve: the share of the keys, from the least loaded, and their share of load. */
export interface LorenzPoint {
  keys: number;
  load: number;
}

export interface Inequality {
  points: LorenzPoint[];
  /** 0: every key has the same load; near 1: one key has all of it. */
  gini: number;
  /** Share of the load that the busiest key has. */
  topShare: number;
  /** Number of keys that the curve covers; the rest is estimated. */
  keys: number;
}

/** Returns the inequality of `amounts`, the largest keys, within `total`, where no other key has
 * more than `othersAtMost`. */
export function inequalityOf(
  amounts: readonly number[],
  total: number,
  othersAtMost: number,
): Inequality {
  const listed = amounts.filter((amount) => amount > 0);
  const sum = listed.reduce((all, amount) => all + amount, 0);
  const rest = Math.max(0, total - sum);
  const others = rest > 0 && othersAtMost > 0 ? Math.ceil(rest / othersAtMost) : 0;
  const keys = listed.length + others;
  const all = sum + (others > 0 ? rest : 0);
  if (keys === 0 || all === 0) return { points: [], gini: 0, topShare: 0, keys: 0 };

  // Equal steps for the estimated keys need two points only.
  const groups = listed.map((amount) => ({ count: 1, amount }));
  if (others > 0) groups.push({ count: others, amount: rest });
  groups.sort((a, b) => a.amount / a.count - b.amount / b.count);

  const points: LorenzPoint[] = [{ keys: 0, load: 0 }];
  let area = 0;
  let before: LorenzPoint = { keys: 0, load: 0 };
  for (const group of groups) {
    const point = {
      keys: before.keys + group.count / keys,
      load: before.load + group.amount / all,
    };
    area += ((before.load + point.load) / 2) * (point.keys - before.keys);
    points.push(point);
    before = point;
  }
  const largest = Math.max(...listed, 0);
  return { points, gini: Math.max(0, 1 - 2 * area), topShare: largest / all, keys };
}
