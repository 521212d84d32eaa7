import { GatewrightError, failureOf, isKind, type Failure } from "./failure.js";

/** How a client reaches its server. */
export interface Options {
  /** Where the server is, such as `https://api.example.com`. In a browser the page's own origin if left out. */
  url?: string;
  /** The server's `api_prefix`, such as `/api`. Empty if left out. */
  prefix?: string;
  /** The server's `auth.base_path`. `/auth` if left out. */
  authPath?: string;
  /** An API token. With one, no cookies are sent. */
  token?: string;
  /** The tenant of every request. */
  tenant?: string;
  /** The server's `tenancy.header`. `X-Tenant-ID` if left out. */
  tenantHeader?: string;
  /** Whether records carry their entity tags under `_etag`, so that changes can be conditional. True if left out. */
  etag?: boolean;
  /** How often a request is tried again that may be. 2 if left out. */
  retries?: number;
  /** The longest time to wait before the next try, in milliseconds. 30,000 if left out. */
  longestWait?: number;
  /** Another `fetch`. */
  fetch?: typeof fetch;
  /**
   * How streams are read. `"eventsource"` is for runtimes whose `fetch` shows a body only when it is complete: it opens an
   * `EventSource` with a ticket in place of credentials.
   */
  streams?: "fetch" | "eventsource";
  /** Another `EventSource`. */
  EventSource?: typeof EventSource;
  /**
   * Whether the tabs of a browser share one stream for each table and filter. True if left out, unless there is another `fetch` or
   * `EventSource`.
   */
  shared?: boolean;
  /**
   * The most streams that a browser holds to the server over HTTP/1.1, for all tabs together. 5 if left out: a browser opens at most six
   * connections, and ordinary requests need one.
   */
  maxStreams?: number;
}

/** What every call takes. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
}

export interface Sent extends CallOptions {
  /** Is not tried again. */
  once?: boolean;
  query?: URLSearchParams;
  body?: unknown;
  /** Bytes in place of a body. */
  bytes?: Blob | undefined;
  headers?: Record<string, string>;
}

/** What clients of one session share. */
interface Jar {
  readonly cookies: Map<string, string>;
  /** The token for changes; empty if the server wants none. */
  csrf?: Promise<string>;
  /** Who was signed in, and when this was asked. */
  who?: { readonly asked: number; readonly answer: Promise<string> };
}

/** Milliseconds for which the answer who is signed in is believed. Any other request than a reading one ends it. */
const BELIEVED = 2_000;

/** Sends requests: cookies, CSRF tokens, retries and errors. */
export class Transport {
  readonly etag: boolean;

  constructor(
    readonly options: Options,
    private readonly jar: Jar = { cookies: new Map() },
  ) {
    this.etag = options.etag ?? true;
  }

  /** The same server and session for a tenant. */
  in(tenant: string): Transport {
    return new Transport({ ...this.options, tenant }, this.jar);
  }

  /** The address below the API's prefix. */
  record(...segments: string[]): string {
    return [this.options.prefix ?? "", ...segments.map(encodeURIComponent)].join("/");
  }

  /** The address below the path of the sign-in endpoints. */
  auth(...segments: string[]): string {
    return [this.options.authPath ?? "/auth", ...segments].join("/");
  }

  url(path: string, query?: URLSearchParams): string {
    const text = query?.toString();
    return `${(this.options.url ?? "").replace(/\/+$/, "")}${path}${text ? `?${text}` : ""}`;
  }

  /** The JSON of an answer, or its text; `undefined` where it has none. */
  async json<T>(method: string, path: string, sent: Sent = {}): Promise<T> {
    return (await this.answer<T>(method, path, sent)).body;
  }

  async answer<T>(method: string, path: string, sent: Sent = {}): Promise<{ body: T; headers: Headers }> {
    const response = await this.send(method, path, sent);
    const text = await response.text().catch((cause: unknown) => {
      // A body that breaks off is a failure like no answer at all.
      sent.signal?.throwIfAborted();
      throw new GatewrightError({ kind: "network", cause });
    });
    const isJson = /\bjson\b/.test(response.headers.get("content-type") ?? "");
    return { body: (text ? (isJson ? JSON.parse(text) : text) : undefined) as T, headers: response.headers };
  }

  /** Whose requests these are: the id of the account; empty for nobody, and with a token. */
  who(): Promise<string> {
    if (this.options.token) return Promise.resolve("");
    const { who } = this.jar;
    if (who && Date.now() - who.asked < BELIEVED) return who.answer;
    const answer = this.json<{ user: { id: string } }>("GET", this.auth("me")).then(
      ({ user }) => user.id,
      (error: unknown) => {
        delete this.jar.who;
        // Nobody is signed in, or nobody can be.
        if (isKind(error, "unauthenticated", "missing")) return "";
        throw error;
      },
    );
    this.jar.who = { asked: Date.now(), answer };
    return answer;
  }

  /** A response that succeeded. Its body is not read yet. */
  async send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    if (method !== "GET") delete this.jar.who;
    const { longestWait = 30_000 } = this.options;
    const retries = sent.once ? 0 : (this.options.retries ?? 2);
    let renewed = false;
    const isGuarded = method !== "GET" && !this.options.token;
    for (let attempt = 0; ; attempt++) {
      if (isGuarded) await (this.jar.csrf ??= this.#token());
      const failure = await this.#once(method, path, sent);
      // What was asked meanwhile may be from before.
      if (method !== "GET") delete this.jar.who;
      if (failure instanceof Response) {
        // Who signs in or out gets another token; a ticket for a stream changes nothing.
        if (isGuarded && path.startsWith(this.auth("")) && !path.endsWith("/stream-ticket")) delete this.jar.csrf;
        return failure;
      }
      if (isGuarded && failure.kind === "forbidden" && failure.code === "csrf" && !renewed) {
        // Somebody signed in or out in another tab.
        renewed = true;
        attempt -= 1;
        delete this.jar.csrf;
        continue;
      }
      const wait = pause(failure, method, attempt);
      if (wait === undefined || wait > longestWait || attempt >= retries) throw new GatewrightError(failure);
      await sleep(wait, sent.signal);
    }
  }

  async #once(method: string, path: string, sent: Sent): Promise<Response | Failure> {
    const { token, tenant, tenantHeader = "X-Tenant-ID" } = this.options;
    const headers: Record<string, string> = { ...sent.headers };
    const { bytes, signal = null } = sent;
    const body = bytes ?? (JSON.stringify(sent.body) as string | undefined) ?? null;
    const init: RequestInit = { method, headers, body, signal, credentials: token ? "omit" : "include", redirect: "error" };
    if (body) headers["Content-Type"] = `application/${bytes ? "offset+octet-stream" : "json"}`;
    if (token) headers["Authorization"] = `Bearer ${token}`;
    if (tenant) headers[tenantHeader] = tenant;
    const csrf = method !== "GET" && !token && (await this.jar.csrf);
    if (csrf) headers["X-CSRF-Token"] = csrf;
    // Browsers keep cookies themselves, and show none.
    if (!token && this.jar.cookies.size) {
      headers["Cookie"] = [...this.jar.cookies].map((cookie) => cookie.join("=")).join("; ");
    }
    let response: Response;
    try {
      response = await (this.options.fetch ?? fetch)(this.url(path, sent.query), init);
    } catch (cause) {
      signal?.throwIfAborted();
      return { kind: "network", cause };
    }
    if (!token) this.#keep(response.headers.getSetCookie?.() ?? []);
    return response.ok ? response : failureOf(response);
  }

  #keep(cookies: string[]): void {
    for (const cookie of cookies) {
      const [, name = "", value = ""] = /^([^=;]*)=([^;]*)/.exec(cookie) ?? [];
      if (/;\s*max-age=(0|-)/i.test(cookie) || !value) this.jar.cookies.delete(name);
      else this.jar.cookies.set(name, value);
    }
  }

  /** Asks for the token before the first change, so that none is refused to learn of it. All that wait for it share the request. */
  #token(): Promise<string> {
    return this.json<Spelled | undefined>("GET", this.auth("csrf")).then(
      (answer) => String(either(answer ?? {}, "csrfToken") ?? ""),
      (error: unknown) => {
        // A server without accounts, or an older one that wants no token.
        if (isKind(error, "missing")) return "";
        delete this.jar.csrf;
        throw error;
      },
    );
  }
}

/** An answer whose keys are in camel or snake case, as `server.json_case` says. */
export type Spelled = { [key: string]: unknown };

/** The value under a key in camel case or its spelling in snake case. */
export function either(answer: Spelled, key: string): unknown {
  return answer[key] ?? answer[key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}

/** An answer with all its keys in camel case. Ids and other values stay. */
export function camel(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(camel);
  if (!answer || typeof answer !== "object") return answer;
  const spelled = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(answer).map(([key, value]) => [spelled(key), camel(value)]));
}

/** Milliseconds to wait before the next try; `undefined` if there is none. */
function pause(failure: Failure, method: string, attempt: number): number | undefined {
  // Refused before anything was done.
  if (failure.kind === "limited") return failure.retryAfter === null ? undefined : failure.retryAfter * 1000;
  // Whether a change was made is not known: only reading is tried again.
  if (method !== "GET") return undefined;
  if (failure.kind === "unavailable" && failure.retryAfter !== null) return failure.retryAfter * 1000;
  return isPassing(failure) ? backoff(attempt) : undefined;
}

/** Whether the same request may succeed later. */
export function isPassing(failure: Failure): boolean {
  return ["network", "limited", "unavailable", "broken"].includes(failure.kind);
}

/** From a third of a second on, doubled each time up to half a minute, and by chance up to half of it less. */
export function backoff(attempt: number): number {
  return Math.min(30_000, 300 * 2 ** attempt) * (1 - Math.random() / 2);
}

export function sleep(wait: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const stop = () => {
      clearTimeout(timer);
      fail(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      done();
    }, wait);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
