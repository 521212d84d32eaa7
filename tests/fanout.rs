//! Two servers on one database: the streams of one receive the writes of the other, and the servers recover when a
//! carrier dies.

use gatewright_servers::{PrivateNats, PrivateRedis};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Database, Launch, Server, Stream};
use crate::outbox::until;
use reqwest::Method;

/// The carrier of a test, and its server, which the test may kill.
enum Carrier {
    Postgres,
    Redis(PrivateRedis),
    Nats(PrivateNats),
}

impl Carrier {
    fn all() -> [Self; 3] {
        [Self::Postgres, Self::Redis(PrivateRedis::start().unwrap()), Self::Nats(PrivateNats::start().unwrap())]
    }

    fn launch(&self) -> Launch {
        let url = |url: String| format!("fanout_url = \"{url}\"\n");
        let (name, url) = match self {
            Self::Postgres => ("postgres", String::new()),
            Self::Redis(server) => ("redis", url(server.url())),
            Self::Nats(server) => ("nats", url(server.url())),
        };
        let field = "[[entity.field]]\nname = \"title\"\ntype = \"text\"\n";
        Launch::configured(&format!(
            "[events]\nfanout = \"{name}\"\n{url}\
             [[entity]]\nname = \"posts\"\npublic = true\n{field}\
             [[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n{field}"
        ))
    }
}

/// Two servers on one Postgres, ready.
async fn pair(carrier: &Carrier, database: &Database) -> [Server; 2] {
    let servers = [carrier.launch().start(database).await, carrier.launch().start(database).await];
    for server in &servers {
        ready(server).await;
    }
    servers
}

async fn ready(server: &Server) -> Client {
    let client = server.client();
    until("ready", async || readiness(&client).await == (200, json!({ "status": "ready", "degraded": [] }))).await;
    client
}

/// The status and the body of `/readyz`.
async fn readiness(client: &Client) -> (u16, Value) {
    let answer = client.get("/readyz").await;
    (answer.status.as_u16(), answer.json())
}

async fn write(client: &Client, title: &str) -> Value {
    client.post("/posts", &json!({ "title": title })).await.is(201).json()["data"].clone()
}

/// The next event's kind and record.
async fn told(stream: &mut Stream) -> (String, Value) {
    let event = stream.next().await.expect("the stream goes on");
    (event.kind, event.data["data"]["record"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_on_one_server_reaches_the_streams_of_the_other_once() {
    let Some(database) = Database::postgres().await else { return };
    for carrier in Carrier::all() {
        let [a, b] = pair(&carrier, &database).await;
        let (here, there) = (a.client(), b.client());
        let mut streams = [here.listen("posts").await, there.listen("posts").await];
        let mut made = Vec::new();
        for number in 0..20 {
            made.push(write(&here, &format!("{number}")).await);
        }
        made.push(write(&here, &"long ".repeat(20_000)).await);
        made.push(write(&there, "from the other").await);
        for stream in &mut streams {
            let mut told_of = Vec::new();
            for _ in &made {
                let (kind, record) = told(stream).await;
                assert_eq!(kind, "entity.created");
                told_of.push(record);
            }
            // The writes of two servers have no order between them. Those of one server are in order.
            told_of.sort_by_key(|record| record["title"] == "from the other");
            assert_eq!(told_of, made, "each once");
        }
        let path = format!("/posts/{}", made[0]["id"].as_str().unwrap());
        Answer::read(there.request(Method::PATCH, &path).json(&json!({ "title": "changed" }))).await.is(200);
        Answer::read(here.request(Method::DELETE, &path)).await.is(204);
        for stream in &mut streams {
            let mut kinds = [told(stream).await, told(stream).await];
            kinds.sort_by(|(kind, _), (other, _)| other.cmp(kind));
            assert_eq!([&*kinds[0].0, &*kinds[1].0], ["entity.updated", "entity.deleted"]);
            assert_eq!((&kinds[0].1["title"], &kinds[1].1["title"]), (&json!("changed"), &json!("changed")));
        }
        let expected = ["up 1", "sent_total 22", "received_total 2", "lost_total 0", "malformed_total 0"];
        for line in expected.map(|line| format!("gatewright_fanout_{line}\n")) {
            // The counter changes after the event is sent.
            until(&line, async || here.get("/metrics").await.is(200).text.contains(&line)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_sees_their_writes_on_the_other_server() {
    let Some(database) = Database::postgres().await else { return };
    let [a, b] = pair(&Carrier::Postgres, &database).await;
    let (author, reader, stranger) = (a.client(), b.client(), b.client());
    for (client, email) in [(&author, "ada@example.com"), (&stranger, "bob@example.com")] {
        client.register(email).await.is(200);
        client.log_in(email).await.is(200);
    }
    reader.log_in("ada@example.com").await.is(200);
    let (mut hers, mut his) = (reader.listen("notes").await, stranger.listen("notes").await);
    let hidden = author.post("/notes", &json!({ "title": "hers" })).await.is(201).json();
    assert_eq!(told(&mut hers).await.1, hidden["data"]);
    let own = stranger.post("/notes", &json!({ "title": "his" })).await.is(201).json();
    assert_eq!(told(&mut his).await.1, own["data"], "and nothing of ada's before it");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_reconnect_to_a_carrier_that_died_and_serve_meanwhile() {
    let Some(database) = Database::postgres().await else { return };
    let [_, redis, nats] = Carrier::all();
    for mut carrier in [redis, nats] {
        let [a, b] = pair(&carrier, &database).await;
        let (here, there) = (a.client(), b.client());
        let mut stream = there.listen("posts").await;
        write(&here, "before").await;
        assert_eq!(told(&mut stream).await.1["title"], "before");

        match &mut carrier {
            Carrier::Redis(server) => server.kill(),
            Carrier::Nats(server) => server.kill(),
            Carrier::Postgres => unreachable!("taken out above"),
        }
        // Requests work, so that a load balancer must not remove all servers at once.
        let degraded = (200, json!({ "status": "degraded", "degraded": ["carrier"] }));
        until("degraded", async || readiness(&here).await == degraded).await;
        assert!(here.get("/metrics").await.is(200).text.contains("gatewright_fanout_up 0"));
        here.get("/healthz").await.is(200);
        here.get("/posts").await.is(200);
        write(&here, "meanwhile").await;

        tokio::task::block_in_place(|| match &mut carrier {
            Carrier::Redis(server) => server.restart(),
            Carrier::Nats(server) => server.restart(),
            Carrier::Postgres => unreachable!("taken out above"),
        })
        .unwrap();
        ready(&a).await;
        ready(&b).await;
        write(&here, "after").await;
        // The write during the failure was queued. Whether b subscribed in time to receive it is not guaranteed.
        let mut title = told(&mut stream).await.1["title"].clone();
        if title == "meanwhile" {
            title = told(&mut stream).await.1["title"].clone();
        }
        assert_eq!(title, "after");
        for server in [&a, &b] {
            let told = |direction: &str| {
                let log = server.log();
                let count =
                    |words: &str| log.lines().filter(|line| line.contains(words) && line.contains(direction)).count();
                [count("fan-out failed"), count("works again")]
            };
            assert_eq!(told("direction=\"hearing\""), [1, 1], "{}", server.log());
            // A server that had nothing to send may not have noticed the failure, or may notice it only now.
            until("it tells again", async || matches!(told("direction=\"telling\""), [0, 0] | [1, 1])).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_receive_each_others_events_again_after_postgres_died() {
    let Some(mut database) = Database::own_postgres() else { return };
    let [a, b] = pair(&Carrier::Postgres, &database).await;
    let (here, there) = (a.client(), b.client());
    let mut stream = there.listen("posts").await;
    write(&here, "before").await;
    assert_eq!(told(&mut stream).await.1["title"], "before");
    let Database::Own(postgres) = &mut database else { unreachable!("asked for above") };
    postgres.kill();
    until("not ready", async || there.get("/readyz").await.status == 503).await;
    tokio::task::block_in_place(|| postgres.restart()).unwrap();
    ready(&a).await;
    ready(&b).await;
    write(&here, "after").await;
    assert_eq!(told(&mut stream).await.1["title"], "after");
}
