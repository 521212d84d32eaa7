use gatewright_base::{RolePermissions, Roles};
use gatewright_entities::access::Demand;
use gatewright_entities::{Entities, Plan};

use crate::Config;
use crate::config::{Listen, Plugin, Server, is_loopback};
use crate::home::Place;

/// The output of the server when it is ready: the listening address, the addresses of mounted pages and, in dev mode, a
/// command to paste.
#[derive(Debug, Clone)]
pub(super) struct Banner {
    /// Where it listens, as addresses to open.
    listening: Vec<String>,
    /// The start of the addresses: that of `public_url`.
    base: String,
    has_auth: bool,
    /// A command that creates an administrator for the console: only in dev mode.
    administrator: Option<String>,
    /// Whether pages of this computer open streams over HTTP/1.1.
    has_streams: bool,
    /// Other pages to open, with their paths.
    places: Vec<(&'static str, &'static str)>,
    command: Option<Vec<String>>,
}

impl Banner {
    pub(super) fn new(config: &Config, entities: &Entities) -> Self {
        let table = RolePermissions::new(config.roles.clone());
        let readable = |plan: &&Plan| plan.crud() && opens_to(plan, &config.auth.default_roles, &table);
        let plans = || entities.plans().iter().map(|plan| &**plan);
        // A list that requires a caller shows more of the product than a public one.
        let list = plans().filter(readable).find(|plan| plan.rules().read != Demand::Public);
        let list = list.or_else(|| plans().find(|plan| readable(plan)));
        let base = base(config);
        let command = list.filter(|_| invites(config)).map(|plan| {
            let list = format!("{base}{}/{}", config.api_prefix(), plan.table());
            let auth = format!("{base}{}", config.auth.base_path);
            let has_csrf = config.csrf.enabled || config.browser_backend.is_some();
            if has_csrf { by_cookie(&auth, &list) } else { by_token(&auth, &list) }
        });
        Self {
            listening: listening(config),
            has_auth: config.auth.enabled,
            administrator: (config.has_admin() && config.server.dev_mode).then(|| administrator(config)),
            has_streams: config.server.dev_mode && plans().any(Plan::crud),
            places: [
                (config.docs, ("API docs at ", "/api/docs")),
                (config.mcp.enabled, ("tools at    ", "/mcp")),
                (cfg!(feature = "mail") && config.server.dev_mode, ("mailbox at  ", "/dev/mail")),
                (config.has_admin(), ("console at  ", "/admin")),
            ]
            .into_iter()
            .filter_map(|(on, place)| on.then_some(place))
            .collect(),
            base,
            command,
        }
    }

    /// The pages for the start page.
    pub(super) fn places(&self, config: &Config) -> Vec<Place> {
        let app = config.server.app_url.iter().map(|url| Place {
            name: "home.app",
            href: url.to_string(),
            address: url.to_string(),
        });
        let of_auth = [("home.sign_in", "/login"), ("home.account", "/account")];
        let of_auth = of_auth.into_iter().filter(|_| self.has_auth);
        let others = self.places.iter().filter_map(|(_, path)| match *path {
            "/admin" => Some(("home.console", *path)),
            "/api/docs" => Some(("home.docs", *path)),
            "/dev/mail" => Some(("home.mailbox", *path)),
            _ => None,
        });
        let own = of_auth.chain(others).map(|(name, path)| Place {
            name,
            href: path.to_owned(),
            address: format!("{}{path}", self.base),
        });
        app.chain(own).collect()
    }

    /// The command to paste.
    pub(super) fn command(&self) -> Option<Vec<String>> {
        self.command.clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let base = &self.base;
        let mut lines: Vec<_> = self.listening.iter().map(|place| format!("listening on {place}")).collect();
        if self.has_auth {
            lines.push(format!("sign in at   {base}/login"));
            lines.push(format!("account at   {base}/account"));
        }
        lines.extend(self.places.iter().map(|(what, path)| format!("{what} {base}{path}")));
        lines.extend(self.administrator.clone());
        if self.has_streams {
            lines.push(STREAMS.to_owned());
        }
        if let Some(command) = &self.command {
            lines.push("register a user and read a list:".to_owned());
            lines.extend(command.iter().cloned());
        }
        lines
    }
}

/// The limit that a page with several streams reaches first.
const STREAMS: &str = "event streams: a browser opens at most six connections to this server, for all tabs; \
                       @gatewright/client shares them (docs/typescript.md)";

/// The start of the printed addresses: `public_url`. In dev mode, if that is another port of this computer, it is the
/// listening address, since `--listen` may have moved the server away from the configured port.
/// listening address, since `--listen` may have moved the server away from the configured port.
fn base(config: &Config) -> String {
    let listening =
        Config { server: Server { public_url: None, ..config.server.clone() }, ..config.clone() }.public_url();
    let public = config.public_url();
    let is_elsewhere = public.port_or_known_default() != listening.port();
    let moved = config.server.dev_mode && public.scheme() == "http" && is_loopback(&public) && is_elsewhere;
    if moved { listening } else { public }.origin().ascii_serialization()
}

/// The way into the console.
fn administrator(config: &Config) -> String {
    let factor = if config.admin.require_two_factor { ", then turn on the second factor at /account" } else { "" };
    format!("for the console: gatewright user create EMAIL --admin --dev{factor}")
}

/// Whether to print a command that registers an account: never in production.
fn invites(config: &Config) -> bool {
    config.server.dev_mode && config.auth.enabled && config.plugins().contains(&Plugin::Core)
}

const PERSON: &str = r#"{"email":"ada@example.com","password":"correct-horse-battery"}"#;

/// A command for any POSIX shell with curl. It may be run twice: if the user exists already, signing in also returns a
/// token.
fn by_token(auth: &str, list: &str) -> Vec<String> {
    vec![
        format!(r#"curl -s {list} -H "Authorization: Bearer $(for step in register login; do \"#),
        format!(r"  curl -s {auth}/$step -H 'Content-Type: application/json' \"),
        format!(r"  -d '{PERSON}'; done | \"),
        r#"  sed 's/.*"token":"\([^"]*\)".*/\1/')""#.to_owned(),
    ]
}

/// The same if requests need a CSRF token, and signing in may return no token: with cookies, as in a browser. Each step
/// requests its own CSRF token, since signing in replaces it.
fn by_cookie(auth: &str, list: &str) -> Vec<String> {
    vec![
        format!(
            r#"jar=$(mktemp); csrf() {{ curl -s -b "$jar" -c "$jar" {auth}/csrf | sed 's/.*:"\([^"]*\)".*/\1/'; }}; \"#
        ),
        format!(r#"  for step in register login; do curl -s -o /dev/null -b "$jar" -c "$jar" {auth}/$step \"#),
        r#"  -H "X-CSRF-Token: $(csrf)" -H 'Content-Type: application/json' \"#.to_owned(),
        format!(r#"  -d '{PERSON}'; done; curl -s -b "$jar" {list}"#),
    ]
}

fn listening(config: &Config) -> Vec<String> {
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let place = |listen: &Listen| match listen {
        Listen::Tcp(address) => format!("{scheme}://{address}"),
        Listen::Unix(_) => listen.to_string(),
    };
    config.server.listen.iter().map(place).collect()
}

fn opens_to(plan: &Plan, roles: &Roles, table: &RolePermissions) -> bool {
    match &plan.rules().read {
        Demand::Public | Demand::SignedIn => true,
        Demand::Permission(permission) => table.permit(roles, permission),
    }
}
