import { GatewrightError } from "./failure.js";
import { followed, isLate, once, type Connection, type StreamEvent, type StreamOptions } from "./stream.js";
import { backoff, isPassing, sleep, type Transport } from "./transport.js";

/**
 * What the tabs of one stream tell each other. One of them leads: it holds the lock and the connection, and tells the others each event. The
 * others ask to be let in, each with the position that it has and the tables that it follows. The leader then opens its connection again for
 * the tables of all, at the lowest of these positions, so that none misses anything, and each leaves out what it had.
 */
type Message =
  /** The sender leads from now on: ask again. */
  | { readonly lead: true; readonly from: string }
  /** The sender wants to be let in. */
  | { readonly join: string; readonly since: string | null; readonly tables: string[] }
  /** The connection is at this position, which may be an earlier one than before, and from here on the named ones hear everything. */
  | { readonly admitted: string[]; readonly cursor: string | null; readonly from: string }
  | { readonly event: StreamEvent<unknown>; readonly table: string | undefined; readonly from: string }
  /** The server refuses the tables together: each is followed alone. */
  | { readonly split: true };

/** The most events that wait for a loop that does not take them. */
const MOST = 10_000;

/** One loop over events. */
interface Listener {
  /** The table whose events it takes. */
  readonly table: string;
  /** Where it begins; null for what comes next. From here to where the connection is, it has been told everything, in order. */
  since: string | null;
  isNew: (id: string | null | undefined) => boolean;
  readonly queue: StreamEvent<unknown>[];
  /** Whether it has been told that the stream is open. */
  isUp: boolean;
  /** Whether it still waits to be let in. */
  isFresh: boolean;
  wake: () => void;
}

/** What the streams of this tab share, by their names. */
const hubs = new Map<string, Hub>();

/** Follows a table, by a connection that the tables and the tabs of a browser share where they can. */
export async function* events<Record>(
  transport: Transport,
  table: string,
  options: StreamOptions,
): AsyncGenerator<StreamEvent<Record>, void, undefined> {
  const at: Connection = { cursor: options.since ?? null };
  const path = transport.record(table, "_events");
  if (!isShared(transport)) {
    if (hasLocks()) at.before = (signal) => seat(transport, signal);
    for await (const [event] of followed<Record>(transport, path, options, at)) yield event;
    return;
  }
  const { signal, stalled = 10_000 } = options;
  let who = "";
  for (let attempt = 0; ; attempt++) {
    const asked = transport.who();
    if (await isLate(asked, stalled)) yield { type: "stalled", after: stalled };
    try {
      who = await asked;
      break;
    } catch (error) {
      if (!(error instanceof GatewrightError) || !isPassing(error.failure)) throw error;
      const wait = backoff(attempt);
      yield { type: "offline", failure: error.failure, wait };
      await sleep(wait, signal).catch(() => {});
      if (signal?.aborted) return;
    }
  }
  // A table that is followed with a filter or under a name has a connection of its own.
  for (let alone = !!(options.filter || options.subscriberId); ; alone = true) {
    const end = yield* shared<Record>(transport, table, { ...options, since: at.cursor }, who, alone ? path : undefined);
    if (end === undefined) return;
    at.cursor = end;
  }
}

/** Follows a table with others, or alone at `path`. Returns from where to go on if the tables are refused together. */
async function* shared<Record>(
  transport: Transport,
  table: string,
  options: StreamOptions,
  who: string,
  path: string | undefined,
): AsyncGenerator<StreamEvent<Record>, string | null | undefined, undefined> {
  const { signal, stalled = 10_000 } = options;
  const name = await named(transport, path ?? transport.record("_events"), options, who);
  const hub = hubs.get(name) ?? new Hub(transport, options, name, who, path);
  const listener: Listener = {
    table,
    since: options.since ?? null,
    isNew: once(),
    queue: [],
    isUp: false,
    isFresh: true,
    wake: () => {},
  };
  const end = () => listener.wake();
  signal?.addEventListener("abort", end, { once: true });
  const late = setTimeout(() => listener.isFresh && give(listener, { type: "stalled", after: stalled }), stalled);
  hub.add(listener);
  try {
    for (;;) {
      const event = listener.queue.shift();
      if (event) yield event as StreamEvent<Record>;
      else if (signal?.aborted) return undefined;
      else if (hub.failed) throw hub.failed.error;
      else if (hub.isSplit) return listener.isFresh ? listener.since : hub.at.cursor;
      else await new Promise<void>((done) => (listener.wake = done));
    }
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", end);
    await hub.remove(listener);
  }
}

function give(listener: Listener, event: StreamEvent<unknown>): void {
  if ("id" in event && !listener.isNew(event.id)) return;
  if (event.type === "open" && listener.isUp) return;
  listener.isUp = event.type === "open" || (listener.isUp && event.type !== "offline");
  const { queue } = listener;
  if (queue.length >= MOST) {
    queue.splice(0, MOST, { type: "gap", reason: "overflow", cursor: "cursor" in event ? event.cursor : null });
  }
  queue.push(event);
  listener.wake();
}

/** The part of a tab in a stream that it shares with other tabs. */
class Hub {
  readonly at: Connection = { cursor: null };
  failed: { readonly error: unknown } | undefined;
  isSplit = false;
  readonly #me = crypto.randomUUID();
  readonly #listeners = new Set<Listener>();
  /** The tables of other tabs, while this one leads. */
  readonly #others = new Set<string>();
  readonly #waiting = new Map<string, string | null>();
  readonly #over = new AbortController();
  readonly #channel: BroadcastChannel;
  readonly #held: Promise<unknown>;
  /** Who lets this one in; empty before. */
  #leader = "";
  #asked = "";
  /** For whom it asked. */
  #covered: Listener[] = [];
  #leads = false;
  /** Whether the connection is open, and was opened for all that is wanted. */
  #isOpen = false;
  #again: ReturnType<typeof setTimeout> | undefined;
  #changed: GatewrightError | undefined;

  constructor(
    readonly transport: Transport,
    readonly options: StreamOptions,
    readonly name: string,
    readonly who: string,
    readonly path: string | undefined,
  ) {
    hubs.set(name, this);
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => (this.#leads ? this.#asks(data) : this.#hears(data));
    this.#held = navigator.locks
      .request(name, { signal: this.#over.signal }, () => this.#lead())
      .catch((error: unknown) => {
        if (!this.#over.signal.aborted) this.failed = { error };
      })
      .finally(() => this.#end());
  }

  add(listener: Listener): void {
    const isCarried = [...this.#listeners].some(({ table, isFresh }) => table === listener.table && !isFresh);
    this.#listeners.add(listener);
    if (isCarried && !listener.since && (this.#leads ? this.#isOpen : this.#leader)) {
      this.#admit([listener]);
    } else this.#soon();
  }

  /** The last one that leaves closes it. */
  async remove(listener: Listener): Promise<void> {
    this.#listeners.delete(listener);
    if (this.#listeners.size) return;
    this.#end();
    await this.#held;
  }

  #end(): void {
    if (hubs.get(this.name) === this) hubs.delete(this.name);
    this.#over.abort();
    clearTimeout(this.#again);
    this.#channel.close();
    for (const { wake } of this.#listeners) wake();
  }

  /** Asks again, or opens again, for all that have come meanwhile. */
  #soon(): void {
    this.#again ??= setTimeout(() => {
      this.#again = undefined;
      if (this.#leads) this.#reopen();
      else this.#join();
    }, 20);
  }

  #post(message: Message): void {
    if (!this.#over.signal.aborted) this.#channel.postMessage(message);
  }

  /** The tables of this tab. */
  #tables(): string[] {
    return [...this.#listeners].map(({ table }) => table);
  }

  /** The position from which this tab misses nothing. */
  #since(): string | null {
    return [...this.#listeners].filter(({ isFresh }) => isFresh).reduce((least, { since }) => lower(least, since), this.at.cursor);
  }

  #join(): void {
    this.#leader = "";
    this.#asked = crypto.randomUUID();
    this.#covered = [...this.#listeners];
    this.#post({ join: this.#asked, since: this.#since(), tables: this.#tables() });
  }

  /** From here on, they hear everything. */
  #admit(listeners: Iterable<Listener>): void {
    const { cursor } = this.at;
    for (const listener of listeners) {
      give(listener, { type: "open" });
      if (!listener.isFresh) continue;
      listener.isFresh = false;
      listener.since = cursor;
      if (cursor) give(listener, { type: "ready", cursor });
    }
  }

  /** What comes next is what follows this. Who began later hears all of it again: of a part, the last might be an older state. */
  #move(cursor: string | null): void {
    if (!cursor) return;
    this.at.cursor = cursor;
    for (const listener of this.#listeners) {
      if (listener.isFresh || lower(listener.since, cursor) === listener.since) continue;
      listener.since = cursor;
      listener.isNew = once();
    }
  }

  #take(event: StreamEvent<unknown>, table: string | undefined): void {
    if ("cursor" in event) this.at.cursor = event.cursor ?? this.at.cursor;
    for (const listener of this.#listeners) {
      // Who is not let in hears only why.
      if (listener.isFresh && !isTrouble(event)) continue;
      if (!listener.isFresh) listener.since ??= this.at.cursor;
      if (table === undefined || this.path || table === listener.table) give(listener, event);
    }
  }

  /** As one that is told. */
  #hears(message: Message): void {
    if ("lead" in message) this.#join();
    else if ("split" in message) this.#split();
    else if ("admitted" in message) {
      const isMine = message.admitted.includes(this.#asked);
      if (isMine) this.#leader = message.from;
      if (this.#leader === message.from) this.#move(message.cursor);
      if (isMine) this.#admit(this.#covered);
    } else if ("event" in message && (message.from === this.#leader || isTrouble(message.event))) {
      // Nobody is let in before the connection is open: why it is not, all may know.
      this.#take(message.event, message.table);
    }
  }

  /** As the one that leads. */
  #asks(message: Message): void {
    if (!("join" in message)) return;
    this.#waiting.set(message.join, message.since);
    const isCarried = message.tables.every((table) => this.at.tables?.includes(table) ?? true);
    message.tables.forEach((table) => this.#others.add(table));
    const isPresent = ![...this.#waiting.values()].some(Boolean);
    if (this.#isOpen && !this.#again && isPresent && isCarried) this.#letIn();
    else this.#soon();
  }

  #letIn(): void {
    this.#tell([...this.#waiting.keys()]);
    this.#waiting.clear();
    this.#admit(this.#listeners);
  }

  #tell(admitted: string[]): void {
    this.#post({ admitted, cursor: this.at.cursor, from: this.#me });
  }

  /** What listeners have already is told again, and they leave it out. */
  #reopen(): void {
    this.#move([...this.#waiting.values()].reduce(lower, this.#since()));
    this.#tell([]);
    this.#isOpen = false;
    this.#carry();
    this.at.reopen?.();
  }

  #carry(): void {
    if (!this.path) this.at.tables = [...new Set([...this.#tables(), ...this.#others])];
  }

  /** Holds the connection until this tab leaves. */
  async #lead(): Promise<void> {
    this.#leads = true;
    this.#move(this.#since());
    this.at.before = async (signal) => {
      if ((await this.transport.who()) !== this.who) {
        const detail = "another account is signed in";
        const failure = { kind: "unauthenticated", status: 401, code: "session_changed", detail, errors: [], requestId: null } as const;
        throw (this.#changed = new GatewrightError(failure));
      }
      return seat(this.transport, signal);
    };
    this.#post({ lead: true, from: this.#me });
    // The others answer, and one connection is opened for all.
    await sleep(20, this.#over.signal);
    this.#carry();
    const path = this.path ?? this.transport.record("_events");
    try {
      for await (const [event, table] of followed(this.transport, path, { ...this.options, signal: this.#over.signal }, this.at)) {
        if (event.type === "open") {
          this.#isOpen = true;
          if (!this.#again) this.#letIn();
        }
        this.#isOpen &&= event.type !== "offline";
        this.#post({ event: plain(event), table, from: this.#me });
        this.#take(event, table);
      }
    } catch (error) {
      // An older server, or one of the tables: alone, each says it.
      if (this.path || !(error instanceof GatewrightError) || error === this.#changed) throw error;
      this.#post({ split: true });
      this.#split();
    }
  }

  #split(): void {
    this.isSplit = true;
    this.#end();
  }
}

/** Whether this is a browser whose tabs can share, and the option allows it. */
function isShared({ options }: Transport): boolean {
  const isOwn = !options.fetch && !options.EventSource;
  return (options.shared ?? isOwn) && hasLocks() && "BroadcastChannel" in globalThis && !!crypto.subtle;
}

/** Whether this is a browser whose tabs know of each other. Elsewhere, as in Node, connections are not limited. */
function hasLocks(): boolean {
  return "location" in globalThis && !!globalThis.navigator?.locks;
}

/** The name of a stream: the same for the same server, path, filter, tenant and credential alone. */
async function named(transport: Transport, path: string, options: StreamOptions, who: string): Promise<string> {
  const { token, tenant, tenantHeader, streams } = transport.options;
  const parts = [transport.url(path), options.filter, options.subscriberId, transport.etag, token, who, tenant, tenantHeader, streams];
  const bytes = new TextEncoder().encode(JSON.stringify(parts));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `gatewright:${hash.join()}`;
}

/** The earlier of two positions; one that cannot be compared is the server's to judge. They begin with the log's name, of 16 digits. */
function lower(a: string | null, b: string | null): string | null {
  if (!a || !b) return a ?? b;
  const at = (cursor: string) => cursor.replace(/.*-/, "").padStart(16);
  return a.slice(0, 16) === b.slice(0, 16) && at(a) <= at(b) ? a : b;
}

/** Takes one of the places that a browser has for streams to one server, and returns what gives it back. */
async function seat(transport: Transport, signal: AbortSignal): Promise<() => void> {
  signal.throwIfAborted();
  const { origin } = new URL(transport.url("/"), location.href);
  const isMultiplexed = performance
    .getEntries()
    .some((entry) => entry.name.startsWith(origin) && /^h[23]/.test((entry as PerformanceResourceTiming).nextHopProtocol ?? ""));
  if (isMultiplexed) return () => {};
  const others = new AbortController();
  const abort = () => others.abort();
  signal.addEventListener("abort", abort, others);
  let leave = () => {};
  const left = new Promise<void>((done) => (leave = done));
  await new Promise<void>((taken, fail) => {
    let isSeated = false;
    for (let place = 0; place < (transport.options.maxStreams ?? 5); place++) {
      const hold = () => {
        // A second one that is free at the same time is given back at once.
        if (isSeated) return undefined;
        isSeated = true;
        taken();
        queueMicrotask(abort);
        return left;
      };
      navigator.locks.request(`gatewright:${origin}:${place}`, { signal: others.signal }, hold).catch(fail);
    }
  });
  return leave;
}

/** Whether it tells why the connection is not open. */
function isTrouble({ type }: StreamEvent<unknown>): boolean {
  return type === "stalled" || type === "offline";
}

/** An event that another tab can be told: not everything that a `fetch` throws can be copied. */
function plain<Record>(event: StreamEvent<Record>): StreamEvent<Record> {
  if (event.type !== "offline" || event.failure?.kind !== "network") return event;
  return { ...event, failure: { kind: "network", cause: String(event.failure.cause) } };
}
