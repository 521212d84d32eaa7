import { act, get, keys } from "./api.js";
import { ago, doing, el, link, path, section, table, tag } from "./ui.js";

const kinds = { running: "note", succeeded: "good", failed: "bad", interrupted: "bad" };

/** Jobs with their latest run. */
export async function jobs({ me, signal, go }) {
  const found = keys((await get("/jobs", { signal })).data);
  const rows = found.map((job) => [
    link(["jobs", job.name], job.name),
    el("span", {}, el("code", {}, job.schedule), ` ${job.timezone}`), job.kind, ago(job.nextAt), ago(job.lastSuccessAt),
    job.lastRun ? tag(job.lastRun.outcome, kinds[job.lastRun.outcome]) : "–",
    el("span", { class: "cut", title: job.lastRun?.error || undefined }, job.lastRun?.error || "–"),
    me.mayWrite && running(job.name, () => go(path("jobs", job.name))),
  ]);
  const headings = ["Job", "Schedule", "Does", "Next", "Last success", "Last run", "Last error", "Actions"];
  return [el("h1", {}, "Jobs"), section("", table("Jobs", headings, rows, "No job is declared. Add a [[job]] to the configuration."))];
}

/** The runs of one job. */
export async function job({ parts: [, name], me, signal, go }) {
  const found = keys((await get(`/jobs/${encodeURIComponent(name)}/history?limit=100`, { signal })).data);
  const rows = found.map((run) => [
    ago(run.startedAt), ago(run.dueAt), run.cause, String(run.attempt), tag(run.outcome, kinds[run.outcome]),
    run.durationMs === null ? "–" : `${run.durationMs} ms`, String(run.skipped), run.error || "–",
  ]);
  const headings = ["Began", "Due", "Cause", "Attempt", "Outcome", "Took", "Skipped meanwhile", "Error"];
  return [
    el("h1", {}, name),
    section("", me.mayWrite && el("div", { class: "acts" }, running(name, () => go(location.pathname))),
      table("Runs", headings, rows, "It has not run yet.")),
  ];
}

const running = (name, then) => doing("Run now", async () => {
  await act("POST", `/jobs/${encodeURIComponent(name)}/run`);
  await then();
}, { said: "A server begins it within a second." });
