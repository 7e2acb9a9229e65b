/** The page for the address: a page of an area, or a container with its tabs. */

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { pageFor, TABS } from "../areas.ts";
import { href, useAddress } from "../router.ts";
import { Lazy } from "../ui/lazy.tsx";
import { Empty } from "../ui/states.tsx";
import { TabLinks } from "../ui/tabs.tsx";

/** Draws the page and sets the title of the window. */
export function CurrentPage(): JSX.Element {
  const { segments } = useAddress();
  const [first, database, container] = segments;
  if (first === "data" && database !== undefined && container !== undefined) {
    return <ContainerPage database={database} container={container} tab={segments[3] ?? "items"} />;
  }
  const found = pageFor(segments);
  if (!found) return <NotFound />;
  return <OnePage key={found.page.path} found={found} />;
}

function OnePage({ found }: { readonly found: NonNullable<ReturnType<typeof pageFor>> }): JSX.Element {
  useTitle([...Object.values(found.parts), found.page.title]);
  return <Lazy load={found.page.load} props={{ parts: found.parts }} />;
}

function useTitle(parts: readonly string[]): void {
  const title = [...parts, "Orrery"].join(" · ");
  useEffect(() => {
    document.title = title;
  }, [title]);
}

interface ContainerPageProps {
  readonly database: string;
  readonly container: string;
  readonly tab: string;
}

function ContainerPage({ database, container, tab }: ContainerPageProps): JSX.Element {
  const shown = TABS.find(({ id }) => id === tab);
  useTitle([shown?.label ?? "Container", `${database} / ${container}`]);
  const tabs = TABS.map(({ id, label }) => ({ id, label, href: href(["data", database, container, id]) }));
  return (
    <>
      <div class="page-head container-head">
        <h1>
          <a href={href(["data", database])}>{database}</a>
          <span class="soft"> / </span>
          {container}
        </h1>
        <TabLinks label="Container" tabs={tabs} current={tab} />
      </div>
      {shown ? (
        <Lazy key={`${tab}/${database}/${container}`} load={shown.load} props={{ database, container }} />
      ) : (
        <NotFound />
      )}
    </>
  );
}

function NotFound(): JSX.Element {
  useTitle(["No such page"]);
  return (
    <Empty title="No page has this address." icon="search" actions={<a class="button" href="#/">Open the overview</a>}>
      The address may be cut off, or from another version of the console.
    </Empty>
  );
}
