import { act, get, keys } from "./api.js";
import { ago, copied, doing, el, facts, field, form, isolated, link, section, table, tag, unverified } from "./ui.js";

/** The tenants that have members. */
export async function tenants({ query, signal }) {
  const cursor = query.get("cursor") || "";
  const found = await get(`/tenants?${new URLSearchParams({ cursor })}`, { signal });
  const rows = keys(found.data).map((tenant) => [link(["tenants", tenant.id], tenant.name || tenant.id), el("code", {}, tenant.id), String(tenant.members)]);
  const more = found.cursor && el("a", { href: `?${new URLSearchParams({ cursor: found.cursor })}` }, "Next page");
  return [el("h1", {}, "Tenants"), section("", table("Tenants", ["Name", "Id", "Members"], rows,
    "No tenant has members yet. `gatewright tenant add-member TENANT EMAIL` creates one."), more)];
}

/** Who belongs to one tenant. */
export async function tenant({ parts: [, id], query, me, signal, go }) {
  const at = `/tenants/${encodeURIComponent(id)}/members`;
  const [about, found] = await Promise.all([`/tenants/${encodeURIComponent(id)}`, `${at}?${new URLSearchParams({ cursor: query.get("cursor") || "" })}`]
    .map((path) => get(path, { signal })));
  const again = () => go(location.pathname);
  const rows = keys(found.data).map((member) => [
    member.kind === "user" ? link(["users", member.id], member.email || member.id) : `${isolated(member.name || member.id)} (service account)`,
    member.roles.map((role) => tag(role)), ago(member.since),
    me.mayWrite && doing("Remove", async () => { await act("DELETE", `${at}/${member.kind}/${encodeURIComponent(member.id)}`); await again(); },
      { kind: "danger", ask: `End the membership of ${isolated(member.email || member.name || member.id)}?`, said: "The membership has ended." }),
  ]);
  const who = el("input", { name: "member", autocomplete: "off", placeholder: "ada@example.com" });
  const roles = el("input", { name: "roles", autocomplete: "off", placeholder: "member" });
  const insist = el("input", { type: "checkbox", name: "unverified" });
  const put = doing("Save member", async () => {
    await act("PUT", at, { member: who.value.trim(), roles: roles.value.split(",").map((role) => role.trim()).filter(Boolean), unverified: insist.checked });
    await again();
  }, { kind: "", said: "The member is saved." });
  const more = found.cursor && el("a", { href: `?${new URLSearchParams({ cursor: found.cursor })}` }, "Next page");
  return [
    el("h1", {}, about.data.name || id),
    section("", facts([["Id", copied(id, "the id")], ["Members", String(about.data.members)]])),
    section("Members", table("Members", ["Who", "Roles", "Since", "Actions"], rows, "Nobody belongs to this tenant."), more),
    me.mayWrite && section("Add a member, or replace its roles", form(put,
      el("div", { class: "line" }, field("Member", who, "An address, or service:NAME."), field("Roles in the tenant", roles, "Separated by commas.")), unverified(insist))),
  ].filter(Boolean);
}
