// The frame: who is here, the way between pages, and what is shown when there is no page to show.

import { get, keys, signOut } from "./api.js";
import { el, fill, link, path } from "./ui.js";
import { overview } from "./overview.js";
import { users, user } from "./users.js";
import { entities, records, record } from "./records.js";
import { events } from "./events.js";
import { explain } from "./explain.js";
import { outbox, delivery } from "./outbox.js";
import { job, jobs } from "./jobs.js";
import { mails } from "./mails.js";
import { lockouts, audit } from "./watch.js";
import { system } from "./system.js";
import { tenants, tenant } from "./tenants.js";
import { invitations, services } from "./people.js";

const pages = [
  { at: [], name: "Overview", show: overview },
  { at: ["users"], name: "Users", show: users },
  { at: ["users", null], show: user },
  { at: ["invitations"], name: "Invitations", show: invitations, needs: "invitations" },
  { at: ["service-accounts"], name: "Service accounts", show: services, needs: "services" },
  { at: ["tenants"], name: "Tenants", show: tenants, needs: "tenants" },
  { at: ["tenants", null], show: tenant },
  { at: ["records"], name: "Records", show: entities },
  { at: ["records", null], show: records },
  { at: ["records", null, null], show: record },
  { at: ["explain"], name: "Explain", show: explain },
  { at: ["events"], name: "Live events", show: events, needs: "events" },
  { at: ["outbox"], name: "Outbox", show: outbox, needs: "outbox" },
  { at: ["outbox", null], show: delivery },
  { at: ["mails"], name: "Mail queue", show: mails, needs: "mail_queue" },
  { at: ["jobs"], name: "Jobs", show: jobs, needs: "jobs" },
  { at: ["jobs", null], show: job },
  { at: ["lockouts"], name: "Lockouts", show: lockouts },
  { at: ["audit"], name: "Audit log", show: audit, needs: "audit" },
  { at: ["system"], name: "System", show: system },
];

const main = document.getElementById("main");
let me;
/** What ends when the page is left: timers, requests. */
let leaving = new AbortController();

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const parts = location.pathname.split("/").filter(Boolean).slice(1).map(decode);
  const page = pages.find(({ at }) => at.length === parts.length && at.every((part, index) => part === null || part === parts[index]));
  for (const entry of document.querySelectorAll("#nav a")) {
    const first = entry.pathname.split("/")[2] || "";
    entry.toggleAttribute("aria-current", first === (parts[0] || ""));
    if (entry.hasAttribute("aria-current")) {
      entry.setAttribute("aria-current", "page");
      entry.scrollIntoView({ block: "nearest", inline: "center" });
    }
  }
  const context = { me, parts, query: new URLSearchParams(location.search), signal: leaving.signal, go, remember };
  const { signal } = leaving;
  try {
    const content = page ? await page.show(context) : missing();
    if (!signal.aborted) place(content);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401) return location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    place([el("h1", {}, error.status === 404 ? "Not found" : "This page cannot be shown"), el("p", { role: "alert" }, error.message)]);
  }
}

function place(content) {
  fill(main, content);
  document.title = `${main.querySelector("h1")?.textContent || "Console"} · Console`;
  window.scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

const missing = () => [el("h1", {}, "Not found"), el("p", {}, "There is no such page. ", link([], "Go to the overview"), ".")];

function decode(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Goes to a page of the console. */
function go(to) {
  history.pushState(null, "", to);
  return show();
}

/** Keeps what was searched for in the address, so that the back button and a copied link find it again. */
function remember(query) {
  const kept = Object.entries(query).filter(([, held]) => held);
  const text = new URLSearchParams(kept).toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

document.addEventListener("click", (event) => {
  const to = event.target.closest?.("a");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const ours = to && to.origin === location.origin && /^\/admin(\/|$)/.test(to.pathname) && !to.pathname.startsWith("/admin/api") && !to.hash;
  if (!ours || !plain || event.defaultPrevented) return;
  event.preventDefault();
  go(to.pathname + to.search);
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key !== "/" || typing || event.metaKey || event.ctrlKey || event.altKey) return;
  const search = main.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.focus(); }
});
window.addEventListener("popstate", show);

async function start() {
  try {
    me = keys((await get("/me")).data);
  } catch (error) {
    if (error.status === 401) return location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    return place(refused(error));
  }
  const known = pages.filter(({ name, needs }) => name && (!needs || me.features.includes(needs)));
  document.getElementById("nav").replaceChildren(...known.map(({ at, name }) => el("a", { href: path(...at) }, name)));
  const out = el("button", { type: "button", class: "quiet", onclick: async () => { await signOut(); location.assign("/login?next=%2Fadmin"); } }, "Sign out");
  document.getElementById("who").replaceChildren(`${me.email || me.id} `, out);
  await show();
}

/** Why somebody may not come in, and what to do about it. */
function refused(error) {
  const factor = error.code === "two_factor_required";
  const way = factor
    ? el("p", {}, "Turn on the second factor on ", el("a", { href: "/account/second-factor" }, "your account page"), ", then open the console again.")
    : el("p", {}, "An operator can give you the role, or ", el("a", { href: "/login?as=other&next=%2Fadmin" }, "sign in as another user"), ".");
  return [el("h1", {}, "The console is closed to this account"), el("p", { role: "alert" }, error.message), way];
}

start();
