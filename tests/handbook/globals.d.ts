// Declarations for the handbook's blocks of TypeScript.
import type { Client, Records, Stored, SchemaOf } from "@gatewright/client";

export interface Tasks {
  readonly id: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  title: string;
  done: boolean;
  votes: number;
  project: string | null;
}

export interface Schema {
  tasks: { record: Tasks; create: Partial<Tasks>; update: Partial<Tasks>; relations: { project: "projects" }; trash: true };
}

declare global {
  const gatewright: Client<Schema>;
  const api: Client<Schema>;
  const tasks: ReturnType<typeof gatewright.records<"tasks">>;
  const email: string, password: string, code: string, id: string, text: string, token: string;
  const yesterday: Date;
  const signal: AbortSignal;
  function show(text: string): void;
  function put(task: Partial<Tasks>): void;
  function remove(id: string): void;
  function readAgain(): Promise<void>;
}
