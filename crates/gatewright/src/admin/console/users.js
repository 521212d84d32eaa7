import { act, get, keys } from "./api.js";
import { events } from "./watch.js";
import { ago, copied, doing, el, facts, field, fill, form, isolated, link, section, slowly, table, tag, unverified } from "./ui.js";

/** Search as you type. */
export async function users({ query, signal, remember }) {
  const list = el("div", { "aria-live": "polite" });
  let latest = 0;
  const search = async (q, cursor = "") => {
    const mine = ++latest;
    const found = await get(`/users?${new URLSearchParams({ q, cursor })}`, { signal });
    if (mine !== latest) return;
    const rows = keys(found.data).map((user) => [
      link(["users", user.id], user.email), roles(user), user.emailVerified ? tag("verified", "good") : tag("not verified"), ago(user.createdAt),
    ]);
    const more = found.cursor && doing("Next page", () => search(q, found.cursor));
    const back = cursor && doing("First page", () => search(q));
    fill(list, 
      table("Users", ["Address", "Roles", "Mailbox", "Created"], rows, q ? "No address begins with that." : "There is no account yet. `gatewright user create EMAIL` creates one."),
      el("div", { class: "acts" }, back, more));
  };
  const typed = slowly((text) => { remember({ q: text }); search(text).catch(() => {}); });
  const input = el("input", { type: "search", name: "q", value: query.get("q") || "", autocomplete: "off", oninput: () => typed(input.value.trim()) });
  await search(input.value.trim());
  return [el("h1", {}, "Users"), section("", el("div", { class: "line" }, field("Search", input, "The beginning of an address, or an id.")), list)];
}

const roles = (user) => el("span", {}, user.roles.length ? user.roles.map((role) => tag(role)) : el("span", { class: "soft" }, "none"));

/** One account, and what can be done to it. */
export async function user({ parts: [, id], me, signal, go }) {
  const at = `/users/${encodeURIComponent(id)}`;
  const [found, sessions, tokens, connections] = await Promise.all([at, `${at}/sessions`, `${at}/tokens`, `${at}/connections`].map((path) => get(path, { signal })));
  const user = keys(found.data);
  const again = () => go(location.pathname);
  const may = me.mayWrite;
  const input = el("input", { name: "roles", value: user.roles.join(", "), autocomplete: "off" });
  const insist = el("input", { type: "checkbox", name: "unverified" });
  const save = doing("Save roles", async () => {
    await act("PUT", `${at}/roles`, { roles: input.value.split(",").map((role) => role.trim()).filter(Boolean), unverified: insist.checked });
    await again();
  }, { kind: "", said: "The roles are saved." });
  return [
    el("h1", {}, user.email),
    section("", facts([
      ["Id", copied(user.id, "the id")],
      ["Created", ago(user.createdAt)],
      ["Mailbox", user.emailVerified ? tag("verified", "good") : tag("not verified")],
      ["Password", user.passwordSet ? "set" : "none"],
      ["Second factor", user.twoFactorEnabled ? tag("on", "good") : tag("off")],
      ["State", user.deleting ? tag("being deleted") : user.disabled ? tag("disabled") : tag("enabled", "good")],
      ["Roles", roles(user)],
    ]),
    may && el("div", { class: "acts" },
      !user.deleting && (user.disabled
        ? doing("Enable", async () => { await act("POST", `${at}/enable`, {}); await again(); }, { said: "The account is enabled." })
        : doing("Disable", async () => { await act("POST", `${at}/disable`, {}); await again(); },
          { kind: "danger", ask: `Disable ${user.email}? Sessions end, and API tokens are refused until the account is enabled.`, said: "The account is disabled." })),
      doing("Unlock", () => act("POST", `${at}/unlock`, {}), { said: "Failed attempts are forgotten." }),
      doing("Sign out everywhere", async () => { await act("DELETE", `${at}/sessions`); await again(); },
        { kind: "danger", ask: `End all sessions and JSON web tokens of ${user.email}?`, said: "Signed out everywhere." }),
      doing("Delete", async () => { await act("DELETE", at); await go("/admin/users"); },
        { kind: "danger", ask: `Delete ${user.email} for good? Sessions, API tokens and memberships end. This cannot be undone.`, does: "Delete it", said: "The account is deleted." }),
      user.twoFactorEnabled && doing("Reset second factor", async () => { await act("DELETE", `${at}/two-factor`); await again(); },
        { kind: "danger", ask: `Remove the second factor of ${user.email}? The password alone signs in then.`, does: "Remove it", said: "The second factor is removed." }))),
    may && section("Roles", form(save, field("Roles, separated by commas", input), !user.emailVerified && unverified(insist))),
    section("Sessions", table("Sessions", ["Last used", "Began", "Address", "Program", "Actions"], keys(sessions.data).map((session) => [
      ago(session.lastSeenAt), ago(session.createdAt), session.address || "–", session.userAgent || "–",
      may && doing("End", async () => { await act("DELETE", `${at}/sessions/${encodeURIComponent(session.id)}`); await again(); }, { said: "The session has ended." }),
    ]), "No session.")),
    section("API tokens", table("API tokens", ["Name", "Begins with", "Scopes", "Last used", "Ends", "Actions"], keys(tokens.data).map((token) => [
      token.name, el("code", {}, token.prefix), token.scopes.map((scope) => tag(scope)), ago(token.lastUsedAt), ago(token.expiresAt),
      may && doing("Revoke", async () => { await act("DELETE", `${at}/tokens/${encodeURIComponent(token.id)}`); await again(); },
        { kind: "danger", ask: `Revoke the token ${isolated(token.name)}? Programs that use it stop working.`, said: "The token is revoked." }),
    ]), "No API token.")),
    me.features.includes("clients") && section("Connected programs", table("Connected programs", ["Program", "Scopes", "Connected", "Last token", "Actions"], keys(connections.data).map((program) => [
      el("span", {}, program.name, program.host && el("code", {}, program.host), program.tenant && tag(`in ${program.tenant}`)),
      program.scopes.map((scope) => tag(scope)), ago(program.createdAt), ago(program.lastUsedAt),
      may && doing("Disconnect", async () => { await act("DELETE", `${at}/connections/${encodeURIComponent(program.id)}`); await again(); },
        { kind: "danger", ask: `Disconnect ${isolated(program.name)} from ${user.email}? Its tokens stop working at once.`, said: "The program is disconnected." }),
    ]), "No program is connected.")),
    me.features.includes("audit") && section("What happened", await events({ user: id, limit: "20" }, signal)),
  ];
}
