//! The endpoints of authentication, plugin by plugin. The endpoints of disabled plugins do not exist and are omitted.

mod account_deletion;
mod account_export;
mod authorization_server;
mod core;
mod devices;
mod email_change;
mod guests;
mod invitations;
mod keys;
mod mailed;
mod passkeys;
mod profile;
mod providers;
mod sessions;
mod stream_tickets;
mod tenants;
mod tokens;
mod two_factor;

use gatewright_entities::Profile;
use serde_json::Value;
use utoipa::openapi::Required;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::Draft;
use super::names::{Page, SESSION};
use super::words::{
    Described, Part, content, empty, header, json, list_of, named, object, or_null, string, textual, typed,
};
use crate::Config;
use crate::app::profiles;
use crate::config::Plugin;

const TAG: &str = "auth";
/// An address that examples use.
const EMAIL: &str = "ada@example.com";

pub(super) fn describe(draft: &mut Draft, config: &Config) {
    draft.tag(TAG, "Accounts, sessions and sign-in.");
    let base = &*config.auth.base_path;
    let profile = profiles::declared(config);
    user(draft, profile.as_deref(), config.auth.guests);
    for plugin in config.plugins() {
        match plugin {
            Plugin::Core => {
                core::describe(draft, base, config, profile.as_deref());
                sessions::describe(draft, base);
                devices::describe(draft, base);
            }
            Plugin::MagicLink => mailed::magic_link(draft, base, config),
            Plugin::EmailCode => mailed::email_code(draft, base, config),
            Plugin::EmailVerification => mailed::email_verification(draft, base),
            Plugin::PasswordReset => mailed::password_reset(draft, base),
            Plugin::TwoFactor => two_factor::describe(draft, base, config),
            Plugin::OAuth => providers::oauth(draft, base),
            Plugin::Accounts => providers::accounts(draft, base),
            Plugin::Tokens => tokens::describe(draft, base),
            Plugin::EmailChange => email_change::describe(draft, base),
            // Tenants invite too.
            Plugin::Invitations => {}
            Plugin::Passkeys => passkeys::describe(draft, base, config),
            Plugin::AccountDeletion => account_deletion::describe(draft, base),
            Plugin::AccountExport => account_export::describe(draft, base),
        }
    }
    if config.auth.guests {
        guests::describe(draft, base, config);
    }
    core::language(draft, base);
    stream_tickets::describe(draft, base);
    keys::describe(draft);
    if crate::app::parts::invites(config) {
        invitations::describe(draft, base);
    }
    if crate::app::parts::has_tenants(config) {
        tenants::describe(draft, base);
    }
    if let Some(profile) = &profile {
        profile::describe(draft, base, profile);
    }
    if config.authorization_server.enabled {
        authorization_server::describe(draft, base, config);
    }
    if config.csrf.enabled || config.browser_backend.is_some() {
        core::csrf(draft, base);
    }
}

impl Draft {
    /// An operation of authentication.
    fn auth(&self, method: HttpMethod, base: &str, path: &str, id: &str, summary: &str) -> Described {
        self.operation(method, &format!("{base}{path}"), id.to_owned(), TAG, summary)
    }
}

impl Described {
    /// Accepts a body as JSON or as a form, and returns errors in the same format.
    fn submitted(self, body: ObjectBuilder, required: bool, example: &Value) -> Self {
        self.body(submission(body, required, example)).fails(&[400, 403, 413, 415, 422, 500, 503], Page::ForForms)
    }

    /// Only for sessions of browsers.
    fn for_sessions(self, page: Page) -> Self {
        self.open_to(&[SESSION], false).fails(&[401, 403], page)
    }

    /// Counts attempts.
    fn limited(self) -> Self {
        self.fails(&[429], Page::Never)
    }
}

/// A body in any of the three forms that sign-in takes.
fn submission(body: ObjectBuilder, required: bool, example: &Value) -> RequestBody {
    let schema: Part = body.into();
    let kinds = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"];
    let required = if required { Required::True } else { Required::False };
    kinds
        .into_iter()
        .fold(RequestBodyBuilder::new().required(Some(required)), |body, kind| {
            body.content(kind, content(schema.clone(), Some(example.clone())))
        })
        .build()
}

/// 303, for forms.
fn redirect() -> ResponseBuilder {
    empty("A form is redirected to `next`, or to the next step of the sign-in.")
        .header("Location", header("A path on this origin, or a URL that `auth.redirect_urls` allows.", string()))
        .header("Set-Cookie", header("The session.", string()))
}

/// A flag that is always true.
fn done(about: &str, key: &str) -> ResponseBuilder {
    let flag = typed(Type::Boolean).enum_values(Some([true]));
    json(about, object([(key.to_owned(), flag)]), Some(serde_json::json!({ key: true })))
}

/// JSON for scripts, a page for people.
fn done_or_page(about: &str, key: &str) -> ResponseBuilder {
    done(about, key).content("text/html", content(string(), None))
}

fn page(about: &str) -> ResponseBuilder {
    textual(about, "text/html")
}

/// The schema of `user`.
fn user(draft: &mut Draft, profile: Option<&Profile>, guests: bool) {
    let email: Part = if guests { or_null(Type::String).into() } else { string().into() };
    let members: [(&str, Part); 3] = [("id", string().into()), ("email", email), ("roles", list_of(string()).into())];
    let user = object(members.map(|(name, schema)| (name.to_owned(), schema)));
    // Absent while a second factor or the proof of the mailbox is pending.
    let user = profile.iter().fold(user, |user, profile| user.property("profile", profile::shown(profile)));
    draft.components.schemas.insert("User".to_owned(), user.into());
    // Without a token while a second factor is pending, and on the surface of a browser backend.
    let signed_in = object([("user".to_owned(), named("User"))])
        .property("token", string().description(Some("A JSON web token.")))
        .property(
            "two_factor_required",
            typed(Type::Boolean).description(Some("The second factor is pending; there is no token.")),
        )
        .property(
            draft.case.spell("email_verification_required"),
            typed(Type::Boolean)
                .description(Some("A link was mailed. The account cannot sign in until the address is verified.")),
        );
    draft.components.schemas.insert("SignedIn".to_owned(), signed_in.into());
}

fn example_user() -> Value {
    serde_json::json!({ "id": super::schema::ID, "email": EMAIL, "roles": ["user"] })
}

/// The sign-in answer for scripts.
fn signed_in(config: &Config) -> ResponseBuilder {
    let mut example = serde_json::json!({ "user": example_user() });
    if config.browser_backend.is_none() {
        example["token"] = "eyJhbGciOiJIUzI1NiJ9.…".into();
    }
    json("The signed-in account; the session is in the cookie.", named("SignedIn"), Some(example))
        .header("Set-Cookie", header("The session.", string()))
}

fn email() -> ObjectBuilder {
    string().description(Some("Trimmed and lower-cased; at most 254 characters."))
}

fn next() -> ObjectBuilder {
    string().description(Some(
        "Where to redirect afterwards: a path on this origin, or a URL that `auth.redirect_urls` allows. Any other \
         value means `/`.",
    ))
}
