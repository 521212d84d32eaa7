//! A failing store is answered with 503, and the caller is never anonymous or a new account.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatewright_auth::AuthConfig;
use gatewright_base::Unavailable;

use crate::support::{ANN, Call, PASSWORD, Sessions, Site, Users, WRONG, config};

async fn hosted() -> (Site, Arc<Users>, Arc<Sessions>) {
    let (mut users, mut sessions) = (None, None);
    let site = Site::with_ambient(AuthConfig { allow_in_memory_stores: true, ..config() }, |builder, ambient| {
        users = Some(Users::new(ambient, true));
        sessions = Some(Sessions::new(ambient, true));
        builder.users(users.clone().unwrap()).sessions(sessions.clone().unwrap())
    })
    .await;
    site.register_ann().await;
    (site, users.unwrap(), sessions.unwrap())
}

#[tokio::test]
async fn requests_with_credentials_end_with_503() {
    let (site, users, sessions) = hosted().await;
    let session = site.login_ann().await;
    let calls = || {
        [
            ("cookie", Call::get("/whoami").cookie_of(&session)),
            ("jwt", Call::get("/whoami").bearer(&session.token())),
            ("me", Call::get("/auth/me").cookie_of(&session)),
            ("none", Call::get("/whoami")),
        ]
    };
    users.down.store(true, Ordering::SeqCst);
    for (name, call) in calls() {
        let answer = call.send(&site).await;
        let expected = if name == "none" { 200 } else { 503 };
        let answer = answer.expect(expected);
        assert!(!answer.body.contains("canary"), "{name}");
        assert_eq!(answer.headers.contains_key("retry-after"), expected == 503, "{name}");
    }
    users.down.store(false, Ordering::SeqCst);
    sessions.down.store(true, Ordering::SeqCst);
    for (name, call) in calls() {
        let expected = if matches!(name, "none" | "jwt") { 200 } else { 503 };
        call.send(&site).await.expect(expected);
    }
}

#[tokio::test]
async fn a_stream_recheck_reports_the_outage() {
    let (site, users, _) = hosted().await;
    let session = site.login_ann().await;
    Call::get("/whoami").cookie_of(&session).send(&site).await;
    let presented = site.presented.lock().clone().unwrap();
    users.down.store(true, Ordering::SeqCst);
    assert_eq!(presented.0.again().await.err(), Some(Unavailable));
}

#[tokio::test]
async fn signing_in_and_registering_fail_closed() {
    let (site, users, sessions) = hosted().await;
    users.down.store(true, Ordering::SeqCst);
    for (email, password) in [(ANN, PASSWORD), (ANN, WRONG), ("nobody@example.com", WRONG)] {
        let answer = site.login(email, password).await.expect(503);
        assert!(answer.set_cookie().is_none() && !answer.body.contains("canary"));
    }
    let fields = [("email", "bob@example.com"), ("password", PASSWORD)];
    let page = Call::post("/auth/register").form(&fields).send(&site).await.expect(503);
    assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
    users.down.store(false, Ordering::SeqCst);
    sessions.down.store(true, Ordering::SeqCst);
    let answer = site.login_ann().await.expect(503);
    assert!(answer.set_cookie().is_none());
    site.login(ANN, WRONG).await.expect(401);
}

#[tokio::test]
async fn a_failed_logout_is_not_reported_as_success() {
    let (site, _, sessions) = hosted().await;
    let session = site.login_ann().await;
    sessions.down.store(true, Ordering::SeqCst);
    Call::post("/auth/logout").cookie_of(&session).send(&site).await.expect(503);
    sessions.down.store(false, Ordering::SeqCst);
    site.me(&session).await.expect(200);
}
