import { camel, type CallOptions, type Transport } from "./transport.js";

/** A file at the server. In a write, `{ id }` attaches it to a field. */
export interface StoredFile {
  readonly id: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly contentType: string;
  readonly sha256: string;
}

export interface UploadOptions extends CallOptions {
  /** The name of the file. That of a `File` if left out. */
  name?: string;
  /** Told while bytes are sent. `total` is the file's size. */
  onProgress?: (progress: { readonly loaded: number; readonly total: number }) => void;
}

/** Sends a file. A browser tells the progress by `XMLHttpRequest`, which alone knows it there. */
export async function upload(transport: Transport, file: Blob, options: UploadOptions): Promise<StoredFile> {
  const { onProgress, signal } = options;
  const name = options.name ?? (file as { name?: string }).name;
  const query = name === undefined ? undefined : new URLSearchParams({ name });
  const path = transport.record("_files");
  const sent = { file, ...(query && { query }), ...(signal && { signal }) };
  const send = onProgress && !transport.options.fetch && "XMLHttpRequest" in globalThis ? told(onProgress) : undefined;
  if (send) return camel(await transport.json("POST", path, { ...sent, send })) as StoredFile;
  onProgress?.({ loaded: 0, total: file.size });
  const stored = camel(await transport.json("POST", path, sent)) as StoredFile;
  onProgress?.({ loaded: file.size, total: file.size });
  return stored;
}

/** A `fetch` that tells how much is sent. */
function told(onProgress: NonNullable<UploadOptions["onProgress"]>): typeof fetch {
  return (url, init = {}) =>
    new Promise((done, fail) => {
      const request = new XMLHttpRequest();
      request.open(init.method ?? "POST", String(url));
      request.withCredentials = init.credentials === "include";
      new Headers(init.headers).forEach((value, name) => request.setRequestHeader(name, value));
      request.upload.onprogress = ({ loaded, total }) => onProgress({ loaded, total });
      request.onload = () => {
        const headers = new Headers();
        for (const name of ["content-type", "retry-after", "x-request-id"]) {
          headers.set(name, request.getResponseHeader(name) ?? "");
        }
        done(new Response(request.responseText, { status: request.status, headers }));
      };
      request.onerror = () => fail(new TypeError("the upload broke off"));
      request.onabort = () => fail(init.signal?.reason);
      init.signal?.throwIfAborted();
      init.signal?.addEventListener("abort", () => request.abort());
      request.send(init.body as Blob);
    });
}
