//! The TypeScript client: built by its compiler, measured, and run in Node and in a browser against the server.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use tokio::sync::OnceCell;

use crate::harness::{Browser, Database, Launch, PASSWORD, Scripts, Server, Site, run};

/// The maximum compressed size of the client, in bytes.
const MAX_BYTES: usize = 12_000;

/// The ways to read a stream.
const STREAMS: [&str; 2] = ["fetch", "eventsource"];

/// A configuration with every form of access that the tests need.
pub(crate) const ENTITIES: &str = r#"
[auth.limits.register]
max_attempts = 1000
[auth.limits.login]
max_attempts = 1000
[[auth.profile.field]]
name = "display_name"
type = "string"
[events]
heartbeat_seconds = 1
[[entity]]
name = "notes"
owner_field = "user_id"
soft_delete = true
[[entity.field]]
name = "title"
type = "string"
required = true
min = 1
[[entity.field]]
name = "body"
type = "text"
[[entity.field]]
name = "rank"
type = "int"
[[entity.field]]
name = "parent"
type = "relation"
to = "notes"
[storage]
path = "files"
reserve_bytes = 0
[[entity]]
name = "papers"
owner_field = "user_id"
[[entity.field]]
name = "pages"
type = "file"
many = true
max_bytes = 20000000
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "name"
type = "string"
"#;

/// A function that the client calls.
const FUNCTION: &str = r#"
import { route } from "gatewright";
export const greet = route("POST", "/greet/twice", async (request, { caller }) => {
  const { name } = await request.json();
  if (!name) return Response.json({ detail: "whom?" }, { status: 422 });
  return Response.json({ words: `hello ${name}, hello`, known: caller !== null });
});
"#;

/// The client's folder. `None` if its compiler is neither installed nor required.
pub(crate) fn sources() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/typescript");
    if compiler(&folder).exists() {
        return Some(folder);
    }
    assert!(env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`npm ci` has not run in {}", folder.display());
    None
}

fn compiler(folder: &Path) -> PathBuf {
    folder.join("node_modules/typescript/bin/tsc")
}

/// Runs the compiler with these arguments.
pub(crate) async fn compile(words: &[&str]) {
    let folder = sources().expect("the compiler is there");
    let tsc = compiler(&folder);
    run(node(), &[&[tsc.to_str().unwrap()], words].concat()).await;
}

pub(crate) fn node() -> String {
    env::var("GATEWRIGHT_TEST_NODE").unwrap_or_else(|_| "node".to_owned())
}

/// The folder of the built client, as `npm run build` makes it.
pub(crate) async fn built() -> Option<&'static Path> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let folder = sources()?;
    let made = BUILT.get_or_init(async || {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript-client");
        let _absent = fs::remove_dir_all(&out);
        let (project, out) = (folder.join("tsconfig.json"), out);
        let words = ["-p", project.to_str().unwrap(), "--outDir", out.to_str().unwrap()];
        compile(&[&words[..], &["--removeComments", "--declaration", "false"]].concat()).await;
        compile(&[&words[..], &["--emitDeclarationOnly"]].concat()).await;
        out
    });
    Some(made.await)
}

/// The built modules by their names, in order.
fn modules(folder: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "js"));
    let read =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap());
    let mut modules: Vec<(String, String)> = scripts.map(read).collect();
    modules.sort();
    modules
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_is_small_and_imports_nothing() {
    let Some(folder) = built().await else { return };
    let modules = modules(folder);
    assert!(modules.len() > 5, "{modules:?}");
    let mut whole = String::new();
    for (name, text) in &modules {
        for line in text.lines().filter(|line| line.contains(" from \"")) {
            assert!(line.contains(" from \"./"), "{name}: {line}");
        }
        whole.push_str(text);
    }
    let file = folder.join("whole.txt");
    fs::write(&file, whole).unwrap();
    let script =
        "process.stdout.write(String(require('zlib').gzipSync(require('fs').readFileSync(process.argv[1])).length))";
    let bytes = run(node(), &["-e", script, file.to_str().unwrap()]).await;
    assert!(bytes.parse::<usize>().unwrap() <= MAX_BYTES, "{bytes} bytes compressed");
}

/// A strict compiler accepts the types of declared entities, and reports mistakes.
#[tokio::test(flavor = "multi_thread")]
async fn the_types_accept_correct_code_and_reject_mistakes() {
    let Some(folder) = sources() else { return };
    let file = folder.join("test/typed.ts");
    compile(&[
        "--ignoreConfig",
        "--noEmit",
        "--strict",
        "--noUnusedLocals",
        "--target",
        "es2022",
        "--module",
        "es2022",
        "--moduleResolution",
        "bundler",
        "--types",
        "",
        "--lib",
        "es2022,dom,dom.iterable,dom.asynciterable",
        file.to_str().unwrap(),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_works_in_node() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript-client-functions");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("greet.ts"), FUNCTION).unwrap();
    let more = format!("[functions]\nfolder = {}\n", json!(folder));
    for (file, csrf) in [("client.test.mjs", true), ("streams.test.mjs", false)] {
        let configuration = format!("[csrf]\nenabled = {csrf}\n{more}{ENTITIES}");
        in_node(file, &Launch::configured(&configuration).start(&Database::Sqlite).await).await;
    }
    if let Some(database) = Database::postgres().await {
        let server = Launch::configured(&format!("[server]\njson_case = \"snake\"\n{ENTITIES}")).start(&database).await;
        in_node("streams.test.mjs", &server).await;
    }
}

async fn in_node(file: &str, server: &Server) {
    let (Some(folder), Some(client)) = (sources(), built().await) else { return };
    let script = format!(
        "process.env.GATEWRIGHT_TEST_URL = 'http://{}'; process.env.GATEWRIGHT_TEST_CLIENT = {}; \
         await import({});",
        server.address(),
        json!(client.join("index.js")),
        json!(folder.join("test").join(file)),
    );
    run(node(), &["--test-reporter=tap", "--input-type=module", "-e", &script]).await;
}

/// What the client does in a page of another origin.
const IN_A_PAGE: &str = r#"
const [url, password, streams, done] = arguments;
(async () => {
  const { createClient, GatewrightError } = await import("/client/index.js");
  const client = createClient({ url, prefix: "/api", streams });
  const email = `ada-${streams}@example.com`;
  const report = { nobody: await client.auth.me() };
  await client.auth.register({ email, password });
  report.signedIn = (await client.auth.signIn({ email, password })).status;
  report.cookie = document.cookie;
  const notes = client.records("notes");
  const made = await notes.create({ title: "One" });
  const { records, eventCursor } = await notes.list().all();
  report.list = records.map(({ title }) => title);
  report.sameTag = records[0]._etag === made._etag;
  const changed = await notes.update(records[0], { title: "Two" });
  report.conflict = await notes.update(records[0], { title: "Three" }).catch((error) => error.failure.kind);
  const stop = new AbortController();
  const seen = [];
  const told = (async () => {
    for await (const event of notes.events({ since: eventCursor, signal: stop.signal })) {
      if (event.type === "offline") throw new Error(JSON.stringify(event));
      if (!event.type.startsWith("entity.")) continue;
      seen.push([event.type, event.record.title, event.record._etag === changed._etag]);
      if (seen.length === 1) await notes.delete(changed);
      if (seen.length === 2) stop.abort();
    }
  })();
  await told;
  report.seen = seen;
  await client.auth.signOut();
  report.after = await client.auth.me();
  report.refused = await notes.events().next().catch((error) => error.failure.kind);
  done(report);
})().catch((error) => done({ error: `${error} ${JSON.stringify(error.failure ?? {})} ${error.stack}` }));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_client_works_in_a_page_of_another_origin() {
    let Some(folder) = built().await else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let page = "<!doctype html><title>app</title>";
    let site = || Site::default().folder("/client/", folder).text("", page);
    let (allowed, other) = (site().serve().await, site().serve().await);
    let origin = allowed.origin("127.0.0.1");
    let configuration = format!("[browser_backend]\nallowed_origins = [\"{origin}\"]\n{ENTITIES}");
    let server = Launch::configured(&configuration).start(&Database::Sqlite).await;
    let base = format!("http://{}", server.address());
    browser.open(&origin).await;
    for streams in STREAMS {
        let report = browser.run(IN_A_PAGE, json!([base, PASSWORD, streams])).await;
        let expected = json!({
            "nobody": null, "signedIn": "signed_in", "cookie": "", "list": ["One"], "sameTag": true, "conflict": "changed",
            "seen": [["entity.updated", "Two", true], ["entity.deleted", "Two", false]], "after": null,
            "refused": "unauthenticated",
        });
        assert_eq!(report, expected, "{streams}");
    }
    browser.open(&other.origin("127.0.0.1")).await;
    let report = browser.run(IN_A_PAGE, json!([base, PASSWORD, "fetch"])).await;
    assert!(report["error"].as_str().unwrap_or_default().contains("\"kind\":\"network\""), "{report}");
}
