//! Changes of an owner or a token apply from the next request on, and to open streams.

use gatewright_base::{Identity, Presented, Subject};
use gatewright_db::params;
use jiff::SignedDuration;

use super::{issue, revoke, site, token_of};
use crate::support::{ANN, Answer, Call, Site, databases};

/// The roles of each credential now, or `unknown`: by a request, and by a recheck of an earlier one.
async fn seen(site: &Site, calls: &[(&'static str, String)], before: &[Presented]) -> Vec<String> {
    let mut all = Vec::new();
    for (kind, credential) in calls {
        let who = call(kind, credential).send(site).await.expect(200).json();
        all.push(who["roles"].as_array().map_or("nobody".to_owned(), |roles| format!("{roles:?}")));
    }
    for presented in before {
        all.push(match presented.0.again().await.unwrap() {
            Identity::Known(principal) => format!("{:?}", principal.roles.iter().collect::<Vec<_>>()),
            _ => "nobody".to_owned(),
        });
    }
    all.iter().map(|roles| roles.replace("String(", "").replace(')', "")).collect()
}

fn call(kind: &str, credential: &str) -> Call {
    match kind {
        "session" => Call::get("/whoami").cookie(credential),
        _ => Call::get("/whoami").bearer(credential),
    }
}

/// Ann's session, JWT and API token, and what each left behind for streams.
async fn all_of_ann(site: &Site) -> (Answer, Vec<(&'static str, String)>, Vec<Presented>) {
    let session = site.login_ann().await;
    let token = token_of(site, &session).await.0;
    let calls = vec![("session", session.cookie().unwrap()), ("jwt", session.token()), ("token", token)];
    let mut before = Vec::new();
    for (kind, credential) in &calls {
        call(kind, credential).send(site).await.expect(200);
        before.push(site.presented.lock().clone().unwrap());
    }
    (session, calls, before)
}

#[tokio::test]
async fn role_changes_apply_to_tokens_at_once() {
    for db in databases().await {
        let site = site(&db).await;
        let (_, calls, before) = all_of_ann(&site).await;
        assert_eq!(seen(&site, &calls, &before).await, vec![r#"["user"]"#; 6]);
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.set_roles(&ann.id, &["editor"].into_iter().collect()).await.unwrap();
        assert_eq!(seen(&site, &calls, &before).await, vec![r#"["editor"]"#; 6], "{}", db.name);
    }
}

#[tokio::test]
async fn credentials_of_a_deleted_user_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let (_, calls, before) = all_of_ann(&site).await;
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        db.db.execute("DELETE FROM users WHERE id = ?1", params![&ann.id]).await.unwrap();
        assert_eq!(seen(&site, &calls, &before).await, vec!["nobody"; 6], "{}", db.name);
    }
}

#[tokio::test]
async fn revoking_a_token_ends_only_that_token() {
    for db in databases().await {
        let site = site(&db).await;
        let (session, calls, before) = all_of_ann(&site).await;
        let id = super::list(&site, &session).await[0]["id"].as_str().unwrap().to_owned();
        revoke(&site, &session, &id).await.expect(204);
        let user = r#"["user"]"#;
        assert_eq!(seen(&site, &calls, &before).await, [user, user, "nobody", user, user, "nobody"], "{}", db.name);
    }
}

#[tokio::test]
async fn signing_out_everywhere_keeps_api_tokens() {
    for db in databases().await {
        let site = site(&db).await;
        let (_, calls, before) = all_of_ann(&site).await;
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        site.auth.accounts().sign_out_everywhere(&ann.id).await.unwrap();
        let user = r#"["user"]"#;
        assert_eq!(
            seen(&site, &calls, &before).await,
            ["nobody", "nobody", user, "nobody", "nobody", user],
            "{}",
            db.name
        );
    }
}

#[tokio::test]
async fn a_token_expires_at_its_time() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        let body = serde_json::json!({ "name": "CI", "ttl_seconds": 60 });
        let calls = vec![("token", issue(&site, &session, &body).await.expect(200).token())];
        assert_eq!(seen(&site, &calls, &[]).await, [r#"["user"]"#]);
        let before = vec![site.presented.lock().clone().unwrap()];
        site.clock.advance(SignedDuration::from_micros(59_999_999));
        assert_eq!(seen(&site, &calls, &before).await, vec![r#"["user"]"#; 2]);
        site.clock.advance(SignedDuration::from_micros(1));
        assert_eq!(seen(&site, &calls, &before).await, ["nobody", "nobody"], "{}", db.name);
    }
}

#[tokio::test]
async fn tokens_of_a_disabled_service_account_are_refused() {
    for db in databases().await {
        let site = site(&db).await;
        let (tokens, services) = (site.auth.api_tokens().unwrap(), site.auth.service_accounts().unwrap());
        let robot = services.create("robot", ["editor"].into_iter().collect()).await.unwrap();
        let draft = gatewright_auth::tokens::TokenDraft::parse("robot", &[""; 0], 0).unwrap();
        let issued = tokens.issue(Subject::Service(robot.id.clone()), draft).await.unwrap();
        let calls = vec![("token", issued.plaintext.expose().to_owned())];
        assert_eq!(seen(&site, &calls, &[]).await, [r#"["editor"]"#]);
        let before = vec![site.presented.lock().clone().unwrap()];
        let failures = || site.audited().iter().filter(|kind| kind.name() == "token.auth_failed").count();
        services.disable(&robot.id).await.unwrap();
        assert_eq!(seen(&site, &[], &before).await, ["nobody"], "{}", db.name);
        assert_eq!(failures(), 0, "a stream that looks again is not an attempt");
        assert_eq!(seen(&site, &calls, &before).await, ["nobody", "nobody"], "{}", db.name);
        assert_eq!(failures(), 1);
        services.enable(&robot.id).await.unwrap();
        assert_eq!(seen(&site, &calls, &before).await, vec![r#"["editor"]"#; 2]);
    }
}
