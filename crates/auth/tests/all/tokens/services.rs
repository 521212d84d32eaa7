use gatewright_auth::service_accounts::ServiceAccountError;
use gatewright_auth::tokens::{TokenDraft, TokenError};
use gatewright_base::{ServiceId, Subject, UserId};

use super::{kind, list, site, who};
use crate::support::{ANN, Call, databases};

fn draft() -> TokenDraft {
    TokenDraft::parse("deploys", &["posts:write"], 0).unwrap()
}

#[tokio::test]
async fn a_service_account_authenticates_only_by_token() {
    for db in databases().await {
        let site = site(&db).await;
        let (tokens, services) = (site.auth.api_tokens().unwrap(), site.auth.service_accounts().unwrap());
        let robot = services.create(" CI robot ", ["editor"].into_iter().collect()).await.unwrap();
        assert_eq!((robot.name.as_str(), robot.disabled), ("CI robot", false));
        let issued = tokens.issue(Subject::Service(robot.id.clone()), draft()).await.unwrap();
        let token = issued.plaintext.expose();
        let whoami = Call::get("/whoami").bearer(token).send(&site).await.expect(200).json();
        assert_eq!(whoami["id"], robot.id.as_str());
        assert_eq!(whoami["roles"], serde_json::json!(["editor"]));
        assert_eq!(kind(&Call::get("/whoami").bearer(token).send(&site).await), "ApiToken");
        Call::get("/auth/me").bearer(token).send(&site).await.expect(401);

        services.disable(&robot.id).await.unwrap();
        assert!(services.find("CI robot").await.unwrap().disabled);
        assert_eq!(who(&site, token).await, "anonymous");
        services.enable(&robot.id).await.unwrap();
        assert_eq!(who(&site, token).await, "ApiToken");
        assert!(tokens.revoke(&issued.token.id).await.unwrap());
        assert_eq!(who(&site, token).await, "anonymous");
    }
}

#[tokio::test]
async fn names_are_unique_and_one_line() {
    for db in databases().await {
        let site = site(&db).await;
        let services = site.auth.service_accounts().unwrap();
        let none = || [""; 0].into_iter().collect();
        for name in ["b", "a"] {
            services.create(name, none()).await.unwrap();
        }
        assert!(matches!(services.create(" a", none()).await, Err(ServiceAccountError::NameTaken)));
        for bad in ["", " ", "a\nb", &"x".repeat(101)] {
            assert!(matches!(services.create(bad, none()).await, Err(ServiceAccountError::Name(_))), "{bad:?}");
        }
        let names: Vec<_> = services.list().await.unwrap().into_iter().map(|account| account.name).collect();
        assert_eq!(names, ["a", "b"]);
        let unknown = ServiceId::parse("nobody").unwrap();
        assert!(matches!(services.disable(&unknown).await, Err(ServiceAccountError::NotFound)));
        assert!(matches!(services.find("nobody").await, Err(ServiceAccountError::NotFound)));
    }
}

#[tokio::test]
async fn no_route_manages_service_accounts_or_users() {
    for db in databases().await {
        let site = site(&db).await;
        let session = site.login_ann().await;
        for path in ["service-accounts", "service_accounts", "services", "users", "tokens/all"] {
            let answer = Call::get(&format!("/auth/{path}")).cookie_of(&session).send(&site).await;
            assert!(answer.status == 404 || answer.status == 405, "{path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_token_is_issued_only_for_an_existing_owner() {
    for db in databases().await {
        let site = site(&db).await;
        let tokens = site.auth.api_tokens().unwrap();
        let unknown = [Subject::User(UserId::parse("x").unwrap()), Subject::Service(ServiceId::parse("x").unwrap())];
        for owner in unknown {
            assert!(matches!(tokens.issue(owner, draft()).await, Err(TokenError::OwnerMissing)));
        }
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        let before = site.audit.events().len();
        let issued = tokens.issue(Subject::User(ann.id.clone()), draft()).await.unwrap();
        assert_eq!(site.audit.events().len(), before, "the program's own doing is not audited");
        assert_eq!(who(&site, issued.plaintext.expose()).await, "ApiToken");
        let session = site.login_ann().await;
        assert_eq!(list(&site, &session).await.len(), 1, "its owner sees it");
        assert_eq!(tokens.list(None).await.unwrap().len(), 1);
        let of_ann = tokens.list(Some(&Subject::User(ann.id))).await.unwrap();
        assert_eq!((of_ann.len(), &of_ann[0].id), (1, &issued.token.id));
    }
}

/// An id says nothing of its kind, and hosts choose their own.
#[tokio::test]
async fn a_user_and_a_service_account_of_one_id_are_not_confused() {
    for db in databases().await {
        let site = site(&db).await;
        let tokens = site.auth.api_tokens().unwrap();
        let session = site.login_ann().await;
        let ann = session.json()["user"]["id"].as_str().unwrap().to_owned();
        let robot =
            site.auth.service_accounts().unwrap().create("robot", ["robot"].into_iter().collect()).await.unwrap();
        let issued = tokens.issue(Subject::Service(robot.id.clone()), draft()).await.unwrap();
        for table in ["service_accounts SET id", "api_tokens SET owner_id"] {
            db.db.execute(format!("UPDATE {table} = ?1"), vec![ann.as_str().into()]).await.unwrap();
        }
        let whoami = Call::get("/whoami").bearer(issued.plaintext.expose()).send(&site).await.json();
        assert_eq!(whoami["roles"], serde_json::json!(["robot"]));
        assert!(list(&site, &session).await.is_empty());
        super::revoke(&site, &session, issued.token.id.as_str()).await.expect(404);
    }
}
