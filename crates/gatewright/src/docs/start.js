"use strict";

const { auth, csrf } = document.body.dataset;
const caller = document.getElementById("caller");

// Whoever opens the page under another of the server's names still calls the server that the page came from.
async function load() {
  const document_ = await (await fetch("/openapi.json")).json();
  document_.servers = [{ url: location.origin }];
  window.ui = SwaggerUIBundle({
    spec: document_,
    dom_id: "#swagger-ui",
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    tryItOutEnabled: true,
    validatorUrl: null,
    requestInterceptor: withToken,
    responseInterceptor: afterwards,
  });
}

// The token that CSRF protection asks of requests that change something by cookie.
async function withToken(request) {
  const changes = !["GET", "HEAD", "OPTIONS"].includes((request.method || "GET").toUpperCase());
  if (csrf && changes && !request.headers.Authorization) {
    const { csrfToken, csrf_token } = await (await fetch(`${auth}/csrf`)).json();
    request.headers["X-CSRF-Token"] = csrfToken || csrf_token;
  }
  return request;
}

// A call that signs in or out changes who calls.
function afterwards(response) {
  if (auth && new URL(response.url, location.href).pathname.startsWith(`${auth}/`)) who();
  return response;
}

async function who() {
  if (!auth) return;
  const answer = await fetch(`${auth}/me`);
  caller.replaceChildren();
  if (answer.ok) {
    const { user } = await answer.json();
    const out = document.createElement("button");
    out.textContent = "Sign out";
    out.addEventListener("click", signOut);
    caller.append(`Signed in as ${user.email}`, out);
    return;
  }
  const link = document.createElement("a");
  link.href = "/login?next=%2Fapi%2Fdocs";
  link.textContent = answer.status === 403 ? "The second factor is still owed" : "Sign in";
  caller.append(link);
}

async function signOut() {
  const headers = { "Content-Type": "application/json" };
  await fetch(`${auth}/logout`, await withToken({ method: "POST", headers, body: "{}" }));
  await who();
}

load();
who();
