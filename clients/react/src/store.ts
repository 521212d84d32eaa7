import { GatewrightError, type AnySchema, type Client, type Me, type Query, type StreamEvent } from "@gatewright/client";

/** What a reading hook returns. */
export interface Reading<Data> {
  /** What was read; `undefined` before. It stays while an error is shown. */
  readonly data: Data | undefined;
  /** Why it could not be read, or is no longer followed. */
  readonly error: GatewrightError | undefined;
  /** Whether the first answer is still awaited. */
  readonly loading: boolean;
}

export interface Row {
  readonly id: string;
  readonly [key: string]: unknown;
}

/** A change that the server has not answered yet. */
export interface Draft {
  readonly kind: "create" | "update" | "delete";
  readonly id: string;
  readonly fields: { readonly [key: string]: unknown };
}

type AnyQuery = Query<Row, string, string>;

/** Milliseconds within which several events are one reason to read again. */
const TOGETHER = 30;
/** Milliseconds for which what no component shows is still followed: a component that is mounted again finds it. */
const KEPT = 1_000;

/** What is read from one server, by what was asked. */
export class Store {
  readonly #sources = new Map<string, Source<unknown>>();
  readonly #drafts = new Map<string, readonly Draft[]>();
  #session: SessionSource | undefined;

  constructor(readonly client: Client<AnySchema>) {}

  list(name: string, query: AnyQuery): Source<readonly Row[]> {
    return this.#source(`list ${name} ${JSON.stringify(query)}`, () => new ListSource(this, name, query));
  }

  record(name: string, id: string, view: AnyQuery): Source<Row | null> {
    return this.#source(`record ${name} ${id} ${JSON.stringify(view)}`, () => new RecordSource(this, name, id, view));
  }

  session(): SessionSource {
    return (this.#session ??= new SessionSource(this.client));
  }

  drafts(name: string): readonly Draft[] {
    return this.#drafts.get(name) ?? [];
  }

  /** Shows a change at once, and takes it back if the server refuses it. */
  async change<Answer>(name: string, draft: Draft, send: () => Promise<Answer>): Promise<Answer> {
    this.#set(name, [...this.drafts(name), draft]);
    try {
      const answer = await send();
      await Promise.all(this.#of(name).map((source) => source.settle(draft, answer)));
      return answer;
    } finally {
      this.#set(
        name,
        this.drafts(name).filter((other) => other !== draft),
      );
    }
  }

  #set(name: string, drafts: readonly Draft[]): void {
    this.#drafts.set(name, drafts);
    for (const source of this.#of(name)) source.show();
  }

  #of(name: string): Source<unknown>[] {
    return [...this.#sources.values()].filter((source) => source.name === name);
  }

  #source<Data>(key: string, make: () => Source<Data>): Source<Data> {
    const known = this.#sources.get(key) as Source<Data> | undefined;
    if (known) return known;
    const source = make();
    source.forget = () => this.#sources.delete(key);
    this.#sources.set(key, source as Source<unknown>);
    return source;
  }
}

/** Something that components show, followed while one does. */
export abstract class Source<Data> {
  /** Removes it from the store. */
  forget = () => {};
  #reading: Reading<Data> = { data: undefined, error: undefined, loading: true };
  readonly #shown = new Set<() => void>();
  #stop: AbortController | undefined;
  #late: ReturnType<typeof setTimeout> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #turn = 0;

  constructor(
    protected readonly store: Store,
    readonly name: string,
  ) {}

  readonly read = (): Reading<Data> => this.#reading;

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#shown.add(changed);
    clearTimeout(this.#late);
    if (!this.#stop) {
      this.#stop = new AbortController();
      void this.#run(this.#stop.signal);
    }
    return () => {
      this.#shown.delete(changed);
      if (this.#shown.size) return;
      this.#late = setTimeout(() => {
        this.#stop?.abort();
        this.#stop = undefined;
        clearTimeout(this.#again);
        this.forget();
      }, KEPT);
    };
  };

  /** Reads it. Returns the position from which events are new. */
  protected abstract load(signal: AbortSignal): Promise<string | null>;
  /** Takes an event into account. Returns whether it has to be read again. */
  protected abstract hear(event: StreamEvent<Row>): boolean;
  /** What is shown now: what was read, with the changes that are not answered yet. */
  protected abstract present(): Data | undefined;
  /** Takes the answer to a change into account, or reads again. */
  abstract settle(draft: Draft, answer: unknown): Promise<void>;

  /** Tells components what there is now. */
  show(failed: Partial<Reading<Data>> = {}): void {
    const data = this.present();
    const { error, loading } = this.#reading;
    this.#reading = { error, loading: loading && data === undefined, ...failed, data };
    for (const changed of this.#shown) changed();
  }

  /** Reads it again. An answer that is overtaken by a later one is left out. */
  protected async reload(): Promise<string | null> {
    const turn = (this.#turn += 1);
    const signal = this.#stop?.signal;
    if (!signal || signal.aborted) return null;
    const position = await this.load(signal);
    if (turn === this.#turn) this.show({ error: undefined, loading: false });
    return position;
  }

  async #run(signal: AbortSignal): Promise<void> {
    try {
      const since = await this.reload();
      for await (const event of this.store.client.records(this.name).events({ signal, since })) {
        const isStale = event.type === "gap" || ("record" in event && this.hear(event as StreamEvent<Row>));
        if (isStale) this.#again ??= setTimeout(() => void this.#catchUp(signal), TOGETHER);
        else if ("record" in event) this.show();
      }
    } catch (error) {
      this.#fail(error, signal);
    }
  }

  async #catchUp(signal: AbortSignal): Promise<void> {
    this.#again = undefined;
    await this.reload().catch((error: unknown) => this.#fail(error, signal));
  }

  #fail(error: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    if (!(error instanceof GatewrightError)) throw error;
    this.show({ error, loading: false });
  }
}

/** Applies changes to a record that are not answered yet. Computed values are known to the server alone. */
function drafted(row: Row, drafts: readonly Draft[]): Row {
  const own = drafts.filter(({ id, kind }) => id === row.id && kind === "update");
  return own.length ? own.reduce((row, { fields }) => ({ ...row, ...fields }), row) : row;
}

function isGone(id: string, drafts: readonly Draft[]): boolean {
  return drafts.some((draft) => draft.kind === "delete" && draft.id === id);
}

class ListSource extends Source<readonly Row[]> {
  #rows: readonly Row[] | undefined;
  /** Whether every record of the entity is in it, as it is: then events say what it shows. */
  readonly #isWhole: boolean;
  /** Whether a new record is in it. */
  readonly #isOpen: boolean;

  constructor(
    store: Store,
    name: string,
    readonly query: AnyQuery,
  ) {
    super(store, name);
    const { filter, where, q, trashed, ...shown } = query;
    this.#isOpen = !filter && !where && !q && !trashed;
    this.#isWhole = this.#isOpen && Object.keys(shown).length === 0;
  }

  protected async load(signal: AbortSignal): Promise<string | null> {
    const records = this.store.client.records(this.name);
    const asked = { ...this.query, signal };
    // With a limit, the first page; otherwise all.
    const found = this.query.limit === undefined ? await records.list(asked).all() : await records.page(asked);
    this.#rows = found.records as unknown as Row[];
    return found.eventCursor;
  }

  protected hear(event: StreamEvent<Row>): boolean {
    if (!this.#isWhole || !this.#rows || !("record" in event)) return true;
    const { record } = event;
    const others = this.#rows.filter(({ id }) => id !== record.id);
    if (event.type === "entity.deleted") this.#rows = others;
    else if (others.length === this.#rows.length) this.#rows = [...this.#rows, event.record];
    else this.#rows = this.#rows.map((row) => (row.id === record.id ? event.record : row));
    return false;
  }

  protected present(): readonly Row[] | undefined {
    const drafts = this.store.drafts(this.name);
    if (!this.#rows || !drafts.length) return this.#rows;
    const rows = this.#rows.filter(({ id }) => !isGone(id, drafts)).map((row) => drafted(row, drafts));
    const made = this.#isOpen ? drafts.filter(({ kind, id }) => kind === "create" && !rows.some((row) => row.id === id)) : [];
    return [...rows, ...made.map(({ id, fields }) => ({ ...fields, id }))];
  }

  async settle(draft: Draft, answer: unknown): Promise<void> {
    if (!this.#isWhole) return void (await this.reload().catch(() => {}));
    if (!this.#rows) return;
    const type = draft.kind === "delete" ? "entity.deleted" : "entity.updated";
    const record = (answer ?? { id: draft.id }) as Row;
    this.hear({ type, record, id: null, cursor: null, tenant: null });
  }
}

class RecordSource extends Source<Row | null> {
  #row: Row | null | undefined;

  constructor(
    store: Store,
    name: string,
    readonly id: string,
    readonly view: AnyQuery,
  ) {
    super(store, name);
  }

  protected async load(signal: AbortSignal): Promise<string | null> {
    const records = this.store.client.records(this.name);
    // A page of one record has the position from which a stream misses nothing.
    const page = await records.page({ ...this.view, where: { id: this.id } as never, limit: 1, signal });
    this.#row = (page.records[0] as Row | undefined) ?? null;
    return page.eventCursor;
  }

  protected hear(event: StreamEvent<Row>): boolean {
    if (!("record" in event) || event.record.id !== this.id) return false;
    if (event.type !== "entity.deleted" && Object.keys(this.view).length) return true;
    this.#row = event.type === "entity.deleted" ? null : event.record;
    return false;
  }

  protected present(): Row | null | undefined {
    const drafts = this.store.drafts(this.name);
    if (!this.#row) return this.#row;
    return isGone(this.id, drafts) ? null : drafted(this.#row, drafts);
  }

  async settle(draft: Draft, answer: unknown): Promise<void> {
    if (draft.id !== this.id) return;
    if (draft.kind === "delete") this.#row = null;
    else if (Object.keys(this.view).length) await this.reload().catch(() => {});
    else this.#row = answer as Row;
  }
}

/** Who is signed in. */
export class SessionSource {
  #reading: Reading<Me | null> = { data: undefined, error: undefined, loading: true };
  readonly #shown = new Set<() => void>();
  #asked: Promise<void> | undefined;

  constructor(readonly client: Client<AnySchema>) {}

  readonly read = (): Reading<Me | null> => this.#reading;

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#shown.add(changed);
    this.#asked ??= this.refresh();
    return () => this.#shown.delete(changed);
  };

  /** Asks again, as after a sign-in. */
  readonly refresh = async (): Promise<void> => {
    try {
      this.#reading = { data: await this.client.auth.me(), error: undefined, loading: false };
    } catch (error) {
      if (!(error instanceof GatewrightError)) throw error;
      this.#reading = { data: this.#reading.data, error, loading: false };
    }
    for (const changed of this.#shown) changed();
  };
}
