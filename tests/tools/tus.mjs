// Uploads with `tus-js-client`: `node tus.mjs BASE OTHER EMAIL PASSWORD`.
// At BASE, one upload is stopped at its half and continued at OTHER, and one waits at its half, prints "half", reads a line of the
// standard input and goes on, whatever happened to the server meanwhile. Each is attached to a record. Prints one JSON object.
import { createHash } from "node:crypto";
import { readSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [base, other, email, password] = process.argv.slice(2);
const require = createRequire(`${process.env.GATEWRIGHT_TEST_NODE_TOOLS}/package.json`);
const tus = await import(pathToFileURL(require.resolve("tus-js-client")));
const { Upload } = tus.default ?? tus;

const signIn = await fetch(`${base}/auth/login`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ email, password }),
});
const cookie = signIn.headers.getSetCookie().map((line) => line.split(";")[0]).join("; ");

/** Bytes of which no two pieces are equal. */
function bytes(seed, size) {
  const content = Buffer.alloc(size);
  for (let at = 0; at + 4 <= size; at += 4) content.writeUInt32LE((at * 2654435761 + seed) >>> 0, at);
  return content;
}

/** Uploads, and returns the address: at the end, or where `interrupted` returned true. */
function upload(content, options, interrupted) {
  return new Promise((resolve, reject) => {
    const running = new Upload(content, {
      endpoint: `${base}/_files/tus`,
      chunkSize: 1 << 20,
      retryDelays: [200, 500, 1000, 2000, 4000, 8000, 8000, 8000],
      headers: { cookie },
      metadata: { filename: "film.bin", filetype: "video/mp4" },
      onError: reject,
      onSuccess: () => resolve(running.url),
      onChunkComplete: (_, accepted, total) => {
        if (accepted < total && interrupted(accepted, total)) running.abort().then(() => resolve(running.url));
      },
      ...options,
    });
    running.start();
  });
}

async function attach(url, content) {
  const id = new URL(url).pathname.split("/").pop();
  const made = await fetch(`${base}/papers`, {
    method: "POST",
    headers: { "Content-Type": "application/json", cookie },
    body: JSON.stringify({ pages: [{ id }] }),
  });
  const file = (await made.json()).data.pages[0];
  const served = Buffer.from(await (await fetch(base + file.url, { headers: { cookie } })).arrayBuffer());
  const hash = createHash("sha256").update(content).digest("hex");
  return { name: file.name, size: file.size, isWhole: served.equals(content) && file.sha256 === hash };
}

async function offset(url) {
  const answer = await fetch(url, { method: "HEAD", headers: { cookie, "Tus-Resumable": "1.0.0" } });
  return Number(answer.headers.get("upload-offset"));
}

const first = bytes(1, 20_000_001);
const stopped = await upload(first, {}, (accepted, total) => accepted > total / 2);
const stoppedAt = await offset(stopped);
const elsewhere = stopped.replace(base, other);
const resumed = await upload(first, { uploadUrl: elsewhere }, () => false);

const second = bytes(2, 20_000_003);
let hasWaited = false;
const survived = await upload(second, {}, (accepted, total) => {
  if (!hasWaited && accepted > total / 2) {
    hasWaited = true;
    process.stdout.write("half\n");
    readSync(0, Buffer.alloc(1));
  }
  return false;
});

// In one request, and nothing.
const third = bytes(3, 3_000_000);
const whole = await upload(third, { chunkSize: Infinity, uploadDataDuringCreation: true }, () => false);
const none = await upload(Buffer.alloc(0), {}, () => false);
const ended = await upload(first, {}, () => true);
await Upload.terminate(ended, { headers: { cookie } });
const gone = await fetch(ended, { method: "HEAD", headers: { cookie, "Tus-Resumable": "1.0.0" } });

const report = {
  wasStopped: stoppedAt > 0 && stoppedAt < first.length,
  resumed: await attach(resumed, first),
  survived: await attach(survived, second),
  whole: await attach(whole, third),
  empty: await attach(none, Buffer.alloc(0)),
  ended: gone.status,
};
process.stdout.write(`${JSON.stringify(report)}\n`);
