//! Refused tokens: they override other credentials, all in the same way, and each is audited with its reason.

use std::collections::HashSet;

use gatewright_auth::audit::AuditKind;
use gatewright_base::Subject;
use gatewright_db::params;
use serde_json::{Value, json};

use super::{issue, kind, site, token_of, who};
use crate::support::{ANN, Answer, Call, Site, databases};

fn draft(name: &str, ttl: i64) -> gatewright_auth::tokens::TokenDraft {
    gatewright_auth::tokens::TokenDraft::parse(name, &["posts:read"], ttl).unwrap()
}

/// One token for each way to be refused, by the reason that the audit gives.
async fn refused(site: &Site, db: &gatewright_db::testing::TestDb, session: &Answer) -> Vec<(&'static str, String)> {
    let (tokens, services) = (site.auth.api_tokens().unwrap(), site.auth.service_accounts().unwrap());
    let (revoked, id) = token_of(site, session).await;
    super::revoke(site, session, &id).await.expect(204);
    let expired = issue(site, session, &json!({ "name": "short", "ttl_seconds": 60 })).await.expect(200).token();
    site.advance(60);
    let disabled = services.create("robot", ["user"].into_iter().collect()).await.unwrap();
    let of_disabled = tokens.issue(Subject::Service(disabled.id.clone()), draft("robot", 0)).await.unwrap();
    services.disable(&disabled.id).await.unwrap();
    let gone = services.create("ghost", ["user"].into_iter().collect()).await.unwrap();
    let of_gone = tokens.issue(Subject::Service(gone.id.clone()), draft("ghost", 0)).await.unwrap();
    db.db.execute("DELETE FROM service_accounts WHERE id = ?1", params![&gone.id]).await.unwrap();
    let deleted = site.auth.accounts().create("eve@example.com", None, None).await.unwrap();
    let of_deleted = tokens.issue(Subject::User(deleted.id.clone()), draft("eve", 0)).await.unwrap();
    db.db.execute("DELETE FROM users WHERE id = ?1", params![&deleted.id]).await.unwrap();
    vec![
        ("unknown", format!("svc_{}", "0".repeat(40))),
        ("unknown", "svc_".to_owned()),
        ("unknown", "svc_short".to_owned()),
        ("unknown", format!("svc_{}", "A".repeat(40))),
        ("unknown", format!("svc_{}", "0".repeat(4000))),
        ("unknown", "svc_'--;DROP TABLE api_tokens".to_owned()),
        ("revoked", revoked),
        ("expired", expired),
        ("owner_disabled", of_disabled.plaintext.expose().to_owned()),
        ("owner_missing", of_gone.plaintext.expose().to_owned()),
        ("owner_missing", of_deleted.plaintext.expose().to_owned()),
    ]
}

#[tokio::test]
async fn a_refused_token_counts_as_anonymous_and_is_audited_with_its_reason() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for (reason, token) in refused(&site, &db, &session).await {
            let before = site.audit.events().len();
            assert_eq!(who(&site, &token).await, "anonymous", "{reason}");
            let events = site.audit.events().split_off(before);
            let [event] = &events[..] else { panic!("{reason}: {events:?}") };
            assert_eq!(event.kind, AuditKind::TokenAuthFailed);
            let prefix: String = token.chars().take(12).collect();
            assert_eq!(Value::from(event.meta.clone()), json!({ "reason": reason, "token": prefix }));
            assert_eq!(event.remote.unwrap().to_string(), "203.0.113.7");
        }
    }
}

#[tokio::test]
async fn a_refused_token_overrides_the_identity_of_the_cookie() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for (reason, token) in refused(&site, &db, &session).await {
            let call = |path| Call::get(path).cookie_of(&session).bearer(&token);
            assert_eq!(kind(&call("/whoami").send(&site).await.expect(200)), "anonymous", "{reason}");
            for path in ["/session", "/any", "/auth/me", "/auth/sessions", "/auth/tokens"] {
                call(path).send(&site).await.expect(401);
            }
        }
        assert_eq!(
            kind(&Call::get("/whoami").cookie_of(&session).send(&site).await),
            "Session",
            "the session is not over"
        );
    }
}

#[tokio::test]
async fn refusals_are_indistinguishable() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let mut answers = HashSet::new();
        for (_, token) in refused(&site, &db, &session).await {
            let answer = Call::get("/auth/me").bearer(&token).send(&site).await;
            answers.insert((answer.status, format!("{:?}", answer.headers), answer.body));
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

#[tokio::test]
async fn other_credentials_pass_through() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, _) = token_of(&site, &session).await;
        let cookie = session.cookie().unwrap();
        let cases = [
            (None, None, "anonymous"),
            (Some(&cookie), None, "Session"),
            (None, Some(format!("Bearer {}", session.token())), "Jwt"),
            (Some(&cookie), Some("Bearer not.a.jwt".to_owned()), "Session"),
            (Some(&cookie), Some("Basic c3ZjXzpzdmNf".to_owned()), "Session"),
            (Some(&cookie), Some(format!("Basic {token}")), "Session"),
            (Some(&cookie), Some(token.clone()), "Session"),
            (None, Some(format!("Bearer {token}")), "ApiToken"),
            (None, Some(format!("bEARER   {token} ")), "ApiToken"),
            (Some(&cookie), Some(format!("Bearer {token}")), "ApiToken"),
        ];
        for (cookie, authorization, expected) in cases {
            let mut call = Call::get("/whoami");
            if let Some(cookie) = cookie {
                call = call.cookie(cookie);
            }
            if let Some(authorization) = &authorization {
                call = call.header("authorization", authorization);
            }
            assert_eq!(kind(&call.send(&site).await.expect(200)), expected, "{cookie:?} {authorization:?}");
        }
        assert!(!site.audited().contains(&AuditKind::TokenAuthFailed));
    }
}

/// With two credentials it is unknown which one the next hop would use.
#[tokio::test]
async fn a_token_beside_another_bearer_is_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, _) = token_of(&site, &session).await;
        let (token, jwt) = (format!("Bearer {token}"), format!("Bearer {}", session.token()));
        for pair in [[&token, &jwt], [&jwt, &token], [&token, &token]] {
            let call = Call::get("/whoami").cookie_of(&session);
            let call = pair.into_iter().fold(call, |call, value| call.header("authorization", value));
            assert_eq!(kind(&call.send(&site).await.expect(200)), "anonymous", "{pair:?}");
        }
    }
}

#[tokio::test]
async fn a_flood_of_guesses_does_not_fill_the_audit_log() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let guess = format!("svc_{}", "0".repeat(40));
        for _ in 0..130 {
            assert_eq!(who(&site, &guess).await, "anonymous");
        }
        let failures = || site.audited().iter().filter(|kind| **kind == AuditKind::TokenAuthFailed).count();
        assert_eq!(failures(), 100);
        Call::get("/whoami").bearer(&guess).from("203.0.113.8").send(&site).await;
        assert_eq!(failures(), 101, "another address has a budget of its own");
        for _ in 0..65 {
            for address in ["2001:db8:1:1::1", "2001:db8:1:2::1"] {
                Call::get("/whoami").bearer(&guess).from(address).send(&site).await;
            }
        }
        assert_eq!(failures(), 201, "all of an IPv6 /48 have one");
        let (token, _) = token_of(&site, &session).await;
        assert_eq!(who(&site, &token).await, "ApiToken", "a good token is not held up");
        site.advance(121);
        who(&site, &guess).await;
        assert_eq!(failures(), 202);
    }
}

#[tokio::test]
async fn a_failing_store_is_503_and_not_anonymous() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, _) = token_of(&site, &session).await;
        db.db.execute("ALTER TABLE api_tokens RENAME TO canary_tokens", vec![]).await.unwrap();
        let answer = Call::get("/whoami").bearer(&token).send(&site).await.expect(503);
        assert!(answer.headers.contains_key("retry-after") && !answer.body.contains("canary"), "{answer:?}");
        Call::get("/auth/tokens").cookie_of(&session).send(&site).await.expect(503);
        assert_eq!(kind(&Call::get("/whoami").cookie_of(&session).send(&site).await), "Session");
        assert!(site.auth.accounts().find(ANN).await.is_ok());
    }
}
