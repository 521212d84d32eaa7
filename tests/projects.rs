//! The example of projects and members: two users, one of them in a browser, who joins and leaves while streams are
//! open.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Browser, Client, Database, Launch, PASSWORD, Scripts, Stream};

const ANN: &str = "ann@example.com";
const BEN: &str = "ben@example.com";

/// Ben's page: streams that are open, and what each has shown as `type title`.
const LISTEN: &str = r#"
    const [done] = arguments;
    window.seen = { all: [], apollo: [], members: [] };
    const open = (name, path) => new Promise((opened, failed) => {
        const source = new EventSource(path);
        source.addEventListener("ready", () => opened());
        source.addEventListener("error", () => failed(new Error(path)));
        for (const kind of ["created", "updated", "deleted"]) {
            source.addEventListener(`entity.${kind}`, (event) => {
                const { record } = JSON.parse(event.data).data;
                window.seen[name].push(`${kind} ${record.title ?? record.role ?? record.id}`);
            });
        }
    });
    const filter = encodeURIComponent("project.name = 'Apollo'");
    Promise.all([
        open("all", "/tasks/_events"),
        open("apollo", `/tasks/_events?filter=${filter}`),
        open("members", "/members/_events"),
    ]).then(() => done("open"), (error) => done(String(error)));"#;

/// Sends a request from Ben's page. Returns the status and the body.
const ASK: &str = r#"
    const [method, path, body, done] = arguments;
    const options = { method, headers: { "Content-Type": "application/json" } };
    if (body !== null) options.body = JSON.stringify(body);
    fetch(path, options)
        .then(async (answer) => ({ status: answer.status, text: await answer.text() }))
        .then(done, (error) => done({ status: 0, text: String(error) }));"#;

async fn ask(browser: &Browser, method: &str, path: &str, body: Value) -> (u64, Value) {
    let answer = browser.run(ASK, json!([method, path, body])).await;
    let text = answer["text"].as_str().unwrap();
    (answer["status"].as_u64().unwrap(), serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

/// Waits until Ben's stream has shown this last, and returns everything that it has shown.
async fn shown(browser: &Browser, stream: &str, last: &str) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let seen = browser.run("arguments[1](window.seen[arguments[0]]);", json!([stream])).await;
        let seen: Vec<String> = serde_json::from_value(seen).unwrap();
        if seen.last().is_some_and(|seen| seen == last) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{stream} has not shown {last}: {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn titles(browser: &Browser, path: &str) -> Vec<String> {
    let (status, list) = ask(browser, "GET", path, Value::Null).await;
    assert_eq!(status, 200, "{list}");
    list["data"].as_array().unwrap().iter().map(|task| task["title"].as_str().unwrap().to_owned()).collect()
}

/// Ann, who owns the projects.
struct Ann(Client);

impl Ann {
    async fn makes(&self, path: &str, body: Value) -> String {
        let answer = self.0.post(path, &body).await.is(201);
        answer.json()["data"]["id"].as_str().unwrap().to_owned()
    }

    async fn sees(stream: &mut Stream, wanted: &str) {
        let event = stream.next().await.unwrap();
        let kind = event.kind.trim_start_matches("entity.");
        assert_eq!(format!("{kind} {}", event.data["data"]["record"]["title"].as_str().unwrap()), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_joins_and_leaves_a_project_while_streams_are_open() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/projects.toml");
    let example = fs::read_to_string(example).unwrap();
    for database in Database::all().await {
        let server = Launch::configured(&example).start(&database).await;
        let Some(browser) = Browser::start(Scripts::On).await else { return };
        let ann = Ann(server.client());
        ann.0.register(ANN).await.is(200);
        ann.0.log_in(ANN).await.is(200);
        server.client().register(BEN).await.is(200);
        browser.open(&format!("http://{}/account", server.address())).await;
        browser.fill("Email", BEN).await;
        browser.fill("Password", PASSWORD).await;
        browser.press("Sign in").await;
        browser.sees(&format!("Signed in as {BEN}")).await;
        let me = async |answer: Value| answer["user"]["id"].as_str().unwrap().to_owned();
        let anns_id = me(ann.0.get("/auth/me").await.is(200).json()).await;
        let bens_id = me(ask(&browser, "GET", "/auth/me", Value::Null).await.1).await;

        // Before he is a member, Ben's page shows nothing, and no event arrives.
        assert_eq!(browser.run(LISTEN, json!([])).await, "open");
        let mut anns_stream = ann.0.listen("tasks").await;
        let apollo = ann.makes("/projects", json!({"name": "Apollo", "owner": anns_id})).await;
        let gemini = ann.makes("/projects", json!({"name": "Gemini", "owner": anns_id})).await;
        let first = ann.makes("/tasks", json!({"project": apollo, "title": "secret plan"})).await;
        Ann::sees(&mut anns_stream, "created secret plan").await;
        assert_eq!(titles(&browser, "/tasks").await, Vec::<String>::new());
        assert_eq!(ask(&browser, "GET", &format!("/tasks/{first}"), Value::Null).await.0, 404);
        let joining = json!({"project": apollo, "user": bens_id, "role": "editor"});
        let refused = ask(&browser, "POST", "/members", joining.clone()).await.0;
        let nowhere = json!({"project": "01970000-0000-7000-8000-000000000000", "user": bens_id, "role": "editor"});
        assert!(refused == 403 || refused == 422, "{refused}");
        assert_eq!(refused, ask(&browser, "POST", "/members", nowhere).await.0, "to a stranger no project exists");

        // Ann adds Ben to both projects as a viewer.
        let member = json!({"project": apollo, "user": bens_id});
        let of_apollo = ann.makes("/members", member.clone()).await;
        ann.makes("/members", json!({"project": gemini, "user": bens_id})).await;
        shown(&browser, "members", "created viewer").await;
        assert_eq!(titles(&browser, "/tasks").await, ["secret plan"]);
        ann.makes("/tasks", json!({"project": gemini, "title": "dock"})).await;
        ann.makes("/tasks", json!({"project": apollo, "title": "launch"})).await;
        assert_eq!(shown(&browser, "all", "created launch").await, ["created dock", "created launch"]);
        assert_eq!(shown(&browser, "apollo", "created launch").await, ["created launch"]);
        for title in ["dock", "launch"] {
            Ann::sees(&mut anns_stream, &format!("created {title}")).await;
        }
        assert_eq!(titles(&browser, "/tasks?sort=-project.name,title").await, ["dock", "launch", "secret plan"]);

        // A viewer may not write, an editor may.
        let land = json!({"project": apollo, "title": "land"});
        assert_eq!(ask(&browser, "POST", "/tasks", land.clone()).await.0, 403);
        let editor = ann.0.request(Method::PATCH, &format!("/members/{of_apollo}"));
        Answer::read(editor.json(&json!({"role": "editor"}))).await.is(200);
        shown(&browser, "members", "updated editor").await;
        let (status, answer) = ask(&browser, "POST", "/tasks", land).await;
        assert_eq!(status, 201, "{answer}");
        Ann::sees(&mut anns_stream, "created land").await;
        shown(&browser, "apollo", "created land").await;

        // Ben leaves one project. He no longer sees its writes, and still sees those of the other project.
        let left = ask(&browser, "DELETE", &format!("/members/{of_apollo}"), Value::Null).await;
        assert_eq!(left.0, 204, "{}", left.1);
        ann.makes("/tasks", json!({"project": apollo, "title": "after Ben"})).await;
        ann.makes("/tasks", json!({"project": gemini, "title": "undock"})).await;
        let all = ["created dock", "created launch", "created land", "created undock"];
        assert_eq!(shown(&browser, "all", "created undock").await, all);
        assert_eq!(titles(&browser, "/tasks").await, ["dock", "undock"]);
        assert_eq!(ask(&browser, "GET", &format!("/tasks/{first}"), Value::Null).await.0, 404);
        assert_eq!(ask(&browser, "POST", "/members", joining).await.0, refused);

        // After Ann adds him again, he sees all of its records and new writes.
        ann.makes("/members", member).await;
        ann.makes("/tasks", json!({"project": apollo, "title": "home"})).await;
        assert_eq!(shown(&browser, "apollo", "created home").await, ["created launch", "created land", "created home"]);
        let now = ["after Ben", "dock", "home", "land", "launch", "secret plan", "undock"];
        assert_eq!(titles(&browser, "/tasks?sort=title").await, now);
    }
}
