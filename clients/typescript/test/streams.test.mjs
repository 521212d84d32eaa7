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

test("a stream carries what passes its filter, and of the caller's own records", async () => {
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
