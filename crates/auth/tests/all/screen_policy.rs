//! Screen policies: service.md's outcomes, each with its row.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use gatewright_auth::ScreenPolicy;
use gatewright_base::{Credential, Grant, Identity, Principal, Roles, Scopes, Subject, UserId};
use http::{Method, StatusCode};
use std::sync::Arc;

use crate::support::{ANN, Answer, Call, Factor, FakeFactor, PASSWORD, Site, config, databases};

const SCREEN: &str = "the screen";
const HTML: &str = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";

fn behind(mut site: Site, policy: ScreenPolicy) -> Site {
    let screen = Router::new().route("/screen", get(async || SCREEN).post(async || SCREEN)).layer(policy);
    let nested = Router::new().nest("/deep", screen.clone());
    site.router = site.router.merge(screen.merge(nested).layer(site.auth.middleware()));
    site
}

async fn visit(site: &Site) -> Answer {
    Call::get("/screen").header("accept", HTML).send(site).await
}

#[tokio::test]
async fn a_caller_who_meets_the_policy_sees_the_screen() {
    for db in databases().await {
        for policy in [
            ScreenPolicy::session(),
            ScreenPolicy::session().block(StatusCode::IM_A_TEAPOT).redirect(),
            ScreenPolicy::role("user"),
            ScreenPolicy::any_role(["admin", "user"]),
        ] {
            let site = behind(Site::on(&db).await, policy.clone());
            let email = "somebody@example.com";
            // One database, several sites: the account may be there already.
            let register = serde_json::json!({ "email": email, "password": PASSWORD });
            Call::post("/auth/register").json(&register).send(&site).await;
            site.advance(1);
            let session = site.login(email, PASSWORD).await.expect(200);
            let answer = Call::get("/screen").cookie_of(&session).send(&site).await.expect(200);
            assert_eq!(answer.body, SCREEN, "{policy:?}");
        }
    }
}

#[tokio::test]
async fn the_default_is_a_block_of_401_for_a_session_and_403_forbidden_for_a_role() {
    for db in databases().await {
        let site = behind(Site::on(&db).await, ScreenPolicy::session());
        let page = visit(&site).await.expect(401);
        assert!(page.body.contains("<h1>Sign in first</h1>") && !page.body.contains(SCREEN));
        assert_eq!(page.headers["cache-control"], "no-store");
        assert!(!page.headers.contains_key("www-authenticate"));
        // A program gets the same as JSON.
        assert_eq!(Call::get("/screen").send(&site).await.expect(401).json()["code"], "unauthorized");

        let site = behind(Site::on(&db).await, ScreenPolicy::role("admin"));
        assert!(visit(&site).await.expect(403).body.contains("role=\"alert\">forbidden<"));
        let ann = site.signed_in_ann().await;
        let refused = Call::get("/screen").cookie_of(&ann).send(&site).await.expect(403);
        assert_eq!(refused.detail(), "forbidden");
    }
}

#[tokio::test]
async fn a_configured_block_has_its_status() {
    for db in databases().await {
        let site = behind(Site::on(&db).await, ScreenPolicy::session().block(StatusCode::NOT_FOUND));
        visit(&site).await.expect(404);
        let site = behind(Site::on(&db).await, ScreenPolicy::role("admin").block(StatusCode::UNAUTHORIZED));
        visit(&site).await.expect(401);
    }
}

#[tokio::test]
async fn a_redirect_is_303_to_the_login_and_back_or_to_the_configured_place() {
    for db in databases().await {
        let site = behind(Site::on(&db).await, ScreenPolicy::session().redirect());
        for (path, location) in [
            ("/screen", "/login?next=%2Fscreen"),
            ("/screen?page=2&q=a%20b", "/login?next=%2Fscreen%3Fpage%3D2%26q%3Da%2520b"),
            ("/deep/screen", "/login?next=%2Fdeep%2Fscreen"),
        ] {
            assert_eq!(Call::get(path).send(&site).await.expect(303).location(), Some(location), "{path}");
        }
        assert_eq!(Call::post("/screen").send(&site).await.expect(303).location(), Some("/login"));
        let site = behind(Site::on(&db).await, ScreenPolicy::role("admin").redirect_to("/join"));
        assert_eq!(visit(&site).await.expect(303).location(), Some("/join"));
    }
}

/// In a browser, the redirects between the screen and the login must not be a loop.
#[tokio::test]
async fn a_user_without_the_role_is_asked_to_sign_in_as_another_user() {
    for db in databases().await {
        let site = behind(Site::on(&db).await.and_screens(), ScreenPolicy::role("admin").redirect());
        assert_eq!(visit(&site).await.expect(303).location(), Some("/login?next=%2Fscreen"));
        let ann = site.signed_in_ann().await;
        let away = Call::get("/screen").cookie_of(&ann).send(&site).await.expect(303);
        assert_eq!(away.location(), Some("/login?next=%2Fscreen&as=other"));
        let form = Call::get("/login?next=%2Fscreen&as=other").cookie_of(&ann).send(&site).await.expect(200);
        assert!(form.body.contains("role=\"note\">You are signed in as ann@example.com"), "{}", form.body);
        assert!(form.body.contains("name=\"next\" value=\"/screen\""));
        // Nobody is signed in here: there is no note.
        let form = Call::get("/login?as=other").send(&site).await.expect(200);
        assert!(!form.body.contains("role=\"note\""));
    }
}

#[tokio::test]
async fn a_caller_with_a_jwt_sees_the_login_without_a_redirect_loop() {
    for db in databases().await {
        let site = behind(Site::on(&db).await.and_screens(), ScreenPolicy::session().redirect());
        let jwt = site.register_ann().await.token();
        let away = Call::get("/screen").bearer(&jwt).send(&site).await.expect(303);
        Call::get(away.location().unwrap()).bearer(&jwt).send(&site).await.expect(200);
        Call::get("/login?next=%2Fscreen").bearer(&jwt).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn the_alternative_is_built_for_each_request() {
    for db in databases().await {
        let policy = ScreenPolicy::session().render_alt(async |parts| Html(format!("instead of {}", parts.uri)));
        let site = behind(Site::on(&db).await, policy);
        for path in ["/screen", "/screen?a=b"] {
            assert_eq!(Call::get(path).send(&site).await.expect(200).body, format!("instead of {path}"));
        }
        let ann = site.signed_in_ann().await;
        assert_eq!(Call::get("/screen").cookie_of(&ann).send(&site).await.expect(200).body, SCREEN);
    }
}

#[tokio::test]
async fn alternative_wins_over_redirect_and_redirect_over_block_in_any_order() {
    for db in databases().await {
        let policy = ScreenPolicy::session;
        let instead = async |_: http::request::Parts| (StatusCode::ACCEPTED, "instead");
        let teapot = StatusCode::IM_A_TEAPOT;
        for (policy, status) in [
            (policy().render_alt(instead).redirect().block(teapot), 202),
            (policy().block(teapot).redirect().render_alt(instead), 202),
            (policy().render_alt(instead).block(teapot), 202),
            (policy().redirect().block(teapot), 303),
            (policy().block(teapot).redirect(), 303),
            (policy().block(teapot), 418),
        ] {
            let site = behind(Site::on(&db).await, policy.clone());
            let answer = visit(&site).await;
            assert_eq!(answer.status.as_u16(), status, "{policy:?}");
        }
    }
}

#[tokio::test]
async fn a_later_option_overwrites_an_earlier_one() {
    for db in databases().await {
        let site = behind(Site::on(&db).await, ScreenPolicy::session().redirect_to("/one").redirect_to("/two"));
        assert_eq!(visit(&site).await.expect(303).location(), Some("/two"));
        let site = behind(Site::on(&db).await, ScreenPolicy::session().redirect_to("/one").redirect());
        assert_eq!(visit(&site).await.expect(303).location(), Some("/login?next=%2Fscreen"));
        let blocks = ScreenPolicy::session().block(StatusCode::IM_A_TEAPOT).block(StatusCode::GONE);
        visit(&behind(Site::on(&db).await, blocks)).await.expect(410);
        let alternatives = ScreenPolicy::session().render_alt(async |_| "one").render_alt(async |_| "two");
        assert_eq!(visit(&behind(Site::on(&db).await, alternatives)).await.body, "two");
    }
}

#[tokio::test]
async fn a_pending_session_does_not_pass() {
    for db in databases().await {
        for policy in [ScreenPolicy::session(), ScreenPolicy::role("user")] {
            let factor = FakeFactor::default();
            factor.set(Factor::Enrolled);
            let site = Site::with(config(), |builder| builder.database(db.db.clone()).second_factor(Arc::new(factor)));
            let site = site.await;
            let site = behind(site, policy);
            let register = serde_json::json!({ "email": ANN, "password": PASSWORD });
            Call::post("/auth/register").json(&register).send(&site).await;
            site.advance(1);
            let pending = site.login_ann().await.expect(200);
            let refused = Call::get("/screen").cookie_of(&pending).send(&site).await.expect(403);
            assert_eq!(refused.detail(), "two-factor verification required");
        }
    }
}

#[tokio::test]
async fn a_jwt_is_not_a_session_and_has_its_users_roles() {
    for db in databases().await {
        let site = behind(Site::on(&db).await, ScreenPolicy::session());
        let jwt = site.register_ann().await.token();
        Call::get("/screen").bearer(&jwt).send(&site).await.expect(401);
        let site = behind(site_again(&db).await, ScreenPolicy::role("user"));
        let jwt = site.login_ann().await.expect(200).token();
        Call::get("/screen").bearer(&jwt).send(&site).await.expect(200);
    }
}

async fn site_again(db: &gatewright_db::testing::TestDb) -> Site {
    let site = Site::on(db).await;
    site.advance(60);
    site
}

#[tokio::test]
async fn a_grant_or_a_missing_middleware_meets_no_policy() {
    let grant = Grant {
        surface: "widget".into(),
        origin: "https://shop.example".into(),
        scopes: Scopes::new(vec!["*:*".parse().unwrap()]),
        expires_at: jiff::Timestamp::MAX,
    };
    let principal = Principal {
        subject: Subject::User(UserId::parse("u1").unwrap()),
        email: None,
        roles: ["admin"].into_iter().collect::<Roles>(),
        credential: Credential::Grant(grant),
    };
    let identity = Identity::Known(Arc::new(principal));
    for (policy, status) in [(ScreenPolicy::session(), 401), (ScreenPolicy::role("admin"), 403)] {
        let screen = Router::new().route("/screen", get(async || SCREEN)).layer(policy);
        let granted = screen.clone().layer(axum::Extension(identity.clone()));
        for router in [screen, granted] {
            let request = http::Request::builder().method(Method::GET).uri("/screen");
            let answer = tower::ServiceExt::oneshot(router, request.body(axum::body::Body::empty()).unwrap());
            assert_eq!(answer.await.unwrap().status(), status);
        }
    }
}
