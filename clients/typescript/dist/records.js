import { GatewrightError } from "./failure.js";
import { parameters } from "./query.js";
import { follow } from "./stream.js";
import { either } from "./transport.js";
export class Records {
    #transport;
    #path;
    constructor(transport, path) {
        this.#transport = transport;
        this.#path = path;
    }
    list(query = {}) {
        const pages = () => this.#pages(query);
        return {
            async *[Symbol.asyncIterator]() {
                for await (const page of pages())
                    yield* page.records;
            },
            async all() {
                const records = [];
                let eventCursor = null;
                for await (const page of pages()) {
                    if (!records.length)
                        ({ eventCursor } = page);
                    records.push(...page.records);
                }
                return { records, eventCursor };
            },
        };
    }
    async page(query = {}) {
        const { body, headers } = await this.#read(this.#at(), query);
        const { data, total, page, limit } = body;
        const [hasMore, eventCursor] = [Boolean(either(body, "hasMore")), headers.get("event-cursor")];
        return { records: data, total, page, limit, hasMore, eventCursor };
    }
    async get(id, view = {}) {
        return (await this.#read(this.#at(id), view)).body.data;
    }
    async find(id, view = {}) {
        try {
            return await this.get(id, view);
        }
        catch (error) {
            if (error instanceof GatewrightError && error.failure.kind === "missing")
                return null;
            throw error;
        }
    }
    create(record, options = {}) {
        return this.#write("POST", this.#at(), { ...options, body: record });
    }
    update(target, changes, options = {}) {
        return this.#write("PATCH", this.#at(idOf(target)), { ...conditional(target, options), body: changes });
    }
    async modify(id, change, { tries = 5, ...options } = {}) {
        for (;;) {
            const path = this.#at(id);
            const record = await this.#write("GET", path, options);
            try {
                return await this.update({ ...record, id }, await change(record), options);
            }
            catch (error) {
                tries -= 1;
                if (tries < 1 || !(error instanceof GatewrightError) || error.failure.kind !== "changed")
                    throw error;
            }
        }
    }
    async delete(target, options = {}) {
        await this.#transport.send("DELETE", this.#at(idOf(target)), conditional(target, options));
    }
    restore(target, options = {}) {
        return this.#write("POST", this.#at(idOf(target), "_restore"), options);
    }
    createMany(records, options) {
        return this.#batch("POST", { items: records }, options);
    }
    updateMany(changes, options) {
        return this.#batch("PATCH", { items: changes }, options);
    }
    async deleteMany(ids, options) {
        await this.#batch("DELETE", { ids }, options);
    }
    events(options = {}) {
        return follow(this.#transport, this.#at("_events"), options);
    }
    async *#pages(query) {
        let cursor = "";
        do {
            const asked = { ...query, cursor };
            const { body, headers } = await this.#read(this.#at(), asked);
            yield { records: body.data, eventCursor: headers.get("event-cursor") };
            ({ cursor } = body);
        } while (cursor);
    }
    #read(path, asked) {
        const sent = { query: parameters(asked, this.#transport.etag) };
        if (asked.signal)
            sent.signal = asked.signal;
        return this.#transport.answer("GET", path, sent);
    }
    async #write(method, path, sent) {
        const { body, headers } = await this.#transport.answer(method, path, sent);
        const etag = headers.get("etag");
        return this.#transport.etag && etag ? { ...body.data, _etag: etag.replace(/^W\//, "") } : body.data;
    }
    async #batch(method, body, options = {}) {
        const { results } = await this.#transport.json(method, this.#at("_batch"), {
            ...options,
            body,
        });
        return results.map(({ data }) => data);
    }
    #at(...segments) {
        return this.#transport.record(this.#path, ...segments);
    }
}
function idOf(target) {
    const id = typeof target === "string" ? target : target.id;
    if (!id || id === "." || id === "..")
        throw new TypeError("a record's id is missing");
    return id;
}
function conditional(target, { ifMatch, ...options }) {
    const tag = ifMatch === undefined && typeof target !== "string" ? target._etag : ifMatch;
    return tag ? { ...options, headers: { "If-Match": tag } } : options;
}
