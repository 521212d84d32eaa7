use gatewright_auth::audit::AuditKind;

use crate::support::{ANN, Call, PASSWORD, Site, databases};

#[tokio::test]
async fn logout_ends_the_session_and_clears_the_cookie() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        let answer =
            Call::post("/auth/logout").header("content-type", "application/json").cookie_of(&session).send(&site).await;
        let answer = answer.expect(204);
        assert!(answer.body.is_empty());
        let cleared = answer.set_cookie().unwrap();
        assert!(cleared.starts_with("__Host-session=;") && cleared.contains("Max-Age=0") && cleared.contains("Secure"));
        site.me(&session).await.expect(401);
        assert_eq!(site.audited().last(), Some(&AuditKind::SessionRevoked));
    }
}

#[tokio::test]
async fn a_logged_out_cookie_cannot_be_replayed() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let (one, other) = (site.login_ann().await, site.login_ann().await);
        Call::post("/auth/logout").cookie_of(&one).send(&site).await.expect(204);
        for _ in 0..2 {
            site.me(&one).await.expect(401);
            Call::get("/session").cookie_of(&one).send(&site).await.expect(401);
            Call::post("/auth/logout").cookie_of(&one).send(&site).await.expect(204);
        }
        site.me(&other).await.expect(200);
    }
}

#[tokio::test]
async fn a_form_redirects_to_next_after_logout() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for (next, expected) in [("/bye", "/bye"), ("//evil.example", "/"), ("", "/")] {
            let session = site.login(ANN, PASSWORD).await;
            let answer =
                Call::post("/auth/logout").form(&[("next", next)]).cookie_of(&session).send(&site).await.expect(303);
            assert_eq!(answer.location(), Some(expected));
            site.me(&session).await.expect(401);
        }
    }
}

#[tokio::test]
async fn logout_without_a_session_succeeds() {
    for db in databases().await {
        let site = Site::on(&db).await;
        for cookie in ["", "__Host-session=", "__Host-session=garbage", &format!("__Host-session={}", "A".repeat(43))] {
            let answer = Call::post("/auth/logout").cookie(cookie).send(&site).await.expect(204);
            assert!(answer.set_cookie().unwrap().contains("Max-Age=0"));
        }
        assert!(site.audited().is_empty());
    }
}

#[tokio::test]
async fn logout_works_whatever_else_the_request_carries() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for authorization in ["Bearer expired.jwt.token", "Basic YTpi", "Bearer"] {
            let session = site.login_ann().await;
            let call = Call::post("/auth/logout").header("authorization", authorization).cookie_of(&session);
            call.send(&site).await.expect(204);
            site.me(&session).await.expect(401);
        }
    }
}
