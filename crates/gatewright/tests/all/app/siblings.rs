//! A page of a sibling site: browsers send it the session's cookie with a form, and a form needs no preflight.

use axum::body::Body;
use gatewright_testing::{Actor, Answer, TestApp};
use http::{Method, header};
use serde_json::{Value, json};

const NOTES: &str = "[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\nsoft_delete = true\n\
                     [[entity.field]]\nname = \"text\"\ntype = \"text\"\n";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const SIBLING: (&str, &str) = ("origin", "https://blog.example.com");
const SAME_SITE: (&str, &str) = ("sec-fetch-site", "same-site");

/// A POST without a body, as `ada`, with these headers.
async fn post(ada: &Actor, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request = ada.request(Method::POST, path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    ada.send(request.body(Body::empty()).unwrap()).await
}

/// The path of a new note that is in the trash.
async fn deleted(ada: &Actor) -> String {
    let made = ada.post("/notes", json!({ "text": "x" })).await.is(201);
    let path = format!("/notes/{}", made.at("/data/id").as_str().unwrap());
    ada.delete(&path).await.is(204);
    path
}

#[tokio::test]
async fn no_page_of_another_origin_restores_a_record_with_the_session_cookie() {
    let config = format!("[server]\nallow_public_dev_mode = true\npublic_url = \"https://app.example.com\"\n{NOTES}");
    for app in TestApp::on_every_engine(&config).await {
        let ada = app.signed_in("ada@example.com").await;
        let path = deleted(&ada).await;
        let restore = format!("{path}/_restore");
        let refused: [&[(&str, &str)]; 9] = [
            &[FORM, SIBLING, SAME_SITE],
            &[FORM, SIBLING],
            &[FORM, SAME_SITE],
            &[FORM, ("sec-fetch-site", "cross-site")],
            &[FORM, ("origin", "null")],
            &[FORM, ("origin", "https://app.example.com"), ("sec-fetch-site", "cross-site")],
            &[SIBLING, SAME_SITE],
            &[("content-type", "text/plain"), SIBLING, SAME_SITE],
            &[("content-type", "multipart/form-data; boundary=x"), SIBLING, SAME_SITE],
        ];
        for headers in refused {
            let answer = post(&ada, &restore, headers).await.is(403);
            assert_eq!(answer.at("/code"), "cross_site", "{headers:?}");
        }
        ada.get(&path).await.is(404);
        let passes: [&[(&str, &str)]; 7] = [
            // A program.
            &[],
            &[FORM],
            // A page of the service, by its public URL or by the host of the request.
            &[FORM, ("origin", "https://app.example.com"), ("sec-fetch-site", "same-origin")],
            &[("origin", "https://app.example.com"), SAME_SITE],
            &[("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            // It needs a preflight, which only an allowed page passes.
            &[("content-type", "application/json"), SIBLING, SAME_SITE],
        ];
        for headers in passes {
            post(&ada, &restore, headers).await.is(200);
            ada.delete(&path).await.is(204);
        }
        // No browser sends a token by itself.
        let token = app.anonymous().post("/auth/login", credentials()).await.is(200).at("/token");
        let program = app.anonymous().bearing(token.as_str().unwrap());
        post(&program, &restore, &[FORM, SIBLING, SAME_SITE]).await.is(200);
    }
}

fn credentials() -> Value {
    json!({ "email": "ada@example.com", "password": "correct horse battery" })
}

/// Every POST of the document: with the cookie, the form of a sibling site has no success.
#[tokio::test]
async fn no_form_of_a_sibling_site_succeeds_anywhere() {
    let config = format!("[authorization_server]\nenabled = true\ndynamic_registration = true\n{NOTES}");
    for app in TestApp::on_every_engine(&config).await {
        let ada = app.signed_in("ada@example.com").await;
        let id = deleted(&ada).await.rsplit('/').next().unwrap().to_owned();
        let document = app.anonymous().get("/openapi.json").await.is(200).json();
        let posts = document["paths"].as_object().unwrap().iter().filter(|(_, methods)| methods["post"].is_object());
        let mut seen = 0;
        for (path, _) in posts {
            let path = path.replace("{id}", &id);
            for content_type in [FORM, ("content-type", "text/plain")] {
                let answer = post(&ada, &path, &[content_type, SIBLING, SAME_SITE]).await;
                let status = answer.status();
                assert!((400..500).contains(&status), "{path} {content_type:?}: {status} {}", answer.text());
            }
            seen += 1;
        }
        assert!(seen > 30, "{seen}");
        // Ada is signed in, and nothing has changed.
        ada.get("/auth/me").await.is(200);
        ada.get(&format!("/notes/{id}")).await.is(404);
        let account = ada.request(Method::POST, "/notes").header(header::CONTENT_TYPE, "text/plain");
        ada.send(account.body(Body::from("{\"text\":\"x\"}")).unwrap()).await.is(415);
    }
}
