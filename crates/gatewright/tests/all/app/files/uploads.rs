//! Files that are uploaded by themselves and attached by later writes.

use axum::body::Body;
use http::Method;
use http::header::CONTENT_TYPE;
use jiff::SignedDuration;
use serde_json::json;

use super::{ENTITIES, PNG, WithFiles, form, ids, named, upload, uploaded, url};

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn an_uploaded_file_is_attached_by_its_id_and_downloaded_by_its_url() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let file = upload(&ann, "hello.txt", b"hello").await.is(201).json();
        assert_eq!(
            (&file["name"], &file["size"], &file["contentType"], &file["sha256"]),
            (&json!("hello.txt"), &json!(5), &json!("text/plain"), &json!(HELLO))
        );
        let body = json!({ "title": "Help", "attachments": [{ "id": file["id"] }] });
        let ticket = ann.post("/tickets", body).await.is(201).at("/data");
        let held = &ticket["attachments"][0];
        assert_eq!(ticket["cover"], json!(null));
        let id = ticket["id"].as_str().unwrap();
        let expected = format!("/tickets/{id}/_files/attachments/{}/hello.txt", file["id"].as_str().unwrap());
        assert_eq!(held["url"], expected);
        assert_eq!((&held["sha256"], &held["size"]), (&json!(HELLO), &json!(5)));
        assert_eq!(ann.get(&format!("/tickets/{id}")).await.is(200).at("/data/attachments/0"), *held);
        assert_eq!(ann.get("/tickets").await.is(200).at("/data/0/attachments/0"), *held);
        let got = ann.get(&url(held)).await.is(200);
        assert_eq!(got.text(), "hello");
        assert_eq!(got.header("content-type"), Some("text/plain; charset=utf-8"));
        let answer = ann.patch(&format!("/tickets/{id}"), json!({ "title": "Other" })).await.is(200);
        assert_eq!(answer.at("/data/attachments/0"), *held, "a change of another field leaves the files");
    }
}

#[tokio::test]
async fn every_write_attaches_files_and_operators_add_and_remove_them() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let mut files = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            files.push(uploaded(&ann, name, name.as_bytes()).await);
        }
        let [one, two, three, four, five, six] = &files[..] else { unreachable!() };
        let made = ann.post("/tickets", json!({ "attachments": [named(one)] })).await.is(201).at("/data");
        let path = format!("/tickets/{}", made["id"].as_str().unwrap());
        let held = |answer: gatewright_testing::Answer| answer.is(200).at("/data/attachments");
        let append = json!({ "attachments": { "$append": [named(two), named(one)] } });
        let files = held(ann.patch(&path, append).await);
        assert_eq!(ids(&files), [one, two], "a file that is there already stays where it is");
        let files = held(ann.patch(&path, json!({ "attachments": { "$remove": [named(one)] } })).await);
        assert_eq!(ids(&files), [two]);
        let put = json!({ "attachments": [named(three), files[0]] });
        assert_eq!(ids(&held(ann.json(Method::PUT, &path, &put).await)), [three, two]);
        let batch = json!({ "items": [{ "attachments": [named(four)] }] });
        let answer = ann.post("/tickets/_batch", batch).await.is(200);
        assert_eq!(ids(&answer.at("/results/0/data/attachments")), [four]);
        let mixed = json!({ "operations": [{ "op": "create", "entity": "tickets", "data": { "attachments": [named(five)] } }] });
        let answer = ann.post("/_batch", mixed).await.is(200);
        assert_eq!(ids(&answer.at("/results/0/data/attachments")), [five]);
        let called = ann.call_tool("tickets_create", json!({ "attachments": [named(six)] })).await.is(200);
        assert!(called.text().contains(six.as_str()), "{}", called.text());
        let too_many = json!({ "attachments": [named(one), named(two), named(three), named(four)] });
        assert_eq!(ann.patch(&path, too_many).await.is(422).at("/errors/0/code"), "max");
        let twice = json!({ "attachments": [named(two), named(two)] });
        assert_eq!(ann.patch(&path, twice).await.is(422).at("/errors/0/code"), "duplicate");
        assert_eq!(held(ann.patch(&path, json!({ "attachments": null })).await), json!([]));
    }
}

#[tokio::test]
async fn a_file_belongs_to_one_field_of_one_record() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.png", PNG).await;
        let both = json!({ "attachments": [named(&id)], "cover": named(&id) });
        assert_eq!(ann.post("/tickets", both).await.is(422).at("/code"), "file_not_found");
        let first = ann.post("/tickets", json!({ "cover": named(&id) })).await.is(201).at("/data");
        let refused = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(422);
        assert_eq!(refused.at("/code"), "file_not_found");
        assert_eq!(refused.at("/errors/0/field"), "attachments");
        let path = format!("/tickets/{}", first["id"].as_str().unwrap());
        assert_eq!(
            ann.patch(&path, json!({ "attachments": [named(&id)] })).await.is(422).at("/code"),
            "file_not_found"
        );
        let batch = json!({ "items": [{ "cover": null, "id": first["id"] }, { "attachments": [named(&id)], "id": first["id"] }] });
        let answer = ann.json(Method::PATCH, "/tickets/_batch", &batch).await;
        assert_eq!(answer.status(), 422, "{}: {}", with.app.engine(), answer.text());
        assert_eq!(ann.get(&path).await.is(200).at("/data/cover/id"), id.as_str(), "nothing of the batch remains");
        ann.get(&url(&first["cover"])).await.is(200);
    }
}

#[tokio::test]
async fn a_refused_write_leaves_the_file_free() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"a").await;
        let refused = json!({ "attachments": [named(&id)], "title": "x".repeat(5_000) });
        ann.post("/tickets", refused).await.is(422);
        let wrong = ann.post("/tickets", json!({ "cover": named(&id) })).await.is(422);
        assert_eq!(wrong.at("/code"), "file_type");
        ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201);
    }
}

#[tokio::test]
async fn an_upload_that_is_not_attached_in_time_is_deleted() {
    for with in WithFiles::on_every_engine("upload_ttl_seconds = 60", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"a").await;
        assert!(with.has_bytes(&id));
        with.app.wait(SignedDuration::from_secs(61));
        let answer = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(422);
        assert_eq!(answer.at("/code"), "file_not_found");
        with.loses(&id).await;
    }
}

#[tokio::test]
async fn what_is_larger_than_a_field_takes_is_refused_at_each_step() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        // The largest of all fields is that of `cover`.
        let big = vec![b'a'; 10 * 1024 * 1024 + 1];
        assert_eq!(upload(&ann, "big", &big).await.is(413).at("/code"), "file_too_large");
        let id = uploaded(&ann, "a", &big[..1001]).await;
        let refused = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(413);
        assert_eq!(
            (refused.at("/code"), refused.at("/errors/0/field")),
            (json!("file_too_large"), json!("attachments"))
        );
        let parts: &[super::Part<'_>] = &[("attachments", Some("a"), &big[..1001])];
        let refused = form(&ann, Method::POST, "/tickets", parts).await.is(413);
        assert_eq!(
            (refused.at("/code"), refused.at("/errors/0/field")),
            (json!("file_too_large"), json!("attachments"))
        );
        form(&ann, Method::POST, "/tickets", &[("attachments", Some("a"), &big[..1000])]).await.is(201);
        let answer = ann.get("/tickets").await.is(200);
        assert_eq!(answer.at("/data").as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_upload_needs_a_caller_who_may_write_records_with_files() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let nobody = with.app.anonymous();
        upload(&nobody, "a", b"a").await.is(401);
        let ann = with.app.signed_in("ann@example.com").await;
        let token = |scope: &'static str| {
            let ann = ann.clone();
            async move {
                let body = json!({ "name": scope, "scopes": [scope] });
                let answer = ann.post("/auth/tokens", body).await.is(200);
                answer.at("/token").as_str().unwrap().to_owned()
            }
        };
        let (reads, writes) = (token("tickets:read").await, token("tickets:write").await);
        upload(&nobody.clone().bearing(&reads), "a", b"a").await.is(403);
        let id = uploaded(&nobody.clone().bearing(&writes), "a", b"a").await;
        ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201);
        nobody.get("/_files").await.is(405);
    }
}

#[tokio::test]
async fn a_form_uploads_one_file_by_itself() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let answer = form(&ann, Method::POST, "/_files", &[("any", Some("../x/a b.txt"), b"hi")]).await.is(201);
        assert_eq!((answer.at("/name"), answer.at("/size")), (json!("a b.txt"), json!(2)));
        form(&ann, Method::POST, "/_files", &[]).await.is(400);
        let two: &[super::Part<'_>] = &[("a", Some("a"), b"a"), ("b", Some("b"), b"b")];
        form(&ann, Method::POST, "/_files", two).await.is(400);
        let request = ann.request(Method::POST, "/_files").header(CONTENT_TYPE, "multipart/form-data; boundary=XX");
        ann.send(
            request
                .body(Body::from("--XX\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\nhal"))
                .unwrap(),
        )
        .await
        .is(400);
        let request = ann.request(Method::POST, "/_files").header(CONTENT_TYPE, "application/octet-stream");
        let answer = ann.send(request.body(Body::empty()).unwrap()).await.is(201);
        assert_eq!((answer.at("/name"), answer.at("/size")), (json!("file"), json!(0)));
    }
}

#[tokio::test]
async fn an_upsert_attaches_files_to_a_new_record_and_to_one_that_is_there() {
    let toml = r#"
        [[entity]]
        name = "pages"
        public = true
        unique = [["slug"]]
        [[entity.field]]
        name = "slug"
        type = "string"
        required = true
        [[entity.field]]
        name = "cover"
        type = "file"
    "#;
    for with in WithFiles::on_every_engine("", toml).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let (one, two) = (uploaded(&ann, "1", b"1").await, uploaded(&ann, "2", b"2").await);
        let upsert =
            async |id: &str| ann.post("/pages?on_conflict=slug", json!({ "slug": "home", "cover": named(id) })).await;
        let made = upsert(&one).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&made["cover"])).await.is(200).text(), "1");
        let changed = upsert(&two).await.is(200).at("/data");
        assert_eq!(changed["id"], made["id"]);
        assert_eq!(ann.get(&url(&changed["cover"])).await.is(200).text(), "2");
        with.loses(&one).await;
        // One that is left alone takes nothing.
        let three = uploaded(&ann, "3", b"3").await;
        let body = json!({ "slug": "home", "cover": named(&three) });
        ann.post("/pages?on_conflict=slug&resolution=ignore", body).await.is(200);
        assert_eq!(ann.get(&url(&changed["cover"])).await.is(200).text(), "2");
        ann.post("/pages", json!({ "slug": "other", "cover": named(&three) })).await.is(201);
    }
}
