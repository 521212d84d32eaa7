use gatewright_base::{Roles, nearest};

use super::Config;

impl Config {
    /// What is probably not meant about roles that an account is given, in one sentence each: those that neither `[roles]`, `[admin]` nor
    /// `auth.default_roles` names permit nothing.
    pub fn role_warnings(&self, roles: &Roles) -> Vec<String> {
        let administers = self.has_admin().then_some(&*self.admin.role);
        let known = || self.roles.keys().map(String::as_str).chain(self.auth.default_roles.iter()).chain(administers);
        let unknown = roles.iter().filter(|role| known().all(|name| name != *role));
        let sentence = |role: &str| {
            let hint = nearest(role, known()).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            format!("no role \"{role}\" is in [roles], so that it permits nothing{hint}")
        };
        unknown.map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_that_permit_nothing_are_told_with_the_nearest_that_do() {
        let mut config = Config::default();
        config.roles.insert("editor".to_owned(), gatewright_base::Grants::default());
        let warnings = config.role_warnings(&["user", "editor", "edtor", "Königin"].into_iter().collect());
        assert_eq!(
            warnings,
            [
                "no role \"edtor\" is in [roles], so that it permits nothing; did you mean \"editor\"?",
                "no role \"Königin\" is in [roles], so that it permits nothing",
            ]
        );
        assert!(config.role_warnings(&Roles::default()).is_empty());
    }
}
