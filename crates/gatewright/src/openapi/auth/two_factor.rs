use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::ObjectBuilder;

use super::account_deletion::proof_unless_young;
use super::{next, redirect};
use crate::Config;
use crate::openapi::Draft;
use crate::openapi::names::{Page, SESSION};
use crate::openapi::words::{Part, boolean, content, header, json, list_of, object, string};

/// The second factor.
pub(super) fn describe(draft: &mut Draft, base: &str, config: &Config) {
    let proof = || proof_unless_young().property("next", next());
    let code = || object([("code".to_owned(), string())]).property("next", next());
    let example = value!({ "code": "492039" });
    let html = |response: ResponseBuilder| response.content("text/html", content(string(), None));

    let begun = object(["secret", "url", "qr"].map(|name| (name.to_owned(), string())));
    let begun_example = value!({
        "secret": "JBSWY3DPEHPK3PXP", "url": "otpauth://totp/Gatewright:ada@example.com?secret=JBSWY3DPEHPK3PXP",
        "qr": "data:image/svg+xml;base64,PHN2Zy8+",
    });
    let enroll = draft
        .auth(HttpMethod::Post, base, "/2fa/enroll", "enrollTwoFactor", "Start enrolling a second factor")
        .about(
            "Needs a session younger than five minutes or, in the body, a fresh proof. Otherwise the answer is 403 \
             `session_too_old`.",
        )
        .submitted(proof(), false, &value!({}))
        .for_sessions(Page::ForForms)
        .answers(200, html(json("The secret for an authenticator app.", begun, Some(begun_example))))
        .fails(&[409], Page::ForForms)
        .limited();
    let (shape, codes) = codes(draft);
    let mut enabled = codes.clone();
    enabled["enabled"] = true.into();
    let verify = draft
        .auth(HttpMethod::Post, base, "/2fa/verify", "verifyTwoFactor", "Confirm the second factor")
        .about(
            "Only in the session that began the enrollment, within 15 minutes. Otherwise the answer is 409 \
             `enrollment_not_begun`.",
        )
        .submitted(code(), true, &example)
        .for_sessions(Page::ForForms)
        .answers(
            200,
            html(json(
                "The second factor is enabled.",
                shape.property("enabled", boolean()).required("enabled"),
                Some(enabled),
            )),
        )
        .fails(&[409], Page::ForForms)
        .limited();
    let mut passed = value!({ "verified": true });
    let mut verified = object([("verified".to_owned(), boolean())]);
    if config.browser_backend.is_none() {
        passed["token"] = "eyJhbGciOiJIUzI1NiJ9.…".into();
        verified = verified.property("token", string().description(Some("The JWT that the sign-in did not return.")));
    }
    let challenge = draft
        .auth(HttpMethod::Post, base, "/2fa/challenge", "challengeTwoFactor", "Prove the second factor")
        .about(
            "Accepts a code of the authenticator app or a backup code. The second factor of the session must be \
             pending.",
        )
        .submitted(code(), true, &example)
        .open_to(&[SESSION], false)
        .fails(&[401], Page::ForForms)
        .answers(
            200,
            json("The session has full access.", verified, Some(passed))
                .header("Set-Cookie", header("The session with its new id.", string())),
        )
        .answers(303, redirect())
        .fails(&[409], Page::ForForms)
        .limited();
    let disable = draft
        .auth(HttpMethod::Post, base, "/2fa/disable", "disableTwoFactor", "Disable the second factor")
        .submitted(code(), true, &example)
        .for_sessions(Page::ForForms)
        .answers(200, super::done("The second factor is disabled.", "disabled"))
        .answers(303, redirect())
        .fails(&[409], Page::ForForms)
        .limited();
    let (shape, codes) = self::codes(draft);
    let get = draft
        .auth(HttpMethod::Get, base, "/2fa/backup-codes", "backupCodes", "Create new backup codes")
        .about(
            "The old ones become invalid. Needs a session younger than five minutes, in which the second factor was \
             proven. Otherwise the answer is 403 `session_too_old`: send the proof by POST, or sign in again.",
        )
        .for_sessions(Page::ForForms)
        .answers(200, json("The new codes.", shape, Some(codes)))
        .fails(&[409], Page::Never);
    let (shape, codes) = self::codes(draft);
    let post = draft
        .auth(HttpMethod::Post, base, "/2fa/backup-codes", "backupCodesByPost", "Create new backup codes")
        .about(
            "The old ones become invalid. Needs a session younger than five minutes or, in the body, a fresh proof. \
             Otherwise the answer is 403 `session_too_old`.",
        )
        .submitted(proof(), false, &value!({}))
        .for_sessions(Page::ForForms)
        .answers(200, html(json("The new codes.", shape, Some(codes))))
        .fails(&[409], Page::ForForms)
        .limited();
    for described in [enroll, verify, challenge, disable, get, post] {
        draft.add(described);
    }
}

/// Backup codes: their shape and an example.
fn codes(draft: &Draft) -> (ObjectBuilder, serde_json::Value) {
    let key = draft.case.spell("backup_codes");
    let list: Part = list_of(string()).into();
    (object([(key.clone(), list)]), value!({ (key): ["k3v9q-xw2mf"] }))
}
