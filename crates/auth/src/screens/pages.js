(() => {
  "use strict";
  // A form that is being sent says so, and cannot be sent twice.
  const release = (form) => {
    form.removeAttribute("aria-busy");
    for (const button of form.querySelectorAll("button[data-held]")) {
      button.disabled = false;
      delete button.dataset.held;
      delete button.dataset.busy;
    }
  };
  addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented) return;
    if (form.getAttribute("aria-busy")) return event.preventDefault();
    form.setAttribute("aria-busy", "true");
    const pressed = event.submitter || form.querySelector("button:not([type=button])");
    // A button that is disabled before the fields are read is not among them.
    setTimeout(() => {
      for (const button of form.querySelectorAll("button:not(:disabled)")) {
        button.disabled = true;
        button.dataset.held = "";
      }
      if (pressed) pressed.dataset.busy = "";
    });
    // The answer is a file, and the page stays.
    if ("stays" in form.dataset) setTimeout(() => release(form), 4000);
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) for (const form of document.forms) release(form);
  });
  for (const button of document.querySelectorAll("button[data-reveal]")) {
    const field = document.getElementById(button.dataset.reveal);
    const show = (shown) => {
      field.type = shown ? "text" : "password";
      button.setAttribute("aria-pressed", String(shown));
    };
    button.hidden = false;
    button.addEventListener("click", () => show(field.type === "password"));
    // Browsers store only what is typed into the field of a password.
    field.form.addEventListener("submit", () => show(false));
  }
  for (const field of document.querySelectorAll("input[data-digits]")) {
    field.addEventListener("input", () => {
      const typed = field.value.replace(/[\s-]/g, "");
      const whole = typed.length === Number(field.dataset.digits) && /^\d+$/.test(typed);
      if (whole && !field.form.getAttribute("aria-busy")) field.form.requestSubmit();
    });
  }
  for (const list of document.querySelectorAll("[data-rules]")) {
    const field = document.getElementById(list.dataset.rules);
    const others = () => [...field.form.querySelectorAll("[name=email], [name=username], [name=profile_display_name]")];
    const rules = {
      length: (text, rule) => [...text.normalize("NFC")].length >= Number(rule.dataset.least),
      personal: (text) => {
        const known = others().flatMap(({ value }) => [value, value.split("@")[0], value.split(/[+@]/)[0]]);
        return text !== "" && !known.some((word) => word.trim().toLowerCase() === text.toLowerCase());
      },
    };
    const check = () => {
      for (const rule of list.querySelectorAll("[data-rule]")) {
        const met = rules[rule.dataset.rule](field.value, rule);
        rule.toggleAttribute("data-met", met);
        rule.querySelector(".unseen").hidden = !met;
      }
    };
    field.form.addEventListener("input", check);
    check();
  }
  for (const button of document.querySelectorAll("button[data-wait]")) {
    const words = button.textContent;
    const until = Date.now() + 1000 * Number(button.dataset.wait);
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      button.disabled = left > 0;
      button.textContent = left > 0 ? button.dataset.words.replace("{n}", left) : words;
      if (left > 0) setTimeout(tick, 500);
    };
    tick();
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
      button.textContent = button.dataset.done;
    });
  }
  // A menu closes when the visitor turns to something else.
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.languages[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.languages[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
})();
