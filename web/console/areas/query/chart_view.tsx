/** A chart of two columns of the rows: bars, a line or points.
 *
 * Promises: what a chart leaves out is said; the values are also a table and CSV. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chart } from "../../ui/chart.tsx";
import { SelectField } from "../../ui/field.tsx";
import { count, plural } from "../../ui/format.ts";
import { useResource } from "../../ui/resource.ts";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { type ChartKind, type ChartSeries, numberColumns, series } from "./chart_data.ts";
import type { RunState } from "./run.ts";
import type { Column } from "./table.ts";

const KINDS: readonly (readonly [ChartKind, string])[] = [
  ["bar", "Bars"],
  ["line", "Line"],
  ["scatter", "Points"],
];

/** Draws the choice of columns and the chart. */
export function ChartView({ run }: { readonly run: RunState }): JSX.Element {
  const { list } = useMemo(() => run.columns.columns(), [run.rows]);
  const numbers = useMemo(() => numberColumns(run.rows, list), [run.rows, list]);
  const [kind, setKind] = useState<ChartKind>("bar");
  const [xTitle, setX] = useState("");
  const [yTitle, setY] = useState("");
  const y = numbers.find(({ title }) => title === yTitle) ?? numbers.find(({ title }) => title !== "_ts") ?? numbers[0];
  const x = list.find(({ title }) => title === xTitle) ?? list.find(({ title }) => title !== y?.title) ?? y;
  if (!x || !y) {
    return (
      <Empty title="The rows have no numbers." icon="live">
        A chart needs a column of numbers. Select one, such as c.total, or an aggregate.
      </Empty>
    );
  }
  return (
    <div class="stack">
      <div class="query-chart-choice">
        <SelectField label="Chart" value={kind} options={KINDS} onChange={setKind} />
        <SelectField label="Horizontal" value={x.title} options={titles(list)} onChange={setX} />
        <SelectField label="Vertical" value={y.title} options={titles(numbers)} onChange={setY} />
      </div>
      <Picture rows={run.rows} x={x} y={y} kind={kind} />
    </div>
  );
}

function titles(columns: readonly Column[]): (readonly [string, string])[] {
  return columns.map(({ title }) => [title, title] as const);
}

interface PictureProps {
  readonly rows: RunState["rows"];
  readonly x: Column;
  readonly y: Column;
  readonly kind: ChartKind;
}

function Picture({ rows, x, y, kind }: PictureProps): JSX.Element {
  const found = useMemo(() => series(rows, x, y, kind), [rows, x, y, kind]);
  const left: string[] = [];
  if (found.leftOut > 0) left.push(`The first ${count(found.y.length)} rows are drawn.`);
  if (found.withoutNumber > 0) {
    left.push(`${plural(found.withoutNumber, "row has", "rows have")} no number in ${y.title}.`);
  }
  const title = `${y.title} by ${x.title}`;
  return (
    <>
      {kind === "scatter" ? (
        <Points title={title} found={found} />
      ) : (
        <Chart
          title={title}
          series={[{ label: y.title, values: found.y, colour: "--accent" }]}
          at={found.x}
          atLabel={x.title}
          isTime={false}
          isBars={kind === "bar"}
          format={(value) => value.toLocaleString("en")}
          height={260}
        />
      )}
      {found.labels && <Labels found={found} />}
      {left.length > 0 && <p class="soft">{left.join(" ")}</p>}
    </>
  );
}

const LABELS_SHOWN = 12;

/** Names the positions of the horizontal axis, which are numbers of rows. */
function Labels({ found }: { readonly found: ChartSeries }): JSX.Element {
  const names = (found.labels ?? []).slice(0, LABELS_SHOWN).map((label, at) => `${at}: ${label}`);
  const rest = (found.labels?.length ?? 0) - names.length;
  return (
    <p class="soft query-labels">
      {names.join(" · ")}
      {rest > 0 && ` and ${count(rest)} more`}
    </p>
  );
}

interface PointsProps {
  readonly title: string;
  readonly found: ChartSeries;
}

/** Draws points on a canvas with the chart library, which is loaded when the first are shown. */
function Points({ title, found }: PointsProps): JSX.Element {
  const library = useResource(async () => import("./points.ts"), []);
  const parent = useRef<HTMLDivElement>(null);
  const draw = library.value?.drawPoints;
  useEffect(() => {
    if (!draw || !parent.current) return undefined;
    return draw(parent.current, found);
  }, [draw, found]);
  if (!draw) return <Skeleton lines={6} />;
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
      </figcaption>
      <div ref={parent} role="img" aria-label={`${title}: ${plural(found.y.length, "point")}`} />
    </figure>
  );
}
