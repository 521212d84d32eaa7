export class GatewrightError extends Error {
    failure;
    name = "GatewrightError";
    constructor(failure) {
        super(failure.kind === "network" ? `no answer: ${failure.cause}` : `${failure.status} ${failure.detail}`);
        this.failure = failure;
    }
}
const KINDS = {
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
export async function failureOf(response) {
    const { status, headers } = response;
    const text = await response.text().catch(() => "");
    let problem = {};
    if (/\bjson\b/.test(headers.get("content-type") ?? "")) {
        try {
            problem = JSON.parse(text) ?? {};
        }
        catch {
        }
    }
    return {
        kind: KINDS[status] ?? (status < 500 ? "refused" : "broken"),
        status,
        code: problem.code ?? "",
        detail: problem.detail ?? (/^text\/plain/.test(headers.get("content-type") ?? "") ? text : response.statusText),
        requestId: headers.get("x-request-id"),
        errors: problem.errors ?? [],
        retryAfter: retryAfter(headers.get("retry-after")),
    };
}
function retryAfter(value) {
    if (!value)
        return null;
    const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
    return Number.isFinite(seconds) ? Math.max(0, seconds) : null;
}
