use gatewright_base::{Scopes, Secret, TenantId};

use super::client::Client;
use super::error::{Code, OAuthError};
use super::openid::login::LoginWishes;
use super::parameters::Parameters;
use super::redirect::RedirectUri;
use super::scopes::SupportedScopes;
use super::secret::is_challenge;
use super::trust::ErrorAnswer;
use crate::tokens::{Resource, Resources};

/// A request of the authorization endpoint, checked (RFC 6749, section 4.1.1; RFC 7636; RFC 8707).
#[derive(Debug, Clone)]
pub(super) struct AuthorizationRequest {
    pub(super) client: Client,
    pub(super) redirect: RedirectUri,
    /// Whether the request named the redirect URI, so that the token request must, too.
    pub(super) redirect_named: bool,
    pub(super) scopes: Scopes,
    pub(super) resource: Resource,
    pub(super) challenge: String,
    pub(super) state: Option<String>,
    /// The tenant that the client wants to act in.
    pub(super) tenant: Option<TenantId>,
    /// How the client wants the user to be signed in and asked.
    pub(super) login: LoginWishes,
}

/// The longest `state`, in bytes: it comes back in the address of a redirect.
const MAX_STATE: usize = 1_024;

/// Why an authorization request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no valid redirect URI, so the user gets an error page.
    Page(&'static str),
    /// The error is for the client.
    Client(ErrorAnswer),
}

impl AuthorizationRequest {
    /// Checks a request of `client`. Nothing is sent to an address that is not the client's.
    pub(super) fn check(
        parameters: &Parameters,
        client: Client,
        supported: &SupportedScopes,
        resources: &Resources,
    ) -> Result<Self, Refusal> {
        let asked = parameters.get("redirect_uri");
        let Some(redirect) = client.redirect(asked) else {
            return Err(Refusal::Page("The redirect URI of this request is not registered for the application."));
        };
        let state = parameters.get("state");
        let wrong = |error: OAuthError| {
            let state = state.filter(|state| state.len() <= MAX_STATE);
            Refusal::Client(error_answer(&redirect, resources, state, error))
        };
        if state.is_some_and(|state| state.len() > MAX_STATE) {
            return Err(wrong(OAuthError::invalid_request("state has at most 1024 bytes")));
        }
        match parameters.get("response_type") {
            Some("code") => {}
            Some(_) => {
                let only = OAuthError::new(Code::UnsupportedResponseType, "the response type is code");
                return Err(wrong(only));
            }
            None => return Err(wrong(OAuthError::invalid_request("response_type is missing"))),
        }
        if matches!(client.kind, super::client::ClientKind::Service { .. }) {
            let only = OAuthError::new(Code::UnauthorizedClient, "this client acts for itself, by client_credentials");
            return Err(wrong(only));
        }
        let challenge = parameters.get("code_challenge");
        let method = parameters.get("code_challenge_method");
        let challenge = match (challenge, method) {
            (Some(challenge), Some("S256")) if is_challenge(challenge) => challenge.to_owned(),
            (None, _) => return Err(wrong(OAuthError::invalid_request("code_challenge is missing: PKCE is required"))),
            (Some(_), Some("S256")) => {
                return Err(wrong(OAuthError::invalid_request("code_challenge is the base64url text of 32 bytes")));
            }
            (Some(_), _) => return Err(wrong(OAuthError::invalid_request("code_challenge_method must be S256"))),
        };
        let resource = target(parameters, resources).map_err(wrong)?;
        let scopes = supported.parse(parameters.get("scope"), client.scopes.as_ref()).map_err(wrong)?;
        let tenant = parameters.get("tenant").map(TenantId::parse).transpose();
        let tenant = tenant.map_err(|_| wrong(OAuthError::invalid_request("tenant is the identifier of a tenant")))?;
        let login = LoginWishes::read(parameters, supported.has_identity()).map_err(wrong)?;
        Ok(Self {
            redirect_named: asked.is_some(),
            state: state.map(str::to_owned),
            redirect,
            scopes,
            resource,
            challenge,
            tenant,
            login,
            client,
        })
    }

    /// The address that takes a code to the client.
    pub(super) fn with_code(&self, resources: &Resources, code: &Secret) -> String {
        answer(&self.redirect, resources, self.state.as_deref(), &[("code", code.expose())])
    }

    /// The answer for the client that its user refused.
    pub(super) fn refused(&self, resources: &Resources) -> ErrorAnswer {
        self.failed(resources, OAuthError::new(Code::AccessDenied, "the user refused"))
    }

    /// The answer for the client that its request cannot be done.
    pub(super) fn failed(&self, resources: &Resources, error: OAuthError) -> ErrorAnswer {
        error_answer(&self.redirect, resources, self.state.as_deref(), error)
    }
}

/// The resource of a request. Without one it is the API; it never is the tool surface.
pub(super) fn target(parameters: &Parameters, resources: &Resources) -> Result<Resource, OAuthError> {
    match parameters.get("resource") {
        None => Ok(Resource::Api),
        Some(url) => resources.parse(url).ok_or_else(|| {
            OAuthError::new(Code::InvalidTarget, "unknown resource; see the protected resource metadata")
        }),
    }
}

fn error_answer(redirect: &RedirectUri, resources: &Resources, state: Option<&str>, error: OAuthError) -> ErrorAnswer {
    let pairs = [("error", error.code.name()), ("error_description", error.description)];
    ErrorAnswer::new(answer(redirect, resources, state, &pairs), error)
}

/// A redirect URI with an answer in its query: `pairs`, the client's state, and the issuer (RFC 9207).
fn answer(redirect: &RedirectUri, resources: &Resources, state: Option<&str>, pairs: &[(&str, &str)]) -> String {
    let state = state.map(|state| ("state", state));
    redirect.with(pairs.iter().copied().chain(state).chain([("iss", resources.base())]))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::client::{ClientKind, Source};
    use super::super::openid::relying::Relying;
    use super::*;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn check(query: &str) -> Result<AuthorizationRequest, Refusal> {
        let client = Client {
            id: "c".to_owned(),
            name: "Client".to_owned(),
            kind: ClientKind::Public,
            source: Source::Operator,
            redirects: vec![RedirectUri::parse("https://app.example.com/cb").unwrap()],
            scopes: None,
            identity: Relying::default(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let supported = SupportedScopes::new().with("posts:read".parse().unwrap(), "read posts");
        let resources = Resources::new(&"https://api.example.com".parse().unwrap(), Some("/mcp"));
        AuthorizationRequest::check(&Parameters::parse(query.as_bytes()).unwrap(), client, &supported, &resources)
    }

    fn good() -> String {
        format!("response_type=code&code_challenge={CHALLENGE}&code_challenge_method=S256&state=s")
    }

    #[test]
    fn a_request_with_an_unknown_redirect_uri_shows_its_error_only_to_the_user() {
        for uri in ["https://evil.example/cb", "https://app.example.com/cb/x", "javascript:alert(1)", "cb"] {
            let refused = check(&format!("{}&redirect_uri={uri}", good()));
            assert!(matches!(refused, Err(Refusal::Page(_))), "{uri}");
        }
        assert!(check(&good()).is_ok(), "the only one may be left out");
    }

    #[test]
    fn every_other_fault_is_for_the_client_with_state_and_issuer() {
        for (query, code) in [
            (good().replace("response_type=code&", ""), "invalid_request"),
            (good().replace("type=code", "type=token"), "unsupported_response_type"),
            (good().replace("S256", "plain"), "invalid_request"),
            (good().replace("&code_challenge_method=S256", ""), "invalid_request"),
            (good().replace(CHALLENGE, ""), "invalid_request"),
            (good().replace(CHALLENGE, "short"), "invalid_request"),
            (format!("{}&scope=posts:write", good()), "invalid_scope"),
            (format!("{}&resource=https://evil.example", good()), "invalid_target"),
            (format!("{}&tenant=a%20b", good()), "invalid_request"),
        ] {
            let Err(Refusal::Client(answer)) = check(&query) else { panic!("{query}") };
            assert_eq!(answer.error.code.name(), code, "{query}");
            let to = answer.link();
            assert!(to.starts_with("https://app.example.com/cb?error="), "{to}");
            assert!(to.ends_with("&state=s&iss=https%3A%2F%2Fapi.example.com"), "{to}");
        }
    }

    #[test]
    fn a_duplicate_parameter_is_refused() {
        assert!(Parameters::parse(b"scope=a&scope=b").is_err());
        assert!(Parameters::parse(b"resource=a&resource=b").is_err());
    }
}
