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
        }
        assert!(!page.text().contains("://"), "{}", page.text());
        for absent in ["/api/docs/index.html", "/api/docs/swagger-initializer.js", "/api/docs/..%2f..%2fetc%2fpasswd"] {
            anybody.get(absent).await.is(404);
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
