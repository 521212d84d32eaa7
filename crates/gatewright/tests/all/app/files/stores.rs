//! Stores that fail, that are slow, and a bucket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use gatewright_testing::TestApp;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

use super::{ENTITIES, WithFiles, named, upload, uploaded, url};

/// A configuration with a bucket on that server.
pub(super) fn bucket(endpoint: &str, entities: &str) -> String {
    format!(
        "[storage]\nbackend = \"s3\"\n[storage.s3]\nendpoint = \"{endpoint}\"\nbucket = \"things\"\npath_style = true\n\
         prefix = \"of/tests\"\naccess_key_id = \"key\"\nsecret_access_key = \"canary-secret\"\n{entities}"
    )
}

#[tokio::test]
async fn a_store_that_fails_is_503_and_its_files_are_deleted_once_it_works() {
    for with in WithFiles::on_every_engine("", ENTITIES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a", b"a").await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let (folder, aside) = (with.folder.path(), with.folder.path().with_extension("aside"));
        std::fs::rename(folder, &aside).unwrap();
        std::fs::write(folder, b"no folder").unwrap();
        let refused = upload(&ann, "b", b"b").await.is(503);
        assert_eq!(refused.at("/code"), "storage_unavailable");
        assert!(refused.header("retry-after").is_some());
        assert_ne!(ann.get(&url(&ticket["attachments"][0])).await.status(), 200);
        let path = format!("/tickets/{}", ticket["id"].as_str().unwrap());
        ann.get(&path).await.is(200);
        ann.patch(&path, json!({ "attachments": [] })).await.is(200);
        std::fs::remove_file(folder).unwrap();
        std::fs::rename(&aside, folder).unwrap();
        with.loses(&id).await;
        upload(&ann, "b", b"b").await.is(201);
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_503_and_delays_nobody_else() {
    // It accepts connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let _silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    for app in TestApp::on_every_engine(&bucket(&endpoint, ENTITIES)).await {
        let ann = app.signed_in("ann@example.com").await;
        let bob = app.signed_in("bob@example.com").await;
        let uploads = futures_util::future::join_all((0..4).map(|_| upload(&ann, "a", b"a")));
        let others = async {
            let begin = Instant::now();
            for _ in 0..20 {
                bob.post("/tickets", json!({ "title": "quick" })).await.is(201);
                bob.get("/tickets").await.is(200);
            }
            begin.elapsed()
        };
        let (uploads, took) = tokio::join!(uploads, others);
        assert!(took < Duration::from_secs(5), "{}: {took:?}", app.engine());
        for refused in uploads {
            let refused = refused.is(503);
            assert_eq!(refused.at("/code"), "storage_unavailable");
            assert!(refused.header("retry-after").is_some() && !refused.text().contains("canary"));
        }
    }
}

/// The keys that were written, each as often as it was.
pub(super) const WRITTEN: &str = "parts written";

pub(super) type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// As much of S3 as a store needs: objects, uploads in parts, lists.
async fn s3(State(objects): State<Objects>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    assert!(parts.headers.contains_key("authorization"), "the request is signed");
    let key = parts.uri.path().trim_start_matches("/things").trim_start_matches('/').to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let mut objects = objects.lock();
    let xml = |text: String| ([("content-type", "application/xml")], text).into_response();
    match parts.method {
        Method::POST if query.starts_with("uploads") => xml(format!(
            "<InitiateMultipartUploadResult><Bucket>things</Bucket><Key>{key}</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        )),
        Method::PUT if query.contains("partNumber=") => {
            let number = query.split("partNumber=").nth(1).unwrap().split('&').next().unwrap();
            objects.insert(format!("parts of {key} {number:0>5}"), body.to_vec());
            ([("etag", format!("\"{number}\""))], "").into_response()
        }
        Method::POST if query.contains("uploadId=") => {
            let prefix = format!("parts of {key} ");
            let parts: Vec<String> = objects.keys().filter(|name| name.starts_with(&prefix)).cloned().collect();
            let whole: Vec<u8> = parts.iter().flat_map(|part| objects.remove(part).unwrap()).collect();
            objects.insert(key.clone(), whole);
            objects.entry(WRITTEN.to_owned()).or_default().extend_from_slice(format!("{key}\n").as_bytes());
            xml(format!(
                "<CompleteMultipartUploadResult><Bucket>things</Bucket><Key>{key}</Key><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"
            ))
        }
        Method::POST => {
            let text = String::from_utf8_lossy(&body).into_owned();
            let keys: Vec<&str> =
                text.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap()).collect();
            let mut deleted = String::from("<DeleteResult>");
            for key in keys {
                objects.remove(key);
                deleted.extend(["<Deleted><Key>", key, "</Key></Deleted>"]);
            }
            xml(deleted + "</DeleteResult>")
        }
        Method::DELETE => {
            objects.remove(&key);
            StatusCode::NO_CONTENT.into_response()
        }
        Method::PUT => {
            objects.insert(key, body.to_vec());
            ([("etag", "\"e\"")], "").into_response()
        }
        Method::GET if query.contains("list-type=2") => {
            let one = |(key, bytes): (&String, &Vec<u8>)| {
                let size = bytes.len();
                format!(
                    "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>{size}</Size></Contents>"
                )
            };
            let all: String = objects.iter().filter(|(key, _)| !key.starts_with("parts")).map(one).collect();
            xml(format!(
                "<ListBucketResult><Name>things</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated>{all}</ListBucketResult>"
            ))
        }
        _ => {
            let Some(bytes) = objects.get(&key) else {
                return (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response();
            };
            let range =
                parts.headers.get("range").map(|range| range.to_str().unwrap().trim_start_matches("bytes=").to_owned());
            let modified = ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned());
            let etag = ("etag", "\"e\"".to_owned());
            match range {
                None => ([modified, etag], bytes.clone()).into_response(),
                Some(range) => {
                    let (first, last) = range.split_once('-').unwrap();
                    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                    let shown = ("content-range", format!("bytes {first}-{last}/{}", bytes.len()));
                    (StatusCode::PARTIAL_CONTENT, [modified, etag, shown], bytes[first..=last].to_vec()).into_response()
                }
            }
        }
    }
}

/// A server of S3, and its address.
pub(super) async fn s3_server() -> (Objects, String) {
    let objects = Objects::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(s3).with_state(objects.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (objects, endpoint)
}

#[tokio::test]
async fn a_bucket_keeps_the_files_and_loses_them_with_their_records() {
    let (objects, endpoint) = s3_server().await;
    for app in TestApp::on_every_engine(&bucket(&endpoint, ENTITIES)).await {
        let ann = app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "a.txt", b"0123456789").await;
        let ticket = ann.post("/tickets", json!({ "attachments": [named(&id)] })).await.is(201).at("/data");
        let path = url(&ticket["attachments"][0]);
        assert_eq!(ann.get(&path).await.is(200).text(), "0123456789");
        let part = ann.clone().sending("range", "bytes=2-4").get(&path).await.is(206);
        assert_eq!(part.text(), "234");
        // More than one part.
        let large = vec![b'x'; 9 << 20];
        let cover = uploaded(&ann, "large", &large).await;
        let key = format!("of/tests/{}/{cover}", &cover[34..]);
        assert_eq!(objects.lock().get(&key), Some(&large));
        let keys = [key, format!("of/tests/{}/{id}", &id[34..])];
        ann.patch(&format!("/tickets/{}", ticket["id"].as_str().unwrap()), json!({ "attachments": [] })).await.is(200);
        app.wait(jiff::SignedDuration::from_hours(25));
        let begin = Instant::now();
        while keys.iter().any(|key| objects.lock().contains_key(key)) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{}: objects stay", app.engine());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
