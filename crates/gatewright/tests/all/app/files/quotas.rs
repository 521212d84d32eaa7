//! How many bytes a caller may have.

use futures_util::future::join_all;
use http::Method;
use serde_json::json;

use super::{ENTITIES, WithFiles, form, named, upload, uploaded};

#[tokio::test]
async fn parallel_uploads_do_not_exceed_a_quota() {
    for with in WithFiles::on_every_engine("quota_per_user_bytes = 5000", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let bytes = vec![b'a'; 1000];
        let answers = join_all((0..20).map(|_| upload(&ann, "a", &bytes))).await;
        let stored = answers.iter().filter(|answer| answer.status() == 201).count();
        assert_eq!(stored, 5, "{}", with.app.engine());
        assert!(answers.iter().all(|answer| matches!(answer.status(), 201 | 413)));
        let refused = answers.into_iter().find(|answer| answer.status() == 413).unwrap();
        assert_eq!(refused.at("/code"), "quota_exceeded");
        let bob = with.app.signed_in("bob@example.com").await;
        upload(&bob, "a", &bytes).await.is(201);
    }
}

#[tokio::test]
async fn what_is_removed_is_free_again_and_the_trash_counts() {
    for with in WithFiles::on_every_engine("quota_per_user_bytes = 1000", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a", &[b'a'; 800]).await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data/id");
        let path = format!("/tickets/{}", ticket.as_str().unwrap());
        ann.delete(&path).await.is(204);
        upload(&ann, "b", &[b'b'; 300]).await.is(413);
        ann.post(&format!("{path}/_restore"), json!({})).await.is(200);
        ann.patch(&path, json!({ "attachments": [] })).await.is(200);
        upload(&ann, "b", &[b'b'; 300]).await.is(201);
    }
}

#[tokio::test]
async fn what_is_not_attached_has_a_limit_of_its_own() {
    for with in WithFiles::on_every_engine("staged_per_user_bytes = 1000", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a", &[b'a'; 900]).await;
        assert_eq!(upload(&ann, "b", &[b'b'; 200]).await.is(413).at("/code"), "quota_exceeded");
        ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201);
        upload(&ann, "b", &[b'b'; 200]).await.is(201);
    }
}

#[tokio::test]
async fn anonymous_bytes_count_for_each_network_and_day() {
    for with in WithFiles::on_every_engine("anonymous_bytes_per_day = 1000", ENTITIES).await {
        let from = |address: &str| with.app.anonymous().from_address(address.parse().unwrap());
        let file = [b'a'; 400];
        let send =
            async |address: &str| form(&from(address), Method::POST, "/drops", &[("file", Some("a"), &file)]).await;
        let answers = join_all((0..20).map(|_| send("192.0.2.1"))).await;
        assert!(answers.iter().filter(|answer| answer.status() == 201).count() <= 2, "{}", with.app.engine());
        assert_eq!(send("192.0.2.1").await.is(413).at("/code"), "quota_exceeded");
        send("198.51.100.1").await.is(201);
        with.app.wait(jiff::SignedDuration::from_hours(24));
        send("192.0.2.1").await.is(201);
    }
}

#[tokio::test]
async fn without_free_space_uploads_are_refused_for_a_while() {
    let toml = ENTITIES;
    for with in WithFiles::on_every_engine("", toml).await {
        drop(with);
    }
    let folder = tempfile::tempdir().unwrap();
    let toml =
        format!("[storage]\npath = \"{}\"\nreserve_bytes = 9000000000000000000\n{ENTITIES}", folder.path().display());
    for app in gatewright_testing::TestApp::on_every_engine(&toml).await {
        let ann = app.signed_in("ann@example.com").await;
        let refused = upload(&ann, "a", b"a").await.is(503);
        assert_eq!(refused.at("/code"), "storage_full");
        assert!(refused.header("retry-after").is_some());
    }
}
