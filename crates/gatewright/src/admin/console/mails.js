import { act, get, keys } from "./api.js";
import { ago, doing, el, field, fill, section, select, slowly, table, tag } from "./ui.js";

const statuses = [["", "All"], ["pending", "Waiting"], ["sending", "Being sent"], ["failed", "Given up"], ["expired", "Expired"]];
const kinds = { pending: "note", sending: "note", failed: "bad", expired: "" };
const purposes = {
  magic_link: "Sign-in link", email_code: "Sign-in code", email_verification: "Verification", password_reset: "Password reset", invitation: "Invitation",
  email_change: "Change of address", email_changed: "Notice: address changed", email_change_undone: "Notice: change of address undone", passkey_added: "Notice: passkey added",
  two_factor_enabled: "Notice: second factor on", two_factor_disabled: "Notice: second factor off",
  backup_codes_replaced: "Notice: new backup codes", new_device: "Notice: new device",
};

/** Mails that wait or could not be sent. The links in them are shown to nobody. */
export async function mails({ query, signal, remember, me }) {
  const list = el("div", { "aria-live": "polite" });
  const status = select({ onchange: () => search() }, statuses, query.get("status") || "");
  const recipient = el("input", { name: "recipient", type: "search", value: query.get("recipient") || "", autocomplete: "off", spellcheck: "false" });
  const search = async (cursor = "") => {
    const asked = { status: status.value, recipient: recipient.value.trim() };
    remember(asked);
    try {
      const found = await get(`/mails?${new URLSearchParams({ ...asked, cursor, limit: "50" })}`, { signal });
      const empty = asked.status || asked.recipient ? "No mail matches." : "No mail is pending and none has failed.";
      fill(list, shown(keys(found.data), me, () => search(cursor), empty),
        el("div", { class: "acts" }, cursor && doing("First page", () => search()), found.cursor && doing("Next page", () => search(found.cursor))));
    } catch (error) {
      if (!signal.aborted) fill(list, el("p", { role: "alert" }, error.message));
    }
  };
  recipient.addEventListener("input", slowly(() => search()));
  await search();
  return [
    el("h1", {}, "Mail queue"),
    section("", el("p", { class: "hint" }, "A mail is here until a mail server has accepted it. It is no longer sent once its link has expired."),
      el("div", { class: "line" }, field("Which", status), field("Recipient", recipient, "The whole address.")), list),
  ];
}

function shown(found, me, again, empty) {
  const rows = found.map((mail) => {
    const at = `/mails/${encodeURIComponent(mail.id)}`;
    const to = mail.recipient;
    const retry = ["pending", "failed"].includes(mail.status) && doing("Retry", async () => { await act("POST", `${at}/retry`); await again(); },
      { said: "It is sent now. If it fails, it is here again." });
    const discard = doing("Discard", async () => { await act("DELETE", at); await again(); },
      { kind: "danger", ask: `Discard this mail to ${to}? It is not sent.`, does: "Discard", said: "The mail is discarded." });
    const state = statuses.find(([word]) => word === mail.status)?.[1] || mail.status;
    return [
      to, purposes[mail.kind] || mail.kind, tag(state, kinds[mail.status]), String(mail.attempts),
      el("span", { class: "cut", title: mail.lastError || undefined }, mail.lastError || "–"),
      mail.nextAttemptAt ? ago(mail.nextAttemptAt) : "–", ago(mail.createdAt), ago(mail.expiresAt),
      me.mayWrite && el("div", { class: "acts" }, retry, discard),
    ];
  });
  return table("Mails", ["Recipient", "Purpose", "Status", "Attempts", "Last error", "Next attempt", "Written", "Link expires", "Actions"], rows, empty);
}
