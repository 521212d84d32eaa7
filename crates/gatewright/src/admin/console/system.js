import { act, get, keys } from "./api.js";
import { doing, el, facts, isolated, prose, section, table, tag, value } from "./ui.js";

/** What the server runs with, what its database lacks, and the programs that may ask for tokens. */
export async function system({ signal, me, go }) {
  const [configuration, migrations] = await Promise.all([get("/configuration", { signal }), get("/migrations", { signal })]);
  const pending = keys(migrations.data);
  const parts = [
    el("h1", {}, "System"),
    section("Pending migrations",
      pending.statements.length
        ? [el("p", {}, prose("`gatewright migrate` runs these:")), el("pre", {}, pending.statements.join(";\n"))]
        : el("p", {}, tag("none", "good"), "The database has all that the configuration needs."),
      pending.notes.map((note) => el("p", {}, tag("note", "note"), note))),
  ];
  if (me.mayWrite) parts.push(backup(me));
  if (me.features.includes("clients")) parts.push(await clients(signal, me, go));
  for (const [name, held] of Object.entries(configuration.data)) {
    const isSection = held !== null && typeof held === "object" && !Array.isArray(held);
    parts.push(section(`[${name}]`, isSection ? facts(Object.entries(held).map(([key, of]) => [key, value(of)])) : value(held)));
  }
  return parts;
}

function backup(me) {
  if (!me.features.includes("backup")) return section("Backup", el("p", {}, "The database is on Postgres: back it up with `pg_dump`."));
  const download = doing("Download a backup", async () => {
    // The download itself cannot ask for a sign-in.
    if (!keys((await get("/me")).data).fresh) throw Object.assign(new Error("sign in again to do this"), { code: "fresh_sign_in_required" });
    location.assign("/admin/api/backup");
  }, { said: "The download begins when the copy is complete." });
  return section("Backup", el("p", {}, prose("The whole database as of one moment, with password hashes. `gatewright restore` puts it back.")),
    el("div", { class: "acts" }, download));
}

async function clients(signal, me, go) {
  const rows = keys((await get("/clients", { signal })).data).map((client) => [
    client.name, el("code", {}, client.id), client.confidential ? "confidential" : "public", (client.redirectUris || []).join(", "),
    me.mayWrite && doing("Remove", async () => { await act("DELETE", `/clients/${encodeURIComponent(client.id)}`); await go(location.pathname); },
      { kind: "danger", ask: `Remove the client ${isolated(client.name)}? Its tokens end.`, said: "The client is removed." }),
  ]);
  return section("OAuth clients", table("OAuth clients", ["Name", "Id", "Kind", "Redirects", "Actions"], rows, "No client is registered. `gatewright client create NAME` creates one."));
}
