/** The connect page: endpoint, key, environment, certificate, and a short program for each SDK. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { session } from "../../api/client.ts";
import { useParameter } from "../../router.ts";
import { useStore } from "../../store.ts";
import { Button, CopyButton } from "../../ui/button.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { installation, LANGUAGES, snippet, WELL_KNOWN_KEY, withScheme, type Language } from "./snippets.ts";

/** Draws the page. */
export default function ConnectPage(): JSX.Element {
  const current = useStore(session);
  const endpoint = current?.endpoint ?? "";
  return (
    <>
      <div class="page-head">
        <h1>Connect</h1>
      </div>
      <div class="connect">
        <dl class="connect-facts">
          <Fact name="Endpoint">
            <Value text={withScheme(endpoint, "http")} label="Copy the endpoint" />
            <p class="help">The same port accepts HTTP and HTTPS, HTTP/1.1 and HTTP/2.</p>
          </Fact>
          <Fact name="Account">
            <Value text={current?.account ?? ""} label="Copy the name of the account" />
          </Fact>
          <Fact name="Key">
            <Key />
          </Fact>
          <Fact name="Environment">
            <Environment endpoint={endpoint} />
          </Fact>
          <Fact name="Certificate">
            <p>
              HTTPS has a certificate of the server's own, unless <code>--tls-cert</code> names another one. It is the
              file <code>tls/cert.pem</code> of the data directory: give this file to programs that check
              certificates, or use HTTP on this machine.
            </p>
          </Fact>
        </dl>
        <Programs endpoint={endpoint} />
      </div>
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Value({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  return (
    <span class="connect-value">
      <code>{text}</code>
      <CopyButton text={text} label={label} />
    </span>
  );
}

/** The server gives its key to no one; the page says where the key is, and shows the public one. */
function Key(): JSX.Element {
  const [isShown, setShown] = useState(false);
  return (
    <>
      <p>
        With <code>--key-file FILE</code>, the key is the first line of that file; the server gives it to no one. Without
        the option, the account has the public key of the service's emulator.
      </p>
      {isShown ? (
        <Value text={WELL_KNOWN_KEY} label="Copy the emulator's key" />
      ) : (
        <Button icon="key" onClick={() => setShown(true)}>
          Show the emulator's key
        </Button>
      )}
    </>
  );
}

function Environment({ endpoint }: { readonly endpoint: string }): JSX.Element {
  const text = `export COSMOS_ENDPOINT='${withScheme(endpoint, "http")}'\nexport COSMOS_KEY='…'\n`;
  return <Code text={text} label="Copy the lines" />;
}

function Code({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  return (
    <div class="connect-code">
      <pre tabIndex={0}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} label={label} />
    </div>
  );
}

function isLanguage(text: string): text is Language {
  return LANGUAGES.some(([id]) => id === text);
}

function Programs({ endpoint }: { readonly endpoint: string }): JSX.Element {
  const [chosen, choose] = useParameter("language", "python");
  const language = isLanguage(chosen) ? chosen : "python";
  return (
    <section class="stack" aria-labelledby="connect-programs">
      <h2 id="connect-programs">A first program</h2>
      <Tabs label="Language" tabs={LANGUAGES} current={language} onChange={choose}>
        <p class="soft">
          Needs <code>{installation(language)}</code>, and the key in the variable <code>COSMOS_KEY</code>.
        </p>
        <Code text={snippet(language, endpoint)} label="Copy the program" />
      </Tabs>
    </section>
  );
}
