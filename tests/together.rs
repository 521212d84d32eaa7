//! Several servers on one database.

use serde_json::json;

use crate::harness::{Database, Launch};

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_on_an_empty_postgres_all_become_ready() {
    let Some(database) = Database::postgres().await else { return };
    let start = || Launch::dev().start(&database);
    let (first, second, third, fourth) = tokio::join!(start(), start(), start(), start());
    let ada = first.client();
    ada.register("ada@example.com").await.is(200);
    for (server, title) in [(&second, "two"), (&third, "three"), (&fourth, "four")] {
        let client = server.client();
        client.log_in("ada@example.com").await.is(200);
        client.post("/posts", &json!({ "title": title })).await.is(201);
    }
    ada.log_in("ada@example.com").await.is(200);
    assert_eq!(ada.get("/posts").await.is(200).json()["total"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_parallel_registrations_on_two_servers_succeeds() {
    let Some(database) = Database::postgres().await else { return };
    let (one, two) = tokio::join!(Launch::dev().start(&database), Launch::dev().start(&database));
    let tries = (0..16).map(|number| {
        let client = if number % 2 == 0 { one.client() } else { two.client() };
        async move { client.register("ada@example.com").await.status.as_u16() }
    });
    let mut statuses = futures_util::future::join_all(tries).await;
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200, "{statuses:?}");
    assert!(statuses[1..].iter().all(|status| [409, 429].contains(status)), "{statuses:?}");
}
