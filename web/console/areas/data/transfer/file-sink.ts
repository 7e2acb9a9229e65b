/** A file that is written piece by piece.
 *
 * Where the browser has the File System Access API, pieces go to the disk at once. Elsewhere they
 * are collected, and the browser saves them at the end.
 * Leaves out: what is written. */

/** Takes the pieces of a file. */
export interface FileSink {
  write(text: string): Promise<void>;
  /** Completes the file. */
  close(): Promise<void>;
  /** Gives the file up. */
  discard(): Promise<void>;
}

interface Picker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;
}

/** Opens a file; returns null if a person closed the choice of a file. */
export async function openSink(name: string, type: string): Promise<FileSink | null> {
  const { showSaveFilePicker } = window as Picker;
  if (showSaveFilePicker === undefined) return new BlobSink(name, type);
  try {
    const handle = await showSaveFilePicker.call(window, { suggestedName: name });
    return new StreamSink(await handle.createWritable());
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return null;
    // The browser has the function and refuses it here, for example in a frame.
    return new BlobSink(name, type);
  }
}

class StreamSink implements FileSink {
  constructor(private readonly stream: FileSystemWritableFileStream) {}

  async write(text: string): Promise<void> {
    await this.stream.write(text);
  }

  async close(): Promise<void> {
    await this.stream.close();
  }

  async discard(): Promise<void> {
    await this.stream.abort();
  }
}

class BlobSink implements FileSink {
  private parts: Blob[] = [];

  constructor(
    private readonly name: string,
    private readonly type: string,
  ) {}

  async write(text: string): Promise<void> {
    // A blob may live outside of the memory of the page, text may not.
    this.parts.push(new Blob([text]));
  }

  async close(): Promise<void> {
    const address = URL.createObjectURL(new Blob(this.parts, { type: this.type }));
    const link = document.createElement("a");
    link.href = address;
    link.download = this.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    this.parts = [];
  }

  async discard(): Promise<void> {
    this.parts = [];
  }
}
