// What compiles and what must not.
import { createClient } from "@gatewright/client";
import { createElement } from "react";
import type { Posts, Schema } from "../../../crates/cli/tests/all/types/schema.js";
import { GatewrightProvider, useClient, useMutations, useRecord, useRecords, useSession, type Reading } from "../src/index.js";

declare module "../src/index.js" {
  interface Register {
    schema: Schema;
  }
}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function is<T extends true>(): T | void {}

export function Compiles({ post }: { post: Posts }): unknown {
  const { data, error, loading } = useRecords("posts", { where: { status: "draft" }, sort: "-createdAt", include: ["topic"] });
  const title: string | undefined = data?.[0]?.title;
  const topic: string | undefined = data?.[0]?._included.topic?.title;
  is<Equal<typeof loading, boolean>>();
  void [title, topic, error?.failure.kind];
  const some = useRecord("posts", post.id, { fields: ["title"] });
  is<Equal<keyof NonNullable<NonNullable<typeof some.data>>, "title" | "_etag" | "_highlights">>();
  const { create, update, delete: remove } = useMutations("blog_topics");
  void create({ title: "a" }).then(({ id }) => update(id, { title: "b" })).then(remove);
  const { data: me, refresh } = useSession();
  void [me?.user.email, refresh()];
  void useClient().records("posts");
  const reading: Reading<number> = { data: 1, error: undefined, loading: false };
  void reading;
  return createElement(GatewrightProvider, { client: createClient<Schema>() });
}

export function DoesNotCompile(): void {
  // @ts-expect-error no such entity
  useRecords("unserved");
  // @ts-expect-error no such field
  useRecords("posts", { sort: "nope" });
  // @ts-expect-error a field that was not asked for
  void useRecord("posts", "id", { fields: ["title"] }).data?.status;
  // @ts-expect-error a required field is missing
  void useMutations("posts").create({ title: "One" });
  // @ts-expect-error what is read is not changed in place
  useRecords("posts").data?.push({});
}
