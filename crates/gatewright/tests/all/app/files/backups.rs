//! Backups with files, while records lose theirs.

use std::time::Duration;

use axum::body::Body;
use gatewright_testing::TestApp;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::super::admin::operator;
use super::stores::{bucket, s3_server};
use super::{ENTITIES, WithFiles, named, uploaded};

/// The part of a tar with this name.
fn entry<'a>(tar: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = tar;
    while rest.len() > 512 && rest[0] != 0 {
        let found = rest[..100].split(|byte| *byte == 0).next().unwrap();
        let size = std::str::from_utf8(&rest[124..135]).unwrap();
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).unwrap();
        if found == name.as_bytes() {
            return Some(&rest[512..512 + size]);
        }
        rest = &rest[512 + size.div_ceil(512) * 512..];
    }
    None
}

#[tokio::test]
async fn files_that_are_deleted_while_a_backup_is_downloaded_are_in_it() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let operator = operator(&with.app).await;
        if with.app.engine() == "postgres" {
            assert_eq!(operator.get("/admin/api/backup").await.is(409).at("/code"), "unsupported");
            continue;
        }
        let id = uploaded(&operator, "a", b"kept").await;
        let ticket = operator.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data/id");
        let request = operator.request(Method::GET, "/admin/api/backup").body(Body::empty()).unwrap();
        let answer = with.app.app().router().oneshot(request).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["content-type"]),
            (200, &"application/x-tar".parse().unwrap())
        );
        let size: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
        let path = format!("/tickets/{}", ticket.as_str().unwrap());
        operator.patch(&path, json!({ "attachments": [] })).await.is(200);
        // Longer than two sweeps.
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(with.has_bytes(&id), "it is held");
        let tar = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(tar.len(), size);
        assert_eq!(entry(&tar, &format!("files/{id}")), Some(&b"kept"[..]));
        assert!(entry(&tar, "database.db").unwrap().starts_with(b"SQLite format 3"));
        let manifest: serde_json::Value = serde_json::from_slice(entry(&tar, "manifest.json").unwrap()).unwrap();
        assert_eq!((&manifest["files"][0]["id"], &manifest["missing"]), (&json!(id), &json!([])));
        // And not for longer.
        with.loses(&id).await;
        operator.get("/admin/api/backup?filez=true").await.is(400);
    }
}

#[tokio::test]
async fn files_in_a_bucket_are_in_a_backup_only_if_it_is_asked_for_them() {
    let (objects, endpoint) = s3_server().await;
    for app in TestApp::on_every_engine(&bucket(&endpoint, ENTITIES)).await {
        if app.engine() == "postgres" {
            continue;
        }
        let operator = operator(&app).await;
        let (id, lost) = (uploaded(&operator, "a", b"in a bucket").await, uploaded(&operator, "b", b"lost").await);
        let body = json!({ "attachments": [named(&id), named(&lost)] });
        operator.post("/tickets", body).await.is(201);
        objects.lock().remove(&format!("of/tests/{}/{lost}", &lost[34..])).unwrap();
        let without = operator.get("/admin/api/backup").await.is(200);
        assert!(without.bytes().starts_with(b"SQLite format 3"));
        let with = operator.get("/admin/api/backup?files=true").await.is(200);
        assert_eq!(entry(with.bytes(), &format!("files/{id}")), Some(&b"in a bucket"[..]));
        let manifest: serde_json::Value =
            serde_json::from_slice(entry(with.bytes(), "manifest.json").unwrap()).unwrap();
        assert_eq!(manifest["missing"], json!([lost]), "what the store has lost is named");
    }
}
