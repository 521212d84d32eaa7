//! Scripted providers, over real HTTP on the loopback.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_auth::presets::{Preset, Protocol, Registration};
use gatewright_auth::providers::oidc::{MicrosoftTenant, OidcConfig};
use gatewright_auth::providers::{AppleConfig, GitHubConfig, GoogleConfig, OAuthClient, PresetAccount, PresetConfig};
use gatewright_base::Secret;
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

/// The client's account at every fake provider.
pub(crate) const CLIENT_ID: &str = "client-1";
pub(crate) const CLIENT_SECRET: &str = "canary-client-secret:&=+";

/// A private key as Apple hands it out, for tests alone, and its public point in hexadecimal digits.
pub(crate) const APPLE_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
     MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWVgHvMA6mb0zZrEm\n\
     IWzNx6+WG8nKchH3X/BIbL3xA8ehRANCAAQ5fyYzq5JGSjqv8XGJYFbPk7MHGscz\n\
     6VLpShiVfosv8n5jeUi2gr5C8JmSKAlONe6Ta+qA8q6Cu/Z+nJSk871n\n\
     -----END PRIVATE KEY-----\n";
pub(crate) const APPLE_POINT: &str = "04397f2633ab92464a3aaff171896056cf93b3071ac733e952e94a18957e8b2ff2\
    7e637948b682be42f0999228094e35ee936bea80f2ae82bbf67e9c94a4f3bd67";

/// A provider: paths, what they answer, and what was asked.
#[derive(Clone)]
pub(crate) struct FakeProvider {
    pub(crate) url: Url,
    state: Arc<Mutex<Script>>,
    _server: Arc<Server>,
}

#[derive(Default)]
struct Script {
    answers: HashMap<String, (u16, Body)>,
    /// Additional headers of every answer of a path.
    headers: HashMap<String, (&'static str, &'static str)>,
    asked: Vec<Asked>,
}

/// A body, or a redirect.
#[derive(Clone)]
enum Body {
    Json(Value),
    Text(String),
    Redirect(String),
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) authorization: String,
    pub(crate) accept: String,
    pub(crate) user_agent: String,
    pub(crate) form: HashMap<String, String>,
}

/// Ends with the last handle.
struct Server(tokio::task::JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl FakeProvider {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let state = Arc::new(Mutex::new(Script::default()));
        let router = Router::new().fallback(answer).with_state(state.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, state, _server: Arc::new(Server(server)) }
    }

    /// Has `path` answer 200 with `body`.
    pub(crate) fn says(&self, path: &str, body: Value) {
        self.says_with(200, path, body);
    }

    pub(crate) fn says_with(&self, status: u16, path: &str, body: Value) {
        self.state.lock().answers.insert(path.to_owned(), (status, Body::Json(body)));
    }

    /// Adds a header to the answers of `path`.
    pub(crate) fn adds(&self, path: &str, name: &'static str, value: &'static str) {
        self.state.lock().headers.insert(path.to_owned(), (name, value));
    }

    pub(crate) fn says_text(&self, path: &str, body: impl Into<String>) {
        self.state.lock().answers.insert(path.to_owned(), (200, Body::Text(body.into())));
    }

    pub(crate) fn redirects(&self, path: &str, to: &str) {
        self.state.lock().answers.insert(path.to_owned(), (302, Body::Redirect(to.to_owned())));
    }

    /// The requests to `path` so far.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        self.state.lock().asked.iter().filter(|asked| asked.path == path).cloned().collect()
    }

    pub(crate) fn at(&self, path: &str) -> Url {
        self.url.join(path).unwrap()
    }

    /// Its issuer, as its discovery document spells it.
    pub(crate) fn issuer(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// Google's addresses, here.
    pub(crate) fn google(&self) -> GoogleConfig {
        let mut config = GoogleConfig::new(client());
        config.authorize_url = Some(self.at("/o/oauth2/v2/auth"));
        config.token_url = Some(self.at("/token"));
        config.userinfo_url = Some(self.at("/v1/userinfo"));
        config
    }

    /// GitHub's addresses, here.
    pub(crate) fn github(&self) -> GitHubConfig {
        let mut config = GitHubConfig::new(client());
        config.authorize_url = Some(self.at("/login/oauth/authorize"));
        config.token_url = Some(self.at("/login/oauth/access_token"));
        config.userinfo_url = Some(self.at("/user"));
        config.emails_url = Some(self.at("/user/emails"));
        config
    }

    /// An issuer with these keys, here.
    pub(crate) fn oidc(&self, name: &str, keys: &[&SigningKey]) -> OidcConfig {
        let at = |path: &str| self.at(path).to_string();
        self.says(
            "/.well-known/openid-configuration",
            json!({
                "issuer": self.issuer(),
                "authorization_endpoint": at("/auth"),
                "token_endpoint": at("/token"),
                "jwks_uri": at("/jwks"),
                "userinfo_endpoint": at("/me"),
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            }),
        );
        self.publishes(keys);
        OidcConfig::new(name, self.issuer(), client())
    }

    /// A provider with a preset, with its addresses here. An OpenID Connect one publishes these keys.
    pub(crate) fn preset(&self, name: &str, keys: &[&SigningKey]) -> PresetConfig {
        let preset = Preset::find(name).unwrap();
        let account = match preset.registration {
            Registration::Secret => PresetAccount::Secret(client()),
            Registration::Microsoft => PresetAccount::Microsoft(client(), MicrosoftTenant::Common),
            Registration::Apple => PresetAccount::Apple(AppleConfig {
                client_id: CLIENT_ID.to_owned(),
                team_id: "TEAM012345".to_owned(),
                key_id: "KEY0123456".to_owned(),
                private_key: Secret::new(APPLE_KEY),
            }),
        };
        let mut config = PresetConfig::new(preset, account);
        match preset.protocol {
            Protocol::OAuth2 { .. } => {
                config.authorize_url = Some(self.at("/authorize"));
                config.token_url = Some(self.at("/token"));
                config.userinfo_url = Some(self.at("/me"));
            }
            Protocol::OpenId { .. } => {
                self.oidc(name, keys);
                config.issuer = Some(self.issuer());
            }
        }
        config
    }

    /// Publishes the metadata that Microsoft has for `tenant`.
    pub(crate) fn publishes_tenant(&self, tenant: &str, issuer: &str) {
        let at = |path: &str| self.at(path).to_string();
        self.says(
            &format!("/{tenant}/v2.0/.well-known/openid-configuration"),
            json!({
                "issuer": issuer, "authorization_endpoint": at("/auth"), "token_endpoint": at("/token"),
                "jwks_uri": at("/jwks"), "userinfo_endpoint": at("/me"),
                "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt", "client_secret_basic"],
                "response_modes_supported": ["query", "fragment", "form_post"],
            }),
        );
    }

    pub(crate) fn publishes(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.says("/jwks", json!({ "keys": keys }));
    }

    /// Has the token endpoint give this `id_token`.
    pub(crate) fn gives(&self, id_token: &str) {
        let tokens = json!({
            "access_token": "canary-access", "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": "canary-refresh", "scope": "openid email profile", "id_token": id_token,
        });
        self.says("/token", tokens);
    }
}

fn client() -> OAuthClient {
    OAuthClient { id: CLIENT_ID.to_owned(), secret: Secret::new(CLIENT_SECRET) }
}

async fn answer(State(state): State<Arc<Mutex<Script>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let header = |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let path = parts.uri.path().to_owned();
    let mut state = state.lock();
    state.asked.push(Asked {
        path: path.clone(),
        authorization: header("authorization"),
        accept: header("accept"),
        user_agent: header("user-agent"),
        form: url::form_urlencoded::parse(&body).into_owned().collect(),
    });
    let header = state.headers.get(&path).copied();
    let mut answer = match state.answers.get(&path).cloned() {
        None => StatusCode::NOT_FOUND.into_response(),
        Some((status, body)) => {
            let status = StatusCode::from_u16(status).unwrap();
            match body {
                Body::Json(value) => {
                    (status, [("content-type", "application/json")], value.to_string()).into_response()
                }
                Body::Text(text) => (status, text).into_response(),
                Body::Redirect(to) => (status, [("location", to)]).into_response(),
            }
        }
    };
    if let Some((name, value)) = header {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// An issuer's key.
pub(crate) struct SigningKey {
    pub(crate) id: String,
    kind: Kind,
}

enum Kind {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl SigningKey {
    pub(crate) fn rsa(id: &str) -> Self {
        Self { id: id.to_owned(), kind: Kind::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()) }
    }

    pub(crate) fn ec(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { id: id.to_owned(), kind: Kind::Ec(pair) }
    }

    pub(crate) fn alg(&self) -> &'static str {
        match self.kind {
            Kind::Rsa(_) => "RS256",
            Kind::Ec(_) => "ES256",
        }
    }

    /// The public half.
    pub(crate) fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.kind {
            Kind::Rsa(pair) => {
                // An RSAPublicKey (RFC 8017, A.1.1) of 2048 bits: two lengths, a zero and the modulus; then 65537.
                let der = pair.public_key().as_ref();
                json!({ "kty": "RSA", "n": text(&der[9..265]), "e": text(&der[der.len() - 3..]) })
            }
            Kind::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..]) })
            }
        };
        jwk["kid"] = json!(self.id);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.alg());
        jwk
    }

    /// The public half as bytes, which a forger has too.
    pub(crate) fn public_der(&self) -> Vec<u8> {
        match &self.kind {
            Kind::Rsa(pair) => pair.public_key().as_der().map(|der| der.as_ref().to_vec()).unwrap(),
            Kind::Ec(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// A token with the usual header.
    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({ "alg": self.alg(), "kid": self.id, "typ": "JWT" }), claims)
    }

    /// A token with any header.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = signed_part(header, claims);
        let signature = match &self.kind {
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            Kind::Ec(pair) => pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The first two parts of a token.
pub(crate) fn signed_part(header: &Value, claims: &Value) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}
