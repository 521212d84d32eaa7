// The module "gatewright", and the interfaces of the web that functions have. It is evaluated once, before the first function, and is
// part of the memory that each call starts with. `native` is the server's synchronous part; it is out of reach for functions.

const native = globalThis.native;
delete globalThis.native;

// What a call has, set by `start`.
let isEvaluating = true;
let random = null;
let inTransaction = false;
let nextId = 1;
let requests = [];
const waiting = new Map();
const lines = [];
let lineBytes = 0;
let isFull = false;
let outcome = null;

const LINES = 1000;
const LINE_BYTES = 65536;

// What the server does for a function, later.
const ask = (operation, ...rest) =>
  new Promise((resolve, reject) => {
    if (isEvaluating) throw new TypeError(`${operation}: while a file is evaluated, nothing can be asked for`);
    const id = nextId++;
    waiting.set(id, { resolve, reject });
    requests.push([id, operation, rest]);
  });

class HostError extends Error {
  constructor({ status, code, message, errors }) {
    super(message);
    this.name = "GatewrightError";
    this.status = status;
    this.code = code;
    if (errors) this.errors = errors;
  }
}

class Refusal extends Error {
  constructor(status, answer) {
    super(typeof answer === "string" ? answer : "refused");
    this.name = "Refusal";
    this.status = status;
    this.answer = answer;
  }
}

export function refuse(status, answer) {
  throw new Refusal(status, answer);
}

// ---- what a folder declares

const declared = [];

function declare(kind, details, run) {
  if (typeof run !== "function") throw new TypeError(`${kind}: the last argument must be a function`);
  const entry = Object.freeze({ kind, details: Object.freeze(details), run });
  declared.push(entry);
  return entry;
}

export const before = (entity, action, run) => declare("before", { entity, action }, run);
export const on = (entity, action, run) =>
  typeof action === "function" ? declare("on", { event: entity }, action) : declare("on", { entity, action }, run);
export const job = (schedule, options, run) =>
  typeof options === "function" ? declare("job", { schedule }, options) : declare("job", { schedule, ...options }, run);
export const route = (method, path, run, options) => declare("route", { method, path, ...options }, run);

// ---- the argument of a function

const entities = (space, tenant) => ({
  list: (entity, query) => ask(space, tenant, "list", entity, query ?? {}),
  get: (entity, id, query) => ask(space, tenant, "get", entity, id, query ?? {}),
  create: (entity, data) => ask(space, tenant, "create", entity, data),
  update: (entity, id, data) => ask(space, tenant, "update", entity, id, data),
  delete: (entity, id) => ask(space, tenant, "delete", entity, id),
  upsert: (entity, data, options) => ask(space, tenant, "upsert", entity, data, options ?? {}),
  batch: (operations) => ask(space, tenant, "batch", operations),
});

const db = {
  ...entities("db", null),
  system: { ...entities("system", null), tenant: (id) => entities("system", String(id)) },
};

const mail = {
  send: async (message) => {
    if (inTransaction) throw new TypeError("mail: no mail is sent inside of a transaction; use on(entity, action, …)");
    return ask("mail", message);
  },
};
const emit = (type, data, options) => ask("emit", type, data ?? null, options ?? {});

// ---- log

const inspect = (value) => {
  if (typeof value === "string") return value;
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Error) return value.stack ? `${value}\n${value.stack}` : String(value);
  if (typeof value === "function" || typeof value === "symbol" || value === undefined) return String(value);
  try {
    return JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}n` : item)) ?? String(value);
  } catch {
    return String(value);
  }
};

const write = (level) => (...values) => {
  if (isFull) return;
  const text = values.map(inspect).join(" ");
  lineBytes += text.length;
  if (lines.length >= LINES || lineBytes > LINE_BYTES) {
    isFull = true;
    lines.push(["warn", "further lines of this call are left out"]);
    return;
  }
  lines.push([level, text.toWellFormed()]);
};

globalThis.console = {
  log: write("info"), info: write("info"), debug: write("debug"), warn: write("warn"), error: write("error"), trace: write("debug"),
};
globalThis.log = Object.assign(write("info"), { info: write("info"), debug: write("debug"), warn: write("warn"), error: write("error") });

// ---- numbers by chance: each call has its own

Math.random = () => {
  if (!random || random.left === 0) random = { numbers: new Uint32Array(native("random", 512).buffer), left: 128 };
  const high = random.numbers[--random.left] >>> 5;
  const low = random.numbers[--random.left] >>> 6;
  return (high * 67108864 + low) / 9007199254740992;
};

const bytesOf = (data) => {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError("bytes are expected: an ArrayBuffer or a view of one");
};

const HASHES = ["SHA-1", "SHA-256", "SHA-384", "SHA-512"];
const hashOf = (algorithm) => {
  const name = String(algorithm?.name ?? algorithm).toUpperCase();
  if (!HASHES.includes(name)) throw new TypeError(`hash ${name}: known are ${HASHES.join(", ")}`);
  return name;
};

class CryptoKey {
  #bytes;
  constructor(bytes, hash, extractable, usages) {
    this.#bytes = bytes;
    this.type = "secret";
    this.extractable = extractable;
    this.algorithm = { name: "HMAC", hash: { name: hash }, length: bytes.length * 8 };
    this.usages = usages;
  }
  static bytes(key, use) {
    if (!key.usages.includes(use)) throw new TypeError(`the key is not for "${use}"`);
    return key.#bytes;
  }
}

const isHmac = (algorithm) => String(algorithm?.name ?? algorithm).toUpperCase() === "HMAC";
const needHmac = (algorithm) => {
  if (!isHmac(algorithm)) throw new TypeError("keys and signatures are of HMAC alone");
};

globalThis.crypto = {
  randomUUID: () => native("uuid"),
  getRandomValues: (view) => {
    const bytes = bytesOf(view);
    if (bytes.length > 65536) throw new RangeError("at most 65,536 bytes at once");
    bytes.set(native("random", bytes.length));
    return view;
  },
  subtle: {
    digest: async (algorithm, data) => native("digest", hashOf(algorithm), bytesOf(data)).buffer,
    importKey: async (format, data, algorithm, extractable, usages) => {
      if (format !== "raw") throw new TypeError("keys are imported as \"raw\" bytes");
      needHmac(algorithm);
      return new CryptoKey(bytesOf(data).slice(), hashOf(algorithm.hash), Boolean(extractable), [...usages]);
    },
    sign: async (algorithm, key, data) => {
      needHmac(algorithm);
      return native("hmac", key.algorithm.hash.name, CryptoKey.bytes(key, "sign"), bytesOf(data)).buffer;
    },
    verify: async (algorithm, key, signature, data) => {
      needHmac(algorithm);
      return native("verify", key.algorithm.hash.name, CryptoKey.bytes(key, "verify"), bytesOf(signature), bytesOf(data));
    },
  },
};

// ---- text

globalThis.TextEncoder = class TextEncoder {
  encoding = "utf-8";
  encode(text = "") {
    return native("encode", String(text).toWellFormed());
  }
};

globalThis.TextDecoder = class TextDecoder {
  #isFatal;
  constructor(label = "utf-8", { fatal = false } = {}) {
    if (!["utf-8", "utf8"].includes(String(label).toLowerCase())) throw new RangeError("texts are decoded from UTF-8 alone");
    this.#isFatal = fatal;
    this.encoding = "utf-8";
  }
  decode(data = new Uint8Array()) {
    return native("decode", bytesOf(data), this.#isFatal);
  }
};

globalThis.btoa = (text) => native("base64", String(text));
globalThis.atob = (text) => native("unbase64", String(text));

// ---- addresses

globalThis.URLSearchParams = class URLSearchParams {
  #pairs = [];
  #changed;
  constructor(from = "", changed = () => {}) {
    if (typeof from === "string") this.#pairs = native("pairs", from.replace(/^\?/, ""));
    else if (typeof from[Symbol.iterator] === "function") this.#pairs = [...from].map(([name, value]) => [String(name), String(value)]);
    else this.#pairs = Object.entries(from).map(([name, value]) => [name, String(value)]);
    this.#changed = changed;
  }
  get size() { return this.#pairs.length; }
  get(name) { return this.#pairs.find(([key]) => key === name)?.[1] ?? null; }
  getAll(name) { return this.#pairs.filter(([key]) => key === name).map(([, value]) => value); }
  has(name) { return this.#pairs.some(([key]) => key === name); }
  append(name, value) { this.#pairs.push([String(name), String(value)]); this.#changed(this.toString()); }
  delete(name) { this.#pairs = this.#pairs.filter(([key]) => key !== name); this.#changed(this.toString()); }
  set(name, value) {
    const at = this.#pairs.findIndex(([key]) => key === name);
    if (at < 0) return this.append(name, value);
    this.#pairs = this.#pairs.filter(([key], index) => key !== name || index === at);
    this.#pairs[at] = [String(name), String(value)];
    this.#changed(this.toString());
  }
  sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(this.toString()); }
  forEach(run) { for (const [name, value] of this) run(value, name, this); }
  *keys() { for (const [name] of this.#pairs) yield name; }
  *values() { for (const [, value] of this.#pairs) yield value; }
  *entries() { yield* this.#pairs.map(([name, value]) => [name, value]); }
  [Symbol.iterator]() { return this.entries(); }
  toString() { return native("query", this.#pairs); }
};

const URL_PARTS = ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

globalThis.URL = class URL {
  #parts;
  #params;
  constructor(address, base) {
    this.#set(native("url", String(address), base === undefined ? null : String(base)));
  }
  static canParse(address, base) {
    try {
      return Boolean(new URL(address, base));
    } catch {
      return false;
    }
  }
  #set(parts) {
    this.#parts = parts;
    this.#params = undefined;
  }
  get href() { return this.#parts.href; }
  set href(value) { this.#set(native("url", String(value), null)); }
  get origin() { return this.#parts.origin; }
  get searchParams() {
    this.#params ??= new URLSearchParams(this.search, (query) => { this.#parts = native("urlWith", this.href, "search", query); });
    return this.#params;
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  static {
    for (const part of URL_PARTS) {
      Object.defineProperty(this.prototype, part, {
        get() { return this.#parts[part]; },
        set(value) { this.#set(native("urlWith", this.href, part, String(value))); },
        enumerable: true, configurable: true,
      });
    }
  }
};

// ---- HTTP

globalThis.Headers = class Headers {
  #entries = [];
  constructor(from = []) {
    const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
    for (const [name, value] of pairs) this.append(name, value);
  }
  static #name(name) {
    const text = String(name).toLowerCase();
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(text)) throw new TypeError(`"${text}" is no name of a header`);
    return text;
  }
  static #value(value) {
    const text = String(value).trim();
    if (/[\0\r\n]/.test(text)) throw new TypeError("a header's value is one line");
    return text;
  }
  append(name, value) { this.#entries.push([Headers.#name(name), Headers.#value(value)]); }
  delete(name) { const key = Headers.#name(name); this.#entries = this.#entries.filter(([other]) => other !== key); }
  get(name) {
    const key = Headers.#name(name);
    const found = this.#entries.filter(([other]) => other === key).map(([, value]) => value);
    return found.length ? found.join(", ") : null;
  }
  getSetCookie() { return this.#entries.filter(([name]) => name === "set-cookie").map(([, value]) => value); }
  has(name) { return this.get(name) !== null; }
  set(name, value) { this.delete(name); this.append(name, value); }
  forEach(run) { for (const [name, value] of this) run(value, name, this); }
  *entries() {
    const names = [...new Set(this.#entries.map(([name]) => name))].sort();
    for (const name of names) {
      if (name === "set-cookie") for (const value of this.getSetCookie()) yield [name, value];
      else yield [name, this.get(name)];
    }
  }
  *keys() { for (const [name] of this.entries()) yield name; }
  *values() { for (const [, value] of this.entries()) yield value; }
  [Symbol.iterator]() { return this.entries(); }
};

const EMPTY = new Uint8Array();

const readBody = (body, headers) => {
  if (body === null || body === undefined) return EMPTY;
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return bytesOf(body);
  const isQuery = body instanceof URLSearchParams;
  if (!headers.has("content-type")) {
    headers.set("content-type", isQuery ? "application/x-www-form-urlencoded;charset=UTF-8" : "text/plain;charset=UTF-8");
  }
  return native("encode", String(body).toWellFormed());
};

class Body {
  #bytes;
  bodyUsed = false;
  constructor(bytes) {
    this.#bytes = bytes;
  }
  static peek(body) {
    return body.#bytes;
  }
  async bytes() {
    if (this.bodyUsed) throw new TypeError("the body was read already");
    this.bodyUsed = true;
    return this.#bytes;
  }
  async arrayBuffer() { return (await this.bytes()).slice().buffer; }
  async text() { return native("decode", await this.bytes(), false); }
  async json() { return JSON.parse(await this.text()); }
}

globalThis.Request = class Request extends Body {
  constructor(address, { method = "GET", headers, body } = {}) {
    const given = new Headers(headers);
    super(readBody(body, given));
    this.url = String(address?.url ?? address);
    this.method = String(method).toUpperCase();
    this.headers = given;
  }
  clone() { return new Request(this.url, { method: this.method, headers: this.headers, body: Body.peek(this) }); }
};

globalThis.Response = class Response extends Body {
  constructor(body, { status = 200, statusText = "", headers } = {}) {
    const given = new Headers(headers);
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new RangeError("a status is a number from 200 to 599");
    super(readBody(body, given));
    this.status = status;
    this.statusText = statusText;
    this.headers = given;
    this.ok = status >= 200 && status < 300;
    this.redirected = false;
    this.url = "";
  }
  static json(value, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(JSON.stringify(value), { ...init, headers });
  }
  static redirect(address, status = 302) {
    return new Response(null, { status, headers: { location: String(address) } });
  }
  clone() { return new Response(Body.peek(this), { status: this.status, statusText: this.statusText, headers: this.headers }); }
};

globalThis.fetch = async (address, init) => {
  const request = address instanceof Request && init === undefined ? address : new Request(address, init);
  if (inTransaction) throw new TypeError("fetch: there is no network inside of a transaction");
  const answer = await ask("fetch", request.method, request.url, [...request.headers], Body.peek(request));
  const response = new Response(answer.body, { status: answer.status, headers: answer.headers });
  response.url = answer.url;
  return response;
};

// ---- time

const timers = new Map();
let nextTimer = 1;

globalThis.setTimeout = (run, delay = 0, ...rest) => {
  if (inTransaction) throw new TypeError("setTimeout: nothing waits inside of a transaction");
  const id = nextTimer++;
  timers.set(id, true);
  ask("timer", Math.max(0, Number(delay) || 0)).then(() => timers.delete(id) && run(...rest)).catch(fail);
  return id;
};
globalThis.clearTimeout = (id) => void timers.delete(id);
globalThis.queueMicrotask = (run) => void Promise.resolve().then(run).catch(fail);

// ---- a call

const describe = (error) => {
  if (error instanceof Refusal) return { refusal: { status: error.status, answer: error.answer } };
  const isError = error instanceof Error;
  const told = { message: isError ? String(error) : `thrown: ${inspect(error)}`, stack: isError ? String(error.stack ?? "") : "" };
  if (error instanceof HostError) told.code = error.code;
  return { error: told };
};

function fail(error) {
  outcome ??= describe(error);
}

const answerOf = {
  route: (response) => {
    if (!(response instanceof Response)) throw new TypeError("a route returns a Response");
    return { status: response.status, headers: [...response.headers], body: Body.peek(response) };
  },
};

const argumentsOf = {
  before: (data) => [{ ...data, db, mail, emit, log: globalThis.log }],
  on: (data) => [{ ...data, db, mail, emit, fetch: globalThis.fetch, log: globalThis.log }],
  job: (data) => [{ ...data, db, mail, emit, fetch: globalThis.fetch, log: globalThis.log }],
  route: ({ request, ...data }) => [
    new Request(request.url, request),
    { ...data, db, mail, emit, fetch: globalThis.fetch, log: globalThis.log },
  ],
};

const start = (index, data) => {
  const { kind, run } = declared[index];
  isEvaluating = false;
  inTransaction = kind === "before";
  (async () => {
    const given = argumentsOf[kind](data);
    const returned = await run(...given);
    // What a `before` changes is in `values`.
    const value = kind === "before" ? { values: given[0].values } : kind === "route" ? answerOf.route(returned) : null;
    outcome ??= { value };
  })().catch(fail);
};

const settle = (id, isDone, value) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (isDone) resolve(value);
  else reject(new HostError(value));
};

// What is to be done for the call, what it has written, and how it ended.
const take = () => {
  const taken = { requests, outcome: requests.length && !outcome ? null : outcome, lines: lines.splice(0) };
  requests = [];
  return taken;
};

const listed = () => declared.map(({ kind, details }) => ({ kind, ...details }));
const exported = (module) => {
  const found = [];
  for (const [name, value] of Object.entries(module)) {
    const index = declared.indexOf(value);
    if (index >= 0) found.push([name, index]);
  }
  return found;
};

// Forgets what the evaluation of a file has left: no call begins with its random numbers and lines.
const forget = () => {
  random = null;
  requests = [];
  waiting.clear();
  timers.clear();
  lines.length = 0;
  lineBytes = 0;
  isFull = false;
  outcome = null;
};

// The engine compares a text that is searched for at every place, and does not stop meanwhile.
const SEARCHED = 20_000_000;
for (const name of ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"]) {
  const search = String.prototype[name];
  const bounded = {
    [name](wanted, ...rest) {
      if (typeof wanted === "string" && wanted.length > 16 && wanted.length * String(this).length > SEARCHED) {
        throw new RangeError(`${name}: the texts are too long`);
      }
      return Reflect.apply(search, this, [wanted, ...rest]);
    },
  }[name];
  Object.defineProperty(String.prototype, name, { value: bounded, writable: true, configurable: true });
}

globalThis.bridge = { forget, start, settle, take, listed, exported };
