use serde_json::json as value;
use utoipa::openapi::Required;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};

use super::{TAG, page};
use crate::Config;
use crate::openapi::Draft;
use crate::openapi::names::{Page, SESSION};
use crate::openapi::words::{
    Described, content, empty, header, integer, json, json_body, list_of, object, query, string, textual, typed,
};

/// The OAuth 2.1 authorization server. Its messages are those of the RFCs, whose errors are not problems.
pub(super) fn describe(draft: &mut Draft, base: &str, config: &Config) {
    let ask = draft
        .auth(HttpMethod::Get, base, "/oauth2/authorize", "oauth2Authorize", "Ask the user for consent (RFC 6749)")
        .about("For a browser. PKCE with S256 is required. `resource` is the public URL or that of `/mcp`.")
        .parameter(query("response_type", "`code`.", string()))
        .parameter(query("client_id", "A registered client, or the URL of its metadata document.", string()))
        .parameter(query("redirect_uri", "One of the client's redirect URIs.", string()))
        .parameter(query("scope", "Scopes, separated by spaces.", string()))
        .parameter(query("state", "Returned unchanged in the redirect.", string()))
        .parameter(query("code_challenge", "The S256 challenge (RFC 7636).", string()))
        .parameter(query("code_challenge_method", "`S256`.", string()))
        .parameter(query("resource", "The resource that the token is for (RFC 8707).", string()))
        .parameter(query("tenant", "The tenant to act in, if the scopes include data of tenants.", string()))
        .parameter(query(
            "prompt",
            "`consent`: always ask the user. With OpenID Connect also `none`, `login` and `select_account`.",
            string(),
        ))
        .open_to(&[SESSION], true)
        .answers(200, page("The consent page."))
        .answers(303, to_client())
        .fails(&[400, 401, 403], Page::ForForms);
    let ask = if config.authorization_server.openid {
        ask.parameter(query("nonce", "Repeated in the `id_token`.", string()))
            .parameter(query("max_age", "The longest time since the sign-in, in seconds.", integer()))
            .parameter(query("login_hint", "The address of the user, for the sign-in page.", string()))
    } else {
        ask
    };
    let consent = object([("decision".to_owned(), string())])
        .property("request", string().description(Some("From the page.")))
        .property("seal", string().description(Some("From the page.")))
        .property("tenant", string().description(Some("One of the tenants that the page offers.")));
    let decide = draft
        .auth(HttpMethod::Post, base, "/oauth2/authorize", "oauth2Consent", "Submit the consent page")
        .body(form(consent))
        .open_to(&[SESSION], false)
        .answers(200, page("The user refused, and the client may not get the answer without a click."))
        .answers(303, to_client())
        .fails(&[400, 401, 403, 409, 413], Page::ForForms);
    let tokens = object([("access_token".to_owned(), string())])
        .property("token_type", string())
        .property("expires_in", integer())
        .property("refresh_token", string())
        .property("id_token", string().description(Some("With the scope `openid`.")))
        .property("scope", string())
        .property("tenant", string().description(Some("The only tenant that the token is valid for.")));
    let request = object([("grant_type".to_owned(), string())])
        .property("code", string())
        .property("redirect_uri", string())
        .property("code_verifier", string())
        .property("refresh_token", string())
        .property("device_code", string())
        .property("client_id", string())
        .property("client_secret", string())
        .property("scope", string())
        .property("resource", string());
    let example = value!({
        "access_token": format!("svc_{}", "0123456789".repeat(4)), "token_type": "Bearer", "expires_in": 3600,
        "refresh_token": "gwr_…", "scope": "posts:read",
    });
    let token = programs(draft, base, "/oauth2/token", "oauth2Token", "Get tokens (RFC 6749)", form(request))
        .answers(200, json("Tokens.", tokens, Some(example)));
    let named = || object([("token".to_owned(), string())]).property("client_id", string());
    let revoke = programs(
        draft,
        base,
        "/oauth2/revoke",
        "oauth2Revoke",
        "End the connection of a token (RFC 7009)",
        form(named()),
    )
    .answers(200, empty("The token and all others of its connection are no longer valid."));
    let about = object([("active".to_owned(), typed(Type::Boolean))]);
    let introspect = programs(
        draft,
        base,
        "/oauth2/introspect",
        "oauth2Introspect",
        "Describe one of the client's own tokens (RFC 7662)",
        form(named()),
    )
    .answers(200, json("The description of the token.", about, None));
    for described in [ask, decide, token, revoke, introspect, device(draft, base)] {
        draft.add(described);
    }
    if config.authorization_server.dynamic_registration {
        let metadata = object([("redirect_uris".to_owned(), list_of(string()))]).property("client_name", string());
        let client = object([("client_id".to_owned(), string())]).property("client_secret", string());
        let body = json_body(metadata, None);
        let register =
            programs(draft, base, "/oauth2/register", "oauth2Register", "Register a client (RFC 7591)", body)
                .answers(201, json("The client.", client, None))
                .fails(&[403, 429], Page::Never);
        draft.add(register);
    }
    if config.authorization_server.openid {
        openid(draft, base);
    }
    documents(draft);
}

/// The metadata.
fn documents(draft: &mut Draft) {
    for (path, id, summary) in [
        ("/.well-known/oauth-authorization-server", "oauth2Server", "Metadata of the authorization server (RFC 8414)"),
        ("/.well-known/oauth-protected-resource", "oauth2Resource", "Metadata of the API as a resource (RFC 9728)"),
        (
            "/.well-known/oauth-protected-resource/mcp",
            "oauth2McpResource",
            "Metadata of the tools as a resource (RFC 9728)",
        ),
    ] {
        let described = draft.operation(HttpMethod::Get, path, id.to_owned(), TAG, summary);
        draft.add(described.answers(200, json("The metadata.", typed(Type::Object), None)));
    }
}

/// What OpenID Connect adds.
fn openid(draft: &mut Draft, base: &str) {
    let path = "/oauth2/userinfo";
    let claims = || {
        let claims = object([("sub".to_owned(), string())]).property("email", string());
        json("The claims about the user.", claims.property("email_verified", typed(Type::Boolean)), None)
    };
    let refusal = |about: &str| json(about, object([("error".to_owned(), string())]), None);
    for (method, id) in [(HttpMethod::Get, "oauth2Userinfo"), (HttpMethod::Post, "oauth2PostUserinfo")] {
        let described = draft
            .auth(method, base, path, id, "Describe the user of an access token (OpenID Connect)")
            .about(
                "The access token is in the header `Authorization: Bearer`, or in the field `access_token` of a form.",
            )
            .answers(200, claims())
            .answers(400, refusal("Several tokens."))
            .answers(401, refusal("No valid access token of a program."))
            .answers(403, refusal("The token has no scope `openid`."))
            .fails(&[413], Page::Never);
        draft.add(described);
    }
    let path = "/oauth2/end_session";
    let summary = "Sign the user out for a program (OpenID Connect)";
    let ask = draft
        .auth(HttpMethod::Get, base, path, "oauth2EndSession", summary)
        .about("For a browser. With the `id_token` of this session as `id_token_hint`, the user is not asked.")
        .parameter(query("id_token_hint", "An `id_token` of this server, expired or not.", string()))
        .parameter(query("client_id", "The client, without `id_token_hint`.", string()))
        .parameter(query("post_logout_redirect_uri", "An address that the client has registered.", string()))
        .parameter(query("state", "Returned unchanged in the redirect.", string()))
        .answers(200, page("The page that asks, or says that the user is signed out."))
        .answers(303, to_client())
        .fails(&[400], Page::ForForms);
    let form_of_page = object([("decision".to_owned(), string())])
        .property("request", string().description(Some("From the page.")))
        .property("seal", string().description(Some("From the page.")));
    let decide = draft
        .auth(HttpMethod::Post, base, path, "oauth2PostEndSession", "Submit the page, or the parameters of the GET")
        .body(form(form_of_page))
        .answers(200, page("The page that says whether the user is signed out."))
        .answers(303, to_client())
        .fails(&[400, 403, 413], Page::ForForms);
    for described in [ask, decide] {
        draft.add(described);
    }
    let path = "/.well-known/openid-configuration";
    let described =
        draft.operation(HttpMethod::Get, path, "openidConfiguration".to_owned(), TAG, "Metadata of OpenID Connect");
    draft.add(described.answers(200, json("The metadata.", typed(Type::Object), None)));
}

/// The endpoint of devices.
fn device(draft: &Draft, base: &str) -> Described {
    let codes = ["device_code", "user_code", "verification_uri", "verification_uri_complete"];
    let codes = object(codes.map(|name| (name.to_owned(), string())));
    let codes = codes.property("expires_in", integer()).property("interval", integer());
    let request = object([("client_id".to_owned(), string())])
        .property("client_secret", string())
        .property("scope", string())
        .property("resource", string())
        .property("tenant", string().description(Some("The tenant to act in, if the scopes include data of tenants.")));
    let path = "/oauth2/device_authorization";
    programs(draft, base, path, "oauth2Device", "Begin the sign-in of a device (RFC 8628)", form(request))
        .answers(200, json("The codes of the device.", codes, None))
        .limited()
}

/// An endpoint that programs call: its refusals are the JSON of RFC 6749, section 5.2.
fn programs(draft: &Draft, base: &str, path: &str, id: &str, summary: &str, body: RequestBody) -> Described {
    let refusal = |about: &str| {
        let schema = object([("error".to_owned(), string())]).property("error_description", string());
        json(about, schema, Some(value!({ "error": "invalid_grant", "error_description": "…" })))
    };
    draft
        .auth(HttpMethod::Post, base, path, id, summary)
        .body(body)
        .answers(400, refusal("The request is refused."))
        .answers(401, refusal("The client is unknown or its credentials are wrong."))
        .fails(&[413], Page::Never)
}

fn form(body: ObjectBuilder) -> RequestBody {
    RequestBodyBuilder::new()
        .content("application/x-www-form-urlencoded", content(body, None))
        .required(Some(Required::True))
        .build()
}

fn to_client() -> ResponseBuilder {
    textual("The browser is redirected to the client, to the sign-in page, or to the second factor.", "text/plain")
        .header("Location", header("The redirect URI with `code` or `error`, `state` and `iss`.", string()))
}
