use gatewright_testing::TestApp;
use jiff::SignedDuration;
use serde_json::json;

const BLOG: &str = include_str!("../../../../examples/blog.toml");

#[tokio::test]
async fn a_write_reaches_only_its_owners_other_window() {
    for app in TestApp::on_every_engine(BLOG).await {
        let ada = app.signed_in("ada@example.com").await;
        let bob = app.with_jwt("bob@example.com").await;
        let mut seen_by_ada = ada.watch("posts").await;
        let mut seen_by_bob = bob.watch("posts").await;

        let created = ada.post("/posts", json!({ "title": "Ada's" })).await.is(201);
        let path = created.header("location").unwrap().to_owned();
        let (name, event) = seen_by_ada.next().await.unwrap();
        assert_eq!(
            (name.as_str(), &event["data"]["record"]),
            ("entity.created", &created.at("/data")),
            "{}",
            app.engine()
        );

        bob.get(&path).await.is(404);
        bob.patch(&path, json!({ "title": "mine now" })).await.is(404);
        bob.delete(&path).await.is(404);
        app.anonymous().get("/posts").await.is(401);
        assert_eq!(bob.get("/posts").await.is(200).at("/total"), json!(0));

        // The first event that Bob gets is his own, so Ada's did not come.
        bob.post("/posts", json!({ "title": "Bob's" })).await.is(201);
        let (_, event) = seen_by_bob.next().await.unwrap();
        assert_eq!(event["data"]["record"]["title"], "Bob's");

        ada.patch(&path, json!({ "title": "Changed" })).await.is(200);
        assert_eq!(seen_by_ada.next().await.unwrap().0, "entity.updated");
        ada.delete(&path).await.is(204);
        let (name, event) = seen_by_ada.next().await.unwrap();
        assert_eq!((name.as_str(), event["data"]["record"]["title"].as_str()), ("entity.deleted", Some("Changed")));
    }
}

#[tokio::test]
async fn a_session_lasts_seven_days_and_a_jwt_an_hour() {
    for app in TestApp::on_every_engine(BLOG).await {
        let ada = app.signed_in("ada@example.com").await;
        let bob = app.with_jwt("bob@example.com").await;
        app.wait(SignedDuration::from_mins(59));
        ada.get("/auth/me").await.is(200);
        bob.get("/auth/me").await.is(200);
        app.wait(SignedDuration::from_mins(2));
        ada.get("/auth/me").await.is(200);
        bob.get("/auth/me").await.is(401);
        app.wait(SignedDuration::from_hours(7 * 24));
        ada.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn a_cookie_from_before_the_sign_out_is_refused() {
    for app in TestApp::on_every_engine(BLOG).await {
        let mut ada = app.signed_in("ada@example.com").await;
        let thief = ada.clone();
        ada.sign_out().await.is(204);
        let left: Vec<_> = ada.cookies().keys().collect();
        assert_eq!(left, ["svc_device"], "the browser stays known to the account, which opens nothing");
        thief.get("/auth/me").await.is(401);
        thief.get("/posts").await.is(401);
    }
}

#[tokio::test]
async fn a_browser_sign_in_ends_at_a_page_that_confirms_it() {
    for app in TestApp::on_every_engine(BLOG).await {
        let anonymous = app.anonymous().get("/").await.is(200);
        assert!(anonymous.text().contains("href=\"/login\""));
        let ada = app.signed_in("ada@example.com").await;
        let page = ada.get("/").await.is(200);
        assert!(page.text().contains("Signed in as ada@example.com"), "{}: {}", app.engine(), page.text());
        assert!(page.header("content-security-policy").is_some());
    }
}
