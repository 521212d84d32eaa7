//! A certified OpenID Connect provider, and a user who fills in its pages.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use gatewright_servers::Watchdog;
use reqwest::{Method, Url};

use super::{Answer, Client};

/// `oidc-provider` on its own port. Dropping it ends it.
pub(crate) struct IdentityProvider {
    pub(crate) issuer: String,
    child: Child,
    /// Kept open: it prints more than the first line, and ends if nobody can read that.
    _output: BufReader<ChildStdout>,
    _watchdog: Watchdog,
}

/// The secret of its client `gatewright`.
pub(crate) const CLIENT_SECRET: &str = "canary-client-secret-of-the-identity-provider";

/// The maximum number of pages of one sign-in.
const PAGES: usize = 20;

impl IdentityProvider {
    /// Starts a provider that signs with `alg`, has users with addresses at `domain`, and redirects browsers to
    /// `redirect`. `None` if its packages are neither installed nor required.
    pub(crate) fn start(alg: &str, domain: &str, redirect: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("identity-provider");
        if !folder.join("node_modules/oidc-provider").exists() {
            assert!(env::var_os("GATEWRIGHT_TEST_REQUIRED").is_none(), "`npm ci` has not run in {}", folder.display());
            return None;
        }
        let node = env::var_os("GATEWRIGHT_TEST_NODE").unwrap_or_else(|| "node".into());
        let mut child = Command::new(node)
            .args(["provider.mjs", alg, domain, redirect])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let watchdog = Watchdog::start(child.id().into(), "TERM", None).unwrap();
        let mut first = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut first).unwrap();
        let issuer = first.trim().strip_prefix("issuer ").expect("the provider starts").to_owned();
        Some(Self { issuer, child, _output: output, _watchdog: watchdog })
    }

    /// `[[auth.oauth.oidc]]` for it.
    pub(crate) fn configuration(&self, name: &str) -> String {
        let issuer = &self.issuer;
        format!(
            "[[auth.oauth.oidc]]\nname = \"{name}\"\nissuer = \"{issuer}\"\nclient_id = \"gatewright\"\n\
             client_secret = \"{CLIENT_SECRET}\"\n"
        )
    }

    /// Follows a browser from `start`, a path of the server, through the provider's pages, where it signs in as `login`
    /// and consents, and back. Returns the address of the callback without requesting it.
    pub(crate) async fn walk(&self, client: &Client, start: &str, login: &str) -> Url {
        let mut answer = client.get(start).await.is(303);
        for _ in 0..PAGES {
            let next = match answer.headers.get("location") {
                Some(location) => self.absolute(location.to_str().unwrap()),
                None => {
                    let form = Form::of(&answer.text);
                    let fields: Vec<(&str, &str)> = match form.prompt.as_str() {
                        "login" => vec![("prompt", "login"), ("login", login), ("password", "anything")],
                        prompt => vec![("prompt", prompt)],
                    };
                    let request = client.request_at(Method::POST, self.absolute(&form.action)).form(&fields);
                    answer = Answer::read(request).await;
                    continue;
                }
            };
            if !next.as_str().starts_with(&self.issuer) {
                return next;
            }
            answer = Answer::read(client.request_at(Method::GET, next)).await;
        }
        panic!("no end of pages: {}", answer.text);
    }

    fn absolute(&self, location: &str) -> Url {
        Url::parse(&self.issuer).unwrap().join(location).unwrap()
    }
}

/// The form of one of its pages.
struct Form {
    action: String,
    prompt: String,
}

impl Form {
    fn of(page: &str) -> Self {
        let after = |page: &str, mark: &str| {
            let (_, rest) = page.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {page}"));
            rest.split_once('"').unwrap().0.to_owned()
        };
        let (_, form) = page.split_once("<form").unwrap_or_else(|| panic!("no form in {page}"));
        Self { action: after(form, "action=\""), prompt: after(form, "name=\"prompt\" value=\"") }
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
