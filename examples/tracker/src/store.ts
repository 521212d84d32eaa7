// This browser's copy of the tasks: the server's last known state, and changes that are not sent yet. Both survive a
// reload, so the page works without a connection and resumes the stream where it stopped.
import { createClient, GatewrightError, type Stored } from "@gatewright/client";
import { api } from "./config.js";
import type { Schema, Tasks, TasksUpdate } from "./schema.js";

export const gatewright = createClient<Schema>({ url: api, prefix: "/api" });
const tasks = gatewright.records("tasks");

export type Task = Stored<Tasks>;

/** A change that the server has not accepted yet. */
export interface Draft {
  changes: TasksUpdate;
  /** The version that the user saw when they made the change. */
  etag: string | undefined;
  /** The task after another user's change; null if they deleted it. The user decides. */
  theirs?: Task | null;
}

interface Kept {
  cursor: string | null;
  tasks: [string, Task][];
  drafts: [string, Draft][];
}

export class Store {
  readonly tasks: Map<string, Task>;
  readonly drafts: Map<string, Draft>;
  #cursor: string | null;
  #sending: Promise<void> | undefined;

  /** `key` names the account, `changed` is called after every change. */
  constructor(
    readonly key: string,
    readonly changed: (status: string) => void,
  ) {
    const kept: Partial<Kept> = JSON.parse(localStorage.getItem(key) ?? "{}");
    this.tasks = new Map(kept.tasks);
    this.drafts = new Map(kept.drafts);
    this.#cursor = kept.cursor ?? null;
  }

  /** Follows the server until `signal` is aborted. Throws if the sign-in has ended. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.#cursor) await this.#reload(signal);
    for await (const event of tasks.events({ since: this.#cursor, signal })) {
      switch (event.type) {
        case "open":
          this.#told("live");
          void this.send();
          break;
        case "ready":
          break;
        case "entity.created":
        case "entity.updated":
          this.#cursor = event.cursor;
          this.#put(event.record);
          break;
        case "entity.deleted":
          this.#cursor = event.cursor;
          this.tasks.delete(event.record.id);
          this.#told("live");
          break;
        case "gap":
          await this.#reload(signal);
          break;
        case "offline":
          this.#told("offline");
          break;
      }
    }
  }

  async add(title: string): Promise<void> {
    this.#put(await tasks.create({ title }));
  }

  /** Changes a task locally at once, and on the server as soon as there is a connection. */
  change(task: Task, changes: TasksUpdate): void {
    const before = this.drafts.get(task.id);
    this.drafts.set(task.id, { changes: { ...before?.changes, ...changes }, etag: before ? before.etag : task._etag });
    this.#told();
    void this.send();
  }

  /** Resolves a conflict: keeps the user's change, or takes the other one. */
  decide(id: string, mine: boolean): void {
    const draft = this.drafts.get(id);
    if (draft && mine && draft.theirs) this.drafts.set(id, { changes: draft.changes, etag: draft.theirs._etag });
    else this.drafts.delete(id);
    this.#told();
    void this.send();
  }

  async remove(task: Task): Promise<void> {
    await tasks.delete(task);
    this.tasks.delete(task.id);
    this.#told();
  }

  forget(): void {
    localStorage.removeItem(this.key);
  }

  /** Sends pending changes, one after the other, so that answers arrive in order. */
  send(): Promise<void> {
    this.#sending ??= this.#send().finally(() => (this.#sending = undefined));
    return this.#sending;
  }

  async #send(): Promise<void> {
    for (;;) {
      const waiting = [...this.drafts].find(([, draft]) => draft.theirs === undefined);
      if (!waiting) return;
      const [id, draft] = waiting;
      try {
        const stored = await tasks.update(id, draft.changes, { ifMatch: draft.etag ?? null });
        // A change made during this request is sent next. It applies to the version that this request created.
        const later = this.drafts.get(id);
        if (later === draft) this.drafts.delete(id);
        else if (later) later.etag = stored._etag;
        this.#put(stored);
      } catch (error) {
        if (!(error instanceof GatewrightError)) throw error;
        const { kind } = error.failure;
        if (kind === "changed" || kind === "missing") draft.theirs = await tasks.find(id).catch(() => undefined) as Task | null;
        else if (kind === "invalid") this.drafts.delete(id);
        this.#told(kind === "network" ? "offline" : undefined);
        if (draft.theirs === undefined && kind !== "invalid") return;
      }
    }
  }

  async #reload(signal: AbortSignal): Promise<void> {
    const { records, eventCursor } = await tasks.list({ signal }).all();
    this.tasks.clear();
    for (const record of records) this.tasks.set(record.id, record);
    this.#cursor = eventCursor;
    this.#told("live");
  }

  #put(task: Task): void {
    // The stream may send an older version than an answer did.
    const known = this.tasks.get(task.id);
    if (!known || known.updatedAt <= task.updatedAt) this.tasks.set(task.id, task);
    this.#told("live");
  }

  #told(status = ""): void {
    const kept: Kept = { cursor: this.#cursor, tasks: [...this.tasks], drafts: [...this.drafts] };
    localStorage.setItem(this.key, JSON.stringify(kept));
    this.changed(status);
  }
}
