/** A text editor for JSON and code. The editor's library is loaded when the first editor is shown.
 *
 * `extensions` adds what a page needs, such as completion; pages import CodeMirror's packages only in
 * modules that are loaded lazily themselves. */

import type { Extension } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { ErrorView } from "./error-view.tsx";
import { useResource } from "./resource.ts";
import { Skeleton } from "./states.tsx";

export interface EditorProps {
  /** The name for screen readers. */
  readonly label: string;
  readonly value: string;
  readonly onChange?: ((value: string) => void) | undefined;
  /** `json` brings colours, folding and errors while typing. */
  readonly language?: "json" | "text" | undefined;
  readonly readOnly?: boolean | undefined;
  /** Must stay the same object while nothing changes. */
  readonly extensions?: readonly Extension[] | undefined;
  /** `small` shows some lines, `fill` takes the height of its container. */
  readonly size?: "small" | "medium" | "fill" | "content" | undefined;
  /** Called once with the editor, to focus a place or to read the selection. */
  readonly onReady?: ((view: EditorView) => void) | undefined;
}

/** Values that may be on their way back to the editor. */
const TYPED_MAX = 100;

/** Draws an editor. */
export function Editor(props: EditorProps): JSX.Element {
  const library = useResource(async () => import("./code-mirror.ts"), []);
  if (library.value) return <Loaded {...props} library={library.value} />;
  if (library.error) return <ErrorView error={library.error} title="The editor could not be loaded." onRetry={library.reload} />;
  return (
    <div class={`editor ${props.size ?? "medium"}`}>
      <Skeleton lines={4} />
    </div>
  );
}

type Library = typeof import("./code-mirror.ts");

function Loaded({ library, ...props }: EditorProps & { readonly library: Library }): JSX.Element {
  const parent = useRef<HTMLDivElement>(null);
  const handle = useRef<ReturnType<Library["createEditor"]> | null>(null);
  const newest = useRef(props);
  newest.current = props;
  // What was typed and has not come back as `value` yet. Such a value may be older than the text.
  const typed = useRef<string[]>([]);
  useEffect(() => {
    if (!parent.current) return undefined;
    const editor = library.createEditor(parent.current, {
      label: props.label,
      value: props.value,
      language: props.language ?? "text",
      onChange: (value) => {
        typed.current = [...typed.current.slice(-TYPED_MAX), value];
        newest.current.onChange?.(value);
      },
    });
    handle.current = editor;
    newest.current.onReady?.(editor.view);
    return () => editor.destroy();
  }, [library, props.language, props.label]);
  useEffect(() => {
    const at = typed.current.lastIndexOf(props.value);
    typed.current = at < 0 ? [] : typed.current.slice(at + 1);
    if (at < 0) handle.current?.setValue(props.value);
  }, [props.value]);
  useEffect(
    () => handle.current?.configure(props.readOnly ?? false, props.extensions ?? []),
    [props.readOnly, props.extensions, props.language, props.label],
  );
  return <div class={`editor ${props.size ?? "medium"}`} ref={parent} />;
}
