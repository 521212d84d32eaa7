//! Events of accounts, tenants and members: what is staged at every door, in the transaction of the change.

use std::collections::HashSet;

use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use serde_json::{Value, json};

const PASSWORD: &str = "correct horse battery";

const CONFIGURATION: &str = r#"
[outbox]
enabled = true
[auth]
guests = true
[tenancy]
self_service = true
[[auth.profile.field]]
name = "display_name"
type = "string"
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "name"
type = "string"
"#;

/// What was staged since the last look, of each subject in its order: types and data.
async fn told(app: &TestApp, seen: &mut HashSet<String>) -> Vec<(String, Value)> {
    let sql = "SELECT id, type, payload, record_key FROM event_outbox ORDER BY record_key, position";
    let rows = app.app().db().query(sql, vec![]).await.unwrap();
    let new = rows.iter().filter(|row| seen.insert(row.get("id").unwrap()));
    let new: Vec<(String, Value)> = new
        .map(|row| {
            let payload: String = row.get("payload").unwrap();
            assert!(row.get::<Option<String>>("record_key").unwrap().is_some(), "{payload}");
            for secret in ["password", "hash", "secret", "token"] {
                assert!(!payload.contains(secret), "{payload}");
            }
            (row.get("type").unwrap(), serde_json::from_str(&payload).unwrap())
        })
        .collect();
    new
}

async fn types(app: &TestApp, seen: &mut HashSet<String>) -> Vec<String> {
    told(app, seen).await.into_iter().map(|(event, _)| event).collect()
}

/// The token of the newest mail to an address.
async fn mailed(actor: &Actor, email: &str, name: &str) -> String {
    loop {
        let mails = actor.get("/dev/mail.json").await.is(200).json();
        let mail = mails.as_array().unwrap().iter().find(|mail| mail["to"] == email).cloned();
        let link = mail.and_then(|mail| url::Url::parse(mail["links"][0].as_str()?).ok());
        if let Some(token) = link.and_then(|link| Some(link.query_pairs().find(|(key, _)| key == name)?.1.into_owned()))
        {
            return token;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_happens_to_an_account_is_told_once_and_without_credentials() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let (mut seen, email) = (HashSet::new(), "ann@example.com");
        let mut ann = app.anonymous();
        let registered = json!({ "email": email, "password": PASSWORD, "profile": { "displayName": "Ann" } });
        let id = ann.post("/auth/register", registered).await.is(200).at("/user/id");
        let events = told(&app, &mut seen).await;
        let user = events[0].1["user"].clone();
        assert_eq!((events.len(), &*events[0].0), (1, "user.created"), "{}: registering is no sign-in", app.engine());
        let expected = json!({
            "id": id, "email": email, "emailVerified": false, "roles": user["roles"], "disabled": false,
            "createdAt": user["createdAt"], "profile": { "displayName": "Ann" },
        });
        assert_eq!(user, expected);
        ann.post("/auth/login", json!({ "email": email, "password": "wrong horse battery" })).await.is(401);
        assert_eq!(types(&app, &mut seen).await, Vec::<String>::new(), "a refused sign-in");
        ann.sign_in(email).await;
        assert_eq!(types(&app, &mut seen).await, ["user.signed_in"]);
        ann.patch("/auth/me", json!({ "profile": { "displayName": "Anna" } })).await.is(200);
        let events = told(&app, &mut seen).await;
        assert_eq!((events.len(), &events[0].1["user"]["profile"]["displayName"]), (1, &json!("Anna")));
        ann.patch("/auth/me", json!({ "profile": { "displayName": "Anna" } })).await.is(200);
        assert_eq!(types(&app, &mut seen).await, Vec::<String>::new(), "nothing has changed");
        let changed = json!({ "current_password": PASSWORD, "password": "another horse battery" });
        let changed = ann.post("/auth/change-password", changed).await.is(200);
        ann.keep_cookies(&changed);
        assert_eq!(types(&app, &mut seen).await, Vec::<String>::new(), "neither a password nor a renewed session");
        ann.post("/auth/send-verification", json!({})).await.is(200);
        let token = mailed(&ann, email, "token").await;
        ann.post("/auth/verify-email", json!({ "token": token })).await.is(200);
        assert_eq!(types(&app, &mut seen).await, ["user.verified"]);

        let accounts = app.app().auth().unwrap().accounts();
        let user_id = app.user_id(email).await;
        accounts.set_roles(&user_id, &["admin"].into_iter().collect()).await.unwrap();
        accounts.set_roles(&user_id, &["admin"].into_iter().collect()).await.unwrap();
        let events = told(&app, &mut seen).await;
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].1["user"]["roles"], json!(["admin"]));
        accounts.disable(&user_id).await.unwrap();
        accounts.disable(&user_id).await.unwrap();
        accounts.enable(&user_id).await.unwrap();
        assert_eq!(types(&app, &mut seen).await, ["user.disabled", "user.enabled"]);
        accounts.delete(&user_id).await.unwrap();
        let events = told(&app, &mut seen).await;
        let (last, user) = events.last().map(|(event, data)| (event.clone(), data["user"].clone())).unwrap();
        assert_eq!((&*last, &user), ("user.deleted", &json!({ "id": id })), "{events:?}");
    }
}

#[tokio::test]
async fn a_magic_link_that_makes_an_account_and_a_guest_that_becomes_one_are_told() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let mut seen = HashSet::new();
        let anyone = app.anonymous();
        anyone.post("/auth/magic-link/send", json!({ "email": "new@example.com" })).await.is(200);
        let token = mailed(&anyone, "new@example.com", "token").await;
        anyone.post("/auth/magic-link/verify", json!({ "token": token })).await.is(200);
        assert_eq!(
            types(&app, &mut seen).await,
            ["user.created", "user.verified", "user.signed_in"],
            "{}",
            app.engine()
        );

        let mut guest = app.anonymous();
        let answer = guest.post("/auth/anonymous", json!({})).await.is(200);
        guest.keep_cookies(&answer);
        let events = told(&app, &mut seen).await;
        assert_eq!(events[0].0, "user.created");
        assert_eq!(events[0].1["user"]["email"], Value::Null, "the reserved address of a guest is not shown");
        let full = json!({ "email": "full@example.com", "password": PASSWORD });
        guest.post("/auth/register", full).await.is(200);
        let events = told(&app, &mut seen).await;
        assert_eq!((&*events[0].0, &events[0].1["user"]["email"]), ("user.updated", &json!("full@example.com")));
    }
}

#[tokio::test]
async fn tenants_and_members_are_told() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let mut seen = HashSet::new();
        let (ann, ben) = (app.signed_in("ann@example.com").await, app.signed_in("ben@example.com").await);
        let ben_id = app.user_id("ben@example.com").await;
        types(&app, &mut seen).await;
        let tenant = ann.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).at("/id");
        let events = told(&app, &mut seen).await;
        let names: Vec<&str> = events.iter().map(|(event, _)| &**event).collect();
        assert_eq!(names, ["tenant.created", "member.added"], "{}", app.engine());
        assert_eq!(events[0].1, json!({ "tenant": { "id": tenant, "name": "Acme" } }));
        assert_eq!(events[1].1["member"]["roles"], json!(["owner"]));
        let members = format!("/auth/tenants/{}/members", tenant.as_str().unwrap());
        ann.post(&members, json!({ "email": "ben@example.com", "roles": ["member"] })).await.is(201);
        assert_eq!(types(&app, &mut seen).await, Vec::<String>::new(), "an invitation is no membership");
        let invite = mailed(&ben, "ben@example.com", "invite").await;
        ben.post("/auth/invitations/accept", json!({ "invite": invite })).await.is(200);
        let events = told(&app, &mut seen).await;
        let added = events.iter().find(|(event, _)| event == "member.added").unwrap();
        let expected = json!({ "kind": "user", "id": ben_id.as_str(), "roles": ["member"] });
        assert_eq!((&added.1["member"], &added.1["tenant"]["id"]), (&expected, &tenant));
        let member = format!("{members}/{ben_id}");
        ann.patch(&member, json!({ "roles": ["admin"] })).await.is(200);
        ann.patch(&member, json!({ "roles": ["admin"] })).await.is(200);
        assert_eq!(types(&app, &mut seen).await, ["member.updated"]);
        ben.delete(&member).await.is(204);
        let events = told(&app, &mut seen).await;
        assert_eq!(
            (events.len(), &*events[0].0, &events[0].1["member"]["roles"]),
            (1, "member.removed", &json!(["admin"]))
        );
    }
}

/// What is not committed is not told: 20 registrations of one address are one account, and one event.
#[tokio::test]
async fn of_twenty_registrations_at_once_one_is_told() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let body = json!({ "email": "ann@example.com", "password": PASSWORD });
        let tries = (0..20).map(|_| async { app.anonymous().post("/auth/register", body.clone()).await.status() });
        let made = futures_util::future::join_all(tries).await.into_iter().filter(|status| *status == 200).count();
        assert_eq!(
            (made, types(&app, &mut HashSet::new()).await),
            (1, vec!["user.created".to_owned()]),
            "{}",
            app.engine()
        );
        let users = app.app().db().query("SELECT id FROM users", params![]).await.unwrap();
        assert_eq!(users.len(), 1);
    }
}
