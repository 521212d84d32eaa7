//! Every row of the table of session states, with a scripted second factor.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::{Plugin, Prepared};
use gatewright_auth::session::{Client, MintError, PendingSession, SecondFactor, Session, SessionStore};
use gatewright_auth::users::BoxError;
use gatewright_auth::{AuthInitError, Core, Foundation};
use gatewright_base::UserId;
use http::StatusCode;
use http::header::SET_COOKIE;
use serde_json::json;

use crate::support::{ANN, Answer, Call, Factor, FakeFactor, PASSWORD, Sessions, Site, Users, config, databases};

/// A plugin as a host would write one: it brings a second factor that is always right.
struct Challenge(FakeFactor);

impl Plugin for Challenge {
    fn name(&self) -> &'static str {
        "challenge"
    }

    fn prepare(self: Box<Self>, _: &Foundation) -> Result<Prepared, AuthInitError> {
        let routes = |core: &Arc<Core>| {
            Router::new().route("/challenge", post(challenge)).route("/enroll", post(enroll)).with_state(core.clone())
        };
        Ok(Prepared::new().second_factor(Arc::new(self.0)).second_factor_screen("/two-factor").routes(routes))
    }
}

async fn challenge(
    State(core): State<Arc<Core>>,
    pending: PendingSession,
) -> Result<([(http::HeaderName, http::HeaderValue); 1], String), StatusCode> {
    match core.mint.complete(&pending, Client::default()).await {
        Ok((session, secret)) => Ok(([(SET_COOKIE, core.cookie.set(&secret))], session.id().to_string())),
        Err(MintError::Gone) => Err(StatusCode::UNAUTHORIZED),
        Err(_) => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

async fn enroll(State(core): State<Arc<Core>>, session: Session) -> StatusCode {
    match core.mint.mark_verified(&session).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn site(db: &gatewright_db::testing::TestDb) -> (Site, FakeFactor) {
    let factor = FakeFactor::default();
    let site = Site::with(config(), |builder| builder.database(db.db.clone()).plugin(Challenge(factor.clone()))).await;
    site.register_ann().await;
    (site, factor)
}

/// A site where Ann has a second factor, and her pending session.
async fn pending(db: &gatewright_db::testing::TestDb) -> (Site, Answer) {
    let (site, factor) = site(db).await;
    factor.set(Factor::Enrolled);
    let pending = site.login_ann().await.expect(200);
    (site, pending)
}

#[tokio::test]
async fn without_a_second_factor_a_login_is_authenticated() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        let answer = site.login_ann().await.expect(200);
        assert!(answer.json().get("two_factor_required").is_none());
        site.me(&answer).await.expect(200);
        Call::get("/pending").cookie_of(&answer).send(&site).await.expect(409);
    }
}

#[tokio::test]
async fn with_a_second_factor_a_login_is_pending_and_grants_nothing() {
    for db in databases().await {
        let (site, answer) = pending(&db).await;
        let body = answer.json();
        assert_eq!(body["two_factor_required"], true);
        assert_eq!(body["user"]["email"], ANN);
        assert!(body.get("token").is_none());
        let me = site.me(&answer).await.expect(403);
        assert_eq!(me.detail(), "two-factor verification required");
        let gated = Call::get("/session").cookie_of(&answer).send(&site).await.expect(403);
        assert_eq!(gated.detail(), "two-factor verification required");
        let who = Call::get("/whoami").cookie_of(&answer).send(&site).await;
        assert_eq!(who.json(), json!({ "pending": body["user"]["id"] }));
        Call::get("/pending").cookie_of(&answer).send(&site).await.expect(200);
        assert_eq!(site.audited().last(), Some(&AuditKind::LoginPendingTwoFactor));
    }
}

#[tokio::test]
async fn a_form_redirects_to_the_screen_for_the_second_factor() {
    for db in databases().await {
        let (site, factor) = site(&db).await;
        factor.set(Factor::Enrolled);
        let fields = [("email", ANN), ("password", PASSWORD), ("next", "/posts?a=b")];
        let without = Call::post("/auth/login").form(&fields).send(&site).await.expect(303);
        assert_eq!(without.location(), Some("/posts?a=b"));
        let site = site.and_screens();
        let with = Call::post("/auth/login").form(&fields).send(&site).await.expect(303);
        assert_eq!(with.location(), Some("/two-factor?next=%2Fposts%3Fa%3Db"));
        site.me(&with).await.expect(403);
        let login = Call::get("/login?next=/posts").cookie_of(&with).send(&site).await.expect(303);
        assert_eq!(login.location(), Some("/two-factor?next=%2Fposts"));
    }
}

#[tokio::test]
async fn a_pending_session_may_log_out() {
    for db in databases().await {
        let (site, answer) = pending(&db).await;
        Call::post("/auth/logout").cookie_of(&answer).send(&site).await.expect(204);
        site.me(&answer).await.expect(401);
    }
}

#[tokio::test]
async fn a_pending_session_expires_soon() {
    for db in databases().await {
        let (site, answer) = pending(&db).await;
        site.advance(30 * 60 - 1);
        site.me(&answer).await.expect(403);
        site.advance(1);
        site.me(&answer).await.expect(401);
        Call::post("/auth/challenge").cookie_of(&answer).send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn the_second_factor_turns_pending_into_verified_with_a_new_secret() {
    for db in databases().await {
        let (site, pending) = pending(&db).await;
        let passed = Call::post("/auth/challenge").cookie_of(&pending).send(&site).await.expect(200);
        assert_ne!(passed.cookie(), pending.cookie());
        let me = site.me(&passed).await.expect(200);
        assert_eq!(me.json()["twoFactorEnabled"], true);
        site.me(&pending).await.expect(401);
        Call::post("/auth/challenge").cookie_of(&pending).send(&site).await.expect(401);
        Call::post("/auth/challenge").cookie_of(&passed).send(&site).await.expect(409);
        site.advance(7 * 86_400 - 1);
        site.me(&passed).await.expect(200);
        site.advance(1);
        site.me(&passed).await.expect(401);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_challenges_succeeds() {
    for db in databases().await {
        let (site, pending) = pending(&db).await;
        let all = (0..20).map(|_| Call::post("/auth/challenge").cookie_of(&pending).send(&site));
        let answers = futures_util::future::join_all(all).await;
        let passed: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(passed.len(), 1, "{}", db.name);
        assert!(answers.iter().all(|answer| answer.status == 200 || answer.status == 401));
        site.me(passed[0]).await.expect(200);
    }
}

#[tokio::test]
async fn enrolling_marks_the_session_verified() {
    for db in databases().await {
        let (site, _) = site(&db).await;
        let session = site.login_ann().await;
        let verified = async || -> bool {
            let sql = "SELECT two_factor_verified FROM sessions";
            db.db.query_opt(sql, vec![]).await.unwrap().unwrap().get("two_factor_verified").unwrap()
        };
        assert!(!verified().await);
        Call::post("/auth/enroll").cookie_of(&session).send(&site).await.expect(204);
        assert!(verified().await);
        site.me(&session).await.expect(200);
    }
}

#[tokio::test]
async fn a_lookup_that_fails_rejects_the_login_with_500_and_leaves_no_session() {
    for db in databases().await {
        let (site, factor) = site(&db).await;
        factor.set(Factor::Broken);
        for form in [false, true] {
            let call = Call::post("/auth/login");
            let call = if form {
                call.form(&[("email", ANN), ("password", PASSWORD)])
            } else {
                call.json(&json!({ "email": ANN, "password": PASSWORD }))
            };
            let answer = call.send(&site).await.expect(500);
            assert!(answer.set_cookie().is_none());
            assert!(!answer.body.contains("canary"), "the cause stays inside");
        }
        let count = db.db.query("SELECT id FROM sessions", vec![]).await.unwrap().len();
        assert_eq!(count, 0);
        assert!(!site.audited().contains(&AuditKind::LoginSucceeded));
    }
}

#[tokio::test]
async fn registration_does_not_bypass_the_second_factor() {
    for db in databases().await {
        let (site, factor) = site(&db).await;
        factor.set(Factor::Enrolled);
        let body = json!({ "email": "bob@example.com", "password": PASSWORD });
        let answer = Call::post("/auth/register").json(&body).send(&site).await.expect(200);
        assert_eq!(answer.json()["two_factor_required"], true);
        assert!(answer.json().get("token").is_none());
        let fields = [("email", "eve@example.com"), ("password", PASSWORD)];
        let answer = Call::post("/auth/register").form(&fields).send(&site).await.expect(303);
        site.me(&answer).await.expect(403);
        factor.set(Factor::Broken);
        let body = json!({ "email": "zoe@example.com", "password": PASSWORD });
        let answer = Call::post("/auth/register").json(&body).send(&site).await.expect(500);
        assert!(!answer.body.contains("token\""));
    }
}

/// A host's session store, with and without the ability to mark sessions.
async fn hosted(markers: bool) -> (Site, Arc<Sessions>, FakeFactor) {
    let factor = FakeFactor::default();
    let mut kept = None;
    let config = gatewright_auth::AuthConfig { allow_in_memory_stores: true, ..config() };
    let site = Site::with_ambient(config, |builder, ambient| {
        let sessions = Sessions::new(ambient, markers);
        kept = Some(sessions.clone());
        builder.users(Users::new(ambient, true)).sessions(sessions).plugin(Challenge(factor.clone()))
    })
    .await;
    site.register_ann().await;
    (site, kept.unwrap(), factor)
}

async fn sessions_of(site: &Site, sessions: &Sessions) -> usize {
    let ann = site.auth.accounts().find(ANN).await.unwrap();
    sessions.inner.list(&ann.id).await.unwrap().len()
}

#[tokio::test]
async fn a_store_without_the_pending_marker_rejects_users_with_a_second_factor() {
    let (site, sessions, factor) = hosted(false).await;
    site.login_ann().await.expect(200);
    assert_eq!(sessions_of(&site, &sessions).await, 1);
    factor.set(Factor::Enrolled);
    let answer = site.login_ann().await.expect(500);
    assert!(answer.set_cookie().is_none());
    assert_eq!(sessions_of(&site, &sessions).await, 1, "no session came of it");
}

#[tokio::test]
async fn a_mark_that_cannot_be_recorded_destroys_the_session() {
    let (site, sessions, factor) = hosted(true).await;
    factor.set(Factor::Enrolled);
    sessions.marking_fails.store(true, Ordering::SeqCst);
    let answer = site.login_ann().await.expect(500);
    assert!(answer.set_cookie().is_none() && !answer.body.contains("canary"));
    assert_eq!(sessions.deleted.load(Ordering::SeqCst), 1);
    assert_eq!(sessions_of(&site, &sessions).await, 0, "what the store kept in spite of its failure is gone");
}

#[tokio::test]
async fn a_store_without_the_two_factor_marker_never_counts_a_session_as_verified() {
    let (site, _, _) = hosted(false).await;
    let session = site.login_ann().await.expect(200);
    Call::post("/auth/enroll").cookie_of(&session).send(&site).await.expect(500);
}

/// One factor is satisfied, and one fails: any error counts as pending and unknown.
#[tokio::test]
async fn every_checker_is_called() {
    struct Never;
    #[async_trait]
    impl SecondFactor for Never {
        async fn enabled(&self, _: &UserId) -> Result<bool, BoxError> {
            Ok(false)
        }
        async fn remove(&self, _: &UserId) -> Result<bool, BoxError> {
            Ok(false)
        }
    }
    for db in databases().await {
        let factor = FakeFactor::default();
        let site = Site::with(config(), |builder| {
            builder.database(db.db.clone()).second_factor(Arc::new(Never)).second_factor(Arc::new(factor.clone()))
        })
        .await;
        site.register_ann().await;
        assert!(site.login_ann().await.expect(200).json().get("token").is_some());
        factor.set(Factor::Enrolled);
        assert_eq!(site.login_ann().await.expect(200).json()["two_factor_required"], true);
    }
}
