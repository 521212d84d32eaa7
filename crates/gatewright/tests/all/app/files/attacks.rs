//! What a hostile caller tries with files.

use futures_util::future::join_all;
use http::Method;
use serde_json::json;

use super::{ENTITIES, PNG, WithFiles, form, named, upload, uploaded, url};

#[tokio::test]
async fn nobody_attaches_what_another_caller_uploaded() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let bob = with.app.signed_in("bob@example.com").await;
        let (staged, attached) = (uploaded(&ann, "a.png", PNG).await, uploaded(&ann, "b.png", PNG).await);
        let ticket = ann.post("/tickets", json!({ "cover": named(&attached) })).await.is(201).at("/data");
        for actor in [&bob, &with.app.anonymous()] {
            for id in [&staged, &attached] {
                let refused = actor.post("/drops", json!({ "file": named(id) })).await.is(422);
                assert_eq!(refused.at("/code"), "file_not_found");
                assert!(!refused.text().contains("a.png") && !refused.text().contains("b.png"));
            }
        }
        assert_eq!(
            bob.post("/tickets", json!({ "cover": named(&attached) })).await.is(422).at("/code"),
            "file_not_found"
        );
        let called = bob.call_tool("tickets_create", json!({ "cover": named(&staged) })).await;
        assert!(
            called.text().contains("file_not_found") || called.text().contains("names no file"),
            "{}",
            called.text()
        );
        ann.get(&url(&ticket["cover"])).await.is(200);
        ann.post("/tickets", json!({ "cover": named(&staged) })).await.is(201);
    }
}

#[tokio::test]
async fn only_one_of_parallel_writes_attaches_a_file() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.png", PNG).await;
        let answers = join_all((0..20).map(|_| ann.post("/tickets", json!({ "cover": named(&id) })))).await;
        let made = answers.iter().filter(|answer| answer.status() == 201).count();
        assert_eq!(made, 1, "{}", with.app.engine());
        assert!(answers.iter().all(|answer| matches!(answer.status(), 201 | 422)), "{}", with.app.engine());
    }
}

#[tokio::test]
async fn the_content_and_not_its_name_decides_what_a_file_is() {
    let script: &[u8] = b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\"></svg>";
    let page: &[u8] = b"<!doctype html><script>alert(1)</script>";
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        for (name, content) in [("a.png", script), ("a.png", page), ("a.png", b"MZ\x90\0"), ("a.svg", script)] {
            let refused = form(&ann, Method::POST, "/tickets", &[("cover", Some(name), content)]).await.is(422);
            assert_eq!(refused.at("/code"), "file_type");
            let id = uploaded(&ann, name, content).await;
            let refused = ann.post("/tickets", json!({ "cover": named(&id) })).await.is(422);
            assert_eq!((refused.at("/code"), refused.at("/errors/0/field")), (json!("file_type"), json!("cover")));
        }
        for (content, content_type, shown) in [
            (script, "image/svg+xml", false),
            (page, "text/html", false),
            (b"plain <script>" as &[u8], "text/plain", true),
            (b"PK\x03\x04zip", "application/zip", false),
            (PNG, "image/png", true),
            (b"%PDF-1.7 x", "application/pdf", true),
        ] {
            let id = uploaded(&ann, "innocent.png", content).await;
            let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
            let got = ann.get(&url(&ticket["attachments"][0])).await.is(200);
            let header = |name| got.header(name).unwrap_or_default().to_owned();
            assert!(header("content-type").starts_with(content_type), "{content_type}");
            assert_eq!(header("x-content-type-options"), "nosniff");
            let disposition = if shown { "inline" } else { "attachment" };
            assert!(header("content-disposition").starts_with(disposition), "{content_type}");
            let policy = header("content-security-policy");
            assert!(policy.contains("default-src 'none'") && !policy.contains("script-src"), "{policy}");
            assert_eq!(policy.contains("sandbox"), content_type != "application/pdf");
            let saved = ann.get(&format!("{}?download=1", url(&ticket["attachments"][0]))).await.is(200);
            assert!(saved.header("content-disposition").unwrap().starts_with("attachment"));
        }
    }
}

#[tokio::test]
async fn a_name_stays_a_name() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        for (name, expected) in [
            ("..%2F..%2Fetc%2Fpasswd", "passwd"),
            ("%2e%2e", "file"),
            ("a%0d%0aSet-Cookie:%20x=y", "aSet-Cookie: x=y"),
            ("a%22;%20filename=%22b.exe", "a\"; filename=\"b.exe"),
            ("%00%E2%80%AEgpj.exe", "gpj.exe"),
            ("caf%C3%A9%20%23?x.txt", "café #?x.txt"),
        ] {
            let file = upload(&ann, name, b"hello").await.is(201).json();
            assert_eq!(file["name"], expected);
            let ticket =
                ann.post("/tickets", json!({ "attachments": [{ "id": file["id"] }] })).await.is(201).at("/data");
            let got = ann.get(&url(&ticket["attachments"][0])).await.is(200);
            assert_eq!(got.text(), "hello");
            assert_eq!(got.set_cookies(), Vec::new());
            let disposition = got.header("content-disposition").unwrap();
            assert_eq!(disposition.matches('"').count(), 2, "{disposition}");
            let inside = with.folder.path().canonicalize().unwrap();
            let id = file["id"].as_str().unwrap();
            let stored = inside.join(&id[34..]).join(id).canonicalize().unwrap();
            assert!(stored.starts_with(&inside));
        }
    }
}

#[tokio::test]
async fn filters_sorts_and_groups_learn_nothing_of_files() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let (a, b) = (uploaded(&ann, "a.png", PNG).await, uploaded(&ann, "b.txt", b"b").await);
        ann.post("/tickets", json!({ "title": "with", "cover": named(&a), "attachments": [named(&b)] })).await.is(201);
        ann.post("/tickets", json!({ "title": "without" })).await.is(201);
        for (filter, expected) in [
            ("cover = null", "without"),
            ("cover != null", "with"),
            ("attachments = []", "without"),
            ("attachments != []", "with"),
            ("length(attachments) > 0", "with"),
            ("length(attachments) = 0 && cover = null", "without"),
        ] {
            let query: String =
                url::form_urlencoded::Serializer::new(String::new()).append_pair("filter", filter).finish();
            let found = ann.get(&format!("/tickets?{query}")).await.is(200).at("/data");
            assert_eq!(found.as_array().unwrap().len(), 1, "{filter}");
            assert_eq!(found[0]["title"], expected, "{filter}");
        }
        for query in [
            "filter=cover.name='a.png'",
            "filter=cover='x'",
            "filter=cover~'a'",
            "filter=cover=title",
            "filter=cover=cover",
            "filter=cover=@me",
            "filter=cover>'a'",
            "filter=length(cover)>0",
            "filter=attachments%20has%20'x'",
            "filter=attachments='x'",
            "filter=attachments.id='x'",
            "filter=attachments=null",
            "filter=attachments=attachments",
            "filter=cover%20in%20['a']",
            "cover=x",
            "attachments=x",
            "attachments_has=x",
            "sort=cover",
            "sort=-attachments",
            "group=cover",
            "group=attachments",
            "count_distinct=cover",
            "min=cover",
        ] {
            let query = query.replace(' ', "%20").replace('>', "%3E").replace('\'', "%27");
            assert_eq!(ann.get(&format!("/tickets?{query}")).await.status(), 400, "{}: {query}", with.app.engine());
        }
    }
}

#[tokio::test]
async fn a_storm_of_ranges_is_answered_or_refused_and_others_are_served() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a", &[b'a'; 1000]).await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let path = url(&ticket["attachments"][0]);
        let ranges = (0..200).map(|at| {
            let actor = ann.clone().sending("range", &format!("bytes={at}-{at}"));
            let path = path.clone();
            async move { actor.get(&path).await }
        });
        let bob = with.app.signed_in("bob@example.com").await;
        let (answers, other) = tokio::join!(join_all(ranges), async {
            let id = uploaded(&bob, "b", b"b").await;
            let made = bob.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
            bob.get(&url(&made["attachments"][0])).await
        });
        other.is(200);
        assert!(answers.iter().all(|answer| matches!(answer.status(), 206 | 429)));
        assert!(answers.iter().any(|answer| answer.status() == 206));
        ann.get(&path).await.is(200);
    }
}
