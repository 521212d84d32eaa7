/** What is wrong with one field of a body. */
export interface FieldError {
    readonly field: string;
    readonly code: string;
    readonly message: string;
}
/** What every answer with an error has. `code` is for programs, `detail` for people. */
interface Answered<Kind extends string, Status extends number = number> {
    readonly kind: Kind;
    readonly status: Status;
    readonly code: string;
    readonly detail: string;
    /** The request's id, which the server's log has too. */
    readonly requestId: string | null;
}
interface Later {
    /** Seconds after which the server wants the next try, if it says so. */
    readonly retryAfter: number | null;
}
/** Why a request failed. `kind` tells the cases apart. */
export type Failure = {
    readonly kind: "network";
    readonly cause: unknown;
} | Answered<"malformed", 400> | Answered<"unauthenticated", 401> | Answered<"forbidden", 403> | Answered<"missing", 404> | Answered<"conflict", 409> | Answered<"changed", 412> | Answered<"too_large", 413> | (Answered<"invalid", 422> & {
    readonly errors: readonly FieldError[];
}) | (Answered<"limited", 429> & Later) | (Answered<"unavailable", 503> & Later)
/** Another status from 400 to 499. */
 | Answered<"refused">
/** Another status from 500 on. */
 | Answered<"broken">;
/** A request that failed. */
export declare class GatewrightError extends Error {
    readonly failure: Failure;
    readonly name = "GatewrightError";
    constructor(failure: Failure);
}
/** Reads the failure that a response tells of. The limiter answers in plain text, and proxies in HTML. */
export declare function failureOf(response: Response): Promise<Failure>;
export {};
