// Streams in Node, through a proxy that breaks connections.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, failureOf, next, PASSWORD, proxy, somebody } from "./support.mjs";

test("a list and the stream after it miss nothing, through broken connections", async () => {
  const { client, email } = await somebody();
  const way = await proxy();
  const far = createClient({ url: way.url });
  await far.auth.signIn({ email, password: PASSWORD });
  const notes = client.records("notes");
  await notes.create({ title: "before" });
  const { records, eventCursor } = await far.records("notes").list().all();
  assert.deepEqual(records.map(({ title }) => title), ["before"]);
  await notes.create({ title: "between" });
  const stop = new AbortController();
  const events = far.records("notes").events({ since: eventCursor, signal: stop.signal });
  assert.equal((await next(events, "entity.created")).record.title, "between");
  const told = [];
  for (let round = 0; round < 5; round += 1) {
    const made = await notes.create({ title: `live ${round}` });
    assert.deepEqual((await next(events, "entity.created")).record, made, "with its entity tag");
    way.cut();
    const offline = await next(events, "offline");
    assert.ok(offline.wait > 0);
    const missed = await notes.update(made, { title: `missed ${round}` });
    await notes.delete(missed);
    way.mend();
    for (const type of ["entity.updated", "entity.deleted"]) {
      const event = await next(events, "entity.created", "entity.updated", "entity.deleted", "gap");
      assert.deepEqual([event.type, event.record?.title], [type, `missed ${round}`]);
      told.push(event.id);
    }
  }
  assert.equal(new Set(told).size, told.length, "no event twice");
  stop.abort();
  assert.equal((await events.next()).done, true);
  way.close();
});

test("a position that the log does not have is a gap, and live events follow", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const stop = new AbortController();
  const events = notes.events({ since: "0123456789abcdef-1", signal: stop.signal });
  const gap = await next(events, "gap");
  assert.equal(gap.reason, "expired");
  await notes.create({ title: "after" });
  assert.equal((await next(events, "entity.created")).record.title, "after");
  stop.abort();
});

test("a stream has only events that match its filter, of the caller's own records", async () => {
  const [ada, eve] = [await somebody(), await somebody()];
  const stop = new AbortController();
  const events = ada.client.records("notes").events({ filter: "rank > 5", signal: stop.signal });
  await next(events, "ready");
  await eve.client.records("notes").create({ title: "eve's", rank: 9 });
  await ada.client.records("notes").create({ title: "low", rank: 1 });
  await ada.client.records("notes").create({ title: "high", rank: 6 });
  assert.equal((await next(events, "entity.created")).record.title, "high");
  stop.abort();
});

test("a stream ends with an error when its caller would be refused", async () => {
  const { client } = await somebody();
  const events = client.records("notes").events();
  await next(events, "ready");
  await client.auth.signOut();
  const end = (async () => {
    for await (const event of events) void event;
  })();
  assert.equal((await failureOf(end)).kind, "unauthenticated");
  const refused = client.records("notes").events({ since: "nonsense" });
  assert.equal((await failureOf(refused.next())).kind, "unauthenticated");
});

test("a bad position or filter is an error at once", async () => {
  const { client } = await somebody();
  for (const options of [{ since: "nonsense" }, { filter: "nope = 1" }]) {
    assert.equal((await failureOf(client.records("notes").events(options).next())).kind, "malformed");
  }
});

test("silence counts as a lost connection", async () => {
  const { client } = await somebody();
  const events = client.records("notes").events({ silence: 200 });
  await next(events, "ready");
  const offline = await next(events, "offline");
  assert.equal(offline.failure.kind, "network");
  await next(events, "ready");
  await events.return();
});

/** An `EventSource` whose events a test makes. */
class Source extends EventTarget {
  static opened = [];
  constructor(address) {
    super();
    this.address = new URL(address);
    this.addEventListener("open", (event) => this.onopen?.(event));
    this.addEventListener("error", (event) => this.onerror?.(event));
    Source.opened.push(this);
  }
  tell(event, data, lastEventId) {
    this.dispatchEvent(Object.assign(new Event(event), { data: JSON.stringify(data), lastEventId }));
  }
  close() {
    this.isClosed = true;
  }
}

/** The source that was opened as the given one, once it is there. */
async function opened(number) {
  while (!Source.opened[number]) await new Promise((done) => setTimeout(done, 5));
  return Source.opened[number];
}

test("if a runtime has only EventSource, each connection uses its own ticket", async () => {
  let tickets = 0;
  let status = 200;
  const fetched = [];
  const answer = async (address, { method, headers }) => {
    if (address.endsWith("/auth/csrf")) return new Response(null, { status: 204 });
    fetched.push([method, new URL(address).pathname, headers["X-Tenant-ID"]]);
    const body = { ticket: `ticket-${(tickets += 1)}`, expiresIn: 30 };
    return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  };
  const client = createClient({ url: "http://api.test", fetch: answer, EventSource: Source, streams: "eventsource", tenant: "acme" });
  const events = client.records("notes").events({ since: "c-0", filter: "rank > 5" });
  const first = events.next();
  const one = await opened(0);
  assert.equal(`${one.address}`, "http://api.test/notes/_events?filter=rank+%3E+5&since=c-0&etag=true&ticket=ticket-1");
  assert.deepEqual(fetched, [["POST", "/auth/stream-ticket", "acme"]]);
  one.dispatchEvent(new Event("open"));
  assert.equal((await first).value.type, "open");
  const told = { id: "e-1", type: "entity.created", data: { entity: "notes", table: "notes", record: { id: "1" } } };
  one.tell("entity.created", told, "c-1");
  assert.deepEqual((await events.next()).value.record, { id: "1" });
  one.dispatchEvent(new Event("error"));
  assert.equal((await events.next()).value.type, "offline");
  assert.equal(one.isClosed, true);
  const again = next(events, "entity.created");
  const two = await opened(1);
  assert.equal(two.address.searchParams.get("ticket"), "ticket-2");
  assert.equal(two.address.searchParams.get("since"), "c-1");
  two.dispatchEvent(new Event("open"));
  two.tell("entity.created", told, "c-1");
  two.tell("entity.created", { ...told, id: "e-2" }, "c-2");
  assert.equal((await again).id, "e-2", "a repeat is left out");
  await events.return();
  assert.equal(two.isClosed, true);
  // Nobody: what is public may be read, and nothing else.
  status = 401;
  const refused = client.records("notes").events().next();
  const three = await opened(2);
  assert.equal(three.address.searchParams.get("ticket"), null);
  assert.equal(three.address.searchParams.get("tenant"), "acme");
  three.dispatchEvent(new Event("error"));
  assert.equal((await failureOf(refused)).kind, "unauthenticated");
});
