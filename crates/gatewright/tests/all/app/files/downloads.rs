//! Downloads: their rights, their headers, their parts.

use gatewright_testing::{Actor, Answer};
use http::Method;
use jiff::SignedDuration;
use serde_json::json;

use super::{ENTITIES, PNG, WithFiles, form, named, uploaded, url};

/// A request with a header.
async fn with_header(actor: &Actor, path: &str, name: &'static str, value: &str) -> Answer {
    actor.clone().sending(name, value).get(path).await
}

#[tokio::test]
async fn a_range_an_entity_tag_and_head_are_answered() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"0123456789").await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let path = url(&ticket["attachments"][0]);
        let all = ann.get(&path).await.is(200);
        let etag = all.header("etag").unwrap().to_owned();
        assert_eq!(all.header("accept-ranges"), Some("bytes"));
        assert_eq!(all.header("cache-control"), Some("private, no-cache"));
        let part = with_header(&ann, &path, "range", "bytes=2-4").await.is(206);
        assert_eq!((part.text(), part.header("content-range")), ("234", Some("bytes 2-4/10")));
        assert_eq!(with_header(&ann, &path, "range", "bytes=-3").await.is(206).text(), "789");
        let beyond = with_header(&ann, &path, "range", "bytes=10-").await.is(416);
        assert_eq!(beyond.header("content-range"), Some("bytes */10"));
        assert_eq!(with_header(&ann, &path, "range", "bytes=0-1,4-5").await.is(200).text(), "0123456789");
        with_header(&ann, &path, "if-none-match", &etag).await.is(304);
        let stale = ann.clone().sending("if-range", "\"other\"").sending("range", "bytes=2-4");
        assert_eq!(stale.get(&path).await.is(200).text(), "0123456789");
        let fresh = ann.clone().sending("if-range", &etag).sending("range", "bytes=2-4");
        assert_eq!(fresh.get(&path).await.is(206).text(), "234");
        let request = ann.request(Method::HEAD, &path).body(axum::body::Body::empty()).unwrap();
        let head = ann.send(request).await.is(200);
        assert_eq!((head.text(), head.header("content-length")), ("", Some("10")));
        ann.post(&path, json!({})).await.is(405);
    }
}

#[tokio::test]
async fn a_download_needs_the_rights_of_the_record_and_of_the_field() {
    let toml = r#"
        [tenancy.roles]
        member = ["cases:*"]
        [[entity]]
        name = "cases"
        multi_tenant = true
        [[entity.field]]
        name = "paper"
        type = "file"
        read = "@roles has 'reader'"
        write = "true"
        [[entity.field]]
        name = "note"
        type = "file"
    "#;
    for with in WithFiles::on_every_engine("", toml).await {
        let mut ann = with.app.signed_in("ann@example.com").await;
        with.app.join("ann@example.com", "acme").await;
        with.app.grant("ann@example.com", &["reader"]).await;
        ann.sign_in("ann@example.com").await.is(200);
        let acme = ann.clone().sending("x-tenant-id", "acme");
        let (paper, note) = (uploaded(&acme, "p", b"p").await, uploaded(&acme, "n", b"n").await);
        let body = json!({ "paper": named(&paper), "note": named(&note) });
        let case = acme.post("/cases", body).await.is(201).at("/data");
        let (paper, note) = (url(&case["paper"]), url(&case["note"]));
        acme.get(&paper).await.is(200);
        ann.get(&paper).await.is(400);
        assert_eq!(ann.get(&format!("{note}?tenant=acme")).await.is(200).text(), "n");
        let bob = with.app.signed_in("bob@example.com").await;
        with.app.join("bob@example.com", "acme").await;
        assert_eq!(bob.get(&format!("{note}?tenant=acme")).await.is(200).text(), "n");
        bob.get(&format!("{paper}?tenant=acme")).await.is(404);
        bob.post(&format!("{paper}/_sign?tenant=acme"), json!({})).await;
        let signing = bob.clone().sending("x-tenant-id", "acme");
        signing.post(&format!("{paper}/_sign"), json!({})).await.is(404);
        let cleo = with.app.signed_in("cleo@example.com").await;
        with.app.join("cleo@example.com", "other").await;
        cleo.get(&format!("{note}?tenant=acme")).await.is(403);
        cleo.get(&format!("{note}?tenant=other")).await.is(404);
        with.app.anonymous().get(&format!("{note}?tenant=acme")).await.is(401);
    }
}

#[tokio::test]
async fn another_record_field_file_or_name_in_the_address_is_404() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"a").await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let other = ann.post("/tickets", json!({})).await.is(201).at("/data/id");
        let (record, other) = (ticket["id"].as_str().unwrap(), other.as_str().unwrap());
        ann.get(&format!("/tickets/{record}/_files/attachments/{id}/a.txt")).await.is(200);
        for path in [
            format!("/tickets/{other}/_files/attachments/{id}/a.txt"),
            format!("/tickets/{record}/_files/cover/{id}/a.txt"),
            format!("/tickets/{record}/_files/title/{id}/a.txt"),
            format!("/tickets/{record}/_files/nothing/{id}/a.txt"),
            format!("/tickets/{record}/_files/attachments/{other}/a.txt"),
            format!("/tickets/{record}/_files/attachments/{id}/b.txt"),
            format!("/tickets/{record}/_files/attachments/{id}/..%2Fa.txt"),
            format!("/tickets/{record}/_files/attachments/..%2F{id}/a.txt"),
            format!("/tickets/{record}/_files/attachments/%00/a.txt"),
            format!("/drops/{record}/_files/file/{id}/a.txt"),
        ] {
            assert_eq!(ann.get(&path).await.status(), 404, "{path}");
        }
        let bob = with.app.signed_in("bob@example.com").await;
        bob.get(&url(&ticket["attachments"][0])).await.is(404);
        with.app.anonymous().get(&url(&ticket["attachments"][0])).await.is(401);
        let unknown = ann.get(&format!("{}?thumbnail=100x100", url(&ticket["attachments"][0]))).await.is(400);
        assert_eq!(unknown.at("/code"), "unknown_thumbnail");
    }
}

#[tokio::test]
async fn files_in_the_trash_and_of_deleted_records_are_not_downloaded() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"a").await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let (path, record) = (url(&ticket["attachments"][0]), ticket["id"].as_str().unwrap());
        let signed = ann.post(&format!("{path}/_sign"), json!({})).await.is(200).at("/url");
        let signed = signed.as_str().unwrap();
        let nobody = with.app.anonymous();
        nobody.get(signed).await.is(200);
        ann.delete(&format!("/tickets/{record}")).await.is(204);
        ann.get(&path).await.is(404);
        nobody.get(signed).await.is(404);
        ann.post(&format!("/tickets/{record}/_restore"), json!({})).await.is(200);
        ann.get(&path).await.is(200);
        ann.patch(&format!("/tickets/{record}"), json!({ "attachments": [] })).await.is(200);
        ann.get(&path).await.is(404);
        nobody.get(signed).await.is(404);
        with.loses(&id).await;
    }
}

#[tokio::test]
async fn a_signed_address_is_valid_as_it_is_and_for_its_time() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let (a, b) = (uploaded(&ann, "f.txt", b"a").await, uploaded(&ann, "f.txt", b"b").await);
        let body = json!({ "attachments": [named(&a), named(&b)] });
        let ticket = ann.post("/tickets", body).await.is(201).at("/data");
        let path = url(&ticket["attachments"][0]);
        let answer = ann.post(&format!("{path}/_sign"), json!({ "expiresInSeconds": 60 })).await.is(200);
        let signed = answer.at("/url").as_str().unwrap().to_owned();
        let nobody = with.app.anonymous();
        assert_eq!(nobody.get(&signed).await.is(200).text(), "a");
        let later = signed.replace("expires=", "expires=9");
        for changed in [
            signed.replace(&a, &b),
            later,
            format!("{signed}&download=1"),
            format!("{signed}&thumbnail=100x100"),
            format!("{signed}&tenant=acme"),
            format!("{signed}&other=1"),
            signed.replace("signature=", "signature=A"),
            signed.split("&signature").next().unwrap().to_owned(),
        ] {
            let refused = nobody.get(&changed).await.is(403);
            assert_eq!(refused.at("/code"), "invalid_signature", "{changed}");
        }
        nobody.get(&format!("{signed}&expires=1")).await.is(400);
        for wrong in [json!({ "expiresInSeconds": 0 }), json!({ "expiresInSeconds": 604_801 }), json!({ "x": 1 })] {
            ann.post(&format!("{path}/_sign"), wrong).await.is(400);
        }
        let thumbnail = ann.post(&format!("{path}/_sign"), json!({ "thumbnail": "1x1" })).await.is(400);
        assert_eq!(thumbnail.at("/code"), "unknown_thumbnail");
        let saved = ann.post(&format!("{path}/_sign"), json!({ "download": true })).await.is(200).at("/url");
        let saved = nobody.get(saved.as_str().unwrap()).await.is(200);
        assert!(saved.header("content-disposition").unwrap().starts_with("attachment"));
        with.app.anonymous().post(&format!("{path}/_sign"), json!({})).await.is(401);
        with.app.wait(SignedDuration::from_secs(61));
        nobody.get(&signed).await.is(403);
    }
}

#[tokio::test]
async fn files_of_a_public_field_need_no_rights() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let nobody = with.app.anonymous();
        let made = form(&nobody, Method::POST, "/drops", &[("file", Some("a.png"), PNG)]).await.is(201).at("/data");
        let got = nobody.get(&url(&made["file"])).await.is(200);
        assert_eq!(got.header("cache-control"), Some("public, max-age=3600"));
        assert_eq!(got.bytes().as_ref(), PNG);
    }
}
