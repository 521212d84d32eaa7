//! Thumbnails beside those of Pillow: sizes, colors, profiles and orientations.

use serde_json::Value;

use crate::harness::{Database, Launch, PASSWORD, python_tools, run};

const ADA: &str = "ada@example.com";

const ENTITIES: &str = "[storage]\nreserve_bytes = 0\npath = \"files\"\n[[entity]]\nname = \"pictures\"\npublic = true\n\
    [[entity.field]]\nname = \"image\"\ntype = \"file\"\n\
    thumbnails = [\"80x60\", \"60x80t\", \"60x80b\", \"90x90f\", \"70x0\", \"0x50\", \"400x300\"]\n";

/// The greatest mean difference of a color, of 255.
const MOST: f64 = 3.0;

#[tokio::test(flavor = "multi_thread")]
async fn thumbnails_are_those_of_pillow() {
    let Some(python) = python_tools() else { return };
    let server = Launch::configured(ENTITIES).start(&Database::Sqlite).await;
    server.client().register(ADA).await.is(200);
    let script = format!("{}/tools/thumbnails.py", env!("CARGO_MANIFEST_DIR"));
    let base = format!("http://{}", server.address());
    let report = run(python.join("python"), &[&*script, &base, ADA, PASSWORD]).await;
    let report: Vec<Value> = serde_json::from_str(&report).unwrap();
    assert_eq!(report.len(), 24 * 7, "all images in all sizes");
    for made in report {
        assert_eq!(made["hasSize"], true, "{made}");
        assert!(made["difference"].as_f64().unwrap() <= MOST, "{made}");
        assert_eq!(made["keepsProfile"], true, "{made}");
        assert_eq!(made["isUpright"], true, "{made}");
        let (name, ending) = made["name"].as_str().unwrap().split_once('.').unwrap();
        let expected = match (name, ending) {
            ("clear", "webp") => "image/webp",
            (_, "jpg" | "webp") => "image/jpeg",
            _ => "image/png",
        };
        assert_eq!(made["type"], expected, "{made}");
    }
}
