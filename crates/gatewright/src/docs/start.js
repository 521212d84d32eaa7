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
    plugins: [textInPlaceOfLinks, openWithoutCredentials],
  });
}

// An operation that anybody may call also lists no credentials. Swagger UI takes that for credentials that are there, and would
// show a closed lock.
function openWithoutCredentials() {
  const asked = (securities) => securities?.filter?.((one) => one.size > 0) ?? securities;
  const isAuthorized = (original) => (_state, securities) => original(asked(securities));
  return { statePlugins: { auth: { wrapSelectors: { isAuthorized } } } };
}

// The name of an operation stands in the button that opens it, where a link would be a control within a control. The
// address of an opened operation is in the address bar.
function textInPlaceOfLinks() {
  const DeepLink = () => ({ text }) => window.ui.React.createElement("span", { className: "nostyle" }, text);
  return { wrapComponents: { DeepLink } };
}

// The color scheme of the visitor's system, as Swagger UI's sheet knows it.
function scheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", show);
  show();
}

// What screen readers need and Swagger UI leaves out: names of fields, and headings that descend one step at a time.
function name() {
  const named = {
    "#servers": "Server",
    ".operation-filter-input": "Filter by tag",
    ".content-type": "Media type",
    ".examples-select-element": "Example",
    ".body-param__text": "Request body",
    ".copy-to-clipboard button": "Copy",
  };
  const observer = new MutationObserver(() => {
    for (const [selector, label] of Object.entries(named)) {
      document.querySelectorAll(`${selector}:not([aria-label])`).forEach((field) => field.setAttribute("aria-label", label));
    }
    for (const row of document.querySelectorAll("tr[data-param-name]")) {
      const fields = row.querySelectorAll("input:not([aria-label]), select:not([aria-label]), textarea:not([aria-label])");
      fields.forEach((field) => field.setAttribute("aria-label", row.dataset.paramName));
    }
    for (const [selector, level] of [["h3.opblock-tag", 2], [".models h4", 2], [".opblock-section-header h4", 3], [".responses-inner h4, .responses-inner h5", 4]]) {
      document.querySelectorAll(`${selector.split(", ").map((one) => `${one}:not([aria-level])`).join(", ")}`).forEach((heading) => {
        heading.setAttribute("role", "heading");
        heading.setAttribute("aria-level", level);
      });
    }
    // A page with several opened operations has several tables of responses.
    for (const table of document.querySelectorAll("table.responses-table[role=region]")) table.removeAttribute("role");
    // What scrolls is reached by keyboard.
    for (const block of document.querySelectorAll("pre:not([tabindex]), .table-container:not([tabindex])")) block.tabIndex = 0;
  });
  observer.observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
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
  link.textContent = answer.status === 403 ? "The second factor is pending" : "Sign in";
  caller.append(link);
}

async function signOut() {
  const headers = { "Content-Type": "application/json" };
  await fetch(`${auth}/logout`, await withToken({ method: "POST", headers, body: "{}" }));
  await who();
}

scheme();
name();
load();
who();
