// The page: sign-in, and the list of tasks.
import { GatewrightError } from "@gatewright/client";
import { gatewright, Store, type Task } from "./store.js";

const find = <E extends HTMLElement>(id: string) => document.getElementById(id) as E;
const field = (id: string) => find<HTMLInputElement>(id);
const [signIn, section, list] = [find<HTMLFormElement>("sign-in"), find("tasks"), find("list")];

let store: Store | undefined;
let stop: AbortController | undefined;

/** An error message for the user. */
function explain(error: unknown): string {
  if (!(error instanceof GatewrightError)) return String(error);
  const { failure } = error;
  switch (failure.kind) {
    case "network":
      return "No connection to the server. Try again later.";
    case "limited":
      return `Too many attempts. Try again in ${failure.retryAfter ?? 60} seconds.`;
    case "invalid":
      return failure.errors.map(({ field, message }) => `${field} ${message}`).join(", ");
    default:
      return failure.detail;
  }
}

/** Runs the action of a button. */
async function act(task: () => Promise<void>): Promise<void> {
  find("message").textContent = "";
  try {
    await task();
  } catch (error) {
    find("message").textContent = explain(error);
  }
}

/** The store's key of the last signed-in user, so that their tasks are shown without a connection. */
const LAST = "tracker.last";

async function start(): Promise<void> {
  let key = localStorage.getItem(LAST);
  try {
    const me = await gatewright.auth.me();
    key = me && `tracker.${me.user.id}`;
  } catch (error) {
    // Without a connection, the page shows the stored tasks.
    if (!(error instanceof GatewrightError) || error.failure.kind !== "network") return ask(explain(error));
  }
  if (!key) return ask("");
  localStorage.setItem(LAST, key);
  [signIn.hidden, section.hidden, find("sign-out").hidden] = [true, false, false];
  store = new Store(key, render);
  stop = new AbortController();
  render("connecting");
  while (!stop.signal.aborted) {
    try {
      await store.run(stop.signal);
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof GatewrightError)) throw error;
      if (error.failure.kind === "unauthenticated") return ask("The session has ended. Sign in again.");
      render("offline");
      await new Promise((done) => setTimeout(done, 1_000));
    }
  }
}

function ask(message: string): void {
  [signIn.hidden, section.hidden, find("sign-out").hidden] = [false, true, true];
  find("status").textContent = "signed out";
  find("message").textContent = message;
}

signIn.addEventListener("submit", (event) => {
  event.preventDefault();
  void act(async () => {
    const [email, password, code] = [field("email").value, field("password").value, field("code")];
    if (code.hidden) {
      const { status } = await gatewright.auth.signIn({ email, password });
      if (status === "two_factor_required") {
        code.hidden = false;
        document.querySelector<HTMLElement>("label[for=code]")!.hidden = false;
        return;
      }
    } else {
      await gatewright.auth.challenge(code.value);
    }
    void start();
  });
});

find("register").addEventListener("click", () => {
  void act(async () => {
    const credentials = { email: field("email").value, password: field("password").value };
    await gatewright.auth.register(credentials);
    await gatewright.auth.signIn(credentials);
    void start();
  });
});

find("sign-out").addEventListener("click", () => {
  void act(async () => {
    await gatewright.auth.signOut();
    stop?.abort();
    store?.forget();
    localStorage.removeItem(LAST);
    ask("");
  });
});

find("add").addEventListener("submit", (event) => {
  event.preventDefault();
  void act(async () => {
    await store?.add(field("title").value);
    field("title").value = "";
  });
});

function render(status: string): void {
  if (!store) return;
  if (status) find("status").textContent = status;
  const rows = new Map([...list.children].map((row) => [(row as HTMLElement).dataset["id"], row as HTMLLIElement]));
  for (const task of store.tasks.values()) {
    const row = rows.get(task.id) ?? made(task);
    rows.delete(task.id);
    shown(row, task);
    list.append(row);
  }
  for (const row of rows.values()) row.remove();
}

/** A row. Its controls change the current version of the task. */
function made({ id }: Task): HTMLLIElement {
  const row = document.createElement("li");
  row.dataset["id"] = id;
  const [done, title, remove] = [document.createElement("input"), document.createElement("input"), button("Delete")];
  [done.type, title.type, title.maxLength] = ["checkbox", "text", 200];
  const task = () => store?.tasks.get(id);
  const change = (changes: { title: string } | { done: boolean }) => {
    const now = task();
    if (now) store?.change(now, changes);
  };
  done.addEventListener("change", () => change({ done: done.checked }));
  title.addEventListener("change", () => change({ title: title.value }));
  remove.addEventListener("click", () => {
    const now = task();
    if (now) void act(async () => store?.remove(now));
  });
  row.append(done, title, remove, document.createElement("p"));
  return row;
}

function shown(row: HTMLLIElement, task: Task): void {
  const [done, title, , note] = [...row.children] as [HTMLInputElement, HTMLInputElement, Element, Element];
  const draft = store?.drafts.get(task.id);
  const now = { ...task, ...draft?.changes };
  done.checked = now.done;
  done.ariaLabel = `Done: ${now.title}`;
  title.ariaLabel = `Title: ${task.title}`;
  // Do not overwrite a title while the user edits it.
  if (document.activeElement !== title) title.value = now.title;
  note.replaceChildren();
  if (draft?.theirs === undefined) {
    note.textContent = draft ? "not saved yet" : "";
    return;
  }
  const theirs = draft.theirs === null ? "somebody else deleted it" : `somebody else changed it to "${draft.theirs.title}"`;
  const [mine, other] = [button("Keep mine"), button("Take theirs")];
  mine.disabled = draft.theirs === null;
  mine.addEventListener("click", () => store?.decide(task.id, true));
  other.addEventListener("click", () => store?.decide(task.id, false));
  note.append(`Conflict: ${theirs}. `, mine, other);
}

function button(name: string): HTMLButtonElement {
  const button = document.createElement("button");
  [button.type, button.textContent] = ["button", name];
  return button;
}

void start();
