//! Tickets for event streams: what a ticket opens, once, and what it does not.

use std::time::Duration;

use gatewright::auth::tokens::TokenDraft;
use gatewright::base::{Roles, Subject};
use gatewright_testing::{Actor, TestApp};
use jiff::SignedDuration;
use serde_json::json;

const CONFIG: &str = concat!(
    r#"
[events]
heartbeat_seconds = 1
"#,
    entity!(owned "notes" "title"),
    entity!(public "posts" "title"),
);

async fn ticket(actor: &Actor) -> String {
    let made = actor.post("/auth/stream-ticket", json!({})).await.is(200).json();
    assert_eq!(made["expiresIn"], 30);
    made["ticket"].as_str().unwrap().to_owned()
}

/// The status of a stream that is opened only with the ticket.
async fn status(actor: &Actor, path: &str) -> u16 {
    match actor.open(path).await {
        Ok(_) => 200,
        Err(answer) => answer.status(),
    }
}

#[tokio::test]
async fn a_ticket_opens_one_stream_as_its_creator() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let ada = app.signed_in("ada@example.com").await;
        let ben = app.with_jwt("ben@example.com").await;
        let anybody = app.anonymous();
        let made = ticket(&ada).await;
        let path = format!("/notes/_events?ticket={made}");
        let mut stream = anybody.open(&path).await.unwrap_or_else(|answer| panic!("{}", answer.text()));
        ben.post("/notes", json!({ "title": "of ben" })).await.is(201);
        ada.post("/notes", json!({ "title": "of ada" })).await.is(201);
        let event = stream.next().await;
        assert!(format!("{event:?}").contains("of ada"), "{event:?}");
        // It is spent, and Ben's works only for a stream.
        let refused = anybody.open(&path).await.err().unwrap();
        assert_eq!((refused.status(), refused.at("/code")), (401, json!("invalid_ticket")));
        let of_ben = ticket(&ben).await;
        anybody.get(&format!("/notes?ticket={of_ben}")).await.is(401);
        // Ada's browser sends its cookie along; the ticket counts.
        let mut stream = ada.open(&format!("/notes/_events?ticket={of_ben}")).await.ok().unwrap();
        ada.post("/notes", json!({ "title": "second of ada" })).await.is(201);
        ben.post("/notes", json!({ "title": "second of ben" })).await.is(201);
        let event = stream.next().await;
        assert!(format!("{event:?}").contains("second of ben"), "{event:?} on {}", app.engine());
    }
}

#[tokio::test]
async fn a_ticket_works_once_for_half_a_minute_and_no_longer_than_its_credential() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let mut ada = app.signed_in("ada@example.com").await;
        let anybody = app.anonymous();
        let opens = async |ticket: &str| status(&anybody, &format!("/notes/_events?ticket={ticket}")).await;
        // One of twenty parallel requests with it succeeds.
        let raced = ticket(&ada).await;
        let racing: Vec<_> = (0..20)
            .map(|_| {
                let (anybody, path) = (anybody.clone(), format!("/notes/_events?ticket={raced}"));
                tokio::spawn(async move { status(&anybody, &path).await })
            })
            .collect();
        let mut opened = Vec::new();
        for racer in racing {
            opened.push(racer.await.unwrap());
        }
        opened.sort_unstable();
        assert_eq!(opened, [&[200][..], &[401; 19]].concat(), "{}", app.engine());

        let late = ticket(&ada).await;
        app.wait(SignedDuration::from_secs(30));
        assert_eq!(opens(&late).await, 401);
        let spent = ticket(&ada).await;
        assert_eq!(status(&anybody, &format!("/notes/_events?ticket={spent}&filter=%28")).await, 400);
        assert_eq!(opens(&spent).await, 401, "an open that failed has spent it");
        for malformed in ["", "x", "%00", &"A".repeat(43), &"A".repeat(10_000)] {
            assert_eq!(opens(malformed).await, 401, "{malformed}");
            let public = format!("/posts/_events?ticket={malformed}");
            assert_eq!(status(&anybody, &public).await, 401, "a bad ticket is not a public stream");
        }
        let twice = [ticket(&ada).await, ticket(&ada).await];
        assert_eq!(opens(&format!("{}&ticket={}", twice[0], twice[1])).await, 400);
        assert_eq!(opens(&twice[1]).await, 401);
        // Each costs a write, so not all of a long URL are spent.
        let thrice = [ticket(&ada).await, ticket(&ada).await, ticket(&ada).await];
        assert_eq!(opens(&thrice.join("&ticket=")).await, 400);
        assert_eq!((opens(&thrice[1]).await, opens(&thrice[2]).await), (401, 200));
        let ben = app.with_jwt("ben@example.com").await;
        let both = ticket(&ada).await;
        assert_eq!(status(&ben, &format!("/notes/_events?ticket={both}")).await, 400, "which one counts is not clear");

        let [before, open] = [ticket(&ada).await, ticket(&ada).await];
        let mut stream = anybody.open(&format!("/notes/_events?ticket={open}")).await.ok().unwrap();
        ada.sign_out().await.is(204);
        assert_eq!(opens(&before).await, 401, "the session that made it has ended");
        let ended =
            tokio::time::timeout(Duration::from_mins(1), async { while stream.next().await.is_some() {} }).await;
        assert!(ended.is_ok(), "and so does a stream that it opened, on {}", app.engine());
    }
}

#[tokio::test]
async fn a_ticket_has_the_scopes_of_its_token_and_needs_a_credential() {
    for app in TestApp::on_every_engine(CONFIG).await {
        let auth = app.app().auth().unwrap();
        let anybody = app.anonymous();
        let service = auth.service_accounts().unwrap().create("robot", Roles::default()).await.unwrap();
        let draft = TokenDraft::parse("narrow", &["posts:read"], 0).unwrap();
        let issued = auth.api_tokens().unwrap().issue(Subject::Service(service.id), draft).await.unwrap();
        let robot = app.anonymous().bearing(issued.plaintext.expose());
        assert_eq!(status(&anybody, &format!("/posts/_events?ticket={}", ticket(&robot).await)).await, 200);
        assert_eq!(status(&anybody, &format!("/notes/_events?ticket={}", ticket(&robot).await)).await, 403);
        let revoked = ticket(&robot).await;
        auth.api_tokens().unwrap().revoke(&issued.token.id).await.unwrap();
        assert_eq!(status(&anybody, &format!("/posts/_events?ticket={revoked}")).await, 401);

        anybody.post("/auth/stream-ticket", json!({})).await.is(401);
        robot.post("/auth/stream-ticket", json!({})).await.is(401);
        let ada = app.signed_in("ada@example.com").await;
        let other_site = ada.clone().sending("origin", "https://evil.example").sending("sec-fetch-site", "cross-site");
        other_site.post("/auth/stream-ticket", json!({})).await.is(403);
        let rows = "SELECT COUNT(*) AS rows FROM auth_stream_tickets";
        for _ in 0..120 {
            ticket(&ada).await;
        }
        ada.post("/auth/stream-ticket", json!({})).await.is(429);
        // Expired tickets are removed, by new ones and by the sweep.
        app.wait(SignedDuration::from_secs(31));
        auth.sweep().await;
        let left: i64 = app.app().db().query_opt(rows, vec![]).await.unwrap().unwrap().get("rows").unwrap();
        assert_eq!(left, 0, "{}", app.engine());
    }
}

const TENANTS: &str = entity!(multi_tenant "tasks" "title");

#[tokio::test]
async fn a_ticket_has_the_tenant_of_the_request_that_made_it() {
    for app in TestApp::on_every_engine(TENANTS).await {
        let registered = app.registered("ada@example.com").await;
        let ada = app.anonymous().bearing(registered["token"].as_str().unwrap());
        for tenant in ["acme", "globex"] {
            app.join("ada@example.com", tenant).await;
        }
        let anybody = app.anonymous();
        let acme = ada.clone().sending("x-tenant-id", "acme");
        let globex = ada.clone().sending("x-tenant-id", "globex");
        let mut stream = anybody.open(&format!("/tasks/_events?ticket={}", ticket(&acme).await)).await.ok().unwrap();
        globex.post("/tasks", json!({ "title": "elsewhere" })).await.is(201);
        acme.post("/tasks", json!({ "title": "here" })).await.is(201);
        let event = stream.next().await;
        assert!(format!("{event:?}").contains("here"), "{event:?}");
        let path = |ticket: &str, more: &str| format!("/tasks/_events?ticket={ticket}{more}");
        assert_eq!(status(&anybody, &path(&ticket(&acme).await, "&tenant=acme")).await, 200);
        assert_eq!(status(&anybody, &path(&ticket(&acme).await, "&tenant=globex")).await, 400);
        assert_eq!(status(&anybody, &path(&ticket(&ada).await, "&tenant=globex")).await, 200);
        assert_eq!(status(&anybody, &path(&ticket(&ada).await, "")).await, 400, "no tenant is named");
        let elsewhere = anybody.clone().sending("x-tenant-id", "globex");
        assert_eq!(status(&elsewhere, &path(&ticket(&acme).await, "")).await, 400, "{}", app.engine());
    }
}
