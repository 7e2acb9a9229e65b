/** Scale and settings of a container, in sections that the address names.
 *
 * Leaves out: the sections themselves (the other files of this folder). */

import type { JSX } from "preact";
import type { ContainerProps } from "../../../areas.ts";
import type { Container } from "../../../api/data.ts";
import { href, navigate, useParameter } from "../../../router.ts";
import { Button } from "../../../ui/button.tsx";
import { ErrorView } from "../../../ui/error-view.tsx";
import { bytes, plural } from "../../../ui/format.ts";
import { usePoll, useResource } from "../../../ui/resource.ts";
import { Skeleton } from "../../../ui/states.tsx";
import { Tabs } from "../../../ui/tabs.tsx";
import { offerOf, readContainer, useReadOnly, type ContainerState } from "../requests.ts";
import { BucketPanel } from "./bucket-panel.tsx";
import { ComputedSection } from "./computed-section.tsx";
import { GeneralSection } from "./general-section.tsx";
import { KeysSection } from "./keys-section.tsx";
import { PolicySection } from "./policy-section.tsx";
import { SearchSection } from "./search-section.tsx";
import { ThroughputPanel } from "./throughput-panel.tsx";

type Section = "scale" | "general" | "indexing" | "keys" | "computed" | "search" | "buckets";

const SECTIONS: readonly (readonly [Section, string])[] = [
  ["scale", "Scale"],
  ["general", "Settings"],
  ["indexing", "Indexing policy"],
  ["keys", "Keys"],
  ["computed", "Computed properties"],
  ["search", "Vectors and full text"],
  ["buckets", "Throughput buckets"],
];

/** Pause between two looks at the progress of the index. */
const POLL_MS = 1_000;

/** What a section gets. */
export interface SectionProps {
  readonly database: string;
  readonly definition: Container;
  readonly readOnly: boolean;
  /** Reads the container again after a change. */
  readonly onChanged: () => void;
}

/** Draws the tab. */
export default function SettingsTab({ database, container }: ContainerProps): JSX.Element {
  const state = useResource((signal) => readContainer(database, container, signal), [database, container]);
  const [section, setSection] = useParameter("section", "scale");
  const readOnly = useReadOnly();
  usePoll(state, POLL_MS, section === "indexing" && (state.value?.indexProgress ?? 100) < 100);
  if (!state.value && state.error) {
    return <ErrorView error={state.error} title="The container could not be read." onRetry={state.reload} />;
  }
  if (!state.value) return <Skeleton lines={8} />;
  const remove = (): void => navigate(href(["data", database], { delete: "container", name: container }));
  return (
    <div class="data-settings">
      <p class="data-summary">
        <span>
          {plural(state.value.items ?? 0, "item")} · {bytes(state.value.bytes ?? 0)}
        </span>
        {!readOnly && (
          <Button kind="quiet" icon="trash" onClick={remove}>
            Delete container
          </Button>
        )}
      </p>
      <Tabs label="Settings" tabs={SECTIONS} current={section as Section} onChange={setSection}>
        <SectionView section={section} database={database} state={state.value} readOnly={readOnly} onChanged={state.reload} />
      </Tabs>
    </div>
  );
}

interface SectionViewProps {
  readonly section: string;
  readonly database: string;
  readonly state: ContainerState;
  readonly readOnly: boolean;
  readonly onChanged: () => void;
}

function SectionView({ section, database, state, readOnly, onChanged }: SectionViewProps): JSX.Element {
  const { definition } = state;
  const props: SectionProps = { database, definition, readOnly, onChanged };
  switch (section) {
    case "general":
      return <GeneralSection {...props} />;
    case "indexing":
      return <PolicySection {...props} progress={state.indexProgress} />;
    case "keys":
      return <KeysSection {...props} />;
    case "computed":
      return <ComputedSection {...props} />;
    case "search":
      return <SearchSection {...props} />;
    case "buckets":
      return <BucketPanel database={database} container={definition.id} />;
    default:
      return <ScaleSection {...props} />;
  }
}

function ScaleSection({ database, definition }: SectionProps): JSX.Element {
  const offer = useResource((signal) => offerOf(definition._rid, signal), [definition._rid]);
  if (offer.error) {
    return <ErrorView error={offer.error} title="The throughput could not be read." onRetry={offer.reload} />;
  }
  if (offer.value === undefined) return <Skeleton lines={4} />;
  if (offer.value === null) {
    return (
      <p>
        The container has no throughput of its own and shares that of the database.{" "}
        <a href={href(["data", database], { view: "throughput" })}>Open the throughput of the database</a>
      </p>
    );
  }
  return <ThroughputPanel offerId={offer.value.id} />;
}
