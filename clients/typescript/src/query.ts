/** Builds a filter expression whose values are quoted: ``filter`title ~ ${text} && status = ${status}` ``. */
export function filter(parts: TemplateStringsArray, ...values: FilterValue[]): string {
  return parts.reduce((text, part, index) => text + quoted(values[index - 1] ?? null) + part);
}

/** What a filter compares with. */
export type FilterValue = string | number | boolean | null | Date | readonly FilterValue[];

function quoted(value: FilterValue): string {
  if (Array.isArray(value)) return `[${value.map(quoted).join(", ")}]`;
  if (value instanceof Date) return quoted(value.toISOString());
  if (typeof value !== "string") return String(value);
  const escaped = value.replace(/[\\"]/g, "\\$&").replace(/[\0-\x1f\x7f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `"${escaped}"`;
}

/** The parameters of a list, as a query string has them. */
export function parameters(asked: { [name: string]: unknown }, etag: boolean): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (name === "where") conditions(query, value as { [key: string]: unknown });
    else if (value !== undefined && name !== "signal") query.set(name, text(value));
  }
  if (etag) query.set("etag", "true");
  return query;
}

function conditions(query: URLSearchParams, where: { [key: string]: unknown } = {}): void {
  for (const [key, value] of Object.entries(where)) {
    if (value === undefined) continue;
    // Absence is asked for by name.
    if (value === null) query.set(`${key.replace(/_ne$/, "")}_null`, String(!key.endsWith("_ne")));
    else query.set(key, text(value));
  }
}

function text(value: unknown): string {
  if (!Array.isArray(value)) return value instanceof Date ? value.toISOString() : String(value);
  const parts = value.map(text);
  if (parts.some((part) => part.includes(","))) {
    throw new TypeError("a value has a comma; use filter`field in ${values}`");
  }
  return parts.join(",");
}
