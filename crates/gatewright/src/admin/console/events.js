import { get, keys } from "./api.js";
import { ago, copied, el, field, fill, link, section, select, table, tag } from "./ui.js";

/** How many events are shown. */
const MOST = 100;

/** The writes to an entity as they happen, by the service's own stream. */
export async function events({ query, signal, remember }) {
  const entities = (await get("/records", { signal })).data.map(keys);
  if (!entities.length) return [el("h1", {}, "Live events"), section("", el("p", { class: "empty" }, "No entity is declared. Add an [[entity]] to the configuration."))];
  const names = entities.map((entity) => [entity.table, entity.name]);
  const wanted = select({ name: "entity", onchange: () => follow() }, names, query.get("entity") || names[0][0]);
  const state = el("p", { class: "soft", role: "status" });
  const list = el("div", {});
  const pause = el("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => {
    pause.setAttribute("aria-pressed", String(pause.getAttribute("aria-pressed") !== "true"));
    draw();
  } }, "Pause");
  let seen = [];
  let source;
  const draw = () => {
    if (pause.getAttribute("aria-pressed") === "true") return;
    fill(list, table("Events", ["When", "What", "Record", "Data"], seen.map((event) => [
      ago(event.at), tag(event.type, event.type === "entity.deleted" ? "bad" : "good"),
      event.id ? link(["records", wanted.value, event.id], event.id) : "–", el("pre", { class: "cut" }, event.text),
    ]), "Nothing has happened since this page was opened. Writes appear here at once."));
  };
  const follow = () => {
    source?.close();
    seen = [];
    draw();
    remember({ entity: wanted.value });
    state.textContent = "Connecting…";
    source = new EventSource(`/admin/api/events/${encodeURIComponent(wanted.value)}`);
    source.onopen = () => { state.textContent = "Connected."; };
    source.onerror = () => { state.textContent = source.readyState === EventSource.CLOSED ? "The stream has ended." : "Connecting again…"; };
    for (const type of ["entity.created", "entity.updated", "entity.deleted"]) {
      source.addEventListener(type, ({ data }) => {
        const held = JSON.parse(data).data || {};
        seen = [{ at: new Date().toISOString(), type, id: (held.record || held).id, text: JSON.stringify(held.record || held, null, 2) }, ...seen].slice(0, MOST);
        draw();
      });
    }
    source.addEventListener("gap", () => { state.textContent = "Some events were missed."; });
  };
  signal.addEventListener("abort", () => source?.close());
  follow();
  return [
    el("h1", {}, "Live events"),
    section("", el("div", { class: "line" }, field("Entity", wanted), pause), state, list,
      el("p", { class: "hint" }, "The same stream for a program: ", copied("/admin/api/events/TABLE", "the path"))),
  ];
}
