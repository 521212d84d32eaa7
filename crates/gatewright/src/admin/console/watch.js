// Who is locked out, and what happened.

import { act, get, keys } from "./api.js";
import { ago, doing, el, field, fill, link, recordLink, section, slowly, table, tag } from "./ui.js";

/** What acts are about, besides records. */
const WITH_PAGE = ["users", "tenants", "outbox"];
const WITHOUT_PAGE = ["clients", "mails", "invitations", "service-accounts"];

export async function lockouts({ signal, me, go }) {
  const found = await get("/lockouts?limit=200", { signal });
  const rows = keys(found.data).map((lockout) => [
    lockout.subject || el("span", { class: "soft" }, "not shown"), lockout.reason, ago(lockout.until),
    me.mayWrite && doing("Unlock", async () => { await act("POST", "/lockouts/unlock", { key: lockout.key }); await go(location.pathname); }, { said: "Unlocked." }),
  ]);
  const empty = found.listed ? "Nobody is locked out." : "The store of limits cannot list lockouts. Unlock an account on its own page.";
  return [el("h1", {}, "Lockouts"), section("", table("Lockouts", ["Who", "Why", "Ends", "Actions"], rows, empty))];
}

/** The audit log with its filters, which stand in the address. */
export async function audit({ query, signal, remember }) {
  const names = { kind: "Kind", user: "Account id", subject: "About", since: "Since", until: "Until" };
  const hints = { kind: "login.failed", user: "", subject: "posts/ID", since: "2026-01-31T00:00:00Z", until: "" };
  const list = el("div", { "aria-live": "polite" });
  const inputs = Object.fromEntries(Object.keys(names).map((name) =>
    [name, el("input", { name, type: name === "kind" ? "search" : "text", value: query.get(name) || "", placeholder: hints[name], autocomplete: "off", spellcheck: "false" })]));
  const search = async (cursor = "") => {
    const asked = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
    remember(asked);
    try {
      fill(list, await events({ ...asked, cursor, limit: "50" }, signal, search));
    } catch (error) {
      if (!signal.aborted) fill(list, el("p", { role: "alert" }, error.message));
    }
  };
  const typed = slowly(() => search());
  for (const input of Object.values(inputs)) input.addEventListener("input", typed);
  await search();
  return [el("h1", {}, "Audit log"), section("", el("div", { class: "line" }, Object.entries(names).map(([name, label]) => field(label, inputs[name]))), list)];
}

/** Events of the audit log as a table; `more` reads the page after a cursor. */
export async function events(asked, signal, more) {
  const given = Object.entries(asked).filter(([, held]) => held);
  const found = await get(`/audit?${new URLSearchParams(given)}`, { signal });
  const rows = keys(found.data).map((event) => [
    ago(event.at), tag(event.kind), event.user ? link(["users", event.user], `${event.user.slice(0, 8)}…`, { "aria-label": `Open the account ${event.user}` }) : "–",
    about(event.subject, event.meta), event.remote || "–", details(event.meta),
  ]);
  const next = more && el("div", { class: "acts" }, asked.cursor && doing("First page", () => more()), found.cursor && doing("Next page", () => more(found.cursor)));
  return el("div", {}, table("Events", ["When", "What", "Account", "About", "From", "Details"], rows, "Nothing was recorded."), next);
}

/** What an event is about. It leads to a record in the tenant that the event names. */
function about(subject, meta) {
  if (!subject) return "–";
  const [kind, ...rest] = subject.split("/");
  const id = rest.join("/");
  if (!id || WITHOUT_PAGE.includes(kind)) return subject;
  return WITH_PAGE.includes(kind) ? link([kind, id], subject) : recordLink(kind, id, meta?.tenant_id, subject);
}

function details(meta) {
  const text = Object.entries(meta || {}).map(([name, held]) => `${name}: ${typeof held === "object" ? JSON.stringify(held) : held}`).join("; ");
  return el("span", { class: "cut", title: text.slice(0, 2000) }, text || "–");
}
