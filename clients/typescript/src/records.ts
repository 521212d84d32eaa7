import { isKind } from "./failure.js";
import { parameters } from "./query.js";
import { events } from "./shared.js";
import type { StreamEvent, StreamOptions } from "./stream.js";
import { either, type CallOptions, type Sent, type Spelled, type Transport } from "./transport.js";
import type { EntityTypes, Included, Page, Path, Query, Snapshot, Stored, View } from "./types.js";

/** A record to change: its id, or the record itself, which makes the change conditional if it has its entity tag. */
export type Target = string | { readonly id: string; readonly _etag?: string };

export interface ChangeOptions extends CallOptions {
  /** The entity tag that the record must still have; `null` changes it whatever it is. */
  ifMatch?: string | null;
}

type Shown<S, E extends EntityTypes, F extends keyof E["record"], I extends Path<E["relations"]>> = Stored<
  Pick<E["record"], F>
> &
  Included<S, E["relations"], I>;

/** A list, read page by page while it is walked. */
export interface List<Record> extends AsyncIterable<Record> {
  /** All records, and from where a stream misses nothing that they do not show. */
  all(): Promise<Snapshot<Record>>;
}

/** The records of one entity. */
export class Records<S, E extends EntityTypes> {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(transport: Transport, path: string) {
    this.#transport = transport;
    this.#path = path;
  }

  /** The records that the caller may read, in the order of creation unless sorted. */
  list<F extends keyof E["record"] = keyof E["record"], I extends Path<E["relations"]> = never>(
    query: Query<E["record"], F, I> & CallOptions = {},
  ): List<Shown<S, E, F, I>> {
    type Record = Shown<S, E, F, I>;
    const pages = () => this.#pages<Record>(query);
    return {
      async *[Symbol.asyncIterator]() {
        for await (const page of pages()) yield* page.records;
      },
      async all() {
        const records: Record[] = [];
        let eventCursor: string | null = null;
        for await (const page of pages()) {
          // What was written after the first page may be on a later one, or not.
          if (!records.length) ({ eventCursor } = page);
          records.push(...page.records);
        }
        return { records, eventCursor };
      },
    };
  }

  /** One page by its number, from 1, with the total. */
  async page<F extends keyof E["record"] = keyof E["record"], I extends Path<E["relations"]> = never>(
    query: Query<E["record"], F, I> & CallOptions & { page?: number } = {},
  ): Promise<Page<Shown<S, E, F, I>>> {
    const { body, headers } = await this.#read<Spelled>(this.#at(), query);
    const { data, total, page, limit } = body as { data: Shown<S, E, F, I>[]; total: number; page: number; limit: number };
    const [hasMore, eventCursor] = [Boolean(either(body, "hasMore")), headers.get("event-cursor")];
    return { records: data, total, page, limit, hasMore, eventCursor };
  }

  async get<F extends keyof E["record"] = keyof E["record"], I extends Path<E["relations"]> = never>(
    id: string,
    view: View<E["record"], F, I> & CallOptions = {},
  ): Promise<Shown<S, E, F, I>> {
    return (await this.#read<{ data: Shown<S, E, F, I> }>(this.#at(id), view)).body.data;
  }

  /** The same; null if there is none that the caller may read. */
  async find<F extends keyof E["record"] = keyof E["record"], I extends Path<E["relations"]> = never>(
    id: string,
    view: View<E["record"], F, I> & CallOptions = {},
  ): Promise<Shown<S, E, F, I> | null> {
    try {
      return await this.get(id, view);
    } catch (error) {
      if (isKind(error, "missing")) return null;
      throw error;
    }
  }

  create(record: E["create"], options: CallOptions = {}): Promise<Stored<E["record"]>> {
    return this.#write("POST", this.#at(), { ...options, body: record });
  }

  /**
   * Changes the fields that are named. Given a record with its entity tag, it changes that version alone: if somebody else has changed it
   * meanwhile, the failure is `changed` and nothing is written.
   */
  update(target: Target, changes: E["update"], options: ChangeOptions = {}): Promise<Stored<E["record"]>> {
    return this.#write("PATCH", this.#at(idOf(target)), { ...conditional(target, options), body: changes });
  }

  /** Reads a record, changes it as `change` says, and reads it again if somebody else was faster, at most so many times. */
  async modify(
    id: string,
    change: (record: Stored<E["record"]>) => E["update"] | Promise<E["update"]>,
    { tries = 5, ...options }: CallOptions & { tries?: number } = {},
  ): Promise<Stored<E["record"]>> {
    for (;;) {
      const path = this.#at(id);
      const record = await this.#write("GET", path, options);
      try {
        return await this.update({ ...record, id }, await change(record), options);
      } catch (error) {
        tries -= 1;
        if (tries < 1 || !isKind(error, "changed")) throw error;
      }
    }
  }

  async delete(target: Target, options: ChangeOptions = {}): Promise<void> {
    await this.#transport.send("DELETE", this.#at(idOf(target)), conditional(target, options));
  }

  /** Takes a record out of the trash. */
  restore(
    this: E extends { trash: true } ? this : never,
    target: Target,
    options?: CallOptions,
  ): Promise<Stored<E["record"]>>;
  restore(target: Target, options: CallOptions = {}): Promise<Stored<E["record"]>> {
    return this.#write("POST", this.#at(idOf(target), "_restore"), options);
  }

  /** Creates many records, all or none. */
  createMany(records: readonly E["create"][], options?: CallOptions): Promise<E["record"][]> {
    return this.#batch("POST", { items: records }, options);
  }

  /** Changes many records, all or none. */
  updateMany(changes: readonly (E["update"] & { readonly id: string })[], options?: CallOptions): Promise<E["record"][]> {
    return this.#batch("PATCH", { items: changes }, options);
  }

  /** Deletes many records, all or none. */
  async deleteMany(ids: readonly string[], options?: CallOptions): Promise<void> {
    await this.#batch("DELETE", { ids }, options);
  }

  /**
   * Follows what is written, from now on or after `since`. It ends when `signal` is aborted, and throws when the caller would be refused.
   */
  events(options: StreamOptions = {}): AsyncGenerator<StreamEvent<Stored<E["record"]>>, void, undefined> {
    return events(this.#transport, this.#path, options);
  }

  async *#pages<Record>(query: object & CallOptions): AsyncGenerator<Snapshot<Record>, void, undefined> {
    let cursor: unknown = "";
    do {
      const asked: object = { ...query, cursor };
      const { body, headers } = await this.#read<{ data: Record[]; cursor: string | null }>(this.#at(), asked);
      yield { records: body.data, eventCursor: headers.get("event-cursor") };
      ({ cursor } = body);
    } while (cursor);
  }

  #read<T>(path: string, asked: object & CallOptions): Promise<{ body: T; headers: Headers }> {
    const query = parameters(asked as { [name: string]: unknown }, this.#transport.etag);
    return this.#transport.answer("GET", path, { query, signal: asked.signal });
  }

  /** The record of an answer, with the tag in its header. */
  async #write(method: string, path: string, sent: Sent): Promise<Stored<E["record"]>> {
    const { body, headers } = await this.#transport.answer<{ data: E["record"] }>(method, path, sent);
    const etag = headers.get("etag");
    return this.#transport.etag && etag ? { ...body.data, _etag: etag.replace(/^W\//, "") } : body.data;
  }

  async #batch(method: string, body: object, options: CallOptions = {}): Promise<E["record"][]> {
    const { results } = await this.#transport.json<{ results: { data: E["record"] }[] }>(method, this.#at("_batch"), {
      ...options,
      body,
    });
    return results.map(({ data }) => data);
  }

  #at(...segments: string[]): string {
    return this.#transport.record(this.#path, ...segments);
  }
}

function idOf(target: Target): string {
  const id = typeof target === "string" ? target : target.id;
  // An empty one would be the address of the whole list.
  if (!id || id === "." || id === "..") throw new TypeError("a record's id is missing");
  return id;
}

function conditional(target: Target, { ifMatch, ...options }: ChangeOptions): Sent {
  const tag = ifMatch === undefined && typeof target !== "string" ? target._etag : ifMatch;
  return tag ? { ...options, headers: { "If-Match": tag } } : options;
}
