/** Query forms as a table, with the fan-out picture and the advice of the form that is open. */

import { adviceFrom, adviceText } from "../../advice/advice.ts";
import { QUERY_RULES } from "../../advice/query-rules.ts";
import type { JSX } from "preact";
import { href, useParameter } from "../../router.ts";
import { Button } from "../../ui/button.tsx";
import { copyText, csv } from "../../ui/clipboard.ts";
import { DataTable, type DataColumn } from "../../ui/data-table.tsx";
import { ago, count, duration, plural, ru, ruNumber } from "../../ui/format.ts";
import { Badge } from "../../ui/states.tsx";
import { fanOut, factsOf, indexMetrics, readRatio, type QueryForm } from "./forms.ts";

/** A form with the container that it belongs to. */
export interface PlacedForm extends QueryForm {
  readonly database: string;
  readonly container: string;
  readonly keyPaths: readonly string[];
  /** Number of physical partitions of the container. */
  readonly partitionCount: number;
}

export interface FormsViewProps {
  readonly forms: readonly PlacedForm[];
  /** Shows the column with the container. */
  readonly hasContainers: boolean;
}

/** Draws the table and the open form. */
export function FormsView({ forms, hasContainers }: FormsViewProps): JSX.Element {
  const [open, setOpen] = useParameter("form");
  const shown = forms.find((form) => idOf(form) === open);
  const total = forms.reduce((sum, form) => sum + form.ru, 0);
  return (
    <div class="forms-view">
      <div class="forms-head">
        <span class="soft">
          {plural(forms.length, "form")}, {ru(total)} together
        </span>
        <Button kind="quiet" icon="copy" onClick={() => void copyText(csv(csvRows(forms)))}>
          Copy as CSV
        </Button>
      </div>
      <DataTable
        label="Query forms"
        columns={columnsFor(hasContainers, total)}
        rows={forms}
        rowId={idOf}
        openId={open}
        onOpen={(form) => setOpen(idOf(form) === open ? "" : idOf(form))}
        storeKey={hasContainers ? "forms-all" : "forms"}
        hasPicker
      />
      {shown && <OpenForm form={shown} onClose={() => setOpen("")} />}
    </div>
  );
}

/** Identifies a form in the address by a hash of its text and its container. */
function idOf(form: PlacedForm): string {
  let hash = 5381;
  for (const unit of `${form.database}\n${form.container}\n${form.text}`) {
    hash = (Math.imul(hash, 33) ^ (unit.codePointAt(0) ?? 0)) >>> 0;
  }
  return hash.toString(36);
}

function columnsFor(hasContainers: boolean, total: number): DataColumn<PlacedForm>[] {
  const columns: DataColumn<PlacedForm>[] = [
    {
      id: "text",
      header: "Query",
      value: (form) => form.text,
      cell: (form) => <code title={form.text}>{form.text}</code>,
      width: 250,
      isMono: true,
    },
  ];
  if (hasContainers) {
    columns.push({
      id: "container",
      header: "Container",
      value: (form) => `${form.database}/${form.container}`,
      width: 130,
    });
  }
  columns.push(...figures(total));
  return columns;
}

function figures(total: number): DataColumn<PlacedForm>[] {
  return [
    {
      id: "ru",
      header: "Total RU",
      value: (form) => form.ru,
      cell: (form) => <TotalCell share={total > 0 ? form.ru / total : 0} text={ruNumber(form.ru)} />,
      width: 100,
      isNumber: true,
    },
    number("count", "Pages", (form) => form.count, count, 70),
    number("ruP50", "RU p50", (form) => form.ruP50, ruNumber, 76),
    number("ruP95", "RU p95", (form) => form.ruP95, ruNumber, 76),
    number("msP50", "Time p50", (form) => form.microsecondsP50, (value) => duration(value / 1_000), 84),
    number("msP99", "Time p99", (form) => form.microsecondsP99, (value) => duration(value / 1_000), 84),
    {
      id: "fanOut",
      header: "Fan-out",
      value: fanOut,
      cell: (form) => <FanOut form={form} />,
      width: 150,
    },
    {
      id: "ratio",
      header: "Read per row",
      value: (form) => readRatio(form) ?? 0,
      cell: (form) => ratioText(form),
      width: 110,
      isNumber: true,
    },
    {
      id: "last",
      header: "Last",
      value: (form) => form.last,
      cell: (form) => ago(new Date(form.last * 1_000)),
      width: 120,
    },
  ];
}

function number(
  id: string,
  header: string,
  value: (form: PlacedForm) => number,
  text: (value: number) => string,
  width: number,
): DataColumn<PlacedForm> {
  return { id, header, value, cell: (form) => text(value(form)), width, isNumber: true };
}

function ratioText(form: QueryForm): string {
  const ratio = readRatio(form);
  if (ratio === null) return "–";
  if (ratio === Infinity) return "no rows";
  return ratio.toLocaleString("en", { maximumFractionDigits: ratio < 10 ? 1 : 0 });
}

/** Draws a figure over a bar with its share of all request units. */
function TotalCell({ share, text }: { readonly share: number; readonly text: string }): JSX.Element {
  return (
    <span class="forms-total">
      <span class="forms-total-bar" style={{ width: `${share * 100}%` }} />
      <span>{text}</span>
    </span>
  );
}

const DOTS_MAX = 16;

/** Draws a dot for each physical partition, filled as far as a page asks them. */
function FanOut({ form }: { readonly form: PlacedForm }): JSX.Element {
  const asked = fanOut(form);
  const partitions = Math.max(1, form.partitionCount);
  const dots = Math.min(DOTS_MAX, partitions);
  const filled = (asked / partitions) * dots;
  const figure = asked.toLocaleString("en", { maximumFractionDigits: 1 });
  const label = `${figure} of ${plural(partitions, "partition")} for each page`;
  return (
    <span class="forms-fan" title={label}>
      <span class="forms-dots" aria-hidden="true">
        {[...Array(dots).keys()].map((dot) => (
          <span key={dot} class={dotClass(filled - dot)} />
        ))}
      </span>
      <span class="visually-hidden">{label}</span>
      <span aria-hidden="true">{figure}</span>
      {form.crossPartition && asked > 1 && <Badge kind="warn">cross</Badge>}
    </span>
  );
}

function dotClass(amount: number): string {
  if (amount >= 0.75) return "full";
  return amount >= 0.25 ? "half" : "";
}

function OpenForm({ form, onClose }: { readonly form: PlacedForm; readonly onClose: () => void }): JSX.Element {
  const metrics = indexMetrics(form);
  const advice = adviceFrom(QUERY_RULES, factsOf(form, form.keyPaths, form.partitionCount));
  const address = href(["data", form.database, form.container, "query"], { text: form.text });
  return (
    <section class="forms-open card" aria-labelledby="forms-open">
      <header>
        <h2 id="forms-open">Query form</h2>
        <div class="actions">
          <a class="button primary" href={address}>
            Open in the workbench
          </a>
          <Button icon="copy" onClick={() => void copyText(form.text)}>
            Copy the text
          </Button>
          <Button kind="quiet" icon="close" label="Close the form" onClick={onClose} />
        </div>
      </header>
      <pre class="forms-text">{form.text}</pre>
      <FanOutPicture form={form} />
      <h3>Advice</h3>
      {advice.length === 0 ? (
        <p class="soft">The form uses its index and asks no partition too many.</p>
      ) : (
        <ul class="forms-advice">
          {advice.map((one) => (
            <li key={one.happened}>
              <Badge kind={one.urgency}>{one.rule}</Badge> {adviceText(one)}
            </li>
          ))}
        </ul>
      )}
      <dl class="forms-figures">
        <Figure label="RU of a page" value={`${ruNumber(form.ruP50)} median, ${ruNumber(form.ruP95)} p95`} />
        <Figure
          label="Time in the engine"
          value={`${duration(form.microsecondsP50 / 1_000)} median, ${duration(form.microsecondsP99 / 1_000)} p99`}
        />
        <Figure label="Items loaded" value={`${count(form.retrieved)} for ${plural(form.output, "row")}`} />
        <Figure label="Indexes used" value={metrics.used.length > 0 ? metrics.used.join(", ") : "none known"} />
      </dl>
    </section>
  );
}

function Figure({ label, value }: { readonly label: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Draws the partitions that a page asks, out of all of the container. */
function FanOutPicture({ form }: { readonly form: PlacedForm }): JSX.Element {
  const asked = fanOut(form);
  const partitions = Math.max(1, form.partitionCount);
  const cells = Math.min(64, partitions);
  const share = Math.min(1, asked / partitions);
  const figure = asked.toLocaleString("en", { maximumFractionDigits: 1 });
  const text =
    partitions === 1
      ? "The container has one physical partition; every query asks it."
      : `A page asks ${figure} of ${plural(partitions, "physical partition")} on average.`;
  return (
    <figure class="forms-picture">
      <div class="forms-cells" aria-hidden="true">
        {[...Array(cells).keys()].map((cell) => {
          const filled = Math.max(0, Math.min(1, share * cells - cell));
          return (
            <span key={cell}>
              <span style={{ height: `${filled * 100}%` }} />
            </span>
          );
        })}
      </div>
      <figcaption>{text}</figcaption>
    </figure>
  );
}

function csvRows(forms: readonly PlacedForm[]): (string | number | boolean)[][] {
  const rows: (string | number | boolean)[][] = [
    [
      "database",
      "container",
      "text",
      "count",
      "ru",
      "ruP50",
      "ruP95",
      "microsecondsP50",
      "microsecondsP99",
      "partitions",
      "retrieved",
      "output",
      "crossPartition",
    ],
  ];
  for (const form of forms) {
    rows.push([
      form.database,
      form.container,
      form.text,
      form.count,
      form.ru,
      form.ruP50,
      form.ruP95,
      form.microsecondsP50,
      form.microsecondsP99,
      form.partitions,
      form.retrieved,
      form.output,
      form.crossPartition,
    ]);
  }
  return rows;
}
