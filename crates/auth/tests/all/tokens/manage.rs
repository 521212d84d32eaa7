use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use gatewright_auth::audit::AuditKind;
use gatewright_base::{Credential, Grant, Identity, JsonCase, Principal, Subject, UserId};
use http::Method;
use serde_json::{Value, json};

use super::{fill, issue, list, revoke, site, token_of};
use crate::support::{ANN, Call, PASSWORD, databases};

/// A caller who writes `ttl` for `ttlSeconds` wants a token that expires.
#[tokio::test]
async fn an_unknown_key_creates_no_token() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for (key, body) in [
            ("ttl", json!({ "name": "CI", "ttl": 60 })),
            ("ttlSecond", json!({ "name": "CI", "ttlSecond": 60 })),
            ("scope", json!({ "name": "CI", "scope": ["posts:read"] })),
        ] {
            let refused = issue(&site, &session, &body).await.expect(422).json();
            let error = json!({ "field": key, "code": "unknown", "message": "there is no such field" });
            assert_eq!(refused["errors"], json!([error]), "{}", db.name);
        }
        let listed = Call::get("/auth/tokens").cookie_of(&session).send(&site).await.expect(200);
        assert_eq!(listed.json(), json!({ "tokens": [] }));
        let owned = json!({ "name": "CI", "owner_kind": "service", "ownerId": "x", "ttlSeconds": 60 });
        issue(&site, &session, &owned).await.expect(200);
    }
}

#[tokio::test]
async fn the_plaintext_is_shown_once() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let body = json!({ "name": " Nightly build ", "scopes": ["posts:read", "comments:*"], "ttl_seconds": 3600 });
        let issued = issue(&site, &session, &body).await.expect(200);
        assert_eq!(issued.headers["cache-control"], "no-store");
        let issued = issued.json();
        let token = issued["token"].as_str().unwrap();
        let digits = token.strip_prefix("svc_").unwrap();
        assert!(digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_eq!(issued["prefix"], token[..12]);
        assert_eq!(issued["name"], "Nightly build");
        assert_eq!(issued["scopes"], json!(["posts:read", "comments:*"]));
        assert_eq!(issued["expiresAt"], "2026-01-02T04:04:06.678901Z", "an hour after the request");
        assert_eq!(issued.as_object().unwrap().len(), 6, "{issued}");

        let listed = list(&site, &session).await;
        assert_eq!(
            listed,
            [json!({
                "id": issued["id"], "name": "Nightly build", "prefix": token[..12], "scopes": ["posts:read", "comments:*"],
                "createdAt": "2026-01-02T03:04:06.678901Z", "expiresAt": issued["expiresAt"], "lastUsedAt": null
            })]
        );
        let rows = db.db.query("SELECT * FROM api_tokens", vec![]).await.unwrap();
        assert!(!format!("{rows:?}").contains(&digits[8..]), "only the hash is kept");
    }
}

#[tokio::test]
async fn a_token_without_a_lifetime_does_not_end() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for ttl in [json!(null), json!(0)] {
            let body = json!({ "name": "CI", "ttlSeconds": ttl });
            assert_eq!(issue(&site, &session, &body).await.expect(200).json()["expiresAt"], Value::Null);
        }
        assert_eq!(list(&site, &session).await.len(), 2);
    }
}

#[tokio::test]
async fn token_requests_are_validated_and_all_errors_are_reported() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let many: Vec<_> = (0..33).map(|n| format!("r{n}:read")).collect();
        let cases = [
            (json!({}), vec!["name"]),
            (json!({ "name": null }), vec!["name"]),
            (json!({ "name": " " }), vec!["name"]),
            (json!({ "name": "a\nb" }), vec!["name"]),
            (json!({ "name": "x".repeat(101) }), vec!["name"]),
            (json!({ "name": 7 }), vec!["name"]),
            (json!({ "name": "CI", "scopes": ["posts"] }), vec!["scopes"]),
            (json!({ "name": "CI", "scopes": ["Posts:read"] }), vec!["scopes"]),
            (json!({ "name": "CI", "scopes": ["po*:read"] }), vec!["scopes"]),
            (json!({ "name": "CI", "scopes": [":read"] }), vec!["scopes"]),
            (json!({ "name": "CI", "scopes": many }), vec!["scopes"]),
            (json!({ "name": "CI", "ttl_seconds": -1 }), vec!["ttlSeconds"]),
            (json!({ "name": "CI", "ttl_seconds": i64::MAX }), vec!["ttlSeconds"]),
            (
                json!({ "name": "", "scopes": ["a", "b"], "ttl_seconds": -1 }),
                vec!["name", "scopes", "scopes", "ttlSeconds"],
            ),
        ];
        for (body, fields) in cases {
            let refused = issue(&site, &session, &body).await.expect(422).json();
            let errors = refused["errors"].as_array().unwrap();
            let named: Vec<_> = errors.iter().map(|error| error["field"].as_str().unwrap()).collect();
            assert_eq!(named, fields, "{body}: {refused}");
        }
        assert!(list(&site, &session).await.is_empty());
        let most = json!({ "name": "CI", "scopes": many[1..] });
        assert_eq!(issue(&site, &session, &most).await.expect(200).json()["scopes"].as_array().unwrap().len(), 32);
        for (content_type, body, status) in [
            ("text/plain", "{}", 415),
            ("application/x-www-form-urlencoded", "name=CI", 415),
            ("application/json", "[", 400),
        ] {
            Call::post("/auth/tokens").body(content_type, body).cookie_of(&session).send(&site).await.expect(status);
        }
    }
}

#[tokio::test]
async fn a_token_belongs_to_its_caller_whatever_the_body_contains() {
    for db in databases().await {
        let site = site(&db).await;
        let bob = site.register("bob@example.com").await.json()["user"]["id"].clone();
        let session = site.login_ann().await;
        let bodies = [
            json!({ "name": "CI", "owner_kind": "user", "owner_id": bob }),
            json!({ "name": "CI", "ownerKind": "service", "ownerId": bob }),
        ];
        for body in bodies {
            let token = issue(&site, &session, &body).await.expect(200).token();
            let who = Call::get("/whoami").bearer(&token).send(&site).await.json();
            assert_eq!(who["id"], session.json()["user"]["id"]);
        }
        let bob = site.login("bob@example.com", PASSWORD).await;
        assert!(list(&site, &bob).await.is_empty());
    }
}

#[tokio::test]
async fn a_token_of_another_user_is_not_found() {
    for db in databases().await {
        let site = site(&db).await;
        site.register("bob@example.com").await;
        let (ann, bob) = (site.login_ann().await, site.login("bob@example.com", PASSWORD).await);
        let (token, id) = token_of(&site, &ann).await;
        let foreign = revoke(&site, &bob, &id).await.expect(404);
        let unknown = revoke(&site, &bob, "no-such-token").await.expect(404);
        assert_eq!(foreign.body, unknown.body, "nothing tells them apart");
        for odd in ["%00", "a%20b", "..%2f..", &"x".repeat(300)] {
            revoke(&site, &bob, odd).await.expect(404);
        }
        assert_eq!(super::who(&site, &token).await, "ApiToken");
        assert!(list(&site, &bob).await.is_empty());
        revoke(&site, &ann, &id).await.expect(204);
        revoke(&site, &ann, &id).await.expect(404);
        assert!(list(&site, &ann).await.is_empty());
        assert_eq!(super::who(&site, &token).await, "anonymous");
    }
}

#[tokio::test]
async fn creation_and_revocation_are_audited() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (token, id) = token_of(&site, &session).await;
        revoke(&site, &session, "no-such-token").await.expect(404);
        revoke(&site, &session, &id).await.expect(204);
        revoke(&site, &session, &id).await.expect(404);
        let ann = UserId::parse(session.json()["user"]["id"].as_str().unwrap()).unwrap();
        let events: Vec<_> =
            site.audit.events().into_iter().filter(|event| event.kind.name().starts_with("token.")).collect();
        let told: Vec<_> = events.iter().map(|event| (event.kind, Value::from(event.meta.clone()))).collect();
        assert_eq!(
            told,
            [
                (AuditKind::TokenCreated, json!({ "token": token[..12], "name": "CI" })),
                (AuditKind::TokenRevoked, json!({ "token_id": id })),
            ]
        );
        for event in events {
            assert_eq!(event.user_id.as_ref(), Some(&ann));
            assert_eq!(event.remote.unwrap().to_string(), "203.0.113.7");
        }
    }
}

/// Whatever else a caller has, a token is managed from a session.
#[tokio::test]
async fn only_a_session_manages_tokens() {
    for db in databases().await {
        let mut site = site(&db).await;
        let session = site.login_ann().await;
        let body = json!({ "name": "CI", "scopes": ["*:*"] });
        let issued = issue(&site, &session, &body).await.expect(200);
        let (token, id) = (issued.token(), issued.json()["id"].as_str().unwrap().to_owned());
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        let expires_at = site.ambient.now() + jiff::SignedDuration::from_hours(1);
        let put = from_fn(move |mut request: Request, next: Next| {
            if request.headers().contains_key("x-widget") {
                let grant = Grant {
                    surface: "widget".into(),
                    origin: "https://partner.example".into(),
                    scopes: ["*:*".parse().unwrap()].into_iter().collect(),
                    expires_at,
                };
                request.extensions_mut().insert(Identity::Known(Arc::new(Principal {
                    subject: Subject::User(ann.id.clone()),
                    email: None,
                    roles: ann.roles.clone(),
                    credential: Credential::Grant(grant),
                })));
            }
            next.run(request)
        });
        site.router = site.router.clone().layer(put);
        let credentials: [(&str, &str, Option<String>); 5] = [
            ("x-anonymous", "1", None),
            ("authorization", "a JWT", Some(session.token())),
            ("authorization", "an API token", Some(token.clone())),
            ("authorization", "a bad API token beside the cookie", Some(format!("svc_{}", "0".repeat(40)))),
            ("x-widget", "1", None),
        ];
        for (header, what, bearer) in credentials {
            let dress = |call: Call| match &bearer {
                Some(bearer) => call.bearer(bearer).cookie_of(&session),
                None if header == "x-widget" => call.header(header, what).cookie_of(&session),
                None => call,
            };
            let calls = [
                Call::post("/auth/tokens").json(&body),
                Call::get("/auth/tokens"),
                Call::new(Method::DELETE, &format!("/auth/tokens/{id}")),
            ];
            for call in calls {
                let answer = dress(call).send(&site).await.expect(401);
                let refused = what.starts_with("a bad");
                let challenge = if refused { "Bearer error=\"invalid_token\"" } else { "Bearer" };
                assert_eq!(answer.headers["www-authenticate"], challenge, "{what}");
            }
        }
        assert_eq!(list(&site, &session).await.len(), 1, "nothing was issued and nothing revoked");
    }
}

#[tokio::test]
async fn keys_are_spelled_in_the_configured_case() {
    for db in databases().await {
        let mut site = site(&db).await;
        let session = site.login_ann().await;
        let put = from_fn(move |mut request: Request, next: Next| {
            request.extensions_mut().insert(JsonCase::Snake);
            next.run(request)
        });
        site.router = site.router.clone().layer(put);
        let issued = issue(&site, &session, &json!({ "name": "CI", "ttlSeconds": 60 })).await.expect(200).json();
        assert!(issued["expires_at"].is_string(), "{issued}");
        let listed = list(&site, &session).await.remove(0);
        for key in ["created_at", "expires_at", "last_used_at"] {
            assert!(listed.as_object().unwrap().contains_key(key), "{listed}");
        }
    }
}

#[tokio::test]
async fn tokens_per_owner_are_limited() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let (_, id) = token_of(&site, &session).await;
        fill(&db, &id, 499).await;
        let refused = issue(&site, &session, &json!({ "name": "one too many" })).await.expect(409);
        assert!(refused.detail().contains("500"), "{refused:?}");
        revoke(&site, &session, &id).await.expect(204);
        issue(&site, &session, &json!({ "name": "one more" })).await.expect(200);

        // Ended ones do not count.
        issue(&site, &session, &json!({ "name": "one too many" })).await.expect(409);
        let ended = gatewright_db::params![site.ambient.now()];
        db.db.execute("UPDATE api_tokens SET expires_at = ?1 WHERE id LIKE 't%'", ended).await.unwrap();
        site.advance(1);
        issue(&site, &session, &json!({ "name": "after them" })).await.expect(200);
        let names: Vec<_> = list(&site, &session).await.iter().map(|token| token["name"].clone()).collect();
        assert_eq!(names, ["after them", "one more"]);
    }
}
