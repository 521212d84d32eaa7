import { GatewrightError, failureOf } from "./failure.js";
export class Transport {
    options;
    jar;
    etag;
    constructor(options, jar = { cookies: new Map() }) {
        this.options = options;
        this.jar = jar;
        this.etag = options.etag ?? true;
    }
    in(tenant) {
        return new Transport({ ...this.options, tenant }, this.jar);
    }
    record(...segments) {
        return [this.options.prefix ?? "", ...segments.map(encodeURIComponent)].join("/");
    }
    auth(...segments) {
        return [this.options.authPath ?? "/auth", ...segments].join("/");
    }
    url(path, query) {
        const text = query?.toString();
        return `${(this.options.url ?? "").replace(/\/+$/, "")}${path}${text ? `?${text}` : ""}`;
    }
    async json(method, path, sent = {}) {
        return (await this.answer(method, path, sent)).body;
    }
    async answer(method, path, sent = {}) {
        const response = await this.send(method, path, sent);
        const text = await guarded(response.text(), sent.signal);
        return { body: (text ? JSON.parse(text) : undefined), headers: response.headers };
    }
    async send(method, path, sent = {}) {
        const { longestWait = 30_000 } = this.options;
        const retries = sent.once ? 0 : (this.options.retries ?? 2);
        let renewed = false;
        for (let attempt = 0;; attempt++) {
            const failure = await this.#once(method, path, sent);
            if (failure instanceof Response)
                return failure;
            if (failure.kind === "forbidden" && failure.code === "csrf" && !renewed && !this.options.token) {
                renewed = true;
                attempt -= 1;
                delete this.jar.csrf;
                await this.#token(sent.signal);
                continue;
            }
            const wait = pause(failure, method, attempt);
            if (wait === undefined || wait > longestWait || attempt >= retries)
                throw new GatewrightError(failure);
            await sleep(wait, sent.signal);
        }
    }
    async #once(method, path, sent) {
        const { token, tenant, tenantHeader = "X-Tenant-ID" } = this.options;
        const headers = { ...sent.headers };
        const init = { method, headers, credentials: token ? "omit" : "include", redirect: "error" };
        if (sent.signal)
            init.signal = sent.signal;
        if (sent.body !== undefined) {
            headers["Content-Type"] = "application/json";
            init.body = JSON.stringify(sent.body);
        }
        if (token)
            headers["Authorization"] = `Bearer ${token}`;
        if (tenant)
            headers[tenantHeader] = tenant;
        if (method !== "GET" && this.jar.csrf)
            headers["X-CSRF-Token"] = await this.jar.csrf;
        if (!token && this.jar.cookies.size) {
            headers["Cookie"] = [...this.jar.cookies].map((cookie) => cookie.join("=")).join("; ");
        }
        let response;
        try {
            response = await (this.options.fetch ?? fetch)(this.url(path, sent.query), init);
        }
        catch (cause) {
            sent.signal?.throwIfAborted();
            return { kind: "network", cause };
        }
        if (!token)
            this.#keep(response.headers.getSetCookie?.() ?? []);
        return response.ok ? response : failureOf(response);
    }
    #keep(cookies) {
        for (const cookie of cookies) {
            const [, name = "", value = ""] = /^([^=;]*)=([^;]*)/.exec(cookie) ?? [];
            if (/;\s*max-age=(0|-)/i.test(cookie) || !value)
                this.jar.cookies.delete(name);
            else
                this.jar.cookies.set(name, value);
        }
    }
    async #token(signal) {
        const asked = this.json("GET", this.auth("csrf"), signal ? { signal } : {});
        this.jar.csrf = asked.then((answer) => String(either(answer, "csrfToken")));
        await this.jar.csrf.catch((error) => {
            delete this.jar.csrf;
            throw error;
        });
    }
}
export function either(answer, key) {
    return answer[key] ?? answer[key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)];
}
function pause(failure, method, attempt) {
    if (failure.kind === "limited")
        return failure.retryAfter === null ? undefined : failure.retryAfter * 1000;
    if (method !== "GET")
        return undefined;
    if (failure.kind === "unavailable" && failure.retryAfter !== null)
        return failure.retryAfter * 1000;
    return isPassing(failure) ? backoff(attempt) : undefined;
}
export function isPassing(failure) {
    return ["network", "limited", "unavailable", "broken"].includes(failure.kind);
}
export function backoff(attempt) {
    return Math.min(30_000, 300 * 2 ** attempt) * (1 - Math.random() / 2);
}
export function sleep(wait, signal) {
    return new Promise((done, fail) => {
        const stop = () => {
            clearTimeout(timer);
            fail(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", stop);
            done();
        }, wait);
        if (signal?.aborted)
            stop();
        signal?.addEventListener("abort", stop, { once: true });
    });
}
async function guarded(body, signal) {
    try {
        return await body;
    }
    catch (cause) {
        signal?.throwIfAborted();
        throw new GatewrightError({ kind: "network", cause });
    }
}
