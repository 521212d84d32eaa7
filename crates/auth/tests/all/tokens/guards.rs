//! The guards of a host's own routes, against every kind of caller.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::{any, get};
use gatewright_auth::guards::{RoleGuard, ScopeGuard, ScopeTree};
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::{Credential, Grant, Identity, Principal, Scopes, Subject};
use gatewright_db::testing::TestDb;
use http::Method;

use crate::support::{ANN, Call, Factor, FakeFactor, Site, config, databases};

/// A host's routes behind each guard, with Ann, who is an editor.
async fn site(db: &TestDb) -> (Site, FakeFactor) {
    let factor = FakeFactor::default();
    let given = Arc::new(factor.clone());
    let mut site = Site::with(config(), |builder| {
        builder.database(db.db.clone()).plugin(TokensPlugin::new()).second_factor(given)
    })
    .await;
    site.register_ann().await;
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    site.auth.accounts().set_roles(&ann.id, &["editor"].into_iter().collect()).await.unwrap();
    let ok = || any(async || "ok");
    let crud = Router::new().route("/{table}", ok()).route("/{table}/{id}", ok());
    let routes = Router::new()
        .route("/reports", get(async || "ok").layer(ScopeGuard::new("reports:read".parse().unwrap())))
        .route("/admin", get(async || "ok").layer(RoleGuard::any_of(["admin", "editor"])))
        .route("/chief", get(async || "ok").layer(RoleGuard::any_of(["chief"])))
        .route("/never", get(async || "ok").layer(RoleGuard::any_of([""; 0])))
        .nest("/api", crud.clone().layer(ScopeTree::under("/api")))
        .nest("/outer", Router::new().nest("/inner", crud.clone().layer(ScopeTree::under("/outer/inner"))))
        .nest("/misplaced", crud.layer(ScopeTree::under("/elsewhere")))
        .layer(site.auth.middleware());
    let expires_at = site.ambient.now() + jiff::SignedDuration::from_hours(1);
    let (id, roles) = (ann.id, ["editor"].into_iter().collect::<gatewright_base::Roles>());
    let put = from_fn(move |mut request: Request, next: Next| {
        if let Some(scopes) = request.headers().get("x-widget").map(|scopes| scopes.to_str().unwrap().to_owned()) {
            let grant = Grant {
                surface: "widget".into(),
                origin: "https://partner.example".into(),
                scopes: parse(&scopes),
                expires_at,
            };
            request.extensions_mut().insert(Identity::Known(Arc::new(Principal {
                subject: Subject::User(id.clone()),
                email: None,
                roles: roles.clone(),
                credential: Credential::Grant(grant),
            })));
        }
        next.run(request)
    });
    site.router = site.router.clone().merge(routes).layer(put);
    (site, factor)
}

fn parse(scopes: &str) -> Scopes {
    scopes.split_whitespace().map(|scope| scope.parse().unwrap()).collect()
}

async fn token(site: &Site, scopes: &str) -> String {
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    let scopes: Vec<_> = scopes.split_whitespace().collect();
    let draft = TokenDraft::parse("CI", &scopes, 0).unwrap();
    let issued = site.auth.api_tokens().unwrap().issue(Subject::User(ann.id), draft).await.unwrap();
    issued.plaintext.expose().to_owned()
}

#[tokio::test]
async fn every_guard_knows_every_kind_of_caller() {
    for db in databases().await {
        let (site, factor) = site(&db).await;
        let session = site.login_ann().await;
        factor.set(Factor::Enrolled);
        let pending = site.login_ann().await;
        factor.set(Factor::Absent);
        // (caller, a scope guard of reports:read, the tree at posts, roles admin or editor, role chief)
        let cases: Vec<(&str, Call, [u16; 4])> = vec![
            ("nobody", Call::get("/"), [401, 200, 401, 401]),
            ("a bad token", Call::get("/").bearer("svc_bad"), [401, 200, 401, 401]),
            ("pending", Call::get("/").cookie_of(&pending), [403, 403, 403, 403]),
            ("session", Call::get("/").cookie_of(&session), [200, 200, 200, 403]),
            ("jwt", Call::get("/").bearer(&session.token()), [200, 200, 200, 403]),
            ("token of nothing", Call::get("/").bearer(&token(&site, "").await), [403, 403, 200, 403]),
            ("token of it", Call::get("/").bearer(&token(&site, "reports:read").await), [200, 403, 200, 403]),
            ("token of posts", Call::get("/").bearer(&token(&site, "posts:read").await), [403, 200, 200, 403]),
            ("token of writing", Call::get("/").bearer(&token(&site, "*:write").await), [403, 403, 200, 403]),
            ("token of all", Call::get("/").bearer(&token(&site, "*:*").await), [200, 200, 200, 403]),
            ("grant of nothing", Call::get("/").header("x-widget", ""), [403, 403, 403, 403]),
            ("grant of it", Call::get("/").header("x-widget", "reports:read"), [200, 403, 403, 403]),
            ("grant of all", Call::get("/").header("x-widget", "*:*"), [200, 200, 403, 403]),
        ];
        for (caller, call, expected) in cases {
            for (path, status) in ["/reports", "/api/posts", "/admin", "/chief"].into_iter().zip(expected) {
                let answer = call.again(Method::GET, path).send(&site).await;
                assert_eq!(answer.status.as_u16(), status, "{}: {caller} {path}: {answer:?}", db.name);
            }
            let never = call.again(Method::GET, "/never").send(&site).await;
            assert_ne!(never.status, 200, "{caller}");
        }
    }
}

#[tokio::test]
async fn the_tree_requires_the_resource_and_the_verb() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        let (reader, writer) = (token(&site, "posts:read").await, token(&site, "posts:write").await);
        let (any, reads) = (token(&site, "posts:*").await, token(&site, "*:read").await);
        for prefix in ["/api", "/outer/inner"] {
            for (method, path, read, write) in [
                (Method::GET, "posts", 200, 403),
                (Method::HEAD, "posts/7", 200, 403),
                (Method::GET, "posts/7?a=b", 200, 403),
                (Method::POST, "posts", 403, 200),
                (Method::PUT, "posts/7", 403, 200),
                (Method::PATCH, "posts/7", 403, 200),
                (Method::DELETE, "posts/7", 403, 200),
                (Method::OPTIONS, "posts", 403, 200),
                (Method::GET, "comments", 403, 403),
                (Method::GET, "comments/posts", 403, 403),
                (Method::GET, "Posts", 403, 403),
                (Method::GET, "p%6Fsts", 403, 403),
                (Method::GET, "posts%2f..%2fcomments", 403, 403),
            ] {
                let path = format!("{prefix}/{path}");
                let ask = async |token: &str| {
                    Call::new(method.clone(), &path).bearer(token).send(&site).await.status.as_u16()
                };
                assert_eq!((ask(&reader).await, ask(&writer).await), (read, write), "{method} {path}");
                if read == 200 || write == 200 {
                    assert_eq!(ask(&any).await, 200, "{method} {path}");
                }
                let is_read = method == Method::GET || method == Method::HEAD;
                assert_eq!(ask(&reads).await, if is_read { 200 } else { 403 }, "{method} {path}");
            }
        }
        let session = site.login_ann().await;
        assert_eq!(Call::get("/misplaced/posts").bearer(&token(&site, "*:*").await).send(&site).await.status, 403);
        Call::get("/misplaced/posts").cookie_of(&session).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn a_grant_is_valid_at_its_origin_until_its_deadline() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        let call = || Call::get("/reports").header("x-widget", "*:*");
        for (header, value, status) in [
            ("x-other", "1", 200),
            ("origin", "https://partner.example", 200),
            ("origin", "https://partner.example:8443", 401),
            ("origin", "http://partner.example", 401),
            ("origin", "https://evil.example", 401),
            ("origin", "null", 401),
            ("sec-fetch-site", "cross-site", 401),
            ("sec-fetch-site", "same-origin", 200),
        ] {
            call().header(header, value).send(&site).await.expect(status);
        }
        let both = call().header("origin", "https://partner.example").header("origin", "https://evil.example");
        both.send(&site).await.expect(401);
        let across = call().header("origin", "https://partner.example").header("sec-fetch-site", "cross-site");
        across.send(&site).await.expect(200);
        site.advance(3600);
        call().send(&site).await.expect(401);
    }
}
