use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::account_deletion::proof_unless_young;
use super::signed_in;
use crate::Config;
use crate::openapi::names::Page;
use crate::openapi::words::{
    Part, boolean, empty, in_path, instant, json, json_body, list_of, named, object, or_null, patch_body, string, typed,
};
use crate::openapi::{Draft, schema};

/// Passkeys. Data that `WebAuthn` defines is an object here: browsers create and read it.
pub(super) fn describe(draft: &mut Draft, base: &str, config: &Config) {
    let case = draft.case;
    let passkey: [(&str, Part); 5] = [
        ("id", string().into()),
        ("name", string().into()),
        ("backed_up", boolean().description(Some("Whether it is synced to other devices of its owner.")).into()),
        ("created_at", instant().into()),
        ("last_used_at", or_null(Type::String).into()),
    ];
    let passkey = object(passkey.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("Passkey".to_owned(), passkey.into());
    adding(draft, base);
    signing_in(draft, base, config);
    managing(draft, base);
}

fn adding(draft: &mut Draft, base: &str) {
    let shown = typed(Type::Object)
        .property("password", string().description(Some("Required if the account has a password.")))
        .property("code", string().description(Some("A code of the second factor, if the account has one.")));
    let options = draft
        .auth(HttpMethod::Post, base, "/passkeys/register/options", "passkeyCreationOptions", "Start adding a passkey")
        .about(
            "For `PublicKeyCredential.parseCreationOptionsFromJSON`. Needs a fresh proof: the password, or a session \
             younger than five minutes if the account has no password; and a code of the second factor if the account \
             has one.",
        )
        .body(json_body(shown, Some(value!({ "password": "correct horse battery" }))))
        .for_sessions(Page::Never)
        .answers(200, json("`PublicKeyCredentialCreationOptionsJSON`.", webauthn(), None))
        .fails(&[409, 413, 415, 422], Page::Never)
        .limited();
    let credential = webauthn().property("name", string().description(Some("The name in lists: 1 to 100 characters.")));
    let register = draft
        .auth(HttpMethod::Post, base, "/passkeys/register", "registerPasskey", "Add a passkey")
        .about(
            "The body is `RegistrationResponseJSON`, as `credential.toJSON()` returns it, from the browser that \
             requested the options.",
        )
        .body(json_body(credential, None))
        .for_sessions(Page::Never)
        .answers(201, json("The passkey.", named("Passkey"), Some(example(draft))))
        .fails(&[400, 409, 413, 415, 422], Page::Never);
    for described in [options, register] {
        draft.add(described);
    }
}

fn signing_in(draft: &mut Draft, base: &str, config: &Config) {
    let options = draft
        .auth(
            HttpMethod::Post,
            base,
            "/passkeys/login/options",
            "passkeyRequestOptions",
            "Start signing in with a passkey",
        )
        .about(
            "For `PublicKeyCredential.parseRequestOptionsFromJSON`. With a session whose second factor is pending, \
             only for the passkeys of its account.",
        )
        .body(json_body(typed(Type::Object), Some(value!({}))))
        .answers(200, json("`PublicKeyCredentialRequestOptionsJSON`.", webauthn(), None))
        .fails(&[403, 409, 413, 415, 422, 503], Page::Never);
    let login = draft
        .auth(HttpMethod::Post, base, "/passkeys/login", "loginWithPasskey", "Sign in with a passkey")
        .about(
            "The body is `AuthenticationResponseJSON`, from the browser that requested the options. It satisfies the \
             second factor.",
        )
        .body(json_body(webauthn(), None))
        .answers(200, signed_in(config))
        .fails(&[400, 401, 403, 409, 413, 415, 503], Page::Never)
        .limited();
    for described in [options, login] {
        draft.add(described);
    }
}

fn managing(draft: &mut Draft, base: &str) {
    let id = || in_path("id", "The passkey's id.", string().min_length(Some(1)));
    let list = draft
        .auth(HttpMethod::Get, base, "/passkeys", "listPasskeys", "List the caller's passkeys")
        .for_sessions(Page::Never)
        .answers(200, json("The oldest first.", object([("passkeys".to_owned(), list_of(named("Passkey")))]), None));
    let renamed = object([("id".to_owned(), string()), ("name".to_owned(), string())]);
    let rename = draft
        .auth(HttpMethod::Patch, base, "/passkeys/{id}", "renamePasskey", "Rename a passkey")
        .parameter(id())
        .body(patch_body(object([("name".to_owned(), string())]), Some(value!({ "name": "My phone" }))))
        .for_sessions(Page::Never)
        .answers(200, json("The new name.", renamed, Some(value!({ "id": schema::ID, "name": "My phone" }))))
        .fails(&[404, 413, 415, 422], Page::Never);
    let remove = draft
        .auth(HttpMethod::Delete, base, "/passkeys/{id}", "removePasskey", "Remove a passkey")
        .about(
            "The last way to sign in cannot be removed: 409 `last_credential`. A magic link does not count as a way \
             to sign in. Needs a session younger than five minutes or, in the body, a fresh proof: otherwise 403 \
             `session_too_old`.",
        )
        .parameter(id())
        .submitted(proof_unless_young(), false, &value!({}))
        .for_sessions(Page::Never)
        .answers(204, empty("The passkey can no longer be used to sign in."))
        .fails(&[404, 409], Page::Never)
        .limited();
    for described in [list, rename, remove] {
        draft.add(described);
    }
}

fn webauthn() -> ObjectBuilder {
    typed(Type::Object).description(Some("As defined in Web Authentication Level 3."))
}

fn example(draft: &Draft) -> serde_json::Value {
    let case = draft.case;
    value!({
        "id": schema::ID, "name": "My phone", (case.spell("backed_up")): true,
        (case.spell("created_at")): "2026-02-01T12:00:00.000000Z", (case.spell("last_used_at")): null,
    })
}
