// Made by `gatewright types --lang ts` from the declared entities. Do not edit: run it again instead.

/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An account, as a relation to it shows it. */
export interface User {
  readonly id: string;
  /** For signed-in callers. */
  readonly displayName?: string | null;
}

/** A record of topics. */
export interface Topics {
  readonly id: string;
  title: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What creates a record of topics. */
export interface TopicsCreate {
  /** A UUID of version 7 or 4. */
  id?: string;
  title: string;
}

/** What changes a record of topics. */
export interface TopicsUpdate {
  title?: string;
}

export type PostsStatus = "draft" | "in \"review\"" | "published";

export type PostsMood = "good";

export type PostsMoods = "good" | "bad";

/** A record of posts. */
export interface Posts {
  readonly id: string;
  title: string;
  body: string | null;
  status: PostsStatus;
  mood: PostsMood | null;
  readonly hits: number;
  score: number | null;
  /** An exact decimal number. */
  netPrice: string;
  isOpen: boolean | null;
  /** A day, `YYYY-MM-DD`. */
  due: string | null;
  /** A point in time, RFC 3339. */
  sentAt: string | null;
  /** A UUID. */
  externalId: string | null;
  settings: Exclude<Json, null>;
  notes: Json;
  /** At most 20 items, each once. */
  tags: string[];
  /** At most 1000 items. */
  moods: PostsMoods[];
  /** Exact decimal numbers. At most 1000 items. */
  readonly prices: string[];
  /** Exact decimal numbers. At most 1000 items. */
  sums: string[];
  /** The id of one of topics. */
  topic: string | null;
  /** The ids of topics. At most 100 items, each once. */
  topics: string[];
  /** The id of one of users. */
  reviewer: string;
  /** The id of one of unserved. */
  audit: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly deletedAt: string | null;
}

/** What creates a record of posts. */
export interface PostsCreate {
  title: string;
  body?: string | null;
  status?: PostsStatus;
  mood?: PostsMood | null;
  score?: number | null;
  /** An exact decimal number. */
  netPrice: string | number;
  isOpen?: boolean | null;
  /** A day, `YYYY-MM-DD`. */
  due?: string | null;
  /** A point in time, RFC 3339. */
  sentAt?: string | null;
  /** A UUID. */
  externalId?: string | null;
  settings: Exclude<Json, null>;
  notes?: Json;
  /** At most 20 items, each once. */
  tags?: string[];
  /** At most 1000 items. */
  moods?: PostsMoods[];
  /** Exact decimal numbers. At most 1000 items. */
  sums?: (string | number)[];
  /** The id of one of topics. */
  topic?: string | null;
  /** The ids of topics. At most 100 items, each once. */
  topics?: string[];
  /** The id of one of users. */
  reviewer: string;
  /** The id of one of unserved. */
  audit?: string | null;
}

/** What changes a record of posts. */
export interface PostsUpdate {
  title?: string;
  body?: string | null;
  status?: PostsStatus;
  mood?: PostsMood | null;
  score?: number | null | { $add: number };
  /** An exact decimal number. */
  netPrice?: string | number | { $add: string | number };
  isOpen?: boolean | null;
  /** A day, `YYYY-MM-DD`. */
  due?: string | null;
  /** A point in time, RFC 3339. */
  sentAt?: string | null;
  /** A UUID. */
  externalId?: string | null;
  settings?: Exclude<Json, null>;
  notes?: Json;
  /** At most 20 items, each once. */
  tags?: string[] | { $append: string[] } | { $remove: string[] };
  /** At most 1000 items. */
  moods?: PostsMoods[] | { $append: PostsMoods[] } | { $remove: PostsMoods[] };
  /** Exact decimal numbers. At most 1000 items. */
  sums?: (string | number)[] | { $append: (string | number)[] } | { $remove: (string | number)[] };
  /** The id of one of topics. */
  topic?: string | null;
  /** The ids of topics. At most 100 items, each once. */
  topics?: string[] | { $append: string[] } | { $remove: string[] };
  /** The id of one of users. */
  reviewer?: string;
  /** The id of one of unserved. */
  audit?: string | null;
}

/** A record of posts_create. */
export interface PostsCreate_ {
  readonly id: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What creates a record of posts_create. */
export interface PostsCreate_Create {
}

/** What changes a record of posts_create. */
export interface PostsCreate_Update {
}

/** A record of schema. */
export interface Schema_ {
  readonly id: string;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What creates a record of schema. */
export interface Schema_Create {
}

/** What changes a record of schema. */
export interface Schema_Update {
}

/** Every entity by its path, for `@gatewright/client`. */
export interface Schema {
  "blog_topics": {
    record: Topics;
    create: TopicsCreate;
    update: TopicsUpdate;
    relations: { "posts(topic)": { back: "posts"; more: "hasMore" }; "posts(topics)": { back: "posts"; more: "hasMore" } };
    trash: false;
  };
  "posts": {
    record: Posts;
    create: PostsCreate;
    update: PostsUpdate;
    relations: { topic: "blog_topics"; topics: ["blog_topics"]; reviewer: User };
    trash: true;
  };
  "posts_create": {
    record: PostsCreate_;
    create: PostsCreate_Create;
    update: PostsCreate_Update;
    relations: {};
    trash: false;
  };
  "schema": {
    record: Schema_;
    create: Schema_Create;
    update: Schema_Update;
    relations: {};
    trash: false;
  };
}
