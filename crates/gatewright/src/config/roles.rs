use gatewright_base::{Roles, nearest};
use gatewright_entities::Declarations;

use super::Config;

/// The resources of scopes that are not tables: the admin API, and pull consumers.
const SERVICES: [&str; 2] = ["admin", "consumers"];

impl Config {
    /// Warnings about the roles of an account, one sentence each: a role that is not in `[roles]`, `[admin]` or
    /// `auth.default_roles` permits nothing.
    pub fn role_warnings(&self, roles: &Roles) -> Vec<String> {
        let administers = self.has_admin().then_some(&*self.admin.role);
        let known = || self.roles.keys().map(String::as_str).chain(self.auth.default_roles.iter()).chain(administers);
        let unknown = roles.iter().filter(|role| known().all(|name| name != *role));
        let sentence = |role: &str| {
            let hint = nearest(role, known()).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            format!("no role \"{role}\" is in [roles], so it permits nothing{hint}")
        };
        unknown.map(sentence).collect()
    }

    /// Warnings about the scopes of a token, one sentence each: scopes of a resource that the configuration does not
    /// have. A program may have its own scopes.
    pub fn scope_warnings<'a>(&self, scopes: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let Ok(declarations) = Declarations::check(&self.declared()) else { return Vec::new() };
        let known = || declarations.tables().chain(SERVICES);
        let resources = scopes.into_iter().filter_map(|scope| Some((scope, scope.split_once(':')?.0)));
        let unknown = resources.filter(|(_, resource)| *resource != "*" && known().all(|name| name != *resource));
        let sentence = |(scope, resource): (&str, &str)| {
            let hint = nearest(resource, known()).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            format!("no entity has the table \"{resource}\", so that the scope \"{scope}\" permits nothing{hint}")
        };
        unknown.map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_that_permit_nothing_are_reported_with_a_suggestion() {
        let mut config = Config::default();
        config.roles.insert("editor".to_owned(), gatewright_base::Grants::default());
        let warnings = config.role_warnings(&["user", "editor", "edtor", "Königin"].into_iter().collect());
        assert_eq!(
            warnings,
            [
                "no role \"edtor\" is in [roles], so it permits nothing; did you mean \"editor\"?",
                "no role \"Königin\" is in [roles], so it permits nothing",
            ]
        );
        assert!(config.role_warnings(&Roles::default()).is_empty());
    }

    #[test]
    fn scopes_of_unknown_tables_are_reported_with_a_suggestion() {
        let config = Config::from_toml("f.toml", "[server]\ndev_mode = true\n[[entity]]\nname = \"posts\"\n").unwrap();
        assert_eq!(
            config.scope_warnings(["posts:read", "*:*", "admin:read", "consumers:crm", "post:read", "zebra:read"]),
            [
                "no entity has the table \"post\", so that the scope \"post:read\" permits nothing; did you mean \"posts\"?",
                "no entity has the table \"zebra\", so that the scope \"zebra:read\" permits nothing",
            ]
        );
    }
}
