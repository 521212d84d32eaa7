//! Forms with files on the endpoints of records.

use gatewright_testing::Actor;
use http::Method;
use serde_json::json;

use super::{ENTITIES, PNG, Part, WithFiles, form, ids, named, url};

#[tokio::test]
async fn a_form_creates_and_changes_a_record_with_its_files() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let parts: &[Part<'_>] = &[
            ("title", None, b"Help"),
            ("attachments", Some("a.txt"), b"a"),
            ("attachments", Some("b.txt"), b"b"),
            ("cover", Some("c.png"), PNG),
        ];
        let made = form(&ann, Method::POST, "/tickets", parts).await.is(201).at("/data");
        assert_eq!(made["title"], "Help");
        assert_eq!(made["attachments"][1]["name"], "b.txt");
        assert_eq!(made["cover"]["contentType"], "image/png");
        let path = format!("/tickets/{}", made["id"].as_str().unwrap());
        let first = made["attachments"][0].clone();
        let more: &[Part<'_>] = &[("attachments+", Some("c.txt"), b"c")];
        let files = form(&ann, Method::PATCH, &path, more).await.is(200).at("/data/attachments");
        assert_eq!(files.as_array().unwrap().len(), 3);
        assert_eq!(files[0], first);
        let removed = json!({ "$remove": [named(first["id"].as_str().unwrap())] }).to_string();
        let files = form(&ann, Method::PATCH, &path, &[("attachments", None, removed.as_bytes())]).await.is(200);
        assert_eq!(files.at("/data/attachments").as_array().unwrap().len(), 2);
        let kept = json!([files.at("/data/attachments/1")]).to_string();
        let parts: &[Part<'_>] = &[("attachments", None, kept.as_bytes()), ("attachments", Some("d.txt"), b"d")];
        let files = form(&ann, Method::PATCH, &path, parts).await.is(200).at("/data/attachments");
        assert_eq!((&files[0]["name"], &files[1]["name"]), (&json!("c.txt"), &json!("d.txt")));
        let replaced = form(&ann, Method::PUT, &path, &[("attachments", Some("e.txt"), b"e")]).await.is(200);
        assert_eq!(replaced.at("/data/attachments").as_array().unwrap().len(), 1);
        assert_eq!(ann.get(&url(&replaced.at("/data/attachments/0"))).await.is(200).text(), "e");
        let without: &[Part<'_>] = &[("cover", None, b""), ("attachments", Some(""), b"")];
        let answer = form(&ann, Method::PATCH, &path, without).await.is(200);
        assert_eq!(answer.at("/data/cover"), json!(null));
        for id in ids(&made["attachments"]).into_iter().chain([made["cover"]["id"].as_str().unwrap()]) {
            with.loses(id).await;
        }
    }
}

#[tokio::test]
async fn texts_of_a_form_become_values_of_their_fields() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let nobody = with.app.anonymous();
        let parts: &[Part<'_>] =
            &[("labels", None, b"a"), ("labels", None, b"b"), ("count", None, b"3"), ("file", Some("x"), b"x")];
        let made = form(&nobody, Method::POST, "/drops", parts).await.is(201).at("/data");
        assert_eq!((&made["labels"], &made["count"]), (&json!(["a", "b"]), &json!(3)));
        let path = format!("/drops/{}", made["id"].as_str().unwrap());
        let answer =
            form(&nobody, Method::PATCH, &path, &[("labels", None, b"[\"c\"]"), ("count", None, b"")]).await.is(200);
        assert_eq!((answer.at("/data/labels"), answer.at("/data/count")), (json!(["c"]), json!(null)));
        let answer = form(&nobody, Method::PATCH, &path, &[("count", None, b"many")]).await.is(422);
        assert_eq!(answer.at("/errors/0/field"), "count");
        let answer = form(&nobody, Method::POST, "/drops", &[("nothing", None, b"x")]).await.is(422);
        assert_eq!(answer.at("/errors/0/code"), "unknown_field");
        let answer = form(&nobody, Method::POST, "/drops", &[("count", Some("x"), b"x")]).await.is(422);
        assert_eq!(answer.at("/errors/0/code"), "unknown_field");
        let large = vec![b'x'; 1_100_000];
        assert_eq!(
            form(&nobody, Method::POST, "/drops", &[("labels", None, &large)]).await.is(413).at("/code"),
            "too_large"
        );
    }
}

#[tokio::test]
async fn what_a_refused_form_uploaded_is_deleted() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let nobody = with.app.anonymous();
        let before = with.count();
        for parts in [
            &[("file", Some("x"), b"x" as &[u8]), ("count", None, b"many")] as &[Part<'_>],
            &[("file", Some("x"), b"x"), ("nothing", Some("y"), b"y")],
            &[("file", Some("x"), b"x"), ("file", Some("y"), b"y")],
        ] {
            form(&nobody, Method::POST, "/drops", parts).await.is(422);
        }
        let begin = std::time::Instant::now();
        while with.count() > before {
            assert!(begin.elapsed().as_secs() < 30, "{}: bytes stay", with.app.engine());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn a_caller_who_may_not_write_uploads_nothing_by_a_form() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let before = with.count();
        let nobody = with.app.anonymous();
        form(&nobody, Method::POST, "/tickets", &[("attachments", Some("a"), b"a")]).await.is(401);
        let from_elsewhere: Actor = nobody.sending("sec-fetch-site", "cross-site");
        form(&from_elsewhere, Method::POST, "/drops", &[("file", Some("x"), b"x")]).await.is(403);
        let ann = with.app.signed_in("ann@example.com").await.sending("origin", "https://evil.example");
        form(&ann, Method::POST, "/_files", &[("a", Some("x"), b"x")]).await.is(403);
        assert_eq!(with.count(), before);
    }
}

#[tokio::test]
async fn the_token_of_csrf_is_the_first_part_of_a_form() {
    for with in WithFiles::on_every_engine("", &format!("[csrf]\nenabled = true\n{ENTITIES}")).await {
        let mut ann = with.app.anonymous();
        let answer = ann.get("/auth/csrf").await.is(200);
        ann.keep_cookies(&answer);
        let token = answer.at("/csrfToken").as_str().unwrap().to_owned();
        let (csrf, file): (Part<'_>, Part<'_>) = (("_csrf", None, token.as_bytes()), ("file", Some("a.txt"), b"a"));
        let before = with.count();
        form(&ann, Method::POST, "/drops", &[file]).await.is(403);
        form(&ann, Method::POST, "/drops", &[("_csrf", None, b"another"), file]).await.is(403);
        assert_eq!(with.count(), before);
        let made = form(&ann, Method::POST, "/drops", &[csrf, file]).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&made["file"])).await.is(200).text(), "a");
        assert!(made.get("_csrf").is_none());
    }
}
