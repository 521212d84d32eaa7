use std::net::SocketAddr;

use gatewright_base::{RolePermissions, Roles};
use gatewright_entities::access::Demand;
use gatewright_entities::{Entities, Plan};

use crate::Config;

/// What the server says when it is ready: where it listens, what is there to look at, and one command to paste.
#[derive(Debug, Clone)]
pub(super) struct Banner {
    address: SocketAddr,
    auth: Option<String>,
    /// What else there is to open, with its path.
    places: Vec<(&'static str, &'static str)>,
    /// The path of a list that a new user may read.
    list: Option<String>,
}

impl Banner {
    pub(super) fn new(config: &Config, entities: &Entities) -> Self {
        let table = RolePermissions::new(config.roles.clone());
        let readable = |plan: &&Plan| plan.crud() && opens_to(plan, &config.auth.default_roles, &table);
        let plans = || entities.plans().iter().map(|plan| &**plan);
        // A list that asks who is calling shows more than one that is open to everybody.
        let list = plans().filter(readable).find(|plan| plan.rules().read != Demand::Public);
        let list = list.or_else(|| plans().find(|plan| readable(plan)));
        Self {
            address: config.server.listen,
            auth: config.auth.enabled.then(|| config.auth.base_path.clone()),
            places: [
                (config.docs, ("API docs at ", "/api/docs")),
                (config.mcp, ("tools at    ", "/mcp")),
                (config.server.dev_mode, ("mailbox at  ", "/dev/mail")),
            ]
            .into_iter()
            .filter_map(|(on, place)| on.then_some(place))
            .collect(),
            list: list.map(|plan| format!("{}/{}", config.api_prefix(), plan.table())),
        }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let base = format!("http://{}", self.reachable());
        let mut lines = vec![format!("listening on http://{}", self.address)];
        if self.auth.is_some() {
            lines.push(format!("sign in at   {base}/login"));
            lines.push(format!("account at   {base}/account"));
        }
        lines.extend(self.places.iter().map(|(what, path)| format!("{what} {base}{path}")));
        if let (Some(auth), Some(list)) = (&self.auth, &self.list) {
            lines.push("register a user and read a list:".to_owned());
            lines.extend(command(&base, auth, list));
        }
        lines
    }

    /// An address that a command on this computer can use.
    fn reachable(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        address
    }
}

/// A command for any POSIX shell with curl. It may be pasted twice: where the user is there already, signing in answers
/// with a token too.
fn command(base: &str, auth: &str, list: &str) -> [String; 4] {
    [
        format!(r#"curl -s {base}{list} -H "Authorization: Bearer $(for step in register login; do \"#),
        format!(r"  curl -s {base}{auth}/$step -H 'Content-Type: application/json' \"),
        r#"  -d '{"email":"ada@example.com","password":"correct-horse-battery"}'; done | \"#.to_owned(),
        r#"  sed 's/.*"token":"\([^"]*\)".*/\1/')""#.to_owned(),
    ]
}

fn opens_to(plan: &Plan, roles: &Roles, table: &RolePermissions) -> bool {
    match &plan.rules().read {
        Demand::Public | Demand::SignedIn => true,
        Demand::Permission(permission) => table.permit(roles, permission),
    }
}
