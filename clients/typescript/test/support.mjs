// What the tests share: the built client, a server to speak with, and a proxy in front of it that can be cut.
import { createHmac } from "node:crypto";
import net from "node:net";

export const { createClient, filter, GatewrightError } = await import(process.env.GATEWRIGHT_TEST_CLIENT);
export const url = process.env.GATEWRIGHT_TEST_URL;
export const PASSWORD = "correct horse battery";

// What hangs fails.
setTimeout(() => {
  console.error("the tests took too long");
  process.exit(1);
}, 180_000).unref();

let people = 0;

/** A client whose account is new, and signed in. */
export async function somebody(options = {}) {
  const client = createClient({ url, ...options });
  const email = `somebody-${(people += 1)}-${process.pid}@example.com`;
  const account = await client.auth.register({ email, password: PASSWORD });
  await client.auth.signIn({ email, password: PASSWORD });
  return { client, email, account };
}

/** The failure that a promise ends with. */
export async function failureOf(promise) {
  try {
    await promise;
  } catch (error) {
    if (error instanceof GatewrightError) return error.failure;
    throw error;
  }
  throw new Error("it did not fail");
}

/** The token of the newest mail to somebody, once it is there. */
export async function mailed(email, name = "token") {
  for (;;) {
    const mails = await (await fetch(`${url}/dev/mail.json`)).json();
    const mail = mails.find(({ to }) => to === email);
    const token = mail && new URL(mail.links[0]).searchParams.get(name);
    if (token) return token;
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** The six digits in the latest mail to an address. */
export async function mailedCode(email) {
  for (;;) {
    const mails = await (await fetch(`${url}/dev/mail.json`)).json();
    const code = mails.find(({ to }) => to === email)?.text.match(/^\d{6}$/m);
    if (code) return code[0];
    await new Promise((done) => setTimeout(done, 20));
  }
}

/** The code of an authenticator app now (RFC 6238), or so many steps later. */
export function totp(secret, later = 0) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret.replace(/=+$/, "")].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const hash = createHmac("sha1", key).update(counter).digest();
  const number = hash.readUInt32BE(hash[19] & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

/** A proxy in front of the server. `cut` breaks every connection and refuses new ones until `mend`. */
export async function proxy() {
  const target = new URL(url);
  const open = new Set();
  let isCut = false;
  const server = net.createServer((near) => {
    if (isCut) return near.destroy();
    const far = net.connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => {}).on("close", () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const cut = () => {
    isCut = true;
    for (const socket of open) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut,
    mend: () => (isCut = false),
    close: () => {
      cut();
      server.close();
    },
  };
}

/** The next event of a stream that is one of these types. */
export async function next(events, ...types) {
  for (;;) {
    const { value, done } = await events.next();
    if (done) throw new Error(`the stream ended before ${types}`);
    if (types.includes(value.type)) return value;
  }
}
