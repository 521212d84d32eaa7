//! Metadata of images.

use http::Method;
use serde_json::json;

use super::{PNG, WithFiles, form, named, upload, uploaded, url};

const CANARY: &[u8] = b"tEXtLocation\0GPS 52.5 13.4";

const ENTITIES: &str = r#"
[[entity]]
name = "photos"
public = true
[[entity.field]]
name = "shared"
type = "file"
accept = ["image/*"]
[[entity.field]]
name = "original"
type = "file"
keep_metadata = true
[[entity.field]]
name = "safe"
type = "file"
metadata = "require_removal"
"#;

/// The image of one pixel with a text in front of its end.
fn located() -> Vec<u8> {
    let text = &CANARY[4..];
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    let end = PNG.len() - 12;
    // Readers of PNG ignore the checksum of what they do not know.
    [&PNG[..end], &length, CANARY, b"\0\0\0\0", &PNG[end..], CANARY].concat()
}

fn has_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|window| window == CANARY)
}

#[tokio::test]
async fn metadata_is_removed_unless_the_field_keeps_it() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let image = located();
        assert!(has_canary(&image));
        let parts: &[super::Part<'_>] = &[("shared", Some("a.png"), &image), ("original", Some("b.png"), &image)];
        let photo = form(&ann, Method::POST, "/photos", parts).await.is(201).at("/data");
        let shared = ann.get(&url(&photo["shared"])).await.is(200);
        assert!(!has_canary(shared.bytes()));
        assert_eq!(shared.bytes().as_ref(), PNG, "all else stays as it is");
        assert_eq!(photo["shared"]["size"], PNG.len());
        assert_eq!(ann.get(&url(&photo["original"])).await.is(200).bytes().as_ref(), image);
        // By itself, a file is cleaned unless the request says that it goes to a field that keeps metadata.
        let clean = uploaded(&ann, "a.png", &image).await;
        let photo = ann.post("/photos", json!({ "shared": named(&clean) })).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&photo["shared"])).await.is(200).bytes().as_ref(), PNG);
        let kept = uploaded(&ann, "a.png&keepMetadata=1", &image).await;
        let refused = ann.post("/photos", json!({ "shared": named(&kept) })).await.is(422);
        assert_eq!(refused.at("/code"), "file_type");
        let photo = ann.post("/photos", json!({ "original": named(&kept) })).await.is(201).at("/data");
        assert_eq!(ann.get(&url(&photo["original"])).await.is(200).bytes().as_ref(), image);
        // Nothing with metadata is left in the store beside it.
        let groups = std::fs::read_dir(with.folder.path()).unwrap().map(|group| group.unwrap().path());
        let files = groups.filter(|group| group.is_dir()).flat_map(|group| std::fs::read_dir(group).unwrap());
        for file in files.map(|file| file.unwrap().path()) {
            assert!(file.extension().is_none(), "{}", file.display());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_cleaned_is_refused_where_that_is_required() {
    let video: &[u8] = b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2avc1mp41";
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let refused = form(&ann, Method::POST, "/photos", &[("safe", Some("a.mp4"), video)]).await.is(422);
        assert_eq!((refused.at("/code"), refused.at("/errors/0/field")), (json!("file_type"), json!("safe")));
        let id = uploaded(&ann, "a.mp4", video).await;
        let refused = ann.post("/photos", json!({ "safe": named(&id) })).await.is(422);
        assert_eq!((refused.at("/code"), refused.at("/errors/0/field")), (json!("file_type"), json!("safe")));
        form(&ann, Method::POST, "/photos", &[("safe", Some("a.txt"), b"text")]).await.is(201);
        form(&ann, Method::POST, "/photos", &[("safe", Some("a.png"), PNG)]).await.is(201);
        // A part of an image has metadata perhaps.
        let cut = &located()[..80];
        assert_eq!(upload(&ann, "a.png", cut).await.is(422).at("/code"), "file_type");
    }
}
