// A page that shows what the hooks return. `window.start` mounts it.
import { createClient } from "@gatewright/client";
import { GatewrightProvider, useClient, useMutations, useRecord, useRecords, useSession } from "@gatewright/react";
import { createElement as h, StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

const shown = (reading) => ({ loading: reading.loading, error: reading.error?.failure.kind ?? null });
const titles = ({ data }) => data?.map(({ title, rank }) => `${title} ${rank ?? "-"}`);

function List({ id, query }) {
  const reading = useRecords("notes", query);
  return h("output", { id }, JSON.stringify({ ...shown(reading), titles: titles(reading) }));
}

function One({ id }) {
  const reading = useRecord("notes", id);
  const { data } = reading;
  return h("output", { id: "one" }, JSON.stringify({ ...shown(reading), title: data && data.title, isNull: data === null }));
}

function Session() {
  const session = useSession();
  window.session = session;
  return h("output", { id: "session" }, JSON.stringify({ ...shown(session), email: session.data?.user.email ?? session.data }));
}

function Refused() {
  return h("output", { id: "refused" }, JSON.stringify(shown(useRecords("nothing"))));
}

function App() {
  const [one, setOne] = useState(null);
  const [lists, setLists] = useState(1);
  Object.assign(window, { setOne, setLists, mutations: useMutations("notes"), client: useClient() });
  return h(
    "main",
    null,
    h(Session),
    h(Refused),
    ...Array.from({ length: lists }, (_, at) => h(List, { key: at, id: `all-${at}` })),
    h(List, { id: "high", query: { where: { rank_gte: 5 }, sort: "-rank" } }),
    h(List, { id: "first", query: { sort: "title", limit: 2 } }),
    one && h(One, { id: one }),
  );
}

/** Writes wait until they are let through, if `isHeld`. */
window.start = ({ isHeld, ...options }) => {
  const held = [];
  window.release = () => held.splice(0).forEach((pass) => pass());
  const holding = async (input, init) => {
    if (init.method !== "GET" && /\/notes/.test(String(input))) await new Promise((pass) => held.push(pass));
    return fetch(input, init);
  };
  const client = createClient({ ...options, ...(isHeld && { fetch: holding }) });
  createRoot(document.body).render(h(StrictMode, null, h(GatewrightProvider, { client }, h(App))));
};
window.createClient = createClient;
window.read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
