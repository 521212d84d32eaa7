//! The guard for a host's own routes.

use axum::Router;
use axum::routing::get;

use super::{REQUIRED, enroll_ann, send, site};
use crate::support::{Call, Factor, FakeFactor, Site, config, databases};

fn guarded(mut site: Site) -> Site {
    let vault = Router::new().route("/vault", get(async || "gold")).layer(site.auth.step_up());
    site.router = site.router.merge(vault.layer(site.auth.middleware()));
    site
}

#[tokio::test]
async fn step_up_applies_only_to_enrolled_users() {
    for db in databases().await {
        let site = guarded(site(&db).await);
        let vault = || Call::get("/vault");
        vault().send(&site).await.expect(401);
        let before = site.login_ann().await;
        vault().cookie_of(&before).send(&site).await.expect(200);
        vault().bearer(&before.token()).send(&site).await.expect(200);

        let ann = enroll_ann(&site).await;
        vault().cookie_of(&ann.session).send(&site).await.expect(200);
        let refused = vault().cookie_of(&before).send(&site).await.expect(403);
        assert_eq!(
            (refused.detail().as_str(), refused.json()["code"].as_str()),
            (REQUIRED, Some("two_factor_required"))
        );
        let pending = site.login_ann().await;
        assert_eq!(vault().cookie_of(&pending).send(&site).await.expect(403).detail(), REQUIRED);

        let passed = send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
        vault().cookie_of(&passed).send(&site).await.expect(200);
        // A token proves no second factor, although it was issued after one.
        vault().bearer(&passed.token()).send(&site).await.expect(403);
    }
}

#[tokio::test]
async fn a_failed_lookup_does_not_count_as_no_second_factor() {
    for db in databases().await {
        let factor = FakeFactor::default();
        let given = std::sync::Arc::new(factor.clone());
        let site = Site::with(config(), |builder| builder.database(db.db.clone()).second_factor(given)).await;
        let site = guarded(site);
        let session = site.signed_in_ann().await;
        Call::get("/vault").cookie_of(&session).send(&site).await.expect(200);
        factor.set(Factor::Broken);
        let refused = Call::get("/vault").cookie_of(&session).send(&site).await.expect(503);
        assert!(!refused.body.contains("canary"));
    }
}

#[tokio::test]
async fn without_the_middleware_step_up_refuses_everybody() {
    for db in databases().await {
        let mut site = site(&db).await;
        let session = site.login_ann().await;
        site.router = Router::new().route("/vault", get(async || "gold")).layer(site.auth.step_up());
        Call::get("/vault").cookie_of(&session).send(&site).await.expect(401);
    }
}
