import { act, get, keys } from "./api.js";
import { el, facts, field, fill, section, select, tag, value } from "./ui.js";

/** Why somebody may do something with a record, or may not: every check with every term and its value. */
export async function explain({ query, signal, remember }) {
  const entities = (await get("/records", { signal })).data.map(keys);
  const inputs = {
    as: el("input", { name: "as", value: query.get("as") || "", placeholder: "ann@example.com", required: true, autocomplete: "off", spellcheck: "false" }),
    operation: select({ name: "operation" }, ["read", "create", "update", "delete"].map((name) => [name, name]), query.get("operation") || "read"),
    table: select({ name: "table" }, entities.map((entity) => [entity.table, entity.name]), query.get("table") || ""),
    id: el("input", { name: "id", value: query.get("id") || "", autocomplete: "off", spellcheck: "false" }),
    tenant: entities.some(({ multiTenant }) => multiTenant) && el("input", { name: "tenant", value: query.get("tenant") || "", autocomplete: "off" }),
  };
  const labels = { as: "As", operation: "Operation", table: "Entity", id: "Record's id", tenant: "Tenant" };
  const hints = { as: "An address, service:NAME or anonymous.", id: "Without it, only access to the entity is checked." };
  const answer = el("div", { "aria-live": "polite" });
  const ask = async () => {
    const asked = Object.fromEntries(Object.entries(inputs).filter(([, input]) => input && input.value.trim()).map(([name, input]) => [name, input.value.trim()]));
    remember(asked);
    try {
      fill(answer, ...drawn((await act("POST", "/explain", asked, { signal })).data));
    } catch (error) {
      if (!signal.aborted) fill(answer, el("p", { role: "alert" }, error.message));
    }
  };
  const form = el("form", { onsubmit: (event) => { event.preventDefault(); ask(); } },
    el("div", { class: "line" }, Object.entries(inputs).filter(([, input]) => input).map(([name, input]) => field(labels[name], input, hints[name]))),
    el("button", { type: "submit" }, "Explain"));
  if (inputs.as.value) await ask();
  return [el("h1", {}, "Explain access"), section("", form), answer];
}

function drawn(explanation) {
  const verdict = explanation.allowed ? tag("allowed", "good") : tag(`denied${explanation.status ? ` with ${explanation.status}` : ""}`, "bad");
  return [
    section("Answer", el("p", {}, verdict, explanation.reason ? ` ${explanation.reason}` : "")),
    ...(explanation.checks || []).map((check) => section(check.check,
      el("p", {}, check.passed === null ? tag("not checked", "note") : check.passed ? tag("passed", "good") : tag("failed", "bad"), check.detail ? ` ${check.detail}` : ""),
      check.rule && el("pre", {}, check.rule),
      check.terms?.length > 0 && facts(check.terms.map((term) => [
        el("span", {}, "\u2003".repeat(Math.min(term.depth || 0, 6)), term.holds ? tag("true", "good") : tag("false", "bad")),
        el("div", {}, el("code", {}, term.term), (term.values || []).map((of) => el("p", { class: "soft" }, `${of.of} = `,
          of.hidden ? "hidden" : (of.values || []).map((held) => el("span", {}, value(held), " ")), of.more ? "…" : ""))),
      ])))),
  ];
}
