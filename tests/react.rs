//! The React hooks, in a browser with React, against the server.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{ENTITIES, built, compile, node};
use crate::harness::{Browser, Database, Launch, PASSWORD, Pages, Scripts, Server, Site, run};
use crate::outbox::until;

const ADA: &str = "ada@example.com";

/// Signs in by requests of the page, and mounts the application.
const START: &str = r#"
const [url, email, password, options, done] = arguments;
(async () => {
  const by = (window.by = window.createClient({ url, prefix: "/api" }));
  if (email && !(await by.auth.me())) {
    await by.auth.register({ email, password }).catch(() => {});
    await by.auth.signIn({ email, password });
  }
  window.start({ url, prefix: "/api", ...options });
  done("started");
})().catch((error) => done(`${error} ${JSON.stringify(error.failure ?? {})}`));
"#;

/// Runs an expression in the page, and returns what it resolves to.
const EVALUATE: &str = r"
const [text, done] = arguments;
(async () => eval(text))().then((value) => done(value ?? null), (error) => done(`failed: ${error.failure?.kind ?? error}`));
";

/// The folder of the package. `None` if its packages are neither installed nor required.
fn sources() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/react");
    if folder.join("node_modules/esbuild/bin/esbuild").exists() {
        return Some(fs::canonicalize(folder).unwrap());
    }
    assert!(std::env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`npm ci` has not run in {}", folder.display());
    None
}

/// A folder with the built package, and the page's bundle. Tests of one process share it.
async fn bundled() -> Option<PathBuf> {
    static BUILT: tokio::sync::OnceCell<PathBuf> = tokio::sync::OnceCell::const_new();
    let (folder, client) = (sources()?, built().await?);
    let made = BUILT.get_or_init(async || {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("react");
        let _absent = fs::remove_dir_all(&out);
        fs::create_dir_all(out.join("page")).unwrap();
        project(&out.join("build.json"), &folder, client, &json!({ "outDir": out.join("built") }), &["src"]).await;
        let alias =
            |name: &str, built: &Path| format!("--alias:@gatewright/{name}={}", built.join("index.js").display());
        let esbuild = folder.join("node_modules/esbuild/bin/esbuild");
        let words = [
            esbuild.to_str().unwrap().to_owned(),
            folder.join("test/app.mjs").to_str().unwrap().to_owned(),
            "--bundle".to_owned(),
            "--format=esm".to_owned(),
            "--define:process.env.NODE_ENV=\"development\"".to_owned(),
            alias("client", client),
            alias("react", &out.join("built")),
            format!("--alias:react={}", folder.join("node_modules/react").display()),
            format!("--outfile={}", out.join("page/app.js").display()),
        ];
        run(node(), &words.each_ref().map(String::as_str)).await;
        out.join("page")
    });
    Some(made.await.clone())
}

/// Compiles the files of a folder that use the package.
pub(crate) async fn compiles(files: &Path) {
    let (Some(folder), Some(client), Some(_)) = (sources(), built().await, bundled().await) else { return };
    let types = folder.join("node_modules/@types/react");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("react/built");
    let options = json!({
        "compilerOptions": {
            "target": "ES2022", "module": "ES2022", "moduleResolution": "bundler", "strict": true, "noEmit": true, "types": [],
            "lib": ["ES2022", "DOM", "DOM.Iterable", "DOM.AsyncIterable"], "jsx": "react-jsx",
            "paths": {
                "@gatewright/client": [client.join("index.d.ts")], "@gatewright/react": [built.join("index.d.ts")],
                "react": [types.join("index.d.ts")], "react/jsx-runtime": [types.join("jsx-runtime.d.ts")],
            },
        },
        "include": ["*.ts", "*.tsx"],
    });
    let file = files.join("tsconfig.json");
    fs::write(&file, options.to_string()).unwrap();
    compile(&["-p", file.to_str().unwrap()]).await;
}

/// Compiles files of the package under the settings of the package, with these in addition.
async fn project(file: &Path, folder: &Path, client: &Path, settings: &Value, include: &[&str]) {
    let mut options = json!({
        "rootDir": folder.join("src"), "paths": { "@gatewright/client": [client.join("index.d.ts")] },
        "typeRoots": [folder.join("node_modules/@types")],
    });
    options.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let include: Vec<_> = include.iter().map(|name| folder.join(name)).collect();
    let text = json!({ "extends": folder.join("tsconfig.json"), "compilerOptions": options, "include": include });
    fs::write(file, text.to_string()).unwrap();
    compile(&["-p", file.to_str().unwrap()]).await;
}

struct Place {
    _server: Server,
    browser: Browser,
    _pages: Pages,
}

impl Place {
    async fn open(email: Option<&str>, options: Value) -> Option<Self> {
        let folder = bundled().await?;
        let browser = Browser::start(Scripts::On).await?;
        let page = "<!doctype html><title>app</title><body></body><script type=module src=/app/app.js></script>";
        let pages = Site::default().folder("/app/", &folder).text("", page).serve().await;
        let origin = pages.origin("127.0.0.1");
        let configuration = format!("[browser_backend]\nallowed_origins = [\"{origin}\"]\n{ENTITIES}");
        let server = Launch::configured(&configuration).start(&Database::Sqlite).await;
        browser.open(&origin).await;
        until("the page is there", async || browser.run("arguments[0](!!window.start)", json!([])).await == true).await;
        let url = format!("http://{}", server.address());
        assert_eq!(browser.run(START, json!([url, email, PASSWORD, options])).await, "started");
        Some(Self { _server: server, browser, _pages: pages })
    }

    async fn evaluate(&self, text: &str) -> Value {
        self.browser.run(EVALUATE, json!([text])).await
    }

    async fn shows(&self, id: &str, key: &str, value: Value) {
        let mut last = Value::Null;
        let is_so = async || {
            last = self.evaluate(&format!("window.read('{id}')")).await;
            last[key] == value
        };
        let within = tokio::time::timeout(std::time::Duration::from_mins(1), until("the page shows it", is_so)).await;
        assert!(within.is_ok(), "{id}.{key} is not {value}: {last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_types_of_the_hooks_accept_correct_code_and_reject_mistakes() {
    let (Some(folder), Some(client)) = (sources(), built().await) else { return };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("react-types.json");
    let settings = json!({ "noEmit": true, "rootDir": folder.join("../..") });
    project(&file, &folder, client, &settings, &["src", "test/typed.ts"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_records_follow_what_others_write() {
    let Some(place) = Place::open(Some(ADA), json!({})).await else { return };
    place.shows("all-0", "titles", json!([])).await;
    place.shows("session", "email", json!(ADA)).await;
    place.shows("refused", "error", json!("missing")).await;
    // Written by others: by requests of another client.
    let id = place.evaluate("by.records('notes').create({ title: 'b', rank: 7 }).then(({ id }) => id)").await;
    let id = id.as_str().unwrap().to_owned();
    place
        .evaluate("by.records('notes').createMany([{ title: 'a', rank: 1 }, { title: 'c', rank: 9 }]).then(() => 1)")
        .await;
    place.shows("all-0", "titles", json!(["b 7", "a 1", "c 9"])).await;
    place.shows("high", "titles", json!(["c 9", "b 7"])).await;
    place.shows("first", "titles", json!(["a 1", "b 7"])).await;
    place.evaluate(&format!("setOne('{id}')")).await;
    place.shows("one", "title", json!("b")).await;
    // A change that leaves a list, and one that enters it.
    place.evaluate(&format!("by.records('notes').update('{id}', {{ title: 'z', rank: 2 }}).then(() => 1)")).await;
    place.shows("one", "title", json!("z")).await;
    place.shows("high", "titles", json!(["c 9"])).await;
    place.shows("first", "titles", json!(["a 1", "c 9"])).await;
    place.evaluate(&format!("by.records('notes').delete('{id}').then(() => 1)")).await;
    place.shows("one", "isNull", json!(true)).await;
    place.shows("all-0", "titles", json!(["a 1", "c 9"])).await;
    // Components with the same question share an answer; one that comes later has it at once.
    place.evaluate("setLists(3)").await;
    place.shows("all-2", "titles", json!(["a 1", "c 9"])).await;
    place.evaluate("setLists(0)").await;
    place.evaluate("by.records('notes').create({ title: 'd', rank: 3 }).then(() => 1)").await;
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    place.evaluate("setLists(1)").await;
    place.shows("all-0", "titles", json!(["a 1", "c 9", "d 3"])).await;
    // The page asks who is signed in, and for a table that is not there. Nothing else failed.
    let mut errors = place.browser.console_errors().await;
    errors.retain(|error| !error.contains("/auth/me - ") && !error.contains("/api/nothing?"));
    assert_eq!(errors, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_shows_at_once_and_is_taken_back_if_it_is_refused() {
    let Some(place) = Place::open(Some(ADA), json!({ "isHeld": true })).await else { return };
    place.shows("all-0", "titles", json!([])).await;
    let id = place.evaluate("by.records('notes').create({ title: 'a', rank: 5 }).then(({ id }) => id)").await;
    let id = id.as_str().unwrap().to_owned();
    place.shows("high", "titles", json!(["a 5"])).await;
    place.evaluate(&format!("setOne('{id}')")).await;
    place.shows("one", "title", json!("a")).await;
    // Held back on its way to the server, and shown.
    place
        .evaluate(&format!(
            "void (window.done = mutations.update('{id}', {{ title: 'changed', rank: {{ $add: 1 }} }}))"
        ))
        .await;
    place.evaluate("void (window.made = mutations.create({ title: 'new' }))").await;
    place.shows("all-0", "titles", json!(["changed 5", "new -"])).await;
    place.shows("one", "title", json!("changed")).await;
    place.shows("high", "titles", json!(["changed 5"])).await;
    assert_eq!(
        place.evaluate("by.records('notes').page().then(({ total }) => total)").await,
        1,
        "nothing was sent yet"
    );
    place.evaluate("release()").await;
    assert_eq!(
        place
            .evaluate("Promise.all([window.done, window.made]).then(([{ rank }, { title }]) => `${rank} ${title}`)")
            .await,
        "6 new"
    );
    place.shows("all-0", "titles", json!(["changed 6", "new -"])).await;
    place.shows("high", "titles", json!(["changed 6"])).await;
    // Refused: it is as before, and the caller knows.
    for (change, shown) in [
        (format!("mutations.update('{id}', {{ title: '' }})"), json!([" 6", "new -"])),
        (format!("mutations.delete({{ id: '{id}', _etag: '\"{}\"' }})", "0".repeat(32)), json!(["new -"])),
        ("mutations.create({ title: '' })".to_owned(), json!(["changed 6", "new -", " -"])),
    ] {
        place.evaluate(&format!("void (window.done = {change}.catch((error) => error.failure.kind))")).await;
        place.shows("all-0", "titles", shown).await;
        place.evaluate("release()").await;
        let kind = place.evaluate("window.done").await;
        assert!(kind == "invalid" || kind == "changed", "{change}: {kind}");
        place.shows("all-0", "titles", json!(["changed 6", "new -"])).await;
        place.shows("one", "title", json!("changed")).await;
    }
    place.evaluate(&format!("void (window.done = mutations.delete('{id}'))")).await;
    place.shows("one", "isNull", json!(true)).await;
    place.evaluate("release()").await;
    place.evaluate("window.done").await;
    place.shows("all-0", "titles", json!(["new -"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_says_who_is_signed_in() {
    let Some(place) = Place::open(None, json!({})).await else { return };
    place.shows("session", "loading", json!(false)).await;
    place.shows("session", "email", Value::Null).await;
    place.shows("all-0", "error", json!("unauthenticated")).await;
    let sign_in = format!(
        "client.auth.register({{ email: '{ADA}', password: '{PASSWORD}' }})\
         .then(() => client.auth.signIn({{ email: '{ADA}', password: '{PASSWORD}' }})).then(() => session.refresh())"
    );
    place.evaluate(&sign_in).await;
    place.shows("session", "email", json!(ADA)).await;
    // What failed is read again for the account, and forgotten with it.
    place.shows("all-0", "titles", json!([])).await;
    place.evaluate("client.records('notes').create({ title: 'a', rank: 1 }).then(() => 1)").await;
    place.shows("all-0", "titles", json!(["a 1"])).await;
    place.evaluate("client.auth.signOut().then(() => session.refresh())").await;
    place.shows("session", "email", Value::Null).await;
    place.shows("all-0", "error", json!("unauthenticated")).await;
    place.shows("all-0", "titles", Value::Null).await;
    place.evaluate(&sign_in.replace(ADA, "grace@example.com")).await;
    place.shows("session", "email", json!("grace@example.com")).await;
    place.shows("all-0", "titles", json!([])).await;
    place.shows("all-0", "error", Value::Null).await;
}
