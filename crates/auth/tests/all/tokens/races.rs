//! Twenty parallel requests, on two replicas with one database.

use futures_util::future::join_all;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_db::testing::TestDb;
use gatewright_db::{Db, Options};
use serde_json::json;

use super::{fill, issue, list, revoke, token_of, who};
use crate::support::{Site, config, databases};

/// Two replicas, each with connections of its own, and Ann.
async fn replicas(db: &TestDb) -> [Site; 2] {
    let one = super::site(db).await;
    let own = Db::open(&db.url, Options::default()).await.unwrap();
    let two = Site::with(config(), |builder| builder.database(own).plugin(TokensPlugin::new())).await;
    two.clock.set(one.ambient.now());
    [one, two]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_twenty_revocations_succeeds_and_is_audited() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let session = sites[0].login_ann().await;
        let (token, id) = token_of(&sites[0], &session).await;
        let answers = join_all((0..20).map(|n| revoke(&sites[n % 2], &session, &id))).await;
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 204).count(), 1, "{}: {statuses:?}", db.name);
        assert_eq!(statuses.iter().filter(|status| **status == 404).count(), 19, "{}", db.name);
        let audited = sites.iter().flat_map(Site::audited).filter(|kind| *kind == AuditKind::TokenRevoked).count();
        assert_eq!(audited, 1, "{}", db.name);
        for site in &sites {
            assert_eq!(who(site, &token).await, "anonymous", "{}: on both replicas, at once", db.name);
        }
    }
}

/// A request that begins after the revocation was answered never passes.
#[tokio::test(flavor = "multi_thread")]
async fn no_use_succeeds_after_the_revocation_was_acknowledged() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let session = sites[0].login_ann().await;
        let (token, id) = token_of(&sites[0], &session).await;
        let uses = join_all((0..20).map(|n| who(&sites[n % 2], &token)));
        let (before, revoked) = tokio::join!(uses, revoke(&sites[0], &session, &id));
        revoked.expect(204);
        assert!(before.iter().all(|kind| kind == "ApiToken" || kind == "anonymous"), "{before:?}");
        let after = join_all((0..20).map(|n| who(&sites[n % 2], &token))).await;
        assert!(after.iter().all(|kind| kind == "anonymous"), "{}: {after:?}", db.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_parallel_requests_issue_twenty_tokens() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let session = sites[0].login_ann().await;
        let body = json!({ "name": "CI" });
        let issued = join_all((0..20).map(|n| issue(&sites[n % 2], &session, &body))).await;
        let tokens: std::collections::HashSet<_> =
            issued.into_iter().map(|answer| answer.expect(200).token()).collect();
        assert_eq!(tokens.len(), 20, "{}", db.name);
        assert_eq!(list(&sites[1], &session).await.len(), 20, "{}", db.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_parallel_requests_do_not_exceed_the_limit_of_tokens() {
    for db in databases().await {
        let sites = replicas(&db).await;
        let session = sites[0].login_ann().await;
        let (_, id) = token_of(&sites[0], &session).await;
        fill(&db, &id, 498).await;
        let body = json!({ "name": "CI" });
        let answers = join_all((0..20).map(|n| issue(&sites[n % 2], &session, &body))).await;
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{}: {statuses:?}", db.name);
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{}: {statuses:?}", db.name);
        assert_eq!(list(&sites[1], &session).await.len(), 500, "{}", db.name);
    }
}
