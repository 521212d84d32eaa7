import { type Failure } from "./failure.js";
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
}
/** What every call takes. */
export interface CallOptions {
    signal?: AbortSignal;
}
export interface Sent extends CallOptions {
    /** Is not tried again. */
    once?: boolean;
    query?: URLSearchParams;
    body?: unknown;
    headers?: Record<string, string>;
}
/** What clients of one session share. */
interface Jar {
    readonly cookies: Map<string, string>;
    csrf?: Promise<string>;
}
/** Sends requests: cookies, CSRF tokens, retries and errors. */
export declare class Transport {
    #private;
    readonly options: Options;
    private readonly jar;
    readonly etag: boolean;
    constructor(options: Options, jar?: Jar);
    /** The same server and session for a tenant. */
    in(tenant: string): Transport;
    /** The address below the API's prefix. */
    record(...segments: string[]): string;
    /** The address below the path of the sign-in endpoints. */
    auth(...segments: string[]): string;
    url(path: string, query?: URLSearchParams): string;
    /** The JSON of an answer; `undefined` where it has none. */
    json<T>(method: string, path: string, sent?: Sent): Promise<T>;
    answer<T>(method: string, path: string, sent?: Sent): Promise<{
        body: T;
        headers: Headers;
    }>;
    /** A response that succeeded. Its body is not read yet. */
    send(method: string, path: string, sent?: Sent): Promise<Response>;
}
/** An answer whose keys are in camel or snake case, as `server.json_case` says. */
export type Spelled = {
    [key: string]: unknown;
};
/** The value under a key in camel case or its spelling in snake case. */
export declare function either(answer: Spelled, key: string): unknown;
/** Whether the same request may succeed later. */
export declare function isPassing(failure: Failure): boolean;
/** From a third of a second on, doubled each time up to half a minute, and by chance up to half of it less. */
export declare function backoff(attempt: number): number;
export declare function sleep(wait: number, signal?: AbortSignal): Promise<void>;
export {};
