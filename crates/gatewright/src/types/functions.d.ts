/** What a write sets, by field. A function may change every field except the owner and the tenant. */
export type Values<E extends keyof Entities> = { -readonly [K in keyof Entities[E]["record"]]?: Entities[E]["record"][K] | null };

/** The caller of a write or of a route; null without one. */
export type Caller = { kind: "user" | "service"; id: string; email: string | null; roles: string[] } | null;

/** The options of a list, as the parameters of REST. */
export interface ListOptions {
  filter?: string;
  sort?: string;
  limit?: number;
  page?: number;
  cursor?: string;
  fields?: string[] | string;
  include?: string[] | string;
  total?: "exact" | "estimate" | "none";
  [parameter: string]: string | number | boolean | string[] | undefined;
}

export interface Page<R> {
  data: R[];
  total?: number;
  page?: number;
  limit?: number;
  cursor?: string | null;
  hasMore: boolean;
}

/** One operation of a batch. */
export type Operation =
  | { op: "create"; entity: keyof Entities; data: object; as?: string }
  | { op: "update"; entity: keyof Entities; id: string | { $ref: string }; data: object; ifMatch?: string }
  | { op: "delete"; entity: keyof Entities; id: string | { $ref: string }; ifMatch?: string }
  | { op: "upsert"; entity: keyof Entities; on: string[]; data: object; resolution?: "update" | "ignore"; as?: string };

/** Operations on records. Failures are exceptions with `status`, `code` and `errors`. */
export interface Operations {
  list<E extends keyof Entities>(entity: E, options?: ListOptions): Promise<Page<Entities[E]["record"]>>;
  get<E extends keyof Entities>(entity: E, id: string, options?: ListOptions): Promise<{ data: Entities[E]["record"] }>;
  create<E extends keyof Entities>(entity: E, data: Entities[E]["create"]): Promise<{ data: Entities[E]["record"] }>;
  update<E extends keyof Entities>(entity: E, id: string, data: Entities[E]["update"]): Promise<{ data: Entities[E]["record"] }>;
  delete<E extends keyof Entities>(entity: E, id: string): Promise<null>;
  upsert<E extends keyof Entities>(entity: E, data: Entities[E]["create"], options: { on: string[]; resolution?: "update" | "ignore" }): Promise<{ data: Entities[E]["record"] }>;
  batch(operations: Operation[]): Promise<{ committed: true; results: { index: number; entity: string; data: any }[] }>;
}

/** As the caller, with all rules; `system` without them. */
export interface Database extends Operations {
  system: Operations & { tenant(id: string): Operations };
}

/** The values of `functions.secrets`. */
export type Secrets = Record<string, string | undefined>;

/** The server's mail queue. Not inside of a transaction. */
export interface Mail {
  send(message: { to: string; subject: string; text: string; html?: string }): Promise<null>;
}

/** Stages an event of your own in the outbox, in a transaction if there is one, and returns its id. */
export type Emit = (type: string, data?: object | null, options?: { delaySeconds?: number }) => Promise<string>;

/** The event that a function runs for. It may run again for the same event. */
export interface EventInfo {
  id: string;
  type: string;
  timestamp: string;
}

/** Who made a write. A caller without credentials is nobody. */
export interface Actor {
  kind: "user" | "service" | "operator" | "function" | "system";
  id?: string;
}

/** What a function has that nobody calls: of `db`, only `db.system`. */
export interface Background {
  event: EventInfo;
  secrets: Secrets;
  db: Pick<Database, "system">;
  mail: Mail;
  emit: Emit;
}

/** The event of a write. `tenant` is that of the record. */
export interface Heard<E extends keyof Entities> extends Background {
  record: Entities[E]["record"];
  actor?: Actor;
  tenant?: string;
}

export interface Declared {
  readonly kind: string;
}

/** Refuses: a status from 400 to 499, with a text or with a message for each field. */
export function refuse(status: number, answer?: string | Record<string, string>): never;

/** Runs before a write, in its transaction. */
export function before<E extends keyof Entities>(
  entity: E,
  action: "create",
  run: (context: { values: Values<E>; old?: undefined; caller: Caller; db: Database; emit: Emit }) => void | Promise<void>,
): Declared;
export function before<E extends keyof Entities>(
  entity: E,
  action: "update",
  run: (context: { values: Values<E>; old: Entities[E]["record"]; caller: Caller; db: Database; emit: Emit }) => void | Promise<void>,
): Declared;
export function before<E extends keyof Entities>(
  entity: E,
  action: "delete",
  run: (context: { values?: undefined; old: Entities[E]["record"]; caller: Caller; db: Database; emit: Emit }) => void | Promise<void>,
): Declared;

/** Runs after a write was committed: at least once, and for one record in the order of its writes. */
export function on<E extends keyof Entities>(
  entity: E,
  action: "updated",
  run: (context: Heard<E> & { previous: Partial<Entities[E]["record"]> }) => unknown,
): Declared;
export function on<E extends keyof Entities>(
  entity: E,
  action: "created" | "deleted",
  run: (context: Heard<E>) => unknown,
): Declared;
/** Runs after an event of this type, which functions emit. */
export function on(type: string, run: (context: Background & { data: any; user?: any }) => unknown): Declared;

/** Answers requests at `/fn` and the path. */
export function route(
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  run: (request: Request, context: { caller: Caller; params: Record<string, string>; secrets: Secrets; db: Database; mail: Mail; emit: Emit }) => Response | Promise<Response>,
  options?: { csrf?: boolean },
): Declared;

/** What a job gets. There is no caller: `db` refuses, and `db.system` works. */
export interface JobContext {
  /** The time that the run is for. */
  due: string;
  db: Pick<Database, "system">;
  secrets: Secrets;
  mail: Mail;
  emit: Emit;
  fetch: typeof fetch;
  log: Console;
}

/** Runs at times: five fields of cron, in UTC unless `timezone` names another zone. */
export function job(schedule: string, run: (context: JobContext) => void | Promise<void>): Declared;
export function job(schedule: string, options: { timezone?: string }, run: (context: JobContext) => void | Promise<void>): Declared;
