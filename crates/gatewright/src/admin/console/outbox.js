import { act, get, keys } from "./api.js";
import { ago, copied, doing, el, field, fill, lasting, link, section, select, table, tag } from "./ui.js";

const kinds = { pending: "note", dispatched: "good", dead: "bad", abandoned: "note" };

/** Consumers with their lag, and what failed. */
export async function outbox({ query, signal, remember, me }) {
  const consumers = keys((await get("/outbox", { signal })).data);
  const rows = consumers.map((consumer) => [
    el("span", {}, consumer.name, " ", consumer.declared ? "" : tag("not declared here", "note")), String(consumer.pending),
    consumer.dead ? tag(String(consumer.dead), "bad") : "0", lasting(consumer.lagSeconds), `${consumer.delivered} / ${consumer.failed}`,
  ]);
  const list = el("div", { "aria-live": "polite" });
  const status = select({ onchange: () => search() }, [["failing", "Failing or dead"], ["dead", "Dead"], ["pending", "Pending"], ["dispatched", "Delivered"], ["abandoned", "Abandoned"]], query.get("status") || "failing");
  const consumer = select({ onchange: () => search() }, [["", "All"], ...consumers.map(({ name }) => [name, name])], query.get("consumer") || "");
  const search = async (cursor = "") => {
    const asked = { status: status.value, consumer: consumer.value };
    remember(asked);
    const found = await get(`/outbox/deliveries?${new URLSearchParams({ ...asked, cursor })}`, { signal });
    fill(list, deliveries(keys(found.data), me, () => search(cursor)),
      el("div", { class: "acts" }, cursor && doing("First page", () => search()), found.cursor && doing("Next page", () => search(found.cursor))));
  };
  await search();
  return [
    el("h1", {}, "Outbox"),
    section("Consumers", table("Consumers", ["Consumer", "Pending", "Dead", "Lag", "Delivered / failed by this process"], rows, "No consumer is declared. Add an [[outbox.consumer]] to the configuration.")),
    section("Deliveries", el("div", { class: "line" }, field("Which", status), field("Consumer", consumer)), list),
  ];
}

function deliveries(found, me, again) {
  const rows = found.map((delivery) => [
    link(["outbox", delivery.eventId], `${delivery.eventId.slice(0, 8)}…`, { "aria-label": `Open ${delivery.eventId}` }),
    delivery.consumer, tag(delivery.status, kinds[delivery.status]), String(delivery.attempts),
    el("span", { class: "cut", title: delivery.lastError || undefined }, delivery.lastError || "–"), ago(delivery.createdAt),
    me.mayWrite && ["dead", "abandoned"].includes(delivery.status) && doing("Replay", async () => {
      await act("POST", `/outbox/events/${encodeURIComponent(delivery.eventId)}/replay`, { consumer: delivery.consumer });
      await again();
    }, { said: "It is delivered again." }),
  ]);
  return table("Deliveries", ["Event", "Consumer", "Status", "Attempts", "Last error", "Staged", "Actions"], rows, "Nothing here. That is good news.");
}

/** The deliveries of one event. */
export async function delivery({ parts: [, id], me, signal, go }) {
  const found = keys((await get(`/outbox/events/${encodeURIComponent(id)}`, { signal })).data);
  const errors = found.filter(({ lastError }) => lastError).map((of) => section(`Last error of ${of.consumer}`, el("pre", {}, of.lastError)));
  return [el("h1", {}, "Event"), section("", el("p", {}, copied(id, "the id")), deliveries(found, me, () => go(location.pathname))), ...errors];
}
