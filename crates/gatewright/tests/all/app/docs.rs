use std::io::Read;

use flate2::read::GzDecoder;
use gatewright_testing::TestApp;

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline() {
    for app in TestApp::on_every_engine("").await {
        let anybody = app.anonymous();
        let page = anybody.get("/api/docs").await.is(200);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let loaded: Vec<&str> = page.text().split(['"', '\'']).filter(|text| text.starts_with("/api/docs/")).collect();
        assert_eq!(loaded.len(), 5, "{loaded:?}");
        for path in loaded {
            let file = anybody.get(path).await.is(200);
            assert!(!file.text().is_empty() && file.header("content-type").is_some(), "{path}");
            assert_eq!(file.header("content-encoding"), None, "{path}");
        }
        assert!(!page.text().contains("://"), "{}", page.text());
        for absent in ["/api/docs/index.html", "/api/docs/swagger-initializer.js", "/api/docs/..%2f..%2fetc%2fpasswd"] {
            anybody.get(absent).await.is(404);
        }
    }
}

#[tokio::test]
async fn the_files_of_the_page_are_compressed_for_clients_that_take_it() {
    let app = TestApp::on_every_engine("").await.remove(0);
    let path = "/api/docs/swagger-ui-bundle.js";
    let plain = app.anonymous().get(path).await.is(200);
    assert_eq!(plain.header("vary"), Some("accept-encoding"));
    for (accepted, is_compressed) in [
        ("gzip, deflate, br", true),
        ("br;q=1, GZIP;q=0.5", true),
        ("identity", false),
        ("gzip;q=0, identity", false),
        ("gzip;q=0.000", false),
        ("gzip;Q=0", false),
        ("xgzip", false),
    ] {
        let answer = app.anonymous().sending("accept-encoding", accepted).get(path).await.is(200);
        assert_eq!(answer.header("content-encoding") == Some("gzip"), is_compressed, "{accepted}");
        if is_compressed {
            let mut text = String::new();
            GzDecoder::new(&answer.bytes()[..]).read_to_string(&mut text).unwrap();
            assert!(text == plain.text() && answer.bytes().len() * 3 < text.len(), "{accepted}");
        } else {
            assert!(answer.text() == plain.text(), "{accepted}");
        }
    }
}

#[tokio::test]
async fn if_switched_off_the_page_is_404_and_the_document_stays() {
    for app in TestApp::on_every_engine("[docs]\nenabled = false\n").await {
        app.anonymous().get("/api/docs").await.is(404);
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        assert_eq!(document["paths"].get("/api/docs"), None);
    }
}
