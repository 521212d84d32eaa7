// Made by `gatewright types --lang ts` from the declared entities. Do not edit: run it again instead.

/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An account, as a relation to it shows it. */
export interface User {
  readonly id: string;
}

/** A record of tasks. */
export interface Tasks {
  readonly id: string;
  title: string;
  done: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** What creates a record of tasks. */
export interface TasksCreate {
  title: string;
  done?: boolean;
}

/** What changes a record of tasks. */
export interface TasksUpdate {
  title?: string;
  done?: boolean;
}

/** Every entity by its path, for `@gatewright/client`. */
export interface Schema {
  "tasks": {
    record: Tasks;
    create: TasksCreate;
    update: TasksUpdate;
    relations: {};
    trash: false;
  };
}
