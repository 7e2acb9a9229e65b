/** Everything that the log knows of one request. */

import type { ComponentChildren, JSX } from "preact";
import { href } from "../../router.ts";
import { Button, CopyButton } from "../../ui/button.tsx";
import { copyText } from "../../ui/clipboard.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { count, duration, moment, percent, plural, ru, ruNumber } from "../../ui/format.ts";
import { ChargeBar, kindClass } from "./charge-bar.tsx";
import { costs, type RecordedRequest } from "./log.ts";
import { reasonText, statusText } from "./words.ts";

/** Draws the request at the side of the page. */
export function Details(props: { readonly request: RecordedRequest; readonly onClose: () => void }): JSX.Element {
  const { request } = props;
  return (
    <Dialog title={`${request.operation} ${statusText(request)}`} place="side" onClose={props.onClose}>
      <div class="reqs-details">
        <p class="soft">{reasonText(request)}</p>
        <Charge request={request} />
        <dl>
          <Line label="Time">{moment(new Date(request.time))}</Line>
          <Line label="Duration">{duration(request.ms)}</Line>
          <Line label="Status">{statusText(request)}</Line>
          <Line label="Resource">
            <Resource request={request} />
          </Line>
          <Line label="Partitions">
            {request.partitionCount === 0
              ? "none"
              : `${plural(request.partitionCount, "partition")}: ${request.partitions.join(", ")}`}
          </Line>
          <Line label="Path">
            <code>
              {request.method} {request.path}
            </code>
          </Line>
          <Line label="Activity id">
            <code>{request.activityId}</code>
            <CopyButton text={request.activityId} label="Copy the activity id" />
          </Line>
          <Line label="Client">
            {request.client}
            {request.fromConsole ? ", this console" : ""}
          </Line>
          {request.userAgent && <Line label="User agent">{request.userAgent}</Line>}
        </dl>
        {request.query && <Query request={request} query={request.query} />}
        <div class="actions">
          <Button icon="copy" onClick={() => void copyText(JSON.stringify(request, null, 2))}>
            Copy as JSON
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

function Line({ label, children }: { readonly label: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Resource({ request }: { readonly request: RecordedRequest }): JSX.Element {
  const { db, coll, id } = request;
  if (db === undefined) return <>the account</>;
  const segments = coll === undefined ? ["data", db] : ["data", db, coll, "items"];
  return (
    <>
      <a href={href(segments)}>{coll === undefined ? db : `${db} / ${coll}`}</a>
      {id === undefined ? "" : ` / ${id}`}
    </>
  );
}

function Charge({ request }: { readonly request: RecordedRequest }): JSX.Element {
  const parts = costs(request.parts);
  return (
    <section class="reqs-charge" aria-label="Parts of the charge">
      <strong>{ru(request.ru)}</strong>
      <ChargeBar parts={request.parts} full={request.ru} />
      <table>
        <tbody>
          {parts.map((part) => (
            <tr key={part.what}>
              <th scope="row">
                <span class={`reqs-swatch ${kindClass(part.what)}`} aria-hidden="true" />
                {part.what}
              </th>
              <td class="number soft">{count(part.count)}</td>
              <td class="number">{ruNumber(part.ru)} RU</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Query(props: {
  readonly request: RecordedRequest;
  readonly query: NonNullable<RecordedRequest["query"]>;
}): JSX.Element {
  const { request, query } = props;
  const { db, coll } = request;
  const address =
    db === undefined || coll === undefined || query.form === undefined
      ? null
      : href(["data", db, coll, "query"], { text: query.form });
  return (
    <section class="reqs-query">
      <h3>Query</h3>
      {query.form !== undefined && <pre>{query.form}</pre>}
      <p class="soft">
        {plural(query.retrieved, "item")} loaded for {plural(query.output, "row")}, index hit ratio{" "}
        {percent(query.indexHitRatio)}.
      </p>
      {address && (
        <a class="button" href={address}>
          Open in the workbench
        </a>
      )}
    </section>
  );
}
