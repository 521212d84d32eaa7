//! Independent clients of the authorization server: the official MCP SDKs and two OAuth libraries.

use gatewright_servers::{Folder, Opening, TlsProxy};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::client::node;
use crate::harness::{
    Answer, Browser, Client, Conversation, Database, Launch, PASSWORD, Pages, Scripts, Server, Site, gatewright,
    node_tools, python_tools, run,
};

const ADA: &str = "ada@example.com";

pub(crate) const CONFIGURATION: &str = r#"
[authorization_server]
enabled = true
dynamic_registration = true
[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "title"
type = "string"
required = true
"#;

async fn served(database: &Database) -> Server {
    let server = Launch::configured(CONFIGURATION).start(database).await;
    server.client().register(ADA).await.is(200);
    server
}

fn base(server: &Server) -> String {
    format!("http://{}", server.address())
}

/// The redirect URI of programs. Nothing listens there.
const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A program that a user connected, with its tokens.
pub(crate) struct Program {
    pub(crate) client: String,
    pub(crate) access: String,
    pub(crate) refresh: String,
}

impl Program {
    /// An operator creates a client, and `user`, who is signed in, grants it `scope`.
    pub(crate) async fn connect(server: &Server, database: &Database, user: &Client, name: &str, scope: &str) -> Self {
        let (client, code) = Self::allowed(server, database, user, name, scope).await;
        let tokens = Self::redeem(server, &client, &code).await.is(200).json();
        let text = |name: &str| tokens[name].as_str().unwrap().to_owned();
        Self { access: text("access_token"), refresh: text("refresh_token"), client }
    }

    /// The client, and its code before the exchange.
    pub(crate) async fn allowed(
        server: &Server,
        database: &Database,
        user: &Client,
        name: &str,
        scope: &str,
    ) -> (String, String) {
        let redirect = REDIRECT;
        let url = database.url();
        let words = ["client", "create", name, "--redirect-uri", redirect, "--public", "--json", "--database", &url];
        let made = tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""));
        let made: Value = serde_json::from_str(&made.out).unwrap_or_else(|_| panic!("{}", made.err));
        let client = made["client_id"].as_str().unwrap().to_owned();

        // The verifier and challenge of RFC 7636, appendix B.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        let pairs = [
            ("response_type", "code"),
            ("client_id", &*client),
            ("redirect_uri", redirect),
            ("scope", scope),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        let ask = user.request(Method::GET, "/auth/oauth2/authorize").query(&pairs);
        let page = Answer::read(ask).await.is(200).text;
        let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
        let pairs = [("request", &*request), ("seal", &*seal), ("decision", "allow")];
        let allowed = Answer::read(user.request(Method::POST, "/auth/oauth2/authorize").form(&pairs)).await.is(303);
        let answered = Url::parse(allowed.header("location")).unwrap();
        let code = answered.query_pairs().find(|(name, _)| name == "code").expect("a code").1.into_owned();
        (client, code)
    }

    /// The answer to a code.
    pub(crate) async fn redeem(server: &Server, client: &str, code: &str) -> Answer {
        let pairs = [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", REDIRECT),
            ("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        ];
        Self::exchange(server, &pairs).await
    }

    async fn exchange(server: &Server, pairs: &[(&str, &str)]) -> Answer {
        Answer::read(server.client().request(Method::POST, "/auth/oauth2/token").form(pairs)).await
    }

    /// The answer to a request with the access token.
    pub(crate) async fn get(&self, server: &Server, path: &str) -> Answer {
        Answer::read(server.client().request(Method::GET, path).bearer_auth(&self.access)).await
    }

    /// The answer to the refresh token.
    pub(crate) async fn refresh(&self, server: &Server) -> Answer {
        let pairs = [("grant_type", "refresh_token"), ("client_id", &*self.client), ("refresh_token", &*self.refresh)];
        Self::exchange(server, &pairs).await
    }
}

/// The value of a hidden field of a page.
pub(crate) fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("the page has {name}: {page}")).1;
    rest.split_once('"').unwrap().0.replace("&amp;", "&")
}

fn tool(name: &str) -> String {
    format!("{}/tools/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Makes all tokens expire.
async fn expire_tokens(server: &Server, database: &Database) {
    let statement = "UPDATE api_tokens SET expires_at = created_at WHERE expires_at IS NOT NULL";
    database.execute(server.folder(), statement).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_sdk_connects_with_only_the_url() {
    let Some(_) = node_tools() else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let database = Database::Sqlite;
    let server = served(&database).await;
    let url = format!("{}/mcp", base(&server));
    let mut agent = Conversation::start(node(), &[tool("mcp-connect.mjs"), url]);
    let asked = agent.step().await;
    assert_eq!((&asked["refused"], &asked["registered"]), (&json!(true), &json!(true)), "{asked}");

    // A user who is not signed in yet.
    sign_in(&browser, &asked).await;
    browser.sees("Connect An agent?").await;
    browser.sees("gets access to the tools (MCP) only").await;
    browser.press("Allow").await;
    browser.sees("The application is connected.").await;
    let connected = agent.step().await;
    assert_eq!(connected["failed"], false, "{connected}");
    assert_eq!((&connected["state"], &connected["iss"]), (&json!("a-state-of-the-client"), &json!(base(&server))));
    assert!(connected["tools"].as_array().unwrap().contains(&json!("notes_create")), "{connected}");

    refreshes_until_disconnected("An agent", agent, &browser, &server, &database).await;
}

/// Opens the page that an agent asks its user to open, and signs in there.
async fn sign_in(browser: &Browser, asked: &Value) {
    browser.open(asked["open"].as_str().unwrap()).await;
    browser.fill("Email", ADA).await;
    browser.fill("Password", PASSWORD).await;
    browser.press("Sign in").await;
}

/// A connected agent gets new tokens when its own expire, and none once its user disconnects it.
async fn refreshes_until_disconnected(
    name: &str,
    mut agent: Conversation,
    browser: &Browser,
    server: &Server,
    database: &Database,
) {
    expire_tokens(server, database).await;
    agent.resume();
    assert_eq!(agent.step().await, json!({ "failed": false, "isNew": true }));

    browser.open(&format!("{}/account/programs", base(server))).await;
    browser.sees(name).await;
    browser.press("Disconnect").await;
    browser.sees("The application is disconnected").await;
    agent.resume();
    assert_eq!(agent.step().await, json!({ "refused": true, "asks": true }));
    assert_eq!(notes(server).await, 2);
}

/// The site where an application publishes its metadata document, with a certificate of a private authority.
struct Published {
    url: String,
    /// The authority's certificate file.
    authority: String,
    _pages: Pages,
    _folder: Folder,
}

async fn publish(name: &str) -> Published {
    let pages = Pages::bind().await;
    let upstream = pages.origin("127.0.0.1").replace("http://", "");
    let proxy = TlsProxy::start(upstream, Opening::Tls).await.unwrap();
    let url = format!("https://localhost:{}/client.json", proxy.port);
    let document = json!({
        "client_id": url,
        "client_name": name,
        // Its port is chosen when the program runs (RFC 8252, section 7.3).
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let folder = Folder::create("authority").unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, proxy.certificate).unwrap();
    Published {
        url,
        authority: authority.to_str().unwrap().to_owned(),
        _pages: pages.answering(Site::default().text("/client.json", &document.to_string())),
        _folder: folder,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_typescript_sdk_connects_by_its_metadata_document() {
    let Some(_) = node_tools() else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let database = Database::postgres().await.unwrap_or(Database::Sqlite);
    let published = publish("A published agent").await;
    // Registration is off: the document is the only way.
    let configuration = CONFIGURATION.replace("dynamic_registration = true\n", "");
    let server = Launch::configured(&configuration).env("SSL_CERT_FILE", &published.authority).start(&database).await;
    server.client().register(ADA).await.is(200);
    let url = format!("{}/mcp", base(&server));
    let mut agent = Conversation::start(node(), &[tool("mcp-connect.mjs"), url, published.url.clone()]);
    let asked = agent.step().await;
    assert_eq!((&asked["refused"], &asked["registered"]), (&json!(true), &json!(false)), "{asked}");

    sign_in(&browser, &asked).await;
    browser.sees("Connect A published agent?").await;
    browser.sees("published at localhost").await;
    browser.press("Allow").await;
    browser.sees("The application is connected.").await;
    let connected = agent.step().await;
    assert_eq!(connected["failed"], false, "{connected}");
    assert!(connected["tools"].as_array().unwrap().contains(&json!("notes_create")), "{connected}");

    refreshes_until_disconnected("A published agent", agent, &browser, &server, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_in_two_tenants_chooses_the_one_that_an_agent_works_in() {
    let Some(_) = node_tools() else { return };
    let Some(browser) = Browser::start(Scripts::On).await else { return };
    let database = Database::Sqlite;
    let configuration = CONFIGURATION.replace("owner_field = \"user_id\"", "multi_tenant = true");
    let server = Launch::configured(&configuration).start(&database).await;
    server.client().register(ADA).await.is(200);
    for tenant in ["acme", "globex"] {
        let words = ["tenant", "add-member", tenant, ADA, "--unverified", "--database", &database.url()];
        assert_eq!(gatewright(server.folder(), &words, "").status, 0);
    }
    let url = format!("{}/mcp", base(&server));
    let mut agent = Conversation::start(node(), &[tool("mcp-connect.mjs"), url]);
    let asked = agent.step().await;
    sign_in(&browser, &asked).await;
    browser.sees("access to the data of this tenant only").await;
    // The browser first asks for a tenant.
    browser.press("Allow").await;
    browser.sees("Connect An agent?").await;
    browser.fill_by_id("tenant", "globex").await;
    browser.press("Allow").await;
    browser.sees("The application is connected.").await;
    let connected = agent.step().await;
    assert_eq!(connected["failed"], false, "no request of the agent names a tenant: {connected}");
    let ada = server.client();
    ada.log_in(ADA).await.is(200);
    for (tenant, found) in [("acme", 0), ("globex", 1)] {
        let list = ada.request(Method::GET, "/notes").header("X-Tenant-ID", tenant);
        assert_eq!(Answer::read(list).await.is(200).json()["total"], found, "{tenant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_without_a_trusted_certificate_is_refused() {
    let published = publish("A false agent").await;
    let server = served(&Database::Sqlite).await;
    let ada = server.client();
    ada.log_in(ADA).await.is(200);
    let query = format!(
        "response_type=code&client_id={}&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&code_challenge={}\
         &code_challenge_method=S256",
        published.url, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    );
    let refused = ada.get(&format!("/auth/oauth2/authorize?{query}")).await.is(400);
    assert!(refused.text.contains("metadata document cannot be fetched"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_python_sdk_connects_with_only_the_url() {
    let Some(python) = python_tools() else { return };
    let database = Database::postgres().await.unwrap_or(Database::Sqlite);
    let server = served(&database).await;
    let url = format!("{}/mcp", base(&server));
    let mut agent = Conversation::start(python.join("python"), &[&*tool("mcp_connect.py"), &url, ADA, PASSWORD]);
    let connected = agent.step().await;
    assert_eq!(connected["failed"], false, "{connected}");
    assert_eq!((&connected["registered"], &connected["asked"]), (&json!(true), &json!(1)), "{connected}");
    assert!(connected["tools"].as_array().unwrap().contains(&json!("notes_create")), "{connected}");

    expire_tokens(&server, &database).await;
    agent.resume();
    assert_eq!(agent.step().await, json!({ "failed": false, "is_new": true, "asked": 1 }));

    // Deleting the account ends the connections of its programs.
    let words = ["user", "delete", ADA, "--yes", "--database", &database.url()];
    assert_eq!(gatewright(server.folder(), &words, "").status, 0);
    agent.resume();
    assert_eq!(agent.step().await, json!({ "refused": true, "asked": 2 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_oauth_libraries_do_the_code_flow_and_client_credentials() {
    let (Some(python), Some(_)) = (python_tools(), node_tools()) else { return };
    let database = Database::Sqlite;
    let server = served(&database).await;
    let made = |words: &[&str]| -> Value {
        let url = database.url();
        let words = [&["client", "create"], words, &["--json", "--database", &url]].concat();
        let made = gatewright(server.folder(), &words, "");
        serde_json::from_str(&made.out).unwrap_or_else(|_| panic!("{}", made.err))
    };
    let words = ["service-account", "create", "reporter", "--roles", "user", "--database", &database.url()];
    assert_eq!(gatewright(server.folder(), &words, "").status, 0);
    let public = made(&["An app", "--redirect-uri", "http://127.0.0.1:9/callback", "--public"]);
    let service = made(&["reports", "--service", "reporter", "--scopes", "notes:read"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let words = [
        base(&server),
        ADA.to_owned(),
        PASSWORD.to_owned(),
        text(&public["client_id"]),
        text(&service["client_id"]),
        text(&service["client_secret"]),
    ];

    let script = tool("oauth_client.py");
    let report = run(python.join("python"), &[&[script][..], &words].concat()).await;
    let mut report: Value = serde_json::from_str(&report).unwrap();
    let token = report["token"].take();
    assert_eq!((&token["token_type"], &token["expires_in"]), (&json!("Bearer"), &json!(3600)), "{token}");
    let expected = json!({
        "state": true, "issuer": true, "token": null, "made": 201, "elsewhere": 401, "refreshed": 1, "revoked": 401,
        "client_secret_basic": [200, true, "notes:read"], "client_secret_basic_write": 403,
        "client_secret_post": [200, true, "notes:read"], "client_secret_post_write": 403,
    });
    assert_eq!(report, expected);

    let script = tool("oauth-client.mjs");
    let report = run(node(), &[&[script][..], &words].concat()).await;
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = json!({
        "tokens": ["bearer", 3600, "notes:read"], "elsewhere": "invalid_token", "rotated": true, "revoked": null,
        "again": "invalid_grant", "basic": [200, true], "post": [200, true], "wrong": "basic",
    });
    let keep = |(name, value): (&String, &Value)| (!value.is_null()).then(|| (name.clone(), value.clone()));
    let told: serde_json::Map<String, Value> = expected.as_object().unwrap().iter().filter_map(keep).collect();
    assert_eq!(report, Value::Object(told));
}

async fn notes(server: &Server) -> u64 {
    let ada = server.client();
    ada.log_in(ADA).await.is(200);
    ada.get("/notes").await.is(200).json()["total"].as_u64().unwrap()
}
