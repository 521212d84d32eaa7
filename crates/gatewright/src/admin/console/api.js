// The admin API. Answers spell their keys as the server is configured to; here they are camelCase.

const { auth, csrf, tenantHeader } = document.body.dataset;

/** A refusal, in the server's words. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code;
  }
}

/** Reads `/admin/api` + path. The body and the entity tag come back. */
export async function get(path, options = {}) {
  return send("GET", path, undefined, options);
}

/** Does something. */
export async function act(method, path, body, options = {}) {
  return send(method, path, body, options);
}

async function send(method, path, body, { tenant, etag, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (tenant) headers[tenantHeader] = tenant;
  if (etag) headers["If-Match"] = etag;
  if (csrf && method !== "GET") headers["X-CSRF-Token"] = await token();
  const answer = await fetch(`/admin/api${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  const text = await answer.text();
  const json = text && isJson(answer) ? JSON.parse(text) : {};
  if (!answer.ok) throw new Refused(answer.status, json);
  return { ...json, etag: answer.headers.get("etag") };
}

const isJson = (answer) => /json/.test(answer.headers.get("content-type") || "");

async function token() {
  const { csrfToken, csrf_token } = await (await fetch(`${auth}/csrf`)).json();
  return csrfToken || csrf_token;
}

/** One key in camelCase, for answers of a server that is configured to snake_case. */
export const camel = (key) => key.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

/** The keys of an object, or of each in a list, in camelCase. Values stay as they are. */
export function keys(value) {
  if (Array.isArray(value)) return value.map(keys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, held]) => [camel(key), held]));
}

export async function signOut() {
  const headers = { "Content-Type": "application/json" };
  if (csrf) headers["X-CSRF-Token"] = await token();
  await fetch(`${auth}/logout`, { method: "POST", headers, body: "{}" });
}
