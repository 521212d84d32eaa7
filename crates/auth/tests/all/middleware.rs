use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use gatewright_auth::schemes::{Authenticated, Offer, Outcome, Scheme, SchemeUnavailable, bearer};
use gatewright_base::{Credential, Grant, Identity, Principal, Scopes, Subject, TenantLimit, TokenId, UserId};
use http::HeaderMap;
use serde_json::json;

use crate::support::{ANN, Call, Sessions, Site, Users, config, databases};

/// Stands in for API tokens: `svc_good` is somebody's, everything else of the kind fails and wipes.
struct Tokens;

#[async_trait]
impl Scheme for Tokens {
    fn name(&self) -> &'static str {
        "tokens"
    }
    fn is_requested(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| token.starts_with("svc_"))
    }
    async fn authenticate(&self, offer: &Offer<'_>) -> Result<Outcome, SchemeUnavailable> {
        Ok(match bearer(offer.headers) {
            Some("svc_good") => Outcome::Authenticated(Authenticated::new(known(Credential::ApiToken {
                id: TokenId::parse("t1").unwrap(),
                scopes: Scopes::default(),
                expires_at: None,
                tenants: TenantLimit::default(),
            }))),
            Some("svc_outage") => return Err(SchemeUnavailable::new("canary-token-table")),
            _ => Outcome::Failed,
        })
    }
    fn failure_wipes(&self) -> bool {
        true
    }
}

fn known(credential: Credential) -> Identity {
    let roles = ["somebody"].into_iter().collect();
    let subject = Subject::User(UserId::parse("host-user").unwrap());
    Identity::Known(Arc::new(Principal { subject, email: None, roles, credential }))
}

async fn site(db: &gatewright_db::testing::TestDb) -> Site {
    let site = Site::with(config(), |builder| builder.database(db.db.clone()).scheme(Arc::new(Tokens))).await;
    site.register_ann().await;
    site
}

#[tokio::test]
async fn schemes_run_in_order_and_give_one_identity() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (cookie, jwt) = (session.cookie().unwrap(), session.token());
        let cases: [(Option<&str>, Option<&str>, &str); 13] = [
            (None, None, "anonymous"),
            (Some(&cookie), None, "Session"),
            (None, Some(&jwt), "Jwt"),
            (None, Some("svc_good"), "ApiToken"),
            // Credentials that the caller sets take precedence over those that the browser adds.
            (Some(&cookie), Some(&jwt), "Jwt"),
            (Some(&cookie), Some("svc_good"), "ApiToken"),
            // A failed JWT is ignored; a failed API token makes the caller anonymous.
            (Some(&cookie), Some("not.a.jwt"), "Session"),
            (Some(&cookie), Some("svc_bad"), "anonymous"),
            (None, Some("svc_bad"), "anonymous"),
            (None, Some("svc_"), "anonymous"),
            (None, Some("not.a.jwt"), "anonymous"),
            (Some("__Host-session=garbage"), Some("svc_good"), "ApiToken"),
            (Some("__Host-session=garbage"), Some(&jwt), "Jwt"),
        ];
        for (cookie, token, expected) in cases {
            let mut call = Call::get("/whoami");
            if let Some(cookie) = cookie {
                call = call.cookie(cookie);
            }
            if let Some(token) = token {
                call = call.bearer(token);
            }
            let who = call.send(&site).await.expect(200).json();
            let kind = who.as_str().or(who["credential"].as_str()).unwrap();
            assert_eq!(kind, expected, "{cookie:?} {token:?}");
        }
    }
}

/// A request that carries a cookie and a bearer is one caller, not two.
#[tokio::test]
async fn a_bearer_token_beside_a_cookie_hides_the_session() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for token in [session.token().as_str(), "svc_good", "svc_bad"] {
            for path in ["/session", "/any", "/pending"] {
                Call::get(path).cookie_of(&session).bearer(token).send(&site).await.expect(401);
            }
        }
        Call::get("/auth/me").cookie_of(&session).bearer("svc_good").send(&site).await.expect(401);
        Call::get("/auth/me").cookie_of(&session).bearer("svc_bad").send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn a_scheme_that_fails_is_503() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let answer = Call::get("/whoami").cookie_of(&session).bearer("svc_outage").send(&site).await.expect(503);
        assert!(answer.headers.contains_key("retry-after") && !answer.body.contains("canary"));
    }
}

#[tokio::test]
async fn foreign_expired_and_revoked_jwts_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let jwt = site.login_ann().await.token();
        let who = async |token: &str| Call::get("/whoami").bearer(token).send(&site).await.expect(200).json();
        assert_eq!(who(&jwt).await["credential"], "Jwt");
        let forged = format!("eyJhbGciOiJub25lIn0.{}.", jwt.split('.').nth(1).unwrap());
        assert_eq!(who(&forged).await, json!("anonymous"));
        let mut other = config();
        other.jwt.secret = gatewright_base::Secret::new("another-secret-of-thirty-two-bytes-or-more");
        let stranger = Site::with(other, |builder| builder.database(db.db.clone())).await;
        let foreign = stranger.login_ann().await.token();
        assert_eq!(who(&foreign).await, json!("anonymous"), "signed by another service over the same users");
        site.advance(3600);
        assert_eq!(who(&jwt).await, json!("anonymous"), "an hour later");
    }
}

#[tokio::test]
async fn requests_without_credentials_cost_no_query() {
    let (mut users, mut sessions) = (None, None);
    let config = gatewright_auth::AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        users = Some(Users::new(ambient, true));
        sessions = Some(Sessions::new(ambient, true));
        builder.users(users.clone().unwrap()).sessions(sessions.clone().unwrap())
    })
    .await;
    let (users, sessions) = (users.unwrap(), sessions.unwrap());
    let session = site.signed_in_ann().await;
    let queries = || (users.calls.swap(0, Ordering::SeqCst), sessions.calls.swap(0, Ordering::SeqCst));
    queries();
    for call in [
        Call::get("/whoami"),
        Call::get("/whoami").cookie("theme=dark"),
        Call::get("/whoami").cookie("__Host-session=garbage"),
        Call::get("/whoami").header("authorization", "Basic YTpi"),
        Call::get("/whoami").bearer("not.a.jwt"),
        Call::get("/auth/me"),
    ] {
        call.send(&site).await;
        assert_eq!(queries(), (0, 0));
    }
    Call::get("/whoami").cookie_of(&session).send(&site).await.expect(200);
    assert_eq!(queries(), (1, 1), "the middleware stands twice in the way and works once");
    Call::get("/whoami").bearer(&session.token()).send(&site).await.expect(200);
    assert_eq!(queries(), (1, 0));
}

#[tokio::test]
async fn a_stream_recheck_sees_changes() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let kind = |identity: &Identity| match identity {
            Identity::Known(principal) => format!("{:?}", principal.roles.iter().collect::<Vec<_>>()),
            other => format!("{other:?}"),
        };
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        Call::get("/whoami").send(&site).await;
        assert!(site.presented.lock().is_none(), "nothing was presented");
        Call::get("/whoami").bearer(&session.token()).send(&site).await;
        let jwt = site.presented.lock().clone().unwrap();
        Call::get("/whoami").cookie_of(&session).send(&site).await;
        let cookie = site.presented.lock().clone().unwrap();
        for presented in [&jwt, &cookie] {
            assert_eq!(kind(&presented.0.again().await.unwrap()), r#"["user"]"#);
        }
        accounts.set_roles(&ann.id, &["editor"].into_iter().collect()).await.unwrap();
        for presented in [&jwt, &cookie] {
            assert_eq!(kind(&presented.0.again().await.unwrap()), r#"["editor"]"#);
        }
        Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(204);
        assert_eq!(kind(&cookie.0.again().await.unwrap()), "Anonymous");
        assert_eq!(kind(&jwt.0.again().await.unwrap()), r#"["editor"]"#);
        site.advance(3600);
        assert_eq!(kind(&jwt.0.again().await.unwrap()), "Anonymous");
        assert!(!format!("{jwt:?} {cookie:?}").contains(&session.token()));
    }
}

/// A site whose host puts an embedded surface's grant on requests that ask for it.
async fn with_grants(db: &gatewright_db::testing::TestDb) -> Site {
    let mut site = site(db).await;
    let accounts = site.auth.accounts();
    let ann = accounts.find(ANN).await.unwrap().id;
    let expires_at = site.ambient.now() + jiff::SignedDuration::from_secs(60);
    let put = from_fn(move |mut request: Request, next: Next| {
        let grant = Credential::Grant(Grant {
            surface: "widget".into(),
            origin: "https://partner.example".into(),
            scopes: Scopes::default(),
            expires_at,
        });
        let principal = Principal {
            subject: Subject::User(ann.clone()),
            email: None,
            roles: ["guest"].into_iter().collect(),
            credential: grant,
        };
        if request.headers().contains_key("x-widget") {
            request.extensions_mut().insert(Identity::Known(Arc::new(principal)));
        }
        next.run(request)
    });
    site.router = site.router.clone().layer(put);
    site
}

#[tokio::test]
async fn an_applications_grant_is_kept_and_not_widened_by_a_cookie() {
    for db in databases().await {
        let site = with_grants(&db).await;
        let session = site.login_ann().await;
        let call = || Call::get("/whoami").header("x-widget", "1").cookie_of(&session);
        let kind = async |call: Call| {
            let who = call.send(&site).await.expect(200).json();
            who.as_str().or(who["credential"].as_str()).unwrap().to_owned()
        };
        assert_eq!(kind(call()).await, "Grant");
        assert_eq!(kind(call().header("origin", "https://partner.example")).await, "Grant");
        assert_eq!(kind(call().header("origin", "https://evil.example")).await, "anonymous");
        assert_eq!(kind(call().bearer("svc_bad")).await, "anonymous", "a failed API token wipes a grant, too");
        Call::get("/session").header("x-widget", "1").cookie_of(&session).send(&site).await.expect(401);
        Call::get("/auth/me").header("x-widget", "1").cookie_of(&session).send(&site).await.expect(401);

        kind(call()).await;
        let presented = site.presented.lock().clone().unwrap();
        let Identity::Known(again) = presented.0.again().await.unwrap() else { panic!("a grant") };
        assert!(again.roles.contains("user") && matches!(again.credential, Credential::Grant(_)), "the live roles");
        site.advance(60);
        assert_eq!(kind(call()).await, "anonymous", "past its deadline, and not the cookie's");
        assert!(matches!(presented.0.again().await, Ok(Identity::Anonymous)));
    }
}

#[tokio::test]
async fn a_401_reports_an_expired_or_invalid_bearer_token() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await.expect(200);
        let jwt = site.login_ann().await.expect(200).token();
        let challenge = async |call: Call| call.send(&site).await.expect(401).headers["www-authenticate"].clone();
        let me = || Call::get("/auth/me");
        Call::get("/auth/me").bearer(&jwt).send(&site).await.expect(200);
        site.advance(3_600 + 120);
        for token in [jwt.as_str(), "not.a.jwt", "x"] {
            assert_eq!(challenge(me().bearer(token)).await, "Bearer error=\"invalid_token\"", "{token}");
        }
        // Without a token there is none to name.
        for call in [me(), me().header("authorization", "Basic YTpi"), me().cookie("session_id=guess")] {
            assert_eq!(challenge(call).await, "Bearer");
        }
    }
}
