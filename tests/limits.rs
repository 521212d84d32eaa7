//! Limits in every store: shared by servers, persistent over restarts, and closed if their store dies.

use std::time::{Duration, Instant};

use gatewright_servers::PrivateRedis;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Client, Database, Launch, Server};
use crate::outbox::until;

const ENTITY: &str =
    "[[entity]]\nname = \"posts\"\npublic = true\n[[entity.field]]\nname = \"title\"\ntype = \"string\"\n";

/// A wrong password for an account that only this test uses. It is counted in dev mode too.
async fn guess(client: &Client, email: &str) -> Answer {
    client.post("/auth/login", &json!({ "email": email, "password": "not the password" })).await
}

fn launch(limits: &str) -> Launch {
    Launch::configured(&format!("[rate_limit]\n{limits}\n{ENTITY}"))
}

async fn recovers(client: &Client) {
    let deadline = Instant::now() + Duration::from_mins(1);
    for number in 0.. {
        let answer = guess(client, &format!("after{number}@example.com")).await;
        if answer.status == 401 {
            return;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that sign-in is refused, without a long wait.
async fn is_closed(client: &Client) {
    let begun = Instant::now();
    let answer = guess(client, "during@example.com").await;
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "5"), "{answer:?}");
    assert_eq!(answer.text, "rate limit exceeded");
}

/// Waits until readiness and the metrics say so.
async fn shows(client: &Client, ready: &serde_json::Value, metric: &str) {
    until("readiness shows it", async || client.get("/readyz").await.is(200).json() == *ready).await;
    until("a metric shows it", async || client.get("/metrics").await.is(200).text.lines().any(|line| line == metric))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_store_share_their_limits() {
    let Some(database) = Database::postgres().await else { return };
    let redis = PrivateRedis::start().unwrap();
    for store in ["store = \"database\"".to_owned(), format!("store = \"redis\"\nredis_url = \"{}\"", redis.url())] {
        let servers = [launch(&store).start(&database).await, launch(&store).start(&database).await];
        let clients = servers.each_ref().map(Server::client);
        let email = format!("shared{}@example.com", store.len());
        for attempt in 0..10 {
            guess(&clients[attempt % 2], &email).await.is(401);
        }
        for client in &clients {
            let refused = guess(client, &email).await.is(429);
            let wait: u64 = refused.header("retry-after").parse().unwrap();
            assert!((1700..=1800).contains(&wait), "{wait}");
        }
        // Thirty more at once, on both servers. A fresh account gets ten attempts in all.
        let fresh = format!("fresh{}@example.com", store.len());
        let guesses = (0..30).map(|attempt| guess(&clients[attempt % 2], &fresh));
        let answers = futures_util::future::join_all(guesses).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 401).count(), 10, "{store}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_in_the_database_outlives_the_server() {
    for database in Database::all().await {
        let mut server = launch("store = \"database\"").start(&database).await;
        for _ in 0..10 {
            guess(&server.client(), "ada@example.com").await.is(401);
        }
        guess(&server.client(), "ada@example.com").await.is(429);
        server.kill();
        server.restart();
        guess(&server.client(), "ada@example.com").await.is(429);
        guess(&server.client(), "bob@example.com").await.is(401);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_is_refused_while_redis_is_down() {
    let mut redis = PrivateRedis::start().unwrap();
    let limits =
        format!("store = \"redis\"\nredis_url = \"{}\"\n[rate_limit.api]\nper_second = 100\nburst = 1000", redis.url());
    let server = launch(&limits).start(&Database::Sqlite).await;
    let client = server.client();
    guess(&client, "before@example.com").await.is(401);
    client.get("/posts").await.is(200);
    redis.kill();
    is_closed(&client).await;
    let closed = client.get("/posts").await.is(429);
    assert_eq!(closed.header("retry-after"), "5");
    let form = client.request(Method::POST, "/auth/login").header("accept", "text/html");
    let page = Answer::read(form.form(&[("email", "a@example.com"), ("password", "not the password")])).await.is(429);
    assert!(page.text.contains("<h1>") && page.header("retry-after") == "5", "{page:?}");
    // Everything else works, and operators are told.
    shows(&client, &json!({ "status": "degraded", "degraded": ["limits"] }), "gatewright_limiter_store_up 0").await;
    client.get("/healthz").await.is(200);
    tokio::task::block_in_place(|| redis.restart()).unwrap();
    recovers(&client).await;
    client.get("/posts").await.is(200);
    shows(&client, &json!({ "status": "ready", "degraded": [] }), "gatewright_limiter_store_up 1").await;
    let told = |words: &str| server.log().lines().filter(|line| line.contains(words)).count();
    assert_eq!([told("the store of limits does not answer"), told("the store of limits answers again")], [1, 1]);
    let password = redis.url().split([':', '@']).nth(2).unwrap().to_owned();
    assert!(!server.log().contains(&password), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_is_refused_while_postgres_is_down() {
    let Some(mut database) = Database::own_postgres() else { return };
    let server = launch("store = \"database\"").start(&database).await;
    let client = server.client();
    guess(&client, "before@example.com").await.is(401);
    let Database::Own(postgres) = &mut database else { unreachable!("asked for above") };
    postgres.kill();
    is_closed(&client).await;
    tokio::task::block_in_place(|| postgres.restart()).unwrap();
    recovers(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entity_routes_have_a_budget_for_each_caller() {
    let Some(database) = Database::postgres().await else { return };
    let redis = PrivateRedis::start().unwrap();
    for store in ["store = \"memory\"".to_owned(), format!("store = \"redis\"\nredis_url = \"{}\"", redis.url())] {
        let limits = format!("{store}\n[rate_limit.api]\nper_second = 0.01\nburst = 3");
        let shared = store.contains("redis");
        let servers = [launch(&limits).start(&database).await, launch(&limits).start(&database).await];
        let anybody = servers.each_ref().map(Server::client);
        for (request, remaining) in ["2", "1", "0"].into_iter().enumerate() {
            let answer = anybody[if shared { request % 2 } else { 0 }].get("/posts").await.is(200);
            let budget = ["ratelimit-limit", "ratelimit-remaining"].map(|name| answer.header(name).to_owned());
            assert_eq!(budget, ["3", remaining]);
            assert!(answer.header("ratelimit-reset").parse::<u64>().unwrap() > 0);
        }
        let refused = anybody[0].get("/posts/00000000-0000-7000-8000-000000000000").await.is(429);
        assert_eq!(refused.text, "rate limit exceeded");
        assert_eq!((refused.header("ratelimit-limit"), refused.header("ratelimit-remaining")), ("3", "0"));
        assert!((90..=100).contains(&refused.header("retry-after").parse::<u64>().unwrap()));
        let elsewhere = anybody[1].get("/posts").await.status;
        assert_eq!(elsewhere, if shared { 429 } else { 200 }, "{store}");
        // An address in an untrusted header does not make another caller.
        let lying = anybody[0].request(Method::GET, "/posts").header("x-forwarded-for", "192.0.2.7");
        Answer::read(lying).await.is(429);
        for free in ["/healthz", "/auth/me", "/nothing-here"] {
            assert_ne!(anybody[0].get(free).await.status, 429, "{free}");
        }

        // Each signed-in user has their own budget, whatever their credential.
        let ada = servers[0].client();
        let email = format!("ada{}@example.com", store.len());
        ada.register(&email).await.is(200);
        let jwt = ada.log_in(&email).await.is(200).json()["token"].as_str().unwrap().to_owned();
        ada.get("/posts").await.is(200);
        let by_jwt = |jwt: &str| anybody[0].request(Method::GET, "/posts").bearer_auth(jwt);
        assert_eq!(Answer::read(by_jwt(&jwt)).await.is(200).header("ratelimit-remaining"), "1");
        ada.get("/posts").await.is(200);
        Answer::read(by_jwt(&jwt)).await.is(429);
        let minted = mint(&ada).await;
        Answer::read(by_jwt(&minted)).await.is(429);
    }
}

/// Each token has its own budget. All tokens of one owner together have at most ten budgets.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_their_own_budgets_if_configured() {
    let redis = PrivateRedis::start().unwrap();
    for store in ["store = \"memory\"".to_owned(), format!("store = \"redis\"\nredis_url = \"{}\"", redis.url())] {
        let limits = format!("{store}\n[rate_limit.api]\nkey = \"token\"\nper_second = 0.001\nburst = 2");
        let server = launch(&limits).start(&Database::Sqlite).await;
        let (ada, anybody) = (server.client(), server.client());
        let email = format!("ada{}@example.com", store.len());
        ada.register(&email).await.is(200);
        ada.log_in(&email).await.is(200);
        let get = async |token: &str| {
            Answer::read(anybody.request(Method::GET, "/posts").bearer_auth(token)).await.status.as_u16()
        };
        let mut admitted = 0;
        for _ in 0..12 {
            let token = mint(&ada).await;
            for _ in 0..3 {
                admitted += usize::from(get(&token).await == 200);
            }
        }
        assert_eq!(admitted, 20, "ten times two: {store}");
        // The budgets of the owner and of the address are still full.
        for client in [&ada, &anybody] {
            client.get("/posts").await.is(200);
            client.get("/posts").await.is(200);
            client.get("/posts").await.is(429);
        }
    }
}

async fn mint(owner: &Client) -> String {
    let wanted = json!({ "name": "script", "scopes": ["*:*"] });
    owner.post("/auth/tokens", &wanted).await.is(200).json()["token"].as_str().unwrap().to_owned()
}
