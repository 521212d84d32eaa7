/**
 * A client for a Gatewright server.
 *
 * ```ts
 * import { createClient } from "@gatewright/client";
 * import type { Schema } from "./schema.js"; // gatewright types --lang ts > schema.ts
 *
 * const gatewright = createClient<Schema>({ url: "https://api.example.com", prefix: "/api" });
 * await gatewright.auth.signIn({ email, password });
 * for await (const task of gatewright.records("tasks").list({ where: { done: false } })) console.log(task.title);
 * ```
 */

import { Auth } from "./auth.js";
import { parameters } from "./query.js";
import { Records } from "./records.js";
import { Transport, type CallOptions, type Options } from "./transport.js";
import type { AnySchema, SchemaOf } from "./types.js";
import { upload, type Uploaded, type UploadOptions } from "./upload.js";

export type { Account, Auth, Credentials, Enrollment, Me, Registration, SignIn } from "./auth.js";
export { GatewrightError, type Failure, type FieldError } from "./failure.js";
export { filter, type FilterValue } from "./query.js";
export type { ChangeOptions, List, Records, Target } from "./records.js";
export type { StreamEvent, StreamOptions } from "./stream.js";
export type { CallOptions, Options } from "./transport.js";
export type { AnySchema, EntityTypes, Highlights, Page, Query, SchemaOf, Snapshot, Stored, View, Where } from "./types.js";

export type { Progress, Uploaded, UploadOptions } from "./upload.js";

/** What {@link Client.send} takes. */
export interface SendOptions extends CallOptions {
  /** Sent as JSON. */
  body?: unknown;
  /** The parameters of the query. Values that are `undefined` are left out. */
  query?: { readonly [name: string]: unknown };
  headers?: Record<string, string>;
}

/** A client of one server. */
export class Client<S extends SchemaOf<S> = AnySchema> {
  /** Signing in and out. */
  readonly auth: Auth;
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
    this.auth = new Auth(transport);
  }

  /** The records of the entity with this path. */
  records<Path extends keyof S & string>(path: Path): Records<S, S[Path]> {
    return new Records(this.#transport, path);
  }

  /**
   * Sends any other request, with the session, the tenant, the CSRF token and the retries of this client. `path` is a path at the server, such
   * as `/auth/tenants`. Returns the JSON of the answer, or its text; `undefined` where it has none.
   */
  send<T = unknown>(method: string, path: string, options: SendOptions = {}): Promise<T> {
    // With a host in it, the session would go elsewhere.
    if (!/^\/(?![/\\])/.test(path)) throw new TypeError("a path begins with one slash");
    const { query, ...sent } = options;
    return this.#transport.json(method.toUpperCase(), path, query ? { ...sent, query: parameters(query, false) } : sent);
  }

  /**
   * Uploads a file of any size, from where it is if the connection breaks. What it returns attaches the file in any write:
   * `records("tickets").create({ attachments: [await client.upload(file)] })`.
   */
  upload(file: Blob, options: UploadOptions = {}): Promise<Uploaded> {
    return upload(this.#transport, file, options);
  }

  /** The same server and session, for one tenant. */
  tenant(tenant: string): Client<S> {
    return new Client(this.#transport.in(tenant));
  }
}

/** Makes a client. Nothing is sent yet. */
export function createClient<S extends SchemaOf<S> = AnySchema>(options: Options = {}): Client<S> {
  return new Client(new Transport(options));
}
