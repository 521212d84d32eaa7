import { GatewrightError } from "./failure.js";
import { backoff, isPassing, sleep, type CallOptions, type Transport } from "./transport.js";

/** How far an upload is, in bytes. */
export interface Progress {
  readonly loaded: number;
  readonly total: number;
}

/** What {@link Client.upload} takes. */
export interface UploadOptions extends CallOptions {
  /** The name of the file. That of a `File` if left out. */
  name?: string;
  /** For a field with `keep_metadata`. */
  keepMetadata?: boolean;
  /** Is called at the beginning, and whenever the server has stored more. */
  onProgress?: (progress: Progress) => void;
}

/** A file that a write can attach to a record. */
export interface Uploaded {
  readonly id: string;
}

/** The bytes of one request: what may have to be sent again. */
const PIECE = 4 << 20;

/** Sends a file in pieces (tus 1.0), and each again from where the server has it if the connection breaks. */
export async function upload(transport: Transport, file: Blob, options: UploadOptions): Promise<Uploaded> {
  const { signal, onProgress, keepMetadata, name = (file as Partial<File>).name ?? "file" } = options;
  const total = file.size;
  const { retries = 2 } = transport.options;
  const request = (method: string, path: string, headers: Record<string, string>, bytes?: Blob) =>
    transport.send(method, path, {
      headers: { "Tus-Resumable": "1.0.0", ...headers },
      bytes,
      signal,
    });
  const metadata = `filename ${base64(name)}${keepMetadata ? `,keepMetadata ${base64("1")}` : ""}`;
  const begun = await request("POST", transport.record("_files", "tus"), {
    "Upload-Length": `${total}`,
    "Upload-Metadata": metadata,
  });
  const id = begun.headers.get("location")?.split("/").pop() ?? "";
  const path = transport.record("_files", "tus", id);
  try {
    let loaded = 0;
    onProgress?.({ loaded, total });
    for (let failures = 0, isLost = false; loaded < total; ) {
      const bytes = file.slice(loaded, loaded + PIECE);
      try {
        // After a failure the server says where it is.
        const answer = isLost
          ? await request("HEAD", path, {})
          : await request("PATCH", path, { "Upload-Offset": `${loaded}` }, bytes);
        const at = Number(answer.headers.get("upload-offset") ?? NaN);
        if (!(isLost ? at >= 0 : at > loaded)) throw new TypeError("no Upload-Offset");
        if (at > loaded) failures = 0;
        isLost = false;
        loaded = at;
      } catch (error) {
        signal?.throwIfAborted();
        if (!isRepeatable(error) || failures >= retries) throw error;
        isLost = true;
        await sleep(backoff(failures++), signal);
        continue;
      }
      onProgress?.({ loaded, total });
    }
    return { id };
  } catch (error) {
    // What is stored of it is not kept. If this fails, it expires.
    transport.send("DELETE", path, { headers: { "Tus-Resumable": "1.0.0" } }).catch(() => {});
    throw error;
  }
}

/** Whether the bytes may be sent again: nothing came back, or an earlier request still stores some. */
function isRepeatable(error: unknown): boolean {
  if (!(error instanceof GatewrightError)) return false;
  const { failure } = error;
  return isPassing(failure) || (failure.kind !== "network" && ["upload_in_progress", "upload_offset"].includes(failure.code));
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
