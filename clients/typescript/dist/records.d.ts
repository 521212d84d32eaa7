import { type StreamEvent, type StreamOptions } from "./stream.js";
import { type CallOptions, type Transport } from "./transport.js";
import type { EntityTypes, Included, Page, Query, Snapshot, Stored, View } from "./types.js";
/** A record to change: its id, or the record itself, which makes the change conditional if it has its entity tag. */
export type Target = string | {
    readonly id: string;
    readonly _etag?: string;
};
export interface ChangeOptions extends CallOptions {
    /** The entity tag that the record must still have; `null` changes it whatever it is. */
    ifMatch?: string | null;
}
type Shown<S, E extends EntityTypes, F extends keyof E["record"], I extends keyof E["relations"]> = Stored<Pick<E["record"], F>> & Included<S, E["relations"], I>;
/** A list, read page by page while it is walked. */
export interface List<Record> extends AsyncIterable<Record> {
    /** All records, and from where a stream misses nothing that they do not show. */
    all(): Promise<Snapshot<Record>>;
}
/** The records of one entity. */
export declare class Records<S, E extends EntityTypes> {
    #private;
    constructor(transport: Transport, path: string);
    /** The records that the caller may read, in the order of creation unless sorted. */
    list<F extends keyof E["record"] = keyof E["record"], I extends keyof E["relations"] = never>(query?: Query<E["record"], F, I> & CallOptions): List<Shown<S, E, F, I>>;
    /** One page by its number, from 1, with the total. */
    page<F extends keyof E["record"] = keyof E["record"], I extends keyof E["relations"] = never>(query?: Query<E["record"], F, I> & CallOptions & {
        page?: number;
    }): Promise<Page<Shown<S, E, F, I>>>;
    get<F extends keyof E["record"] = keyof E["record"], I extends keyof E["relations"] = never>(id: string, view?: View<E["record"], F, I> & CallOptions): Promise<Shown<S, E, F, I>>;
    /** The same; null if there is none that the caller may read. */
    find<F extends keyof E["record"] = keyof E["record"], I extends keyof E["relations"] = never>(id: string, view?: View<E["record"], F, I> & CallOptions): Promise<Shown<S, E, F, I> | null>;
    create(record: E["create"], options?: CallOptions): Promise<Stored<E["record"]>>;
    /**
     * Changes the fields that are named. Given a record with its entity tag, it changes that version alone: if somebody else has changed it
     * meanwhile, the failure is `changed` and nothing is written.
     */
    update(target: Target, changes: E["update"], options?: ChangeOptions): Promise<Stored<E["record"]>>;
    /** Reads a record, changes it as `change` says, and reads it again if somebody else was faster, at most so many times. */
    modify(id: string, change: (record: Stored<E["record"]>) => E["update"] | Promise<E["update"]>, { tries, ...options }?: CallOptions & {
        tries?: number;
    }): Promise<Stored<E["record"]>>;
    delete(target: Target, options?: ChangeOptions): Promise<void>;
    /** Takes a record out of the trash. */
    restore(this: E extends {
        trash: true;
    } ? this : never, target: Target, options?: CallOptions): Promise<Stored<E["record"]>>;
    /** Creates many records, all or none. */
    createMany(records: readonly E["create"][], options?: CallOptions): Promise<E["record"][]>;
    /** Changes many records, all or none. */
    updateMany(changes: readonly (E["update"] & {
        readonly id: string;
    })[], options?: CallOptions): Promise<E["record"][]>;
    /** Deletes many records, all or none. */
    deleteMany(ids: readonly string[], options?: CallOptions): Promise<void>;
    /**
     * Follows what is written, from now on or after `since`. It ends when `signal` is aborted, and throws when the caller would be refused.
     */
    events(options?: StreamOptions): AsyncGenerator<StreamEvent<Stored<E["record"]>>, void, undefined>;
}
export {};
