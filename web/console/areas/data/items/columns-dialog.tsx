/** The choice of columns of the items tab: properties of a sample of items, with a search.
 *
 * Columns of the partition key are always shown and marked. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "../../../api/data.ts";
import { queryPage } from "../../../api/query.ts";
import { createKeptStore } from "../../../store.ts";
import { Button } from "../../../ui/button.tsx";
import { Dialog } from "../../../ui/dialog.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { CheckField, TextField } from "../../../ui/field.tsx";
import { useResource } from "../../../ui/resource.ts";
import { Badge, Empty, Skeleton } from "../../../ui/states.tsx";
import { samplePaths } from "../logic/indexing.ts";

type Choices = Readonly<Record<string, readonly string[]>>;

function areChoices(value: unknown): value is Choices {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Paths of picked columns such as `/address/city`, by container. */
export const pickedColumns = createKeptStore<Choices>("items.columns", {}, areChoices);

export interface ColumnsDialogProps {
  readonly database: string;
  readonly container: string;
  readonly place: string;
  readonly keyPaths: readonly string[];
  readonly picked: readonly string[];
  readonly onClose: () => void;
}

const SAMPLE = 50;
const SAMPLE_BYTES = 512 * 1_024;

/** Reads paths of properties from a sample. Large items are left out, so that the list opens fast. */
export async function pathsOfSample(
  database: string,
  container: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const page = await queryPage(database, container, `SELECT TOP ${SAMPLE} * FROM c`, [], {
    maxItemCount: SAMPLE,
    signal,
  });
  let left = SAMPLE_BYTES;
  const sample: Json[] = [];
  for (const row of page.rows) {
    left -= JSON.stringify(row).length;
    sample.push(row);
    if (left < 0) break;
  }
  return samplePaths(sample);
}

/** Draws the dialog. */
export function ColumnsDialog(props: ColumnsDialogProps): JSX.Element {
  const { database, container, place, keyPaths, picked } = props;
  const [text, setText] = useState("");
  const found = useResource((signal) => pathsOfSample(database, container, signal), [database, container]);
  const paths = columnPaths(found.value ?? [], picked);
  const shown = paths.filter((path) => path.toLowerCase().includes(text.toLowerCase()));
  const set = (path: string, isPicked: boolean): void => {
    const next = isPicked ? [...picked, path] : picked.filter((other) => other !== path);
    pickedColumns.update((all) => ({ ...all, [place]: next }));
  };
  return (
    <Dialog title="Columns" onClose={props.onClose}>
      <TextField label="Search properties" type="search" value={text} onInput={setText} autofocus />
      {found.error && <ErrorView error={found.error} onRetry={found.reload} />}
      {!found.value && !found.error && <Skeleton lines={5} />}
      {found.value && shown.length === 0 && <Empty title="No property matches." icon="search" />}
      <div class="data-columns">
        {shown.map((path) => (
          <CheckField
            key={path}
            label={
              <>
                <span class="mono">{path}</span> {keyPaths.includes(path) && <Badge>partition key</Badge>}
              </>
            }
            checked={keyPaths.includes(path) || picked.includes(path)}
            disabled={keyPaths.includes(path)}
            onChange={(isPicked) => set(path, isPicked)}
          />
        ))}
      </div>
      <footer class="actions">
        <Button onClick={() => pickedColumns.update((all) => ({ ...all, [place]: [] }))}>Show none</Button>
        <Button kind="primary" onClick={props.onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

/** Returns the paths that can be columns: no elements of arrays, but the arrays themselves. */
function columnPaths(sample: readonly string[], picked: readonly string[]): string[] {
  const paths = new Set<string>(picked);
  for (const path of sample) {
    const array = path.indexOf("/[]");
    const own = array < 0 ? path.replace(/\/\?$/, "") : path.slice(0, array);
    if (!["/id", "/_ts", "/_self", "/_rid", "/_attachments"].includes(own)) paths.add(own);
  }
  return [...paths].sort();
}
