/**
 * React hooks for a Gatewright server.
 *
 * ```tsx
 * const client = createClient<Schema>({ url: "https://api.example.com", prefix: "/api" });
 *
 * <GatewrightProvider client={client}><Tasks /></GatewrightProvider>
 *
 * function Tasks() {
 *   const { data, error, loading } = useRecords("tasks", { sort: "title" });
 *   const { create } = useMutations("tasks");
 *   …
 * }
 * ```
 */

import type {
  AnySchema,
  ChangeOptions,
  Client,
  Included,
  Me,
  Path,
  Query,
  SchemaOf,
  Stored,
  Target,
  View,
} from "@gatewright/client";
import { createContext, createElement, useContext, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { Store, type Draft, type Reading, type Row } from "./store.js";

export type { Reading } from "./store.js";

/**
 * The schema of the application, for the types of all hooks:
 *
 * ```ts
 * declare module "@gatewright/react" {
 *   interface Register { schema: Schema }
 * }
 * ```
 */
// eslint-disable-next-line @typescript-eslint/no-empty-object-type
export interface Register {}

type Registered = Register extends { schema: infer S extends SchemaOf<unknown> } ? S : AnySchema;
type Entities = keyof Registered & string;
type EntityOf<Name extends Entities> = Registered[Name];
type Shown<Name extends Entities, F extends keyof EntityOf<Name>["record"], I extends Path<EntityOf<Name>["relations"]>> = Stored<
  Pick<EntityOf<Name>["record"], F>
> &
  Included<Registered, EntityOf<Name>["relations"], I>;

const Context = createContext<Store | undefined>(undefined);

/** Gives the components below it a client. */
export function GatewrightProvider(props: { client: Client<Registered>; children?: ReactNode }): ReactNode {
  const { client, children } = props;
  const store = useMemo(() => new Store(client as unknown as Client<AnySchema>), [client]);
  return createElement(Context.Provider, { value: store }, children);
}

function useStore(): Store {
  const store = useContext(Context);
  if (!store) throw new Error("there is no GatewrightProvider around this component");
  return store;
}

/** The client of the provider. */
export function useClient(): Client<Registered> {
  return useStore().client as unknown as Client<Registered>;
}

/**
 * The records that the caller may read, as they are now: all, or the first `limit`. Components with the same question share one answer and one
 * stream.
 */
export function useRecords<
  Name extends Entities,
  F extends keyof EntityOf<Name>["record"] = keyof EntityOf<Name>["record"],
  I extends Path<EntityOf<Name>["relations"]> = never,
>(name: Name, query: Query<EntityOf<Name>["record"], F, I> = {}): Reading<readonly Shown<Name, F, I>[]> {
  const source = useStore().list(name, query as object);
  return useSyncExternalStore(source.subscribe, source.read, source.read) as unknown as Reading<readonly Shown<Name, F, I>[]>;
}

/** One record as it is now; null if there is none that the caller may read. */
export function useRecord<
  Name extends Entities,
  F extends keyof EntityOf<Name>["record"] = keyof EntityOf<Name>["record"],
  I extends Path<EntityOf<Name>["relations"]> = never,
>(name: Name, id: string, view: View<EntityOf<Name>["record"], F, I> = {}): Reading<Shown<Name, F, I> | null> {
  const source = useStore().record(name, id, view as object);
  return useSyncExternalStore(source.subscribe, source.read, source.read) as unknown as Reading<Shown<Name, F, I> | null>;
}

/** Changes of records. All hooks of this entity show them at once, and take them back if they fail. */
export interface Mutations<Name extends Entities> {
  create(record: EntityOf<Name>["create"]): Promise<Stored<EntityOf<Name>["record"]>>;
  update(target: Target, changes: EntityOf<Name>["update"], options?: ChangeOptions): Promise<Stored<EntityOf<Name>["record"]>>;
  delete(target: Target, options?: ChangeOptions): Promise<void>;
}

let made = 0;

export function useMutations<Name extends Entities>(name: Name): Mutations<Name> {
  const store = useStore();
  return useMemo(() => {
    const records = store.client.records(name);
    const change = <Answer>(kind: Draft["kind"], target: Target, fields: object, send: () => Promise<Answer>) => {
      const id = typeof target === "string" ? target : target.id;
      return store.change(name, { kind, id, fields: plain(fields) }, send);
    };
    return {
      // Until the server has given an id, one that no record has.
      create: (record) => change("create", `new ${(made += 1)}`, record, () => records.create(record)),
      update: (target, changes, options) => change("update", target, changes, () => records.update(target, changes, options)),
      delete: (target, options) => change("delete", target, {}, () => records.delete(target, options)),
    } as Mutations<Name>;
  }, [store, name]);
}

/** Without operators such as `{ $add: 1 }`, whose result the server computes. */
function plain(fields: object): Row {
  const isPlain = (value: unknown) => !value || typeof value !== "object" || !Object.keys(value).some((key) => key.startsWith("$"));
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => isPlain(value))) as unknown as Row;
}

/** Who is signed in; `data` is null if nobody is. Call `refresh` after signing in or out. */
export function useSession(): Reading<Me | null> & { readonly refresh: () => Promise<void> } {
  const source = useStore().session();
  const reading = useSyncExternalStore(source.subscribe, source.read, source.read);
  return { ...reading, refresh: source.refresh };
}
