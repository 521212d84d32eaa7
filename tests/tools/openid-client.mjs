// Signs users in with `openid-client` and, at a device, with `oauth4webapi`: `node openid-client.mjs BASE EMAIL PASSWORD ID SECRET`.
// The client has a secret and the address BASE/bye for sign-outs. Prints one JSON object.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [base, email, password, id, secret] = process.argv.slice(2);
const require = createRequire(`${process.env.GATEWRIGHT_TEST_NODE_TOOLS}/package.json`);
const openid = await import(pathToFileURL(require.resolve("openid-client")));
const oauth = await import(pathToFileURL(require.resolve("oauth4webapi")));
const redirect_uri = "http://127.0.0.1:9/callback";
const after = "http://127.0.0.1:9/bye";
const report = {};

/** The cookies of a sign-in. */
async function signIn() {
  const body = JSON.stringify({ email, password });
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(`${base}/auth/login`, { method: "POST", headers, body });
  return answer.headers.getSetCookie().map((line) => line.split(";")[0]).join("; ");
}

/** Somebody at a browser with these cookies who allows what is asked for. */
async function allow(cookie, url, action = "/auth/oauth2/authorize", page = undefined) {
  const shown = page ?? (await fetch(url, { headers: { cookie }, redirect: "manual" }));
  if (shown.status === 303) return new URL(shown.headers.get("location"), base);
  const text = await shown.text();
  const field = (name) => new RegExp(`name="${name}" value="([^"]*)"`).exec(text)[1].replaceAll("&amp;", "&");
  const body = new URLSearchParams({ request: field("request"), seal: field("seal"), decision: "allow" });
  const answer = await fetch(base + action, { method: "POST", headers: { cookie }, body, redirect: "manual" });
  return answer.status === 303 ? new URL(answer.headers.get("location"), base) : answer.status;
}

const insecure = { execute: [openid.allowInsecureRequests] };
const config = await openid.discovery(new URL(base), id, {}, openid.ClientSecretBasic(secret), insecure);
const cookie = await signIn();
const code_verifier = openid.randomPKCECodeVerifier();
const [nonce, state] = [openid.randomNonce(), openid.randomState()];
const url = openid.buildAuthorizationUrl(config, {
  redirect_uri,
  scope: "openid profile email offline_access",
  code_challenge: await openid.calculatePKCECodeChallenge(code_verifier),
  code_challenge_method: "S256",
  nonce,
  state,
  max_age: "600",
});
const callback = await allow(cookie, url);
const checks = { pkceCodeVerifier: code_verifier, expectedNonce: nonce, expectedState: state, maxAge: 600, idTokenExpected: true };
const tokens = await openid.authorizationCodeGrant(config, callback, checks);
const claims = tokens.claims();
report.claims = [claims.email, claims.nonce === nonce, typeof claims.auth_time, claims.sub.length];
const info = await openid.fetchUserInfo(config, tokens.access_token, claims.sub);
report.userinfo = [info.sub === claims.sub, info.email];
// Two refreshes at once keep the user signed in.
const both = await Promise.all([1, 2].map(() => openid.refreshTokenGrant(config, tokens.refresh_token)));
report.same = both[0].refresh_token === both[1].refresh_token && both[0].access_token === both[1].access_token;
const third = await openid.refreshTokenGrant(config, both[0].refresh_token);
report.refreshed = third.claims().sub === claims.sub;

// Silent sign-in, and a sign-out that the program begins.
const silent = openid.buildAuthorizationUrl(config, {
  redirect_uri,
  scope: "openid",
  prompt: "none",
  code_challenge: await openid.calculatePKCECodeChallenge(code_verifier),
  code_challenge_method: "S256",
});
const again = await openid.authorizationCodeGrant(config, await allow(cookie, silent), { pkceCodeVerifier: code_verifier });
const end = openid.buildEndSessionUrl(config, { id_token_hint: again.id_token, post_logout_redirect_uri: after, state: "s" });
report.ended = String(await allow(cookie, end));
const refused = await allow(cookie, silent);
report.silent = await openid
  .authorizationCodeGrant(config, refused, { pkceCodeVerifier: code_verifier })
  .catch((error) => error.error);

// A device, by the other library.
const plain = { [oauth.allowInsecureRequests]: true };
const issuer = new URL(base);
const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: "oidc", ...plain }));
const client = { client_id: id };
const authentication = oauth.ClientSecretPost(secret);
const asked = await oauth.deviceAuthorizationRequest(server, client, authentication, { scope: "openid email" }, plain);
const device = await oauth.processDeviceAuthorizationResponse(server, client, asked);
const poll = async () => {
  const answer = await oauth.deviceCodeGrantRequest(server, client, authentication, device.device_code, plain);
  return oauth.processDeviceCodeResponse(server, client, answer);
};
report.pending = await poll().catch((error) => error.error);
const fresh = await signIn();
const typed = new URLSearchParams({ user_code: device.user_code });
const page = await fetch(`${base}/device`, { method: "POST", headers: { cookie: fresh }, body: typed });
report.allowed = await allow(fresh, undefined, "/device", page);
const granted = await poll();
const ofDevice = oauth.getValidatedIdTokenClaims(granted);
report.device = [ofDevice.email, ofDevice.sub === claims.sub, "sid" in ofDevice];
const shown = await oauth.userInfoRequest(server, client, granted.access_token, plain);
report.shown = (await oauth.processUserInfoResponse(server, client, claims.sub, shown)).email;
console.log(JSON.stringify(report));
