/** Facts about an item below its editor: partition key, size, time to live, system properties. */

import type { JSX } from "preact";
import { session } from "../../../api/client.ts";
import { useStore } from "../../../store.ts";
import { ago, bytes, moment, ru } from "../../../ui/format.ts";
import { pageInBlog, type PageInBlog } from "../logic/blog-link.ts";
import { membersOf } from "../logic/json-text.ts";
import { shownComponent, type KeyDefinition } from "../logic/partition-key.ts";
import type { StoredItem } from "./item-pane.tsx";

export interface ItemFactsProps {
  readonly database: string;
  readonly container: string;
  readonly stored: StoredItem;
  readonly defaultTtl: number | undefined;
  readonly definition: KeyDefinition;
}

/** Draws the facts; the system properties are folded. */
export function ItemFacts({ database, container, stored, defaultTtl, definition }: ItemFactsProps): JSX.Element {
  const blog = useStore(session)?.blog;
  const page = blog === undefined ? null : pageInBlog(blog, database, container, stored.text);
  const changed = Number(stored.system.find(({ name }) => name === "_ts")?.text ?? 0);
  return (
    <div class="data-facts">
      <p class="soft">
        {definition.paths.map((path, level) => (
          <span key={path}>
            <span class="mono">
              {path} = {shownComponent(stored.place.keys[level])}
            </span>
            {" · "}
          </span>
        ))}
        {bytes(stored.bytes)} · {ru(stored.charge)} ·{" "}
        <time title={moment(new Date(changed * 1_000))}>written {ago(new Date(changed * 1_000))}</time>
        {" · "}
        {ttlText(stored, defaultTtl, changed)}
        {page !== null && <BlogLink page={page} />}
      </p>
      <details>
        <summary>System properties</summary>
        <dl class="data-system">
          {stored.system.map(({ name, text }) => (
            <div key={name}>
              <dt class="mono">{name}</dt>
              <dd class="mono">{text}</dd>
            </div>
          ))}
        </dl>
      </details>
    </div>
  );
}

function BlogLink({ page }: { readonly page: PageInBlog }): JSX.Element {
  return (
    <>
      {" · "}
      <a href={page.address}>{page.kind} in the blog</a>
    </>
  );
}

/** Returns when the item expires. A ttl of the item counts only if the container has TTL on. */
function ttlText(stored: StoredItem, defaultTtl: number | undefined, changed: number): string {
  const own = membersOf(stored.text).find(({ name }) => name === "ttl")?.text;
  const ownTtl = own === undefined ? undefined : Number(own);
  if (defaultTtl === undefined) {
    return ownTtl === undefined ? "never expires" : "ttl without effect: off in the container";
  }
  const ttl = ownTtl !== undefined && Number.isFinite(ownTtl) ? ownTtl : defaultTtl;
  if (ttl < 0) return "never expires";
  const at = new Date((changed + ttl) * 1_000);
  return `expires ${ago(at)}${ownTtl === undefined ? " by the default of the container" : ""}`;
}
