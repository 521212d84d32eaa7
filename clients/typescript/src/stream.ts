import { GatewrightError, isKind, type Failure } from "./failure.js";
import { parameters } from "./query.js";
import { backoff, either, isPassing, sleep, type CallOptions, type Transport } from "./transport.js";

/** What a stream reports. */
export type StreamEvent<Record> =
  /** The stream is open: what follows is live, after what was missed. */
  | { readonly type: "open" }
  /** The position to resume from. Servers without an event log have none. */
  | { readonly type: "ready"; readonly cursor: string }
  | ({ readonly type: "entity.created" | "entity.updated"; readonly record: Record } & Told)
  /** The record as it last was, or its `id` alone if the caller may no longer read it. */
  | ({ readonly type: "entity.deleted"; readonly record: Partial<Record> & { readonly id: string } } & Told)
  /** Events may be missing: read the list again. Live events follow. */
  | { readonly type: "gap"; readonly reason: "expired" | "overflow" | "reconnected"; readonly cursor: string | null }
  /** The connection is lost. The next try is after so many milliseconds, or when the browser is online again. */
  | { readonly type: "offline"; readonly failure: Failure | null; readonly wait: number }
  /**
   * No connection was opened for so many milliseconds, and the client still waits. Over HTTP/1.1 a browser opens at most six connections to
   * a server, for all tabs together.
   */
  | { readonly type: "stalled"; readonly after: number };

interface Told {
  /** The event's own id, by which repeats were left out. Servers without an event log have none. */
  readonly id: string | null;
  /** The position to resume from after this event. */
  readonly cursor: string | null;
  readonly tenant: string | null;
}

export interface StreamOptions extends CallOptions {
  /** Resumes after this position: a `cursor`, or the `eventCursor` of a list. */
  since?: string | null;
  /** An expression that records must satisfy. */
  filter?: string;
  /** Replaces the same caller's stream of this name. */
  subscriberId?: string;
  /** Milliseconds of silence after which the connection counts as lost. 60,000 if left out; servers send a sign of life every 15 s. */
  silence?: number;
  /** Milliseconds after which a connection that does not open is reported as `stalled`. 10,000 if left out. */
  stalled?: number;
}

/** A connection that is opened again and again, and where it is. */
export interface Connection {
  /** The position to resume from. */
  cursor: string | null;
  /** The tables of a connection that carries several. */
  tables?: readonly string[];
  /** Before each opening; what it throws ends the stream. Returns what to do after the end. */
  before?: (signal: AbortSignal) => Promise<() => void>;
  /** Opens again at once, at the cursor. */
  reopen?: () => void;
}

/** One frame, as it came. */
interface Frame {
  event: string;
  data: string;
  id: string;
}

/** Event ids that are remembered, to leave repeats out. */
const REMEMBERED = 4_000;

/**
 * Events with their tables, until `signal` is aborted, the loop is left or the caller would be refused, which throws. A lost connection is opened
 * again where it broke off.
 */
export async function* followed<Record>(
  transport: Transport,
  path: string,
  options: StreamOptions,
  at: Connection,
): AsyncGenerator<[event: StreamEvent<Record>, table?: string], void, undefined> {
  const { signal, stalled = 10_000 } = options;
  let isNew = once();
  let wasOpen = false;
  for (let attempt = 0; !signal?.aborted; attempt++) {
    let failure: Failure | null = null;
    let isAsked = false;
    const stop = new AbortController();
    const abort = () => stop.abort(signal?.reason);
    signal?.addEventListener("abort", abort, stop);
    at.reopen = () => {
      isAsked = true;
      // Somebody wants what this one had already.
      isNew = once();
      abort();
    };
    const frames = seated(transport, path, options, at, stop);
    try {
      let step = frames.next();
      if (await isLate(step, stalled)) yield [{ type: "stalled", after: stalled }];
      for (; ; step = frames.next()) {
        const { done, value: frame } = await step;
        if (done || isAsked) break;
        if (frame === "open") {
          attempt = 0;
          yield [{ type: "open" }];
          // Without positions, it is unknown what was missed.
          if (wasOpen && !at.cursor) yield [{ type: "gap", reason: "reconnected", cursor: null }];
          wasOpen = true;
          continue;
        }
        const cursor = (at.cursor = frame.id || at.cursor);
        const data = JSON.parse(frame.data);
        if (frame.event === "ready") {
          yield [{ type: "ready", cursor: data.cursor }];
        } else if (frame.event === "gap") {
          yield [{ type: "gap", reason: data.reason, cursor }];
        } else if (frame.event.startsWith("entity.") && isNew(data.id)) {
          const tenant = (either(data.data, "tenantId") as string | undefined) ?? null;
          const type = frame.event as "entity.created";
          yield [{ type, record: data.data.record, id: data.id ?? null, cursor: frame.id || null, tenant }, data.data.table];
        }
      }
    } catch (error) {
      if (isAsked || signal?.aborted) continue;
      if (!(error instanceof GatewrightError) || !isPassing(error.failure)) throw error;
      failure = error.failure;
    } finally {
      stop.abort();
      frames.return().catch(() => {});
    }
    if (isAsked || signal?.aborted) continue;
    const wanted = ((failure as { retryAfter?: number | null } | null)?.retryAfter ?? 0) * 1000;
    const wait = Math.max(wanted, backoff(attempt));
    yield [{ type: "offline", failure, wait }];
    await again(wait, wanted > 0, signal);
  }
}

/** Whether an event is told for the first time, by its id. Those without one always are. */
export function once(): (id: string | null | undefined) => boolean {
  const seen = new Set<string>();
  return (id) => {
    if (!id) return true;
    if (seen.has(id)) return false;
    seen.add(id);
    if (seen.size > REMEMBERED) for (const first of seen) return seen.delete(first);
    return true;
  };
}

/** Whether nothing comes of it for so long. */
export async function isLate(step: Promise<unknown>, after: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((done) => (timer = setTimeout(done, after, true)));
  const settled = () => false;
  return Promise.race([step.then(settled, settled), late]).finally(() => clearTimeout(timer));
}

/** The frames of one connection, which is opened when it may be. */
async function* seated(
  transport: Transport,
  path: string,
  options: StreamOptions,
  at: Connection,
  stop: AbortController,
): Frames {
  const leave = await at.before?.(stop.signal);
  try {
    const frames = transport.options.streams === "eventsource" ? sourced : fetched;
    const { filter, subscriberId } = options;
    const asked = { entities: at.tables, filter: filter || undefined, subscriber_id: subscriberId || undefined, since: at.cursor || undefined };
    yield* frames(transport, path, parameters(asked, transport.etag), options, stop);
  } finally {
    leave?.();
  }
}

/** Waits; not for longer than the browser is offline, unless the server asked for it. */
async function again(wait: number, isAsked: boolean, signal: AbortSignal | undefined): Promise<void> {
  const stop = new AbortController();
  const end = () => stop.abort();
  if (!isAsked) globalThis.addEventListener?.("online", end, stop);
  signal?.addEventListener("abort", end, stop);
  await sleep(wait, stop.signal).catch(() => {});
  end();
}

type Frames = AsyncGenerator<Frame | "open", void, undefined>;

/** Reads a stream by `fetch`. */
async function* fetched(
  transport: Transport,
  path: string,
  query: URLSearchParams,
  options: StreamOptions,
  stop: AbortController,
): Frames {
  const headers = { Accept: "text/event-stream" };
  const response = await transport.send("GET", path, { query, headers, signal: stop.signal, once: true });
  if (!response.body) throw new TypeError("this fetch has no streams; use \"eventsource\"");
  yield "open";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const quiet = setTimeout(() => stop.abort(), options.silence ?? 60_000);
    const chunk = await reader
      .read()
      .catch((cause: unknown) => {
        throw new GatewrightError({ kind: "network", cause });
      })
      .finally(() => clearTimeout(quiet));
    if (chunk.done) return;
    rest += decoder.decode(chunk.value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const frame = parsed(block);
      if (frame) yield frame;
    }
  }
}

function parsed(block: string): Frame | undefined {
  const frame: Frame = { event: "message", data: "", id: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, name, value = ""] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") frame[name] = value;
  }
  frame.data = data.join("\n");
  return data.length ? frame : undefined;
}

const NAMES = ["ready", "gap", "entity.created", "entity.updated", "entity.deleted"];

/** Reads a stream by `EventSource`, which sends no headers: a ticket names the caller. */
async function* sourced(
  transport: Transport,
  path: string,
  query: URLSearchParams,
  options: StreamOptions,
  stop: AbortController,
): Frames {
  const { tenant, EventSource: Source = EventSource } = transport.options;
  const ticket = await ticketOf(transport, options);
  if (typeof ticket === "string") query.set("ticket", ticket);
  else if (tenant) query.set("tenant", tenant);
  const source = new Source(transport.url(path, query));
  const queue: (Frame | "open")[] = [];
  let isOver = false;
  let wake = () => {};
  const push = (frame: Frame | "open") => {
    queue.push(frame);
    wake();
  };
  for (const event of NAMES) {
    source.addEventListener(event, ({ data, lastEventId: id }: MessageEvent) => push({ event, data, id }));
  }
  const end = () => {
    isOver = true;
    wake();
  };
  let isOpen = false;
  source.onopen = () => {
    isOpen = true;
    push("open");
  };
  // A ticket is good for one connection: another one takes another ticket.
  source.onerror = end;
  stop.signal.addEventListener("abort", end);
  try {
    while (!isOver || queue.length) {
      const frame = queue.shift();
      if (frame) yield frame;
      else await new Promise<void>((done) => (wake = done));
    }
    if (!isOpen && ticket instanceof GatewrightError) throw ticket;
    if (!stop.signal.aborted) throw new GatewrightError({ kind: "network", cause: "the stream ended" });
  } finally {
    source.close();
  }
}

/** A ticket; or why there is none, for an anonymous caller who may read public records. */
async function ticketOf(transport: Transport, options: StreamOptions): Promise<string | GatewrightError> {
  try {
    const { signal } = options;
    return (await transport.json<{ ticket: string }>("POST", transport.auth("stream-ticket"), { signal, body: {} })).ticket;
  } catch (error) {
    if (isKind(error, "unauthenticated")) return error as GatewrightError;
    throw error;
  }
}
