//! Uploads that arrive in several requests, by hand-written requests.

use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use jiff::SignedDuration;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::stores::{bucket, s3_server};
use super::{ENTITIES, PNG, WithFiles, named, url};

type Headers<'a> = &'a [(&'static str, &'a str)];

/// A request of the protocol.
async fn send(actor: &Actor, method: Method, path: &str, headers: Headers<'_>, body: Body) -> Answer {
    let mut request = actor.request(method, path).header("tus-resumable", "1.0.0");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    actor.send(request.body(body).unwrap()).await
}

/// Begins an upload, and returns its path.
async fn begin(actor: &Actor, length: usize, headers: Headers<'_>) -> String {
    let length = length.to_string();
    let headers = [headers, &[("upload-length", &*length)]].concat();
    let begun = send(actor, Method::POST, "/_files/tus", &headers, Body::empty()).await.is(201);
    assert!(begun.header("upload-expires").is_some());
    begun.header("location").unwrap().to_owned()
}

async fn patch(actor: &Actor, path: &str, offset: usize, bytes: &[u8], headers: Headers<'_>) -> Answer {
    let offset = offset.to_string();
    let own = [("upload-offset", &*offset), ("content-type", "application/offset+octet-stream")];
    send(actor, Method::PATCH, path, &[headers, &own[..]].concat(), Body::from(bytes.to_vec())).await
}

async fn offset(actor: &Actor, path: &str) -> usize {
    let answer = send(actor, Method::HEAD, path, &[], Body::empty()).await.is(200);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    answer.header("upload-offset").unwrap().parse().unwrap()
}

fn id(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn bytes_of_several_requests_become_one_file() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let metadata = format!("filename {},filetype {}", STANDARD.encode("../a.txt"), STANDARD.encode("text/html"));
        let path = begin(&ann, 10, &[("upload-metadata", &metadata)]).await;
        assert_eq!(path, format!("/_files/tus/{}", id(&path)), "a path, without a host");
        assert_eq!(offset(&ann, &path).await, 0);
        let more = patch(&ann, &path, 0, b"0123", &[]).await.is(204);
        assert_eq!(more.header("upload-offset"), Some("4"));
        assert_eq!(more.header("tus-resumable"), Some("1.0.0"));
        let head = send(&ann, Method::HEAD, &path, &[], Body::empty()).await.is(200);
        assert_eq!((head.header("upload-length"), head.header("upload-offset")), (Some("10"), Some("4")));
        assert_eq!(head.header("upload-metadata"), Some(&*metadata));
        // It cannot be attached before it is whole.
        let early = ann.post("/tickets", json!({ "attachments": [named(id(&path))] })).await.is(422);
        assert!(early.text().contains("file_not_found"));
        patch(&ann, &path, 4, b"456", &[]).await.is(204);
        let last = patch(&ann, &path, 7, b"789", &[]).await.is(204);
        assert_eq!(last.header("upload-offset"), Some("10"));
        assert_eq!(offset(&ann, &path).await, 10);
        patch(&ann, &path, 10, b"", &[]).await.is(204);
        let ticket = ann.post("/tickets", json!({ "attachments": [named(id(&path))] })).await.is(201).at("/data");
        let file = &ticket["attachments"][0];
        assert_eq!((&file["name"], &file["size"]), (&json!("a.txt"), &json!(10)));
        assert_eq!(file["contentType"], "text/plain", "by content");
        assert_eq!(file["sha256"], "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
        assert_eq!(ann.get(&url(file)).await.is(200).text(), "0123456789");
        // Its pieces do not stay.
        let group = with.folder.path().join(&id(&path)[34..]);
        let names = std::fs::read_dir(&group).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let own: Vec<String> = names.filter(|name| name.starts_with(id(&path))).collect();
        assert_eq!(own, [id(&path)]);
        send(&ann, Method::HEAD, &path, &[], Body::empty()).await.is(410);
        send(&ann, Method::DELETE, &path, &[], Body::empty()).await.is(410);
        assert_eq!(ann.get(&url(file)).await.is(200).text(), "0123456789");
    }
}

#[tokio::test]
async fn the_first_request_may_bring_bytes_and_an_empty_file_needs_no_other() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let bytes = [("content-type", "application/offset+octet-stream"), ("upload-length", "6")];
        let begun = send(&ann, Method::POST, "/_files/tus", &bytes, Body::from("abc")).await.is(201);
        assert_eq!(begun.header("upload-offset"), Some("3"));
        let path = begun.header("location").unwrap().to_owned();
        patch(&ann, &path, 3, b"def", &[]).await.is(204);
        let whole = send(&ann, Method::POST, "/_files/tus", &bytes, Body::from("uvwxyz")).await.is(201);
        let whole = whole.header("location").unwrap().to_owned();
        send(&ann, Method::POST, "/_files/tus", &bytes, Body::from("1234567")).await.is(400);
        let empty = begin(&ann, 0, &[]).await;
        let files = json!([named(id(&path)), named(id(&whole)), named(id(&empty))]);
        let ticket = ann.post("/tickets", json!({ "attachments": files })).await.is(201).at("/data");
        for (index, expected) in ["abcdef", "uvwxyz", ""].into_iter().enumerate() {
            let file = &ticket["attachments"][index];
            assert_eq!(ann.get(&url(file)).await.is(200).text(), expected);
            assert_eq!(file["name"], "file");
        }
    }
}

#[tokio::test]
async fn what_the_protocol_does_not_allow_is_refused() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        // Every answer names the version, and another one is refused.
        let old = ann.request(Method::POST, "/_files/tus").header("upload-length", "1").body(Body::empty()).unwrap();
        let old = ann.send(old).await.is(412);
        assert_eq!((old.header("tus-version"), old.header("tus-resumable")), (Some("1.0.0"), Some("1.0.0")));
        let options = ann.request(Method::OPTIONS, "/_files/tus").body(Body::empty()).unwrap();
        let options = ann.send(options).await.is(204);
        assert_eq!(
            options.header("tus-extension"),
            Some("creation,creation-with-upload,termination,expiration,checksum")
        );
        assert_eq!(options.header("tus-checksum-algorithm"), Some("sha1,sha256"));
        assert_eq!(options.header("tus-max-size"), Some("10485760"));
        for headers in [
            &[][..],
            &[("upload-length", "-1")],
            &[("upload-length", "1e3")],
            &[("upload-length", "1"), ("upload-defer-length", "1")],
            &[("upload-length", "1"), ("upload-concat", "partial")],
            &[("upload-length", "1"), ("upload-metadata", "filename a.txt")],
        ] {
            send(&ann, Method::POST, "/_files/tus", headers, Body::empty()).await.is(400);
        }
        let large = send(&ann, Method::POST, "/_files/tus", &[("upload-length", "10485761")], Body::empty()).await;
        assert_eq!(large.is(413).at("/code"), "file_too_large");
        let path = begin(&ann, 5, &[]).await;
        let typed = [("upload-offset", "0"), ("content-type", "text/plain")];
        send(&ann, Method::PATCH, &path, &typed, Body::from("a")).await.is(415);
        let wrong = patch(&ann, &path, 1, b"a", &[]).await.is(409);
        assert_eq!(wrong.at("/code"), "upload_offset");
        patch(&ann, &path, 0, b"123456", &[]).await.is(400);
        let unknown_length = Body::from_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("123456")]));
        let own = [("upload-offset", "0"), ("content-type", "application/offset+octet-stream")];
        send(&ann, Method::PATCH, &path, &own, unknown_length).await.is(400);
        assert_eq!(offset(&ann, &path).await, 0);
        ann.get(&path).await;
        send(&ann, Method::GET, &path, &[], Body::empty()).await.is(405);
        send(&ann, Method::POST, &path, &[], Body::empty()).await.is(405);
        // Who cannot send PATCH and DELETE.
        let posted = [&own[..], &[("x-http-method-override", "PATCH")]].concat();
        send(&ann, Method::POST, &path, &posted, Body::from("12")).await.is(204);
        assert_eq!(offset(&ann, &path).await, 2);
        let ended = [("x-http-method-override", "DELETE")];
        send(&ann, Method::POST, &path, &ended, Body::empty()).await.is(204);
        send(&ann, Method::HEAD, &path, &[], Body::empty()).await.is(410);
        send(&ann, Method::HEAD, "/_files/tus/nothing", &[], Body::empty()).await.is(404);
    }
}

#[tokio::test]
async fn bytes_without_their_checksum_are_not_kept() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let path = begin(&ann, 6, &[]).await;
        // SHA-1 of "abc".
        let sha1 = format!("sha1 {}", STANDARD.encode(hex("a9993e364706816aba3e25717850c26c9cd0d89d")));
        let wrong = patch(&ann, &path, 0, b"abd", &[("upload-checksum", &sha1)]).await.is(460);
        assert_eq!(wrong.at("/code"), "checksum_mismatch");
        assert_eq!(offset(&ann, &path).await, 0);
        patch(&ann, &path, 0, b"abc", &[("upload-checksum", &sha1)]).await.is(204);
        // SHA-256 of "abc".
        let sha256 = hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let sha256 = format!("sha256 {}", STANDARD.encode(sha256));
        patch(&ann, &path, 3, b"xyz", &[("upload-checksum", &sha256)]).await.is(460);
        assert_eq!(offset(&ann, &path).await, 3);
        patch(&ann, &path, 3, b"abc", &[("upload-checksum", "md5 AAAA")]).await.is(400);
        patch(&ann, &path, 3, b"abc", &[("upload-checksum", &sha256)]).await.is(204);
        let ticket = ann.post("/tickets", json!({ "attachments": [named(id(&path))] })).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&ticket["attachments"][0])).await.is(200).text(), "abcabc");
        assert!(!with.folder.path().join(&id(&path)[34..]).join(format!("{}.p1", id(&path))).exists());
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_parallel_requests_one_continues_the_upload() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let path = begin(&ann, 1000, &[]).await;
        for round in 0..5 {
            let bytes: Vec<Vec<u8>> = (0..20_u8).map(|writer| vec![b'a' + writer; 100]).collect();
            let answers = join_all(bytes.iter().map(|bytes| patch(&ann, &path, round * 100, bytes, &[]))).await;
            let mut kept = Vec::new();
            for (answer, bytes) in answers.iter().zip(&bytes) {
                assert!(matches!(answer.status(), 204 | 409 | 423 | 429), "{}", answer.text());
                kept.extend((answer.status() == 204).then_some(bytes));
            }
            assert_eq!(kept.len(), 1, "{}: one has won", with.app.engine());
            assert_eq!(offset(&ann, &path).await, (round + 1) * 100);
        }
        // Also of those that bring the last bytes.
        let answers = join_all((0..20_u8).map(|writer| {
            let (ann, path) = (&ann, &path);
            async move { patch(ann, path, 500, &[b'a' + writer; 500], &[]).await }
        }))
        .await;
        let won: Vec<u8> = (0..20).filter(|writer| answers[usize::from(*writer)].status() == 204).collect();
        let [winner] = won[..] else { panic!("{}: {won:?}", with.app.engine()) };
        let ticket = ann.post("/tickets", json!({ "attachments": [named(id(&path))] })).await.is(201).at("/data");
        let file = &ticket["attachments"][0];
        let answer = ann.get(&url(file)).await.is(200);
        assert_eq!(&answer.bytes()[500..], vec![b'a' + winner; 500]);
        assert_eq!(hex(file["sha256"].as_str().unwrap()), Sha256::digest(answer.bytes()).as_slice());
    }
}

#[tokio::test]
async fn an_upload_is_of_its_account_alone_and_needs_rights() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let bob = with.app.signed_in("bob@example.com").await;
        let path = begin(&ann, 3, &[]).await;
        patch(&bob, &path, 0, b"abc", &[]).await.is(404);
        send(&bob, Method::HEAD, &path, &[], Body::empty()).await.is(404);
        send(&bob, Method::DELETE, &path, &[], Body::empty()).await.is(404);
        let anyone = with.app.anonymous();
        send(&anyone, Method::POST, "/_files/tus", &[("upload-length", "1")], Body::empty()).await.is(401);
        patch(&anyone, &path, 0, b"abc", &[]).await.is(401);
        send(&anyone, Method::HEAD, &path, &[], Body::empty()).await.is(401);
        patch(&ann, &path, 0, b"abc", &[]).await.is(204);
        let stolen = bob.post("/tickets", json!({ "attachments": [named(id(&path))] })).await.is(422);
        assert!(stolen.text().contains("file_not_found"));
        // A page of another site cannot begin one: the header of the protocol needs a preflight, and the guard looks too.
        let from = [("upload-length", "1"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
        send(&ann, Method::POST, "/_files/tus", &from, Body::empty()).await.is(403);
    }
}

#[tokio::test]
async fn what_is_reserved_counts_and_is_free_again_at_the_end() {
    for with in WithFiles::on_every_engine("staged_per_user_bytes = 1000", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let paths = join_all((0..20).map(|_| {
            let ann = &ann;
            async move { send(ann, Method::POST, "/_files/tus", &[("upload-length", "300")], Body::empty()).await }
        }))
        .await;
        let begun: Vec<&Answer> = paths.iter().filter(|answer| answer.status() == 201).collect();
        assert_eq!(begun.len(), 3, "{}", with.app.engine());
        let refused = paths.iter().find(|answer| answer.status() != 201).unwrap();
        assert_eq!((refused.status(), refused.at("/code")), (413, json!("quota_exceeded")));
        let path = begun[0].header("location").unwrap();
        patch(&ann, path, 0, &[b'a'; 200], &[]).await.is(204);
        send(&ann, Method::DELETE, path, &[], Body::empty()).await.is(204);
        begin(&ann, 300, &[]).await;
    }
}

#[tokio::test]
async fn an_account_has_a_limited_number_of_unfinished_uploads() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let mut last = String::new();
        for _ in 0..100 {
            last = begin(&ann, 1, &[]).await;
        }
        let refused = send(&ann, Method::POST, "/_files/tus", &[("upload-length", "1")], Body::empty()).await.is(429);
        assert_eq!(refused.at("/code"), "too_many_uploads");
        patch(&ann, &last, 0, b"a", &[]).await.is(204);
        begin(&ann, 1, &[]).await;
    }
}

#[tokio::test]
async fn an_upload_expires_and_its_bytes_are_deleted() {
    for with in WithFiles::on_every_engine("upload_ttl_seconds = 100", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let path = begin(&ann, 6, &[]).await;
        patch(&ann, &path, 0, b"abc", &[]).await.is(204);
        let piece = with.folder.path().join(&id(&path)[34..]).join(format!("{}.p1", id(&path)));
        assert!(piece.exists());
        with.app.wait(SignedDuration::from_secs(101));
        let gone = patch(&ann, &path, 3, b"def", &[]).await;
        assert!(matches!(gone.status(), 404 | 410), "{}", gone.status());
        let begin = std::time::Instant::now();
        while piece.exists() {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}: bytes stay", with.app.engine());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test]
async fn metadata_of_images_is_removed_and_a_damaged_image_ends_the_upload() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let dirty = [PNG, b"canary"].concat();
        let path = begin(&ann, dirty.len(), &[]).await;
        patch(&ann, &path, 0, &dirty[..20], &[]).await.is(204);
        patch(&ann, &path, 20, &dirty[20..], &[]).await.is(204);
        let ticket = ann.post("/tickets", json!({ "cover": named(id(&path)) })).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&ticket["cover"])).await.is(200).bytes().as_ref(), PNG);
        let path = begin(&ann, 30, &[]).await;
        let refused = patch(&ann, &path, 0, &PNG[..30], &[]).await.is(422);
        assert_eq!(refused.at("/code"), "file_type");
        send(&ann, Method::HEAD, &path, &[], Body::empty()).await.is(410);
    }
}

#[tokio::test]
async fn a_bucket_keeps_pieces_until_the_file_is_whole() {
    let (objects, endpoint) = s3_server().await;
    for app in TestApp::on_every_engine(&bucket(&endpoint, ENTITIES)).await {
        let ann = app.signed_in("ann@example.com").await;
        // More than one object in one request, and a short rest.
        let bytes: Vec<u8> = (0..10_000_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let path = begin(&ann, bytes.len(), &[]).await;
        let network = bytes[..9_999_999].chunks(100_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec()));
        let body = Body::from_stream(futures_util::stream::iter(network.collect::<Vec<_>>()));
        let headers = [("upload-offset", "0"), ("content-type", "application/offset+octet-stream")];
        send(&ann, Method::PATCH, &path, &headers, body).await.is(204);
        let of = |of: &str| objects.lock().keys().filter(|key| key.contains(of)).count();
        assert_eq!(of(&format!("{}.p", id(&path))), 2);
        patch(&ann, &path, 9_999_999, &bytes[9_999_999..], &[]).await.is(204);
        assert_eq!(of(&format!("{}.p", id(&path))), 0, "{}", app.engine());
        let ticket = ann.post("/tickets", json!({ "cover": named(id(&path)) })).await;
        // It is no image; that it is there is what matters.
        assert!(ticket.is(422).text().contains("file_type"));
        let key = format!("of/tests/{}/{}", &id(&path)[34..], id(&path));
        assert_eq!(objects.lock().get(&key), Some(&bytes));
    }
}
