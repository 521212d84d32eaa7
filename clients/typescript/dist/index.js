import { Auth } from "./auth.js";
import { Records } from "./records.js";
import { Transport } from "./transport.js";
export { GatewrightError } from "./failure.js";
export { filter } from "./query.js";
export class Client {
    auth;
    #transport;
    constructor(transport) {
        this.#transport = transport;
        this.auth = new Auth(transport);
    }
    records(path) {
        return new Records(this.#transport, path);
    }
    tenant(tenant) {
        return new Client(this.#transport.in(tenant));
    }
}
export function createClient(options = {}) {
    return new Client(new Transport(options));
}
