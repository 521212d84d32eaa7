//! Thumbnails: who gets them, that they are made once, and what cannot be made.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use gatewright_testing::{Actor, TestApp};
use image::{ImageFormat, Rgb, RgbImage};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::stores::{WRITTEN, bucket, s3_server};
use super::{WithFiles, named, uploaded, url};

const ENTITIES: &str = r#"
[[entity]]
name = "photos"
owner_field = "user_id"
[[entity.field]]
name = "image"
type = "file"
max_bytes = 20000000
keep_metadata = true
thumbnails = ["100x100", "50x0", "40x40f"]

[[entity]]
name = "posters"
public = true
[[entity.field]]
name = "image"
type = "file"
public = true
thumbnails = ["30x20"]
"#;

/// An image that is no single color.
fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let byte = |of: u32| u8::try_from(of % 256).unwrap();
    let image = RgbImage::from_fn(width, height, |x, y| Rgb([byte(x), byte(y), byte(x + y)]));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A photo, and its file.
async fn photo(actor: &Actor, name: &str, bytes: &[u8]) -> Value {
    let id = uploaded(actor, &format!("{name}&keepMetadata=1"), bytes).await;
    actor.post("/photos", json!({ "image": named(&id) })).await.is(201).at("/data")
}

fn thumbnail(photo: &Value, size: &str) -> String {
    format!("{}?thumbnail={size}", url(&photo["image"]))
}

fn dimensions(bytes: &[u8]) -> (u32, u32) {
    let image = image::load_from_memory(bytes).unwrap();
    (image.width(), image.height())
}

#[tokio::test]
async fn a_declared_size_is_served_with_the_rights_of_the_file() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let made = photo(&ann, "a.gif", &picture(300, 200, ImageFormat::Gif)).await;
        for (size, expected) in [("100x100", (100, 100)), ("50x0", (50, 33)), ("40x40f", (40, 27))] {
            let answer = ann.get(&thumbnail(&made, size)).await.is(200);
            assert_eq!(dimensions(answer.bytes()), expected, "{size}");
            assert_eq!(answer.header("content-type"), Some("image/png"));
            assert!(answer.header("content-disposition").unwrap().starts_with("inline; filename=\"a.png\""));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            let etag = answer.header("etag").unwrap().to_owned();
            assert_ne!(etag, format!("\"{}\"", made["image"]["sha256"].as_str().unwrap()));
            ann.clone().sending("if-none-match", &etag).get(&thumbnail(&made, size)).await.is(304);
            let part = ann.clone().sending("range", "bytes=1-3").get(&thumbnail(&made, size)).await.is(206);
            assert_eq!(part.text(), "PNG");
        }
        let bob = with.app.signed_in("bob@example.com").await;
        bob.get(&thumbnail(&made, "100x100")).await.is(404);
        with.app.anonymous().get(&thumbnail(&made, "100x100")).await.is(401);
        // What is no image is served as it is.
        let text = photo(&ann, "a.txt", b"text").await;
        let answer = ann.get(&thumbnail(&text, "100x100")).await.is(200);
        assert_eq!((answer.text(), answer.header("content-type")), ("text", Some("text/plain; charset=utf-8")));
    }
}

#[tokio::test]
async fn other_sizes_are_refused_and_leave_nothing() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let made = photo(&ann, "a.png", &picture(30, 20, ImageFormat::Png)).await;
        let before = with.count();
        for side in 1..=100 {
            let refused = ann.get(&thumbnail(&made, &format!("{side}x99"))).await.is(400);
            assert_eq!(refused.at("/code"), "unknown_thumbnail");
        }
        for wrong in ["", "100x100t", "0100x100", "100X100", "100x100%00", "../a", "40x40"] {
            ann.get(&thumbnail(&made, wrong)).await.is(400);
        }
        ann.get(&format!("{}&thumbnail=50x0", thumbnail(&made, "50x0"))).await.is(400);
        assert_eq!(with.count(), before);
    }
}

#[tokio::test]
async fn an_address_can_be_signed_for_one_thumbnail() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let made = photo(&ann, "a.png", &picture(300, 200, ImageFormat::Png)).await;
        let sign = format!("{}/_sign", url(&made["image"]));
        let refused = ann.post(&sign, json!({ "thumbnail": "7x7" })).await.is(400);
        assert_eq!(refused.at("/code"), "unknown_thumbnail");
        let signed = ann.post(&sign, json!({ "thumbnail": "50x0" })).await.is(200).at("/url");
        let (signed, anyone) = (signed.as_str().unwrap().to_owned(), with.app.anonymous());
        assert_eq!(dimensions(anyone.get(&signed).await.is(200).bytes()), (50, 33));
        // Neither the file nor another size.
        for other in [
            signed.replace("thumbnail=50x0&", ""),
            signed.replace("50x0", "100x100"),
            signed.replace("thumbnail=50x0", "download=1"),
            format!("{signed}&download=1"),
        ] {
            assert_eq!(anyone.get(&other).await.is(403).at("/code"), "invalid_signature");
        }
        let whole = ann.post(&sign, json!({})).await.is(200).at("/url");
        anyone.get(&format!("{}&thumbnail=50x0", whole.as_str().unwrap())).await.is(403);
        with.app.wait(SignedDuration::from_secs(61));
        anyone.get(&signed).await.is(403);
    }
}

#[tokio::test]
async fn a_public_field_shows_its_thumbnails_to_anybody() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.jpg", &picture(60, 60, ImageFormat::Jpeg)).await;
        let made = ann.post("/posters", json!({ "image": named(&id) })).await.is(201).at("/data");
        let answer = with.app.anonymous().get(&thumbnail(&made, "30x20")).await.is(200);
        assert_eq!(dimensions(answer.bytes()), (30, 20));
        assert_eq!(answer.header("content-type"), Some("image/jpeg"));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=3600"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_requests_make_a_thumbnail_once() {
    let (objects, endpoint) = s3_server().await;
    for app in TestApp::on_every_engine(&bucket(&endpoint, ENTITIES)).await {
        let ann = app.signed_in("ann@example.com").await;
        let made = photo(&ann, "a.png", &picture(600, 600, ImageFormat::Png)).await;
        let path = thumbnail(&made, "100x100");
        let answers = join_all((0..20).map(|_| ann.get(&path))).await;
        let first = answers[0].bytes().clone();
        for answer in answers {
            assert!(matches!(answer.status(), 200 | 429), "{}", answer.text());
            assert!(answer.status() == 429 || answer.bytes() == &first);
        }
        let id = made["image"]["id"].as_str().unwrap();
        let written = String::from_utf8(objects.lock().get(WRITTEN).unwrap().clone()).unwrap();
        assert_eq!(written.matches(&format!("{id}.100x100")).count(), 1, "{}: {written}", app.engine());
        // Also not later.
        ann.get(&path).await.is(200);
        let written = String::from_utf8(objects.lock().get(WRITTEN).unwrap().clone()).unwrap();
        assert_eq!(written.matches(&format!("{id}.100x100")).count(), 1);
    }
}

/// A file whose header says that it has this many pixels, and little else.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut png = picture(1, 1, ImageFormat::Png);
    // The sides are in the first chunk, and its checksum follows.
    png[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let mut crc = flate2::Crc::new();
    crc.update(&png[12..29]);
    png[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    let mut jpeg = picture(8, 8, ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff, 0, 0xff, 0]);
    let gif =
        [b"GIF89a\xff\xff\xff\xff\0\0\0".as_slice(), b"\x2c\0\0\0\0\xff\xff\xff\xff\0\x02\x02\x4c\x01\0\x3b"].concat();
    let mut webp = picture(8, 8, ImageFormat::WebP);
    // 14 bits for each side of a lossless image.
    let sides = webp.windows(4).position(|four| four == b"VP8L").unwrap() + 9;
    webp[sides..sides + 4].copy_from_slice(&(0x3ffe_u32 << 14 | 0x3ffe).to_le_bytes());
    vec![("png", png), ("jpg", jpeg), ("gif", gif), ("webp", webp)]
}

#[tokio::test]
async fn what_is_too_large_or_damaged_is_refused_before_it_is_decoded_and_remembered() {
    let mut damaged = picture(40, 40, ImageFormat::Png);
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0);
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let cases = bombs().into_iter().chain([("broken.png", damaged.clone())]);
        for (name, bytes) in cases {
            let made = photo(&ann, name, &bytes).await;
            let refused = ann.get(&thumbnail(&made, "100x100")).await.is(422);
            assert_eq!(refused.at("/code"), "thumbnail_unavailable", "{name}");
            let expected = if name == "broken.png" { "damaged" } else { "too many pixels" };
            assert!(refused.text().contains(expected), "{name}: {}", refused.text());
            // It is not tried again: the bytes are not even read.
            let id = made["image"]["id"].as_str().unwrap();
            std::fs::remove_file(with.folder.path().join(&id[34..]).join(id)).unwrap();
            ann.get(&thumbnail(&made, "100x100")).await.is(422);
        }
    }
}

#[tokio::test]
async fn thumbnails_end_with_their_file_and_are_made_again_if_the_store_lost_them() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let made = photo(&ann, "a.png", &picture(300, 200, ImageFormat::Png)).await;
        let id = made["image"]["id"].as_str().unwrap().to_owned();
        let first = ann.get(&thumbnail(&made, "50x0")).await.is(200);
        ann.get(&thumbnail(&made, "100x100")).await.is(200);
        let stored = with.folder.path().join(&id[34..]).join(format!("{id}.50x0"));
        std::fs::remove_file(&stored).unwrap();
        assert_eq!(ann.get(&thumbnail(&made, "50x0")).await.is(200).bytes(), first.bytes());
        assert!(stored.exists());
        ann.delete(&format!("/photos/{}", made["id"].as_str().unwrap())).await.is(204);
        ann.get(&thumbnail(&made, "50x0")).await.is(404);
        with.loses(&id).await;
        assert!(!stored.exists() && !stored.with_extension("100x100").exists());
        let db = with.app.app().db();
        let left = "SELECT size FROM gatewright_thumbnails WHERE file = ?1";
        let begin = std::time::Instant::now();
        while !db.query(left, vec![gatewright_db::Value::from(id.as_str())]).await.unwrap().is_empty() {
            assert!(begin.elapsed() < std::time::Duration::from_secs(10), "rows stay");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thumbnails_of_one_caller_do_not_delay_those_of_another() {
    const MANY: usize = 6;
    let large = picture(2500, 2500, ImageFormat::Png);
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let (ann, bob) = (with.app.signed_in("ann@example.com").await, with.app.signed_in("bob@example.com").await);
        let mut photos = Vec::new();
        for _ in 0..MANY {
            photos.push(photo(&ann, "a.png", &large).await);
        }
        let bobs = photo(&bob, "b.png", &picture(200, 200, ImageFormat::Png)).await;
        let done = AtomicUsize::new(0);
        let anns = join_all(photos.iter().map(async |photo| {
            ann.get(&thumbnail(photo, "100x100")).await.is(200);
            done.fetch_add(1, Ordering::SeqCst);
        }));
        let bobs = async {
            while done.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            bob.get(&thumbnail(&bobs, "100x100")).await.is(200);
            done.load(Ordering::SeqCst)
        };
        let (_, before) = tokio::join!(anns, bobs);
        // Those of Ann are made one after the other: Bob's is made beside them.
        assert!(before < MANY, "{}: all {before} of Ann came first", with.app.engine());
    }
}
