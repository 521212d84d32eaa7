//! A real browser: chromium, driven by `chromedriver`. It can reach only this computer.
//!
//! `WebDriver` (W3C) is JSON over HTTP, so the tests use their HTTP client. This module has the commands that they
//! need.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_servers::{Folder, Watchdog, find_program};
use reqwest::Method;
use serde_json::{Value, json};

/// How long a test waits for a page to change.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A browser with an empty profile. Dropping it ends it.
pub(crate) struct Browser {
    http: reqwest::Client,
    driver: Driver,
    scripts: Scripts,
    /// Whether the last typed code has sent its form by itself, so that the button which follows is not pressed.
    sent_itself: AtomicBool,
    _profile: Folder,
}

/// How long a page may still be shown after its form is sent.
const LEAVING: Duration = Duration::from_secs(3);

/// The width and height of a page.
const SIZE: &str = "const all = document.documentElement; arguments[0]([all.clientWidth, all.scrollHeight]);";

/// The key of an element in `WebDriver`'s JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Whether pages may run scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    On,
    Off,
}

struct Driver {
    child: Child,
    port: u16,
    session: String,
    _watchdog: Watchdog,
}

impl Browser {
    /// Starts a browser. `None` without the programs, which `cargo xtask test` requires.
    pub(crate) async fn start(scripts: Scripts) -> Option<Self> {
        let chromium = program("GATEWRIGHT_TEST_CHROMIUM", &["chromium", "chromium-browser", "google-chrome"])?;
        let chromedriver = program("GATEWRIGHT_TEST_CHROMEDRIVER", &["chromedriver"])?;
        let mut driver = Driver::start(&chromedriver);
        let profile = Folder::create("browser").unwrap();
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=900,1200",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
        ];
        let profile_argument = format!("--user-data-dir={}", profile.path().display());
        let arguments: Vec<&str> = arguments.into_iter().chain([&*profile_argument]).collect();
        let javascript = if scripts == Scripts::On { 1 } else { 2 };
        let options = json!({
            "binary": chromium,
            "args": arguments,
            "prefs": { "profile.managed_default_content_settings.javascript": javascript },
        });
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "SEVERE" },
            "timeouts": { "script": 120_000 },
        } } });
        let http = reqwest::Client::new();
        let address = format!("http://127.0.0.1:{}/session", driver.port);
        let begun = http.post(address).json(&capabilities).send().await.unwrap().json::<Value>().await.unwrap();
        driver.session =
            begun["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {begun}")).to_owned();
        Some(Self { http, driver, scripts, sent_itself: AtomicBool::new(false), _profile: profile })
    }

    pub(crate) async fn open(&self, url: &str) {
        self.sent_itself.store(false, Ordering::Relaxed);
        self.post("url", json!({ "url": url })).await;
    }

    /// Goes back to the previous page.
    pub(crate) async fn back(&self) {
        self.post("back", json!({})).await;
    }

    /// The current address.
    pub(crate) async fn url(&self) -> String {
        self.get("url").await.as_str().unwrap().to_owned()
    }

    /// The current path, with its query.
    pub(crate) async fn path(&self) -> String {
        let url = self.url().await;
        let (_, path) = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).unwrap_or_default();
        format!("/{path}")
    }

    /// The visible text of the page.
    pub(crate) async fn text(&self) -> String {
        self.texts("body").await.remove(0)
    }

    /// Waits until the page has this text.
    pub(crate) async fn sees(&self, words: &str) {
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        self.find(&format!("//body[contains(normalize-space(.), {})]", quoted(&words))).await;
    }

    /// Types into the first field with this label, and replaces its content.
    pub(crate) async fn fill(&self, label: &str, text: &str) {
        let field = self.find(&format!("//*[@id=//label[normalize-space(.)={}]/@for]", quoted(label))).await;
        self.uncover(&field).await;
        self.post(&format!("element/{field}/clear"), json!({})).await;
        self.type_into(&field, text).await;
    }

    /// Types into the field with this id.
    pub(crate) async fn fill_by_id(&self, id: &str, text: &str) {
        let field = self.find(&format!("//*[@id={}]", quoted(id))).await;
        self.uncover(&field).await;
        self.type_into(&field, text).await;
    }

    /// Types into the field with this name.
    pub(crate) async fn fill_by_name(&self, name: &str, text: &str) {
        let field = self.find(&format!("//*[@name={} and not(@type='hidden')]", quoted(name))).await;
        self.uncover(&field).await;
        self.type_into(&field, text).await;
    }

    /// Presses a key, in the element that has the focus: `\u{e004}` is Tab, `\u{e007}` Enter.
    pub(crate) async fn key(&self, key: &str) {
        let press = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": press });
        self.post("actions", json!({ "actions": [keyboard] })).await;
    }

    /// Types into the element that has the focus.
    pub(crate) async fn types(&self, text: &str) {
        for letter in text.chars() {
            self.key(&letter.to_string()).await;
        }
    }

    /// Types, and waits until the page is gone if the field is that of a code, which sends itself at its last digit.
    async fn type_into(&self, field: &str, text: &str) {
        let digits = self.get(&format!("element/{field}/attribute/data-digits")).await;
        let digits = digits.as_str().and_then(|digits| digits.parse::<usize>().ok());
        let is_code = text.chars().all(|letter| letter.is_ascii_digit()) && digits == Some(text.len());
        self.post(&format!("element/{field}/value"), json!({ "text": text })).await;
        if is_code && self.scripts == Scripts::On {
            self.leave(field).await;
            self.sent_itself.store(true, Ordering::Relaxed);
        }
    }

    /// Opens the closed parts of the page that an element is in.
    async fn uncover(&self, element: &str) {
        let closed = json!({ "using": "xpath", "value": "./ancestor::details[not(@open)]/summary" });
        let path = format!("element/{element}/elements");
        let Ok(found) = self.attempt(Method::POST, &path, Some(closed)).await else { return };
        for summary in found.as_array().into_iter().flatten().filter_map(|summary| summary[ELEMENT].as_str()) {
            self.post(&format!("element/{summary}/click"), json!({})).await;
        }
    }

    /// Waits until the browser is at this address.
    pub(crate) async fn arrives(&self, url: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.url().await != url {
            assert!(Instant::now() < deadline, "{} is shown, and not {url}", self.url().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an `XPath` expression finds something.
    pub(crate) async fn waits_for(&self, path: &str) {
        drop(self.find(path).await);
    }

    /// Presses the first button with this name.
    pub(crate) async fn press(&self, name: &str) {
        if self.sent_itself.swap(false, Ordering::Relaxed) {
            return;
        }
        self.click(&button(name)).await;
    }

    /// Presses the first button with this name, and waits until its page is gone: see [`Browser::submit`].
    pub(crate) async fn press_and_leave(&self, name: &str) {
        if self.sent_itself.swap(false, Ordering::Relaxed) {
            return;
        }
        let button = self.find(&button(name)).await;
        self.leave_by(&button).await;
    }

    /// Presses the first button within the element of a CSS selector, and waits until its page is gone: the driver
    /// returns while a form may still be submitted. A page whose form is sent by a script stays.
    pub(crate) async fn submit(&self, selector: &str) {
        self.submit_by(&format!("{selector} button:not([type=button])")).await;
    }

    /// The same with the first button of a CSS selector.
    pub(crate) async fn submit_by(&self, button: &str) {
        if self.sent_itself.swap(false, Ordering::Relaxed) {
            return;
        }
        let found = self.post("elements", json!({ "using": "css selector", "value": button })).await;
        self.leave_by(found[0][ELEMENT].as_str().unwrap_or_else(|| panic!("there is no {button}"))).await;
    }

    /// Clicks an element, and waits until its page is gone.
    async fn leave_by(&self, element: &str) {
        self.uncover(element).await;
        self.post(&format!("element/{element}/click"), json!({})).await;
        self.leave(element).await;
    }

    /// Waits until an element's page is gone.
    async fn leave(&self, element: &str) {
        let (name, deadline) = (format!("element/{element}/name"), Instant::now() + LEAVING);
        while self.attempt(Method::GET, &name, None).await.is_ok() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Follows the first link with this name.
    pub(crate) async fn follow(&self, name: &str) {
        self.click(&format!("//a[normalize-space(.)={}]", quoted(name))).await;
    }

    /// Clicks the element that an `XPath` expression finds. If the page is redrawn in between, it searches again.
    async fn click(&self, path: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let element = self.find(path).await;
            self.uncover(&element).await;
            let clicked = self.attempt(Method::POST, &format!("element/{element}/click"), Some(json!({}))).await;
            let Err(answer) = clicked else { return };
            let stale = answer["value"]["error"] == "stale element reference";
            assert!(stale && Instant::now() < deadline, "click on {path}: {answer}");
        }
    }

    /// The texts of all elements that a CSS selector finds.
    pub(crate) async fn texts(&self, selector: &str) -> Vec<String> {
        let found = self.post("elements", json!({ "using": "css selector", "value": selector })).await;
        let mut texts = Vec::new();
        for element in found.as_array().unwrap() {
            let element = element[ELEMENT].as_str().unwrap();
            texts.push(self.get(&format!("element/{element}/text")).await.as_str().unwrap().to_owned());
        }
        texts
    }

    /// Runs a script whose last argument is called with the result.
    pub(crate) async fn run(&self, script: &str, arguments: Value) -> Value {
        self.post("execute/async", json!({ "script": script, "args": arguments })).await
    }

    /// Runs a script that needs a library, which defines `global`. A page gets the library once: it is large.
    pub(crate) async fn run_with(&self, (global, library): (&str, &str), script: &str) -> Value {
        let is_there = self.run("arguments[1](arguments[0] in window)", json!([global])).await;
        if is_there == json!(false) {
            self.run(&format!("{library}\narguments[0]()"), json!([])).await;
        }
        self.run(script, json!([])).await
    }

    /// The errors in the browser's console since the last call: exceptions, refused scripts, requests that failed.
    pub(crate) async fn console_errors(&self) -> Vec<String> {
        let entries = self.post("se/log", json!({ "type": "browser" })).await;
        entries.as_array().unwrap().iter().map(|entry| entry["message"].to_string()).collect()
    }

    /// The tab that commands go to.
    pub(crate) async fn tab(&self) -> String {
        self.get("window").await.as_str().unwrap().to_owned()
    }

    /// Opens another tab, which commands go to from now on, and returns it.
    pub(crate) async fn open_tab(&self) -> String {
        let made = self.post("window/new", json!({ "type": "tab" })).await;
        let tab = made["handle"].as_str().unwrap().to_owned();
        self.switch_to(&tab).await;
        tab
    }

    /// Sends commands to this tab.
    pub(crate) async fn switch_to(&self, tab: &str) {
        self.post("window", json!({ "handle": tab })).await;
    }

    /// Closes the tab that commands go to.
    pub(crate) async fn close_tab(&self) {
        self.command(Method::DELETE, "window", None).await;
    }

    /// The names of the cookies that this page's origin gets.
    pub(crate) async fn cookies(&self) -> Vec<String> {
        let cookies = self.get("cookie").await;
        cookies.as_array().unwrap().iter().map(|cookie| cookie["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Adds a built-in authenticator to the browser. Its user is present and consents. Returns its id.
    pub(crate) async fn authenticator(&self) -> String {
        let wanted = json!({
            "protocol": "ctap2",
            "transport": "internal",
            "hasResidentKey": true,
            "hasUserVerification": true,
            "isUserConsenting": true,
            "isUserVerified": true,
        });
        self.post("webauthn/authenticator", wanted).await.as_str().unwrap().to_owned()
    }

    /// The passkeys of an authenticator.
    pub(crate) async fn passkeys(&self, authenticator: &str) -> Vec<Value> {
        self.get(&format!("webauthn/authenticator/{authenticator}/credentials")).await.as_array().unwrap().clone()
    }

    /// Removes a passkey from an authenticator.
    pub(crate) async fn forgets_passkey(&self, authenticator: &str, passkey: &Value) {
        let id = passkey["credentialId"].as_str().unwrap();
        let command = format!("webauthn/authenticator/{authenticator}/credentials/{id}");
        self.command(Method::DELETE, &command, None).await;
    }

    /// Adds a passkey to an authenticator.
    pub(crate) async fn takes_passkey(&self, authenticator: &str, passkey: &Value) {
        self.post(&format!("webauthn/authenticator/{authenticator}/credential"), passkey.clone()).await;
    }

    /// Makes the browser request pages in these languages.
    pub(crate) async fn reads(&self, languages: &str) {
        let headers = json!({ "headers": { "Accept-Language": languages } });
        self.devtools("Network.enable", json!({})).await;
        self.devtools("Network.setExtraHTTPHeaders", headers).await;
    }

    /// Saves a screenshot of the page to the folder `GATEWRIGHT_TEST_SCREENSHOTS`, if that is set.
    pub(crate) async fn picture(&self, name: &str) {
        if let Some(folder) = env::var_os("GATEWRIGHT_TEST_SCREENSHOTS") {
            let picture = STANDARD.decode(self.get("screenshot").await.as_str().unwrap()).unwrap();
            fs::write(PathBuf::from(folder).join(format!("{name}.png")), picture).unwrap();
        }
    }

    /// The same for the whole page, as if the window were high enough.
    pub(crate) async fn whole_picture(&self, name: &str) {
        if let Some(folder) = env::var_os("GATEWRIGHT_TEST_SCREENSHOTS") {
            let size = self.run(SIZE, json!([])).await;
            let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1 });
            let parameters = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
            let taken =
                self.post("goog/cdp/execute", json!({ "cmd": "Page.captureScreenshot", "params": parameters })).await;
            let picture = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
            fs::write(PathBuf::from(folder).join(format!("{name}.png")), picture).unwrap();
        }
    }

    /// Deletes a cookie of this page.
    pub(crate) async fn forgets_cookie(&self, name: &str) {
        self.command(Method::DELETE, &format!("cookie/{name}"), None).await;
    }

    /// Sets the width and height of the window, in pixels.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        self.post("window/rect", json!({ "width": width, "height": height })).await;
    }

    /// Emulates a screen of this width and height, and a color scheme: `light` or `dark`.
    pub(crate) async fn emulates(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await;
    }

    /// Waits for the first element that an `XPath` expression finds.
    async fn find(&self, path: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let found = self.post("elements", json!({ "using": "xpath", "value": path })).await;
            if let Some(element) = found[0][ELEMENT].as_str() {
                return element.to_owned();
            }
            assert!(Instant::now() < deadline, "{path} is not on {}:\n{}", self.url().await, self.text().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn get(&self, command: &str) -> Value {
        self.command(Method::GET, command, None).await
    }

    async fn post(&self, command: &str, body: Value) -> Value {
        self.command(Method::POST, command, Some(body)).await
    }

    async fn command(&self, method: Method, command: &str, body: Option<Value>) -> Value {
        self.attempt(method, command, body).await.unwrap_or_else(|answer| panic!("{command}: {answer}"))
    }

    async fn attempt(&self, method: Method, command: &str, body: Option<Value>) -> Result<Value, Value> {
        let address = format!("http://127.0.0.1:{}/session/{}/{command}", self.driver.port, self.driver.session);
        let request = self.http.request(method, address).timeout(5 * TIMEOUT);
        let request = body.iter().fold(request, reqwest::RequestBuilder::json);
        let response = request.send().await.unwrap();
        let worked = response.status().is_success();
        let mut answer = response.json::<Value>().await.unwrap();
        if worked { Ok(answer["value"].take()) } else { Err(answer) }
    }
}

impl Driver {
    fn start(program: &PathBuf) -> Self {
        let mut child = Command::new(program)
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let watchdog = Watchdog::start(child.id().into(), "TERM", None).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port =
            lines.find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
        // It must not block on a reader of its output.
        thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.expect("chromedriver says its port"), session: String::new(), _watchdog: watchdog }
    }

    /// Ends the browser, which is not a child of this process.
    fn end_session(&self) -> std::io::Result<()> {
        let session = &self.session;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        // The driver answers once the browser has ended, and leaves the connection open.
        stream.read(&mut [0; 64]).map(drop)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.end_session();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(variable: &str, names: &[&str]) -> Option<PathBuf> {
    let found = env::var_os(variable).map(PathBuf::from).or_else(|| names.iter().find_map(|name| find_program(name)));
    let required = env::var_os("GATEWRIGHT_TEST_REQUIRED").is_some();
    assert!(found.is_some() || !required, "`{}` is missing; run `cargo xtask test`", names[0]);
    found
}

/// The `XPath` of the buttons with this name.
fn button(name: &str) -> String {
    format!("//button[normalize-space(.)={}]", quoted(name))
}

/// The text as an `XPath` string. None of the tests' texts contains both kinds of quotes.
fn quoted(text: &str) -> String {
    if text.contains('\'') { format!("\"{text}\"") } else { format!("'{text}'") }
}
