(() => {
  "use strict";
  const box = document.querySelector("[data-passkeys]");
  const address = /^[\d.]+$|^\[/.test(location.hostname);
  if (!box || address || !window.PublicKeyCredential || !PublicKeyCredential.parseRequestOptionsFromJSON) return;
  const said = box.querySelector("[role=alert]");
  const say = (text) => { said.textContent = text; said.hidden = !text; };
  // What the answer's codes are called in the page's language, where that is not the answer's own.
  const translated = JSON.parse(box.dataset.words || "{}");
  const send = async (url, body) => {
    const headers = { "Content-Type": "application/json" };
    if (box.dataset.csrf) headers["X-CSRF-Token"] = box.dataset.csrf;
    const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" });
    const json = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const first = json.errors && json.errors[0];
      throw new Error(translated[json.code] || (first && first.message) || json.detail || box.dataset.failed);
    }
    return json;
  };
  const words = (error) => (error instanceof DOMException ? box.dataset.failed : error.message);
  let waiting = null;
  const stop = () => { if (waiting) { waiting.abort(); waiting = null; } };
  const signIn = async (how) => {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await send(box.dataset.options, {}));
    const credential = await navigator.credentials.get({ publicKey, ...how });
    await send(box.dataset.finish, credential.toJSON());
    location.assign(box.dataset.next);
  };
  const offer = async () => {
    const mine = (waiting = new AbortController());
    // Before the challenge expires.
    const renew = setTimeout(() => { if (waiting === mine) { stop(); offer(); } }, 240000);
    try {
      await signIn({ mediation: "conditional", signal: mine.signal });
    } catch (error) {
      if (!(error instanceof DOMException)) say(words(error));
    } finally {
      clearTimeout(renew);
    }
  };
  const add = async (form) => {
    const fields = new FormData(form);
    const shown = {};
    for (const name of ["password", "code"]) if (fields.get(name)) shown[name] = fields.get(name);
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await send(box.dataset.options, shown));
    const credential = await navigator.credentials.create({ publicKey });
    await send(box.dataset.finish, { ...credential.toJSON(), name: fields.get("name") });
    location.assign(box.dataset.next);
  };
  const busy = async (button, work) => {
    stop();
    say("");
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      say(words(error));
      button.disabled = false;
    }
  };
  box.hidden = false;
  const form = box.querySelector("form[data-add]");
  const button = box.querySelector("button[data-sign-in]");
  if (form) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      busy(form.querySelector("button"), () => add(form));
    });
  }
  if (button) {
    button.addEventListener("click", () => busy(button, () => signIn({})));
    if ("conditional" in box.dataset && PublicKeyCredential.isConditionalMediationAvailable) {
      PublicKeyCredential.isConditionalMediationAvailable().then((available) => { if (available) offer(); });
    }
  }
})();
