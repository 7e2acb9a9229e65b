/** The dialog for upload or download that the address names; none for another word. */

import type { JSX } from "preact";
import type { Container } from "../../../api/data.ts";
import { useReadOnly } from "../requests.ts";
import { DownloadDialog } from "./download-dialog.tsx";
import { UploadDialog } from "./upload-dialog.tsx";

export interface TransferProps {
  readonly database: string;
  readonly definition: Container;
  readonly filter: string;
  readonly onClose: () => void;
  readonly onUploaded: () => void;
}

/** Draws the dialog. */
export function TransferDialog(props: TransferProps & { readonly kind: string | null }): JSX.Element | null {
  const readOnly = useReadOnly();
  if (props.kind === "download") return <DownloadDialog {...props} />;
  if (props.kind === "upload" && !readOnly) return <UploadDialog {...props} />;
  return null;
}
