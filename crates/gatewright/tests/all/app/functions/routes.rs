use gatewright_testing::Actor;
use http::Method;
use serde_json::json;

use super::with_functions;

const NOTES: &str = entity!(owned "notes" "text");

const FILE: &str = r#"
    import { route, refuse } from "gatewright";

    export const pay = route("POST", "/payments", async (request, { db, caller }) => {
      const body = await request.text();
      const key = await crypto.subtle.importKey("raw", new TextEncoder().encode("whsec"), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
      const hex = request.headers.get("x-signature") ?? "";
      const bytes = new Uint8Array((hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16)));
      if (!(await crypto.subtle.verify("HMAC", key, bytes, new TextEncoder().encode(body)))) {
        return new Response("no", { status: 400 });
      }
      return Response.json({ paid: JSON.parse(body).amount, caller });
    }, { csrf: false });

    export const hello = route("GET", "/hello/{name}", async (request, { params, caller }) => {
      const url = new URL(request.url);
      return Response.json({ name: params.name, q: url.searchParams.get("q"), caller, cookie: request.headers.get("cookie") });
    });

    export const note = route("POST", "/notes", async (request, { db }) => {
      const made = await db.create("notes", await request.json());
      return Response.json(made.data, { status: 201, headers: { "x-made": "yes" } });
    });

    export const other = route("PUT", "/notes", async () => "not a response" as any);
    export const stop = route("GET", "/stop", async () => refuse(404, "nothing here"));
    export const all = route("GET", "/all", async (_, { db }) => Response.json(await db.system.list("notes", {})));
"#;

#[tokio::test]
async fn a_route_answers_with_what_the_function_returns() {
    let (apps, _folder) = with_functions(NOTES, &[("routes.ts", FILE)]).await;
    for app in apps {
        let ann = app.with_jwt("ann@example.com").await;
        let hello = ann.get("/fn/hello/world?q=1").await.is(200);
        assert_eq!((hello.at("/name"), hello.at("/q")), (json!("world"), json!("1")));
        assert_eq!(hello.at("/caller/kind"), "user");
        let made = ann.post("/fn/notes", json!({"text": "by a route"})).await.is(201);
        assert_eq!((made.at("/text"), made.header("x-made")), (json!("by a route"), Some("yes")));
        assert_eq!(ann.get("/notes").await.at("/total"), 1, "the caller's own");
        let bob = app.with_jwt("bob@example.com").await;
        assert_eq!(bob.get("/notes").await.at("/total"), 0);
        assert_eq!(bob.get("/fn/all").await.at("/total"), 1, "the system sees all");
        assert_eq!(ann.get("/fn/stop").await.is(404).at("/code"), "refused");
        let failed = ann.json(Method::PUT, "/fn/notes", &json!({})).await.is(500);
        assert_eq!(failed.at("/code"), "function_failed");
        ann.json(Method::DELETE, "/fn/notes", &json!({})).await.is(405);
        ann.get("/fn/nothing").await.is(404);
        // Errors of the database of the caller's own.
        let refused = app.anonymous().sending("content-type", "application/json");
        assert_eq!(refused.post("/fn/notes", json!({"text": "x"})).await.status(), 500, "uncaught");
    }
}

#[tokio::test]
async fn a_webhook_proves_itself_by_its_signature_and_cookies_count_only_with_a_token() {
    let toml = format!("[csrf]\nenabled = true\n{NOTES}");
    let (apps, _folder) = with_functions(&toml, &[("routes.ts", FILE)]).await;
    for app in apps {
        let signature = "3c1f2f2c4a1a1a0b5a0d0e4f0a7f5a9e".to_owned();
        let anyone = app.anonymous().sending("x-signature", &signature);
        anyone.post("/fn/payments", json!({"amount": 5})).await.is(400);
        let body = r#"{"amount":5}"#;
        let tag = hmac(b"whsec", body.as_bytes());
        // With a session cookie and from another site: the route does not look at the cookie.
        let mut ann = app.anonymous();
        let token = csrf_token(&mut ann).await;
        let registered = ann.request(Method::POST, "/auth/register").header("x-csrf-token", &token);
        let registered = registered.header("content-type", "application/json");
        let body_of = json!({"email": "ann@example.com", "password": "correct horse battery"}).to_string();
        ann.send(registered.body(body_of.clone().into()).unwrap()).await.is(200);
        let login = ann.request(Method::POST, "/auth/login").header("x-csrf-token", &token);
        let login = login.header("content-type", "application/json");
        let login = ann.send(login.body(body_of.into()).unwrap()).await.is(200);
        ann.keep_cookies(&login);
        let request = ann.request(Method::POST, "/fn/payments").header("x-signature", &tag);
        let request = request.header("origin", "https://other.example").header("content-type", "text/plain");
        let paid = ann.send(request.body(body.into()).unwrap()).await.is(200);
        assert_eq!(paid.json(), json!({"paid": 5, "caller": null}));

        // A route with CSRF tokens refuses a request with a cookie and without a token.
        let request = ann.request(Method::POST, "/fn/notes").header("content-type", "application/json");
        assert_eq!(ann.send(request.body(r#"{"text":"a"}"#.into()).unwrap()).await.status(), 403);
        let token = csrf_token(&mut ann).await;
        let request = ann.request(Method::POST, "/fn/notes").header("content-type", "application/json");
        let request = request.header("x-csrf-token", &token);
        ann.send(request.body(r#"{"text":"a"}"#.into()).unwrap()).await.is(201);
        // Without a session there is nothing to protect.
        assert_eq!(app.anonymous().post("/fn/notes", json!({"text": "a"})).await.at("/code"), "function_failed");
        let hello = ann.get("/fn/hello/x").await.is(200);
        assert_eq!(hello.at("/caller/kind"), "user");
        assert_eq!(hello.at("/cookie"), json!(null), "cookies stay with the service");
    }
}

#[tokio::test]
async fn without_csrf_tokens_requests_of_other_sites_have_no_identity_of_a_cookie() {
    let notes = entity!(owned "notes" "text");
    let (apps, _folder) = with_functions(notes, &[("routes.ts", FILE)]).await;
    for app in apps {
        let ann = app.signed_in("ann@example.com").await;
        assert_eq!(ann.get("/fn/hello/x").await.at("/caller/kind"), "user");
        for header in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            let request = ann.request(Method::GET, "/fn/hello/x").header(header.0, header.1);
            let hello = ann.send(request.body(axum::body::Body::empty()).unwrap()).await.is(200);
            assert_eq!(hello.at("/caller"), json!(null), "{header:?}");
        }
    }
}

#[tokio::test]
async fn api_tokens_need_the_scope_of_functions() {
    let (apps, _folder) = with_functions(NOTES, &[("routes.ts", FILE)]).await;
    for app in apps {
        let ann = app.signed_in("ann@example.com").await;
        for (scopes, status) in [(json!(["notes:read"]), 403), (json!(["fn:call"]), 200)] {
            let body = json!({"name": "t", "scopes": scopes, "password": "correct horse battery"});
            let made = ann.post("/auth/tokens", body).await;
            assert!(made.status() < 300, "{}", made.text());
            let token = made.json();
            let token =
                token.pointer("/token").or_else(|| token.pointer("/data/token")).unwrap().as_str().unwrap().to_owned();
            let program = app.anonymous().bearing(&token);
            program.get("/fn/hello/x").await.is(status);
        }
    }
}

#[tokio::test]
async fn bodies_of_routes_are_bounded() {
    let (apps, _folder) = with_functions(NOTES, &[("routes.ts", FILE)]).await;
    let Some(app) = apps.first() else { return };
    let large = "x".repeat((1 << 20) + 1);
    let request = app.anonymous().request(Method::POST, "/fn/payments").header("content-type", "text/plain");
    app.anonymous().send(request.body(large.into()).unwrap()).await.is(413);
}

async fn csrf_token(actor: &mut Actor) -> String {
    let answer = actor.get("/auth/csrf").await.is(200);
    actor.keep_cookies(&answer);
    answer.at("/csrfToken").as_str().unwrap().to_owned()
}

fn hmac(key: &[u8], data: &[u8]) -> String {
    use std::fmt::Write as _;

    use sha2::{Digest, Sha256};

    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(data).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    let mut hex = String::new();
    for byte in outer {
        write!(hex, "{byte:02x}").unwrap();
    }
    hex
}

#[tokio::test]
async fn fetch_calls_allowed_hosts_alone_and_secrets_reach_functions_and_no_answer() {
    let receiver = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = receiver.local_addr().unwrap().port();
    let echo = axum::Router::new()
        .route(
            "/echo",
            axum::routing::post(async |headers: http::HeaderMap, body: String| {
                format!("{} {body}", headers.get("x-key").map_or("none", |value| value.to_str().unwrap_or_default()))
            }),
        )
        .route("/away", axum::routing::get(async || axum::response::Redirect::temporary("http://127.0.0.1:1/echo")));
    tokio::spawn(async move { axum::serve(receiver, echo).await });
    let file = r#"
        import { route } from "gatewright";
        export const send = route("GET", "/send/{path}", async (request, { params, secrets }) => {
          const target = decodeURIComponent(new URL(request.url).searchParams.get("to") ?? "");
          try {
            const answers = await Promise.all([1, 2, 3].map((n) =>
              fetch(target, params.path === "echo" ? { method: "POST", body: `body ${n}`, headers: { "x-key": secrets.PATH ? "set" : "unset" } } : {})));
            return Response.json(await Promise.all(answers.map((answer) => answer.text())));
          } catch (error: any) {
            return Response.json({ error: error.code, message: error.message }, { status: 502 });
          }
        });
        export const wait = route("GET", "/wait", async () => {
          const all: number[] = [];
          setTimeout(() => all.push(2), 20);
          setTimeout(() => all.push(1), 1);
          clearTimeout(setTimeout(() => all.push(3), 1));
          await new Promise((resolve) => setTimeout(resolve, 40));
          return Response.json(all);
        });
        export const many = route("GET", "/many", async () => {
          const all = await Promise.allSettled(Array.from({ length: 200 }, () => new Promise((resolve) => setTimeout(resolve, 1))));
          return Response.json(all.length);
        });
        export const leak = route("GET", "/leak", async (_, { secrets }) => { console.log(secrets.PATH); throw new Error(secrets.PATH); });
    "#;
    let folder = super::folder(&[("all.ts", file)]);
    let toml = format!(
        "[functions]\nfolder = \"{}\"\nallow_hosts = [\"127.0.0.1:{port}\", \"private.example\"]\nsecrets = [\"PATH\", \"NOT_THERE_AT_ALL\"]\n{NOTES}",
        folder.path().display()
    );
    for app in gatewright_testing::TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let echoed = ann.get(&format!("/fn/send/echo?to=http://127.0.0.1:{port}/echo")).await.is(200);
        assert_eq!(echoed.json(), json!(["set body 1", "set body 2", "set body 3"]));
        for target in [
            "http://127.0.0.1:1/",
            "http://169.254.169.254/",
            "http://localhost:9/",
            &format!("http://127.0.0.1:{port}/away"),
        ] {
            let refused = ann.get(&format!("/fn/send/plain?to={target}")).await.is(502);
            assert_eq!(refused.at("/error"), "fetch_failed", "{target}");
            assert!(refused.text().contains("allow_hosts"), "{target}: {}", refused.text());
        }
        assert_eq!(ann.get("/fn/wait").await.is(200).json(), json!([1, 2]));
        ann.get("/fn/many").await.is(500);
        let leaked = ann.get("/fn/leak").await.is(500);
        assert_eq!(leaked.at("/detail"), "a function of this service failed");
    }
}
