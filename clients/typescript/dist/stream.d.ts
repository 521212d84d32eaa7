import { type Failure } from "./failure.js";
import { type CallOptions, type Transport } from "./transport.js";
/** What a stream tells. */
export type StreamEvent<Record> = 
/** The stream is open: what follows is live, after what was missed. */
{
    readonly type: "open";
}
/** The position to resume from. Servers without an event log have none. */
 | {
    readonly type: "ready";
    readonly cursor: string;
} | ({
    readonly type: "entity.created" | "entity.updated";
    readonly record: Record;
} & Told)
/** The record as it last was, or its `id` alone if the caller may no longer read it. */
 | ({
    readonly type: "entity.deleted";
    readonly record: Partial<Record> & {
        readonly id: string;
    };
} & Told)
/** Events may be missing: read the list again. Live events follow. */
 | {
    readonly type: "gap";
    readonly reason: "expired" | "overflow" | "reconnected";
    readonly cursor: string | null;
}
/** The connection is lost. The next try is after so many milliseconds, or when the browser is online again. */
 | {
    readonly type: "offline";
    readonly failure: Failure | null;
    readonly wait: number;
};
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
}
/**
 * Follows a table until `signal` is aborted, the loop is left or the caller would be refused, which throws. A lost connection is opened
 * again where it broke off.
 */
export declare function follow<Record>(transport: Transport, path: string, options: StreamOptions): AsyncGenerator<StreamEvent<Record>, void, undefined>;
export {};
