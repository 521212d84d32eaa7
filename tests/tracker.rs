//! The example `tracker` in a browser: sign-in, a live list, edits while offline, conflicts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{built, compile};
use crate::harness::{Answer, Browser, Client, Database, Launch, PASSWORD, Pages, Scripts, Server, Site, gatewright};

const ADA: &str = "ada@example.com";

/// The example, compiled against the built client, as its README describes.
async fn compiled(client: &Path) -> (PathBuf, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tracker");
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tracker");
    let _absent = fs::remove_dir_all(&work);
    for folder in ["src", "client"] {
        fs::create_dir_all(work.join(folder)).unwrap();
    }
    let copy = |from: &Path, to: PathBuf| {
        for file in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    };
    copy(&source, work.clone());
    copy(&source.join("src"), work.join("src"));
    copy(client, work.join("client"));
    compile(&["-p", work.join("tsconfig.json").to_str().unwrap()]).await;
    (source, work)
}

struct Place {
    server: Server,
    pages: Pages,
    /// Another user, who writes with a token.
    robot: Client,
    token: String,
}

impl Place {
    async fn start(source: &Path, work: &Path) -> Self {
        let pages = Pages::bind().await;
        let origin = pages.origin("127.0.0.1");
        let configuration = fs::read_to_string(source.join("gatewright.toml")).unwrap();
        let configuration = configuration.replace("http://127.0.0.1:5173", &origin);
        assert!(configuration.contains(&origin));
        let server = Launch::configured(&format!("[events]\nheartbeat_seconds = 1\n{configuration}"));
        let server = server.start(&Database::Sqlite).await;
        let config = fs::read_to_string(work.join("dist/config.js")).unwrap();
        let config = config.replace("http://127.0.0.1:8080", &format!("http://{}", server.address()));
        let pages = pages.answering(Site::default().text("/dist/config.js", &config).folder("/", work));
        let run = |words: &[&str]| {
            let database = Database::Sqlite.url();
            let ended = gatewright(server.folder(), &[words, &["--database", &database]].concat(), "");
            assert_eq!(ended.status, 0, "{}", ended.err);
            ended.out.trim().to_owned()
        };
        run(&["service-account", "create", "robot"]);
        let scopes = "tasks:read,tasks:write";
        let token = run(&["token", "issue", "--service", "robot", "--name", "robot", "--scopes", scopes]);
        let robot = server.client();
        Self { server, pages, robot, token }
    }

    /// Sends a write of the other user.
    async fn ask(&self, method: Method, path: &str, body: Value) -> Answer {
        let request = self.robot.request(method, &format!("/api/tasks{path}")).bearer_auth(&self.token);
        Answer::read(if body.is_null() { request } else { request.json(&body) }).await
    }

    async fn tasks(&self) -> Vec<Value> {
        self.ask(Method::GET, "", Value::Null).await.is(200).json()["data"].as_array().unwrap().clone()
    }

    async fn id(&self, title: &str) -> String {
        let tasks = self.tasks().await;
        let found = tasks.iter().find(|task| task["title"] == title).unwrap_or_else(|| panic!("{title}: {tasks:?}"));
        format!("/{}", found["id"].as_str().unwrap())
    }

    /// Waits until the server has a task with this title and state.
    async fn has(&self, title: &str, done: bool) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while !self.tasks().await.iter().any(|task| task["title"] == title && task["done"] == done) {
            assert!(std::time::Instant::now() < deadline, "{title} {done}: {:?}", self.tasks().await);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// The row of a task, by the title on the server.
fn row(title: &str) -> String {
    format!("//li[input[@aria-label='Title: {title}']]")
}

/// Types another title into a row, and leaves the field.
async fn retitle(browser: &Browser, title: &str, new: &str) {
    browser.waits_for(&row(title)).await;
    let script = r#"
        const [title, text, done] = arguments;
        const field = [...document.querySelectorAll("li input[type=text]")].find((input) => input.ariaLabel === `Title: ${title}`);
        field.value = text;
        field.dispatchEvent(new Event("change"));
        done();"#;
    browser.run(script, json!([title, new])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tracker_is_live_survives_a_lost_server_and_asks_about_conflicts() {
    let Some(client) = built().await else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let (source, work) = compiled(client).await;
    let mut place = Place::start(&source, &work).await;
    browser.open(&place.pages.origin("127.0.0.1")).await;

    browser.fill("Email", ADA).await;
    browser.fill("Password", "another password").await;
    browser.press("Sign in").await;
    browser.sees("invalid credentials").await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Create account").await;
    browser.waits_for("//p[@id='status'][.='live']").await;

    // Live: the writes of others arrive, and text is shown as text.
    browser.fill("New task", "<img src=x onerror=alert(1)>").await;
    browser.press("Add").await;
    browser.waits_for(&row("<img src=x onerror=alert(1)>")).await;
    place.ask(Method::POST, "", json!({ "title": "Buy milk" })).await.is(201);
    browser.waits_for(&row("Buy milk")).await;
    let milk = place.id("Buy milk").await;
    place.ask(Method::PATCH, &milk, json!({ "title": "Buy oat milk" })).await.is(200);
    browser.waits_for(&row("Buy oat milk")).await;
    retitle(&browser, "Buy oat milk", "Buy soy milk").await;
    place.has("Buy soy milk", false).await;
    browser.picture("tracker-live").await;

    // Without a server, an edit waits, and a reload keeps it.
    place.server.kill();
    browser.waits_for("//p[@id='status'][.='offline']").await;
    retitle(&browser, "Buy soy milk", "Buy coconut milk").await;
    browser.sees("not saved yet").await;
    browser.open(&place.pages.origin("127.0.0.1")).await;
    browser.sees("not saved yet").await;
    place.server.restart();
    place.has("Buy coconut milk", false).await;
    browser.waits_for("//p[@id='status'][.='live']").await;
    browser.waits_for(&row("Buy coconut milk")).await;

    // Two users change one task while one of them is offline. The page reports the conflict, so no edit is lost
    // silently.
    for (keep, title) in [("Take theirs", "Theirs"), ("Keep mine", "Mine again")] {
        let before = place.tasks().await;
        let milk = before.iter().find(|task| task["title"] != "<img src=x onerror=alert(1)>").unwrap();
        let (title_before, path) = (milk["title"].as_str().unwrap(), format!("/{}", milk["id"].as_str().unwrap()));
        // The page's next request fails as if offline, and it receives no event about the other user's change.
        browser.run("window.theirFetch ??= window.fetch; window.fetch = async () => { throw new TypeError('offline') }; arguments[0]()", json!([])).await;
        place.server.kill();
        browser.waits_for("//p[@id='status'][.='offline']").await;
        retitle(&browser, title_before, "Mine again").await;
        browser.sees("not saved yet").await;
        place.server.restart();
        place.ask(Method::PATCH, &path, json!({ "title": "Theirs" })).await.is(200);
        browser.run("window.fetch = window.theirFetch; arguments[0]()", json!([])).await;
        browser.sees("Conflict: somebody else changed it to \"Theirs\"").await;
        browser.picture("tracker-conflict").await;
        browser.press(keep).await;
        browser.waits_for(&row(title)).await;
        place.has(title, false).await;
        place.ask(Method::PATCH, &path, json!({ "title": "Buy milk" })).await.is(200);
        browser.waits_for(&row("Buy milk")).await;
    }

    place.ask(Method::DELETE, &place.id("Buy milk").await, Value::Null).await.is(204);
    browser.waits_for("//ul[count(li)=1]").await;
    browser.press("Sign out").await;
    browser.sees("signed out").await;
    assert_eq!(browser.run("arguments[0](localStorage.length)", json!([])).await, 0);
}
