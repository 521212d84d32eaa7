// Connects with the official TypeScript SDK, from only a URL: `node mcp-connect.mjs URL [DOCUMENT]`. With the URL of
// its metadata document it does not register. It prints one JSON object for each step, and waits for a line on standard
// input before the next step.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [url, clientMetadataUrl] = process.argv.slice(2);
const require = createRequire(`${process.env.GATEWRIGHT_TEST_NODE_TOOLS}/package.json`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { UnauthorizedError } = require("@modelcontextprotocol/sdk/client/auth.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const say = (step) => console.log(JSON.stringify(step));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// The redirect URI.
let answered;
const answer = new Promise((done) => (answered = done));
const callback = createServer((request, response) => {
  response.end("The application is connected.");
  const { searchParams } = new URL(request.url, "http://127.0.0.1");
  if (searchParams.has("code")) answered(searchParams);
});
await new Promise((done) => callback.listen(0, "127.0.0.1", done));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

const kept = {};
let asked;
const provider = {
  redirectUrl,
  clientMetadataUrl,
  clientMetadata: {
    client_name: "An agent",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "a-state-of-the-client",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  redirectToAuthorization: (address) => (asked = String(address)),
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  invalidateCredentials: () => delete kept.tokens,
};
const transport = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const connect = async (way) => {
  const client = new Client({ name: "an agent", version: "1.0.0" });
  await client.connect(way);
  return client;
};
const call = async (client) => (await client.callTool({ name: "notes_create", arguments: { title: "by an agent" } })).isError ?? false;

const first = transport();
const refused = await connect(first).catch((error) => error);
say({ refused: refused instanceof UnauthorizedError, open: asked, registered: Boolean(kept.client) && kept.client.client_id !== clientMetadataUrl });
const { code, state, iss } = Object.fromEntries(await answer);
await first.finishAuth(code);
const client = await connect(transport());
const { tools } = await client.listTools();
say({ state, iss, tools: tools.map(({ name }) => name), failed: await call(client) });

await lines.next();
const before = kept.tokens;
say({
  failed: await call(client),
  isNew: kept.tokens.access_token !== before.access_token && kept.tokens.refresh_token !== before.refresh_token,
});

await lines.next();
asked = undefined;
const ended = await call(client).catch((error) => error);
say({ refused: ended instanceof UnauthorizedError, asks: asked !== undefined });
process.exit(0);
