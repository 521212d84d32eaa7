import { act, get, keys } from "./api.js";
import { events } from "./watch.js";
import { ago, copied, doing, el, facts, field, fill, form, isolated, link, path, recordLink, recordPath, say, section, select, slowly, table, tag, value } from "./ui.js";

/** How many fields a list shows. */
const COLUMNS = 6;

async function described(signal) {
  return (await get("/records", { signal })).data.map((entity) => {
    const named = keys(entity);
    return { ...named, fields: keys(named.fields) };
  });
}

/** The entity by its table or its name. */
async function find(name, signal) {
  const all = await described(signal);
  const entity = all.find(({ table: of }) => of === name) || all.find(({ name: of }) => of === name);
  if (!entity) throw Object.assign(new Error("There is no such entity."), { status: 404 });
  return entity;
}

export async function entities({ signal }) {
  const all = await described(signal);
  const rows = all.map((entity) => [
    link(["records", entity.table], entity.name), String(entity.fields.length),
    [entity.readOnly && tag("read-only"), entity.owned && tag("owned"), entity.multiTenant && tag("multi-tenant"), entity.softDelete && tag("trash")],
  ]);
  return [el("h1", {}, "Records"), section("", table("Entities", ["Entity", "Fields", "Properties"], rows, "No entity is declared. Add an [[entity]] to the configuration."))];
}

/** The records of one entity: of every owner and, unless one is named, of every tenant. */
export async function records({ parts: [, name], query, signal, remember }) {
  const entity = await find(name, signal);
  const list = el("div", { "aria-live": "polite" });
  const inputs = {
    q: (entity.searchable || texts(entity).length > 0) && el("input", { name: "q", type: "search", value: query.get("q") || "", autocomplete: "off" }),
    filter: el("input", { name: "filter", value: query.get("filter") || "", placeholder: "created_at > '2026-01-01'", autocomplete: "off", spellcheck: "false" }),
    sort: el("input", { name: "sort", value: query.get("sort") || "", placeholder: "-created_at", autocomplete: "off", spellcheck: "false" }),
    trashed: entity.softDelete && select({}, [["", "Not deleted"], ["with", "All"], ["only", "Deleted"]], query.get("trashed") || ""),
    tenant: entity.multiTenant && el("input", { value: query.get("tenant") || "", autocomplete: "off", placeholder: "all tenants" }),
  };
  const shown = entity.fields.slice(0, COLUMNS);
  const targets = new Map([...await labelled(entity, signal)].filter(([key]) => shown.some((of) => of.key === key)));
  let latest = 0;
  const search = async (cursor = "", before = 0) => {
    const mine = ++latest;
    const asked = Object.fromEntries(Object.entries(inputs).map(([key, input]) => [key, input ? input.value.trim() : ""]));
    remember(asked);
    const { tenant, ...rest } = asked;
    const given = Object.entries({ ...newest(entity, searching(entity, rest)), include: [...targets.keys()].join(","), limit: "50" }).filter(([, held]) => held);
    let found;
    try {
      found = await get(`/records/${encodeURIComponent(name)}?${new URLSearchParams([...given, ["cursor", cursor]])}`, { signal, tenant });
    } catch (error) {
      if (mine === latest && !signal.aborted) fill(list, el("p", { role: "alert" }, error.message));
      return;
    }
    if (mine !== latest) return;
    const rows = found.data.map((record) => [
      opening(entity, record, tenant),
      ...shown.map(({ key }) => linked(entity, key, record[key], tenant, said(targets.get(key), (record._included || {})[key]))),
      ...(entity.readOnly ? [] : [ago(record.createdAt || record.created_at)]),
    ]);
    const looked = found.searched ? before + found.searched : 0;
    const empty = looked ? "No match so far." : "No record matches. Programs write records over the API; see openapi.json.";
    const next = found.searched ? "Continue search" : "Next page";
    fill(list, ...[
      looked && el("p", { role: "status" }, `${rows.length ? "These are the matches" : "No match"} among ${looked.toLocaleString("en")} records. Continue the search for more.`),
      ...missing(entity, asked, looked).map((message) => el("p", {}, message)),
      table(`Records of ${entity.name}`, ["Record", ...shown.map((described) => described.key), ...(entity.readOnly ? [] : ["Created"])], rows, empty),
      el("div", { class: "acts" }, cursor && doing("First page", () => search()), found.cursor && doing(next, () => search(found.cursor, looked))),
    ].filter(Boolean));
  };
  const typed = slowly(() => search());
  const labels = { q: "Search", filter: "Filter", sort: "Sort", trashed: "Show", tenant: "Tenant" };
  for (const input of Object.values(inputs)) if (input) input.addEventListener("input", typed);
  await search();
  return [
    el("h1", {}, entity.name),
    section("", el("div", { class: "line" }, Object.entries(inputs).filter(([, input]) => input).map(([key, input]) => field(labels[key], input))), list),
  ];
}

/** The fields that a search looks into where the entity declares none. */
function texts(entity) {
  return entity.fields.filter(({ type }) => ["string", "text", "enum"].includes(type));
}

/** A search of an entity without searched fields: any of its texts contains the words. */
function searching(entity, { q, filter, ...rest }) {
  if (entity.searchable || !q) return { q, filter, ...rest };
  const any = texts(entity).map(({ key }) => `${key} ~ ${JSON.stringify(q)}`).join(" || ");
  return { ...rest, filter: filter ? `(${filter}) && (${any})` : any };
}

/** Without a sort, the newest come first: ids of the server are in the order of creation. Rows of a view keep their order. */
function newest(entity, { sort, ...rest }) {
  const byTime = entity.indexed.some((key) => ["createdAt", "created_at"].includes(key));
  return { ...rest, sort: sort || (entity.readOnly ? "" : byTime ? "-created_at" : "-id") };
}

/** What to declare so that a list need not look at all records. */
function missing(entity, { sort, filter }, looked) {
  const plain = (key) => key.replaceAll("_", "").toLowerCase();
  const indexed = new Set(entity.indexed.map(plain));
  const lacks = (key) => !indexed.has(plain(key));
  const own = ["created_at", "updated_at"];
  const said = [];
  const first = (sort || "").split(",")[0].trim().replace(/^-/, "");
  const known = [...entity.fields.map(({ key }) => key), ...own];
  if (first && lacks(first) && known.some((key) => plain(key) === plain(first))) {
    const remedy = own.some((key) => plain(key) === plain(first)) ? `Name it first in cursor_fields of the entity.` : "Set index = true on the field.";
    said.push(`No index on ${first}: up to 50,000 records are sorted. ${remedy}`);
  }
  const words = new Set((filter || "").replace(/"[^"]*"|'[^']*'/g, "").split(/[^\w]+/).map(plain));
  const asked = entity.fields.filter(({ type }) => !["json", "list"].includes(type)).map(({ key }) => key).filter((key) => words.has(plain(key)) && lacks(key));
  if (looked && asked.length) said.push(`No index on ${asked.join(", ")}: the filter looks at each record. Set index = true on the field to find equal values at once.`);
  return said;
}

/** One record: everything that is not hidden, a form for what can be changed, and its history. */
export async function record({ parts: [, name, id], query, me, signal, go }) {
  const tenant = query.get("tenant") || "";
  const entity = await find(name, signal);
  // A relation names the entity; the log and explanations name its table.
  const tableName = entity.table;
  const here = recordPath(tableName, id, tenant);
  const at = `/records/${encodeURIComponent(tableName)}/${encodeURIComponent(id)}`;
  const [{ data, etag }, labels] = await Promise.all([get(at, { signal, tenant }), labelled(entity, signal)]);
  const related = labels.size ? await included(at, labels, { signal, tenant }) : {};
  const inTrash = Boolean(data.deletedAt || data.deleted_at);
  const inputs = new Map(me.mayWrite && !inTrash ? entity.fields.filter(({ writable }) => writable).map((of) => [of, control(of, data[of.key])]) : []);
  const save = doing("Save", async () => {
    const changed = {};
    for (const [of, input] of inputs) {
      const now = read(of, input);
      if (JSON.stringify(now) !== JSON.stringify(data[of.key] ?? null)) changed[of.key] = now;
    }
    if (!Object.keys(changed).length) return say("Nothing has changed.");
    await act("PATCH", at, changed, { etag, tenant });
    say("The record is saved.");
    await go(here);
  }, { kind: "" });
  const remove = doing("Delete", async () => {
    await act("DELETE", at, undefined, { etag, tenant });
    await go(path("records", tableName) + (tenant ? `?${new URLSearchParams({ tenant })}` : ""));
    if (entity.softDelete) say("The record is in the trash.", async () => { await act("POST", `${at}/restore`, {}, { tenant }); await go(here); });
    else say("The record is deleted.");
  }, { kind: "danger", ask: entity.softDelete ? undefined : "Delete this record and all records that are deleted with it? This cannot be undone." });
  const restore = doing("Restore", async () => {
    await act("POST", `${at}/restore`, {}, { tenant });
    say("The record is restored.");
    await go(here);
  }, { kind: "" });
  const known = entity.fields.map(({ key }) => key);
  const ofTenant = data.tenantId || data.tenant_id || tenant;
  const others = Object.keys(data).filter((key) => !known.includes(key) && key !== "id");
  return [
    el("h1", {}, `${entity.name}: ${named(entity, data, id)}`),
    entity.description && el("p", {}, entity.description),
    el("p", {}, el("a", { href: `${path("explain")}?${new URLSearchParams({ table: tableName, id, operation: "read", ...(ofTenant && { tenant: ofTenant }) })}` }, "Explain who may read it")),
    section("", facts([["Id", copied(String(data.id), "the id")],
      ...[...known, ...others].map((key) => [key, linked(entity, key, data[key], tenant, said(labels.get(key), related[key]))])])),
    inTrash && section("In the trash", el("p", {}, "This record is deleted. Programs do not see it."), me.mayWrite && el("div", { class: "acts" }, restore)),
    inputs.size > 0 && section("Change", form([save, remove],
      [...inputs].map(([of, input]) => field(of.key + (of.required && of.type !== "list" ? " (required)" : ""), input, of.type)))),
    me.features.includes("audit") && section("Who changed it", await events({ subject: `${tableName}/${id}`, limit: "20" }, signal)),
  ].filter(Boolean);
}

/** What stands for a record: the value of its entity's label, or `otherwise`. */
function named({ label }, record, otherwise = record.id) {
  const text = String((label && record[label]) ?? "").trim();
  return text ? isolated(text.length > 60 ? `${text.slice(0, 60)}…` : text) : otherwise;
}

/** The link of a row to its record: its label, or the beginning of its id. */
function opening(entity, record, tenant) {
  const label = named(entity, record, "");
  const attributes = label ? { title: record.id } : { "aria-label": `Open ${record.id}` };
  return recordLink(entity.table, record.id, tenant, label || `${String(record.id).slice(0, 8)}…`, attributes);
}

/** The entities with a label that relations lead to, by the relation's key. */
async function labelled(entity, signal) {
  const all = await described(signal);
  const users = { name: "users", label: "" };
  const target = ({ relation, type }) => type === "relation" && (relation === "users" ? users : all.find((of) => of.name === relation && of.label));
  // An answer includes a few relations only.
  return new Map(entity.fields.filter(target).slice(0, 8).map((of) => [of.key, target(of)]));
}

/** The records that these relations lead to, by the relation's key. Without them, ids are shown. */
async function included(at, labels, options) {
  try {
    const query = new URLSearchParams({ include: [...labels.keys()].join(","), fields: "id" });
    return (await get(`${at}?${query}`, options)).data._included || {};
  } catch {
    return {};
  }
}

/** What stands for a related record or account, as far as it is known. */
function said(entity, record) {
  if (!entity || !record) return "";
  if (entity.name !== "users") return named(entity, record, "");
  return named({ label: "is" }, { is: record.displayName || record.display_name || record.email }, "");
}

/** A relation leads to the record that it names. */
function linked(entity, key, held, tenant, label) {
  const { relation } = entity.fields.find((of) => of.key === key) || {};
  if (!relation || typeof held !== "string") return value(held);
  return relation === "users" ? link(["users", held], label || held) : recordLink(relation, held, tenant, label || held);
}

function control(of, held) {
  const text = held === null || held === undefined ? "" : typeof held === "object" ? JSON.stringify(held, null, 2) : String(held);
  const options = of.type === "bool" ? ["true", "false"] : of.type === "enum" ? of.values : [];
  if (options.length) return select({ name: of.key }, [["", "–"], ...options.map((option) => [option, option])], text);
  const input = el(["json", "list", "text"].includes(of.type) ? "textarea" : "input", { name: of.key, autocomplete: "off", spellcheck: "false" });
  input.value = text;
  return input;
}

/** What an input says, in the field's type. What does not fit it goes to the server as it is, which says what is wrong. */
function read(of, input) {
  const text = input.value;
  if (text === "" && of.type === "list") return [];
  if (text === "" && !["string", "text"].includes(of.type)) return null;
  if (text === "" && !of.required) return null;
  if (of.type === "bool") return text === "true";
  if (["int", "float"].includes(of.type) && Number.isFinite(Number(text))) return Number(text);
  if (["json", "list"].includes(of.type)) {
    try { return JSON.parse(text); } catch { throw new Error(`${of.key} is not JSON.`); }
  }
  return text;
}
