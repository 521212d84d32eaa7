// The few words that pages are written in. Text goes into the page as text nodes alone: no value becomes markup, and the
// policy of the page (trusted types) refuses it if somebody tries.

/** An element. `on…` are listeners, `class` and the others attributes; strings among the children are text. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  return fill(made, children);
}

/** Replaces what is in an element. Text becomes text nodes; what is absent (`null`, `undefined`, `false`) is left out. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map((child) =>
    child instanceof Node ? child : String(child)));
  return element;
}

/** A name within a sentence. One that is not ASCII is isolated, because it may be written from right to left. */
export const isolated = (name) => /^[\x20-\x7e]*$/.test(name) ? name : `\u2068${name}\u2069`;

/** A link within the console. The parts are escaped, so that an id cannot lead elsewhere. */
export const link = (parts, text, attributes = {}) => el("a", { href: path(...parts), ...attributes }, text);
export const path = (...parts) => ["/admin", ...parts.map((part) => encodeURIComponent(part))].join("/");

/** The page of a record. `tenant` is the one that the operator works in, if any. */
export const recordPath = (entity, id, tenant) => path("records", entity, id) + (tenant ? `?${new URLSearchParams({ tenant })}` : "");
export const recordLink = (entity, id, tenant, text, attributes = {}) => el("a", { href: recordPath(entity, id, tenant), ...attributes }, text);

const units = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** A point in time: how long ago, with the exact moment at hand. */
export function ago(at) {
  if (!at) return el("span", { class: "soft" }, "never");
  return el("time", { datetime: at, title: new Date(at).toLocaleString() + " (" + at + ")", "data-ago": "" }, words(at));
}

function words(at) {
  const seconds = Math.round((Date.parse(at) - Date.now()) / 1000);
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) || units.at(-1);
  return relative.format(Math.trunc(seconds / size), unit);
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ago]")) time.textContent = words(time.dateTime);
}, 15000);

/** A duration in the two largest units. */
export function lasting(seconds) {
  if (seconds < 1) return "0 s";
  const found = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].map(([unit, size], index, all) => {
    const larger = index ? all[index - 1][1] : Infinity;
    return [Math.floor((seconds % larger) / size), unit];
  }).filter(([count]) => count > 0);
  return found.slice(0, 2).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** A value with a button that copies it. */
export function copied(text, what) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${what}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("The browser does not allow copying here.");
    }
  } }, "Copy");
  return el("span", {}, el("code", {}, text), button);
}

/** Any value of a record or an event, as text. */
export function value(held) {
  if (held === null || held === undefined) return el("span", { class: "soft" }, "–");
  if (typeof held === "boolean") return held ? "yes" : "no";
  if (typeof held === "object") return el("pre", {}, JSON.stringify(held, null, 2));
  const text = String(held);
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return ago(text);
  return el("span", { class: "cut", title: text.length > 120 ? text.slice(0, 2000) : undefined }, text);
}

export const tag = (text, kind = "") => el("span", { class: `tag ${kind}` }, text);

/** Our own words, with commands between backticks. Never for values. */
export const prose = (text) => text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part));

/** Rows under headings. On a phone each cell is a line with its heading; the roles keep it a table for those who do not see it. */
export function table(name, headings, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, prose(empty));
  const head = el("tr", { role: "row" }, headings.map((heading) => el("th", { scope: "col", role: "columnheader" }, heading)));
  const cell = (held, index) => el("td", { role: "cell", "data-heading": headings[index] }, el("div", {}, held));
  const body = rows.map((cells) => el("tr", { role: "row" }, cells.map(cell)));
  return el("div", { class: "scroll", role: "region", "aria-label": name, tabindex: "0" },
    el("table", { role: "table" }, el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, body)));
}

/** Names with their values. */
export function facts(pairs) {
  return el("dl", {}, pairs.filter(Boolean).map(([name, held]) => [el("dt", {}, name), el("dd", {}, held)]));
}

export const section = (heading, ...children) => el("section", {}, heading && el("h2", {}, heading), ...children);

/** Fields with their buttons. Enter in a field presses the first. */
export function form(buttons, ...children) {
  const [first] = [buttons].flat();
  first.type = "submit";
  // The API says what is wrong with a value.
  return el("form", { novalidate: true, onsubmit: (event) => event.preventDefault() }, ...children, el("div", { class: "acts" }, buttons));
}

/** A labelled field. */
export function field(name, input, hint) {
  return el("label", {}, name, input, hint && el("span", { class: "hint" }, hint));
}

/** A box to tick, for an account whose mailbox nobody has proven. */
export function unverified(box) {
  return el("label", { class: "tick" }, box, "Also if the mailbox is not verified: anybody may have registered the account");
}

export function select(attributes, options, chosen) {
  return el("select", attributes, options.map(([key, text]) => el("option", { value: key, selected: key === chosen }, text)));
}

let saying;

/** Says that something happened, perhaps with a way back. */
export function say(text, undo) {
  const place = document.getElementById("said");
  clearTimeout(saying);
  const button = undo && el("button", { type: "button", onclick: () => { place.replaceChildren(); undo(); } }, "Undo");
  place.replaceChildren(el("p", {}, text, button));
  saying = setTimeout(() => place.replaceChildren(), undo ? 10000 : 4000);
}

/** Shows what went wrong, above everything else on the page. */
export function complain(error) {
  const main = document.getElementById("main");
  main.querySelector("[role=alert]")?.remove();
  main.prepend(el("p", { role: "alert" }, error.message));
}

/** Asks before what cannot be undone. */
export function confirm(question, does) {
  return new Promise((resolve) => {
    const done = (answer) => () => { dialog.close(); dialog.remove(); resolve(answer); };
    const dialog = el("dialog", { "aria-label": question, oncancel: done(false) }, el("p", {}, question),
      el("div", { class: "acts" },
        el("button", { type: "button", class: "danger", onclick: done(true) }, does),
        el("button", { type: "button", class: "quiet", onclick: done(false), autofocus: true }, "Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button that does something: it waits, says what happened or complains. */
export function doing(text, work, { kind = "quiet", ask, does = text, said } = {}) {
  const button = el("button", { type: "button", class: kind, onclick: async () => {
    if (ask && !(await confirm(ask, does))) return;
    button.disabled = true;
    try {
      await work();
      if (said) say(said);
    } catch (error) {
      if (error.code === "fresh_sign_in_required") await freshen();
      else complain(error);
    } finally {
      button.disabled = false;
    }
  } }, text);
  return button;
}

/** Leads to the sign-in and back. */
export async function freshen() {
  const again = await confirm("This needs a recent sign-in.", "Sign in again");
  if (again) location.assign(`/login?as=other&next=${encodeURIComponent(location.pathname + location.search)}`);
}

/** Runs after a pause in typing. */
export function slowly(work) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => work(...given), 180);
  };
}
