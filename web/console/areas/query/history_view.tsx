/** The queries that ran and the queries that a person saved. */

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Button } from "../../ui/button.tsx";
import { saveFile } from "../../ui/clipboard.ts";
import { TextField } from "../../ui/field.tsx";
import { ago, duration, moment, plural, ru } from "../../ui/format.ts";
import { Badge, Empty } from "../../ui/states.tsx";
import { toast } from "../../ui/toast.tsx";
import {
  clearHistory,
  readHistory,
  readSaved,
  save,
  savedFile,
  savedOfFile,
  type SavedQuery,
  unsave,
} from "./history.ts";

export interface HistoryProps {
  readonly database: string;
  readonly container: string;
  /** Opens a query in a tab. */
  readonly onOpen: (query: SavedQuery) => void;
}

/** Draws both lists with one search. */
export function HistoryView(props: HistoryProps): JSX.Element {
  const [text, setText] = useState("");
  const [, setRound] = useState(0);
  const redraw = (): void => setRound((round) => round + 1);
  const holds = (value: string): boolean => value.toLowerCase().includes(text.toLowerCase());
  const { database, container } = props;
  const history = readHistory(database, container).filter((entry) => holds(entry.text));
  const saved = readSaved(database, container).filter((entry) => holds(entry.name) || holds(entry.text));
  return (
    <div class="query-history">
      <TextField label="Search history and saved queries" type="search" value={text} onInput={setText} />
      <section class="card">
        <h3>Saved queries</h3>
        <SavedFiles {...props} onChange={redraw} />
        {saved.length === 0 && <p class="soft">No saved query. Save keeps the current one under a name.</p>}
        <ul>
          {saved.map((query) => (
            <li key={query.name} class="query-entry">
              <button type="button" class="query-open" onClick={() => props.onOpen(query)}>
                <strong>{query.name}</strong>
                <code>{query.text.slice(0, 300)}</code>
              </button>
              <Button
                kind="quiet"
                icon="trash"
                label={`Delete the saved query ${query.name}`}
                onClick={() => {
                  unsave(database, container, query.name);
                  redraw();
                }}
              />
            </li>
          ))}
        </ul>
      </section>
      <section class="card">
        <div class="row">
          <h3>History</h3>
          {history.length > 0 && (
            <Button
              kind="quiet"
              onClick={() => {
                clearHistory(database, container);
                redraw();
              }}
            >
              Clear the history
            </Button>
          )}
        </div>
        {history.length === 0 && (
          <Empty title="No query ran here." icon="play">
            Each query that runs on this container is listed with its charge.
          </Empty>
        )}
        <ul>
          {history.map((entry) => (
            <li key={entry.text} class="query-entry">
              <button type="button" class="query-open" onClick={() => props.onOpen({ ...entry, name: "" })}>
                <code>{entry.text.slice(0, 300)}</code>
                <span class="soft">
                  {entry.failed ? <Badge kind="bad">failed</Badge> : null} {ru(entry.ru)} ·{" "}
                  {duration(entry.ms)} · {plural(entry.rows, "row")} ·{" "}
                  <time title={moment(new Date(entry.at))}>{ago(new Date(entry.at))}</time>
                </span>
              </button>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

function SavedFiles(props: HistoryProps & { readonly onChange: () => void }): JSX.Element {
  const { database, container } = props;
  const input = useRef<HTMLInputElement>(null);
  const read = async (file: File | undefined): Promise<void> => {
    const found = file ? savedOfFile(await file.text()) : null;
    if (!found) {
      toast("The file holds no saved queries. Choose one that this page wrote.", "bad");
    } else if (!save(database, container, found)) {
      toast("The browser refused to store the queries. Free some of its storage.", "bad");
    } else {
      toast(`${plural(found.length, "query", "queries")} read.`);
    }
    props.onChange();
  };
  return (
    <div class="actions">
      <Button
        icon="download"
        onClick={() => saveFile("queries.json", savedFile(readSaved(database, container)))}
      >
        Download saved queries
      </Button>
      <Button icon="upload" onClick={() => input.current?.click()}>
        Read a file
      </Button>
      <input
        ref={input}
        type="file"
        accept=".json,application/json"
        hidden
        aria-label="File of saved queries"
        onChange={(event) => {
          void read(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
}
