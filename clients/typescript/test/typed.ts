// What compiles and what must not, with the types that `gatewright types` writes for every kind of field.
import type { Posts, PostsCreate, PostsUpdate, Schema } from "../../../crates/cli/tests/all/types/schema.js";
import { createClient, filter, GatewrightError, type Failure, type StreamEvent } from "../src/index.js";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<T extends true>(): T | void {}

const client = createClient<Schema>({ url: "https://api.example.com" });
const posts = client.records("posts");
const create: PostsCreate = { title: "One", netPrice: "9.50", settings: { a: [1, null] }, reviewer: "id" };
const update: PostsUpdate = {};

export async function compiles(post: Posts): Promise<void> {
  const { signal } = new AbortController();
  const file: { readonly id: string } = await client.upload(new Blob([]), {
    name: "a.txt",
    signal,
    onProgress: ({ loaded, total }) => void (loaded / total),
  });
  // @ts-expect-error: bytes are in a Blob or a File.
  void [file, client.upload("text")];

  const made = await posts.create(create);
  is<Equal<(typeof made)["title"], string>>();
  is<Equal<(typeof made)["mood"], "good" | null>>();
  is<Equal<(typeof made)["status"], "draft" | "in \"review\"" | "published">>();
  is<Equal<(typeof made)["netPrice"], string>>();
  is<Equal<(typeof made)["isOpen"], boolean | null>>();
  is<Equal<(typeof made)["topic"], string | null>>();
  is<Equal<(typeof made)["deletedAt"], string | null>>();
  is<Equal<(typeof made)["_etag"], string | undefined>>();
  await posts.update(made, { netPrice: 9.5, mood: null });
  await posts.update(made, { netPrice: { $add: "0.5" }, score: { $add: 1 } });
  await posts.update(made, { tags: { $append: ["a"] }, moods: { $remove: ["bad"] }, sums: [1.5, "2"] });
  is<Equal<(typeof made)["tags"], string[]>>();
  is<Equal<(typeof made)["moods"], ("good" | "bad")[]>>();
  await posts.update(post.id, { ...update, title: "Two" }, { ifMatch: '"tag"' });
  await posts.modify(post.id, ({ score }) => ({ score: (score ?? 0) + 1 }));

  const some = await posts.get(post.id, { fields: ["title", "hits"], include: ["topic", "reviewer"] });
  is<Equal<keyof typeof some, "title" | "hits" | "_etag" | "_highlights" | "_included">>();
  const topic: string | undefined = some._included.topic?.title;
  const reviewer: string | null | undefined = some._included.reviewer?.displayName;
  is<Equal<keyof NonNullable<(typeof some)["_included"]["reviewer"]>, "id" | "displayName">>();
  void [topic, reviewer];
  const page = await posts.page({ include: ["reviewer"] });
  void page.records[0]?._included.reviewer?.displayName;

  // Paths, many, and those that name the record.
  const deep = await posts.get(post.id, { include: ["topic.posts(topic):5.reviewer", "topics", "topics.posts(topics)"] });
  const round: string | undefined = deep._included.topic?._included["posts(topic)"].data[0]?._included.reviewer?.id;
  const more: boolean | undefined = deep._included.topic?._included["posts(topic)"].hasMore;
  const many: readonly string[] = deep._included.topics.map((topic) => topic.title);
  const back: string | undefined = deep._included.topics[0]?._included["posts(topics)"].data[0]?.title;
  void [round, more, many, back];

  for await (const { title } of posts.list({
    where: { status: "draft", hits_gte: 3, status_in: ["draft"], title_like: "a", topic_null: true, topic: null },
    sort: ["-createdAt", "title"],
    filter: filter`title = ${title0} && hits in ${[1, 2]}`,
  })) {
    is<Equal<typeof title, string>>();
  }
  for await (const event of posts.events()) handle(event);
  await posts.restore(post);
  await client.tenant("acme").records("blog_topics").createMany([{ title: "a" }]);
  const untyped = createClient().records("anything");
  const value: unknown = (await untyped.get("id"))["whatever"];
  void value;
  const signedIn = await client.auth.signIn({ email: "a", password: "b" });
  if (signedIn.status === "signed_in") void signedIn.user.email;
  await client.auth.register({ email: "a", password: "b", profile: { displayName: "A" }, invite: "token" });
  await client.auth.forgotPassword("a", { next: "/here" });
  const tenants = await client.send<{ tenants: { name: string }[] }>("GET", "/auth/tenants", { query: { page: 1 } });
  void tenants.tenants[0]?.name;
  const { data, hasMore: isCut } = await client.groups("posts", { group: ["status", "day(createdAt)"], sum: "hits", where: { status: "draft" } });
  void [data[0]?.count, data[0]?.sum?.["hits"], isCut];
  await client.batch([
    { op: "create", entity: "blog_topics", data: { title: "a" }, as: "topic" },
    { op: "create", entity: "posts", data: { ...create, topic: { $ref: "topic" } } },
    { op: "update", entity: "posts", id: post.id, data: { title: "b" }, ifMatch: '"x"' },
    { op: "delete", entity: "posts", id: { $ref: "topic" } },
  ]);
  const { id } = await client.upload(new File([], "a.pdf"), { onProgress: ({ loaded, total }) => void (loaded / total) });
  const answer = await client.functions.call<{ words: string }>("greet", { name: id });
  void answer.words.length;
  const [member] = (await client.members.list("acme", { limit: 5 })).members;
  is<Equal<NonNullable<typeof member>["kind"], "user" | "service">>();
}

const title0 = "title";

function handle(event: StreamEvent<Posts>): string | null {
  switch (event.type) {
    case "stalled":
      return `${event.after} ms`;
    case "open":
      return null;
    case "ready":
      return event.cursor;
    case "entity.created":
    case "entity.updated":
      return event.record.title;
    case "entity.deleted":
      return event.record.id;
    case "gap":
      return event.reason;
    case "offline":
      return event.failure?.kind ?? null;
  }
}

/** Every kind is handled, or this does not compile. */
export function explain(failure: Failure): string {
  switch (failure.kind) {
    case "network":
      return String(failure.cause);
    case "invalid":
      return failure.errors.map(({ index, field }) => `${index ?? 0} ${field}`).join();
    case "limited":
    case "unavailable":
      return String(failure.retryAfter);
    case "malformed":
    case "unauthenticated":
    case "forbidden":
    case "missing":
    case "conflict":
    case "changed":
    case "too_large":
    case "refused":
    case "broken":
      return failure.detail;
  }
}

export function doesNotCompile(post: Posts, error: unknown): void {
  // @ts-expect-error a required field is missing
  void posts.create({ title: "One" });
  // @ts-expect-error a read-only field
  void posts.update(post.id, { hits: 1 });
  // @ts-expect-error a word that the enum does not have
  void posts.update(post.id, { status: "nope" });
  // @ts-expect-error a required field is not null
  void posts.update(post.id, { title: null });
  // @ts-expect-error a list is never null
  void posts.update(post.id, { tags: null });
  // @ts-expect-error a word that the items do not have
  void posts.update(post.id, { moods: { $append: ["nope"] } });
  // @ts-expect-error a list has no order
  void posts.list({ sort: "tags" });
  // @ts-expect-error a list is looked into by `filter`
  void posts.list({ where: { tags: ["a"] } });
  // @ts-expect-error a hidden field
  void posts.list({ where: { canary: "x" } });
  // @ts-expect-error no such entity
  client.records("unserved");
  // @ts-expect-error a field of the profile that is not public
  void posts.get(post.id, { include: ["reviewer"] }).then(({ _included }) => _included.reviewer?.phone);
  // @ts-expect-error a relation whose records are not served
  void posts.get(post.id, { include: ["audit"] });
  // @ts-expect-error no number without a back relation's records
  void posts.get(post.id, { include: ["topics"] }).then(({ _included }) => _included.topics.hasMore);
  // @ts-expect-error a relation that was not asked for
  void posts.get(post.id, { include: ["topic.posts(topic)"] }).then(({ _included }) => _included.topic?._included.other);
  // @ts-expect-error no such back relation
  void posts.get(post.id, { include: ["posts(nope)"] });
  // @ts-expect-error no such field
  void posts.list({ sort: "-nope" });
  // @ts-expect-error fields of records are read-only
  post.hits = 1;
  // @ts-expect-error no field of it
  void client.groups("posts", { group: "nope" });
  // @ts-expect-error groups are by something
  void client.groups("posts", { sum: "hits" });
  // @ts-expect-error a required field is missing
  void client.batch([{ op: "create", entity: "posts", data: { title: "One" } }]);
  // @ts-expect-error no such entity
  void client.batch([{ op: "delete", entity: "unserved", id: "x" }]);
  // @ts-expect-error an entity without a trash
  void client.records("blog_topics").restore("id");
  // @ts-expect-error a failure without a kind that is checked
  if (error instanceof GatewrightError) void error.failure.errors;
}
