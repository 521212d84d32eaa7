// The client in Node, against a real server.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { createClient, failureOf, filter, GatewrightError, mailed, mailedCode, PASSWORD, proxy, somebody, totp, url } from "./support.mjs";

test("an account signs in and out", async () => {
  const client = createClient({ url: `${url}/` });
  const email = "ada@example.com";
  assert.equal(await client.auth.me(), null);
  const account = await client.auth.register({ email, password: PASSWORD });
  assert.equal(account.email, email);
  assert.equal(await client.auth.me(), null, "registration signs nobody in");
  const wrong = await failureOf(client.auth.signIn({ email, password: "another password" }));
  assert.deepEqual([wrong.kind, wrong.status, wrong.detail], ["unauthenticated", 401, "invalid credentials"]);
  assert.match(wrong.requestId, /./);
  const signedIn = await client.auth.signIn({ email, password: PASSWORD });
  assert.deepEqual(signedIn, { status: "signed_in", user: account });
  const me = await client.auth.me();
  assert.deepEqual(me, { user: account, emailVerified: false, twoFactorEnabled: false });
  await client.auth.changePassword(PASSWORD, `${PASSWORD} 2`);
  assert.equal((await client.auth.me()).user.id, account.id, "this session lives on");
  await client.auth.signOut();
  assert.equal(await client.auth.me(), null);
  assert.equal((await failureOf(client.auth.register({ email, password: PASSWORD }))).kind, "conflict");
});

test("an account changes its profile", async () => {
  const { client } = await somebody();
  assert.deepEqual((await client.auth.me()).user.profile, { displayName: null });
  assert.deepEqual((await client.auth.changeProfile({ displayName: "Ada" })).profile, { displayName: "Ada" });
  assert.deepEqual((await client.auth.me()).user.profile, { displayName: "Ada" });
  const failure = await failureOf(client.auth.changeProfile({ roles: ["admin"] }));
  assert.deepEqual([failure.kind, failure.status], ["invalid", 422]);
});

test("a second factor is proven by the app or by a backup code", async () => {
  const { client, email } = await somebody();
  const { secret, qr } = await client.auth.enrollTwoFactor();
  assert.match(qr, /^data:image\/svg/);
  const codes = await client.auth.confirmTwoFactor(totp(secret));
  assert.equal(codes.length, 10);
  for (const code of [totp(secret, 1), codes[0]]) {
    await client.auth.signOut();
    assert.deepEqual(await client.auth.signIn({ email, password: PASSWORD }), { status: "two_factor_required" });
    assert.equal((await failureOf(client.records("notes").list().all())).code, "two_factor_required");
    assert.equal((await failureOf(client.auth.challenge("000000x"))).kind, "unauthenticated");
    await client.auth.challenge(code);
    assert.equal((await client.auth.me()).twoFactorEnabled, true);
  }
  await client.auth.disableTwoFactor(codes[1]);
  assert.equal((await client.auth.me()).twoFactorEnabled, false);
});

test("a mailed code signs in once, with its request", async () => {
  const client = createClient({ url });
  const email = "edith@example.com";
  const request = await client.auth.sendEmailCode(email);
  const code = await mailedCode(email);
  const other = createClient({ url });
  assert.equal((await failureOf(other.auth.verifyEmailCode(email, code, "x"))).code, "invalid_code");
  assert.equal((await other.auth.verifyEmailCode(email, code, request)).status, "signed_in");
  assert.equal((await failureOf(client.auth.verifyEmailCode(email, code, request))).code, "invalid_code");
});

test("a mailed link signs in once, and a mailed token sets a password", async () => {
  const client = createClient({ url });
  const email = "grace@example.com";
  await client.auth.sendMagicLink(email, { next: "/there" });
  const token = await mailed(email);
  assert.equal((await client.auth.redeemMagicLink(token)).status, "signed_in");
  assert.equal((await client.auth.me()).emailVerified, true);
  assert.equal((await failureOf(client.auth.redeemMagicLink(token))).kind, "unauthenticated");
  const other = createClient({ url });
  const before = await mailed(email);
  await other.auth.forgotPassword(email, { next: "/there" });
  let reset = before;
  while (reset === before) reset = await mailed(email);
  await other.auth.resetPassword(reset, PASSWORD);
  assert.equal(await client.auth.me(), null, "a reset ends sessions");
  assert.equal((await other.auth.signIn({ email, password: PASSWORD })).status, "signed_in");
});

test("no request is refused to learn of the CSRF token", async () => {
  const seen = [];
  const counting = async (input, init) => {
    const response = await fetch(input, init);
    seen.push([init.method, new URL(input).pathname, response.status]);
    return response;
  };
  const { client } = await somebody({ fetch: counting });
  const notes = client.records("notes");
  await Promise.all(Array.from({ length: 20 }, (_, rank) => notes.create({ title: "One", rank })));
  await client.auth.signOut();
  assert.deepEqual(seen.filter(([, , status]) => status >= 400), []);
  const asked = seen.filter(([, path]) => path === "/auth/csrf");
  assert.equal(asked.length, 3, "registering, signing in, and everything afterwards");
});

test("any other request goes with the session, and only to the server", async () => {
  const { client, account } = await somebody();
  const { user } = await client.send("GET", "/auth/me");
  assert.equal(user.id, account.id);
  const made = await client.send("post", "/notes", { body: { title: "by hand" } });
  const found = await client.send("GET", "/notes", { query: { title: "by hand", limit: 5, page: undefined } });
  assert.deepEqual(found.data.map(({ id }) => id), [made.data.id]);
  assert.equal(await client.send("DELETE", `/notes/${made.data.id}`), undefined);
  assert.equal(await client.send("GET", "/healthz"), "ok\n");
  assert.equal((await failureOf(client.send("GET", "/nowhere"))).kind, "missing");
  for (const path of ["@evil.example/", "//evil.example/", "/\\evil.example", ".evil.example", "https://evil.example/", "", "/fn/../auth/me", "/fn/%2e%2E/auth/me", "/\t/evil.example", "/fn\\..\\auth", "/notes?limit=1", "/notes#a", "/a b"]) {
    assert.throws(() => client.send("GET", path), TypeError);
  }
});

test("a profile is sent with the registration", async () => {
  const client = createClient({ url });
  const account = await client.auth.register({ email: "named@example.com", password: PASSWORD, profile: { displayName: "Ada" } });
  assert.deepEqual(account.profile, { displayName: "Ada" });
});

test("tenants, members and invitations", async () => {
  const { client, email } = await somebody();
  const { client: other, email: invited, account } = await somebody();
  const made = await client.tenants.create("Acme & co");
  assert.deepEqual([made.name, made.roles], ["Acme & co", ["owner"]]);
  assert.deepEqual(await client.tenants.list(), [made]);
  const invitation = await client.members.invite(made.id, { email: invited, roles: ["member"] });
  assert.deepEqual([invitation.email, invitation.roles], [invited, ["member"]]);
  assert.match(invitation.expiresAt, /Z$/);
  const token = await mailed(invited, "invite");
  const shown = await other.invitations.describe(token);
  assert.deepEqual([shown.email, shown.inviter, shown.tenant], [invited, email, "Acme & co"]);
  assert.equal((await client.members.list(made.id)).invitations.length, 1);
  assert.equal((await failureOf(client.invitations.accept(token))).kind, "forbidden", "for another address");
  assert.equal(await other.invitations.accept(token), made.id);
  const page = await client.members.list(made.id, { limit: 1 });
  assert.deepEqual([page.members.length, page.hasMore], [1, true]);
  const { members } = await client.members.list(made.id, { cursor: page.cursor });
  assert.equal(members.length, 1);
  const joined = [...page.members, ...members].find(({ id }) => id === account.id);
  assert.deepEqual([joined.kind, joined.email], ["user", invited]);
  assert.match(joined.joinedAt, /Z$/);
  await client.members.setRoles(made.id, account.id, ["admin"]);
  assert.deepEqual((await other.tenants.list())[0].roles, ["admin"]);
  await other.members.remove(made.id, account.id);
  assert.deepEqual(await other.tenants.list(), []);
  const again = await client.members.invite(made.id, { email: "late@example.com" });
  await client.invitations.withdraw(made.id, again.id);
  assert.deepEqual((await client.members.list(made.id)).invitations, []);
});

test("sessions, devices and passkeys are listed and ended", async () => {
  const { client, email } = await somebody();
  const other = createClient({ url });
  await other.auth.signIn({ email, password: PASSWORD });
  const sessions = await client.sessions.list();
  assert.deepEqual(sessions.map(({ current }) => current).sort(), [false, true]);
  assert.match(sessions[0].lastSeenAt, /Z$/);
  await client.sessions.end(sessions.find(({ current }) => !current).id);
  assert.equal(await other.auth.me(), null);
  await other.auth.signIn({ email, password: PASSWORD });
  await client.sessions.endOthers();
  assert.equal(await other.auth.me(), null);
  assert.equal((await client.sessions.list()).length, 1);
  const devices = await client.devices.list();
  for (const { id, firstUsedAt } of devices.filter(({ current }) => !current)) {
    assert.match(firstUsedAt, /Z$/);
    await client.devices.forget(id);
  }
  await client.devices.forgetOthers();
  assert.deepEqual((await client.devices.list()).filter(({ current }) => !current), []);
  assert.deepEqual(await client.passkeys.list(), []);
  assert.equal((await failureOf(client.passkeys.rename(crypto.randomUUID(), "x"))).kind, "missing");
});

test("records are grouped", async () => {
  const { client } = await somebody();
  await client.records("notes").createMany([1, 1, 5].map((rank) => ({ title: `of ${rank}`, rank })));
  const { data, hasMore } = await client.groups("notes", { group: "rank", sum: "rank", countDistinct: "title" });
  assert.equal(hasMore, false);
  assert.deepEqual(data.map(({ rank, count, sum }) => [rank, count, sum.rank]).sort(), [[1, 2, 2], [5, 1, 5]]);
  assert.deepEqual(data.map(({ countDistinct }) => countDistinct.title), [1, 1]);
  const [day] = (await client.groups("notes", { group: "day(createdAt)", where: { rank: 1 }, timezone: "Europe/Berlin" })).data;
  assert.match(day["day(createdAt)"], /^\d{4}-\d\d-\d\d$/);
});

test("writes to several entities happen together, and say which failed", async () => {
  const { client } = await somebody();
  const results = await client.batch([
    { op: "create", entity: "notes", data: { title: "parent" }, as: "parent" },
    { op: "create", entity: "notes", data: { title: "child", parent: { $ref: "parent" } } },
    { op: "create", entity: "papers", data: {} },
  ]);
  assert.equal(results[1].data.parent, results[0].data.id);
  assert.deepEqual(results.map(({ entity }) => entity), ["notes", "notes", "papers"]);
  const failure = await failureOf(
    client.batch([
      { op: "update", entity: "notes", id: results[0].data.id, data: { title: "changed" } },
      { op: "create", entity: "notes", data: { title: "" } },
    ]),
  );
  assert.deepEqual([failure.kind, failure.errors.map(({ index, field }) => [index, field])], ["invalid", [[1, "title"]]]);
  assert.equal((await client.records("notes").get(results[0].data.id)).title, "parent", "nothing was written");
});

test("functions are called", async () => {
  const { client } = await somebody();
  assert.deepEqual(await client.functions.call("greet/twice", { name: "Ada" }), { words: "hello Ada, hello", known: true });
  const anonymous = await createClient({ url }).functions.call("/greet/twice", { name: "you" });
  assert.equal(anonymous.known, false);
  assert.equal((await failureOf(client.functions.call("greet/twice", {}))).detail, "whom?");
  for (const name of ["../auth/logout", "a/../../auth/logout", "a/.", ".."]) assert.throws(() => client.functions.call(name), TypeError);
  assert.equal((await failureOf(client.functions.call("nothing", {}))).kind, "missing");
});

test("a provider's sign-in starts at the server, with `next` as one value", () => {
  const client = createClient({ url: "https://api.example.com" });
  assert.equal(client.auth.oauthUrl("google", "/a?b=c&d"), "https://api.example.com/auth/oauth/google?next=%2Fa%3Fb%3Dc%26d");
  assert.equal(client.auth.oauthUrl("a/../b"), "https://api.example.com/auth/oauth/a%2F..%2Fb");
});

test("records are created, read, changed and deleted", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const made = await notes.create({ title: "One", rank: 1 });
  assert.equal(made.title, "One");
  assert.match(made._etag, /^"[0-9a-f]{32}"$/);
  assert.deepEqual(await notes.get(made.id), made, "header and body tell the same tag");
  assert.deepEqual(await notes.get(made.id, { fields: ["title"] }), { title: "One", _etag: made._etag });
  const changed = await notes.update(made, { title: "Two" });
  assert.notEqual(changed._etag, made._etag);
  // What was read can be sent back.
  const again = await notes.update(changed, { ...changed, rank: 2 });
  assert.deepEqual([again.title, again.rank], ["Two", 2]);
  const invalid = await failureOf(notes.create({ title: "", rank: "much" }));
  assert.equal(invalid.kind, "invalid");
  assert.deepEqual(invalid.errors.map(({ field }) => field).sort(), ["rank", "title"]);
  await notes.delete(again);
  assert.equal(await notes.find(made.id), null);
  assert.equal((await failureOf(notes.get(made.id))).kind, "missing");
  assert.equal((await notes.restore(made.id)).title, "Two");
  for (const id of ["", ".", ".."]) assert.throws(() => notes.update(id, {}), TypeError);
  assert.equal((await failureOf(notes.get("../../auth/me"))).kind, "missing", "an id is one segment");
});

test("one of twenty changes to one version succeeds", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const made = await notes.create({ title: "One", rank: 0 });
  const tries = Array.from({ length: 20 }, (_, rank) => notes.update(made, { rank }).then(() => "won", (error) => error.failure.kind));
  const kinds = (await Promise.all(tries)).sort();
  assert.deepEqual(kinds, [...Array(19).fill("changed"), "won"]);
  assert.equal((await failureOf(notes.delete(made))).kind, "changed");
  assert.equal((await notes.update(made, { rank: 7 }, { ifMatch: null })).rank, 7, "without a condition");
  assert.equal((await notes.update(made.id, { rank: 8 })).rank, 8, "an id alone has none");
});

test("changes that depend on the present value are not lost", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const { id } = await notes.create({ title: "Count", rank: 0 });
  await Promise.all(Array.from({ length: 8 }, () => notes.modify(id, ({ rank }) => ({ rank: rank + 1 }), { tries: 50 })));
  assert.equal((await notes.get(id)).rank, 8);
});

test("batches are all or nothing", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const made = await notes.createMany([{ title: "a" }, { title: "b" }]);
  assert.deepEqual(made.map(({ title }) => title), ["a", "b"]);
  const failure = await failureOf(notes.createMany([{ title: "c" }, { title: "", rank: "much" }, { title: "d" }]));
  assert.deepEqual([failure.kind, failure.status, failure.code], ["invalid", 422, "validation_failed"]);
  assert.deepEqual(failure.errors.map(({ index, field }) => [index, field]).sort(), [[1, "rank"], [1, "title"]]);
  assert.ok(failure.detail && failure.errors.every(({ code, message }) => code && message), JSON.stringify(failure));
  const missing = await failureOf(notes.updateMany([{ id: made[0].id, rank: 1 }, { id: crypto.randomUUID(), rank: 1 }]));
  assert.equal(missing.kind, "missing");
  assert.deepEqual(missing.errors, [{ index: 1, field: "", code: missing.code, message: missing.detail }]);
  await notes.updateMany(made.map(({ id }) => ({ id, rank: 3 })));
  assert.deepEqual((await notes.page({ where: { rank: 3 } })).total, 2);
  await notes.deleteMany(made.map(({ id }) => id));
  assert.equal((await notes.page()).total, 0);
});

test("a list is walked page by page to its end", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  await notes.createMany(Array.from({ length: 60 }, (_, rank) => ({ title: `note ${rank}`, rank })));
  const ranks = [];
  for await (const { rank } of notes.list({ limit: 25 })) ranks.push(rank);
  assert.deepEqual(ranks, Array.from({ length: 60 }, (_, rank) => rank));
  const sorted = await notes.list({ limit: 7, sort: "-rank", fields: ["rank"] }).all();
  assert.deepEqual(sorted.records.map(({ rank }) => rank), ranks.toReversed());
  assert.ok(sorted.eventCursor);
  const page = await notes.page({ page: 3, limit: 25 });
  assert.deepEqual([page.records.length, page.total, page.page, page.limit, page.hasMore], [10, 60, 3, 25, false]);
  assert.equal((await notes.page({ where: { rank_gte: 50, rank_ne: 55, title_like: "NOTE" } })).total, 9);
  assert.equal((await notes.page({ where: { rank_in: [1, 2, 99] } })).total, 2);
  assert.equal((await notes.page({ where: { body: null } })).total, 60);
  assert.equal((await notes.page({ where: { body_ne: null, rank: undefined } })).total, 0);
  await assert.rejects(notes.page({ where: { title_in: ["a,b"] } }), TypeError);
  let first = 0;
  for await (const _ of notes.list({ limit: 10 })) if ((first += 1) === 3) break;
  assert.equal(first, 3);
});

test("values in a filter are escaped", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const hostile = ['"', "\\", '\\"', "' || true || '", '" || rank > 0 || "', "a\nb\t\u0001\u2028", "é😀", "null", "`${1}`"];
  for (const title of hostile) await notes.create({ title, rank: 1 });
  for (const title of hostile) {
    const found = await notes.list({ filter: filter`title = ${title}` }).all();
    assert.deepEqual(found.records.map((note) => note.title), [title]);
  }
  const all = await notes.page({ filter: filter`title in ${hostile} && rank >= ${1} && body = ${null}` });
  assert.equal(all.total, hostile.length);
  assert.equal((await notes.page({ filter: filter`createdAt > ${new Date(0)}` })).total, hostile.length);
});

test("related records are included", async () => {
  const { client } = await somebody();
  const notes = client.records("notes");
  const parent = await notes.create({ title: "parent" });
  const child = await notes.create({ title: "child", parent: parent.id });
  const read = await notes.get(child.id, { include: ["parent"] });
  assert.deepEqual(read._included.parent, parent);
  const list = await notes.list({ include: ["parent"], where: { parent: parent.id } }).all();
  assert.equal(list.records[0]._included.parent._etag, parent._etag);
});

test("only members of a tenant read its records", async () => {
  const { client } = await somebody();
  const failure = await failureOf(client.tenant("acme").records("rooms").list().all());
  assert.equal(failure.kind, "forbidden");
  assert.equal((await failureOf(client.records("rooms").list().all())).code, "tenant_required");
});

test("a record of another owner is not found", async () => {
  const [ada, eve] = [await somebody(), await somebody()];
  const made = await ada.client.records("notes").create({ title: "mine" });
  const theirs = eve.client.records("notes");
  for (const attack of [() => theirs.get(made.id), () => theirs.update(made, { title: "x" }), () => theirs.delete(made)]) {
    assert.equal((await failureOf(attack())).kind, "missing");
  }
  assert.equal(await theirs.find(made.id), null);
});

/** A server that answers with these, one after the other. */
async function scripted(...answers) {
  const asked = [];
  const server = createServer((request, response) => {
    if (request.url === "/auth/csrf") return response.writeHead(204).end();
    asked.push(request);
    const { status = 200, headers = {}, body = "" } = answers.shift() ?? {};
    response.writeHead(status, headers).end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const client = createClient({ url: `http://127.0.0.1:${server.address().port}`, longestWait: 1_500 });
  return { client, asked, close: () => server.close() };
}

test("a temporary refusal is retried, a change only if nothing was done", async () => {
  const soon = { "Retry-After": "0" };
  const page = { headers: { "Content-Type": "application/json" }, body: '{"data":[],"total":0,"hasMore":false}' };
  const one = { headers: { "Content-Type": "application/json" }, body: '{"data":{"id":"1"}}' };
  for (const [answers, act, expected] of [
    [[{ status: 503, headers: soon }, page], (notes) => notes.page(), 2],
    [[{ status: 429, headers: soon }, { status: 502 }, page], (notes) => notes.page(), 3],
    [[{ status: 429, headers: soon }, one], (notes) => notes.create({}), 2],
    [[{ status: 503, headers: soon }], (notes) => notes.create({}), "unavailable"],
    [[{ status: 502 }], (notes) => notes.update("1", {}), "broken"],
    [[{ status: 429, headers: { "Retry-After": "1800" }, body: "slow down" }], (notes) => notes.page(), "limited"],
    [[{ status: 429 }], (notes) => notes.page(), "limited"],
    [Array(3).fill({ status: 503, headers: soon }), (notes) => notes.page(), "unavailable"],
    [[{ status: 404 }], (notes) => notes.page(), "missing"],
  ]) {
    const { client, asked, close } = await scripted(...answers);
    const count = answers.length;
    if (typeof expected === "number") await act(client.records("notes"));
    else assert.equal((await failureOf(act(client.records("notes")))).kind, expected);
    assert.equal(asked.length, count, `${JSON.stringify(answers)}`);
    close();
  }
});

test("a failure has the time to retry, and the plain text of a limiter", async () => {
  const { client, close } = await scripted(
    { status: 429, headers: { "Retry-After": "1800", "Content-Type": "text/plain" }, body: "too many attempts" },
    { status: 503, headers: { "Retry-After": new Date(Date.now() + 60_000).toUTCString() } },
    { status: 500, headers: { "Content-Type": "application/problem+json" }, body: "{broken" },
  );
  const limited = await failureOf(client.auth.signIn({ email: "a", password: "b" }));
  assert.deepEqual([limited.kind, limited.retryAfter, limited.detail], ["limited", 1800, "too many attempts"]);
  const unavailable = await failureOf(client.records("notes").page());
  assert.ok(unavailable.retryAfter > 30 && unavailable.retryAfter <= 61, unavailable.retryAfter);
  assert.equal((await failureOf(client.auth.signOut())).kind, "broken");
  close();
});

test("credentials are sent only to the server", async () => {
  const elsewhere = await scripted({ status: 200 });
  const target = elsewhere.client;
  const { port } = new URL(target.auth.oauthUrl("x"));
  const { client, asked, close } = await scripted(...Array(3).fill({ status: 302, headers: { Location: `http://127.0.0.1:${port}/` } }));
  assert.equal((await failureOf(client.records("notes").page())).kind, "network");
  assert.equal(asked.length, 3, "a redirect is not followed");
  assert.equal(elsewhere.asked.length, 0);
  close();
  elsewhere.close();
});

test("no answer is a network failure, and an abort is reported as an abort", async () => {
  const client = createClient({ url: "http://127.0.0.1:9", retries: 0 });
  const failure = await failureOf(client.records("notes").page());
  assert.equal(failure.kind, "network");
  const reason = new Error("enough");
  await assert.rejects(createClient({ url }).records("notes").page({ signal: AbortSignal.abort(reason) }), reason);
  assert.ok(new GatewrightError(failure) instanceof Error);
});

test("a file is uploaded in pieces, goes on after the connection broke, and is attached", async () => {
  const cable = await proxy();
  const { client } = await somebody({ url: cable.url, retries: 8 });
  const bytes = new Uint8Array(9_000_001).map((_, at) => at % 251);
  const steps = [];
  let hasBroken = false;
  const uploaded = await client.upload(new File([bytes], "Zoë's film.bin"), {
    onProgress: ({ loaded, total }) => {
      assert.equal(total, bytes.length);
      steps.push(loaded);
      if (!hasBroken && loaded > 0) {
        hasBroken = true;
        cable.cut();
        setTimeout(cable.mend, 500);
      }
    },
  });
  assert.ok(hasBroken);
  assert.deepEqual(steps, [...steps].sort((one, other) => one - other));
  assert.deepEqual([steps[0], steps.at(-1)], [0, bytes.length]);
  const paper = await client.records("papers").create({ pages: [uploaded, await client.upload(new Blob(["x"]), { name: "x.txt" })] });
  assert.deepEqual(
    paper.pages.map(({ name, size }) => [name, size]),
    [
      ["Zoë's film.bin", bytes.length],
      ["x.txt", 1],
    ],
  );
  cable.close();
});

test("an upload that is stopped, refused or empty", async () => {
  const { client } = await somebody();
  const stop = new AbortController();
  const reason = new Error("enough");
  const file = new Blob([new Uint8Array(9_000_000)]);
  const onProgress = ({ loaded }) => loaded > 0 && stop.abort(reason);
  await assert.rejects(client.upload(file, { signal: stop.signal, onProgress }), reason);
  const refused = await failureOf(client.upload(new Blob([new Uint8Array(20_000_001)])));
  assert.deepEqual([refused.kind, refused.code], ["too_large", "file_too_large"]);
  assert.equal((await failureOf(createClient({ url }).upload(file))).kind, "unauthenticated");
  const empty = await client.upload(new Blob([]));
  const paper = await client.records("papers").create({ pages: [empty] });
  assert.deepEqual([paper.pages[0].size, paper.pages[0].name], [0, "file"]);
});
