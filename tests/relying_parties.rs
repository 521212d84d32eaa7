//! Independent relying parties of the OpenID Provider: four libraries sign a user in.

use openidconnect::core::{CoreClient, CoreProviderMetadata, CoreResponseType, CoreUserInfoClaims};
use openidconnect::{
    AuthenticationFlow, AuthorizationCode, ClientId, ClientSecret, CsrfToken, HttpRequest, HttpResponse, IssuerUrl,
    Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, RedirectUrl, Scope, TokenResponse as _,
};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::client::node;
use crate::connections::hidden;
use crate::harness::{Answer, Client, Database, Launch, PASSWORD, Server, gatewright, node_tools, python_tools, run};

const ADA: &str = "ada@example.com";
const REDIRECT: &str = "http://127.0.0.1:9/callback";

const CONFIGURATION: &str = "[authorization_server]\nenabled = true\nopenid = true\n";

struct Party {
    server: Server,
    id: String,
    secret: String,
}

/// A server, and a client whose tokens are signed with `algorithm`.
async fn party(database: &Database, algorithm: &str) -> Party {
    let server = Launch::configured(CONFIGURATION).start(database).await;
    server.client().register(ADA).await.is(200);
    let url = database.url();
    let words = ["client", "create", "Wiki", "--redirect-uri", REDIRECT, "--post-logout-redirect-uri"];
    let more = ["http://127.0.0.1:9/bye", "--id-token-algorithm", algorithm, "--json", "--database", &url];
    let made = gatewright(server.folder(), &[&words[..], &more].concat(), "");
    let client: Value = serde_json::from_str(&made.out).unwrap_or_else(|_| panic!("{}", made.err));
    let text = |name: &str| client[name].as_str().unwrap().to_owned();
    assert_eq!(client["id_token_signed_response_alg"], algorithm);
    Party { id: text("client_id"), secret: text("client_secret"), server }
}

impl Party {
    fn words(&self) -> [String; 5] {
        let base = format!("http://{}", self.server.address());
        [base, ADA.to_owned(), PASSWORD.to_owned(), self.id.clone(), self.secret.clone()]
    }
}

fn tool(name: &str) -> String {
    format!("{}/tools/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[tokio::test(flavor = "multi_thread")]
async fn openid_client_and_oauth4webapi_sign_in_refresh_sign_out_and_connect_a_device() {
    if node_tools().is_none() {
        return;
    }
    for database in [Some(Database::Sqlite), Database::postgres().await].into_iter().flatten() {
        let party = party(&database, "ES256").await;
        let report = run(node(), &[&[tool("openid-client.mjs")][..], &party.words()].concat()).await;
        let report: Value = serde_json::from_str(&report).unwrap();
        let expected = json!({
            "claims": [ADA, true, "number", 36], "userinfo": [true, ADA], "same": true, "refreshed": true,
            "ended": "http://127.0.0.1:9/bye?state=s", "silent": "login_required", "pending": "authorization_pending",
            "allowed": 200, "device": [ADA, true, false], "shown": ADA,
        });
        assert_eq!(report, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authlib_signs_in() {
    let Some(python) = python_tools() else { return };
    for algorithm in ["ES256", "RS256"] {
        let party = party(&Database::Sqlite, algorithm).await;
        let report = run(python.join("python"), &[&[tool("openid_client.py")][..], &party.words()].concat()).await;
        let report: Value = serde_json::from_str(&report).unwrap();
        let expected = json!({
            "state": true, "issuer": true, "alg": algorithm, "sub": true, "email": [ADA, ADA], "refreshed": true,
        });
        assert_eq!(report, expected);
    }
}

/// The requests of the library, by another HTTP client.
async fn send(request: HttpRequest) -> Result<HttpResponse, reqwest::Error> {
    let (parts, body) = request.into_parts();
    let url = parts.uri.to_string();
    let answer = reqwest::Client::new().request(parts.method, url).headers(parts.headers).body(body).send().await?;
    let mut response = openidconnect::http::Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    Ok(response.body(answer.bytes().await?.to_vec()).unwrap())
}

/// Where the browser of `user`, who allows it, takes the answer to this request.
async fn allowed(user: &Client, url: Url) -> Url {
    let page = Answer::read(user.request_at(Method::GET, url)).await.is(200).text;
    let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
    let pairs = [("request", &*request), ("seal", &*seal), ("decision", "allow")];
    let answer = Answer::read(user.request(Method::POST, "/auth/oauth2/authorize").form(&pairs)).await.is(303);
    answer.header("location").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crate_openidconnect_signs_in() {
    for algorithm in ["ES256", "RS256"] {
        let party = party(&Database::Sqlite, algorithm).await;
        let base = format!("http://{}", party.server.address());
        let issuer = IssuerUrl::new(base.clone()).unwrap();
        let metadata = CoreProviderMetadata::discover_async(issuer, &send).await.unwrap();
        let redirect = RedirectUrl::new(REDIRECT.to_owned()).unwrap();
        let (id, secret) = (ClientId::new(party.id.clone()), ClientSecret::new(party.secret.clone()));
        let client = CoreClient::from_provider_metadata(metadata, id, Some(secret)).set_redirect_uri(redirect);
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let (url, state, nonce) = client
            .authorize_url(flow, CsrfToken::new_random, Nonce::new_random)
            .add_scope(Scope::new("email".to_owned()))
            .set_pkce_challenge(challenge)
            .url();
        let user = party.server.client();
        user.log_in(ADA).await.is(200);
        let answer = allowed(&user, url).await;
        let parameter = |name: &str| answer.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned();
        assert_eq!(&parameter("state"), state.secret());
        let code = AuthorizationCode::new(parameter("code"));
        let tokens =
            client.exchange_code(code).unwrap().set_pkce_verifier(verifier).request_async(&send).await.unwrap();
        let token = tokens.id_token().expect("an id_token");
        let claims = token.claims(&client.id_token_verifier(), &nonce).expect("it is valid");
        assert_eq!(claims.email().map(|email| email.as_str()), Some(ADA));
        let subject = Some(claims.subject().clone());
        let info: CoreUserInfoClaims =
            client.user_info(tokens.access_token().clone(), subject).unwrap().request_async(&send).await.unwrap();
        assert_eq!(info.email().map(|email| email.as_str()), Some(ADA));
        let refreshed = client.exchange_refresh_token(tokens.refresh_token().unwrap()).unwrap();
        refreshed.request_async(&send).await.unwrap();
    }
}
