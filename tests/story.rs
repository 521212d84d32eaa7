//! The example of the README, from an empty folder to a restart, on both engines.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Database, Launch};

#[tokio::test(flavor = "multi_thread")]
async fn a_post_reaches_its_author_s_other_client_and_no_stranger() {
    for database in Database::all().await {
        let server = Launch::dev().start(&database).await;
        let (writer, reader, stranger) = (server.client(), server.client(), server.client());
        let user = writer.register("Ada@Example.com ").await.is(200).json()["user"].clone();
        assert_eq!(user["email"], "ada@example.com");
        assert_eq!(user["roles"], json!(["user"]));
        writer.get("/auth/me").await.is(401); // registering with JSON does not sign in
        for client in [&writer, &reader] {
            assert_eq!(client.log_in("ada@example.com").await.is(200).json()["user"], user);
            assert_eq!(client.get("/auth/me").await.is(200).json()["user"], user);
        }

        let mut stream = reader.listen("posts").await;
        let answer = writer.post("/posts", &json!({ "title": "Hello", "body": "First post" })).await.is(201);
        let post = answer.json()["data"].clone();
        assert_eq!(answer.header("location"), format!("/posts/{}", post["id"].as_str().unwrap()));
        assert_eq!((&post["title"], &post["status"]), (&json!("Hello"), &json!("draft")));
        let event = stream.next().await.unwrap();
        assert_eq!(event.kind, "entity.created");
        let id = event.data["id"].as_str().expect("a logged event has an id");
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(
            event.data,
            json!({ "id": id, "type": "entity.created", "data": { "entity": "posts", "table": "posts", "record": post } })
        );
        assert_eq!(reader.get("/posts").await.is(200).json()["data"], json!([post]));

        for path in ["/posts", "/posts/_events", answer.header("location")] {
            let refused = stranger.get(path).await.is(401);
            assert_eq!(refused.header("content-type"), "application/problem+json");
        }
        stranger.post("/posts", &json!({ "title": "Mine now" })).await.is(401);

        // Another user is signed in, and still cannot see the post.
        stranger.register("eve@example.com").await.is(200);
        stranger.log_in("eve@example.com").await.is(200);
        let mut hers = stranger.listen("posts").await;
        assert_eq!(stranger.get("/posts").await.is(200).json()["total"], 0);
        stranger.get(answer.header("location")).await.is(404);
        Answer::read(stranger.request(Method::DELETE, answer.header("location"))).await.is(404);

        // The owner's stream receives updates and deletes in order. Nobody else's does.
        let path = answer.header("location");
        Answer::read(writer.request(Method::PATCH, path).json(&json!({ "status": "published" }))).await.is(200);
        Answer::read(writer.request(Method::DELETE, path)).await.is(204);
        for (kind, status) in [("entity.updated", "published"), ("entity.deleted", "published")] {
            let event = stream.next().await.unwrap();
            assert_eq!((event.kind.as_str(), &event.data["data"]["record"]["status"]), (kind, &json!(status)));
        }
        let own = stranger.post("/posts", &json!({ "title": "Hers" })).await.is(201).json();
        assert_eq!(hers.next().await.unwrap().data["data"]["record"], own["data"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_a_restart_and_ends_at_logout() {
    for database in Database::all().await {
        let mut server = Launch::dev().start(&database).await;
        let ada = server.client();
        ada.register("ada@example.com").await.is(200);
        ada.log_in("ada@example.com").await.is(200);
        let post = ada.post("/posts", &json!({ "title": "Kept" })).await.is(201).json();
        let _stream = ada.listen("posts").await;

        assert_eq!(server.stop().await, Some(0), "an open stream must not keep the server from ending");
        server.restart();

        ada.get("/auth/me").await.is(200);
        assert_eq!(ada.get("/posts").await.is(200).json()["data"][0], post["data"]);
        ada.post("/auth/logout", &json!({})).await.is(204);
        ada.get("/auth/me").await.is(401);
        ada.get("/posts").await.is(401);

        // The server has ended the session: a copy of the cookie is refused too, even after a crash.
        server.kill();
        server.restart();
        ada.get("/auth/me").await.is(401);
        ada.log_in("ada@example.com").await.is(200);
        ada.get("/auth/me").await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_cookie_is_refused_after_logout() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    let (ada, thief) = (server.client(), server.client());
    ada.register("ada@example.com").await.is(200);
    let answer = ada.log_in("ada@example.com").await.is(200);
    let cookie = answer.header("set-cookie").to_owned();
    for attribute in ["session_id=", "HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let pair = cookie.split(';').next().unwrap();
    let me = || Answer::read(thief.request(Method::GET, "/auth/me").header("cookie", pair));
    me().await.is(200);
    ada.post("/auth/logout", &json!({})).await.is(204);
    me().await.is(401);
}

#[tokio::test(flavor = "multi_thread")]
async fn production_has_no_development_paths_and_only_secure_cookies() {
    for database in Database::all().await {
        let mut server = Launch::production("[[entity]]\nname = \"notes\"\n").start(&database).await;
        let ada = server.client();
        for path in ["/dev/mail", "/dev/mail.json"] {
            ada.get(path).await.is(404);
        }
        let token = ada.register("ada@example.com").await.is(200).json()["token"].as_str().unwrap().to_owned();
        let answer = ada.log_in("ada@example.com").await.is(200);
        let cookie = answer.header("set-cookie");
        assert!(cookie.starts_with("__Host-session="), "{cookie}");
        for attribute in ["Secure", "HttpOnly", "SameSite=Lax", "Path=/"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains("Domain"), "{cookie}");

        // With a configured secret, the server accepts its tokens after a restart.
        assert_eq!(server.stop().await, Some(0));
        server.restart();
        let bearer = format!("Bearer {token}");
        let notes = ada.request(Method::GET, "/notes").header("authorization", &bearer);
        Answer::read(notes).await.is(200);
    }
}
