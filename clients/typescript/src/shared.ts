import { GatewrightError } from "./failure.js";
import { follow, isLate, once, type Connection, type StreamEvent, type StreamOptions } from "./stream.js";
import { backoff, isPassing, sleep, type Transport } from "./transport.js";

/**
 * What the tabs of one stream tell each other. One of them leads: it holds the lock and the connection, and tells the others each event. The
 * others ask to be let in, each with the position that it has. The leader then opens its connection again at the lowest of these positions,
 * so that none misses anything, and each leaves out what it had.
 */
type Message =
  /** The sender leads from now on: ask again. */
  | { readonly lead: true; readonly from: string }
  /** The sender wants to be let in. */
  | { readonly join: string; readonly since: string | null }
  /** The connection is at this position, and from here on the named ones hear everything. */
  | { readonly admitted: string[]; readonly cursor: string | null; readonly from: string }
  | { readonly event: StreamEvent<unknown>; readonly from: string };

/** The most events that wait for a loop that does not take them. */
const MOST = 10_000;

/** Follows a table, by a connection that the tabs of a browser share where they can. */
export async function* events<Record>(
  transport: Transport,
  path: string,
  options: StreamOptions,
): AsyncGenerator<StreamEvent<Record>, void, undefined> {
  const at: Connection = { cursor: options.since ?? null };
  if (!isShared(transport)) {
    if (hasLocks()) at.before = (signal) => seat(transport, signal);
    return yield* follow<Record>(transport, path, options, at);
  }
  const { locks } = navigator;
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
  const name = await named(transport, path, options, who);
  const me = crypto.randomUUID();
  const isNew = once();
  const queue: StreamEvent<Record>[] = [];
  const over = new AbortController();
  let failed: { error: unknown } | undefined;
  let wake = () => {};
  /** Who lets this one in; empty before. */
  let leader = "";
  let asked = "";
  let leads = false;
  let isUp = false;

  const take = (event: StreamEvent<Record>) => {
    if (("id" in event && !isNew(event.id)) || (event.type === "open" && isUp)) return;
    isUp = event.type === "open" || (isUp && event.type !== "offline");
    if ("cursor" in event) at.cursor = event.cursor ?? at.cursor;
    if (queue.length >= MOST) queue.splice(0, MOST, { type: "gap", reason: "overflow", cursor: at.cursor });
    queue.push(event);
    wake();
  };
  const channel = new BroadcastChannel(name);
  const post = (message: Message) => channel.postMessage(message);
  const join = () => {
    leader = "";
    asked = crypto.randomUUID();
    post({ join: asked, since: at.cursor });
  };
  const follower = (message: Message) => {
    if ("lead" in message) join();
    else if ("admitted" in message && message.admitted.includes(asked)) {
      leader = message.from;
      take({ type: "open" });
      if (message.cursor && !at.cursor) take({ type: "ready", cursor: message.cursor });
    } else if ("event" in message && message.from === leader) take(message.event as StreamEvent<Record>);
    // Nobody is let in before the connection is open: why it is not, all may know.
    else if ("event" in message && ["stalled", "offline"].includes(message.event.type)) take(message.event as StreamEvent<Record>);
  };
  channel.onmessage = ({ data }: MessageEvent<Message>) => follower(data);

  /** Holds the connection until this one leaves. */
  const lead = async () => {
    leads = true;
    const waiting = new Map<string, string | null>();
    let isOpen = false;
    let again: ReturnType<typeof setTimeout> | undefined;
    const admit = () => {
      if (waiting.size) post({ admitted: [...waiting.keys()], cursor: at.cursor, from: me });
      waiting.clear();
    };
    // What they have already is told again, and they leave it out.
    const reopen = () => {
      again = undefined;
      for (const since of waiting.values()) at.cursor = lower(at.cursor, since);
      isOpen = false;
      at.reopen?.();
    };
    channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (!("join" in data)) return;
      waiting.set(data.join, data.since);
      if (isOpen && !data.since && ![...waiting.values()].some(Boolean)) admit();
      else again ??= setTimeout(reopen, 20);
    };
    at.before = async (signal) => {
      if ((await transport.who()) !== who) throw changed();
      return seat(transport, signal);
    };
    post({ lead: true, from: me });
    const stopped = { ...options, signal: over.signal };
    try {
      for await (const event of follow<Record>(transport, path, stopped, at)) {
        if (event.type === "open") {
          isOpen = true;
          if (!again) admit();
        }
        isOpen &&= event.type !== "offline";
        post({ event: plain(event), from: me });
        take(event);
      }
    } finally {
      clearTimeout(again);
    }
  };

  const end = () => {
    over.abort();
    wake();
  };
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted) end();
  join();
  const held = locks
    .request(name, { signal: over.signal }, lead)
    .catch((error: unknown) => {
      if (!over.signal.aborted) failed = { error };
    })
    .finally(end);
  const late = setTimeout(() => leader || leads || take({ type: "stalled", after: stalled }), stalled);
  try {
    for (;;) {
      const event = queue.shift();
      if (event) {
        clearTimeout(late);
        yield event;
      } else if (over.signal.aborted) break;
      else await new Promise<void>((done) => (wake = done));
    }
    if (failed && !signal?.aborted) throw failed.error;
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", end);
    end();
    await held;
    channel.close();
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
  const bytes = new TextEncoder().encode(JSON.stringify(parts.map((part) => part ?? null)));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return `gatewright:${[...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The earlier of two positions; one that cannot be compared is the server's to judge. */
function lower(a: string | null, b: string | null): string | null {
  if (!a || !b) return a ?? b;
  const [[log, at = ""], [other, otherAt = ""]] = [a.split("-"), b.split("-")] as [string[], string[]];
  if (log !== other) return b;
  return at.length < otherAt.length || (at.length === otherAt.length && at < otherAt) ? a : b;
}

/** Takes one of the places that a browser has for streams to one server, and returns what gives it back. */
async function seat(transport: Transport, signal: AbortSignal): Promise<() => void> {
  const { origin } = new URL(transport.url("/"), location.href);
  const isMultiplexed = performance
    .getEntries()
    .some((entry) => entry.name.startsWith(origin) && /^h[23]/.test((entry as PerformanceResourceTiming).nextHopProtocol ?? ""));
  if (isMultiplexed) return () => {};
  const others = new AbortController();
  const abort = () => others.abort();
  signal.addEventListener("abort", abort, { once: true });
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
  signal.removeEventListener("abort", abort);
  return leave;
}

/** Another account is signed in than the one whose stream this is. */
function changed(): GatewrightError {
  const detail = "another account is signed in";
  const code = "session_changed";
  return new GatewrightError({ kind: "unauthenticated", status: 401, code, detail, errors: [], requestId: null });
}

/** An event that another tab can be told: not everything that a `fetch` throws can be copied. */
function plain<Record>(event: StreamEvent<Record>): StreamEvent<Record> {
  if (event.type !== "offline" || event.failure?.kind !== "network") return event;
  return { ...event, failure: { kind: "network", cause: String(event.failure.cause) } };
}
