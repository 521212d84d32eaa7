// Uses the authorization server with `oauth4webapi`: `node oauth-client.mjs BASE EMAIL PASSWORD PUBLIC ID SECRET`.
// PUBLIC is a client for users, ID and SECRET are those of a service. Prints one JSON object.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [base, email, password, publicId, id, secret] = process.argv.slice(2);
const require = createRequire(`${process.env.GATEWRIGHT_TEST_NODE_TOOLS}/package.json`);
const oauth = await import(pathToFileURL(require.resolve("oauth4webapi")));
const plain = { [oauth.allowInsecureRequests]: true };
const redirect = "http://127.0.0.1:9/callback";

/** Somebody at a browser who signs in and allows what is asked for. */
async function allow(url) {
  const signedIn = await fetch(`${base}/auth/login`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ email, password }),
  });
  const cookie = signedIn.headers.getSetCookie().map((line) => line.split(";")[0]).join("; ");
  const page = await fetch(url, { headers: { cookie }, redirect: "manual" });
  if (page.status === 303) return new URL(page.headers.get("location"));
  const text = await page.text();
  const field = (name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)[1].replaceAll("&amp;", "&");
  const body = new URLSearchParams({ request: field("request"), seal: field("seal"), decision: "allow" });
  const answer = await fetch(`${base}/auth/oauth2/authorize`, { method: "POST", headers: { cookie }, body, redirect: "manual" });
  return new URL(answer.headers.get("location"));
}

const issuer = new URL(base);
const discovered = await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...plain });
const server = await oauth.processDiscoveryResponse(issuer, discovered);
const report = {};

// The code flow, with the tools as the only resource.
const client = { client_id: publicId };
const verifier = oauth.generateRandomCodeVerifier();
const state = oauth.generateRandomState();
const url = new URL(server.authorization_endpoint);
for (const [name, value] of Object.entries({
  client_id: publicId,
  redirect_uri: redirect,
  response_type: "code",
  scope: "notes:read",
  code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
  code_challenge_method: "S256",
  state,
  resource: `${base}/mcp`,
})) {
  url.searchParams.set(name, value);
}
const parameters = oauth.validateAuthResponse(server, client, await allow(url), state);
const exchange = { ...plain, additionalParameters: { resource: `${base}/mcp` } };
const answered = await oauth.authorizationCodeGrantRequest(server, client, oauth.None(), parameters, redirect, verifier, exchange);
const tokens = await oauth.processAuthorizationCodeResponse(server, client, answered);
report.tokens = [tokens.token_type, tokens.expires_in, tokens.scope];
const elsewhere = await oauth
  .protectedResourceRequest(tokens.access_token, "GET", new URL(`${base}/notes`), undefined, undefined, plain)
  .catch((error) => error);
report.elsewhere = elsewhere instanceof oauth.WWWAuthenticateChallengeError && elsewhere.cause[0].parameters.error;
const refreshed = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), tokens.refresh_token, exchange);
const second = await oauth.processRefreshTokenResponse(server, client, refreshed);
report.rotated = second.refresh_token !== tokens.refresh_token;
const revoked = await oauth.revocationRequest(server, client, oauth.None(), second.refresh_token, plain);
report.revoked = await oauth.processRevocationResponse(revoked);
const again = await oauth.refreshTokenGrantRequest(server, client, oauth.None(), second.refresh_token, exchange);
report.again = await oauth.processRefreshTokenResponse(server, client, again).catch((error) => error.error);

// A service, with its secret.
const service = { client_id: id };
for (const [name, authentication] of [
  ["basic", oauth.ClientSecretBasic(secret)],
  ["post", oauth.ClientSecretPost(secret)],
]) {
  const asked = await oauth.clientCredentialsGrantRequest(server, service, authentication, { scope: "notes:read" }, plain);
  const granted = await oauth.processClientCredentialsResponse(server, service, asked);
  const list = await oauth.protectedResourceRequest(granted.access_token, "GET", new URL(`${base}/notes`), undefined, undefined, plain);
  const inspected = await oauth.introspectionRequest(server, service, authentication, granted.access_token, plain);
  report[name] = [list.status, (await oauth.processIntrospectionResponse(server, service, inspected)).active];
}
const wrong = await oauth.clientCredentialsGrantRequest(server, service, oauth.ClientSecretBasic("wrong"), {}, plain);
report.wrong = await oauth.processClientCredentialsResponse(server, service, wrong).catch((error) => error.cause?.[0]?.scheme ?? error.error);
console.log(JSON.stringify(report));
