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
import { Records } from "./records.js";
import { Transport, type Options } from "./transport.js";
import type { AnySchema, SchemaOf } from "./types.js";

export type { Account, Auth, Credentials, Enrollment, Me, SignIn } from "./auth.js";
export { GatewrightError, type Failure, type FieldError } from "./failure.js";
export { filter, type FilterValue } from "./query.js";
export type { ChangeOptions, List, Records, Target } from "./records.js";
export type { StreamEvent, StreamOptions } from "./stream.js";
export type { CallOptions, Options } from "./transport.js";
export type { AnySchema, EntityTypes, Page, Query, SchemaOf, Snapshot, Stored, View, Where } from "./types.js";

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

  /** The same server and session, for one tenant. */
  tenant(tenant: string): Client<S> {
    return new Client(this.#transport.in(tenant));
  }
}

/** Makes a client. Nothing is sent yet. */
export function createClient<S extends SchemaOf<S> = AnySchema>(options: Options = {}): Client<S> {
  return new Client(new Transport(options));
}
