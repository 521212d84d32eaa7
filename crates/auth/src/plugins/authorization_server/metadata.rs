use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use gatewright_base::Scope;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL};
use serde_json::{Value, json};

use super::openid::{end_session, userinfo};
use super::server::Server;
use super::token::DEVICE_CODE;
use crate::jwt::JwtAlgorithm;
use crate::jwt::id_tokens::IdTokens;
use crate::tokens::{Resource, Resources};

/// Where the metadata of this authorization server is (RFC 8414).
const SERVER: &str = "/.well-known/oauth-authorization-server";
/// Where it is for OpenID Connect (OpenID Connect Discovery 1.0).
const OPENID: &str = "/.well-known/openid-configuration";
/// Where the metadata of the protected resources is (RFC 9728).
const RESOURCE: &str = "/.well-known/oauth-protected-resource";

/// The URL of a resource's metadata, for `WWW-Authenticate`.
pub(super) fn resource_metadata(resources: &Resources, resource: Resource) -> String {
    let path = resources.tools_path().filter(|_| resource == Resource::Mcp).unwrap_or_default();
    format!("{}{RESOURCE}{path}", resources.base())
}

/// The paths of the documents.
pub(super) fn paths(server: &Server) -> Vec<String> {
    let tools = server.resources.tools_path().map(|path| format!("{RESOURCE}{path}"));
    let openid = server.options.openid.as_ref().map(|_| OPENID.to_owned());
    [SERVER, RESOURCE].map(str::to_owned).into_iter().chain(tools).chain(openid).collect()
}

/// The documents, at the root. Any page may read them.
pub(super) fn routes(server: Server) -> Router {
    let routes = Router::new()
        .route(SERVER, get(about_server))
        .route(RESOURCE, get(async |State(server): State<Server>| about_resource(&server, Resource::Api)));
    let routes = match server.resources.tools_path() {
        Some(path) => routes.route(
            &format!("{RESOURCE}{path}"),
            get(async |State(server): State<Server>| about_resource(&server, Resource::Mcp)),
        ),
        None => routes,
    };
    let routes = if server.options.openid.is_some() { routes.route(OPENID, get(about_server)) } else { routes };
    routes.with_state(server)
}

async fn about_server(State(server): State<Server>) -> Response {
    let tools = server.resources.tools_path().map(|_| server.resources.url(Resource::Mcp));
    let resources: Vec<&str> = [server.resources.url(Resource::Api)].into_iter().chain(tools).collect();
    let secrets = json!(["client_secret_basic", "client_secret_post"]);
    let mut document = json!({
        "issuer": server.resources.base(),
        "authorization_endpoint": server.url("/oauth2/authorize"),
        "token_endpoint": server.url("/oauth2/token"),
        "revocation_endpoint": server.url("/oauth2/revoke"),
        "introspection_endpoint": server.url("/oauth2/introspect"),
        "scopes_supported": scopes(&server),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "introspection_endpoint_auth_methods_supported": secrets,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": server.options.client_documents,
        "protected_resources": resources,
    });
    if server.core.screens.get().is_some() {
        document["device_authorization_endpoint"] = server.url("/oauth2/device_authorization").into();
        if let Some(grants) = document["grant_types_supported"].as_array_mut() {
            grants.push(DEVICE_CODE.into());
        }
    }
    if server.options.openid.is_some() {
        add_openid(&server, &mut document);
    }
    if server.options.dynamic_registration {
        document["registration_endpoint"] = server.url("/oauth2/register").into();
    }
    public(&document)
}

/// What OpenID Connect adds.
fn add_openid(server: &Server, document: &mut Value) {
    let algorithms = IdTokens::ALGORITHMS.map(JwtAlgorithm::as_str);
    let scopes: Vec<String> = userinfo::scopes().chain(scopes(server)).map(str::to_owned).collect();
    let more = json!({
        "jwks_uri": format!("{}/.well-known/jwks.json", server.resources.base()),
        "userinfo_endpoint": server.url("/oauth2/userinfo"),
        "end_session_endpoint": server.url(end_session::PATH),
        "scopes_supported": scopes,
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
        "claims_supported": userinfo::names(server),
        "claim_types_supported": ["normal"],
        "prompt_values_supported": ["none", "login", "consent", "select_account"],
        "acr_values_supported": ["aal1", "aal2"],
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
        "require_request_uri_registration": false,
        "backchannel_logout_supported": true,
        "backchannel_logout_session_supported": true,
    });
    if let (Value::Object(document), Value::Object(more)) = (document, more) {
        document.extend(more);
    }
}

fn about_resource(server: &Server, resource: Resource) -> Response {
    public(&json!({
        "resource": server.resources.url(resource),
        "authorization_servers": [server.resources.base()],
        "scopes_supported": scopes(server),
        "bearer_methods_supported": ["header"],
        "resource_name": match resource {
            Resource::Api => "API",
            Resource::Mcp => "Tools (MCP)",
        },
    }))
}

fn scopes(server: &Server) -> Vec<&str> {
    server.supported().iter().map(Scope::as_str).collect()
}

fn public(document: &Value) -> Response {
    let headers = [(CACHE_CONTROL, "public, max-age=300"), (ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
    (headers, Json(document)).into_response()
}
