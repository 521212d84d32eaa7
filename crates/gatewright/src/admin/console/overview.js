import { get, keys } from "./api.js";
import { chart } from "./chart.js";
import { ago, el, facts, fill, lasting, link, section, tag } from "./ui.js";

/** How often the numbers are asked for again, in milliseconds. */
const PERIOD = 5000;

/** How the deployment does, now and over the last hour. */
export async function overview({ signal, me }) {
  const content = el("div", {});
  const draw = async () => {
    const [health, series] = await Promise.all([get("/health", { signal }), get("/series", { signal })]);
    fill(content, ...drawn(keys(health.data), keys(series.data), me));
  };
  await draw();
  const timer = setInterval(() => { if (!document.hidden) draw().catch(() => {}); }, PERIOD);
  signal.addEventListener("abort", () => clearInterval(timer));
  return [el("h1", {}, "Overview"), content];
}

function drawn(health, series, me) {
  const of = (name) => series.map((minute) => minute[name]);
  const sum = (name) => of(name).reduce((all, held) => all + held, 0);
  const last = series.at(-1);
  const graph = (name, number, lines, unit, note) =>
    section(name, el("span", { class: "big" }, String(number)), el("span", { class: "soft" }, ` ${note}`), chart(name, lines, unit));
  const charts = [
    graph("Requests", sum("requests"), [of("requests")], "requests", "in the last hour"),
    graph("Errors", sum("errors"), [of("refusals"), of("errors")], "answers", `server errors, ${sum("refusals")} refusals`),
    graph("Latency", last.p95Ms ?? "–", [of("p95Ms")], "milliseconds", "ms or less for 95 of 100 answers, this minute"),
    graph("Streams", health.streams, [of("streams")], "streams", "open now"),
  ];
  if (me.features.includes("outbox")) {
    charts.push(graph("Outbox lag", lasting(last.lagSeconds), [of("lagSeconds")], "seconds", "for the oldest pending event"));
  }
  const mail = health.mail && keys(health.mail);
  const state = (good, yes, no) => tag(good ? yes : no, good ? "good" : "bad");
  return [
    el("div", { class: "grid" }, charts),
    section("Now", facts([
      ["Database", el("span", {}, state(health.database, "answers", "does not answer"), health.engine)],
      health.fanout && ["Fan-out", el("span", {}, state(health.fanout.up, "works", "does not work"), health.fanout.backend)],
      ["Version", health.version],
      ["Started", ago(health.startedAt)],
      mail && ["Mail queue", el("span", {}, `${mail.waiting} waiting, ${mail.sent} sent, `, mail.failed ? tag(`${mail.failed} failed`, "bad") : "0 failed",
        mail.dropped ? tag(`${mail.dropped} dropped`, "bad") : "", me.features.includes("mail_queue") && [" ", link(["mails"], "Mail queue")])],
      health.eventsDropped > 0 && ["Events", tag(`${health.eventsDropped} lost by slow streams`, "note")],
      health.streamsRefused > 0 && ["Streams refused", String(health.streamsRefused)],
    ]), el("p", {}, link(["system"], "Configuration and migrations"))),
  ];
}
