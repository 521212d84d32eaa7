use gatewright_entities::Profile;
use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::{EMAIL, done, email, example_user, next, redirect, signed_in};
use crate::Config;
use crate::openapi::Draft;
use crate::openapi::names::{JWT, Page, SESSION};
use crate::openapi::words::{Part, boolean, empty, header, json, named, object, query, string, typed};

/// Registration, sign-in by password, sign-out, and the current account.
pub(super) fn describe(draft: &mut Draft, base: &str, config: &Config, profile: Option<&Profile>) {
    let invite = string().description(Some("The token of an invitation."));
    let mut new = credentials().property("invite", invite);
    if let Some(profile) = profile {
        new = new.property("profile", super::profile::new(profile));
        if profile.fields().any(|(field, _)| field.is_required() && !field.has_default()) {
            new = new.required("profile");
        }
    }
    let example = value!({ "email": EMAIL, "password": "correct horse battery" });
    let mut registration = example.clone();
    if let Some(profile) = profile {
        registration["profile"] = super::profile::example(profile);
    }
    let register = draft
        .auth(HttpMethod::Post, base, "/register", "register", "Create an account")
        .about("A JSON request only creates the account; a form also signs in. Roles are never taken from a request. A form sends a field of the profile as `profile_NAME`.")
        .parameter(query("next", "The same as in the body.", string()))
        .submitted(new, true, &registration)
        .answers(200, registered(config))
        .answers(303, redirect())
        .fails(&[401, 409], Page::ForForms)
        .limited();
    let login = draft
        .auth(HttpMethod::Post, base, "/login", "login", "Sign in with a password")
        .parameter(query("next", "The same as in the body.", string()))
        .submitted(credentials(), true, &example)
        .answers(200, signed_in(config))
        .answers(303, redirect())
        .fails(&[401], Page::ForForms)
        .limited();
    let logout = draft
        .auth(HttpMethod::Post, base, "/logout", "logout", "End the session")
        .parameter(query("next", "The same as in the body.", string()))
        .submitted(typed(Type::Object).property("next", next()), false, &value!({}))
        .answers(204, empty("The session has ended.").header("Set-Cookie", header("Clears the session.", string())))
        .answers(303, redirect());
    let case = draft.case;
    let current = case.spell("current_password");
    let passwords = value!({ (current.as_str()): "correct horse battery", "password": "a better horse battery" });
    let body = object([(current, string()), ("password".to_owned(), string())]).property("next", next());
    let change = draft
        .auth(HttpMethod::Post, base, "/change-password", "changePassword", "Change the password")
        .about("Needs a session and the current password. The session continues with a new id.")
        .submitted(body, true, &passwords)
        .for_sessions(Page::ForForms)
        .answers(
            200,
            done("The password is changed.", "updated").header("Set-Cookie", header("The session.", string())),
        )
        .answers(303, redirect())
        .fails(&[409], Page::ForForms)
        .limited();
    let members: [(String, Part); 3] = [
        ("user".to_owned(), named("User")),
        (case.spell("email_verified"), boolean().into()),
        (case.spell("two_factor_enabled"), boolean().into()),
    ];
    let example = value!({
        "user": example_user(), (case.spell("email_verified")): true, (case.spell("two_factor_enabled")): false,
    });
    let me = draft
        .auth(HttpMethod::Get, base, "/me", "me", "Read the current account")
        .open_to(&[SESSION, JWT], false)
        .answers(200, json("The current account.", object(members), Some(example)))
        .fails(&[401, 403], Page::Never);
    for described in [register, login, logout, change, me] {
        draft.add(described);
    }
}

pub(super) fn language(draft: &mut Draft, base: &str) {
    let choose = draft
        .auth(HttpMethod::Get, base, "/language", "chooseLanguage", "Choose the language of pages and mails")
        .about(
            "For links on pages of this service; a link on another site is refused. The choice is stored in the \
             cookie `language`.",
        )
        .parameter(query("to", "The tag of a language, such as `de`.", string()))
        .parameter(query(
            "next",
            "Where to redirect afterwards: a path on this origin. Any other value means `/`.",
            string(),
        ))
        .answers(303, empty("Redirects to `next`.").header("Set-Cookie", header("The chosen language.", string())))
        .fails(&[403], Page::ForForms);
    draft.add(choose);
}

/// The token that a script's requests need where CSRF is guarded against.
pub(super) fn csrf(draft: &mut Draft, base: &str) {
    let key = draft.case.spell("csrf_token");
    let example = value!({ (key.as_str()): "f3c9…" });
    let described = draft
        .auth(HttpMethod::Get, base, "/csrf", "csrf", "The CSRF token")
        .about("Send it in `X-CSRF-Token`, or as `_csrf` in a form, with each request that changes something.")
        .answers(
            200,
            json("The token. The response also sets its cookie.", object([(key, string())]), Some(example))
                .header("Set-Cookie", header("The cookie that belongs to the token.", string())),
        );
    draft.add(described);
}

fn credentials() -> ObjectBuilder {
    object([("email".to_owned(), email()), ("password".to_owned(), string())]).property("next", next())
}

/// Registration by JSON creates no session, so it sets no cookie.
fn registered(config: &Config) -> utoipa::openapi::Response {
    let mut response = signed_in(config).description("The new account.").build();
    response.headers.clear();
    response
}
