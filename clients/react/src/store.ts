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
    return (this.#session ??= new SessionSource(this.client, (isOther) => this.#renew(isOther)));
  }

  /** Reads again what failed; everything, if another account is signed in. */
  #renew(isOther: boolean): void {
    if (isOther) this.#drafts.clear();
    for (const source of [...this.#sources.values()]) {
      if (isOther) source.clear();
      if (isOther || source.read().error) source.restart();
    }
  }

  drafts(name: string): readonly Draft[] {
    return this.#drafts.get(name) ?? [];
  }

  /** Shows a change at once, and takes it back if the server refuses it. */
  async change<Answer>(name: string, draft: Draft, send: () => Promise<Answer>): Promise<Answer> {
    this.#set(name, [...this.drafts(name), draft]);
    try {
      const answer = await send();
      // Unless another account is signed in by now.
      if (this.drafts(name).includes(draft)) await Promise.all(this.#of(name).map((source) => source.settle(draft, answer)));
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

/** What was read, and the position from which events are new. */
interface Loaded<Data> {
  readonly data: Data;
  readonly position: string | null;
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
  /** What was told since the latest reading began; `undefined` if none is under way. */
  #meanwhile: StreamEvent<Row>[] | undefined;
  /** The records that were told of since a change began; an empty id for all. */
  readonly #told = new WeakMap<Draft, Set<string>>();

  constructor(
    protected readonly store: Store,
    readonly name: string,
  ) {}

  readonly read = (): Reading<Data> => this.#reading;

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#shown.add(changed);
    clearTimeout(this.#late);
    if (!this.#stop) this.restart();
    return () => {
      this.#shown.delete(changed);
      if (this.#shown.size) return;
      this.#late = setTimeout(() => {
        this.#end();
        this.forget();
      }, KEPT);
    };
  };

  /** Begins again, if a component shows it. What was read stays until then. */
  restart(): void {
    this.#end();
    if (!this.#shown.size) return;
    this.#stop = new AbortController();
    void this.#run(this.#stop.signal);
  }

  /** Forgets what was read. */
  clear(): void {
    this.#end();
    this.take(undefined);
    this.show({ error: undefined, loading: true });
  }

  /** Reads it. */
  protected abstract load(signal: AbortSignal): Promise<Loaded<Data>>;
  /** Replaces what was read. */
  protected abstract take(data: Data | undefined): void;
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

  /** Reads it again, and shows why if it cannot. */
  protected async reload(): Promise<void> {
    const signal = this.#stop?.signal;
    if (signal) await this.#reload(signal).catch((error: unknown) => this.#fail(error, signal));
  }

  /** Takes the answer to a change into account, unless it was told of the record meanwhile: that may be later. */
  protected async answered(draft: Draft, answer: Row | undefined, shown: Row | null | undefined): Promise<void> {
    const record = answer ?? { id: draft.id };
    const told = this.#told.get(draft);
    if (!told?.has(record.id) && !told?.has("")) {
      const type = draft.kind === "delete" ? "entity.deleted" : "entity.updated";
      this.hear({ type, record, id: null, cursor: null, tenant: null });
      return;
    }
    const isKnown = answer ? !!answer["_etag"] && answer["_etag"] === shown?.["_etag"] : !shown;
    if (!isKnown) await this.reload();
  }

  /** Returns the position from which events are new. An answer that is overtaken by a later one is left out. */
  async #reload(signal: AbortSignal): Promise<string | null> {
    const turn = (this.#turn += 1);
    const meanwhile: StreamEvent<Row>[] = (this.#meanwhile = []);
    try {
      const { data, position } = await this.load(signal);
      if (turn !== this.#turn || signal.aborted) return position;
      this.take(data);
      this.#note("");
      // What was read may be from before these. If it is not, what followed them is still to be told.
      for (const event of meanwhile) this.hear(event);
      this.show({ error: undefined, loading: false });
      return position;
    } finally {
      if (this.#meanwhile === meanwhile) this.#meanwhile = undefined;
    }
  }

  #note(id: string): void {
    for (const draft of this.store.drafts(this.name)) this.#told.set(draft, (this.#told.get(draft) ?? new Set()).add(id));
  }

  #end(): void {
    this.#stop?.abort();
    this.#stop = undefined;
    this.#turn += 1;
    clearTimeout(this.#again);
    this.#again = undefined;
  }

  async #run(signal: AbortSignal): Promise<void> {
    try {
      const since = await this.#reload(signal);
      for await (const told of this.store.client.records(this.name).events({ signal, since })) {
        if (signal.aborted) return;
        const event = told as StreamEvent<Row>;
        if ("record" in event) {
          this.#note(event.record.id);
          this.#meanwhile?.push(event);
        }
        const isStale = event.type === "gap" || ("record" in event && this.hear(event));
        if (isStale) this.#again ??= setTimeout(() => void this.#catchUp(), TOGETHER);
        else if ("record" in event) this.show();
      }
    } catch (error) {
      this.#fail(error, signal);
      // It is no longer followed: whoever asks next begins again.
      if (!signal.aborted) this.#end();
    }
  }

  async #catchUp(): Promise<void> {
    this.#again = undefined;
    await this.reload();
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

  protected async load(signal: AbortSignal): Promise<Loaded<readonly Row[]>> {
    const records = this.store.client.records(this.name);
    const asked = { ...this.query, signal };
    // With a limit, the first page; otherwise all.
    const found = this.query.limit === undefined ? await records.list(asked).all() : await records.page(asked);
    return { data: found.records as unknown as Row[], position: found.eventCursor };
  }

  protected take(rows: readonly Row[] | undefined): void {
    this.#rows = rows;
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
    if (!this.#isWhole) return this.reload();
    const row = answer as Row | undefined;
    const id = row?.id ?? draft.id;
    if (this.#rows) await this.answered(draft, row, this.#rows.find((other) => other.id === id));
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

  protected async load(signal: AbortSignal): Promise<Loaded<Row | null>> {
    const records = this.store.client.records(this.name);
    // A page of one record has the position from which a stream misses nothing.
    const page = await records.page({ ...this.view, where: { id: this.id } as never, limit: 1, signal });
    return { data: (page.records[0] as Row | undefined) ?? null, position: page.eventCursor };
  }

  protected take(row: Row | null | undefined): void {
    this.#row = row;
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
    if (draft.kind !== "delete" && Object.keys(this.view).length) await this.reload();
    else await this.answered(draft, answer as Row | undefined, this.#row);
  }
}

/** Who is signed in. */
export class SessionSource {
  #reading: Reading<Me | null> = { data: undefined, error: undefined, loading: true };
  readonly #shown = new Set<() => void>();
  #asked: Promise<void> | undefined;
  #turn = 0;

  constructor(
    readonly client: Client<AnySchema>,
    /** Is called after each further answer. */
    readonly renewed: (isOther: boolean) => void,
  ) {}

  readonly read = (): Reading<Me | null> => this.#reading;

  readonly subscribe = (changed: () => void): (() => void) => {
    this.#shown.add(changed);
    if (!this.#asked) void this.refresh();
    return () => this.#shown.delete(changed);
  };

  /** Asks again, as after a sign-in. */
  readonly refresh = (): Promise<void> => (this.#asked = this.#ask());

  async #ask(): Promise<void> {
    const turn = (this.#turn += 1);
    let error: GatewrightError | undefined;
    const answer = await this.client.auth.me().catch((failed: unknown) => {
      if (!(failed instanceof GatewrightError)) throw failed;
      error = failed;
      return undefined;
    });
    // A later answer is about to come.
    if (turn !== this.#turn) return this.#asked;
    const { data: before } = this.#reading;
    const data = error ? before : answer;
    this.#reading = { data, error, loading: false };
    if (turn > 1 && !error) this.renewed(before?.user.id !== data?.user.id);
    for (const changed of this.#shown) changed();
  }
}
