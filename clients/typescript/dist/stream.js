import { GatewrightError } from "./failure.js";
import { backoff, either, isPassing, sleep } from "./transport.js";
const REMEMBERED = 1_000;
export async function* follow(transport, path, options) {
    const { signal } = options;
    const seen = new Set();
    let cursor = options.since ?? null;
    let wasOpen = false;
    for (let attempt = 0; !signal?.aborted; attempt++) {
        let failure = null;
        const stop = new AbortController();
        const abort = () => stop.abort(signal?.reason);
        signal?.addEventListener("abort", abort, { once: true });
        try {
            const frames = transport.options.streams === "eventsource" ? sourced : fetched;
            for await (const frame of frames(transport, path, query(transport, options, cursor), options, stop)) {
                if (frame === "open") {
                    attempt = 0;
                    yield { type: "open" };
                    if (wasOpen && !cursor)
                        yield { type: "gap", reason: "reconnected", cursor };
                    wasOpen = true;
                    continue;
                }
                cursor = frame.id || cursor;
                const data = JSON.parse(frame.data);
                if (frame.event === "ready") {
                    yield { type: "ready", cursor: data.cursor };
                }
                else if (frame.event === "gap") {
                    yield { type: "gap", reason: data.reason, cursor };
                }
                else if (frame.event.startsWith("entity.") && !seen.has(data.id)) {
                    if (data.id)
                        remember(seen, data.id);
                    const tenant = either(data.data, "tenantId") ?? null;
                    const type = frame.event;
                    yield { type, record: data.data.record, id: data.id ?? null, cursor: frame.id || null, tenant };
                }
            }
        }
        catch (error) {
            if (signal?.aborted)
                return;
            if (!(error instanceof GatewrightError) || !isPassing(error.failure))
                throw error;
            failure = error.failure;
        }
        finally {
            signal?.removeEventListener("abort", abort);
            stop.abort();
        }
        if (signal?.aborted)
            return;
        const wanted = failure && "retryAfter" in failure && failure.retryAfter !== null ? failure.retryAfter * 1000 : 0;
        const wait = Math.max(wanted, backoff(attempt));
        yield { type: "offline", failure, wait };
        await again(wait, wanted > 0, signal);
    }
}
function query(transport, options, cursor) {
    const query = new URLSearchParams();
    if (options.filter)
        query.set("filter", options.filter);
    if (options.subscriberId)
        query.set("subscriber_id", options.subscriberId);
    if (transport.etag)
        query.set("etag", "true");
    if (cursor)
        query.set("since", cursor);
    return query;
}
function remember(seen, id) {
    seen.add(id);
    if (seen.size > REMEMBERED)
        for (const first of seen)
            return void seen.delete(first);
}
async function again(wait, isAsked, signal) {
    const events = "addEventListener" in globalThis && !isAsked ? globalThis : undefined;
    let online = () => { };
    const back = new Promise((done) => (online = done));
    events?.addEventListener("online", online);
    const stop = new AbortController();
    const abort = () => stop.abort();
    signal?.addEventListener("abort", abort, { once: true });
    await Promise.race([sleep(wait, stop.signal).catch(() => { }), back]);
    stop.abort();
    signal?.removeEventListener("abort", abort);
    events?.removeEventListener("online", online);
}
async function* fetched(transport, path, query, options, stop) {
    const headers = { Accept: "text/event-stream" };
    const response = await transport.send("GET", path, { query, headers, signal: stop.signal, once: true });
    if (!response.body)
        throw new TypeError("this fetch has no streams; set the option streams to \"eventsource\"");
    yield "open";
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
        const quiet = setTimeout(() => stop.abort(), options.silence ?? 60_000);
        const chunk = await reader
            .read()
            .catch((cause) => {
            throw new GatewrightError({ kind: "network", cause });
        })
            .finally(() => clearTimeout(quiet));
        if (chunk.done)
            return;
        rest += decoder.decode(chunk.value, { stream: true });
        const blocks = rest.split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) {
            const frame = parsed(block);
            if (frame)
                yield frame;
        }
    }
}
function parsed(block) {
    const frame = { event: "message", data: "", id: "" };
    const data = [];
    for (const line of block.split("\n")) {
        const [, name, value = ""] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
        if (name === "data")
            data.push(value);
        else if (name === "event" || name === "id")
            frame[name] = value;
    }
    frame.data = data.join("\n");
    return data.length ? frame : undefined;
}
const NAMES = ["ready", "gap", "entity.created", "entity.updated", "entity.deleted"];
async function* sourced(transport, path, query, options, stop) {
    const { tenant, EventSource: Source = EventSource } = transport.options;
    const ticket = await ticketOf(transport, options);
    if (typeof ticket === "string")
        query.set("ticket", ticket);
    else if (tenant)
        query.set("tenant", tenant);
    const source = new Source(transport.url(path, query));
    const queue = [];
    let isOver = false;
    let wake = () => { };
    const push = (frame) => {
        queue.push(frame);
        wake();
    };
    for (const event of NAMES) {
        source.addEventListener(event, ({ data, lastEventId: id }) => push({ event, data, id }));
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
    source.onerror = end;
    stop.signal.addEventListener("abort", end);
    try {
        while (!isOver || queue.length) {
            const frame = queue.shift();
            if (frame)
                yield frame;
            else
                await new Promise((done) => (wake = done));
        }
        if (!isOpen && ticket instanceof GatewrightError)
            throw ticket;
        if (!stop.signal.aborted)
            throw new GatewrightError({ kind: "network", cause: "the stream ended" });
    }
    finally {
        source.close();
    }
}
async function ticketOf(transport, options) {
    try {
        const signal = options.signal ? { signal: options.signal } : {};
        const answer = await transport.json("POST", transport.auth("stream-ticket"), { ...signal, body: {} });
        return String(either(answer, "ticket"));
    }
    catch (error) {
        if (error instanceof GatewrightError && error.failure.kind === "unauthenticated")
            return error;
        throw error;
    }
}
