use serde_json::json as value;
use utoipa::openapi::path::{HttpMethod, Parameter};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::Type;

use super::account_deletion::proof_unless_young;
use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{
    Part, content, empty, header, in_path, instant, json, list_of, named, object, or_null, query, string,
};

/// Signing in with a provider.
pub(super) fn oauth(draft: &mut Draft, base: &str) {
    let away = || {
        empty("Redirects to the provider.")
            .header("Location", header("The provider's page.", string()))
            .header("Set-Cookie", header("The state of the flow.", string()))
    };
    let begin = draft
        .auth(HttpMethod::Get, base, "/oauth/{provider}", "beginOAuth", "Sign in with a provider")
        .parameter(provider())
        .parameter(query("next", "Where to redirect afterwards: a path on this origin.", string()))
        .answers(303, away())
        .fails(&[400, 403, 404, 500, 502, 503], Page::ForForms);
    let link = draft
        .auth(HttpMethod::Get, base, "/oauth/{provider}/link", "linkOAuth", "Link a provider to the caller's account")
        .about("Needs a session younger than five minutes, with the second factor if the account has one.")
        .parameter(provider())
        .parameter(query("next", "Where to redirect afterwards: a path on this origin.", string()))
        .for_sessions(Page::ForForms)
        .answers(303, away())
        .fails(&[400, 404, 500, 502, 503], Page::ForForms);
    let url = object([("url".to_owned(), string())]);
    let link_with_proof = draft
        .auth(HttpMethod::Post, base, "/oauth/{provider}/link", "linkOAuthWithProof", "The same, with a fresh proof")
        .about(
            "Needs a session younger than five minutes or, in the body, a fresh proof: otherwise 403 `session_too_old`. The \
             answer has the provider's URL, for the browser that sent the request.",
        )
        .parameter(provider())
        .submitted(proof_unless_young().property("next", string()), false, &value!({}))
        .for_sessions(Page::ForForms)
        .answers(
            200,
            json("Continue at this URL.", url, Some(value!({ "url": "https://accounts.example.com/authorize?…" })))
                .content("text/html", content(string(), None))
                .header("Set-Cookie", header("The state of the flow.", string())),
        )
        .fails(&[404, 502], Page::ForForms)
        .limited();
    let back = empty("The caller is signed in, or the provider is linked.")
        .header("Location", header("A path on this origin.", string()))
        .header("Set-Cookie", header("The session.", string()));
    let callback = draft
        .auth(HttpMethod::Get, base, "/oauth/{provider}/callback", "finishOAuth", "The callback of a provider")
        .parameter(provider())
        .parameter(query("code", "The authorization code of the provider.", string()))
        .parameter(query("state", "The `state` parameter of the authorization request.", string()))
        .parameter(query("error", "Why the provider refused.", string()))
        .answers(303, back)
        .fails(&[400, 401, 403, 404, 409, 500, 502, 503], Page::ForForms)
        .limited();
    let form = object([
        ("state".to_owned(), string()),
        ("code".to_owned(), string()),
        ("error".to_owned(), string()),
        ("user".to_owned(), string()),
    ]);
    let posted = draft
        .auth(
            HttpMethod::Post,
            base,
            "/oauth/{provider}/callback",
            "postOAuth",
            "The same, of a provider that posts it",
        )
        .about("Only of a provider whose page posts its answer (Apple). The browser is redirected to the GET.")
        .parameter(provider())
        .body(RequestBodyBuilder::new().content("application/x-www-form-urlencoded", content(form, None)).build())
        .answers(
            303,
            empty("Continue at the callback.").header("Location", header("The callback, with the answer.", string())),
        )
        .fails(&[400, 404, 405, 413, 415], Page::ForForms)
        .limited();
    for described in [begin, link, link_with_proof, callback, posted] {
        draft.add(described);
    }
}

/// The providers that are linked.
pub(super) fn accounts(draft: &mut Draft, base: &str) {
    let case = draft.case;
    let members: [(&str, Part); 6] = [
        ("provider", string().into()),
        ("provider_id", string().into()),
        ("email", or_null(Type::String).into()),
        ("name", or_null(Type::String).into()),
        ("avatar_url", or_null(Type::String).into()),
        ("linked_at", instant().into()),
    ];
    let account = object(members.map(|(name, schema)| (case.spell(name), schema)));
    draft.components.schemas.insert("LinkedAccount".to_owned(), account.into());
    let accounts = object([("accounts".to_owned(), list_of(named("LinkedAccount")))]);
    let list = draft
        .auth(HttpMethod::Get, base, "/accounts", "listAccounts", "List linked providers")
        .for_sessions(Page::Never)
        .answers(200, json("The caller's linked providers.", accounts, None));
    let unlinked = object([("unlinked".to_owned(), string())]);
    let unlink = draft
        .auth(HttpMethod::Delete, base, "/unlink/{provider}", "unlinkAccount", "Unlink a provider")
        .about(
            "Needs a session younger than five minutes or, in the body, a fresh proof: otherwise 403 `session_too_old`. The last \
             way to sign in cannot be removed: 409 `last_credential`.",
        )
        .parameter(provider())
        .submitted(proof_unless_young(), false, &value!({}))
        .for_sessions(Page::Never)
        .answers(200, json("The link is removed.", unlinked, Some(value!({ "unlinked": "google" }))))
        .fails(&[404, 409], Page::Never)
        .limited();
    draft.add(list);
    draft.add(unlink);
}

fn provider() -> Parameter {
    in_path("provider", "The provider's name.", string().min_length(Some(1))).build()
}
