/** What is wrong with one field of a body. */
export interface FieldError {
  /** Absent or empty where it concerns no single field. */
  readonly field?: string;
  /** Which item of a batch, from 0. Absent in other requests. */
  readonly index?: number;
  readonly code: string;
  readonly message: string;
}

/** What every answer with an error has. `code` is for programs, `detail` for people. */
interface Answered<Kind extends string, Status extends number = number> {
  readonly kind: Kind;
  readonly status: Status;
  readonly code: string;
  readonly detail: string;
  /** What is wrong with which fields, and in which item of a batch. */
  readonly errors: readonly FieldError[];
  /** The request's id, which the server's log has too. */
  readonly requestId: string | null;
}

interface Later {
  /** Seconds after which the server wants the next try, if it says so. */
  readonly retryAfter: number | null;
}

/** Why a request failed. `kind` tells the cases apart. */
export type Failure =
  | { readonly kind: "network"; readonly cause: unknown }
  | Answered<"malformed", 400>
  | Answered<"unauthenticated", 401>
  | Answered<"forbidden", 403>
  | Answered<"missing", 404>
  | Answered<"conflict", 409>
  | Answered<"changed", 412>
  | Answered<"too_large", 413>
  | Answered<"invalid", 422>
  | (Answered<"limited", 429> & Later)
  | (Answered<"unavailable", 503> & Later)
  /** Another status from 400 to 499. */
  | Answered<"refused">
  /** Another status from 500 on. */
  | Answered<"broken">;

/** A request that failed. */
export class GatewrightError extends Error {
  override readonly name = "GatewrightError";

  constructor(readonly failure: Failure) {
    super(failure.kind === "network" ? `no answer: ${failure.cause}` : `${failure.status} ${failure.detail}`);
  }
}

/** Whether a request failed in one of these ways. */
export function isKind(error: unknown, ...kinds: Failure["kind"][]): boolean {
  return error instanceof GatewrightError && kinds.includes(error.failure.kind);
}

const KINDS: { [status: number]: string } = {
  400: "malformed",
  401: "unauthenticated",
  403: "forbidden",
  404: "missing",
  409: "conflict",
  412: "changed",
  413: "too_large",
  422: "invalid",
  429: "limited",
  503: "unavailable",
};

interface Problem {
  code?: string;
  detail?: string;
  errors?: FieldError[];
}

/** Reads the failure in a response. The limiter answers in plain text, and proxies in HTML. */
export async function failureOf(response: Response): Promise<Failure> {
  const { status, headers } = response;
  const text = await response.text().catch(() => "");
  let problem: Problem & { results?: { index: number; error?: Problem }[] } = {};
  if (/\bjson\b/.test(headers.get("content-type") ?? "")) {
    try {
      problem = JSON.parse(text) ?? {};
    } catch {
      // Cut off, or no JSON: the status says enough.
    }
  }
  // A batch ends at the first item that fails.
  const failed = problem.results?.find(({ error }) => error);
  if (failed?.error) {
    const { index, error } = failed;
    const { code = "", detail = "", errors = [] } = error;
    const named = errors.length ? errors : [{ field: "", code, message: detail }];
    problem = { ...error, errors: named.map((error) => ({ index, ...error })) };
  }
  return {
    kind: KINDS[status] ?? (status < 500 ? "refused" : "broken"),
    status,
    code: problem.code ?? "",
    detail: problem.detail ?? (/^text\/plain/.test(headers.get("content-type") ?? "") ? text : response.statusText),
    requestId: headers.get("x-request-id"),
    errors: problem.errors ?? [],
    retryAfter: retryAfter(headers.get("retry-after")),
  } as Failure;
}

/** Seconds, or a date. */
function retryAfter(value: string | null): number | null {
  if (!value) return null;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}
