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

import { Devices, Invitations, MembersOf, Passkeys, Sessions, Tenants } from "./account.js";
import { Auth } from "./auth.js";
import { parameters } from "./query.js";
import { Records } from "./records.js";
import { either, Transport, type CallOptions, type Options, type Spelled } from "./transport.js";
import type { AnySchema, Groups, GroupQuery, Operation, Result, SchemaOf } from "./types.js";
import { upload, type Uploaded, type UploadOptions } from "./upload.js";

export type {
  Device,
  Devices,
  Invitation,
  Invitations,
  Invited,
  Member,
  Members,
  MembersOf,
  Passkey,
  Passkeys,
  Proof,
  Session,
  Sessions,
  Tenant,
  Tenants,
} from "./account.js";
export type { Account, Auth, Credentials, Enrollment, Me, Registration, SignIn } from "./auth.js";
export { GatewrightError, type Failure, type FieldError } from "./failure.js";
export { filter, type FilterValue } from "./query.js";
export type { ChangeOptions, List, Records, Target } from "./records.js";
export type { StreamEvent, StreamOptions } from "./stream.js";
export type { CallOptions, Options } from "./transport.js";
export type {
  AnySchema,
  EntityTypes,
  Group,
  GroupQuery,
  Groups,
  Highlights,
  Included,
  Operation,
  Page,
  Path,
  Query,
  Result,
  SchemaOf,
  Snapshot,
  Stored,
  View,
  Where,
} from "./types.js";

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
  readonly tenants: Tenants;
  readonly members: MembersOf;
  readonly invitations: Invitations;
  readonly passkeys: Passkeys;
  readonly sessions: Sessions;
  readonly devices: Devices;
  /** The server's own functions. */
  readonly functions: {
    /** Calls the route `/fn/{name}`: a POST with `body` as JSON, unless `options` say otherwise. Returns what it answers. */
    call<T = unknown>(name: string, body?: unknown, options?: CallOptions & { method?: string }): Promise<T>;
  };
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
    this.auth = new Auth(transport);
    this.tenants = new Tenants(transport);
    this.members = new MembersOf(transport);
    this.invitations = new Invitations(transport);
    this.passkeys = new Passkeys(transport);
    this.sessions = new Sessions(transport);
    this.devices = new Devices(transport);
    this.functions = {
      call: (name, body, { method = "POST", ...options } = {}) =>
        this.send(method, `/fn/${name.replace(/^\/+/, "").split("/").map(encodeURIComponent).join("/")}`, { ...options, body }),
    };
  }

  /** The records of the entity with this path. */
  records<Path extends keyof S & string>(path: Path): Records<S, S[Path]> {
    return new Records(this.#transport, path);
  }

  /** Counts and computes over the records that a list would show, by the values of fields. */
  async groups<Path extends keyof S & string>(path: Path, query: GroupQuery<S[Path]["record"]> & CallOptions): Promise<Groups> {
    const { signal, countDistinct, utcOffset, ...asked } = query;
    const named: object = { ...asked, count_distinct: countDistinct, utc_offset: utcOffset };
    const answer = await this.send<Spelled>("GET", this.#transport.record(path), { query: named as { [name: string]: unknown }, signal });
    return { data: answer["data"] as Groups["data"], hasMore: Boolean(either(answer, "hasMore")) };
  }

  /** Runs writes to several entities in one transaction: all or none. */
  async batch(operations: readonly Operation<S>[], options: CallOptions = {}): Promise<Result[]> {
    const path = this.#transport.record("_batch");
    return (await this.#transport.json<{ results: Result[] }>("POST", path, { ...options, body: { operations } })).results;
  }

  /**
   * Sends any other request, with the session, the tenant, the CSRF token and the retries of this client. `path` is a path at the server, such
   * as `/auth/tenants`, encoded as in an address. Returns the JSON of the answer, or its text; `undefined` where it has none.
   */
  send<T = unknown>(method: string, path: string, options: SendOptions = {}): Promise<T> {
    // With a host in it, the session would go elsewhere; with dots, tabs or backslashes, to another path than it says.
    if (new URL(path, "http://x").pathname !== path) throw new TypeError("no path of the server");
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
