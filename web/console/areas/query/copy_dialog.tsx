/** Shows the query as a program in several languages. */

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../../ui/button.tsx";
import { copyText, saveFile } from "../../ui/clipboard.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { Editor } from "../../ui/editor.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { COPY_LANGUAGES, type QueryToCopy } from "./copy/index.ts";

export interface CopyDialogProps {
  readonly copy: QueryToCopy;
  readonly onClose: () => void;
}

/** Draws the program of the chosen language. */
export function CopyDialog({ copy, onClose }: CopyDialogProps): JSX.Element {
  const [name, setName] = useState("Python");
  const language = COPY_LANGUAGES.find((known) => known.name === name) ?? COPY_LANGUAGES[0];
  const program = language?.write(copy) ?? "";
  return (
    <Dialog title="Copy as" wide place="side" onClose={onClose}>
      <div class="query-copy" data-program={program}>
        <Tabs
          label="Language"
          tabs={COPY_LANGUAGES.map((known) => [known.name, known.name] as const)}
          current={name}
          onChange={setName}
        >
          <div class="actions">
            <Button kind="primary" icon="copy" onClick={() => void copyText(program)}>
              Copy
            </Button>
            <Button
              icon="download"
              onClick={() => saveFile(language?.file ?? "query.txt", program, "text/plain")}
            >
              Download {language?.file}
            </Button>
          </div>
          <p class="soft">
            The program reads the account's key from the environment variable <code>ORRERY_KEY</code>.
          </p>
          <Editor key={name} label={`${name} program`} value={program} language="text" readOnly size="fill" />
        </Tabs>
      </div>
    </Dialog>
  );
}
