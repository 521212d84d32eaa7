import { act, get, keys } from "./api.js";
import { ago, doing, el, field, form, isolated, link, prose, section, table, tag } from "./ui.js";

const listed = (input) => input.value.split(",").map((word) => word.trim()).filter(Boolean);

/** Open invitations. */
export async function invitations({ me, signal, go }) {
  const again = () => go(location.pathname);
  const rows = keys((await get("/invitations", { signal })).data).map((invitation) => [
    invitation.email, (invitation.roles || []).map((role) => tag(role)),
    invitation.tenant ? el("span", {}, link(["tenants", invitation.tenant], invitation.tenant), invitation.tenantRoles.map((role) => tag(role))) : "–", ago(invitation.createdAt), ago(invitation.expiresAt),
    me.mayWrite && doing("Withdraw", async () => { await act("DELETE", `/invitations/${encodeURIComponent(invitation.id)}`); await again(); },
      { kind: "danger", ask: `Withdraw the invitation of ${invitation.email}? Its link stops working.`, said: "The invitation is withdrawn." }),
  ]);
  const email = el("input", { name: "email", type: "email", autocomplete: "off" });
  const roles = el("input", { name: "roles", autocomplete: "off" });
  const tenant = el("input", { name: "tenant", autocomplete: "off" });
  const tenantRoles = el("input", { name: "tenantRoles", autocomplete: "off" });
  const invite = doing("Send invitation", async () => {
    const body = { email: email.value.trim() };
    if (listed(roles).length) body.roles = listed(roles);
    if (tenant.value.trim()) body.tenant = tenant.value.trim();
    if (listed(tenantRoles).length) body.tenantRoles = listed(tenantRoles);
    await act("POST", "/invitations", body);
    await again();
  }, { kind: "", said: "The invitation is sent." });
  return [
    el("h1", {}, "Invitations"),
    section("", table("Invitations", ["Address", "Roles", "Tenant", "Sent", "Expires", "Actions"], rows, "No invitation is open.")),
    me.mayWrite && section("Invite an address", form(invite,
      el("div", { class: "line" }, field("Address", email), field("Roles", roles, "Separated by commas. Empty: the default roles.")),
      me.features.includes("tenants") && el("div", { class: "line" }, field("Tenant", tenant, "Its id. Empty: none."), field("Roles in the tenant", tenantRoles, "Separated by commas. Empty: member.")))),
  ].filter(Boolean);
}

/** The accounts of programs. */
export async function services({ me, signal, go }) {
  const again = () => go(location.pathname);
  const rows = keys((await get("/service-accounts", { signal })).data).map((account) => {
    const at = `/service-accounts/${encodeURIComponent(account.id)}`;
    return [
      account.name, el("code", {}, account.id), account.roles.map((role) => tag(role)), ago(account.createdAt),
      account.disabled ? tag("disabled") : tag("enabled", "good"),
      me.mayWrite && (account.disabled
        ? doing("Enable", async () => { await act("POST", `${at}/enable`, {}); await again(); }, { said: "The account is enabled." })
        : doing("Disable", async () => { await act("POST", `${at}/disable`, {}); await again(); },
          { kind: "danger", ask: `Disable ${isolated(account.name)}? Its tokens are refused until it is enabled.`, said: "The account is disabled." })),
    ];
  });
  const name = el("input", { name: "name", autocomplete: "off" });
  const roles = el("input", { name: "roles", autocomplete: "off" });
  const create = doing("Create", async () => {
    await act("POST", "/service-accounts", { name: name.value.trim(), roles: listed(roles) });
    await again();
  }, { kind: "", said: "The account is created." });
  return [
    el("h1", {}, "Service accounts"),
    section("", table("Service accounts", ["Name", "Id", "Roles", "Created", "State", "Actions"], rows,
      "There is no service account. Programs that act for themselves need one.")),
    me.mayWrite && section("Create a service account", form(create,
      el("div", { class: "line" }, field("Name", name), field("Roles", roles, "Separated by commas.")),
      el("p", { class: "hint" }, prose("Issue its tokens with `gatewright token issue --service NAME`.")))),
  ].filter(Boolean);
}
